// SPDX-License-Identifier: Apache-2.0
// A child of threads that compile, set and record does so too, whatever they held when the process forked.
#include "tests/unit/base/ForkOften.h"
#include "tests/unit/bindings/synapse/graph/GraphFixture.h"

namespace hpu::testing {
namespace {

class SynapseForks : public GraphFixture {
 protected:
  void SetUp() override {
    if (!base::kMayForkWhenBusy) GTEST_SKIP() << "not under a sanitizer";
    GraphFixture::SetUp();
  }
  void TearDown() override {
    if (base::kMayForkWhenBusy) GraphFixture::TearDown();
  }
  /// Makes a graph, compiles it and ends both; with `eager` its program stays in the cache.
  static bool compileOne(uint64_t size, bool eager) {
    synGraphHandle graph = nullptr;
    synRecipeHandle recipe = nullptr;
    synStatus created = eager ? synGraphCreateEager(&graph, synDeviceGaudi2) : synGraphCreate(&graph, synDeviceGaudi2);
    if (created != synSuccess) return false;
    synTensor tensor = makeTensor(graph, "y", {size});
    persist(graph, tensor);
    return addNode(graph, "memset", {}, {tensor}) == synSuccess &&
           synGraphCompile(&recipe, graph, "r", nullptr) == synSuccess && synRecipeDestroy(recipe) == synSuccess &&
           synGraphDestroy(graph) == synSuccess;
  }
};

TEST_F(SynapseForks, AChildMayCompile) {
  auto same = [] { EXPECT_TRUE(compileOne(8, true)); };
  auto other = [] {
    static std::atomic<uint64_t> size{16};
    EXPECT_TRUE(compileOne(++size, false));
  };
  same();
  base::BusyThreads threads({same, same, other});
  base::forkOften(300, [] { return compileOne(8, true) && compileOne(9, false) && compileOne(8, true) ? 0 : 1; });
}

// The list of programs is locked only while a program is made or released.
TEST_F(SynapseForks, AChildMayMakeAndEndPrograms) {
  auto make = [] {
    static std::atomic<uint64_t> size{16};
    EXPECT_TRUE(compileOne(++size, false));
  };
  make();
  base::BusyThreads threads({make, make, make, make});
  base::forkOften(600, [] { return compileOne(9, false) ? 0 : 1; });
}

TEST_F(SynapseForks, AChildMayConfigure) {
  auto work = [] {
    char text[16];
    EXPECT_SYN(synConfigurationSet("SOME_SETTING_OF_SYNAPSE", "1"));
    EXPECT_SYN(synConfigurationGet("SOME_SETTING_OF_SYNAPSE", text, sizeof text));
  };
  work();
  base::BusyThreads threads({work, work, work});
  base::forkOften(300, [&] {
    work();
    return HasFailure() ? 1 : 0;
  });
}

TEST_F(SynapseForks, AChildMayRecordAProfileOfItsOwn) {
  ASSERT_SYN(synProfilerStart(synTraceHost, 0));
  auto work = [] {
    // Refused, under the lock: the other recording is going on.
    EXPECT_EQ(synProfilerStart(synTraceHost, 0), synResourceBadUsage);
  };
  {
    base::BusyThreads threads({work, work, work});
    base::forkOften(300, [] {
      if (synProfilerStop(synTraceHost, 0) != synResourceBadUsage) return 1;  // That is the parent's.
      if (synProfilerStart(synTraceHost, 0) != synSuccess) return 2;
      return synProfilerStop(synTraceHost, 0) == synSuccess ? 0 : 3;
    });
  }
  EXPECT_SYN(synProfilerStop(synTraceHost, 0));
}

}  // namespace
}  // namespace hpu::testing
