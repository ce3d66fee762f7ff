// SPDX-License-Identifier: Apache-2.0
// Programs of free dimensions: their file, what the verifier refuses, and sizes from the shapes of a launch.
#include "recipe/Dynamic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "DynamicSample.h"
#include "SampleProgram.h"
#include "recipe/Container.h"
#include "recipe/LittleEndian.h"
#include "recipe/RecipeReader.h"
#include "recipe/RecipeVerifier.h"
#include "recipe/RecipeWriter.h"
#include "recipe/ScheduleChecker.h"
#include "recipe/SizeValues.h"

namespace hpu::recipe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace testing;

std::vector<uint8_t> sampleBytes() {
  auto bytes = writeRecipe(dynamicSample());
  EXPECT_TRUE(bytes.ok()) << bytes.status().message();
  return bytes.ok() ? *bytes : std::vector<uint8_t>();
}

StatusOr<std::shared_ptr<const Program>> read(const std::vector<uint8_t>& bytes) {
  return readRecipe(bytes.data(), bytes.size(), nullptr, "dynamic.recipe");
}

// ---- The file ----------------------------------------------------------------------------------------

TEST(DynamicRecipe, IsTheSameAfterWritingAndReading) {
  const Program sample = dynamicSample();
  const std::vector<uint8_t> bytes = sampleBytes();
  auto program = read(bytes);
  ASSERT_TRUE(program.ok()) << program.status().message();
  EXPECT_TRUE(samePrograms(sample, **program));
  ASSERT_TRUE((*program)->dynamic);
  EXPECT_TRUE(sameDynamics(*sample.dynamic, *(*program)->dynamic));
  EXPECT_TRUE(writeRecipe(**program).value() == bytes);
}

TEST(DynamicRecipe, NeedsAReaderThatKnowsItsSections) {
  std::vector<uint8_t> bytes = sampleBytes();
  EXPECT_EQ(loadLe<uint16_t>(bytes.data() + kAtMinor), kFormatMinor);
  EXPECT_EQ(loadLe<uint16_t>(bytes.data() + kAtReaderMinor), 2);
  auto fixed = writeRecipe(sampleProgram());
  EXPECT_EQ(loadLe<uint16_t>(fixed->data() + kAtReaderMinor), 0);
  // As a reader that does not know one of them sees it.
  const uint32_t sections = loadLe<uint32_t>(bytes.data() + kAtNumSections);
  int found = 0;
  for (uint32_t i = 0; i < sections; ++i) {
    std::vector<uint8_t> changed = bytes;
    uint8_t* at = changed.data() + kHeaderBytes + i * kEntryBytes;
    const SectionEntry entry = readEntry(at);
    if (std::find(std::begin(kDynamicSections), std::end(kDynamicSections), entry.id) == std::end(kDynamicSections))
      continue;
    ++found;
    EXPECT_EQ(entry.flags, kRequired);
    storeLe(at, uint32_t{77});
    ASSERT_TRUE(resealRecipe(changed).ok());
    EXPECT_EQ(read(changed).status().code(), StatusCode::kFailedPrecondition);
    // Without it the others say nothing.
    storeLe(at + 4, uint32_t{0});
    ASSERT_TRUE(resealRecipe(changed).ok());
    EXPECT_THAT(read(changed).status().message(), HasSubstr("which belong together, it has only one"));
  }
  EXPECT_EQ(found, 5);
}

// ---- The verifier ------------------------------------------------------------------------------------

TEST(DynamicVerifier, RefusesWhatIsOutOfRangeOrNotTheProgramsOwn) {
  struct Break {
    const char* expected;
    std::function<void(Dynamic&)> change;
  };
  using Field = Patch::Field;
  auto patchOf = [](Dynamic& d, Field field) -> Patch& {
    for (Patch& patch : d.patches)
      if (patch.field == field) return patch;
    return d.patches[0];
  };
  auto symbolExpr = [](const Dynamic& d, int64_t symbol) {
    for (uint32_t i = 0; i < d.exprs.size(); ++i)
      if (d.exprs[i].kind == SizeExpr::Kind::kSymbol && d.exprs[i].number == symbol) return i;
    return kNone;
  };
  const std::vector<Break> breaks = {
      {"33 free dimensions, more than 32", [](Dynamic& d) { d.symbols.resize(33, {"s", 1, 1, 1}); }},
      {"not in order or not in 0..2^48", [](Dynamic& d) { d.symbols[0].min = -1; }},
      {"not in order or not in 0..2^48", [](Dynamic& d) { d.symbols[0].max = 4; }},
      {"not in order or not in 0..2^48", [](Dynamic& d) { d.symbols[0].max = INT64_MAX; }},
      {"are both named 'past'", [](Dynamic& d) { d.symbols[1].name = "past"; }},
      {"has the unknown kind 9", [](Dynamic& d) { d.exprs[3].kind = static_cast<SizeExpr::Kind>(9); }},
      {"is free dimension 2, but the program has 2", [&](Dynamic& d) { d.exprs[symbolExpr(d, 1)].number = 2; }},
      {"which is not before it",
       [](Dynamic& d) {
         for (uint32_t i = 0; i < d.exprs.size(); ++i)
           if (!d.exprs[i].args.empty()) d.exprs[i].args[0] = i;
       }},
      {"of kind 2 has 1 arguments",
       [](Dynamic& d) {
         for (SizeExpr& expr : d.exprs)
           if (expr.kind == SizeExpr::Kind::kSum) expr.args.pop_back();
       }},
      {"65537 expressions of sizes, more than 65536", [](Dynamic& d) { d.exprs.resize(65537, d.exprs[0]); }},
      {"guard 0 has the unknown relation 2",
       [](Dynamic& d) { d.guards[0].relation = static_cast<Guard::Relation>(2); }},
      {"guard 0 is size expression 999", [](Dynamic& d) { d.guards[0].right = 999; }},
      {"is 11, which is not at most", [](Dynamic& d) { d.guards[0].right = d.kernels[0].scratchBytes; }},
      {"has a part 0 without ops", [](Dynamic& d) { d.units[0].parts[0].ops.clear(); }},
      {"unit 0 has no ops", [](Dynamic& d) { d.units[0].parts.clear(); }},
      {"unit 0 runs op 77", [](Dynamic& d) { d.units[0].parts[0].ops[0] = 77; }},
      {"in two units", [](Dynamic& d) { d.units[0].parts[0].ops[0] = kJoinOp; }},
      {"have different index spaces", [](Dynamic& d) { d.units[0].parts[0].ops.push_back(kJoinOp); }},
      {"is in no unit", [](Dynamic& d) { d.units.pop_back(); }},
      {"in another order than hostOrder", [](Dynamic& d) { std::swap(d.units[0], d.units[6]); }},
      {"is bundle 44, which there is not", [](Dynamic& d) { d.units[1].bundle = 44; }},
      {"has 2 ops, but is no bundle", [](Dynamic& d) { d.units[1].bundle = kNone; }},
      {"is no unit", [](Dynamic& d) { d.units[2].bundle = kNone; }},
      {"keeps results of its part 1 for op 0", [](Dynamic& d) { d.units[5].parts[1].kept = 1; }},
      {"keeps results of its part 0 for op 1",
       [](Dynamic& d) {
         d.units[5].parts[0].kept = 1;
         d.units[5].parts[0].reader = 1;
       }},
      {"patch 0 is size expression 4000", [](Dynamic& d) { d.patches[0].expr = 4000; }},
      {"is of the unknown field 9", [](Dynamic& d) { d.patches[0].field = static_cast<Field>(9); }},
      {"is of tensor 3, but the program has 3", [&](Dynamic& d) { patchOf(d, Field::kInputSize).index = 3; }},
      {"is of tensor 4, but the program has 4", [&](Dynamic& d) { patchOf(d, Field::kOutputSize).index = 4; }},
      {"is of op 9, but the program has 9", [&](Dynamic& d) { patchOf(d, Field::kSpace).index = 9; }},
      {"is of dimension 2 of 2", [&](Dynamic& d) { patchOf(d, Field::kSpace).dim = 2; }},
      {"which has fewer", [&](Dynamic& d) { patchOf(d, Field::kOperandSize).operand = 3; }},
      {"is of dimension 2 of 2", [&](Dynamic& d) { patchOf(d, Field::kOperandStride).dim = 2; }},
      {"of a field that another one is of", [](Dynamic& d) { d.patches.push_back(d.patches[0]); }},
      {"is said twice",
       [](Dynamic& d) { d.patches.push_back({Field::kOperandOffset, kSoftmaxOp2, 1, 0, d.patches[0].expr}); }},
      {"lives from unit 3 to 2", [](Dynamic& d) { std::swap(d.storages.back().begin, d.storages.back().end); }},
      {"lives from unit", [](Dynamic& d) { d.storages.back().end = 7; }},
      {"is section 0, which is no output's", [](Dynamic& d) { d.storages[0].section = 0; }},
      {"storage 0 is size expression 5000", [](Dynamic& d) { d.storages[0].bytes = 5000; }},
      {"is in storage 6 of 6", [](Dynamic& d) { d.placements[0].storage = 6; }},
      {"is another section or not in use then", [](Dynamic& d) { d.storages.back().begin = d.storages.back().end; }},
      {"the place of operand", [](Dynamic& d) { d.placements.push_back(d.placements[0]); }},
      {"but in no storage of it", [](Dynamic& d) { d.placements.erase(d.placements.begin()); }},
      {"but in no storage of it", [](Dynamic& d) { d.tiles.pop_back(); }},
      {"which there is not", [](Dynamic& d) { d.tiles[0].unit = 7; }},
      {"which there is not", [](Dynamic& d) { d.tiles[0].part = 1; }},
      {"but its part's index space has rank 2", [](Dynamic& d) { d.tiles[0].dim = 2; }},
      {"but its part's index space has rank 2", [](Dynamic& d) { d.tiles[0].order = {1, 1}; }},
      {"has 0 slots", [](Dynamic& d) { d.tiles[0].slots = 0; }},
      {"has 65 slots", [](Dynamic& d) { d.tiles[0].slots = 65; }},
      {"from place 4 to 1", [](Dynamic& d) { d.tiles[0].begin = 4; }},
      {"has no users", [](Dynamic& d) { d.tiles[0].users.clear(); }},
      {"or has other elements", [](Dynamic& d) { d.tiles[0].elementBytes = 2; }},
      {"not those of the operand or of the result", [](Dynamic& d) { d.tiles[0].users[0].dims = {0, 0}; }},
      {"not those of the operand or of the result", [](Dynamic& d) { d.tiles[0].users[0].dims = {0}; }},
      {"through 1 strides, but its operand has 2 dimensions",
       [](Dynamic& d) {
         d.tiles[0].users[0].strides = {0};
         d.tiles[0].users[0].offset = 0;
       }},
      {"from an offset, but with no strides", [](Dynamic& d) { d.tiles[0].users[0].offset = 0; }},
      {"tile storage 0 is size expression 7000",
       [](Dynamic& d) {
         d.tiles[0].users[0].strides = {0, 7000};
         d.tiles[0].users[0].offset = 0;
       }},
      {"which not all of its users see", [](Dynamic& d) { d.tiles[0].users[0].dims[0] = kNone; }},
      {"has several slots, but users in several units", [](Dynamic& d) { d.tiles[0].unit = 0; }},
      {"has 0 choices of tiles", [](Dynamic& d) { d.choices.clear(); }},
      {"has 9 choices of tiles", [](Dynamic& d) { d.choices.resize(9, d.choices[0]); }},
      {"does not hold all sizes of dimension 'seq'", [](Dynamic& d) { d.choices[1].max[1] = 127; }},
      {"is not of 2 free dimensions and 7 units", [](Dynamic& d) { d.choices[0].min.pop_back(); }},
      {"is not of 2 free dimensions and 7 units", [](Dynamic& d) { d.choices[0].slices.pop_back(); }},
      {"has slices of 2 parts of unit 0", [](Dynamic& d) { d.choices[0].slices[0].resize(2); }},
      {"has slices along 3 dimensions", [](Dynamic& d) { d.choices[0].slices[2][0] = {1, 1, 1}; }},
      {"cuts unit 2 into no slices", [](Dynamic& d) { d.choices[0].slices[2][0] = {0, 1}; }},
      {"cuts unit 2 into no slices, or more than 32768",
       [](Dynamic& d) { d.choices[0].slices[2][0] = {70000, 70000}; }},
      {"commands, more than 32768", [](Dynamic& d) { d.choices[0].slices[2][0] = {32768, 1}; }},
      {"different numbers of slices", [](Dynamic& d) { d.choices[0].slices[5][1] = {3, 1}; }},
      {"choice of tiles 1, the last one, cuts unit 1 along dimension 1, but its tiles in SRAM are cut along 0",
       [](Dynamic& d) { d.choices[1].slices[1][0] = {1, 2}; }},
      {"the sizes of 2 kernels are given, but the program has 3", [](Dynamic& d) { d.kernels.pop_back(); }},
      {"a size of kernel 0 'relu' is size expression 3000", [](Dynamic& d) { d.kernels[0].dims[0] = 3000; }},
      {"is a cost that is negative", [](Dynamic& d) { d.kernels[0].cost[0].loads = -1; }},
      {"says what is read of 0 of 1 inputs", [](Dynamic& d) { d.kernels[0].reads.clear(); }},
      {"follows dimension 2 of an index space of rank 2", [](Dynamic& d) { d.kernels[0].reads[0][0].dim = 2; }},
      {"at the representatives past = 5, seq = 6",
       [&](Dynamic& d) { patchOf(d, Field::kSpace).expr = symbolExpr(d, 1); }},
      {"the scratch of kernel 1 is 0, but seq is 6", [&](Dynamic& d) { d.kernels[1].scratchBytes = symbolExpr(d, 1); }},
      {"in storage 4",
       [&](Dynamic& d) {
         for (StoragePlacement& placement : d.placements)
           if (placement.storage == 4) placement.offset = symbolExpr(d, 1);
       }},
      {"the representatives do not follow from the inputs' shapes",
       [](Dynamic& d) {
         for (size_t i = 0; i < d.patches.size(); ++i)
           if (d.patches[i].field == Field::kInputSize && d.patches[i].index == 0)
             d.patches.erase(d.patches.begin() + i);
         d.patches.erase(d.patches.begin());
       }},
  };
  for (const Break& b : breaks) {
    Program program = dynamicSample();
    Dynamic dynamic = *program.dynamic;
    b.change(dynamic);
    program.dynamic = std::make_shared<const Dynamic>(dynamic);
    Status status = verifyProgram(program);
    ASSERT_FALSE(status.ok()) << "accepted: " << b.expected;
    EXPECT_EQ(status.code(), StatusCode::kDataLoss);
    EXPECT_THAT(status.message(), HasSubstr(b.expected));
  }
}

TEST(DynamicVerifier, TheSampleIsRight) {
  const Program program = dynamicSample();
  Status status = verifyProgram(program);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(checkSchedule(program).ok());
}

// ---- Sizes -------------------------------------------------------------------------------------------

TEST(SizeValues, AreThoseOfTheExpressionsAndCheckedForOverflow) {
  using Kind = SizeExpr::Kind;
  Dynamic d;
  d.symbols = {{"n", 0, 100, 7}};
  d.exprs = {{Kind::kSymbol, 0, {}},
             {Kind::kConstant, 3, {}},
             {Kind::kConstant, INT64_MAX, {}},
             {Kind::kSum, 0, {0, 1, 1}},
             {Kind::kProduct, 0, {0, 1, 0}},
             {Kind::kFloorDiv, 0, {0, 1}},
             {Kind::kMin, 0, {0, 1}},
             {Kind::kMax, 0, {0, 1}},
             {Kind::kSelectEqual, 0, {0, 1, 1, 4}},
             {Kind::kSelectLess, 0, {0, 1, 2, 1}},
             {Kind::kSum, 0, {2, 1}},               // Overflows.
             {Kind::kFloorDiv, 0, {1, 0}},          // By n, which may be 0.
             {Kind::kSelectLess, 0, {1, 0, 1, 10}}  // Needs the overflow only for n <= 3.
             ,
             {Kind::kProduct, 0, {2, 1}},
             {Kind::kConstant, -7, {}},
             {Kind::kFloorDiv, 0, {14, 1}}};
  const Sizes seven = {7}, zero = {0};
  const SizeValues values(d, seven), none(d, zero);
  EXPECT_EQ(values.find(3), 13);
  EXPECT_EQ(values.find(4), 147);
  EXPECT_EQ(values.find(5), 2);
  EXPECT_EQ(values.find(6), 3);
  EXPECT_EQ(values.find(7), 7);
  EXPECT_EQ(values.find(8), 147);
  EXPECT_EQ(values.find(9), 3);
  EXPECT_EQ(none.find(9), INT64_MAX);
  EXPECT_EQ(values.find(10), std::nullopt);
  EXPECT_EQ(values.find(11), 0);
  EXPECT_EQ(none.find(11), std::nullopt);
  EXPECT_EQ(values.find(12), 3);
  EXPECT_EQ(none.find(12), std::nullopt);
  EXPECT_EQ(values.find(13), std::nullopt);
  EXPECT_EQ(values.find(15), -3);
  EXPECT_EQ(none.at(11).status().code(), StatusCode::kOutOfRange);
  EXPECT_THAT(none.at(11).status().message(), AllOf(HasSubstr("floor(3 / n)"), HasSubstr("n = 0")));
}

TEST(SolveSizes, TakesThemFromTheInputsOfALaunch) {
  const Program program = dynamicSample();
  for (int64_t past : {0, 1, 40, 96})
    for (int64_t seq : {1, 7, 100}) {
      auto sizes = solveSizes(program, {{seq, 64}, {past, 64}, {past + seq}});
      ASSERT_TRUE(sizes.ok()) << sizes.status().message();
      EXPECT_EQ(*sizes, (Sizes{past, seq}));
    }
}

TEST(SolveSizes, FindsTheOneThatIsLeftInASum) {
  // Without the cache only the mask says how much there is.
  DynamicBuilder b;
  const Num past = b.symbol("past", 0, 96, 5), seq = b.symbol("seq", 1, 128, 6);
  b.input("mask", {b.add(b.times(past, 2), seq)});
  b.input("x", {seq});
  b.program.dynamic = std::make_shared<const Dynamic>(b.dynamic);
  auto sizes = solveSizes(b.program, {{26}, {20}});
  ASSERT_TRUE(sizes.ok()) << sizes.status().message();
  EXPECT_EQ(*sizes, (Sizes{3, 20}));
  EXPECT_EQ(solveSizes(b.program, {{25}, {20}}).status().message(),
            "input 'mask' has size 25 in dimension 0, which is past*2 + seq for no size of 'past' (seq = 20 by input "
            "'x' (dimension 0))");
  EXPECT_EQ(solveSizes(b.program, {{19}, {21}}).status().message(),
            "dimension 'past' is -1 by input 'mask' (dimension 0), outside of its bounds 0 to 96");
}

TEST(SolveSizes, SaysWhichInputsAreWrong) {
  const Program program = dynamicSample();
  const std::vector<std::pair<std::vector<Shape>, const char*>> cases = {
      {{{6, 64}, {5, 64}}, "the launch has 2 inputs, the recipe needs 3"},
      {{{6, 64}, {5}, {11}}, "input 'cache' has the shape 5 of rank 1, the recipe needs rank 2"},
      {{{6, 63}, {5, 64}, {11}}, "input 'x' has size 63 in dimension 1, the recipe needs 64"},
      {{{-6, 64}, {5, 64}, {11}}, "input 'x' has the negative size -6 in dimension 0"},
      {{{0, 64}, {5, 64}, {5}}, "dimension 'seq' is 0 by input 'x' (dimension 0), outside of its bounds 1 to 128"},
      {{{129, 64}, {5, 64}, {5}}, "dimension 'seq' is 129 by input 'x' (dimension 0), outside of its bounds 1 to 128"},
      {{{6, 64}, {5, 64}, {12}},
       "input 'mask' has size 12 in dimension 0, the recipe needs past + seq = 11 (past = 5 by input 'cache' "
       "(dimension "
       "0), seq = 6 by input 'x' (dimension 0))"},
      {{{128, 64}, {96, 64}, {224}},
       "Attention 'a' has room for 200 keys: past + seq is 224, which is not at most 200 = 200 (past = 96 by input "
       "'cache' (dimension 0), seq = 128 by input 'x' (dimension 0))"},
  };
  for (const auto& [shapes, expected] : cases) {
    auto sizes = solveSizes(program, shapes);
    ASSERT_FALSE(sizes.ok()) << expected;
    EXPECT_EQ(sizes.status().code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(sizes.status().message(), expected);
  }
}

TEST(SolveSizes, TwoInputsThatDisagreeAreNamed) {
  DynamicBuilder b;
  const Num seq = b.symbol("seq", 1, 512, 4);
  b.input("ids", {b.number(1), seq});
  b.input("mask", {b.number(1), seq});
  b.program.dynamic = std::make_shared<const Dynamic>(b.dynamic);
  EXPECT_EQ(solveSizes(b.program, {{1, 500}, {1, 512}}).status().message(),
            "dimension 'seq' is 500 by input 'ids' (dimension 1), and 512 by input 'mask' (dimension 1)");
}

TEST(SolveSizes, TakesThemFromTheValuesOfInputs) {
  const Program program = valuedSample();
  ASSERT_TRUE(verifyProgram(program).ok()) << verifyProgram(program).message();
  EXPECT_EQ(valueInputs(program), std::vector<uint32_t>{3});
  const std::vector<Shape> shapes = {{6, 64}, {5, 64}, {11}, {2}};
  auto numbers = launchNumbers(program, shapes, {{}, {}, {}, {5, 6}});
  ASSERT_TRUE(numbers.ok()) << numbers.status().message();
  auto sizes = solveSizes(program, *numbers);
  ASSERT_TRUE(sizes.ok()) << sizes.status().message();
  EXPECT_EQ(*sizes, (Sizes{5, 6}));
  const std::vector<std::pair<std::vector<int64_t>, const char*>> cases = {
      {{5, 7}, "dimension 'seq' is 7 by input 'sizes' (element 1), and 6 by input 'x' (dimension 0)"},
      {{97, 6}, "dimension 'past' is 97 by input 'sizes' (element 0), outside of its bounds 0 to 96"},
      {{-1, 6},
       "dimension 'past' is -1 by input 'sizes' (element 0), outside of its bounds 0 to 96; a launch gives values "
       "of 0 or more, places from the start"},
      {{5}, "the launch gives 1 values of input 'sizes', which has 2"},
  };
  for (const auto& [values, expected] : cases) {
    auto wrong = launchNumbers(program, shapes, {{}, {}, {}, values});
    ASSERT_TRUE(wrong.ok());
    EXPECT_EQ(solveSizes(program, *wrong).status().message(), expected);
  }
  EXPECT_EQ(solveSizes(program, shapes).status().message(),
            "the values of input 'sizes' say sizes, and the launch does not give them (LaunchArguments::inputValues)");
  EXPECT_EQ(launchNumbers(program, shapes, {{5, 6}}).status().message(),
            "the launch has values of 1 inputs, the recipe has 4 (those whose values say no size are empty)");
}

TEST(Dynamic, ValuesOfInputsAreOfAllElementsInOrder) {
  const Program good = valuedSample();
  auto problem = [&](const std::function<void(Program&, Dynamic&)>& change) {
    Program program = good;
    Dynamic dynamic = *good.dynamic;
    change(program, dynamic);
    program.dynamic = std::make_shared<const Dynamic>(std::move(dynamic));
    return verifyProgram(program).message();
  };
  EXPECT_THAT(problem([](Program&, Dynamic& d) { d.values.pop_back(); }), HasSubstr("all of its elements"));
  EXPECT_THAT(problem([](Program&, Dynamic& d) { std::swap(d.values[0], d.values[1]); }), HasSubstr("in order"));
  EXPECT_THAT(problem([](Program&, Dynamic& d) { d.values[0].input = 9; }), HasSubstr("of input 9"));
  EXPECT_THAT(problem([](Program&, Dynamic& d) { d.values[1].symbol = 2; }), HasSubstr("free dimension 2"));
  EXPECT_THAT(problem([](Program& p, Dynamic&) { p.inputs[3].type.element = ElementType::kU8; }),
              HasSubstr("integers"));
  EXPECT_THAT(problem([](Program&, Dynamic& d) { d.values = {{0, 0, 0}}; }), HasSubstr("integers"));
}

TEST(SolveSizes, AProgramOfFixedSizesHasItsShapesOnly) {
  const Program program = sampleProgram();
  EXPECT_TRUE(solveSizes(program, {{4, 8, 6, 6}}).ok());
  EXPECT_EQ(solveSizes(program, {{4, 8, 6, 7}}).status().message(),
            "input 'x' has size 7 in dimension 3, the recipe needs 6");
}

}  // namespace
}  // namespace hpu::recipe
