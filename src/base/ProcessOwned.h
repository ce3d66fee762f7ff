// SPDX-License-Identifier: Apache-2.0
// makeProcessOwned: a shared object that belongs to the process that made it. A forked child that lets go of its last
// share neither runs its destructor nor looks at it.
// The one thing to know: a thread of the parent may have been in the middle of changing the object, or have held a lock
// that its end takes, and in the child that thread is not there to go on.
//
//   auto stream = base::makeProcessOwned<StreamState>(device, queue);
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/Abandon.h"
#include "base/AtFork.h"
#include "base/HandedOver.h"

namespace hpu::base {

/// Where an object was made, for those whose destructor decides itself.
class Birthplace {
 public:
  /// False in a forked child of the process that made it.
  bool isHere() const noexcept { return generation_ == processGeneration(); }

 private:
  uint64_t generation_ = processGeneration();
};

namespace internal {

/// Of the control block that std::allocate_shared makes together with the object.
template <typename T>
struct ProcessAllocator {
  using value_type = T;
  ProcessAllocator() = default;
  template <typename U>
  ProcessAllocator(const ProcessAllocator<U>& other) noexcept : birthplace(other.birthplace) {}

  T* allocate(size_t count) { return HandedOverAllocator<T>().allocate(count); }
  void deallocate(T* memory, size_t count) noexcept {
    if (birthplace.isHere())
      HandedOverAllocator<T>().deallocate(memory, count);
    else
      keepCopy(&memory, sizeof memory);  // Leak checkers of the child find it.
  }
  template <typename U>
  void destroy(U* object) noexcept {
    if (birthplace.isHere()) object->~U();
  }
  friend bool operator==(const ProcessAllocator&, const ProcessAllocator&) { return true; }

  Birthplace birthplace;
};

}  // namespace internal

/// As std::make_shared, at its cost.
template <typename T, typename... Arguments>
std::shared_ptr<T> makeProcessOwned(Arguments&&... arguments) {
  return std::allocate_shared<T>(internal::ProcessAllocator<T>(), std::forward<Arguments>(arguments)...);
}

}  // namespace hpu::base
