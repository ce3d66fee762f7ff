// SPDX-License-Identifier: Apache-2.0
// Runs the suite on every transport. A new one registers at the end of this file.
#include <gtest/gtest.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "Suite.h"
#include "collectives/transport/local/LocalTransport.h"

namespace hpu::testing {
namespace {
using namespace collectives;

/// Brings the texts of the ranks together that are threads. One that has died is not waited for.
class ThreadGather {
 public:
  explicit ThreadGather(int ranks) : texts_(static_cast<size_t>(ranks)), missing_(ranks) {}
  std::vector<std::string> operator()(int rank, const std::string& mine) {
    std::unique_lock lock(mutex_);
    const uint64_t round = round_;
    texts_[static_cast<size_t>(rank)] = mine;
    if (--missing_ == 0) finish();
    changed_.wait(lock, [&] { return round_ != round; });
    return result_;
  }

 private:
  void finish() {
    // Nobody comes to the next round before he has taken the result of this one.
    result_ = texts_;
    missing_ = static_cast<int>(texts_.size());
    ++round_;
    changed_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> texts_, result_;
  int missing_;
  uint64_t round_ = 0;
};

struct Kind {
  std::string name;
  /// Runs the case on its ranks and returns when all are done.
  void (*run)(const Case& which);
};

void runLocal(const Case& which) {
  std::vector<std::vector<std::byte>> bytes(static_cast<size_t>(which.ranks),
                                            std::vector<std::byte>(kMemoryBytes));
  std::vector<LocalMemory> memories;
  for (auto& memory : bytes) memories.push_back({memory.data(), 0x1000, kMemoryBytes});
  auto group = LocalGroup::create(memories);
  ThreadGather gather(which.ranks);
  std::vector<std::thread> threads;
  for (int r = 0; r < which.ranks; ++r)
    threads.emplace_back([&, r] {
      Rank rank;
      rank.transport = group->transport(r);
      rank.address = 0x1000;
      rank.bytes = kMemoryBytes;
      rank.gather = [&, r](const std::string& mine) { return gather(r, mine); };
      rank.die = [&, r] { group->kill(r); };
      rank.stop = [&](int peer, bool stopped) { group->stop(peer, stopped); };
      which.run(rank);
    });
  for (std::thread& thread : threads) thread.join();
}

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = {{"local", runLocal}};
  return all;
}

class TransportConformance : public ::testing::TestWithParam<std::tuple<size_t, size_t>> {};

TEST_P(TransportConformance, Passes) {
  auto [kind, which] = GetParam();
  kinds()[kind].run(allCases()[which]);
}

INSTANTIATE_TEST_SUITE_P(All, TransportConformance,
                         ::testing::Combine(::testing::Range<size_t>(0, kinds().size()),
                                            ::testing::Range<size_t>(0, allCases().size())),
                         [](const auto& info) {
                           return kinds()[std::get<0>(info.param)].name + "_" +
                                  allCases()[std::get<1>(info.param)].name;
                         });

}  // namespace
}  // namespace hpu::testing
