// SPDX-License-Identifier: Apache-2.0
// The kernel compiler as a whole: sharing, determinism, legality, costs, errors, the image.
#include <chrono>
#include <cmath>
#include <cstring>

#include "KernelHarness.h"
#include "compiler/kernels/Codegen.h"
#include "compiler/kernels/ImageLinker.h"
#include "gtest/gtest.h"

namespace hpu::kernels::test {
namespace {

constexpr ElementType F32 = ElementType::kF32, I64 = ElementType::kI64;

const char* const kGelu =
    "%b = hpu.add %0, %1 : ($0, $1) -> $out0\n"
    "%r = hpu.gelu %b : ($out0) -> $out0\nhpu.yield %r : $out0";

TEST(Compiler, EqualRequestsShareCodeAndDifferentOnesDoNot) {
  Tensor x = Tensor::dense(F32, {4, 64}), bias = Tensor::dense(F32, {64});
  ParsedCluster a(kGelu, {x, bias}, {x}), b(kGelu, {x, bias}, {x});
  Tensor wide = Tensor::dense(F32, {4, 64}, {}, 1);
  ParsedCluster c(kGelu, {wide, bias}, {x});
  StatusOr<KernelSet> set = compileKernels({a.request("a"), b.request("b"), c.request("c")}, {});
  ASSERT_TRUE(set.ok()) << set.status().toString();
  EXPECT_EQ(set->distinct, 2u);
  ASSERT_EQ(set->kernels.size(), 3u);
  ASSERT_EQ(set->images.size(), 2u);
  for (const recipe::KernelImage& image : set->images) {
    EXPECT_EQ(image.entries[0], image.entries[1]);
    EXPECT_NE(image.entries[0], image.entries[2]);
    for (uint64_t entry : image.entries) EXPECT_LT(entry, image.bytes);
  }
}

TEST(Compiler, ImagesDoNotDependOnTheNumberOfThreads) {
  Tensor x = Tensor::dense(F32, {4, 64}), bias = Tensor::dense(F32, {64});
  std::vector<std::unique_ptr<ParsedCluster>> clusters;
  std::vector<KernelRequest> requests;
  for (const char* op : {"gelu", "exp", "tanh", "erf", "sigmoid"}) {
    std::string body = "%r = hpu." + std::string(op) + " %0 : ($0) -> $out0\nhpu.yield %r : $out0";
    clusters.push_back(std::make_unique<ParsedCluster>(body, std::vector{x}, std::vector{x}));
    requests.push_back(clusters.back()->request(op));
  }
  KernelOptions one, two;
  one.threads = 1;
  two.threads = 2;
  StatusOr<KernelSet> a = compileKernels(requests, one), b = compileKernels(requests, two);
  ASSERT_TRUE(a.ok() && b.ok());
  for (size_t v = 0; v < a->images.size(); ++v) {
    ASSERT_EQ(a->images[v].bytes, b->images[v].bytes);
    EXPECT_EQ(std::memcmp(a->images[v].data, b->images[v].data, a->images[v].bytes), 0);
    EXPECT_EQ(a->images[v].entries, b->images[v].entries);
  }
}

TEST(Compiler, NoRequestsGiveEmptyImages) {
  StatusOr<KernelSet> set = compileKernels({}, {});
  ASSERT_TRUE(set.ok());
  EXPECT_EQ(set->images.size(), 2u);
  EXPECT_EQ(set->images[0].bytes, 0u);
}

TEST(Compiler, CostsCountVectorsOf256BytesAPoint) {
  Tensor x = Tensor::dense(F32, {16, 640}), y = Tensor::dense(F32, {16, 640});
  Kernel add("%r = hpu.add %0, %1 : ($0, $1) -> $out0\nhpu.yield %r : $out0", {x, y}, {y});
  ASSERT_TRUE(add.status().ok());
  EXPECT_DOUBLE_EQ(add.info().cost.loads, 2.0 / 64);
  EXPECT_DOUBLE_EQ(add.info().cost.stores, 1.0 / 64);
  EXPECT_DOUBLE_EQ(add.info().cost.vectorOps, 1.0 / 64);
  EXPECT_NEAR(add.info().cost.scalarOps, 1.0 / 64, 0.001);  // The loop; addresses are not counted.
  // bf16 halves the traffic, and 10 lanes of a row that nothing continues cost a whole vector.
  Tensor b = Tensor::dense(ElementType::kBF16, {16, 640});
  Kernel half("%r = hpu.add %0, %1 : ($0, $1) -> $out0\nhpu.yield %r : $out0", {b, b}, {b});
  EXPECT_DOUBLE_EQ(half.info().cost.loads, 1.0 / 64);
  Tensor narrow = Tensor::dense(F32, {16, 10}, {}, 3);
  Kernel edge("%r = hpu.neg %0 : ($0) -> $out0\nhpu.yield %r : $out0", {narrow}, {narrow});
  EXPECT_LT(edge.info().cost.loads, 1.01);
  Kernel gelu("%r = hpu.gelu %0 : ($0) -> $out0\nhpu.yield %r : $out0", {x}, {y});
  EXPECT_GT(gelu.info().cost.vectorOps, 25.0 / 64);
  EXPECT_LT(gelu.info().cost.vectorOps, 60.0 / 64);
}

TEST(Compiler, CostsDoNotDependOnTheVariants) {
  Tensor x = Tensor::dense(F32, {16, 640});
  ParsedCluster cluster("%r = hpu.softmax %0 {axis = 1 : i64} : ($0) -> $out0\nhpu.yield %r : $out0", {x}, {x});
  KernelOptions v3, v4;
  v3.variants = {recipe::CpuVariant::kX86_64_v3};
  v4.variants = {recipe::CpuVariant::kX86_64_v4};
  StatusOr<KernelSet> a = compileKernels({cluster.request("a")}, v3), b = compileKernels({cluster.request("b")}, v4);
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(a->kernels[0].cost.vectorOps, b->kernels[0].cost.vectorOps);
  EXPECT_EQ(a->kernels[0].cost.scalarOps, b->kernels[0].cost.scalarOps);
  EXPECT_EQ(a->kernels[0].scratchBytes, b->kernels[0].scratchBytes);
}

TEST(Compiler, EveryOptimisationLevelComputesTheSame) {
  Tensor x = Tensor::dense(F32, {3, 100}).random(1), bias = Tensor::dense(F32, {100}).random(2);
  for (int level = 0; level <= 3; ++level) {
    KernelOptions options;
    options.optLevel = level;
    check(
        "%b = hpu.add %0, %1 : ($0, $1) -> $out0\n%s = hpu.softmax %b {axis = 1 : i64} : ($out0) "
        "-> $out0\n"
        "hpu.yield %s : $out0",
        {x, bias}, {Tensor::dense(F32, {3, 100})},
        [&](int, const Index& i) {
          double sum = 0;
          for (int64_t j = 0; j < 100; ++j) sum += std::exp(x.at({i[0], j}) + bias.at({j}));
          return std::exp(x.at(i) + bias.at({i[1]})) / sum;
        },
        {4e-6, 1e-9}, options);
  }
}

TEST(Compiler, OutputsMayLieOnInputs) {
  // y0 replaces a, from which y1 is computed as well.
  Tensor a = Tensor::dense(F32, {2, 150}).random(3), b = Tensor::dense(F32, {2, 150}).random(4);
  Kernel kernel(
      "%s = hpu.add %0, %1 : ($0, $1) -> $out0\n%d = hpu.sub %0, %1 : ($0, $1) -> $out1\n"
      "hpu.yield %s, %d : $out0, $out1",
      {a, b}, {a, b});
  ASSERT_TRUE(kernel.status().ok());
  for (int variant = 0; variant < kernel.variants(); ++variant) {
    Tensor x = a.clone(), y = b.clone();
    std::vector<Tensor> outputs = {x, y};
    kernel.run(variant, {x, y}, outputs, {0, 0}, {2, 150});
    forEach(a.sizes, [&](const Index& i) {
      ASSERT_EQ(x.at(i), static_cast<float>(a.at(i)) + static_cast<float>(b.at(i)));
      ASSERT_EQ(y.at(i), static_cast<float>(a.at(i)) - static_cast<float>(b.at(i)));
    });
  }
}

TEST(Compiler, LegalityNamesTheReason) {
  Tensor x = Tensor::dense(F32, {4, 64}), d = Tensor::dense(ElementType::kF64, {4, 64});
  std::string why;
  ParsedCluster good(kGelu, {x, Tensor::dense(F32, {64})}, {x});
  EXPECT_TRUE(canFormKernel(good.ops(), &why)) << why;
  ParsedCluster wide("%r = hpu.add %0, %1 : ($0, $1) -> $out0\nhpu.yield %r : $out0", {d, d}, {d});
  EXPECT_TRUE(canFormKernel(wide.ops(), &why)) << why;
  Tensor whole = Tensor::dense(I64, {4, 64});
  ParsedCluster lacking("%r = hpu.erf_inv %0 : ($0) -> $out0\nhpu.yield %r : $out0", {whole}, {whole});
  EXPECT_FALSE(canFormKernel(lacking.ops(), &why));
  EXPECT_NE(why.find("i64"), std::string::npos) << why;
  ParsedCluster two(
      "%s = hpu.softmax %0 {axis = 1 : i64} : ($0) -> $0\n"
      "%r = hpu.softmax %s {axis = 0 : i64} : ($0) -> $out0\nhpu.yield %r : $out0",
      {x}, {x});
  EXPECT_FALSE(canFormKernel(two.ops(), &why));
  EXPECT_NE(why.find("one set of dimensions"), std::string::npos) << why;
  StatusOr<KernelSet> set = compileKernels({two.request("two softmax")}, {});
  ASSERT_FALSE(set.ok());
  EXPECT_EQ(set.status().code(), StatusCode::kUnimplemented);
  EXPECT_NE(set.status().message().find("two softmax"), std::string::npos);
  Tensor ints = Tensor::dense(I64, {8});
  ParsedCluster exp("%r = hpu.exp %0 : ($0) -> $out0\nhpu.yield %r : $out0", {ints}, {ints});
  EXPECT_FALSE(canFormKernel(exp.ops(), &why));
  EXPECT_NE(why.find("hpu.exp"), std::string::npos) << why;
}

TEST(Compiler, RefusesObjectsThatWouldNeedALoader) {
  EXPECT_FALSE(linkImage({LinkObject{llvm::ArrayRef<char>("not an object", 13), {}, {}}}, "f").ok());
}

TEST(Compiler, CompilesSixtyKernelsForTwoVariants) {
  std::vector<std::unique_ptr<ParsedCluster>> clusters;
  std::vector<KernelRequest> requests;
  for (int64_t k = 0; k < 60; ++k) {
    Tensor x = Tensor::dense(F32, {8, 64 + k}), bias = Tensor::dense(F32, {64 + k});
    std::string body = k % 3 == 0   ? kGelu
                       : k % 3 == 1 ? "%b = hpu.add %0, %1 : ($0, $1) -> $out0\n"
                                      "%r = hpu.softmax %b {axis = 1 : i64} : ($out0) -> $out0\nhpu.yield %r : $out0"
                                    : "%b = hpu.add %0, %1 : ($0, $1) -> $out0\n"
                                      "%r = hpu.clip %b {min = 0.0 : f64, max = 6.0 : f64} : ($out0) -> $out0\n"
                                      "hpu.yield %r : $out0";
    clusters.push_back(std::make_unique<ParsedCluster>(body, std::vector{x, bias}, std::vector{x}));
    requests.push_back(clusters.back()->request("k" + std::to_string(k)));
  }
  auto start = std::chrono::steady_clock::now();
  StatusOr<KernelSet> set = compileKernels(requests, {});
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  ASSERT_TRUE(set.ok()) << set.status().toString();
  EXPECT_EQ(set->distinct, 60u);
  RecordProperty("seconds", std::to_string(seconds));
  printf("60 kernels, 2 variants: %.2f s, %zu bytes\n", seconds, static_cast<size_t>(set->images[0].bytes));
}

}  // namespace
}  // namespace hpu::kernels::test
