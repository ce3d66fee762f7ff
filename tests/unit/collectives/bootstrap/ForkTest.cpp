// SPDX-License-Identifier: Apache-2.0
// A child of threads that make ids makes its own.
#include "collectives/bootstrap/Coordinator.h"
#include "hpu/collectives.h"
#include "tests/unit/base/ForkOften.h"

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

}  // namespace
}  // namespace hpu::collectives
