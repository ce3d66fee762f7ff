// SPDX-License-Identifier: Apache-2.0
#include "base/PerThread.h"

#include <new>

namespace hpu::base::internal {
namespace {

/// They stay, and later threads use them again: as many as there were objects at a time.
struct Place {
  std::atomic<void*> object;
  Place* next;
};
std::atomic<Place*> all{nullptr};

}  // namespace

std::atomic<void*>* listPerThread(void* object) noexcept {
  for (Place* place = all.load(std::memory_order_acquire); place; place = place->next) {
    void* nobodys = nullptr;
    if (place->object.load(std::memory_order_relaxed) == nullptr &&
        place->object.compare_exchange_strong(nobodys, object, std::memory_order_acq_rel))
      return &place->object;
  }
  auto* place = new (std::nothrow) Place{object, all.load(std::memory_order_relaxed)};
  if (!place) return nullptr;
  while (!all.compare_exchange_weak(place->next, place, std::memory_order_acq_rel, std::memory_order_relaxed)) {
  }
  return &place->object;
}

}  // namespace hpu::base::internal
