// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/shm/Memories.h"

#include <unistd.h>

#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>

#include "base/AtFork.h"
#include "base/StatusMacros.h"
#include "runtime/node/Inventory.h"

namespace hpu::collectives::shm {

StatusOr<std::shared_ptr<node::PeerMemory>> deviceMemory(int index, int64_t deadlineMs,
                                                         const node::MemoryToken& token) {
  struct Entry {
    std::mutex mutex;  // Held while the owner is asked: ranks that want the same wait for one.
    std::weak_ptr<node::PeerMemory> memory;
  };
  // By process, too: what a forked child has of its parent's is not mapped, and a thread of the
  // parent may be asking.
  using Key = std::tuple<std::string, int, pid_t>;
  static auto& entries = *new std::map<Key, std::shared_ptr<Entry>>;
  HPU_ASSIGN(std::string identity, node::identity());
  std::shared_ptr<Entry> entry;
  {
    std::lock_guard lock(base::processMutex());
    auto& slot = entries[{identity, index, ::getpid()}];
    if (!slot) slot = std::make_shared<Entry>();
    entry = slot;
  }
  std::lock_guard lock(entry->mutex);
  if (auto known = entry->memory.lock(); known && known->alive()) return known;
  HPU_ASSIGN(std::unique_ptr<node::PeerMemory> mapped, node::PeerMemory::map(index, deadlineMs, token));
  std::shared_ptr<node::PeerMemory> memory = std::move(mapped);
  entry->memory = memory;
  return memory;
}

}  // namespace hpu::collectives::shm
