// SPDX-License-Identifier: Apache-2.0
#include "compiler/interp/Interpreter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "compiler/dialect/hpu/HpuDialect.h"
#include "compiler/interp/Elements.h"
#include "compiler/support/DiagnosticCapture.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"

namespace hpu::interp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

Tensor f32(const Shape& shape, const std::vector<float>& values) {
  return Tensor::of<float>(ElementType::kF32, shape, values);
}
Tensor i64(const Shape& shape, const std::vector<int64_t>& values) {
  return Tensor::of<int64_t>(ElementType::kI64, shape, values);
}

std::vector<double> numbers(const Tensor& tensor) {
  std::vector<double> values;
  for (int64_t i = 0; i < tensor.count(); ++i) values.push_back(tensor.number(i));
  return values;
}

class Interpreter : public ::testing::Test {
 protected:
  Interpreter() { context_.loadDialect<ir::HpuDialect, mlir::func::FuncDialect>(); }

  /// Runs the body of @main; `arguments` and `results` are its signature.
  StatusOr<std::vector<Tensor>> run(const std::string& arguments, const std::string& results, const std::string& body,
                                    const std::vector<Tensor>& inputs, const Observer& observer = {}) {
    ir::DiagnosticCapture capture(&context_);
    std::string text = "func.func @main(" + arguments + ") -> (" + results + ") {\n" + body + "\n}";
    module_ = mlir::parseSourceString<mlir::ModuleOp>(text, &context_);
    if (!module_) return capture.status(StatusCode::kInvalidArgument, "parse");
    return evaluateFunction(module_->lookupSymbol<mlir::func::FuncOp>("main"), inputs, observer);
  }

  /// The only result of an op on one or two arguments of the given types.
  std::vector<double> one(const std::string& op, const std::string& types, const std::string& result,
                          const std::vector<Tensor>& inputs) {
    std::string arguments, operands;
    std::string rest = types;
    for (size_t i = 0; i < inputs.size(); ++i) {
      size_t end = rest.find(';');
      arguments += (i ? ", %" : "%") + std::string(1, 'a' + i) + ": " + rest.substr(0, end);
      operands += (i ? ", %" : "%") + std::string(1, 'a' + i);
      rest = end == std::string::npos ? "" : rest.substr(end + 1);
    }
    std::string typeList = types;
    for (char& c : typeList)
      if (c == ';') c = ',';
    size_t brace = op.find('{');
    std::string name = op.substr(0, brace), attributes = brace == std::string::npos ? "" : op.substr(brace);
    auto outputs = run(arguments, result,
                       "%r = " + name + " " + operands + " " + attributes + " : (" + typeList + ") -> " + result +
                           "\nreturn %r : " + result,
                       inputs);
    EXPECT_TRUE(outputs.ok()) << outputs.status().message();
    return outputs.ok() ? numbers((*outputs)[0]) : std::vector<double>();
  }

  mlir::MLIRContext context_{mlir::MLIRContext::Threading::DISABLED};
  mlir::OwningOpRef<mlir::ModuleOp> module_;
};

/// The IR of an op, which MLIR adds to errors, may be the whole module.
TEST_F(Interpreter, ErrorsDoNotCarryTheIrOfTheOp) {
  context_.printOpOnDiagnostic(true);
  ir::DiagnosticCapture capture(&context_);
  mlir::OwningOpRef<mlir::ModuleOp> module =
      mlir::parseSourceString<mlir::ModuleOp>("func.func @main() { return }", &context_);
  ASSERT_TRUE(module);
  auto error = module->emitOpError("cannot be compiled");
  error.attachNote() << "for a reason";
  error.report();
  EXPECT_THAT(capture.message(), HasSubstr("cannot be compiled (for a reason)"));
  EXPECT_THAT(capture.message(), Not(HasSubstr("see current operation")));
  EXPECT_THAT(capture.status(StatusCode::kInternal, "fuse").message(), Not(HasSubstr("func.func")));
}

TEST_F(Interpreter, MultipliesMatricesWithBroadcastBatches) {
  // [2, 1, 2] x [2, 2]: two batches against one matrix.
  EXPECT_THAT(one("hpu.matmul", "tensor<2x1x2xf32>;tensor<2x2xf32>", "tensor<2x1x2xf32>",
                  {f32({2, 1, 2}, {1, 2, 3, 4}), f32({2, 2}, {10, 20, 30, 40})}),
              ElementsAre(70, 100, 150, 220));
}

TEST_F(Interpreter, AccumulatesProductsBeyondSinglePrecision) {
  // In f32, 2^24 + 1 is lost; the sum of 2^24, 1 and -2^24 must still be 1.
  EXPECT_THAT(one("hpu.matmul", "tensor<1x3xf32>;tensor<3x1xf32>", "tensor<1x1xf32>",
                  {f32({1, 3}, {16777216.0f, 1, -16777216.0f}), f32({3, 1}, {1, 1, 1})}),
              ElementsAre(1));
}

/// Direct sums for any stride, dilation, padding and groups.
std::vector<double> naiveConv(const Tensor& x, const Tensor& w, int64_t stride, int64_t dilation, int64_t pad,
                              int64_t groups, int64_t out) {
  int64_t C = x.shape()[1], H = x.shape()[2], O = w.shape()[0], I = w.shape()[1], K = w.shape()[2];
  std::vector<double> result;
  for (int64_t n = 0; n < x.shape()[0]; ++n)
    for (int64_t o = 0; o < O; ++o)
      for (int64_t y = 0; y < out; ++y)
        for (int64_t c = 0; c < out; ++c) {
          double sum = 0;
          for (int64_t i = 0; i < I; ++i)
            for (int64_t ky = 0; ky < K; ++ky)
              for (int64_t kx = 0; kx < K; ++kx) {
                int64_t sy = y * stride + ky * dilation - pad, sx = c * stride + kx * dilation - pad;
                if (sy < 0 || sx < 0 || sy >= H || sx >= H) continue;
                int64_t channel = o / (O / groups) * I + i;
                sum += x.number(((n * C + channel) * H + sy) * H + sx) * w.number(((o * I + i) * K + ky) * K + kx);
              }
          result.push_back(static_cast<float>(sum));
        }
  return result;
}

TEST_F(Interpreter, ConvolvesAsTheDefinitionSays) {
  struct Case {
    int64_t stride, dilation, pad, groups, out;
  };
  for (Case c : {Case{1, 1, 1, 1, 7}, Case{2, 1, 0, 2, 3}, Case{1, 2, 2, 4, 7}, Case{3, 1, 1, 1, 3}}) {
    int64_t perGroup = 4 / c.groups;
    Tensor x = Tensor::zeros({ElementType::kF32, {2, 4, 7, 7}}),
           w = Tensor::zeros({ElementType::kF32, {8, perGroup, 3, 3}});
    for (Tensor* t : {&x, &w})
      for (int64_t i = 0; i < t->count(); ++i)
        reinterpret_cast<float*>(t->writable())[i] = static_cast<float>((i * 7919) % 17 - 8);
    std::string s = std::to_string(c.stride), d = std::to_string(c.dilation), p = std::to_string(c.pad),
                o = std::to_string(c.out);
    std::string attributes = "{strides = array<i64: " + s + ", " + s + ">, dilations = array<i64: " + d + ", " + d +
                             ">, pads = array<i64: " + p + ", " + p + ", " + p + ", " + p +
                             ">, groups = " + std::to_string(c.groups) + " : i64}";
    EXPECT_EQ(one("hpu.conv2d " + attributes, "tensor<2x4x7x7xf32>;tensor<8x" + std::to_string(perGroup) + "x3x3xf32>",
                  "tensor<2x8x" + o + "x" + o + "xf32>", {x, w}),
              naiveConv(x, w, c.stride, c.dilation, c.pad, c.groups, c.out));
  }
}

TEST_F(Interpreter, TransposedConvolutionScattersEachElement) {
  // Stride 2 with a 2x2 kernel of ones: each input element becomes a 2x2 block.
  EXPECT_THAT(one("hpu.conv_transpose2d {strides = array<i64: 2, 2>, dilations = array<i64: 1, 1>, pads = array<i64: "
                  "0, 0, 0, 0>, "
                  "output_padding = array<i64: 0, 0>, groups = 1 : i64}",
                  "tensor<1x1x1x2xf32>;tensor<1x1x2x2xf32>", "tensor<1x1x2x4xf32>",
                  {f32({1, 1, 1, 2}, {3, 5}), f32({1, 1, 2, 2}, {1, 1, 1, 1})}),
              ElementsAre(3, 3, 5, 5, 3, 3, 5, 5));
}

TEST_F(Interpreter, RoundsEachResultOfNarrowFloatsOnce) {
  // 1 + 2^-8 lies between the bf16 neighbours 1 and 1 + 2^-7: ties to even.
  uint16_t one16 = 0x3f80, small = 0x3b80;  // 1 and 2^-8
  Tensor a = Tensor::of<uint16_t>(ElementType::kBF16, {1}, {one16}),
         b = Tensor::of<uint16_t>(ElementType::kBF16, {1}, {small});
  EXPECT_THAT(one("hpu.add", "tensor<1xbf16>;tensor<1xbf16>", "tensor<1xbf16>", {a, b}), ElementsAre(1.0));
  Tensor c = Tensor::of<uint16_t>(ElementType::kBF16, {1}, {0x3bc0});  // 1.5 * 2^-8 is nearer to the upper one
  EXPECT_THAT(one("hpu.add", "tensor<1xbf16>;tensor<1xbf16>", "tensor<1xbf16>", {a, c}), ElementsAre(1.0 + 1.0 / 128));
}

TEST_F(Interpreter, WrapsIntegersAndTruncatesCasts) {
  Tensor a = Tensor::of<uint8_t>(ElementType::kU8, {2}, {250, 3}),
         b = Tensor::of<uint8_t>(ElementType::kU8, {2}, {10, 5});
  EXPECT_THAT(one("hpu.add", "tensor<2xui8>;tensor<2xui8>", "tensor<2xui8>", {a, b}), ElementsAre(4, 8));
  EXPECT_THAT(one("hpu.sub", "tensor<2xui8>;tensor<2xui8>", "tensor<2xui8>", {a, b}), ElementsAre(240, 254));
  EXPECT_THAT(one("hpu.cast {to = i32}", "tensor<4xf32>", "tensor<4xi32>", {f32({4}, {-1.9f, 1.9f, 3e9f, -3e9f})}),
              ElementsAre(-1, 1, 2147483647, -2147483648.0));
  EXPECT_THAT(one("hpu.div", "tensor<2xi64>;tensor<2xi64>", "tensor<2xi64>", {i64({2}, {-7, 7}), i64({2}, {2, -2})}),
              ElementsAre(-3, -3));
  EXPECT_THAT(one("hpu.mod", "tensor<2xi64>;tensor<2xi64>", "tensor<2xi64>", {i64({2}, {-7, 7}), i64({2}, {3, -3})}),
              ElementsAre(2, -2));
}

TEST_F(Interpreter, BitcastsKeepEveryBit) {
  EXPECT_THAT(one("hpu.bitcast {to = i32}", "tensor<3xf32>", "tensor<3xi32>", {f32({3}, {1.0f, -0.0f, 1e-45f})}),
              ElementsAre(0x3f800000, -2147483648.0, 1));
  Tensor codes = Tensor::of<int16_t>(ElementType::kI16, {3}, {0x3f80, -0x4000, 0x0001});
  EXPECT_THAT(one("hpu.bitcast {to = bf16}", "tensor<3xi16>", "tensor<3xbf16>", {codes}),
              ElementsAre(1.0, -2.0, std::ldexp(1.0, -133)));
}

TEST_F(Interpreter, PropagatesNotANumberThroughMaximum) {
  float nan = std::nanf("");
  auto result =
      one("hpu.max", "tensor<2xf32>;tensor<2xf32>", "tensor<2xf32>", {f32({2}, {nan, 1}), f32({2}, {0, nan})});
  EXPECT_TRUE(std::isnan(result[0]) && std::isnan(result[1]));
}

TEST_F(Interpreter, MovesElementsByStrides) {
  Tensor x = f32({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_THAT(one("hpu.transpose {perm = array<i64: 1, 0>}", "tensor<2x3xf32>", "tensor<3x2xf32>", {x}),
              ElementsAre(1, 4, 2, 5, 3, 6));
  EXPECT_THAT(one("hpu.slice {starts = array<i64: 1, 2>, sizes = array<i64: 1, 2>, steps = array<i64: 1, -2>}",
                  "tensor<2x3xf32>", "tensor<1x2xf32>", {x}),
              ElementsAre(6, 4));
  EXPECT_THAT(one("hpu.pad {low = array<i64: 0, 1>, high = array<i64: 1, 0>, value = 9.0 : f64}", "tensor<2x3xf32>",
                  "tensor<3x4xf32>", {x}),
              ElementsAre(9, 1, 2, 3, 9, 4, 5, 6, 9, 9, 9, 9));
  EXPECT_THAT(one("hpu.gather_elements {axis = 1 : i64}", "tensor<2x3xf32>;tensor<2x2xi64>", "tensor<2x2xf32>",
                  {x, i64({2, 2}, {-1, 0, 1, 1})}),
              ElementsAre(3, 1, 5, 5));
  EXPECT_THAT(
      one("hpu.gather {axis = 1 : i64}", "tensor<2x3xf32>;tensor<2xi64>", "tensor<2x2xf32>", {x, i64({2}, {-1, 0})}),
      ElementsAre(3, 1, 6, 4));
  EXPECT_THAT(one("hpu.expand {shape = array<i64: 2, 3>}", "tensor<2x1xf32>", "tensor<2x3xf32>", {f32({2, 1}, {7, 8})}),
              ElementsAre(7, 7, 7, 8, 8, 8));
}

TEST_F(Interpreter, ReducesOverAnyAxes) {
  Tensor x = f32({2, 3}, {1, 2, 3, 4, 5, 9});
  EXPECT_THAT(one("hpu.reduce_sum {axes = array<i64: 0>, keepdims = false}", "tensor<2x3xf32>", "tensor<3xf32>", {x}),
              ElementsAre(5, 7, 12));
  // 60000 + 60000 is no f16 number; its own type is.
  Tensor halves = Tensor::of<uint16_t>(ElementType::kF16, {1, 2}, {0x7B53, 0x7B53});
  EXPECT_THAT(one("hpu.reduce_sum {axes = array<i64: 1>, to = f32}", "tensor<1x2xf16>", "tensor<1x1xf32>", {halves}),
              ElementsAre(120000));
  EXPECT_THAT(one("hpu.reduce_mean {axes = array<i64: 1>}", "tensor<2x3xf32>", "tensor<2x1xf32>", {x}),
              ElementsAre(2, 6));
  EXPECT_THAT(one("hpu.reduce_max {axes = array<i64: 0, 1>, keepdims = false}", "tensor<2x3xf32>", "tensor<f32>", {x}),
              ElementsAre(9));
  EXPECT_THAT(
      one("hpu.arg_max {axis = 1 : i64}", "tensor<2x3xf32>", "tensor<2x1xi64>", {f32({2, 3}, {1, 5, 5, 2, 1, 0})}),
      ElementsAre(1, 0));
  // Rows of nothing; the sum of none is 0.
  EXPECT_THAT(one("hpu.reduce_sum {axes = array<i64: 1>, keepdims = false}", "tensor<2x0xf32>", "tensor<2xf32>",
                  {f32({2, 0}, {})}),
              ElementsAre(0, 0));
}

TEST_F(Interpreter, AveragesOnlyWhatLiesInsideUnlessAskedOtherwise) {
  Tensor x = f32({1, 1, 2, 2}, {4, 8, 12, 16});
  std::string pads =
      "kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, dilations = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, "
      "1>";
  EXPECT_THAT(one("hpu.avg_pool2d {" + pads + "}", "tensor<1x1x2x2xf32>", "tensor<1x1x2x2xf32>", {x}),
              ElementsAre(4, 8, 12, 16));
  EXPECT_THAT(
      one("hpu.avg_pool2d {" + pads + ", count_include_pad = true}", "tensor<1x1x2x2xf32>", "tensor<1x1x2x2xf32>", {x}),
      ElementsAre(1, 2, 3, 4));
}

TEST_F(Interpreter, IgnoresPhysicalLayouts) {
  Tensor x = f32({1, 2, 1, 2}, {1, 2, 3, 4});
  EXPECT_THAT(one("hpu.relayout", "tensor<1x2x1x2xf32>", "tensor<1x2x1x2xf32, #hpu.layout<order = [0, 2, 3, 1]>>", {x}),
              ElementsAre(1, 2, 3, 4));
}

constexpr const char* kUnits = R"(
  %m = hpu.bundle (%x = %a, %w = %b) : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32> {
    %p = hpu.matmul %x, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
    %q = hpu.relu %p : (tensor<1x2xf32>) -> tensor<1x2xf32>
    hpu.yield %q : tensor<1x2xf32>
  }
  %c = hpu.cluster (%x = %m) : (tensor<1x2xf32>) -> tensor<1x2xf32> {
    %n = hpu.neg %x : (tensor<1x2xf32>) -> tensor<1x2xf32>
    hpu.yield %n : tensor<1x2xf32>
  }
  return %c : tensor<1x2xf32>)";

TEST_F(Interpreter, LooksIntoUnitsAndShowsEveryResult) {
  std::vector<std::string> seen;
  auto outputs =
      run("%a: tensor<1x2xf32>, %b: tensor<2x2xf32>", "tensor<1x2xf32>", kUnits,
          {f32({1, 2}, {1, 2}), f32({2, 2}, {1, -1, 1, -1})},
          [&](mlir::Operation* op, unsigned, const Tensor&) { seen.push_back(op->getName().stripDialect().str()); });
  ASSERT_TRUE(outputs.ok()) << outputs.status().message();
  EXPECT_THAT(numbers((*outputs)[0]), ElementsAre(-3, 0));
  EXPECT_THAT(seen, ElementsAre("matmul", "relu", "bundle", "neg", "cluster"));
}

TEST_F(Interpreter, BindsFreeDimensionsToTheInputs) {
  std::string free = "tensor<?x4xf32, #hpu.layout<symbols = [\"n\", \"\"]>>",
              flat = "tensor<?xf32, #hpu.layout<symbols = [\"4*n\"]>>";
  std::string body = "%r = hpu.reshape %x {shape = array<i64: -9223372036854775808>, symbols = [\"4*n\"]} : (" + free +
                     ") -> " + flat + "\nreturn %r : " + flat;
  for (int64_t n : {2, 3}) {
    auto outputs = run("%x: " + free, flat, body, {Tensor::zeros({ElementType::kF32, {n, 4}})});
    ASSERT_TRUE(outputs.ok()) << outputs.status().message();
    EXPECT_EQ((*outputs)[0].shape(), Shape{4 * n});
  }
  auto refused = run("%x: " + free + ", %y: " + free, free, "return %x : " + free,
                     {Tensor::zeros({ElementType::kF32, {2, 4}}), Tensor::zeros({ElementType::kF32, {3, 4}})});
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.status().message(), HasSubstr("free dimension 'n' is 2 and 3"));
}

TEST_F(Interpreter, NamesTheNodeThatFails) {
  std::string body =
      "%r = hpu.gather %x, %i {axis = 0 : i64} : (tensor<2xf32>, tensor<1xi64>) -> tensor<1xf32> loc(\"lookup\")\n"
      "return %r : tensor<1xf32>";
  auto outputs = run("%x: tensor<2xf32>, %i: tensor<1xi64>", "tensor<1xf32>", body, {f32({2}, {1, 2}), i64({1}, {5})});
  ASSERT_FALSE(outputs.ok());
  EXPECT_THAT(outputs.status().message(), HasSubstr("lookup: index 5 is outside dimension 0 of 2"));
}

TEST_F(Interpreter, RefusesInputsOfAnotherType) {
  auto outputs = run("%x: tensor<2xf32>", "tensor<2xf32>", "return %x : tensor<2xf32>", {i64({2}, {1, 2})});
  ASSERT_FALSE(outputs.ok());
  EXPECT_THAT(outputs.status().message(), HasSubstr("input 0 is 2xi64, the function takes 2xf32"));
}

TEST(Elements, RoundFromDoubleWithoutAStepThroughSinglePrecision) {
  // 1 + 2^-8 + 2^-40: through f32 it would become the tie 1 + 2^-8 and round down.
  double value = 1 + std::ldexp(1, -8) + std::ldexp(1, -40), back = 0;
  uint8_t bytes[2];
  storeElements(ElementType::kBF16, bytes, 0, &value, 1);
  loadElements(ElementType::kBF16, bytes, 0, 1, 1, &back);
  EXPECT_EQ(back, 1 + std::ldexp(1, -7));
}

TEST(Elements, KeepAllValuesOfNarrowFormats) {
  for (ElementType type : {ElementType::kF16, ElementType::kBF16}) {
    for (uint32_t bits = 0; bits < 65536; ++bits) {
      uint16_t in = static_cast<uint16_t>(bits), out = 0;
      double value;
      loadElements(type, reinterpret_cast<uint8_t*>(&in), 0, 1, 1, &value);
      if (std::isnan(value)) continue;
      storeElements(type, reinterpret_cast<uint8_t*>(&out), 0, &value, 1);
      ASSERT_EQ(in, out);
    }
  }
}

TEST(CheckSize, RefusesProductsThatOverflow) {
  EXPECT_TRUE(checkSize({ElementType::kF32, {3, 0, int64_t{1} << 60}}).ok());
  EXPECT_EQ(checkSize({ElementType::kF32, {int64_t{1} << 32, int64_t{1} << 32}}).code(),
            StatusCode::kResourceExhausted);
  EXPECT_EQ(checkSize({ElementType::kF32, {-1}}).code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace hpu::interp
