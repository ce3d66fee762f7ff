// SPDX-License-Identifier: Apache-2.0
// Nodes: what synNodeCreate refuses without the compiler, and the properties of nodes.
#include "tests/unit/bindings/synapse/graph/GraphFixture.h"

namespace hpu::testing {
namespace {

class SynapseNode : public GraphFixture {
 protected:
  /// x -> memcpy -> y
  synNodeId add(const char* guid = "memcpy", const char* name = "copy") {
    synTensor in = makePersistent("in", {4}), out = makePersistent("out", {4});
    synNodeId id = 0;
    EXPECT_EQ(synNodeCreateWithId(graph, &in, &out, 1, 1, nullptr, 0, guid, name, &id, nullptr, nullptr), synSuccess)
        << hpuSynLastError();
    return id;
  }
};

TEST_F(SynapseNode, UnknownTypesAreNamedWithSimilarOnes) {
  EXPECT_SYN_ERROR(addNode("memcopy", {makeTensor("x", {4})}, {makeTensor("y", {4})}), synUnsupported, "memcpy");
  EXPECT_SYN_ERROR(addNode("relu_fwd", {makeTensor("x", {4})}, {makeTensor("y", {4})}), synInvalidArgument,
                   "relu_fwd_f32");
  EXPECT_SYN_ERROR(addNode("memcpy_dma", {makeTensor("x", {4})}, {makeTensor("y", {4})}), synInvalidArgument,
                   "compiler's own");
  EXPECT_SYN_ERROR(addNode(nullptr, {}, {}), synInvalidArgument, "pGuid");
}

TEST_F(SynapseNode, CountsAndParametersAreChecked) {
  synTensor x = makeTensor("x", {4}), y = makeTensor("y", {4});
  EXPECT_SYN_ERROR(addNode("gemm", {x}, {y}, "product"), synInvalidArgument,
                   "node 'product' (gemm): it has 2 to 4 inputs, and 1");
  EXPECT_SYN_ERROR(addNode("memcpy", {x}, {}), synInvalidArgument, "1 outputs, and 0");
  EXPECT_SYN_ERROR(addNode("transpose", {x}, {y}), synInvalidArgument, "needs parameters");
  int params[2] = {};
  EXPECT_SYN_ERROR(synNodeCreate(graph, &x, &y, 1, 1, params, 1 << 20, "transpose", "t", nullptr, nullptr),
                   synInvalidArgument, "4096");
  EXPECT_SYN_ERROR(synNodeCreate(graph, &x, &y, 1, 1, nullptr, 8, "transpose", "t", nullptr, nullptr),
                   synInvalidArgument, "pUserParams is null");
  EXPECT_EQ(synNodeCreate(graph, nullptr, &y, 1, 1, nullptr, 0, "memcpy", "n", nullptr, nullptr), synInvalidArgument);
  EXPECT_EQ(synNodeCreate(graph, &x, nullptr, 1, 1, nullptr, 0, "memcpy", "n", nullptr, nullptr), synInvalidArgument);
  EXPECT_EQ(synNodeCreate(nullptr, &x, &y, 1, 1, nullptr, 0, "memcpy", "n", nullptr, nullptr), synInvalidArgument);
  EXPECT_EQ(synNodeCreateWithId(graph, &x, &y, 1, 1, nullptr, 0, "memcpy", "n", nullptr, nullptr, nullptr),
            synInvalidArgument);
  const char* layouts[] = {"a layout that is much too long"};
  EXPECT_SYN_ERROR(synNodeCreate(graph, &x, &y, 1, 1, nullptr, 0, "memcpy", "n", layouts, nullptr), synInvalidArgument,
                   "19");
}

TEST_F(SynapseNode, TensorsMustBeLiveAndOfTheGraph) {
  synTensor x = makeTensor("x", {4}), y = makeTensor("y", {4});
  ASSERT_EQ(synTensorDestroy(x), synSuccess);
  EXPECT_SYN_ERROR(addNode("memcpy", {x}, {y}, "n"), synInvalidArgument, "node 'n' (memcpy): input 0");
  synGraphHandle other = nullptr;
  ASSERT_EQ(synGraphCreate(&other, synDeviceGaudi2), synSuccess);
  EXPECT_SYN_ERROR(addNode("memcpy", {makeTensor(other, "foreign", {4})}, {y}), synInvalidArgument, "'foreign'");
  EXPECT_SYN_ERROR(addNode("memcpy", {reinterpret_cast<synTensor>(0x1234)}, {y}), synInvalidArgument, "0x1234");
}

TEST_F(SynapseNode, ATensorHasOneProducer) {
  synTensor x = makeTensor("x", {4}), y = makeTensor("y", {4});
  ASSERT_EQ(addNode("memcpy", {x}, {y}), synSuccess);
  EXPECT_SYN_ERROR(addNode("memcpy", {x}, {y}), synInvalidArgument, "produces it already");
}

TEST_F(SynapseNode, PermutedTensorsArePersistent) {
  synTensor y = makeTensor("y", {2, 3});
  synTensorPermutation permutation = {{1, 0, 2}, 3};
  ASSERT_EQ(synTensorSetPermutation(y, &permutation), synSuccess);
  EXPECT_SYN_ERROR(addNode("memset", {}, {y}), synInvalidArgument, "persistent");
  persist(graph, y);
  EXPECT_SYN_ERROR(addNode("memset", {}, {y}), synInvalidArgument, "3 dimensions and it has 2");
  permutation.dims = 2;
  ASSERT_EQ(synTensorSetPermutation(y, &permutation), synSuccess);
  EXPECT_EQ(addNode("memset", {}, {y}), synSuccess) << hpuSynLastError();
}

TEST_F(SynapseNode, LeastSizesAreAtMostTheLargest) {
  synTensor x = makeTensor("x", {4});
  setSizes(x, {5}, synGeometryMinSizes);
  EXPECT_SYN_ERROR(addNode("memcpy", {x}, {makeTensor("y", {4})}), synInvalidTensorProperties,
                   "at least 5 and at most 4");
  setSizes(x, {1, 1}, synGeometryMinSizes);
  EXPECT_SYN_ERROR(addNode("memcpy", {x}, {makeTensor("z", {4})}), synInvalidTensorProperties, "dimensions");
  setSizes(x, {1}, synGeometryMinSizes);
  EXPECT_EQ(addNode("memcpy", {x}, {makeTensor("w", {4})}), synSuccess) << hpuSynLastError();
}

TEST_F(SynapseNode, HugeTensorsAreRefused) {
  EXPECT_SYN_ERROR(addNode("memcpy", {makeTensor("x", {uint64_t{1} << 40, uint64_t{1} << 40})}, {makeTensor("y", {4})}),
                   synInvalidTensorDimensions, "2^63");
}

TEST_F(SynapseNode, DeterministicIsReadBack) {
  synNodeId id = add();
  bool value = true;
  ASSERT_EQ(synNodeGetDeterministic(graph, id, &value), synSuccess);
  EXPECT_FALSE(value);
  ASSERT_EQ(synNodeSetDeterministic(graph, id, true), synSuccess);
  ASSERT_EQ(synNodeGetDeterministic(graph, id, &value), synSuccess);
  EXPECT_TRUE(value);
  EXPECT_EQ(synNodeGetDeterministic(graph, id, nullptr), synInvalidArgument);
  EXPECT_SYN_ERROR(synNodeSetDeterministic(graph, id + 1000, true), synInvalidArgument, "has no node");
}

TEST_F(SynapseNode, TheRoundingModeOfTheMmeIsToNearest) {
  synNodeId copy = add();
  EXPECT_SYN_ERROR(synNodeSetRoundingMode(graph, copy, synRoundToZero), synFail, "does not run on the MME");
  synTensor a = makeTensor("a", {4, 4}, syn_type_float), b = makeTensor("b", {4, 4}, syn_type_float);
  synTensor inputs[] = {a, b}, c = makeTensor("c", {4, 4}, syn_type_float);
  synNodeId product = 0;
  ASSERT_EQ(synNodeCreateWithId(graph, inputs, &c, 2, 1, nullptr, 0, "gemm", "product", &product, nullptr, nullptr),
            synSuccess);
  synRoundingMode mode = synRoundUp;
  ASSERT_EQ(synNodeGetRoundingMode(graph, product, &mode), synSuccess);
  EXPECT_EQ(mode, synRoundToNearest);
  EXPECT_EQ(synNodeSetRoundingMode(graph, product, synRoundToNearest), synSuccess);
  // What would not act is not accepted.
  for (int other = synRoundToZero; other <= synStochasticRoundingAndNearest; ++other)
    EXPECT_SYN_ERROR(synNodeSetRoundingMode(graph, product, static_cast<synRoundingMode>(other)), synUnsupported,
                     "nearest even only");
  ASSERT_EQ(synNodeGetRoundingMode(graph, product, &mode), synSuccess);
  EXPECT_EQ(mode, synRoundToNearest);
  EXPECT_EQ(synNodeSetRoundingMode(graph, product, static_cast<synRoundingMode>(50)), synInvalidArgument);
  EXPECT_EQ(synNodeGetRoundingMode(graph, product, nullptr), synInvalidArgument);
}

TEST_F(SynapseNode, ParametersMayBeReplaced) {
  synTensor in = makeTensor("in", {4, 2}), out = makeTensor("out", {8, 2});
  synTensor inputs[] = {in, in};
  synConcatenateParams params = {0}, read = {7};
  synNodeId id = 0;
  ASSERT_EQ(
      synNodeCreateWithId(graph, inputs, &out, 2, 1, &params, sizeof(params), "concat", "c", &id, nullptr, nullptr),
      synSuccess)
      << hpuSynLastError();
  unsigned size = 0;
  ASSERT_EQ(synNodeGetUserParams(graph, id, nullptr, &size), synSuccess);
  EXPECT_EQ(size, sizeof(params));
  params.axis = 1;
  ASSERT_EQ(synNodeSetUserParams(graph, id, &params, sizeof(params)), synSuccess);
  ASSERT_EQ(synNodeGetUserParams(graph, id, &read, &size), synSuccess);
  EXPECT_EQ(read.axis, 1u);
  size = 1;
  EXPECT_SYN_ERROR(synNodeGetUserParams(graph, id, &read, &size), synInvalidArgument, "4 bytes");
  EXPECT_EQ(synNodeGetUserParams(graph, id, &read, nullptr), synInvalidArgument);
  EXPECT_EQ(synNodeSetUserParams(graph, id, nullptr, 0), synInvalidArgument) << "concat needs them";
}

TEST_F(SynapseNode, DependenciesNameNodesOfTheGraph) {
  synNodeId first = add("memcpy", "first");
  synTensor y = makePersistent("y", {4});
  synNodeId second = 0;
  ASSERT_EQ(synNodeCreateWithId(graph, nullptr, &y, 0, 1, nullptr, 0, "memset", "second", &second, nullptr, nullptr),
            synSuccess);
  EXPECT_EQ(synNodeDependencySet(graph, &first, &second, 1, 1), synSuccess) << hpuSynLastError();
  EXPECT_SYN_ERROR(synNodeDependencySet(graph, &first, &first, 1, 1), synInvalidArgument, "itself");
  synNodeId unknown = second + 1000;
  EXPECT_SYN_ERROR(synNodeDependencySet(graph, &unknown, &second, 1, 1), synInvalidArgument, "blocking node 0");
  EXPECT_EQ(synNodeDependencySet(graph, nullptr, &second, 0, 1), synInvalidArgument);
  EXPECT_EQ(synNodeDependencySet(graph, &first, nullptr, 1, 0), synInvalidArgument);
}

TEST_F(SynapseNode, PrecisionAndOrderAreAccepted) {
  synNodeId id = add();
  EXPECT_EQ(synNodeTypeSetPrecision(graph, "gemm", syn_type_bf16), synSuccess);
  EXPECT_EQ(synNodeTypeSetPrecision(graph, "relu_fwd", syn_type_bf16), synSuccess) << "a type without its suffix";
  EXPECT_EQ(synNodeTypeSetPrecision(graph, "nonsense", syn_type_bf16), synUnsupported);
  EXPECT_EQ(synNodeTypeSetPrecision(graph, "gemm", syn_type_na), synInvalidArgument);
  EXPECT_EQ(synNodeTypeSetPrecision(graph, nullptr, syn_type_bf16), synInvalidArgument);
  synUserExecOrder order = {1, 2};
  synUserProgrammability programmability = {&order};
  EXPECT_EQ(synNodeSetUserProgrammability(graph, id, &programmability), synSuccess);
  EXPECT_EQ(synNodeSetUserProgrammability(graph, id, nullptr), synInvalidArgument);
  EXPECT_EQ(synNodeSetUserProgrammability(graph, id + 1000, &programmability), synInvalidArgument);
}

}  // namespace
}  // namespace hpu::testing
