// SPDX-License-Identifier: Apache-2.0
// Sequences are lists of values that the importer knows; expected values are computed here.
#include "gmock/gmock.h"
#include "tests/unit/compiler/import/ImporterFixture.h"

namespace hpu::importer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Sequences = Computes;

/// "s": rows 0, 1 and 2 of x, a sequence of [1, 2].
void addRows(OnnxBuilder& builder) {
  builder.input("x", ElementType::kF32, {3, 2}).node("SplitToSequence", "split", {"x"}, {"s"}, {{"axis", int64_t{0}}});
}

TEST_F(Sequences, ElementsAreTakenOutPutInAndJoined) {
  OnnxBuilder builder;
  addRows(builder);
  builder.ints("first", {}, {0}).ints("last", {}, {-1});
  builder.node("SequenceAt", "at", {"s", "last"}, {"c"}).node("SequenceErase", "erase", {"s", "last"}, {"t"});
  builder.node("SequenceInsert", "insert", {"t", "c", "first"}, {"u"});
  builder.node("ConcatFromSequence", "join", {"u"}, {"y"}, {{"axis", int64_t{0}}}).output("y");
  EXPECT_THAT(floats(builder, {counting({3, 2})}), ElementsAre(4, 5, 0, 1, 2, 3));
}

TEST_F(Sequences, TheDeviceChoosesAmongElementsOfOneType) {
  OnnxBuilder builder;
  addRows(builder);
  builder.input("k", ElementType::kI64, {}).node("SequenceAt", "at", {"s", "k"}, {"y"}).output("y");
  for (int64_t k : {0, 2, -1}) {
    const float from = static_cast<float>(2 * (k < 0 ? k + 3 : k));
    EXPECT_THAT(floats(builder, {counting({3, 2}), interp::Tensor::of<int64_t>(ElementType::kI64, {}, {k})}),
                ElementsAre(from, from + 1));
  }
}

TEST_F(Sequences, ABodyIsMappedOverThem) {
  OnnxBuilder builder;
  addRows(builder);
  auto body = std::make_shared<OnnxBuilder>();
  body->input("e", ElementType::kF32, {1, 2}).node("Neg", "neg", {"e"}, {"n"}).output("n");
  builder.node("SequenceMap", "map", {"s"}, {"t"}, {{"body", body}});
  builder.node("ConcatFromSequence", "join", {"t"}, {"y"}, {{"axis", int64_t{1}}}).output("y");
  EXPECT_THAT(floats(builder, {counting({3, 2})}), ElementsAre(0, -1, -2, -3, -4, -5));
}

TEST_F(Sequences, LeaveTheModelElementByElement) {
  OnnxBuilder builder;
  addRows(builder);
  builder.output("s");
  auto module = import(builder);
  ASSERT_TRUE(module.ok()) << module.status().message();
  ASSERT_EQ(main(*module).getNumResults(), 3u);
  EXPECT_THAT(text(*module), HasSubstr("hpu.name = \"s[2]\""));
}

TEST_F(Sequences, WhatIsNotKnownAtImportIsNamed) {
  OnnxBuilder builder;
  addRows(builder);
  builder.input("k", ElementType::kI64, {}).node("SequenceErase", "erase", {"s", "k"}, {"t"});
  builder.node("ConcatFromSequence", "join", {"t"}, {"y"}, {{"axis", int64_t{0}}}).output("y");
  auto module = import(builder);
  ASSERT_FALSE(module.ok());
  EXPECT_THAT(module.status().message(), HasSubstr("SequenceErase 'erase'"));
  EXPECT_THAT(module.status().message(), HasSubstr("a position that is not known at import"));

  OnnxBuilder other;
  addRows(other);
  other.node("Relu", "relu", {"s"}, {"y"}).output("y");
  auto refused = import(other);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.status().message(), HasSubstr("Relu 'relu'"));
  EXPECT_THAT(refused.status().message(), HasSubstr("an operand is a sequence"));
}

}  // namespace
}  // namespace hpu::importer
