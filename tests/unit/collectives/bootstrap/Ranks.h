// SPDX-License-Identifier: Apache-2.0
// Ranks as threads: each joins and does what the test says.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "collectives/bootstrap/Bootstrap.h"

namespace hpu::collectives {

inline base::Deadline soon(int64_t ms = 20000) {
  return base::Deadline::afterMs(ms);
}

/// Runs `body(rank)` for each rank on a thread of its own; their results by rank.
template <typename Result>
std::vector<Result> onRanks(int ranks, const std::function<Result(int)>& body) {
  std::vector<Result> results(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] { results[static_cast<size_t>(rank)] = body(rank); });
  for (std::thread& thread : threads) thread.join();
  return results;
}

/// All ranks of a new id, joined. `alone`: as if each were of a process of its own.
inline std::vector<std::shared_ptr<Bootstrap>> joinAll(int ranks, bool alone = false) {
  UniqueId id = createUniqueId().value();
  return onRanks<std::shared_ptr<Bootstrap>>(ranks, [&](int rank) {
    auto joined = Bootstrap::join(id, rank, ranks, {.timeoutMs = 30000, .alone = alone});
    return joined.ok() ? *joined : nullptr;
  });
}

}  // namespace hpu::collectives
