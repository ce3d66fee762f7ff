// SPDX-License-Identifier: Apache-2.0
// HandedOverAllocator: for small objects, of which there may be very many, that another thread frees.
// The one thing to know: their memory goes round in a pool (BlockPool.h), from those who free to those who make.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "base/BlockPool.h"

namespace hpu::base {

template <typename T>
struct HandedOverAllocator {
  using value_type = T;
  HandedOverAllocator() = default;
  template <typename U>
  HandedOverAllocator(const HandedOverAllocator<U>&) noexcept {}

  T* allocate(size_t count) { return static_cast<T*>(takeBlock(count * sizeof(T))); }
  void deallocate(T* memory, size_t count) noexcept { giveBlock(memory, count * sizeof(T)); }
  friend bool operator==(const HandedOverAllocator&, const HandedOverAllocator&) { return true; }

 private:
  static_assert(alignof(T) <= alignof(std::max_align_t));
};

/// For short lists that another thread frees.
template <typename T>
using HandedOverVector = std::vector<T, HandedOverAllocator<T>>;

/// As std::make_shared.
template <typename T, typename... Arguments>
std::shared_ptr<T> makeHandedOver(Arguments&&... arguments) {
  return std::allocate_shared<T>(HandedOverAllocator<T>(), std::forward<Arguments>(arguments)...);
}

}  // namespace hpu::base
