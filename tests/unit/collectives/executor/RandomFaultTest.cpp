// SPDX-License-Identifier: Apache-2.0
// Seeded scenarios: four ranks run a random program, one of them dies, stops, aborts, leaves a call
// out or calls something else. Nobody hangs, survivors get a typed error, and what ended well has
// the right values.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <thread>

#include "World.h"

namespace hpu::collectives {
namespace {

using testing::Call;
using testing::Outcome;
using testing::World;

enum class Fault { kNone, kKill, kStop, kAbort, kLeave, kMissingCall, kOtherCall, kBadAddress };

struct Item {
  bool transfers = false;
  Call call;
};

Call randomCall(std::mt19937_64& random) {
  constexpr Collective kinds[] = {Collective::kAllReduce, Collective::kAllGather, Collective::kBroadcast,
                                  Collective::kReduceScatter, Collective::kAllToAll};
  Call call;
  call.collective = kinds[random() % 5];
  call.count = static_cast<int64_t>(1 + random() % (random() % 2 ? 20 : 4000));
  call.slices = 1 + static_cast<int>(random() % 3);
  call.timeoutMs = 150;
  if (call.collective == Collective::kAllReduce && random() % 2) call.algorithm = "ring";
  return call;
}

void runScenario(uint64_t seed) {
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  constexpr int kRanks = 4, kItems = 8;
  std::mt19937_64 random(seed);
  LocalOptions options;
  options.laneMessages = 1 + random() % 8;
  options.records = 1 + random() % 4;
  options.smallBytes = static_cast<int64_t>(64 << random() % 6);
  World world(kRanks, options, 1 << 19);
  const auto fault = static_cast<Fault>(seed % 8);
  const int victim = static_cast<int>(random() % kRanks);
  const int faultAt = static_cast<int>(random() % kItems);
  const auto faultDelay = std::chrono::microseconds(random() % 300);
  std::vector<Item> items(kItems);
  for (Item& item : items) {
    item.transfers = random() % 4 == 0;
    item.call = randomCall(random);
  }
  // Every rank's operations beforehand: the threads share nothing but the executors.
  struct Planned {
    bool isTransfer = false;
    CollectiveOperation collective;
    TransferOperation transfer;
  };
  std::vector<std::vector<Planned>> plans(kRanks);
  for (int r = 0; r < kRanks; ++r) {
    for (int i = 0; i < kItems; ++i) {
      Planned planned;
      planned.isTransfer = items[static_cast<size_t>(i)].transfers;
      const bool faulty = r == victim && i == faultAt;
      if (planned.isTransfer) {
        planned.transfer.timeoutMs = 150;
        const uint64_t base = world.rank(r).base;
        for (int p = 0; p < kRanks; ++p) {
          planned.transfer.transfers.push_back({true, p, base, 100, ElementType::kI32});
          planned.transfer.transfers.push_back(
              {false, p, base + 1024 * static_cast<uint64_t>(p + 1), 100, ElementType::kI32});
        }
        if (faulty && fault == Fault::kOtherCall) planned.transfer.transfers[2].count = 99;
        if (faulty && fault == Fault::kBadAddress) planned.transfer.transfers[2].address = 7;
      } else {
        Call call = items[static_cast<size_t>(i)].call;
        if (faulty && fault == Fault::kOtherCall) call.count += 1;
        planned.collective = world.operation(r, call);
        if (faulty && fault == Fault::kBadAddress) planned.collective.output = 7;
      }
      plans[static_cast<size_t>(r)].push_back(std::move(planned));
    }
  }
  std::vector<std::vector<Status>> ends(kRanks);
  std::vector<std::thread> threads;
  for (int r = 0; r < kRanks; ++r) {
    const uint64_t ownSeed = random();
    threads.emplace_back([&, r, ownSeed] {
      std::mt19937_64 mine(ownSeed);
      auto executor = world.rank(r).executor;
      for (int i = 0; i < kItems; ++i) {
        Planned& planned = plans[static_cast<size_t>(r)][static_cast<size_t>(i)];
        Outcome outcome;
        const bool faulty = r == victim && i == faultAt;
        if (faulty && (fault == Fault::kMissingCall || fault == Fault::kLeave)) break;
        if (mine() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(mine() % 200));
        if (planned.isTransfer) {
          executor->begin(planned.transfer, outcome.done());
        } else {
          executor->begin(planned.collective, outcome.done());
        }
        if (faulty) {
          std::this_thread::sleep_for(faultDelay);
          if (fault == Fault::kKill) world.group().kill(r);
          if (fault == Fault::kStop) world.group().stop(r);
          if (fault == Fault::kAbort) executor->abort(aborted("given up"));
          // A rank that was killed or stopped does nothing more.
          if (fault == Fault::kKill || fault == Fault::kStop) {
            executor->abort(aborted("only here"));
            break;
          }
        }
        if (mine() % 2) {
          executor->help(std::chrono::steady_clock::now() + std::chrono::seconds(20),
                         [&] { return outcome.arrived(); });
        }
        OperationResult result = outcome.wait();
        ends[static_cast<size_t>(r)].push_back(result.status);
        ASSERT_EQ(outcome.times(), 1);
        if (!result.status.ok()) break;
      }
      executor.reset();
      if (r == victim && fault == Fault::kLeave) {
        world.rank(r).executor.reset();
        world.rank(r).transport.reset();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (int r = 0; r < kRanks; ++r) {
    if (r == victim && fault != Fault::kNone && fault != Fault::kOtherCall) continue;
    const auto& statuses = ends[static_cast<size_t>(r)];
    ASSERT_FALSE(statuses.empty());
    const Status& last = statuses.back();
    EXPECT_NE(last.code(), StatusCode::kUnknown) << "rank " << r << " hangs";
    EXPECT_NE(last.code(), StatusCode::kInternal) << last.toString();
    if (fault == Fault::kNone) {
      EXPECT_TRUE(last.ok() && statuses.size() == kItems) << last.toString();
      continue;
    }
    const bool named = last.message().find("rank ") != std::string::npos;
    EXPECT_TRUE(!last.ok() ? named : statuses.size() == kItems) << last.toString();
    // A rank whose collectives all need the victim cannot have finished them.
    if (!last.ok() && r != victim && fault == Fault::kOtherCall && !items[static_cast<size_t>(faultAt)].transfers) {
      EXPECT_EQ(last.code(), StatusCode::kInvalidArgument) << last.toString();
    }
  }
}

TEST(ExecutorRandomFaults, NobodyHangsAndEverybodyIsTold) {
  const char* text = std::getenv("HPU_TEST_SCENARIOS");
  const uint64_t scenarios = text ? std::strtoull(text, nullptr, 10) : 64;
  for (uint64_t seed = 0; seed < scenarios && !HasFailure(); ++seed) runScenario(seed);
}

}  // namespace
}  // namespace hpu::collectives
