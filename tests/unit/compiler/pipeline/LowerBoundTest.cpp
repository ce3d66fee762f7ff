// SPDX-License-Identifier: Apache-2.0
// What counts as required work, in graphs small enough to count by hand.
#include "compiler/pipeline/LowerBound.h"

#include <gtest/gtest.h>

#include "compiler/dialect/hpu/HpuDialect.h"
#include "compiler/kernels/KernelWork.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"

namespace hpu::pipeline {
namespace {

class LowerBoundTest : public ::testing::Test {
 protected:
  LowerBoundTest() { context_.loadDialect<ir::HpuDialect, mlir::func::FuncDialect>(); }

  mlir::func::FuncOp parse(const std::string& arguments, const std::string& results, const std::string& body) {
    std::string text = "func.func @main(" + arguments + ") -> (" + results + ") {\n" + body + "\n}";
    module_ = mlir::parseSourceString<mlir::ModuleOp>(text, &context_);
    EXPECT_TRUE(module_) << text;
    return module_ ? module_->lookupSymbol<mlir::func::FuncOp>("main") : mlir::func::FuncOp();
  }
  LowerBound bound(const std::string& arguments, const std::string& results, const std::string& body) {
    mlir::func::FuncOp function = parse(arguments, results, body);
    return function ? lowerBound(function, target_) : LowerBound();
  }

  const arch::TargetDesc& target_ = arch::targetDesc(Target::kGaudi2);
  mlir::MLIRContext context_{mlir::MLIRContext::Threading::DISABLED};
  mlir::OwningOpRef<mlir::ModuleOp> module_;
};

constexpr double kVector = 64;  // f32 lanes of a 256-byte vector.

TEST_F(LowerBoundTest, AProductIsItsMultiplyAddsAtThePeakOfItsType) {
  const char* form =
      "  %0 = hpu.matmul %a, %b : (tensor<512x256xTYPE>, tensor<256x1024xTYPE>) -> tensor<512x1024xTYPE>\n"
      "  return %0 : tensor<512x1024xTYPE>";
  for (auto [type, element] : {std::pair("f32", ElementType::kF32), std::pair("bf16", ElementType::kBF16)}) {
    std::string body = form, arguments = "%a: tensor<512x256xTYPE>, %b: tensor<256x1024xTYPE>";
    std::string results = "tensor<512x1024xTYPE>";
    for (std::string* text : {&body, &arguments, &results})
      for (size_t at; (at = text->find("TYPE")) != std::string::npos;) text->replace(at, 4, type);
    LowerBound b = bound(arguments, results, body);
    double flops = 2.0 * 512 * 256 * 1024;
    EXPECT_NEAR(b.mmeUs, flops / target_.mmePeakTflops(target_.clock(), element) / 1e6, 1e-9);
    EXPECT_EQ(b.tpcUs, 0);
    EXPECT_EQ(b.hbmBytes, (512.0 * 256 + 1024 * 256 + 512 * 1024) * elementSize(element));
    EXPECT_NEAR(b.hbmUs, b.hbmBytes / 2457.6e3, 1e-9);
  }
}

TEST_F(LowerBoundTest, ConvolutionsCountTheirGroups) {
  const char* body =
      "  %0 = hpu.conv2d %x, %w {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, "
      "1>, groups = 4 : i64} : (tensor<2x16x8x8xf32>, tensor<32x4x3x3xf32>) -> tensor<2x32x8x8xf32>\n"
      "  return %0 : tensor<2x32x8x8xf32>";
  LowerBound b = bound("%x: tensor<2x16x8x8xf32>, %w: tensor<32x4x3x3xf32>", "tensor<2x32x8x8xf32>", body);
  double macs = 2.0 * 32 * 8 * 8 * 4 * 9;
  EXPECT_NEAR(b.mmeUs, 2 * macs / target_.mmePeakTflops(target_.clock(), ElementType::kF32) / 1e6, 1e-9);
}

TEST_F(LowerBoundTest, AChainOfElementwiseOpsIsLoadedAndStoredOnce) {
  // Three ops unfused would load and store six times as much.
  const char* body =
      "  %0 = hpu.relu %x : (tensor<64x1024xf32>) -> tensor<64x1024xf32>\n"
      "  %1 = hpu.add %0, %y : (tensor<64x1024xf32>, tensor<64x1024xf32>) -> tensor<64x1024xf32>\n"
      "  %2 = hpu.mul %1, %1 : (tensor<64x1024xf32>, tensor<64x1024xf32>) -> tensor<64x1024xf32>\n"
      "  return %2 : tensor<64x1024xf32>";
  LowerBound b = bound("%x: tensor<64x1024xf32>, %y: tensor<64x1024xf32>", "tensor<64x1024xf32>", body);
  double vectors = 64 * 1024 / kVector;
  EXPECT_DOUBLE_EQ(b.tpcLoads, 2 * vectors);
  EXPECT_DOUBLE_EQ(b.tpcStores, vectors);
  EXPECT_GE(b.tpcVectorOps, 3 * vectors);
  EXPECT_LE(b.tpcVectorOps, 4 * vectors);
  EXPECT_NEAR(b.tpcUs, 4 * 2 * vectors / (24 * 1.8e3), 1e-9) << "four cycles a load";
}

TEST_F(LowerBoundTest, WhatRidesOnTheMmeOrIsAViewIsNoTpcWork) {
  const char* body =
      "  %0 = hpu.matmul %a, %b : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>\n"
      "  %1 = hpu.cast %0 {to = bf16} : (tensor<64x64xf32>) -> tensor<64x64xbf16>\n"
      "  %2 = hpu.transpose %1 {perm = array<i64: 1, 0>} : (tensor<64x64xbf16>) -> tensor<64x64xbf16>\n"
      "  return %2 : tensor<64x64xbf16>";
  LowerBound b = bound("%a: tensor<64x64xf32>, %b: tensor<64x64xf32>", "tensor<64x64xbf16>", body);
  EXPECT_EQ(b.tpcUs, 0);
}

TEST_F(LowerBoundTest, TheMmeSeparatesRegions) {
  // The activation between two products must be loaded and stored, whatever is fused.
  const char* body =
      "  %0 = hpu.matmul %a, %b : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>\n"
      "  %1 = hpu.relu %0 : (tensor<64x64xf32>) -> tensor<64x64xf32>\n"
      "  %2 = hpu.matmul %1, %b : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>\n"
      "  %3 = hpu.add %2, %1 : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>\n"
      "  return %3 : tensor<64x64xf32>";
  LowerBound b = bound("%a: tensor<64x64xf32>, %b: tensor<64x64xf32>", "tensor<64x64xf32>", body);
  // In: both products (the residual's kernel could be the same one). Out: the activation and the sum.
  EXPECT_DOUBLE_EQ(b.tpcLoads, 2 * 64 * 64 / kVector);
  EXPECT_DOUBLE_EQ(b.tpcStores, 2 * 64 * 64 / kVector);
}

TEST_F(LowerBoundTest, OfATableOnlyWhatIsLookedUp) {
  const char* body =
      "  %0 = hpu.gather %t, %i {axis = 0 : i64} : (tensor<100000x64xf32>, tensor<8xi64>) -> tensor<8x64xf32>\n"
      "  %1 = hpu.relu %0 : (tensor<8x64xf32>) -> tensor<8x64xf32>\n"
      "  return %1 : tensor<8x64xf32>";
  LowerBound b = bound("%t: tensor<100000x64xf32>, %i: tensor<8xi64>", "tensor<8x64xf32>", body);
  EXPECT_EQ(b.hbmBytes, 8 * 64 * 4 + 8 * 8 + 8 * 64 * 4);
  EXPECT_DOUBLE_EQ(b.tpcLoads, (8 * 64 * 4 + 8 * 8) / 256.0);
}

TEST_F(LowerBoundTest, ManyPathsThroughCopiesAreWalkedOnce) {
  std::string body, type = "tensor<1xf32>", name = "%x";
  for (int i = 0; i < 20; ++i) {
    std::string next = "tensor<" + std::to_string(2 << i) + "xf32>", result = "%" + std::to_string(i);
    body += "  " + result + " = hpu.concat %x0, %x0 {axis = 0 : i64} : (" + type + ", " + type + ") -> " + next + "\n";
    body.replace(body.rfind("%x0, %x0"), 8, name + ", " + name);
    type = next, name = result;
  }
  body += "  %r = hpu.relu " + name + " : (" + type + ") -> " + type + "\n  return %r : " + type;
  LowerBound b = bound("%x: tensor<1xf32>", type, body);
  EXPECT_GT(b.tpcUs, 0);
}

TEST_F(LowerBoundTest, WorkIsWhatTheOpsMathsNeeds) {
  mlir::func::FuncOp function = parse(
      "%x: tensor<32x128xf32>", "tensor<32x128xf32>, tensor<32x128xf32>, tensor<32x128xf32>, tensor<32x1xf32>",
      "  %0 = hpu.gelu %x : (tensor<32x128xf32>) -> tensor<32x128xf32>\n"
      "  %1 = hpu.neg %x : (tensor<32x128xf32>) -> tensor<32x128xf32>\n"
      "  %2 = hpu.softmax %x {axis = 1 : i64} : (tensor<32x128xf32>) -> tensor<32x128xf32>\n"
      "  %3 = hpu.reduce_sum %x {axes = array<i64: 1>, keepdims = true} : (tensor<32x128xf32>) -> tensor<32x1xf32>\n"
      "  return %0, %1, %2, %3 : tensor<32x128xf32>, tensor<32x128xf32>, tensor<32x128xf32>, tensor<32x1xf32>");
  ASSERT_TRUE(function);
  kernels::WorkCounter counter;
  std::vector<double> each;
  for (mlir::Operation& op : function.getBody().front()) {
    if (mlir::isa<mlir::func::ReturnOp>(op)) continue;
    StatusOr<double> ops = counter.vectorOps(&op);
    ASSERT_TRUE(ops.ok()) << ops.status().message();
    each.push_back(*ops / (32 * 128 / kVector));
  }
  EXPECT_GT(each[0], 10) << "gelu is a polynomial";
  EXPECT_LT(each[0], 60);
  EXPECT_DOUBLE_EQ(each[1], 1);
  // Maximum, difference, exponential, sum, scaling.
  EXPECT_GT(each[2], 8);
  EXPECT_LT(each[2], 60);
  EXPECT_DOUBLE_EQ(each[3], 1);
}

TEST_F(LowerBoundTest, NamesWhatItIsBoundBy) {
  LowerBound b;
  b.mmeUs = 1, b.tpcUs = 3, b.hbmUs = 2;
  EXPECT_EQ(b.us(), 3);
  EXPECT_STREQ(b.boundBy(), "tpc");
}

}  // namespace
}  // namespace hpu::pipeline
