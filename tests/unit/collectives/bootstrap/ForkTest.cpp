// SPDX-License-Identifier: Apache-2.0
// A child of threads that make ids makes its own.
#include "collectives/bootstrap/Coordinator.h"
#include "hpu/collectives.h"
#include "tests/unit/base/ForkOften.h"
#include "tests/unit/collectives/bootstrap/Ranks.h"

namespace hpu::collectives {
namespace {

TEST(BootstrapFork, AChildHasACoordinatorOfItsOwn) {
  if (!base::kMayForkWhenBusy) GTEST_SKIP() << "not under a sanitizer";
  auto look = [] { EXPECT_NE(Coordinator::instance(), nullptr); };
  look();
  const Coordinator* parents = Coordinator::instance().get();
  base::BusyThreads threads({look, look, look});
  base::forkOften(200, [&] {
    if (Coordinator::instance().get() == parents) return 1;
    return createUniqueId().ok() ? 0 : 2;
  });
}

TEST(BootstrapFork, AChildThatLetsGoOfAGroupWaitsForNoThreadOfItsParent) {
  if (!base::kMayForkWhenBusy) GTEST_SKIP() << "not under a sanitizer";
  for (const bool alone : {false, true}) {
    auto ranks = joinAll(2, alone);
    ASSERT_TRUE(ranks[0] && ranks[1]);
    onRanks<Status>(2, [&](int rank) { return ranks[static_cast<size_t>(rank)]->barrier("links", soon()); });
    auto group = ranks[0]->subgroup("group", {0, 1}).value();
    // Threads that hold the ranks' mutexes most of the time, and one that waits.
    Bootstrap *first = ranks[0].get(), *second = ranks[1].get();
    std::thread waiting([&] { second->barrier("b", soon(120000)).ignore(); });
    {
      auto ask = [&] {
        first->traffic();
        first->describe(1);
        second->traffic();
        second->describe(0);
      };
      base::BusyThreads threads({ask, ask, ask});
      base::forkOften(200, [&] {
        group = nullptr;
        ranks.clear();
        return 0;
      });
    }
    first->abandon(aborted("enough"));
    waiting.join();
  }
}

}  // namespace
}  // namespace hpu::collectives
