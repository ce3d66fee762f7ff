// SPDX-License-Identifier: Apache-2.0
// What a kernel says that a slice reads: everything else is poisoned, and the slice's results must stay the same.
#include <cmath>
#include <limits>

#include "KernelHarness.h"
#include "gtest/gtest.h"

namespace hpu::kernels::test {
namespace {

constexpr ElementType F32 = ElementType::kF32, I64 = ElementType::kI64;

/// Elements lo to hi (exclusive) of an input's dimension that a slice reads.
std::pair<int64_t, int64_t> range(const recipe::DimRead& read, int64_t size, const Index& lo, const Index& hi) {
  if (read.dim < 0) return {0, size};
  return {read.scale * lo[read.dim] + read.low, read.scale * (hi[read.dim] - 1) + read.high + 1};
}

/// Returns the share of the inputs' elements that slices did not read.
double checkReads(const std::string& body, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs) {
  Kernel kernel(body, inputs, outputs);
  EXPECT_TRUE(kernel.status().ok()) << kernel.status().toString();
  ParsedCluster parsed(body, inputs, outputs);
  KernelPricer pricer;
  StatusOr<KernelFacts> facts = pricer.facts(parsed.request("test"));
  EXPECT_TRUE(facts.ok());
  if (!kernel.status().ok() || !facts.ok()) return 0;
  EXPECT_EQ(facts->wholeDims, kernel.info().wholeDims);
  EXPECT_EQ(facts->cost.loads, kernel.info().cost.loads);
  EXPECT_EQ(facts->reads.size(), inputs.size());

  const Index& space = outputs[0].sizes;
  std::vector<Tensor> expected;
  for (const Tensor& output : outputs) expected.push_back(output.clone());
  kernel.run(0, inputs, expected, Index(space.size(), 0), space);
  int64_t poisoned = 0, all = 0;
  for (size_t d = 0; d < space.size(); ++d) {
    if (facts->wholeDims >> d & 1 || space[d] < 2) continue;
    for (auto [from, to] :
         {std::pair<int64_t, int64_t>{0, 1}, {space[d] / 2, space[d]}, {space[d] / 3, space[d] / 3 + 1}}) {
      Index lo(space.size(), 0), hi = space;
      lo[d] = from;
      hi[d] = to;
      std::vector<Tensor> partial, results;
      for (size_t i = 0; i < inputs.size(); ++i) {
        Tensor input = inputs[i].clone();
        forEach(input.sizes, [&](const Index& at) {
          bool read = true;
          for (size_t k = 0; k < at.size() && k < facts->reads[i].size(); ++k) {
            auto [low, high] = range(facts->reads[i][k], input.sizes[k], lo, hi);
            read &= at[k] >= low && at[k] < high;
          }
          ++all;
          if (read) return;
          ++poisoned;
          input.set(at, input.type == F32 ? std::numeric_limits<double>::quiet_NaN() : 1e6);
        });
        partial.push_back(std::move(input));
      }
      for (const Tensor& output : outputs) results.push_back(output.clone());
      kernel.run(0, partial, results, lo, hi);
      for (size_t k = 0; k < results.size(); ++k)
        forEach(results[k].sizes, [&](const Index& at) {
          // An output that a reduction made smaller has 1 where the space has a row.
          if (results[k].sizes[d] != 1 && (at[d] < from || at[d] >= to)) return;
          EXPECT_EQ(results[k].at(at), expected[k].at(at)) << body << "dim " << d << " from " << from;
        });
      if (testing::Test::HasFailure()) return 0;
    }
  }
  return all ? static_cast<double>(poisoned) / static_cast<double>(all) : 0;
}

Tensor input(Index sizes, Index order = {}) {
  Tensor tensor = Tensor::dense(F32, std::move(sizes), std::move(order));
  return tensor.random(7);
}
Tensor output(Index sizes, Index order = {}) {
  return Tensor::dense(F32, std::move(sizes), std::move(order));
}

TEST(Reads, PointwiseKernelsReadTheirOwnPlace) {
  EXPECT_GT(checkReads("%r = hpu.add %0, %1 : ($0, $1) -> $out0\nhpu.yield %r : $out0",
                       {input({6, 5, 40}), input({5, 1})}, {output({6, 5, 40})}),
            0.4);
  EXPECT_GT(checkReads("%r = hpu.relu %0 : ($0) -> $out0\nhpu.yield %r : $out0", {input({4, 9, 9})},
                       {output({4, 9, 9}, {0, 2, 1})}),
            0.5);
}

TEST(Reads, VectorsAlongAnotherDimThanTheLastAreWhole) {
  // As wide as the tensor's last dim: aligning them by size alone would read the wrong channels.
  Tensor vector = Tensor::dense(F32, {8});
  vector.random(3, 0.5, 2);
  checkReads(
      "%r = hpu.batch_norm %0, %1, %1, %1, %1 {epsilon = 1.0e-5} : ($0, $1, $1, $1, $1) -> $out0\nhpu.yield %r : $out0",
      {input({2, 8, 8, 8}), vector}, {output({2, 8, 8, 8})});
}

TEST(Reads, RowOpsReadWholeRows) {
  EXPECT_GT(checkReads("%r = hpu.softmax %0 {axis = 2 : i64} : ($0) -> $out0\nhpu.yield %r : $out0",
                       {input({3, 7, 33})}, {output({3, 7, 33})}),
            0.5);
  EXPECT_GT(checkReads("%r = hpu.layer_norm %0, %1, %1 {axis = 2 : i64, epsilon = 1.0e-5} : ($0, $1, $1) -> $out0\n"
                       "hpu.yield %r : $out0",
                       {input({3, 7, 33}), input({33})}, {output({3, 7, 33})}),
            0.5);
  EXPECT_GT(checkReads("%r = hpu.reduce_mean %0 {axes = array<i64: 2, 3>} : ($0) -> $out0\nhpu.yield %r : $out0",
                       {input({4, 10, 5, 5})}, {output({4, 10, 1, 1})}),
            0.5);
}

TEST(Reads, WindowsReachOverTheirSlice) {
  // The same size in and out: rows of a slice are not enough.
  EXPECT_GT(checkReads("%r = hpu.max_pool2d %0 {kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, dilations = "
                       "array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>} : ($0) -> $out0\nhpu.yield %r : $out0",
                       {input({2, 16, 12, 12}, {0, 2, 3, 1})}, {output({2, 16, 12, 12}, {0, 2, 3, 1})}),
            0.3);
  EXPECT_GT(checkReads("%r = hpu.max_pool2d %0 {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, dilations = "
                       "array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>} : ($0) -> $out0\nhpu.yield %r : $out0",
                       {input({2, 16, 12, 12}, {0, 2, 3, 1})}, {output({2, 16, 6, 6}, {0, 2, 3, 1})}),
            0.3);
  EXPECT_GT(checkReads("%r = hpu.conv2d %0, %1 {strides = array<i64: 1, 1>, dilations = array<i64: 2, 2>, pads = "
                       "array<i64: 2, 2, 2, 2>, groups = 16 : i64} : ($0, $1) -> $out0\nhpu.yield %r : $out0",
                       {input({2, 16, 12, 12}, {0, 2, 3, 1}), input({16, 1, 3, 3}, {2, 3, 1, 0})},
                       {output({2, 16, 12, 12}, {0, 2, 3, 1})}),
            0.2);
}

TEST(Reads, MovedElementsAreReadFromWhereTheyWere) {
  checkReads("%c = hpu.concat %0, %1 {axis = 1 : i64} : ($0, $1) -> $out0\nhpu.yield %c : $out0",
             {input({4, 3, 20}), input({4, 5, 20})}, {output({4, 8, 20})});
  checkReads(
      "%p = hpu.pad %0 {low = array<i64: 0, 1, 2>, high = array<i64: 1, 0, 4>, value = 0.5 : f64} : ($0) -> $out0\n"
      "hpu.yield %p : $out0",
      {input({3, 4, 20})}, {output({4, 5, 26})});
  Tensor table = input({30, 16}), indices = Tensor::dense(I64, {6});
  indices.fill([](const Index& at) { return static_cast<double>(at[0] * 5 % 30); });
  checkReads("%g = hpu.gather %0, %1 {axis = 0 : i64} : ($0, $1) -> $out0\nhpu.yield %g : $out0", {table, indices},
             {output({6, 16})});
}

}  // namespace
}  // namespace hpu::kernels::test
