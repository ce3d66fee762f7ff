// SPDX-License-Identifier: Apache-2.0
// Persistent tensors of changing sizes that are strided by their largest ones: where each element of a launch lies, and
// that what is between them stays.
#include "tests/unit/bindings/synapse/recipe/LaunchFixture.h"

namespace hpu::testing {
namespace {

class SynapseStridedSizes : public LaunchFixture {
 protected:
  void TearDown() override {
    LaunchFixture::TearDown();
    EXPECT_SYN(synConfigurationSet("GAUDI_ENABLE_SERIALIZE_DESERIALIZE_PASS", ""));
  }
  synTensor changing(const char* name, const Sizes& most, const Sizes& least) {
    synTensor tensor = makeTensor(graph, name, most, syn_type_float);
    setSizes(tensor, least, synGeometryMinSizes);
    persist(graph, tensor);
    return tensor;
  }
  /// x -> -x of sizes {8, 4} at most, the fastest of which changes.
  synRecipeHandle negation(const char* setting) {
    EXPECT_SYN(synConfigurationSet("GAUDI_ENABLE_SERIALIZE_DESERIALIZE_PASS", setting));
    synTensor x = changing("x", kMost, {1, 4}), y = changing("y", kMost, {1, 4});
    EXPECT_SYN(addNode("neg_fwd_f32", {x}, {y}));
    return compile();
  }
  Floats run(synRecipeHandle recipe, uint64_t width) {
    const size_t count = countOf(kMost);
    uint64_t x = allocate(count * 4), y = allocate(count * 4), bytes = 0, workspace = 0;
    Floats values(count);
    for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i + 1);
    write(x, values);
    write(y, Floats(count, 77));
    EXPECT_SYN(synWorkspaceGetSize(&bytes, recipe));
    EXPECT_SYN(synDeviceMalloc(device, bytes, 0, 0, &workspace));
    std::vector<synLaunchTensorInfo> infos = {info(recipe, "x", x, {width, 4}), info(recipe, "y", y, {width, 4})};
    EXPECT_SYN(synLaunch(stream, infos.data(), 2, workspace, recipe, 0));
    EXPECT_SYN(synStreamSynchronize(stream));
    return read<float>(y, count);
  }
  static inline const Sizes kMost = {8, 4};
};

TEST_F(SynapseStridedSizes, ElementsLieWhereTheLargestSizesPutThem) {
  synRecipeHandle recipe = negation("false");
  for (uint64_t width : {8, 5, 1, 8}) {
    Floats expected(32, 77);
    for (uint64_t row = 0; row < 4; ++row)
      for (uint64_t i = 0; i < width; ++i) expected[row * 8 + i] = -static_cast<float>(row * 8 + i + 1);
    EXPECT_EQ(run(recipe, width), expected) << width;
  }
}

TEST_F(SynapseStridedSizes, WithoutTheSettingElementsAreDense) {
  synRecipeHandle recipe = negation("");
  for (uint64_t width : {8, 5, 1}) {
    Floats expected(32, 77);
    for (size_t i = 0; i < width * 4; ++i) expected[i] = -static_cast<float>(i + 1);
    EXPECT_EQ(run(recipe, width), expected) << width;
  }
}

TEST_F(SynapseStridedSizes, TheSettingIsThatOfTheCompilation) {
  synRecipeHandle recipe = negation("0");
  ASSERT_SYN(synConfigurationSet("GAUDI_ENABLE_SERIALIZE_DESERIALIZE_PASS", "1"));
  Floats result = run(recipe, 2);
  EXPECT_EQ(result[1], -2);
  EXPECT_EQ(result[2], 77);
  EXPECT_EQ(result[8], -9);
}

/// Two operands of other sizes, a product, and the workspace between: the tensors of the program alone are strided.
TEST_F(SynapseStridedSizes, ProductsReadAndWriteStrided) {
  ASSERT_SYN(synConfigurationSet("GAUDI_ENABLE_SERIALIZE_DESERIALIZE_PASS", "false"));
  synTensor a = changing("a", {4, 6}, {1, 1}), b = changing("b", {5, 4}, {1, 1}), c = changing("c", {5, 6}, {1, 1});
  synTensor hidden = makeTensor(graph, "hidden", {5, 6}, syn_type_float);
  setSizes(hidden, {1, 1}, synGeometryMinSizes);
  ASSERT_SYN(addNode("gemm", {a, b}, {hidden}, "product"));
  ASSERT_SYN(addNode("neg_fwd_f32", {hidden}, {c}, "negation"));
  synRecipeHandle recipe = compile();
  const uint64_t k = 3, n = 2, m = 4;
  Floats as(24), bs(20);
  for (size_t i = 0; i < as.size(); ++i) as[i] = static_cast<float>(i % 7);
  for (size_t i = 0; i < bs.size(); ++i) bs[i] = static_cast<float>(i % 5) - 2;
  uint64_t at = allocate(96), bt = allocate(80), ct = allocate(120), bytes = 0, workspace = 0;
  write(at, as);
  write(bt, bs);
  write(ct, Floats(30, 77));
  ASSERT_SYN(synWorkspaceGetSize(&bytes, recipe));
  ASSERT_SYN(synDeviceMalloc(device, bytes, 0, 0, &workspace));
  std::vector<synLaunchTensorInfo> infos = {info(recipe, "a", at, {k, m}), info(recipe, "b", bt, {n, k}),
                                            info(recipe, "c", ct, {n, m})};
  ASSERT_SYN(synLaunch(stream, infos.data(), 3, workspace, recipe, 0));
  ASSERT_SYN(synStreamSynchronize(stream));
  Floats expected(30, 77);
  for (uint64_t row = 0; row < m; ++row)
    for (uint64_t column = 0; column < n; ++column) {
      float sum = 0;
      for (uint64_t i = 0; i < k; ++i) sum += as[row * 4 + i] * bs[i * 5 + column];
      expected[row * 5 + column] = -sum;
    }
  EXPECT_EQ(read<float>(ct, 30), expected);
}

}  // namespace
}  // namespace hpu::testing
