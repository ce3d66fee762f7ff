// SPDX-License-Identifier: Apache-2.0
// Ops of the user's own: what a function becomes at a node, and what is refused.
#include <fstream>

#include "tests/unit/compiler/import/ImporterFixture.h"

namespace hpu::importer {
namespace {

using ::testing::HasSubstr;

class CustomFunctions : public Importer {
 protected:
  std::string write(const std::string& head, const std::string& functions) {
    const std::string path = folder_.file("ops.mlir");
    std::ofstream(path) << "module attributes {" << head << "} {\n" << functions << "\n}\n";
    return path;
  }

  /// The names of the ops of one node of mine::Scale, or the message of the failure.
  std::string of(const std::string& plugin, const std::vector<std::pair<std::string, BuilderAttribute>>& attributes,
                 const std::vector<BuilderDim>& shape = {3, 4}, ElementType type = ElementType::kF32) {
    OnnxBuilder builder;
    builder.input("x", type, shape).node("Scale", "act", {"x"}, {"y"}, attributes, "mine").output("y");
    ImportOptions options;
    options.plugins = {plugin};
    auto module = import(builder, options);
    return module.ok() ? opNames(*module) : std::string(module.status().message());
  }

  const std::string version_ = "hpu.custom_ops = 1 : i64";
  const std::string scale_ =
      "func.func @scale(%x: tensor<?x?xf32>, %by: f32 {hpu.attribute = \"by\", hpu.default = 2.0 : f32}) -> "
      "tensor<?x?xf32> attributes {hpu.op = \"mine::Scale\"} {\n"
      "  %y = linalg.map ins(%x : tensor<?x?xf32>) outs(%x : tensor<?x?xf32>) (%a: f32, %o: f32) {\n"
      "    %s = arith.mulf %a, %by : f32\n    linalg.yield %s : f32\n  }\n  return %y : tensor<?x?xf32>\n}";
};

TEST_F(CustomFunctions, AFunctionIsTheNodesOpsWithItsAttributes) {
  const std::string plugin = write(version_, scale_);
  EXPECT_EQ(of(plugin, {}), "hpu.mul");
  EXPECT_EQ(of(plugin, {{"by", 3.0F}}), "hpu.mul");
}

TEST_F(CustomFunctions, RefusesWhatDoesNotFitTheNode) {
  const std::string plugin = write(version_, scale_);
  EXPECT_THAT(of(plugin, {{"to", 3.0F}}),
              HasSubstr("'act' (opset 17, 3x4xf32): the attribute 'to' is not known (there are: by)"));
  EXPECT_THAT(of(plugin, {{"by", int64_t{3}}}), HasSubstr("the attribute 'by' must be a number"));
  EXPECT_THAT(of(plugin, {}, {3}), HasSubstr("input 0 is of type 3xf32, and the op takes tensor<?x?xf32>"));
  EXPECT_THAT(of(plugin, {}, {3, 4}, ElementType::kI32), HasSubstr("input 0 is of type 3x4xi32"));
}

TEST_F(CustomFunctions, RefusesObjectCodeThatIsNone) {
  auto native = [&](const std::string& attributes) {
    return of(
        write(version_,
              "func.func private @scale(tensor<?x?xf32>) -> tensor<?x?xf32> attributes {hpu.op = \"mine::Scale\", " +
                  attributes + "}"),
        {});
  };
  EXPECT_THAT(native("hpu.object = \"k.o\""), HasSubstr("function 'scale': it needs hpu.entry"));
  EXPECT_THAT(native("hpu.objects = \"k.o\""), HasSubstr("the attribute hpu.objects is not known"));
  EXPECT_THAT(native("hpu.object = \"../k.o\", hpu.entry = \"f\""), HasSubstr("'../k.o' is no name of letters"));
  EXPECT_THAT(native("hpu.object = \"k.so\", hpu.entry = \"f\""), HasSubstr("'k.so' is no name of letters"));
  EXPECT_THAT(native("hpu.object = \"missing.o\", hpu.entry = \"f\""), HasSubstr("missing.o"));
  std::ofstream(folder_.file("text.o")) << "no object";
  EXPECT_THAT(native("hpu.object = \"text.o\", hpu.entry = \"f\""), HasSubstr("text.o': a kernel's object file"));
}

TEST_F(CustomFunctions, RefusesFilesThatAreNone) {
  EXPECT_THAT(of(write("", scale_), {}), HasSubstr("ops.mlir': no custom ops; a module of them says"));
  EXPECT_THAT(of(write("hpu.custom_ops = 2 : i64", scale_), {}), HasSubstr("custom ops of version 2"));
  EXPECT_THAT(of(write(version_, ""), {}), HasSubstr("no function has the attribute hpu.op"));
  EXPECT_THAT(of(write(version_, scale_ + "oops"), {}), HasSubstr("not a valid module"));
  EXPECT_THAT(of(write(version_, "func.func private @f(f32) attributes {hpu.op = \"mine::Scale\"}"), {}),
              HasSubstr("function 'f' needs a body, or object code (hpu.object)"));
  EXPECT_THAT(of(write(version_, "func.func @f(%a: f32) attributes {hpu.op = \"mine::Scale\"} {\nreturn\n}"), {}),
              HasSubstr("argument 0 is of type f32; operands are tensors"));
  EXPECT_THAT(of(folder_.file("missing.mlir"), {}), HasSubstr("missing.mlir"));
}

TEST_F(CustomFunctions, NamesWhatTheFunctionHasAndWeLack) {
  const std::string plugin =
      write(version_,
            "func.func @f(%a: tensor<?x?xf32>) -> tensor<?x?xf32> attributes {hpu.op = \"mine::Scale\"} {\n"
            "  %y = math.acos %a : tensor<?x?xf32>\n  return %y : tensor<?x?xf32>\n}");
  EXPECT_THAT(of(plugin, {}), HasSubstr("ops.mlir:3:8: this op is not supported"));
}

}  // namespace
}  // namespace hpu::importer
