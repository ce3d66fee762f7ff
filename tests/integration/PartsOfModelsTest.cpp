// SPDX-License-Identifier: Apache-2.0
// Models with loops and branches of the device: the programs of parts that they become, beside the interpreter.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "hpu/compiler.h"
#include "hpu/reference.h"
#include "recipe/Parts.h"
#include "recipe/Recipe.h"
#include "tools/common/HostTensor.h"
#include "tools/common/Session.h"

namespace hpu {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

/// v = v @ w + x, as often as `n` says, 6 at most, whose rows are collected; then a branch on the sum of v.
constexpr const char* kModel = R"(
func.func @main(%x: tensor<2x3xf32> {hpu.name = "x"}, %n: tensor<i64> {hpu.name = "n"})
    -> (tensor<2x3xf32> {hpu.name = "y"}, tensor<6x2x3xf32> {hpu.name = "rows"}) {
  %w = hpu.constant dense<[[0.5, 0.0, 0.25], [0.0, -0.5, 0.0], [1.0, 0.0, 0.5]]> : tensor<3x3xf32> : tensor<3x3xf32>
  %zero = hpu.constant dense<0.0> : tensor<f32> : tensor<f32>
  %v:2 = hpu.loop %n, %x, %x {operandSegmentSizes = array<i32: 1, 0, 1, 0, 1>, trips = 6 : i64,
      scanned_backwards = array<i1>, collected_backwards = array<i1: true>}
      : (tensor<i64>, tensor<2x3xf32>, tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<6x2x3xf32>) {
  ^bb0(%old: tensor<2x3xf32>, %add: tensor<2x3xf32>):
    %k = hpu.constant dense<[[0.5, 0.0, 0.25], [0.0, -0.5, 0.0], [1.0, 0.0, 0.5]]> : tensor<3x3xf32> : tensor<3x3xf32>
    %p = hpu.matmul %old, %k : (tensor<2x3xf32>, tensor<3x3xf32>) -> tensor<2x3xf32>
    %q = hpu.add %p, %add : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    hpu.yield %q, %p : tensor<2x3xf32>, tensor<2x3xf32>
  }
  %s = hpu.reduce_sum %v#0 {axes = array<i64: 0, 1>, keepdims = false} : (tensor<2x3xf32>) -> tensor<f32>
  %c = hpu.greater %s, %zero : (tensor<f32>, tensor<f32>) -> tensor<i1>
  %y = hpu.if %c, %v#0 : (tensor<i1>, tensor<2x3xf32>) -> tensor<2x3xf32> {
  ^bb0(%a: tensor<2x3xf32>):
    %k = hpu.constant dense<[[0.5, 0.0, 0.25], [0.0, -0.5, 0.0], [1.0, 0.0, 0.5]]> : tensor<3x3xf32> : tensor<3x3xf32>
    %p = hpu.matmul %a, %k : (tensor<2x3xf32>, tensor<3x3xf32>) -> tensor<2x3xf32>
    hpu.yield %p : tensor<2x3xf32>
  }, {
  ^bb0(%a: tensor<2x3xf32>):
    hpu.yield %a : tensor<2x3xf32>
  }
  return %y, %v#1 : tensor<2x3xf32>, tensor<6x2x3xf32>
}
)";

class PartsOfModels : public ::testing::Test {
 protected:
  Graph graph(const std::string& text = kModel) {
    const std::string path = testing::TempDir() + "/parts_of_models.mlir";
    std::ofstream(path) << text;
    StatusOr<Graph> made = importMlir(path);
    EXPECT_TRUE(made.ok()) << made.status().message();
    return std::move(*made);
  }
  static std::string with(std::string text, const std::string& from, const std::string& to) {
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  }
};

TEST_F(PartsOfModels, ComputeWhatTheInterpreterDoes) {
  const Graph model = graph();
  auto compiled = compile(model);
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  auto session = tools::Session::open(compiled->recipe, {});
  ASSERT_TRUE(session.ok());
  for (float sign : {1.0f, -1.0f})
    for (int64_t n : {-1, 0, 1, 2, 5, 6, 9}) {
      std::vector<ReferenceTensor> given(2);
      given[0] = {"x", {ElementType::kF32, {2, 3}}, std::vector<uint8_t>(24)};
      given[1] = {"n", {ElementType::kI64, {}}, std::vector<uint8_t>(8)};
      for (int i = 0; i < 6; ++i) reinterpret_cast<float*>(given[0].bytes.data())[i] = sign * static_cast<float>(i + 1);
      std::memcpy(given[1].bytes.data(), &n, 8);
      std::vector<tools::HostTensor> inputs(2);
      for (size_t i = 0; i < 2; ++i) {
        inputs[i].name = given[i].name;
        inputs[i].type = given[i].type;
        inputs[i].bytes = given[i].bytes;
      }
      auto wanted = interpret(model, given);
      ASSERT_TRUE(wanted.ok()) << wanted.status().message();
      auto got = session->run(inputs);
      ASSERT_TRUE(got.ok()) << got.status().message();
      EXPECT_TRUE((*got)[0].bytes == (*wanted)[0].bytes) << n;
      // Rows from the end on; the others are undefined.
      const auto ran = static_cast<size_t>(std::clamp<int64_t>(n, 0, 6)), row = size_t{24};
      EXPECT_EQ(
          std::memcmp((*got)[1].bytes.data() + (6 - ran) * row, (*wanted)[1].bytes.data() + (6 - ran) * row, ran * row),
          0)
          << n;
    }
}

TEST_F(PartsOfModels, HaveTheIterationsAndShareTheirConstants) {
  auto compiled = compile(graph());
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  const recipe::Program& program = *compiled->recipe.program();
  // What is ahead of the loop, the loop, the sum, both branches.
  ASSERT_THAT(program.parts, SizeIs(5));
  EXPECT_EQ(program.parts[1].trips, 6u);
  EXPECT_NE(program.parts[1].count.section, recipe::kNone);
  EXPECT_EQ(program.parts[1].condition.section, recipe::kNone);
  EXPECT_EQ(program.parts[3].condition, program.parts[4].condition);
  EXPECT_FALSE(program.parts[3].conditionInverted);
  EXPECT_TRUE(program.parts[4].conditionInverted);
  for (size_t p : {1u, 3u}) EXPECT_TRUE(recipe::isDecided(program.parts[p])) << p;
  EXPECT_TRUE(program.ops.empty());
  // The weights of the loop and of a branch are packed once.
  uint64_t bytes = 0;
  for (const recipe::ConstantBlob& blob : program.constants) bytes += blob.bytes;
  EXPECT_LE(bytes, 1024u);  // A row of 256 bytes for each of three.
  EXPECT_THAT(program.outputs, SizeIs(2));
  EXPECT_GT(compiled->stats.deviceTimeUs, 0);
  EXPECT_EQ(compiled->stats.macs, 7 * 2 * 3 * 3);
}

TEST_F(PartsOfModels, SayWhatEachPieceIs) {
  CompileOptions options;
  options.reports = {"fusion", "time"};
  options.dumpDir = testing::TempDir() + "/parts_of_models";
  std::vector<std::string> phases;
  options.onPhase = [&](const PhaseInfo& info) { phases.push_back(info.name); };
  auto compiled = compile(graph(), options);
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  EXPECT_THAT(compiled->reports["fusion"], HasSubstr("== "));
  EXPECT_THAT(compiled->reports["time"], HasSubstr("as many iterations as there can be"));
  EXPECT_THAT(phases, SizeIs(9));  // Those of all pieces together.
  options.dumpDir.clear();
  options.stopAfter = "fuse";
  compiled = compile(graph(), options);
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  EXPECT_FALSE(compiled->recipe.valid());
  EXPECT_THAT(compiled->ir, HasSubstr("// -----"));
}

TEST_F(PartsOfModels, WithoutABoundCountOneIteration) {
  std::string text = with(kModel, "trips = 6", "trips = 2147483648");
  text = with(with(text, "collected_backwards = array<i1: true>", "collected_backwards = array<i1>"),
              "-> (tensor<2x3xf32>, tensor<6x2x3xf32>) {\n  ^bb0(%old", "-> (tensor<2x3xf32>) {\n  ^bb0(%old");
  text = with(with(text, "%v:2", "%v:1"), "hpu.yield %q, %p : tensor<2x3xf32>, tensor<2x3xf32>",
              "hpu.yield %q : tensor<2x3xf32>");
  text = with(with(text, "return %y, %v#1 : tensor<2x3xf32>, tensor<6x2x3xf32>", "return %y : tensor<2x3xf32>"),
              ", tensor<6x2x3xf32> {hpu.name = \"rows\"}", "");
  auto compiled = compile(graph(text));
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  EXPECT_LT(compiled->stats.deviceTimeUs, 100);
  ASSERT_THAT(compiled->warnings, SizeIs(1));
  EXPECT_THAT(compiled->warnings[0], HasSubstr("no bound of that is known"));
}

TEST_F(PartsOfModels, RefuseWhatTheyCannotHave) {
  CompileOptions options;
  options.states = {{"y", "x"}};
  EXPECT_THAT(compile(graph(), options).status().message(), HasSubstr("cannot have states yet"));
  options = {};
  std::string free = with(kModel, "%n: tensor<i64> {hpu.name = \"n\"}",
                          "%n: tensor<i64> {hpu.name = \"n\"}, %z: tensor<?xf32, #hpu.layout<symbols = [\"m\"]>>");
  options.dimBounds["m"] = {1, 4};
  EXPECT_THAT(compile(graph(free), options).status().message(), HasSubstr("cannot have free dimensions yet"));
  options = {};
  options.startFrom = "fuse";
  EXPECT_THAT(compile(graph(), options).status().message(), HasSubstr("ahead of the phase normalize"));
  options = {};
  options.keepF32 = {"no such node"};
  EXPECT_EQ(compile(graph(), options).status().code(), StatusCode::kInvalidArgument);
  options = {};
  options.explain = "no such node";
  EXPECT_EQ(compile(graph(), options).status().code(), StatusCode::kNotFound);
}

TEST_F(PartsOfModels, ExplainWhatBecameOfALoopAndABranch) {
  std::string text = with(kModel, "  }\n  %s =", "  } loc(\"turns\")\n  %s =");
  text = with(text, "  }\n  return %y", "  } loc(\"choice\")\n  return %y");
  for (auto [node, said] :
       {std::pair("turns", "a loop on the device"), std::pair("choice", "a branch on the device")}) {
    CompileOptions options;
    options.explain = node;
    auto compiled = compile(graph(text), options);
    ASSERT_TRUE(compiled.ok()) << compiled.status().message();
    ASSERT_FALSE(compiled->explanation.empty()) << node;
    EXPECT_EQ(compiled->explanation[0].phase, "parts");
    EXPECT_THAT(compiled->explanation[0].text, HasSubstr(said));
    for (const NodeNote& note : compiled->explanation)
      EXPECT_THAT(note.text, ::testing::Not(HasSubstr("nothing is left")));
  }
}

}  // namespace
}  // namespace hpu
