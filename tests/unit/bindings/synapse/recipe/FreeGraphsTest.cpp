// SPDX-License-Identifier: Apache-2.0
// Larger graphs of free sizes: each is built twice, once for all sizes and once for those of a launch alone, and both
// must compute the same. (What graphs of fixed sizes compute is the conformance tests' subject.)
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <random>
#include <sstream>

#include "habanalabs/perf_lib_layer_params.h"
#include "tests/unit/bindings/synapse/recipe/LaunchFixture.h"

namespace hpu::testing {
namespace {

class SynapseFreeGraphs : public LaunchFixture {
 protected:
  /// What a graph is built for: sizes by name, the least and the largest ones.
  struct Bounds {
    Sizes least, largest;
  };
  struct Input {
    std::string name;
    std::function<Sizes(const Sizes&)> sizes;  ///< From those that are free.
    bool isShape = false;
  };

  /// Tensors of the graph that is built now.
  synTensor tensor(const std::string& name, const std::function<Sizes(const Sizes&)>& sizes, bool persistent,
                   synTensorType type = DATA_TENSOR) {
    synTensor made = makeTensor(building, name.c_str(), sizes(bounds.largest),
                                type == DATA_TENSOR ? syn_type_float : syn_type_int32, type);
    setSizes(made, sizes(bounds.least), synGeometryMinSizes);
    if (persistent) persist(building, made);
    return made;
  }
  synTensor input(const std::string& name, const std::function<Sizes(const Sizes&)>& sizes) {
    inputs.push_back({name, sizes});
    return tensor(name, sizes, true);
  }
  synTensor shape(const std::string& name, const std::function<Sizes(const Sizes&)>& sizes) {
    inputs.push_back({name, sizes, true});
    return tensor(name, sizes, false, SHAPE_TENSOR);
  }
  synTensor inner(const std::function<Sizes(const Sizes&)>& sizes) {
    return tensor("inner" + std::to_string(next++), sizes, false);
  }
  synTensor output(const std::function<Sizes(const Sizes&)>& sizes) {
    result = sizes;
    return tensor("y", sizes, true);
  }
  void node(const char* guid, const std::vector<synTensor>& in, const std::vector<synTensor>& out,
            const void* params = nullptr, unsigned bytes = 0) {
    const std::string name = guid + std::to_string(next++);
    ASSERT_EQ(synNodeCreate(building, in.data(), out.data(), static_cast<uint32_t>(in.size()),
                            static_cast<uint32_t>(out.size()), params, bytes, guid, name.c_str(), nullptr, nullptr),
              synSuccess)
        << hpuSynLastError();
  }
  synRecipeHandle build(const std::function<void()>& graphOf, const Bounds& of) {
    bounds = of;
    inputs.clear();
    EXPECT_SYN(synGraphCreate(&building, synDeviceGaudi2));
    graphOf();
    const std::string path = ::testing::TempDir() + "synapse_graphs_" + std::to_string(getpid()) + ".log";
    synRecipeHandle recipe = nullptr;
    EXPECT_EQ(synGraphCompile(&recipe, building, "graph", path.c_str()), synSuccess) << hpuSynLastError();
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    std::remove(path.c_str());
    log = text.str();
    EXPECT_SYN(synGraphDestroy(building));
    return recipe;
  }
  Floats run(synRecipeHandle recipe, const Sizes& sizes, const std::vector<Floats>& values) {
    std::vector<synLaunchTensorInfo> infos;
    std::vector<uint64_t> addresses;
    auto give = [&](const std::string& name, const Sizes& own, const Floats* data) {
      uint64_t address = data ? allocate(std::max<uint64_t>(countOf(own), 1) * 4) : 0;
      if (data && !data->empty()) write(address, *data);
      if (address) addresses.push_back(address);
      if (idOf(recipe, name.c_str()) == TENSOR_INVALID_ID) return;  // A shape tensor of fixed sizes.
      infos.push_back(info(recipe, name.c_str(), address, own));
      infos.back().tensorType = data ? DATA_TENSOR_DYNAMIC : SHAPE_TENSOR;
    };
    for (size_t i = 0; i < inputs.size(); ++i)
      give(inputs[i].name, inputs[i].sizes(sizes), inputs[i].isShape ? nullptr : &values[i]);
    const Floats nothing(countOf(result(sizes)), 77);
    give("y", result(sizes), &nothing);
    uint64_t bytes = 0;
    EXPECT_SYN(synWorkspaceGetSize(&bytes, recipe));
    const uint64_t workspace = bytes ? allocate(bytes) : 0;
    EXPECT_EQ(
        synLaunch(stream, infos.data(), static_cast<uint32_t>(infos.size()), workspace, recipe, SYN_FLAGS_TENSOR_NAME),
        synSuccess)
        << hpuSynLastError();
    Floats got = read<float>(addresses.back(), nothing.size());
    for (uint64_t address : addresses) EXPECT_SYN(synDeviceFree(device, address, 0));
    if (workspace) {
      EXPECT_SYN(synDeviceFree(device, workspace, 0));
    }
    return got;
  }
  /// `dims`: as many free dimensions as the program must have.
  void compare(const std::function<void()>& graphOf, const Bounds& all, size_t dims, int rounds = 10) {
    synRecipeHandle free = build(graphOf, all);
    ASSERT_NE(free, nullptr);
    size_t said = 0;
    for (size_t at = log.find("free dimension "); at != log.npos; at = log.find("free dimension ", at + 1)) ++said;
    EXPECT_EQ(said, dims) << log;
    for (int round = 0; round < rounds; ++round) {
      Sizes sizes;
      for (size_t i = 0; i < all.least.size(); ++i)
        sizes.push_back(round == 0 ? all.largest[i]
                        : round == 1
                            ? all.least[i]
                            : std::uniform_int_distribution<uint64_t>(all.least[i], all.largest[i])(generator));
      std::vector<Floats> values;
      for (const Input& one : inputs) {
        std::uniform_real_distribution<float> value(-1, 1);
        Floats own(countOf(one.sizes(sizes)));
        for (float& element : own) element = value(generator);
        values.push_back(std::move(own));
      }
      const Floats got = run(free, sizes, values);
      synRecipeHandle fixed = build(graphOf, {sizes, sizes});
      const Floats wanted = run(fixed, sizes, values);
      EXPECT_SYN(synRecipeDestroy(fixed));
      ASSERT_EQ(got.size(), wanted.size());
      float scale = 1e-6f;
      for (float one : wanted) scale = std::max(scale, std::abs(one));
      for (size_t i = 0; i < got.size(); ++i)
        ASSERT_LE(std::abs(got[i] - wanted[i]), 1e-5f * scale) << "round " << round << ", element " << i;
    }
  }

  synGraphHandle building = nullptr;
  Bounds bounds;
  std::vector<Input> inputs;
  std::function<Sizes(const Sizes&)> result;
  std::string log;
  std::mt19937 generator{3};
  int next = 0;
};

template <size_t N>
synTransposeParams transposeOf(const int (&order)[N]) {
  synTransposeParams params = {};
  params.tensorDim = N;
  for (size_t i = 0; i < N; ++i) params.permutation[i] = static_cast<TransposePermutationDim>(order[i]);
  return params;
}

TEST_F(SynapseFreeGraphs, AttentionOfFreeSequencesAndBatches) {
  // Sizes: sequence, batch. 32 features are 4 heads of 8.
  auto graphOf = [&] {
    auto wide = [](const Sizes& s) { return Sizes{32, s[0], s[1]}; };
    auto parted = [](const Sizes& s) { return Sizes{8, 4, s[0], s[1]}; };
    auto heads = [](const Sizes& s) { return Sizes{8, s[0], 4, s[1]}; };
    auto scores = [](const Sizes& s) { return Sizes{s[0], s[0], 4, s[1]}; };
    auto weights = [](const Sizes&) { return Sizes{32, 32}; };
    synTensor x = input("x", wide);
    const synTransposeParams swap = transposeOf({0, 2, 1, 3});
    const synGEMMParams plain = {false, false}, turned = {false, true};
    std::vector<synTensor> projected;
    for (const char* name : {"q", "k", "v"}) {
      synTensor w = input(name, weights), product = inner(wide), part = inner(parted), head = inner(heads);
      node("batch_gemm", {x, w}, {product}, &plain, sizeof plain);
      node("reshape", {product, shape(std::string("parts_of_") + name, parted)}, {part});
      node("transpose", {part}, {head}, &swap, sizeof swap);
      projected.push_back(head);
    }
    synTensor score = inner(scores), soft = inner(scores), mixed = inner(heads), back = inner(parted);
    node("batch_gemm", {projected[0], projected[1]}, {score}, &turned, sizeof turned);
    ns_Softmax::Params along = {0};
    node("softmax_fwd_f32", {score}, {soft}, &along, sizeof along);
    node("batch_gemm", {soft, projected[2]}, {mixed}, &plain, sizeof plain);
    node("transpose", {mixed}, {back}, &swap, sizeof swap);
    node("reshape", {back, shape("whole", wide)}, {output(wide)});
  };
  compare(graphOf, {{1, 1}, {40, 6}}, 2);
}

TEST_F(SynapseFreeGraphs, ReshapesWithoutShapeTensorsFollowTheirDeclaration) {
  auto graphOf = [&] {
    synTensor x = input("x", [](const Sizes& s) { return Sizes{6, 5, s[0]}; });
    synTensor flat = inner([](const Sizes& s) { return Sizes{30, s[0]}; });
    node("reshape", {x}, {flat});
    node("relu_fwd_f32", {flat}, {output([](const Sizes& s) { return Sizes{30, s[0]}; })});
  };
  compare(graphOf, {{1}, {24}}, 1);
}

TEST_F(SynapseFreeGraphs, JoinedPartsOfFreeSizes) {
  auto graphOf = [&] {
    synTensor a = input("a", [](const Sizes& s) { return Sizes{5, s[0], s[2]}; });
    synTensor b = input("b", [](const Sizes& s) { return Sizes{5, s[1], s[2]}; });
    auto both = [](const Sizes& s) { return Sizes{5, s[0] + s[1], s[2]}; };
    synTensor joined = inner(both);
    synConcatenateParams along = {1};
    node("concat", {a, b}, {joined}, &along, sizeof along);
    node("gelu_fwd_f32", {joined}, {output(both)});
  };
  compare(graphOf, {{1, 2, 1}, {12, 9, 5}}, 3);
}

TEST_F(SynapseFreeGraphs, NormsOfFreeRows) {
  auto graphOf = [&] {
    auto rows = [](const Sizes& s) { return Sizes{24, s[0], s[1]}; };
    auto one = [](const Sizes& s) { return Sizes{1, s[0], s[1]}; };
    auto features = [](const Sizes&) { return Sizes{24}; };
    synTensor x = input("x", rows), residual = input("residual", rows), sum = inner(rows);
    node("add_fwd_f32", {x, residual}, {sum});
    ns_LayerNormKernel::Params params = {};
    params.eps = 1e-5f;
    params.epsValid = true;
    node("layer_norm_fwd_f32", {sum, input("beta", features), input("gamma", features)},
         {output(rows), inner(one), inner(one)}, &params, sizeof params);
  };
  compare(graphOf, {{1, 1}, {33, 7}}, 2);
}

TEST_F(SynapseFreeGraphs, ConvolutionsOfFreeBatches) {
  auto graphOf = [&] {
    synTensor x = input("x", [](const Sizes& s) { return Sizes{3, 12, 10, s[0]}; });
    synTensor w = input("w", [](const Sizes&) { return Sizes{8, 3, 3, 3}; });
    auto out = [](const Sizes& s) { return Sizes{8, 12, 10, s[0]}; };
    synTensor y = inner(out);
    synConvolutionParams params(3, 3, 1, 1, 1, 1, 1, 1, 1, 1);
    node("spatial_convolution", {x, w}, {y}, &params, sizeof params);
    node("relu_fwd_f32", {y}, {output(out)});
  };
  compare(graphOf, {{1}, {9}}, 1);
}

TEST_F(SynapseFreeGraphs, MeansAndTransposes) {
  auto graphOf = [&] {
    synTensor x = input("x", [](const Sizes& s) { return Sizes{s[0], s[1], 3}; });
    synTensor turned = inner([](const Sizes& s) { return Sizes{s[1], s[0], 3}; });
    const synTransposeParams swap = transposeOf({1, 0, 2});
    node("transpose", {x}, {turned}, &swap, sizeof swap);
    ns_Reduction::Params along = {0};
    node("reduce_mean_fwd_f32", {turned}, {output([](const Sizes& s) { return Sizes{1, s[0], 3}; })}, &along,
         sizeof along);
  };
  compare(graphOf, {{1, 1}, {50, 60}}, 2);
}

TEST_F(SynapseFreeGraphs, LossesThatAreMeansOverTheBatch) {
  // A mean divides by the number of elements, which is free.
  auto graphOf = [&] {
    auto rows = [](const Sizes& s) { return Sizes{10, s[0]}; };
    ns_MSELossKernel::Params params = {MSE_LOSS_REDUCTION_MODE_MEAN};
    node("mse_loss_fwd_f32", {input("x", rows), input("target", rows)}, {output([](const Sizes&) { return Sizes{1}; })},
         &params, sizeof params);
  };
  compare(graphOf, {{1}, {70}}, 1);
}

TEST_F(SynapseFreeGraphs, WeightsAreUpdatedInPlaceForAnyBatch) {
  // w -= x^T x in one section: what is free is the batch only.
  auto graphOf = [&] {
    synTensor x = input("x", [](const Sizes& s) { return Sizes{6, s[0]}; });
    auto square = [](const Sizes&) { return Sizes{6, 6}; };
    synTensor w = input("w", square), product = inner(square);
    const synGEMMParams first = {true, false};
    node("gemm", {x, x}, {product}, &first, sizeof first);
    node("sub_fwd_f32", {w, product}, {output(square)});
  };
  compare(graphOf, {{1}, {64}}, 1);
}

TEST_F(SynapseFreeGraphs, SizesOfOneBoundAreApart) {
  // Rows and columns have the same bounds in all tensors; both are free, and a split and a reshape say which is which.
  auto graphOf = [&] {
    auto whole = [](const Sizes& s) { return Sizes{4, s[0], s[1]}; };
    auto parted = [](const Sizes& s) { return Sizes{2, 2, s[0], s[1]}; };
    auto part = [](const Sizes& s) { return Sizes{2, 1, s[0], s[1]}; };
    synTensor sum = inner(whole), quarters = inner(parted), first = inner(part);
    node("add_fwd_f32", {input("x", whole), input("z", whole)}, {sum});
    node("reshape", {sum}, {quarters});
    synSplitParams along = {1};
    node("split", {quarters}, {first, inner(part)}, &along, sizeof along);
    node("relu_fwd_f32", {first}, {output(part)});
  };
  compare(graphOf, {{1, 1}, {8, 8}}, 2);
}

TEST_F(SynapseFreeGraphs, ProductsOfSizesOfOneBound) {
  // Rows and columns of the product are two, though all launches below have them equal.
  auto graphOf = [&] {
    auto left = [](const Sizes& s) { return Sizes{s[1], s[0], s[2]}; };
    auto right = [](const Sizes& s) { return Sizes{s[0], s[1], s[2]}; };
    auto square = [](const Sizes& s) { return Sizes{s[0], s[0], s[2]}; };
    synTensor product = inner(square);
    const synGEMMParams plain = {false, false};
    node("batch_gemm", {input("a", left), input("b", right)}, {product}, &plain, sizeof plain);
    node("add_fwd_f32", {product, input("c", square)}, {output(square)});
  };
  compare(graphOf, {{2, 2, 2}, {9, 9, 9}}, 4);
}

TEST_F(SynapseFreeGraphs, ReshapesOfSumsFollowTheirDeclaration) {
  // No input has the sizes s0 + 3 and (s0 + 3) * s1, and only the reshape's result is declared to.
  auto graphOf = [&] {
    synTensor x = input("x", [](const Sizes& s) { return Sizes{6, s[0], s[1]}; });
    synTensor z = input("z", [](const Sizes& s) { return Sizes{6, 3, s[1]}; });
    synTensor joined = inner([](const Sizes& s) { return Sizes{6, s[0] + 3, s[1]}; });
    synConcatenateParams along = {1};
    node("concat", {x, z}, {joined}, &along, sizeof along);
    auto flat = [](const Sizes& s) { return Sizes{3, 2, (s[0] + 3) * s[1]}; };
    synTensor reshaped = inner(flat);
    node("reshape", {joined}, {reshaped});
    node("relu_fwd_f32", {reshaped}, {output(flat)});
  };
  compare(graphOf, {{1, 1}, {11, 7}}, 2);
}

TEST_F(SynapseFreeGraphs, SetsOfSizesKeepDeclaredResults) {
  // That z is as long as x has elements is more than bounds say, so each set of sizes is compiled: the sizes of what
  // is split and reshaped between are then still those that are declared.
  auto graphOf = [&] {
    auto whole = [](const Sizes& s) { return Sizes{4, s[0], s[1]}; };
    auto part = [](const Sizes& s) { return Sizes{2, s[0], s[1]}; };
    auto flat = [](const Sizes& s) { return Sizes{2, s[0] * s[1]}; };
    synTensor first = inner(part), reshaped = inner(flat);
    synSplitParams along = {0};
    node("split", {input("x", whole)}, {first, inner(part)}, &along, sizeof along);
    node("reshape", {first}, {reshaped});
    node("add_fwd_f32", {reshaped, input("z", flat)}, {output(flat)});
  };
  compare(graphOf, {{2, 2}, {5, 5}}, 0, 6);
  EXPECT_EQ(log.find("free dimension"), log.npos);
}

TEST_F(SynapseFreeGraphs, RunningSumsOfFreeLengths) {
  for (const int axis : {0, 1})
    for (const int exclusive : {0, 1})
      for (const int reverse : {0, 1}) {
        auto graphOf = [&] {
          auto sizes = [](const Sizes& s) { return Sizes{s[0], s[1], 2}; };
          ns_CumSumKernel::Params params = {axis, exclusive, reverse};
          node("cumsum_fwd_f32", {input("x", sizes)}, {output(sizes)}, &params, sizeof params);
        };
        compare(graphOf, {{1, 1}, {40, 9}}, 2, 5);
      }
}

TEST_F(SynapseFreeGraphs, RunningProductsOfFreeLengths) {
  auto graphOf = [&] {
    auto sizes = [](const Sizes& s) { return Sizes{3, s[0]}; };
    ns_CumSumKernel::Params params = {1, 0, 0};  // ns_CumProdKernel has the same fields.
    node("cumprod_fwd_f32", {input("x", sizes)}, {output(sizes)}, &params, sizeof params);
  };
  compare(graphOf, {{1}, {17}}, 1);
}

TEST_F(SynapseFreeGraphs, RollsOfFreeSizes) {
  for (const int shift : {1, -2, 7, 40, -33}) {
    auto graphOf = [&] {
      auto sizes = [](const Sizes& s) { return Sizes{s[0], s[1]}; };
      ns_RollKernel::Params params = {};
      params.shifts[0] = shift;
      params.dims[0] = 1;
      node("roll_f32", {input("x", sizes)}, {output(sizes)}, &params, sizeof params);
    };
    compare(graphOf, {{1, 1}, {6, 12}}, 2, 6);
  }
}

TEST_F(SynapseFreeGraphs, ImagesOfFreeSizesAreResampled) {
  // Channels, width, height, batch.
  auto image = [](const Sizes& s) { return Sizes{2, s[0], s[1], s[2]}; };
  const Bounds bounds = {{2, 3, 1}, {14, 11, 4}};
  auto fixed = [](const Sizes& s) { return Sizes{2, 5, 4, s[2]}; };
  for (const bool isLinear : {false, true}) {
    auto graphOf = [&] {
      ns_ResizeKernel::Params params = {};
      params.mode = isLinear ? RESIZE_INTER_LINEAR : RESIZE_INTER_NEAREST;
      params.coordTransMode = isLinear ? HALF_PIXEL_MODE : ASYMMETRIC_MODE;
      params.nearestMode = FLOOR;
      params.size1 = 5;
      params.size2 = 4;
      node("resize_fwd_f32", {input("x", image)}, {output(fixed)}, &params, sizeof params);
    };
    compare(graphOf, bounds, 3);
  }
  auto scaled = [&] {
    ns_ResizeKernel::Params params = {};
    params.mode = RESIZE_INTER_LINEAR;
    params.coordTransMode = HALF_PIXEL_MODE;
    params.useScales = true;
    params.scaleDim1 = 2;
    params.scaleDim2 = 1.5f;
    auto large = [](const Sizes& s) { return Sizes{2, s[0] * 2, s[1] * 3 / 2, s[2]}; };
    node("resize_fwd_f32", {input("x", image)}, {output(large)}, &params, sizeof params);
  };
  compare(scaled, bounds, 3);
  auto adaptive = [&] {
    ns_AdaptiveAvgPool::Params params = {};
    params.outputWidth = 5;
    params.outputHeight = 4;
    node("adaptive_avg_pool_2d_fwd_f32", {input("x", image)}, {output(fixed)}, &params, sizeof params);
  };
  compare(adaptive, bounds, 3);
}

}  // namespace
}  // namespace hpu::testing
