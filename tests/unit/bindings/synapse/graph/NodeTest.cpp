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

/// Nodes whose sizes contradict each other, and neighbours that are fine.
struct SizedCase {
  const char* guid;
  std::vector<std::vector<uint64_t>> inputs, outputs;
  std::vector<uint32_t> params;  ///< Words.
  const char* error;             ///< Null: it is created.
};

TEST_F(SynapseNode, SizesThatContradictEachOtherAreRefused) {
  const SizedCase cases[] = {
      {"gemm", {{3, 4}, {5, 3}}, {{5, 4}}, {}, nullptr},
      {"gemm", {{3, 4}, {5, 3}}, {{5, 4, 1}}, {}, nullptr},
      {"gemm", {{3}, {5, 3}}, {{5}}, {}, nullptr},
      {"gemm", {{3, 4}, {5, 2}}, {{5, 4}}, {}, "the common sizes differ: 3 of input 0 and 2 of input 1"},
      {"gemm", {{3, 4}, {5, 3}}, {{5, 5}}, {}, "output 0 has sizes {5, 5}, the operands give {5, 4}"},
      {"gemm", {{3, 4, 2}, {5, 3, 2}}, {{5, 4, 2}}, {}, "use batch_gemm"},
      {"gemm_dedx", {{5, 4}, {5, 3}}, {{3, 4}}, {}, nullptr},
      {"gemm_dedx", {{5, 4}, {4, 3}}, {{3, 4}}, {}, "common sizes differ"},
      {"gemm_dedw", {{5, 4}, {3, 4}}, {{5, 3}}, {}, nullptr},
      {"gemm_dedw", {{5, 4}, {3, 6}}, {{5, 3}}, {}, "common sizes differ"},
      {"batch_gemm", {{3, 4, 2}, {5, 3}}, {{5, 4, 2}}, {}, nullptr},
      {"batch_gemm", {{3, 4, 2}, {5, 3, 3}}, {{5, 4, 2}}, {}, "size 2 is 2 of input 0 and 3 of input 1"},
      {"batch_gemm", {{3, 4, 2}, {5, 3, 1}}, {{5, 4, 3}}, {}, "the operands give {5, 4, 2}"},
      {"transpose", {{3, 4}}, {{4, 3}}, {1, 0, 0, 0, 0, 2}, nullptr},
      {"transpose", {{3, 4}}, {{3, 4}}, {1, 0, 0, 0, 0, 2}, "the operands give {4, 3}"},
      {"transpose", {{3, 4}}, {{4, 3}}, {1, 0, 0, 0, 0, 3}, "tensorDim is 3"},
      {"transpose", {{3, 4}}, {{4, 3}}, {2, 0, 0, 0, 0, 2}, "the permutation is none: entry 0 is 2"},
      {"reshape", {{3, 4}}, {{2, 6}}, {}, nullptr},
      {"reshape", {{3, 4}}, {{2, 5}}, {}, "cannot reshape {3, 4} to {2, 5}"},
      {"broadcast", {{1, 4}}, {{3, 4, 2}}, {}, nullptr},
      {"broadcast", {{2, 4}}, {{3, 4}}, {}, "cannot broadcast"},
      {"concat", {{3, 4}, {3, 2}}, {{3, 6}}, {1}, nullptr},
      {"concat", {{3, 4}, {3, 2}}, {{3, 7}}, {1}, "have together 6 along axis 1, the whole has 7"},
      {"concat", {{3, 4}, {2, 2}}, {{3, 6}}, {1}, "input 1 has sizes {2, 2}"},
      {"concat", {{3, 4}, {3, 2}}, {{3, 6}}, {2}, "axis 2 is outside of rank 2"},
      {"physical_concat", {{3, 4}, {3, 2}}, {{3, 7}}, {1}, "have together 6"},
      {"split", {{3, 6}}, {{3, 2}, {3, 4}}, {1}, nullptr},
      {"split", {{3, 6}}, {{3, 2}, {3, 3}}, {1}, "have together 5 along axis 1, the whole has 6"},
      {"split", {{3, 6}}, {{3, 2}, {2, 4}}, {1}, "output 1 has sizes {2, 4}"},
      {"expand_dims", {{3, 4}}, {{3, 1, 4}}, {1}, nullptr},
      {"expand_dims", {{3, 4}}, {{3, 4, 1}}, {1}, "the operands give {3, 1, 4}"},
      {"expand_dims", {{3, 4}}, {{3, 4, 1}}, {3}, "axis 3"},
      {"squeeze", {{3, 1, 4}}, {{3, 4}}, {1}, nullptr},
      {"squeeze", {{3, 1, 4}}, {{3, 4}}, {0}, "axis 0 has size 3, must have 1"},
      {"flatten", {{3, 2, 4}}, {{6, 4}}, {1}, nullptr},
      {"flatten", {{3, 2, 4}}, {{3, 8}}, {1}, "the operands give {6, 4}"},
      {"identity", {{3, 4}}, {{3, 4}}, {}, nullptr},
      {"identity", {{3, 4}}, {{4, 3}}, {}, "the operands give {3, 4}"},
      {"memcpy", {{3}}, {{4}}, {}, "the operands give {3}"},
      {"slice_axis", {{3, 6}}, {{3, 2}}, {1, 2, 4}, nullptr},
      {"slice_axis", {{3, 6}}, {{3, 2}}, {1, 4, 9}, nullptr},
      {"slice_axis", {{3, 6}}, {{3, 3}}, {1, 2, 4}, "the operands give {3, 2}"},
      {"slice_axis", {{3, 6}}, {{3, 2}}, {1, 7, 9}, "do not fit the size 6"},
      {"slice", {{3, 6}}, {{3, 7}}, std::vector<uint32_t>(20), "are no slice of {3, 6}"},
      {"slice_insert", {{3, 6}, {3, 2}}, {{3, 5}}, std::vector<uint32_t>(20), "the operands give {3, 6}"},
      {"add_f32", {{3, 4}, {3, 1}}, {{3, 4}}, {}, nullptr},
      {"add_f32", {{3, 4}, {4}}, {{3, 4}}, {}, "size 0 of input 1 is 4"},
      {"add_f32", {{3, 4}, {3, 4}}, {{3, 5}}, {}, "the operands give {3, 4}"},
      {"relu_f32", {{3, 4}}, {{3, 5}}, {}, "the operands give {3, 4}"},
      {"less_f32", {{3, 4}, {3, 2}}, {{3, 4}}, {}, "size 1 of input 1 is 2"},
      {"cast_f32_to_i32", {{3, 4}}, {{12}}, {}, "the operands give {3, 4}"},
  };
  int count = 0;
  for (const SizedCase& one : cases) {
    std::vector<synTensor> inputs, outputs;
    auto make = [&](const std::vector<uint64_t>& sizes) {
      return makeTensor(("t" + std::to_string(count++)).c_str(), sizes, syn_type_float);
    };
    for (const auto& sizes : one.inputs) inputs.push_back(make(sizes));
    for (const auto& sizes : one.outputs) outputs.push_back(make(sizes));
    const std::string name = "node" + std::to_string(count);
    synStatus status =
        synNodeCreate(graph, inputs.data(), outputs.data(), static_cast<uint32_t>(inputs.size()),
                      static_cast<uint32_t>(outputs.size()), one.params.empty() ? nullptr : one.params.data(),
                      static_cast<unsigned>(one.params.size() * 4), one.guid, name.c_str(), nullptr, nullptr);
    if (!one.error) {
      EXPECT_EQ(status, synSuccess) << one.guid << ": " << hpuSynLastError();
      continue;
    }
    EXPECT_SYN_ERROR(status, synInvalidArgument, one.error);
    // Nothing of the graph has changed: the result may have another producer.
    EXPECT_EQ(addNode("memset", {}, {outputs[0]}), synSuccess) << one.guid << ": " << hpuSynLastError();
  }
}

TEST_F(SynapseNode, SizesOfConvolutionsAreCompared) {
  auto create = [&](std::vector<uint64_t> x, std::vector<uint64_t> w, std::vector<uint64_t> y, const char** layouts) {
    synConvolutionParams params;
    params.kW = 3;
    params.kH = 2;
    static int count = 0;
    auto name = [&] { return "c" + std::to_string(count++); };
    const synTensor inputs[] = {makeTensor(name().c_str(), x), makeTensor(name().c_str(), w)};
    const synTensor output = makeTensor(name().c_str(), y);
    return synNodeCreate(graph, inputs, &output, 2, 1, &params, sizeof params, "spatial_convolution", name().c_str(),
                         layouts, nullptr);
  };
  EXPECT_SYN(create({4, 8, 6, 2}, {5, 4, 3, 2}, {5, 6, 5, 2}, nullptr));
  EXPECT_SYN_ERROR(create({4, 8, 6, 2}, {5, 3, 3, 2}, {5, 6, 5, 2}, nullptr), synInvalidArgument, "the data have 4");
  EXPECT_SYN_ERROR(create({4, 8, 6, 2}, {5, 4, 2, 2}, {5, 6, 5, 2}, nullptr), synInvalidArgument, "kernel is 3");
  EXPECT_SYN_ERROR(create({4, 8, 6, 2}, {5, 4, 3, 2}, {5, 7, 5, 2}, nullptr), synInvalidArgument,
                   "size 1 of the forward");
  EXPECT_SYN_ERROR(create({4, 8, 6, 2}, {5, 4, 3, 2}, {6, 6, 5, 2}, nullptr), synInvalidArgument, "give 5 channels");
  EXPECT_SYN_ERROR(create({4, 8, 6, 2}, {5, 4, 3, 2}, {5, 6, 5, 3}, nullptr), synInvalidArgument, "batches differ");
  EXPECT_SYN_ERROR(create({4, 8, 6}, {5, 4, 3, 2}, {5, 6, 5, 2}, nullptr), synInvalidArgument,
                   "of a tensor that has 4");
  const char* layouts[] = {"WHCN", "SRCK"};  // Whose places the compiler knows.
  EXPECT_SYN(create({8, 6, 4, 2}, {3, 2, 4, 5}, {5, 6, 5, 2}, layouts));
}

TEST_F(SynapseNode, SizesThatAreOpenAreNotCompared) {
  synTensor x = makeTensor("x", {4, 8}), y = makeTensor("y", {4, 6}), open = nullptr;
  setSizes(x, {4, 1}, synGeometryMinSizes);
  EXPECT_SYN(addNode("identity", {x}, {y}));
  EXPECT_SYN(synTensorHandleCreate(&open, graph, DATA_TENSOR, "open"));
  EXPECT_SYN(addNode("add_f32", {open, makeTensor("b", {3})}, {makeTensor("c", {4})}));
}

TEST_F(SynapseNode, SizesThatChangeAreOfAtMostFiveDimensions) {
  synTensor x = makeTensor("x", {2, 2, 2, 2, 2, 8}), y = makeTensor("y", {2, 2, 2, 2, 2, 8});
  setSizes(y, {2, 2, 2, 2, 2, 1}, synGeometryMinSizes);
  EXPECT_SYN_ERROR(addNode("identity", {x}, {y}), synInvalidTensorDimensions, "at most 5");
  setSizes(y, {2, 2, 2, 2, 2, 8}, synGeometryMinSizes);
  EXPECT_SYN(addNode("identity", {x}, {y}));
}

TEST_F(SynapseNode, NullParametersMayHaveAnySizeWhereNoneAreNeeded) {
  for (unsigned size : {1u, 24u, 1u << 20}) {
    synTensor x = makeTensor(("x" + std::to_string(size)).c_str(), {4});
    synTensor y = makeTensor(("y" + std::to_string(size)).c_str(), {2, 2});
    synNodeId id = 0;
    EXPECT_SYN(synNodeCreateWithId(graph, &x, &y, 1, 1, nullptr, size, "reshape", ("r" + std::to_string(size)).c_str(),
                                   &id, nullptr, nullptr));
    unsigned bytes = 7;
    EXPECT_SYN(synNodeGetUserParams(graph, id, nullptr, &bytes));
    EXPECT_EQ(bytes, 0u);
  }
}

}  // namespace
}  // namespace hpu::testing
