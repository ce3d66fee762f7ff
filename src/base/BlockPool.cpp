// SPDX-License-Identifier: Apache-2.0
#include "base/BlockPool.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <new>
#include <utility>

namespace hpu::base {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kPools = false;  // These watch what the general allocator gives.
#else
constexpr bool kPools = true;
#endif

std::atomic<bool> gIsOn{kPools};

constexpr size_t kStep = 64;
constexpr size_t kClasses = kLargestPooledBlock / kStep;
/// glibc puts blocks of up to 128 bytes aside when a thread frees one of another's, and puts all of them together at
/// once when somebody asks for a large block: with a backlog of 100,000 that is milliseconds, of the thread that
/// enqueues. (What mallopt(3) names M_MXFAST, by default on 64-bit machines.)
constexpr size_t kSmallest = 192;
constexpr int kHandful = 32;
constexpr size_t kMostHandfuls = 128;  ///< Of a class, that no thread has: 2 MiB at most.

struct Block {
  Block* next;
};
/// Blocks of one class.
struct List {
  Block* first = nullptr;
  int count = 0;

  void push(void* memory) {
    first = ::new (memory) Block{first};
    ++count;
  }
  void* pop() {
    Block* block = first;
    first = block->next;
    --count;
    return block;
  }
};

/// Handfuls that no thread has. The lock is only tried: who cannot have it at once, as for ever in a child that was
/// forked while a thread had it, goes to the general allocator.
struct Shared {
  std::mutex mutex;
  std::array<List, kMostHandfuls> handfuls;
  size_t count = 0;
};
std::array<Shared, kClasses>& shared() {
  static auto& all = *new std::array<Shared, kClasses>;
  return all;
}

size_t classOf(size_t bytes) {
  return (std::max(bytes, kSmallest) - 1) / kStep;
}

bool passOn(size_t of, List list) noexcept {
  Shared& to = shared()[of];
  std::unique_lock lock(to.mutex, std::try_to_lock);
  if (!lock || to.count == kMostHandfuls) return false;
  to.handfuls[to.count++] = list;
  return true;
}
List takeHandful(size_t of) noexcept {
  Shared& from = shared()[of];
  std::unique_lock lock(from.mutex, std::try_to_lock);
  if (!lock || from.count == 0) return {};
  return std::exchange(from.handfuls[--from.count], {});
}
void release(List list) noexcept {
  while (list.count > 0) ::operator delete(list.pop());
}

/// A thread's own. No constructor and no destructor: objects of the thread that end behind `Leaving` still come here.
struct Own {
  std::array<List, kClasses> ready;  ///< To give out.
  std::array<List, kClasses> freed;  ///< Less than a handful each.
  bool hasLeft;
};
thread_local constinit Own t_own = {};

struct Leaving {
  ~Leaving() {
    t_own.hasLeft = true;
    for (size_t of = 0; of < kClasses; ++of) {
      release(std::exchange(t_own.ready[of], {}));
      release(std::exchange(t_own.freed[of], {}));
    }
  }
  void begin() {}
};
thread_local Leaving t_leaving;

}  // namespace

void* takeBlock(size_t bytes) {
  if (bytes > kLargestPooledBlock) return ::operator new(bytes);
  const size_t of = classOf(bytes);
  if (!gIsOn.load(std::memory_order_relaxed)) return ::operator new((of + 1) * kStep);
  List& ready = t_own.ready[of];
  if (ready.count == 0) {
    List& freed = t_own.freed[of];
    if (freed.count > 0)
      std::swap(ready, freed);
    else if (!t_own.hasLeft)
      ready = takeHandful(of);
    if (ready.count == 0) return ::operator new((of + 1) * kStep);
  }
  return ready.pop();
}

void giveBlock(void* block, size_t bytes) noexcept {
  if (bytes > kLargestPooledBlock || t_own.hasLeft || !gIsOn.load(std::memory_order_relaxed))
    return ::operator delete(block);
  t_leaving.begin();
  const size_t of = classOf(bytes);
  List& freed = t_own.freed[of];
  freed.push(block);
  if (freed.count < kHandful) return;
  const List handful = std::exchange(freed, {});
  if (t_own.ready[of].count == 0)
    t_own.ready[of] = handful;
  else if (!passOn(of, handful))
    release(handful);
}

void setBlockPooling(bool isOn) noexcept {
  gIsOn.store(isOn && kPools, std::memory_order_relaxed);
}

}  // namespace hpu::base
