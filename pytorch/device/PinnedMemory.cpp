// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>

#include <cstdlib>
#include <map>
#include <mutex>

#include <c10/util/Exception.h>

#include "pytorch/device/Memory.h"

namespace hpu_torch {
namespace {

constexpr size_t kPage = 4096;

struct Pinned {
  std::mutex mutex;
  std::map<uintptr_t, size_t> ranges;  ///< Bytes by address.
  int64_t bytes = 0;
};
Pinned& pinned() {
  static Pinned& instance = *[] {
    static auto* made = new Pinned;
    // A forked child has copies of the memory, and a lock that nobody holds.
    pthread_atfork([] { made->mutex.lock(); }, [] { made->mutex.unlock(); }, [] { made->mutex.unlock(); });
    return made;
  }();
  return instance;
}

void freePinned(void* data) {
  if (!data) return;
  {
    Pinned& all = pinned();
    std::lock_guard<std::mutex> lock(all.mutex);
    auto found = all.ranges.find(reinterpret_cast<uintptr_t>(data));
    if (found != all.ranges.end()) {
      all.bytes -= static_cast<int64_t>(found->second);
      all.ranges.erase(found);
    }
  }
  std::free(data);
}

class PinnedAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) const override {
    const c10::Device cpu(c10::DeviceType::CPU);
    if (bytes == 0) return {nullptr, nullptr, &freePinned, cpu};
    const size_t rounded = (bytes + kPage - 1) / kPage * kPage;
    void* data = rounded < bytes ? nullptr : std::aligned_alloc(kPage, rounded);
    TORCH_CHECK(data, "the host has no ", bytes, " bytes of memory to pin");
    Pinned& all = pinned();
    std::lock_guard<std::mutex> lock(all.mutex);
    all.ranges.emplace(reinterpret_cast<uintptr_t>(data), bytes);
    all.bytes += static_cast<int64_t>(bytes);
    return {data, data, &freePinned, cpu};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &freePinned; }
};

}  // namespace

c10::Allocator* pinnedAllocator() {
  static PinnedAllocator& instance = *new PinnedAllocator;
  return &instance;
}

bool isPinned(const void* data) {
  Pinned& all = pinned();
  std::lock_guard<std::mutex> lock(all.mutex);
  const auto address = reinterpret_cast<uintptr_t>(data);
  auto after = all.ranges.upper_bound(address);
  if (after == all.ranges.begin()) return false;
  --after;
  return address < after->first + after->second;
}

int64_t pinnedBytes() {
  Pinned& all = pinned();
  std::lock_guard<std::mutex> lock(all.mutex);
  return all.bytes;
}

}  // namespace hpu_torch
