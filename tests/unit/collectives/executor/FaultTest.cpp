// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "World.h"

namespace hpu::collectives {
namespace {

using testing::Call;
using testing::Outcome;
using testing::World;

Outcome begin(World& world, int rank, const Call& call) {
  Outcome outcome;
  world.rank(rank).executor->begin(world.operation(rank, call), outcome.done());
  return outcome;
}
void expectError(const Outcome& outcome, StatusCode code, const std::vector<std::string>& texts) {
  Status status = outcome.wait().status;
  EXPECT_EQ(status.code(), code) << status.toString();
  for (const std::string& text : texts) {
    EXPECT_NE(status.message().find(text), std::string::npos) << status.message() << " lacks " << text;
  }
}

TEST(ExecutorFaults, EveryRankIsToldWhoCalledWhatElse) {
  struct Case {
    void (*change)(Call&);
    const char *theirs, *differs;
  } const cases[] = {
      {[](Call& c) { c.count = 1024; }, "all-reduce (sum) of 1024 f32", "count"},
      {[](Call& c) { c.type = ElementType::kI32; }, "of 4096 i32", "type"},
      {[](Call& c) { c.op = ReduceOp::kMax; }, "all-reduce (max) of 4096 f32", "operation"},
      {[](Call& c) {
         c.collective = Collective::kAllGather;
         c.count = 1024;
         c.type = ElementType::kBF16;
       },
       "all-gather of 1024 bf16", "collective, count, type"},
      {[](Call& c) {
         c.collective = Collective::kBarrier;
         c.count = 0;
       },
       "barrier", "collective"},
  };
  for (const Case& one : cases) {
    for (int oddOneFirst : {0, 1}) {
      World world(4);
      Call call;
      call.count = 4096;
      Call other = call;
      one.change(other);
      for (int k = 0; k < 2; ++k) {  // Two that go well, so that it is number 3.
        std::vector<Outcome> outcomes;
        for (int r = 0; r < 4; ++r) outcomes.push_back(begin(world, r, call));
        for (Outcome& outcome : outcomes) ASSERT_TRUE(outcome.wait().status.ok());
      }
      std::vector<Outcome> outcomes(4);
      if (oddOneFirst) outcomes[3] = begin(world, 3, other);
      for (int r = 0; r < 3; ++r) outcomes[static_cast<size_t>(r)] = begin(world, r, call);
      if (!oddOneFirst) outcomes[3] = begin(world, 3, other);
      for (int r = 0; r < 3; ++r) {
        expectError(outcomes[static_cast<size_t>(r)], StatusCode::kInvalidArgument,
                    {"comm rank", "rank 3 called", one.theirs, "as operation 3",
                     "rank " + std::to_string(r) + " called all-reduce (sum) of 4096 f32", one.differs});
      }
      expectError(outcomes[3], StatusCode::kInvalidArgument,
                  {"called all-reduce (sum) of 4096 f32 as operation 3", one.theirs});
    }
  }
}

TEST(ExecutorFaults, DifferentRootsAndTunerTablesAreMismatches) {
  World world(3);
  Call call;
  call.collective = Collective::kBroadcast;
  call.count = 10;
  Call other = call;
  other.root = 2;
  Outcome a = begin(world, 0, call), b = begin(world, 1, other), c = begin(world, 2, call);
  expectError(a, StatusCode::kInvalidArgument, {"from rank 2", "from rank 0", "root"});
  expectError(b, StatusCode::kInvalidArgument, {"from rank 2", "from rank 0", "root"});
  expectError(c, StatusCode::kInvalidArgument, {"rank 1"});

  World tables(2);
  std::vector<Outcome> outcomes(2);
  for (int r = 0; r < 2; ++r) {
    CollectiveOperation operation = tables.operation(r, call);
    operation.tableHash = static_cast<uint64_t>(r);
    tables.rank(r).executor->begin(std::move(operation), outcomes[static_cast<size_t>(r)].done());
  }
  for (Outcome& outcome : outcomes) {
    expectError(outcome, StatusCode::kInvalidArgument, {"HPU_COMM_TUNER_TABLE"});
  }
}

TEST(ExecutorFaults, ARankThatDoesNotComeIsNamedWithItsLastCall) {
  World world(4);
  Call call;
  call.count = 10;
  std::vector<Outcome> first;
  for (int r = 0; r < 4; ++r) first.push_back(begin(world, r, call));
  for (Outcome& outcome : first) ASSERT_TRUE(outcome.wait().status.ok());
  call.timeoutMs = 200;
  call.collective = Collective::kAllGather;
  std::vector<Outcome> outcomes;
  for (int r : {0, 1, 3}) outcomes.push_back(begin(world, r, call));
  int told = 0;
  for (Outcome& outcome : outcomes) {
    Status status = outcome.wait().status;
    // The first to give up tells the others, who may not have come so far themselves.
    EXPECT_TRUE(status.code() == StatusCode::kDeadlineExceeded || status.code() == StatusCode::kAborted)
        << status.toString();
    told += status.code() == StatusCode::kDeadlineExceeded;
    EXPECT_NE(status.message().find("rank 2 (this process) has not entered all-gather #2; its last "
                                    "call was all-reduce #1"),
              std::string::npos)
        << status.message();
  }
  EXPECT_GE(told, 1);
  // Too late.
  EXPECT_FALSE(begin(world, 2, call).wait().status.ok());
}

TEST(ExecutorFaults, ARankThatComputesIsWaitedFor) {
  World world(2);
  std::atomic<uint64_t> work{0};
  world.rank(1).transport->setProgressSource([&] { return ++work; });
  Call call;
  call.count = 10;
  call.timeoutMs = 150;
  Outcome a = begin(world, 0, call);
  std::this_thread::sleep_for(std::chrono::milliseconds(600));
  EXPECT_FALSE(a.arrived());
  Outcome b = begin(world, 1, call);
  EXPECT_TRUE(a.wait().status.ok());
  EXPECT_TRUE(b.wait().status.ok());
  world.rank(1).transport->setProgressSource({});
}

TEST(ExecutorFaults, AKilledRankIsAnErrorThatNamesIt) {
  World world(4);
  Call call;
  call.count = 50000;
  std::vector<Outcome> outcomes;
  for (int r : {0, 1, 3}) outcomes.push_back(begin(world, r, call));
  world.group().kill(2);
  int unavailable = 0;
  for (Outcome& outcome : outcomes) {
    Status status = outcome.wait().status;
    unavailable += status.code() == StatusCode::kUnavailable;
    EXPECT_NE(status.message().find("rank 2 (this process, killed) is gone"), std::string::npos) << status.toString();
  }
  EXPECT_GE(unavailable, 1);
}

TEST(ExecutorFaults, AbortEndsEverythingHereAndNamesThisRankThere) {
  World world(3);
  Call call;
  call.count = 100;
  Outcome a = begin(world, 0, call), b = begin(world, 1, call);
  Outcome queued = begin(world, 0, call);
  world.rank(0).executor->abort(aborted("the user lost patience"));
  expectError(a, StatusCode::kAborted, {"comm rank 0", "the user lost patience"});
  expectError(queued, StatusCode::kAborted, {"the user lost patience"});
  expectError(b, StatusCode::kAborted, {"rank 0 gave up", "the user lost patience"});
  expectError(begin(world, 2, call), StatusCode::kAborted, {"rank 0 gave up"});
  EXPECT_EQ(world.rank(0).executor->health().code(), StatusCode::kAborted);
  expectError(begin(world, 0, call), StatusCode::kAborted, {"the user lost patience"});
}

TEST(ExecutorFaults, BadAddressesAreTheRanksOwnErrorAndTheOthersAreTold) {
  World world(2);
  Call call;
  call.count = 100;
  CollectiveOperation operation = world.operation(0, call);
  operation.output = 12345;
  Outcome a, b = begin(world, 1, call);
  world.rank(0).executor->begin(std::move(operation), a.done());
  expectError(a, StatusCode::kInvalidArgument, {"output", "0x3039", "all-reduce #1"});
  expectError(b, StatusCode::kAborted, {"rank 0 gave up", "0x3039"});
}

TEST(ExecutorFaults, AnExecutorThatIsDestroyedEndsItsOperations) {
  World world(2);
  Call call;
  call.count = 100;
  Outcome a = begin(world, 0, call);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  world.rank(0).executor.reset();
  EXPECT_TRUE(a.arrived());
  expectError(a, StatusCode::kAborted, {"destroyed"});
}

TEST(ExecutorFaults, ARankMayLeaveWhenItsPartIsDone) {
  for (int seed = 0; seed < 30; ++seed) {
    World world(3);
    Call call;
    call.count = seed % 2 ? 5 : 5000;
    call.algorithm = seed % 3 ? "mesh" : "ring";
    std::vector<CollectiveOperation> operations;
    for (int r = 0; r < 3; ++r) operations.push_back(world.operation(r, call));
    std::vector<std::thread> threads;
    for (int r = 0; r < 3; ++r) {
      threads.emplace_back([&, r] {
        std::this_thread::sleep_for(std::chrono::microseconds((seed * 37 + r * 61) % 200));
        Outcome outcome;
        world.rank(r).executor->begin(operations[static_cast<size_t>(r)], outcome.done());
        Status status = outcome.wait().status;
        EXPECT_TRUE(status.ok()) << status.toString();
        world.rank(r).executor.reset();
        world.rank(r).transport.reset();
      });
    }
    for (auto& thread : threads) thread.join();
  }
}

}  // namespace
}  // namespace hpu::collectives
