// SPDX-License-Identifier: Apache-2.0
// Host-to-device tensors: what a graph is compiled with are bounds (maxima, then minima), and launches bring values.
#include <cstring>

#include "habanalabs/perf_lib_layer_params.h"
#include "tests/unit/bindings/synapse/recipe/CompiledFixture.h"

namespace hpu::testing {
namespace {

class SynapseHostTensors : public CompiledFixture {
 protected:
  /// A host-to-device tensor of `T`s with bounds.
  template <typename T>
  synTensor makeBounded(const char* name, const std::vector<T>& maxima, const std::vector<T>& minima) {
    std::vector<T> both = maxima;
    both.insert(both.end(), minima.begin(), minima.end());
    // The element type that clients give it is one of 32 bits.
    synTensor tensor = makeTensor(graph, name, {maxima.size() * sizeof(T) / 4}, syn_type_uint32, HOST_TO_DEVICE_TENSOR);
    EXPECT_SYN(synTensorSetHostPtr(tensor, both.data(), both.size() * sizeof(T), syn_type_uint32, true));
    return tensor;
  }
  /// synDynamicStridedDmaH2dTensor
  static std::vector<uint64_t> view(uint64_t offset, std::vector<uint64_t> strides) {
    std::vector<uint64_t> words = {strides.size(), offset};
    strides.resize(6);
    words.insert(words.end(), strides.begin(), strides.end());
    return words;
  }
  template <typename T>
  static Given value(const char* name, const std::vector<T>& values) {
    return {name, reinterpret_cast<uintptr_t>(values.data()), {}, HOST_TO_DEVICE_TENSOR};
  }
};

TEST_F(SynapseHostTensors, AViewsBoundsAreNoView) {
  // All maxima together reach far outside of x, and a minimum is above its maximum.
  synTensor x = makeFloats("x", {24}), y = makeFree("y", {1, 1}, {6, 4}), shape = makeShape("shape", {1, 1}, {6, 4});
  synTensor host = makeBounded("host", view(20, {2, 24}), view(0, {3, 1}));
  ASSERT_SYN(addNode("strided_view", {x, shape, host}, {y}));
  synRecipeHandle recipe = compile();
  ASSERT_NE(recipe, nullptr);
  uint64_t xs = upload(counting(24)), ys = allocate(96);
  struct Case {
    uint64_t columns, rows, offset, column, row;
  };
  for (const Case& c : {Case{6, 4, 0, 1, 6}, {3, 4, 1, 2, 6}, {4, 6 - 2, 2, 1, 4}, {1, 1, 23, 1, 1}, {2, 3, 0, 3, 1}}) {
    write(ys, Floats(24, 77));
    const auto words = view(c.offset, {c.column, c.row});
    ASSERT_SYN(launch(recipe, {{"x", xs},
                               {"y", ys, {c.columns, c.rows}},
                               {"shape", 0, {c.columns, c.rows}, SHAPE_TENSOR},
                               value("host", words)}));
    Floats got = floats(ys, 24);
    for (uint64_t r = 0; r < c.rows; ++r)
      for (uint64_t k = 0; k < c.columns; ++k)
        EXPECT_EQ(got[r * c.columns + k], static_cast<float>(c.offset + r * c.row + k * c.column));
    if (c.rows * c.columns < 24) EXPECT_EQ(got[c.rows * c.columns], 77);
  }
  const auto outside = view(20, {2, 24});
  EXPECT_SYN_ERROR(
      launch(recipe, {{"x", xs}, {"y", ys, {6, 4}}, {"shape", 0, {6, 4}, SHAPE_TENSOR}, value("host", outside)}),
      synFailedDynamicPatching, "reaches element");
  EXPECT_SYN_ERROR(launch(recipe, {{"x", xs}, {"y", ys, {6, 4}}, {"shape", 0, {6, 4}, SHAPE_TENSOR}, {"host", 0}}),
                   synFailedSectionValidation, "'host' was compiled with bounds");
}

TEST_F(SynapseHostTensors, AnInsertTakesItsPlaceAtTheLaunch) {
  synTensor x = makeFloats("x", {12}), piece = makeFree("piece", {1}, {4}), y = makeFloats("y", {12});
  synTensor host = makeBounded("host", view(11, {11}), view(0, {1}));
  ASSERT_SYN(addNode("strided_insert", {x, piece, host}, {y}));
  synRecipeHandle recipe = compile();
  uint64_t xs = upload(Floats(12, 5)), ps = upload({1, 2, 3, 4}), ys = upload(Floats(12));
  for (auto [count, offset, stride] : {std::array<uint64_t, 3>{4, 0, 3}, {4, 8, 1}, {2, 1, 10}, {1, 11, 11}}) {
    const auto words = view(offset, {stride});
    ASSERT_SYN(launch(recipe, {{"x", xs}, {"piece", ps, {count}}, {"y", ys}, value("host", words)}));
    Floats wanted(12, 5);
    for (uint64_t i = 0; i < count; ++i) wanted[offset + i * stride] = static_cast<float>(i + 1);
    EXPECT_EQ(floats(ys, 12), wanted);
  }
}

TEST_F(SynapseHostTensors, StridesMayBeSizesOfShapeTensors) {
  synTensor x = makeFloats("x", {24}), y = makeFloats("y", {3, 2}), shape = makeShape("shape", {3, 2}, {3, 2});
  // The bounds of strides and of an offset have no order.
  synTensor strides = makeShape("strides", {2, 12}, {4, 3}), offset = makeShape("offset", {9}, {0});
  ASSERT_SYN(addNode("strided_view", {x, shape, strides, offset}, {y}));
  synRecipeHandle recipe = compile();
  ASSERT_NE(recipe, nullptr);
  uint64_t xs = upload(counting(24)), ys = upload(Floats(6));
  for (auto [column, row, first] : {std::array<uint64_t, 3>{2, 12, 0}, {4, 12, 3}, {3, 3, 9}}) {
    ASSERT_SYN(launch(
        recipe,
        {{"x", xs}, {"y", ys}, {"strides", 0, {column, row}, SHAPE_TENSOR}, {"offset", 0, {first}, SHAPE_TENSOR}}));
    Floats wanted;
    for (uint64_t r = 0; r < 2; ++r)
      for (uint64_t c = 0; c < 3; ++c) wanted.push_back(static_cast<float>(first + r * row + c * column));
    EXPECT_EQ(floats(ys, 6), wanted);
  }
}

TEST_F(SynapseHostTensors, ARangeTakesStartLimitAndDelta) {
  synTensor y = makeFree("y", {0}, {16}), shape = makeShape("shape", {0}, {16});
  synTensor host = makeTensor(graph, "host", {3}, syn_type_float, HOST_TO_DEVICE_TENSOR);
  Floats bounds = {0, 16, 1, 0, 0, 1};
  ASSERT_SYN(synTensorSetHostPtr(host, bounds.data(), 24, syn_type_float, true));
  ASSERT_SYN(addNode("range_f32", {shape, host}, {y}));
  synRecipeHandle recipe = compile();
  uint64_t ys = allocate(64);
  struct Case {
    Floats values, wanted;
  };
  for (const Case& c : {Case{{0, 16, 1}, counting(16)},
                        {{2, 8, 2}, {2, 4, 6}},
                        {{1, 0, -0.25f}, {1, 0.75f, 0.5f, 0.25f}},
                        {{5, 5, 1}, {}}}) {
    write(ys, Floats(16, 77));
    ASSERT_SYN(
        launch(recipe,
               {{"y", ys, {c.wanted.size()}}, {"shape", 0, {c.wanted.size()}, SHAPE_TENSOR}, value("host", c.values)}));
    Floats got = floats(ys, 16);
    for (size_t i = 0; i < 16; ++i) EXPECT_EQ(got[i], i < c.wanted.size() ? c.wanted[i] : 77) << i;
  }
}

TEST_F(SynapseHostTensors, PadsOverrideTheParameters) {
  synTensor x = makeFloats("x", {3, 2}), y = makeFree("y", {3, 2}, {8, 8}), shape = makeShape("shape", {3, 2}, {8, 8});
  std::vector<uint32_t> most(10, 3), none(10, 0);
  synTensor host = makeBounded("host", most, none);
  ns_PadKernelEx::Params params = {};
  params.mode = PAD_MODE_CONSTANT;
  params.value.f = 9;
  ASSERT_SYN(addNodeWith(params, "pad_fwd_f32", {x, shape, host}, {y}));
  synRecipeHandle recipe = compile();
  ASSERT_NE(recipe, nullptr);
  uint64_t xs = upload(counting(6)), ys = allocate(256);
  // Before the columns and the rows, then behind them.
  for (std::vector<uint32_t> pads : {std::vector<uint32_t>{1, 0, 2, 1}, {0, 2, 0, 3}, {0, 0, 0, 0}}) {
    pads.resize(10);
    uint64_t columns = 3 + pads[0] + pads[2], rows = 2 + pads[1] + pads[3];
    ASSERT_SYN(launch(
        recipe,
        {{"x", xs}, {"y", ys, {columns, rows}}, {"shape", 0, {columns, rows}, SHAPE_TENSOR}, value("host", pads)}));
    Floats got = floats(ys, columns * rows);
    for (uint64_t r = 0; r < rows; ++r)
      for (uint64_t c = 0; c < columns; ++c) {
        bool isInside = r >= pads[1] && r < pads[1] + 2 && c >= pads[0] && c < pads[0] + 3;
        EXPECT_EQ(got[r * columns + c], isInside ? static_cast<float>((r - pads[1]) * 3 + c - pads[0]) : 9);
      }
  }
}

TEST_F(SynapseHostTensors, ATilesRepeatsAreOfTheLaunch) {
  synTensor x = makeFloats("x", {2, 1}), y = makeFree("y", {2, 1}, {8, 4}), shape = makeShape("shape", {2, 1}, {8, 4});
  synTensor host = makeBounded<uint32_t>("host", {4, 4, 1, 1, 1}, {1, 1, 1, 1, 1});
  ns_TileKernel::ParamsV2 params = {{4, 4, 1, 1, 1}};
  ASSERT_SYN(addNodeWith(params, "tile_fwd_f32", {x, shape, host}, {y}));
  synRecipeHandle recipe = compile();
  uint64_t xs = upload({1, 2}), ys = allocate(128);
  for (const std::vector<uint32_t>& times : {std::vector<uint32_t>{4, 4, 1, 1, 1}, {1, 3, 1, 1, 1}, {2, 1, 1, 1, 1}}) {
    uint64_t columns = 2 * times[0], rows = times[1];
    ASSERT_SYN(launch(
        recipe,
        {{"x", xs}, {"y", ys, {columns, rows}}, {"shape", 0, {columns, rows}, SHAPE_TENSOR}, value("host", times)}));
    Floats got = floats(ys, columns * rows);
    for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], static_cast<float>(1 + i % 2));
  }
}

TEST_F(SynapseHostTensors, ASplitsPiecesAreOfTheLaunch) {
  synTensor x = makeFloats("x", {9});
  synTensor a = makeFree("a", {0}, {9}), b = makeFree("b", {0}, {9}), c = makeFree("c", {0}, {9});
  synTensor host = makeBounded<uint32_t>("host", {9, 9, 9}, {0, 0, 0});
  synSplitParams axis = {0};
  ASSERT_SYN(addNodeWith(axis, "split", {x, host}, {a, b, c}));
  synRecipeHandle recipe = compile();
  ASSERT_NE(recipe, nullptr);
  uint64_t xs = upload(counting(9)), as = allocate(36), bs = allocate(36), cs = allocate(36);
  for (const std::vector<uint32_t>& sizes : {std::vector<uint32_t>{3, 3, 3}, {1, 0, 8}, {9, 0, 0}, {2, 6, 1}}) {
    ASSERT_SYN(
        launch(recipe,
               {{"x", xs}, {"a", as, {sizes[0]}}, {"b", bs, {sizes[1]}}, {"c", cs, {sizes[2]}}, value("host", sizes)}));
    EXPECT_EQ(floats(as, sizes[0]), counting(sizes[0]));
    EXPECT_EQ(floats(bs, sizes[1]), counting(sizes[1], static_cast<float>(sizes[0])));
    EXPECT_EQ(floats(cs, sizes[2]), counting(sizes[2], static_cast<float>(sizes[0] + sizes[1])));
  }
}

TEST_F(SynapseHostTensors, ASlicesStartsAndStepsAreOfTheLaunch) {
  synTensor x = makeFree("x", {4, 2}, {8, 6}), y = makeFree("y", {0, 0}, {8, 6}),
            shape = makeShape("shape", {0, 0}, {8, 6});
  // synDynamicSliceDmaH2dTensor
  auto slice = [](std::array<uint64_t, 2> steps, std::array<uint64_t, 2> starts) {
    return std::vector<uint64_t>{2, steps[0], steps[1], 0, 0, 0, starts[0], starts[1], 0, 0, 0};
  };
  synTensor host = makeBounded("host", slice({4, 4}, {7, 5}), slice({1, 1}, {0, 0}));
  synSliceParams params = {};
  ASSERT_SYN(addNodeWith(params, "slice", {x, shape, host}, {y}));
  synRecipeHandle recipe = compile();
  ASSERT_NE(recipe, nullptr);
  uint64_t xs = upload(counting(48)), ys = allocate(192);
  struct Case {
    Sizes whole, piece;
    std::array<uint64_t, 2> steps, starts;
  };
  for (const Case& c : {Case{{8, 6}, {8, 6}, {1, 1}, {0, 0}},
                        {{8, 6}, {3, 2}, {2, 3}, {1, 2}},
                        {{5, 4}, {1, 4}, {4, 1}, {4, 0}},
                        {{8, 6}, {0, 2}, {1, 1}, {3, 1}}}) {
    const auto words = slice(c.steps, c.starts);
    ASSERT_SYN(launch(
        recipe, {{"x", xs, c.whole}, {"y", ys, c.piece}, {"shape", 0, c.piece, SHAPE_TENSOR}, value("host", words)}));
    Floats got = floats(ys, c.piece[0] * c.piece[1]);
    for (uint64_t r = 0; r < c.piece[1]; ++r)
      for (uint64_t k = 0; k < c.piece[0]; ++k)
        EXPECT_EQ(got[r * c.piece[0] + k],
                  static_cast<float>((c.starts[1] + r * c.steps[1]) * c.whole[0] + c.starts[0] + k * c.steps[0]));
  }
}

TEST_F(SynapseHostTensors, RecipeFilesKeepBounds) {
  synTensor x = makeFloats("x", {24}), y = makeFloats("y", {4});
  synTensor host = makeBounded("host", view(20, {7}), view(0, {1}));
  ASSERT_SYN(addNode("strided_view", {x, nullptr, host}, {y}));
  const std::string path = ::testing::TempDir() + "synapse_host_tensors.recipe";
  ASSERT_SYN(synRecipeSerialize(compile(), path.c_str()));
  synRecipeHandle recipe = nullptr;
  ASSERT_SYN(synRecipeDeSerialize(&recipe, path.c_str()));
  uint64_t xs = upload(counting(24)), ys = upload(Floats(4));
  const auto words = view(2, {7});
  ASSERT_SYN(launch(recipe, {{"x", xs}, {"y", ys}, value("host", words)}));
  EXPECT_EQ(floats(ys, 4), (Floats{2, 9, 16, 23}));
}

}  // namespace
}  // namespace hpu::testing
