// SPDX-License-Identifier: Apache-2.0
// Dimensions of 0, in the graph and at launches, and sizes that shape tensors and pieces take at launches. What each
// node type makes of them is the conformance tests' subject (test_zero_sizes.py, test_free_sizes.py).
#include "habanalabs/perf_lib_layer_params.h"
#include "tests/unit/bindings/synapse/recipe/CompiledFixture.h"

namespace hpu::testing {
namespace {

class SynapseZeroSizes : public CompiledFixture {};

TEST_F(SynapseZeroSizes, AGraphOfNothingCompilesAndLaunches) {
  synTensor x = makeFloats("x", {4, 0}), y = makeFloats("y", {4, 0});
  ASSERT_SYN(addNode("sigmoid_fwd_f32", {x}, {y}));
  synRecipeHandle recipe = compile();
  ASSERT_NE(recipe, nullptr);
  EXPECT_SYN(launch(recipe, {{"x", 0}, {"y", 0}}));
  uint64_t address = allocate(16);
  EXPECT_SYN(launch(recipe, {{"x", address}, {"y", address}}));
  EXPECT_SYN(synStreamSynchronize(stream));
}

TEST_F(SynapseZeroSizes, TheRestOfTheGraphRuns) {
  synTensor x = makeFloats("x", {4}), y = makeFloats("y", {4}), e = makeFloats("e", {0}),
            none = makeFloats("none", {0});
  synTensor joined = makeFloats("joined", {4});
  ASSERT_SYN(addNode("neg_fwd_f32", {x}, {y}, "some"));
  ASSERT_SYN(addNode("exp_fwd_f32", {e}, {none}, "none"));
  synConcatenateParams axis = {0};
  ASSERT_SYN(addNodeWith(axis, "concat", {y, none}, {joined}));
  synRecipeHandle recipe = compile();
  uint64_t xs = upload(counting(4)), ys = upload(Floats(4)), js = upload(Floats(4));
  ASSERT_SYN(launch(recipe, {{"x", xs}, {"y", ys}, {"e", 0}, {"none", 0}, {"joined", js}}));
  EXPECT_EQ(floats(js, 4), (Floats{0, -1, -2, -3}));
}

TEST_F(SynapseZeroSizes, AProductOverNothingIsZero) {
  synTensor a = makeFloats("a", {0, 3}), b = makeFloats("b", {2, 0}), bias = makeFloats("bias", {2});
  synTensor y = makeFloats("y", {2, 3}), z = makeFloats("z", {2, 3});
  ASSERT_SYN(addNode("gemm", {a, b}, {y}, "plain"));
  ASSERT_SYN(addNode("gemm", {a, b, bias}, {z}, "biased"));
  synRecipeHandle recipe = compile();
  uint64_t ys = upload(Floats(6, 77)), zs = upload(Floats(6, 77)), bs = upload({5, 6});
  ASSERT_SYN(launch(recipe, {{"a", 0}, {"b", 0}, {"bias", bs}, {"y", ys}, {"z", zs}}));
  EXPECT_EQ(floats(ys, 6), Floats(6, 0));
  EXPECT_EQ(floats(zs, 6), (Floats{5, 6, 5, 6, 5, 6}));
}

TEST_F(SynapseZeroSizes, OfALaunch) {
  synTensor x = makeFree("x", {4, 0}, {4, 6}), y = makeFree("y", {4, 0}, {4, 6});
  ASSERT_SYN(addNode("neg_fwd_f32", {x}, {y}));
  synRecipeHandle recipe = compile();
  uint64_t xs = upload(counting(24, 1)), ys = allocate(96);
  for (uint64_t rows : {6, 0, 3, 0, 1}) {
    write(ys, Floats(24, 77));
    ASSERT_SYN(launch(recipe, {{"x", xs, {4, rows}}, {"y", ys, {4, rows}}})) << rows << " rows";
    Floats got = floats(ys, 24);
    for (size_t i = 0; i < 24; ++i) EXPECT_EQ(got[i], i < 4 * rows ? -static_cast<float>(i + 1) : 77) << rows;
  }
  // Nothing has no address.
  EXPECT_SYN(launch(recipe, {{"x", 0, {4, 0}}, {"y", 0, {4, 0}}}));
}

TEST_F(SynapseZeroSizes, OfALaunchAreMeantWhereAllMayBe) {
  synTensor x = makeFree("x", {0}, {6}), y = makeFree("y", {0}, {6});
  ASSERT_SYN(addNode("neg_fwd_f32", {x}, {y}));
  synRecipeHandle recipe = compile();
  uint64_t xs = upload(counting(6, 1)), ys = upload(Floats(6, 77));
  for (synTensorType type : {DATA_TENSOR, DATA_TENSOR_DYNAMIC}) {
    ASSERT_SYN(launch(recipe, {{"x", xs, {0}, type}, {"y", ys, {0}, type}}));
    EXPECT_EQ(floats(ys, 6), Floats(6, 77));
  }
}

TEST_F(SynapseZeroSizes, AProductsInnerSizeMayBecomeZero) {
  synTensor a = makeFree("a", {0, 3}, {8, 3}), b = makeFree("b", {2, 0}, {2, 8}), y = makeFloats("y", {2, 3});
  ASSERT_SYN(addNode("gemm", {a, b}, {y}));
  synRecipeHandle recipe = compile();
  uint64_t as = upload(Floats(24, 1)), bs = upload(Floats(16, 2)), ys = upload(Floats(6, 77));
  for (uint64_t inner : {8, 0, 1, 0, 5}) {
    ASSERT_SYN(launch(recipe, {{"a", as, {inner, 3}}, {"b", bs, {2, inner}}, {"y", ys}})) << inner;
    EXPECT_EQ(floats(ys, 6), Floats(6, static_cast<float>(2 * inner))) << inner;
  }
}

TEST_F(SynapseZeroSizes, PiecesOfASplitTakeTheirsAtLaunches) {
  // The largest pieces are more than there is, or as much.
  for (auto [mostOfA, mostOfB] : {std::pair<uint64_t, uint64_t>{8, 8}, {5, 3}}) {
    ASSERT_SYN(synGraphCreate(&graph, synDeviceGaudi2));
    synTensor x = makeFree("x", {2, 0}, {2, 8});
    synTensor a = makeFree("a", {2, 0}, {2, mostOfA}), b = makeFree("b", {2, 0}, {2, mostOfB});
    synSplitParams axis = {1};
    ASSERT_SYN(addNodeWith(axis, "split", {x}, {a, b}));
    synRecipeHandle recipe = compile();
    ASSERT_NE(recipe, nullptr);
    uint64_t xs = upload(counting(16)), as = allocate(64), bs = allocate(64);
    for (auto [first, second] :
         {std::pair<uint64_t, uint64_t>{5, 3}, {3, 3}, {5, 0}, {0, 3}, {1, 1}, {0, 0}, {4, 2}, {8, 0}, {0, 8}}) {
      if (first > mostOfA || second > mostOfB) continue;
      write(as, Floats(16, 77));
      write(bs, Floats(16, 77));
      ASSERT_SYN(launch(recipe, {{"x", xs, {2, first + second}}, {"a", as, {2, first}}, {"b", bs, {2, second}}}))
          << first << " and " << second;
      Floats ga = floats(as, 16), gb = floats(bs, 16);
      for (size_t i = 0; i < 16; ++i) {
        EXPECT_EQ(ga[i], i < 2 * first ? static_cast<float>(i) : 77) << first << " and " << second;
        EXPECT_EQ(gb[i], i < 2 * second ? static_cast<float>(2 * first + i) : 77) << first << " and " << second;
      }
    }
    EXPECT_EQ(launch(recipe, {{"x", xs, {2, 8}}, {"a", as, {2, 3}}, {"b", bs, {2, 3}}}), synFailedDynamicPatching);
  }
}

TEST_F(SynapseZeroSizes, ASliceTakesItsSizesFromItsShapeOperand) {
  synTensor x = makeFloats("x", {8}), y = makeFree("y", {0}, {4});
  synTensor shape = makeShape("shape", {0}, {4});
  synSliceParams params = {};
  params.starts[0] = 1;
  params.ends[0] = 8;
  params.steps[0] = 2;
  ASSERT_SYN(addNodeWith(params, "slice", {x, shape}, {y}));
  synRecipeHandle recipe = compile();
  uint64_t xs = upload(counting(8)), ys = allocate(16);
  for (uint64_t size : {4, 2, 1, 0, 3}) {
    write(ys, Floats(4, 77));
    ASSERT_SYN(launch(recipe, {{"x", xs}, {"y", ys, {size}}, {"shape", 0, {size}, SHAPE_TENSOR}})) << size;
    Floats got = floats(ys, 4);
    for (size_t i = 0; i < 4; ++i) EXPECT_EQ(got[i], i < size ? static_cast<float>(1 + 2 * i) : 77) << size;
  }
}

TEST_F(SynapseZeroSizes, AGradientOfASliceTakesItsSizesFromItsShapeOperand) {
  synTensor dy = makeFree("dy", {1}, {4}), dx = makeFree("dx", {2}, {9}), shape = makeShape("shape", {2}, {9});
  synSliceParams params = {};
  params.starts[0] = 1;
  params.ends[0] = 9;
  params.steps[0] = 2;
  ASSERT_SYN(addNodeWith(params, "strided_slice_grad", {dy, shape}, {dx}));
  synRecipeHandle recipe = compile();
  uint64_t dys = upload(counting(4, 1)), dxs = allocate(36);
  for (auto [piece, whole] : {std::pair<uint64_t, uint64_t>{4, 9}, {4, 8}, {2, 9}, {1, 2}, {3, 7}}) {
    write(dxs, Floats(9, 77));
    ASSERT_SYN(launch(recipe, {{"dy", dys, {piece}}, {"dx", dxs, {whole}}, {"shape", 0, {whole}, SHAPE_TENSOR}}))
        << piece << " of " << whole;
    Floats got = floats(dxs, 9);
    for (size_t i = 0; i < 9; ++i)
      EXPECT_EQ(got[i], i >= whole                    ? 77
                        : i % 2 == 1 && i / 2 < piece ? static_cast<float>(i / 2 + 1)
                                                      : 0)
          << piece << " of " << whole << ", element " << i;
  }
  EXPECT_EQ(launch(recipe, {{"dy", dys, {4}}, {"dx", dxs, {7}}, {"shape", 0, {7}, SHAPE_TENSOR}}),
            synFailedDynamicPatching);
}

}  // namespace
}  // namespace hpu::testing
