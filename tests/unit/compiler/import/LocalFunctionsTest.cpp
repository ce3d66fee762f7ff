// SPDX-License-Identifier: Apache-2.0
// Functions that are local to a model: what calls become.
#include "compiler/support/DiagnosticCapture.h"
#include "tests/unit/compiler/import/ImporterFixture.h"

namespace hpu::importer {
namespace {

using interp::Tensor;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class LocalFunctions : public Computes {
 protected:
  static OnnxBuilder model() {
    OnnxBuilder builder;
    builder.input("x", ElementType::kF32, {int64_t{2}});
    return builder;
  }
  /// y = LeakyRelu(x, alpha: the call's `slope`) + x
  static OnnxBuilder leaky() {
    OnnxBuilder body;
    body.input("x", ElementType::kF32, {int64_t{2}})
        .node("LeakyRelu", "leaky", {"x"}, {"t"}, {{"alpha", std::string("@slope")}})
        .node("Add", "", {"t", "x"}, {"y"})
        .output("y");
    return body;
  }
  std::string failure(const OnnxBuilder& builder) {
    auto module = import(builder);
    return module.ok() ? "" : std::string(module.status().message());
  }
  const std::vector<Tensor> x_ = {Tensor::of<float>(ElementType::kF32, {2}, {-2, 3})};
};

TEST_F(LocalFunctions, EachCallHasItsOwnAttributesAndNames) {
  OnnxBuilder builder = model();
  builder.node("Leaky", "first", {"x"}, {"t"}, {{"slope", 0.5F}}, "mine")
      .node("Leaky", "second", {"t"}, {"y"}, {}, "mine")  // The default of LeakyRelu: 0.01.
      .function("mine", "Leaky", leaky(), {"slope"})
      .output("y");
  EXPECT_THAT(floats(builder, x_), ElementsAre(-3 * 1.01F, 12));
  auto module = import(builder);
  ASSERT_TRUE(module.ok());
  std::vector<std::string> places;
  main(*module).walk([&](mlir::Operation* op) {
    if (op->getName().getStringRef() == "hpu.leaky_relu") places.push_back(ir::locationText(op->getLoc()));
  });
  EXPECT_THAT(places, ElementsAre(HasSubstr("first/leaky"), HasSubstr("second/leaky")));
}

TEST_F(LocalFunctions, NodesOfCallsThatShareANameHaveNamesOfTheirOwn) {
  OnnxBuilder body;
  body.input("x", ElementType::kF32, {int64_t{2}}).node("Frobnicate", "inner", {"x"}, {"y"}).output("y");
  OnnxBuilder builder = model();
  builder.node("Mine", "same", {"x"}, {"t"}, {}, "mine").node("Mine", "same", {"x"}, {"u"}, {}, "mine");
  builder.node("Add", "add", {"t", "u"}, {"y"}).function("mine", "Mine", body).output("y");
  EXPECT_NE(failure(builder), "");
  std::vector<std::string> names;
  for (const UnsupportedNode& node : unsupported_) names.push_back(node.node);
  EXPECT_THAT(names, ElementsAre("same/inner", "same/inner_2"));
}

TEST_F(LocalFunctions, CallEachOtherAndComeBeforeOpsOfTheirName) {
  OnnxBuilder twice;
  twice.input("x", ElementType::kF32, {int64_t{2}})
      .node("Leaky", "a", {"x"}, {"t"}, {{"slope", std::string("@s")}}, "mine")
      .node("Leaky", "b", {"t"}, {"y"}, {{"slope", std::string("@s")}}, "mine")
      .output("y");
  OnnxBuilder builder = model();
  builder.node("Gelu", "n", {"x"}, {"y"}, {{"s", 1.0F}}, "com.microsoft")
      .function("com.microsoft", "Gelu", twice, {"s"})
      .function("mine", "Leaky", leaky(), {"slope"})
      .output("y");
  EXPECT_THAT(floats(builder, x_), ElementsAre(-8, 12));
}

TEST_F(LocalFunctions, HaveOpsetsOfTheirOwn) {
  // Softmax of opset 11 is over all dimensions from `axis` on, and of 13 over one.
  OnnxBuilder body;
  body.input("x", ElementType::kF32, {int64_t{2}, int64_t{2}})
      .node("Softmax", "s", {"x"}, {"y"}, {{"axis", int64_t{0}}})
      .output("y");
  OnnxBuilder builder;
  builder.input("x", ElementType::kF32, {int64_t{2}, int64_t{2}})
      .node("Old", "n", {"x"}, {"y"}, {}, "mine")
      .function("mine", "Old", body, {}, 11)
      .output("y");
  EXPECT_THAT(floats(builder, {Tensor::of<float>(ElementType::kF32, {2, 2}, {0, 0, 0, 0})}),
              ElementsAre(0.25, 0.25, 0.25, 0.25));
}

TEST_F(LocalFunctions, GiveInputsBackAndLeaveOptionalOnesOut) {
  OnnxBuilder body;
  body.input("x", ElementType::kF32, {int64_t{2}})
      .input("low", ElementType::kF32, {})
      .node("Clip", "c", {"x", "low"}, {"y"})
      .output("x")
      .output("y");
  OnnxBuilder builder = model();
  builder.node("Both", "n", {"x"}, {"same", "clipped"}, {}, "mine")
      .node("Sub", "d", {"same", "clipped"}, {"y"})
      .function("mine", "Both", body)
      .output("y");
  EXPECT_THAT(floats(builder, x_), ElementsAre(0, 0));
}

TEST_F(LocalFunctions, RefusesCirclesAndCallsThatDoNotFit) {
  OnnxBuilder body;
  body.input("x", ElementType::kF32, {int64_t{2}}).node("B", "b", {"x"}, {"y"}, {}, "mine").output("y");
  OnnxBuilder back;
  back.input("x", ElementType::kF32, {int64_t{2}}).node("A", "a", {"x"}, {"y"}, {}, "mine").output("y");
  OnnxBuilder circle = model();
  circle.node("A", "n", {"x"}, {"y"}, {}, "mine").function("mine", "A", body).function("mine", "B", back).output("y");
  EXPECT_THAT(failure(circle), HasSubstr("the function 'mine.A' calls itself (mine.A -> mine.B -> mine.A)"));

  OnnxBuilder inputs = model();
  inputs.node("Leaky", "n", {"x", "x"}, {"y"}, {}, "mine").function("mine", "Leaky", leaky()).output("y");
  EXPECT_THAT(failure(inputs), HasSubstr("node 'n' calls the function 'mine.Leaky' with 2 inputs, and it has 1"));
}

TEST_F(LocalFunctions, RefusesWhatWouldNeverEnd) {
  OnnxBuilder builder = model();
  builder.node("F0", "n", {"x"}, {"y"}, {}, "mine").output("y");
  for (int i = 0; i < 40; ++i) {
    OnnxBuilder body;
    const std::string next = "F" + std::to_string(i + 1);
    body.input("x", ElementType::kF32, {int64_t{2}})
        .node(next, "a", {"x"}, {"t"}, {}, "mine")
        .node(next, "b", {"t"}, {"y"}, {}, "mine")
        .output("y");
    builder.function("mine", "F" + std::to_string(i), body);
  }
  builder.function("mine", "F40", leaky());
  EXPECT_THAT(failure(builder), HasSubstr("make more than 65536 nodes of the model"));
}

}  // namespace
}  // namespace hpu::importer
