// SPDX-License-Identifier: Apache-2.0
// A child of threads that are busy with what the process has one of finds it free, and uses it.
#include "collectives/bootstrap/Coordinator.h"
#include "collectives/bootstrap/Reactor.h"
#include "collectives/communicator/Order.h"
#include "collectives/tuner/Tuner.h"
#include "tests/unit/base/ForkOften.h"
#include "tests/unit/collectives/communicator/World.h"

namespace hpu::collectives {
namespace {

class CollectivesForks : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!base::kMayForkWhenBusy) GTEST_SKIP() << "not under a sanitizer";
  }
};

TEST_F(CollectivesForks, AChildMayChooseAlgorithms) {
  // No other object has a tuner, so each makes the choice anew: most of the time a thread is within
  // one.
  auto choose = [] {
    Tuner tuner(linkModel(Target::kGaudi2));
    return tuner.choose({.collective = Collective::kAllReduce, .ranks = 8, .count = 1 << 20}).ok();
  };
  auto work = [&] { EXPECT_TRUE(choose()); };
  work();
  base::BusyThreads threads({work, work, work});
  base::forkOften(200, [&] { return choose() ? 0 : 1; });
}

TEST_F(CollectivesForks, AChildMayMakeIds) {
  ASSERT_TRUE(createUniqueId().ok());
  auto ask = [] { Coordinator::instance()->rooms(); };
  auto connect = [] { EXPECT_TRUE(Reactor::acquire().ok()); };
  base::BusyThreads threads({ask, ask, connect, connect});
  base::forkOften(200, [] {
    // Its own, of which the parent's room is none.
    if (Coordinator::instance()->rooms() != 0) return 1;
    if (!createUniqueId().ok()) return 2;
    return Coordinator::instance()->rooms() == 1 ? 0 : 3;
  });
}

TEST_F(CollectivesForks, CallsOnACommunicatorOfTheParentAreErrorsAtOnce) {
  World world = World::make(2);
  Buffer data = world.put(0, std::vector<int32_t>(64, 1)), other = world.put(1, std::vector<int32_t>(64, 1));
  // Both ranks of each operation, so that none is left alone at the end.
  auto reduce = [&] {
    for (int rank : {0, 1}) {
      auto at = static_cast<size_t>(rank);
      const uint64_t address = (rank == 0 ? data : other).address();
      EXPECT_TRUE(
          world.comms[at].allReduce(address, address, 64, ElementType::kI32, ReduceOp::kSum, world.streams[at]).ok());
    }
    for (Stream& stream : world.streams) EXPECT_TRUE(stream.synchronize().ok());
  };
  reduce();
  base::BusyThreads threads({reduce});
  base::forkOften(60, [&] {
    Communicator& mine = world.comms[0];
    const Status calls[] = {
        mine.allReduce(data.address(), data.address(), 64, ElementType::kI32, ReduceOp::kSum, world.streams[0]),
        mine.send(data.address(), 64, ElementType::kI32, 1, world.streams[0]),
        mine.barrier(world.streams[0]),
        mine.ready(),
        mine.asyncError(),
        mine.split(0, 0).status(),
        mine.shrink({1}).status(),
        mine.finalize(500),
        mine.abort("not mine")};
    int wrong = 0;
    for (const Status& status : calls) {
      ++wrong;
      if (status.code() != StatusCode::kFailedPrecondition) return wrong;
    }
    return mine.pending() ? 99 : 0;
  });
}

TEST_F(CollectivesForks, AChildMayAskForTheOrderOfADevice) {
  std::vector<Device> devices = World::openDevices(1, 16 << 20);
  auto ask = [&] { EXPECT_NE(AddressOrder::of(devices[0]), nullptr); };
  ask();
  base::BusyThreads threads({ask, ask, ask, ask});
  base::forkOften(300, [&] { return AddressOrder::of(devices[0]) ? 0 : 1; });
}

}  // namespace
}  // namespace hpu::collectives
