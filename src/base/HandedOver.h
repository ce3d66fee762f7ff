// SPDX-License-Identifier: Apache-2.0
// HandedOverAllocator: for small objects, of which there may be very many, that another thread frees.
// The one thing to know: glibc puts blocks of up to 128 bytes aside when a thread frees one of another's, and puts all
// of them together at once when somebody asks for a large block: with a backlog of 100,000 that is milliseconds, of the
// thread that enqueues. Larger blocks are put together one by one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>
#include <utility>

namespace hpu::base {

template <typename T>
struct HandedOverAllocator {
  using value_type = T;
  HandedOverAllocator() = default;
  template <typename U>
  HandedOverAllocator(const HandedOverAllocator<U>&) noexcept {}

  T* allocate(size_t count) { return static_cast<T*>(::operator new(bytes(count))); }
  void deallocate(T* memory, size_t count) noexcept { ::operator delete(memory, bytes(count)); }
  friend bool operator==(const HandedOverAllocator&, const HandedOverAllocator&) { return true; }

 private:
  static_assert(alignof(T) <= alignof(std::max_align_t));
  static constexpr size_t kAside = 128;  ///< What glibc's mallopt(3) names M_MXFAST, by default on 64-bit machines.
  static size_t bytes(size_t count) { return std::max(count * sizeof(T), kAside + alignof(std::max_align_t)); }
};

/// As std::make_shared.
template <typename T, typename... Arguments>
std::shared_ptr<T> makeHandedOver(Arguments&&... arguments) {
  return std::allocate_shared<T>(HandedOverAllocator<T>(), std::forward<Arguments>(arguments)...);
}

}  // namespace hpu::base
