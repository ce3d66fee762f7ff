// SPDX-License-Identifier: Apache-2.0
// abandon: leaves what is another's as it is, for ever, such as a parent's threads and devices in a
// forked child, where ending them would wait for threads that are not there.
// The one thing to know: nothing of the object is run or even looked at, so a thread that was not
// forked may have been in the middle of changing it; LeakSanitizer still finds what it held.
//
//   base::abandon(self.devices_);  // An empty vector now.
#pragma once

#include <cstddef>
#include <memory>
#include <new>

namespace hpu::base {
namespace internal {
/// Where the process can reach it for ever. Without host memory it is only lost to leak checkers.
void keepCopy(const void* bytes, size_t size) noexcept;
}  // namespace internal

/// Gives `object` a new value in the place of the old one, which is never destroyed. Locks can be
/// abandoned, too, whoever holds them. Any thread may call.
template <typename T>
void abandon(T& object) noexcept {
  internal::keepCopy(std::addressof(object), sizeof object);
  ::new (static_cast<void*>(std::addressof(object))) T();
}

}  // namespace hpu::base
