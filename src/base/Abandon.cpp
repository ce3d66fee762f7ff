// SPDX-License-Identifier: Apache-2.0
#include "base/Abandon.h"

#include <atomic>
#include <cstdlib>
#include <cstring>

namespace hpu::base::internal {
namespace {

struct Kept {
  Kept* next;
  alignas(std::max_align_t) unsigned char bytes[1];
};
std::atomic<Kept*> all{nullptr};

}  // namespace

void keepCopy(const void* bytes, size_t size) noexcept {
  auto* kept = static_cast<Kept*>(std::malloc(offsetof(Kept, bytes) + size));
  if (!kept) return;
  std::memcpy(kept->bytes, bytes, size);
  kept->next = all.load(std::memory_order_relaxed);
  while (!all.compare_exchange_weak(kept->next, kept, std::memory_order_release, std::memory_order_relaxed)) {
  }
}

}  // namespace hpu::base::internal
