// SPDX-License-Identifier: Apache-2.0
// What launches and event mappings refuse before a device is asked.
#include "tests/unit/bindings/synapse/graph/GraphFixture.h"

namespace hpu::testing {
namespace {

class SynapseLaunchRefusal : public GraphFixture {
 protected:
  void SetUp() override {
    GraphFixture::SetUp();
    synTensor x = makePersistent("x", {4});
    synTensor y = makeTensor("y", {4});
    persist(graph, y);
    ASSERT_EQ(synTensorSetExternal(y, true), synSuccess);
    ASSERT_EQ(addNode("memcpy", {x}, {y}), synSuccess);
    recipe = compile();
  }
  synRecipeHandle recipe = nullptr;
};

TEST_F(SynapseLaunchRefusal, StreamsAndRecipesMustBeLive) {
  EXPECT_SYN_ERROR(synLaunch(nullptr, nullptr, 0, 0, recipe, 0), synInvalidArgument, "stream handle is null");
  EXPECT_SYN_ERROR(synLaunchExt(reinterpret_cast<synStreamHandle>(recipe), nullptr, 0, 0, recipe, 0),
                   synInvalidArgument, "recipe");
  EXPECT_EQ(synLaunchWithExternalEvents(nullptr, nullptr, 0, 0, recipe, nullptr, 0, 0), synInvalidArgument);
  EXPECT_EQ(synLaunchWithExternalEventsExt(nullptr, nullptr, 0, 0, recipe, nullptr, 0, 0), synInvalidArgument);
}

TEST_F(SynapseLaunchRefusal, EventsMustBeLive) {
  synLaunchTensorInfo info = {};
  info.tensorName = "y";
  synEventHandle event = nullptr;
  EXPECT_SYN_ERROR(synEventMapTensor(&event, 1, &info, recipe), synInvalidArgument, "event handle is null");
  EXPECT_EQ(synEventMapTensor(nullptr, 1, &info, recipe), synInvalidArgument);
  EXPECT_EQ(synEventMapTensorExt(&event, 1, nullptr, recipe), synInvalidArgument);
  EXPECT_EQ(synEventMapTensorExt(&event, 0, reinterpret_cast<synLaunchTensorInfoExt*>(&info), nullptr),
            synInvalidArgument);
}

TEST_F(SynapseLaunchRefusal, ExecutionOrderHasTheExternalTensors) {
  uint64_t ids[2] = {77, 77};
  ASSERT_EQ(synTensorExtExtractExecutionOrder(recipe, 1, ids), synSuccess) << hpuSynLastError();
  synRetrievedLaunchTensorInfo info = {};
  info.tensorId = ids[0];
  ASSERT_EQ(synTensorRetrieveLaunchInfoById(recipe, 1, &info), synSuccess);
  EXPECT_STREQ(info.tensorName, "y");
  EXPECT_SYN_ERROR(synTensorExtExtractExecutionOrder(recipe, 2, ids), synInvalidArgument, "1 external tensors, and 2");
  EXPECT_EQ(synTensorExtExtractExecutionOrder(recipe, 1, nullptr), synInvalidArgument);
}

}  // namespace
}  // namespace hpu::testing
