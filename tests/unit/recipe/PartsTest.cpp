// SPDX-License-Identifier: Apache-2.0
// Programs of parts: their file, where places are, and what the verifier refuses.
#include "recipe/Parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "DynamicSample.h"
#include "PartsSample.h"
#include "SampleProgram.h"
#include "recipe/ConstantPool.h"
#include "recipe/Container.h"
#include "recipe/LittleEndian.h"
#include "recipe/RecipeReader.h"
#include "recipe/RecipeVerifier.h"
#include "recipe/RecipeWriter.h"

namespace hpu::recipe {
namespace {

using ::testing::HasSubstr;
using namespace testing;

StatusOr<std::shared_ptr<const Program>> read(const std::vector<uint8_t>& bytes) {
  return readRecipe(bytes.data(), bytes.size(), nullptr, "parts.recipe");
}

bool sameParts(const Program& a, const Program& b) {
  if (a.parts.size() != b.parts.size() || !samePrograms(a, b)) return false;
  for (size_t p = 0; p < a.parts.size(); ++p) {
    const Part &x = a.parts[p], &y = b.parts[p];
    if (x.sections != y.sections || x.trips != y.trips || x.count != y.count || x.condition != y.condition ||
        x.conditionInverted != y.conditionInverted || !sameParts(*x.program, *y.program))
      return false;
  }
  return true;
}

TEST(PartsRecipe, IsTheSameAfterWritingAndReading) {
  for (const Program& sample : {partsSample(), nestedSample(kMaxPartDepth)}) {
    auto bytes = writeRecipe(sample);
    ASSERT_TRUE(bytes.ok()) << bytes.status().message();
    auto program = read(*bytes);
    ASSERT_TRUE(program.ok()) << program.status().message();
    EXPECT_TRUE(sameParts(sample, **program));
    EXPECT_TRUE(writeRecipe(**program).value() == *bytes);
  }
}

TEST(PartsRecipe, NeedsAReaderThatKnowsItsSection) {
  std::vector<uint8_t> bytes = writeRecipe(partsSample()).value();
  EXPECT_EQ(loadLe<uint16_t>(bytes.data() + kAtReaderMinor), 4);
  const uint32_t sections = loadLe<uint32_t>(bytes.data() + kAtNumSections);
  for (uint32_t i = 0; i < sections; ++i) {
    uint8_t* at = bytes.data() + kHeaderBytes + i * kEntryBytes;
    if (readEntry(at).id != SectionId::kParts) continue;
    EXPECT_EQ(readEntry(at).flags, kRequired);
    storeLe(at, uint32_t{77});
    ASSERT_TRUE(resealRecipe(bytes).ok());
    EXPECT_EQ(read(bytes).status().code(), StatusCode::kFailedPrecondition);
    return;
  }
  FAIL() << "there is no section of parts";
}

TEST(PartsRecipe, KeepsConstantsOnce) {
  Program twice = partsSample();
  twice.parts.push_back(twice.parts[3]);
  EXPECT_EQ(encodeProgram(twice)->pieces.size(), encodeProgram(partsSample())->pieces.size());
  auto program = read(writeRecipe(partsSample()).value());
  ASSERT_TRUE(program.ok()) << program.status().message();
  const ConstantBlob &own = (*program)->parts[3].program->constants.at(0), &held = (*program)->constants[0];
  EXPECT_EQ(own.data, held.data + 256);
  EXPECT_EQ(own.bytes, 256u);
}

/// A program that copies a table of its constants, of `rows` rows that hold their number and `first`, to its output.
std::shared_ptr<Program> tableProgram(int32_t first, int64_t rows) {
  PartBuilder builder("table");
  const uint32_t out = builder.output(ElementType::kI32, {rows * 64});
  const uint32_t table = builder.section(SectionKind::kConst, static_cast<uint64_t>(rows) * 256);
  for (int64_t row = 0; row < rows; ++row) {
    auto bytes = std::make_shared<std::vector<int32_t>>(64, first + static_cast<int32_t>(row));
    builder.program.constants.push_back(
        {table, static_cast<uint64_t>(row) * 256, reinterpret_cast<const uint8_t*>(bytes->data()), 256, bytes});
    builder.copy(table, out, ElementType::kI32, 64, static_cast<uint64_t>(row) * 256, static_cast<uint64_t>(row) * 256);
  }
  builder.program.target = Target::kGaudi2;
  return std::make_shared<Program>(builder.program);
}

TEST(ConstantPool, KeepsConstantsOfAllPartsOnceHoweverDeep) {
  ConstantPool pool;
  auto first = tableProgram(10, 3), second = tableProgram(11, 4);
  auto inner = std::make_shared<Program>(), outer = std::make_shared<Program>();
  inner->target = outer->target = Target::kGaudi2;
  const uint32_t innerOut = addOutput(*inner, ElementType::kI32, {4 * 64});
  const uint32_t outerOut = addOutput(*outer, ElementType::kI32, {4 * 64});
  const uint32_t a = pool.add(first).value(), b = pool.add(second).value();
  const uint32_t c = pool.add(inner).value(), d = pool.add(outer).value();
  std::vector<PartPlace> places(2);
  places[0] = testing::at(innerOut);
  places[b] = testing::at(c);
  inner->parts.push_back({second, places, 2});
  places[0] = testing::at(outerOut);
  places[a] = testing::at(d);
  outer->parts.push_back({first, places});
  places[c] = testing::at(d);
  outer->parts.push_back({inner, places});
  auto more = std::make_shared<std::vector<int32_t>>(64, 99);
  const uint64_t offset = pool.place({kNone, 0, reinterpret_cast<const uint8_t*>(more->data()), 256, more});
  pool.finish();
  const Status status = verifyProgram(*outer);
  ASSERT_TRUE(status.ok()) << status.message();
  // 10 to 14, and the one by itself.
  EXPECT_EQ(outer->constants.size(), 6u);
  EXPECT_EQ(outer->constants.back().offset, offset);
  EXPECT_EQ(pool.bytes(), 6u * 256);
  for (const auto& [program, number] : {std::pair(first, 10), std::pair(second, 11)})
    for (size_t row = 0; row < program->ops.size(); ++row) {
      const Operand& src = program->ops[row].dma.src;
      const ConstantBlob& blob = program->constants.at(src.offset / 256);
      EXPECT_EQ(reinterpret_cast<const int32_t*>(blob.data)[5], number + static_cast<int32_t>(row));
      EXPECT_EQ(blob.offset, src.offset);
    }
  auto bytes = writeRecipe(*outer);
  ASSERT_TRUE(bytes.ok()) << bytes.status().message();
  EXPECT_TRUE(sameParts(*outer, **read(*bytes)));
}

TEST(Parts, PlacesMoveAndTakeTurns) {
  const uint64_t ran[] = {3, 4};
  auto where = [&](const PartPlace& place, uint64_t iteration) {
    const PartAddress address = addressOf(place, 2, iteration, ran);
    return std::pair(address.section, address.offset);
  };
  EXPECT_EQ(where(moving(5, 100, 8), 3), std::pair(5u, uint64_t{124}));
  EXPECT_EQ(where(moving(5, 100, -8), 3), std::pair(5u, uint64_t{76}));
  EXPECT_EQ(where(turning(2, at(1, 4), at(3, 8)), 6), std::pair(1u, uint64_t{4}));
  EXPECT_EQ(where(turning(2, at(1, 4), at(3, 8)), 7), std::pair(3u, uint64_t{8}));
  EXPECT_EQ(where(turning(0, at(1, 4), at(3, 8)), 6), std::pair(3u, uint64_t{8}));
  EXPECT_EQ(where(turning(1, at(1, 4), at(3, 8)), 7), std::pair(1u, uint64_t{4}));
}

TEST(Parts, TellWhatDataDecides) {
  const Program sample = partsSample();
  EXPECT_FALSE(isDecided(sample.parts[0]));
  EXPECT_TRUE(isDecided(sample.parts[1]) && isDecided(sample.parts[2]));
  EXPECT_FALSE(isDecided(sample.parts[4]));
  EXPECT_TRUE(hasDecided(*sample.parts[4].program));
  EXPECT_FALSE(hasDecided(nestedSample(3)));
  EXPECT_EQ(sureIterations(nestedSample(3)), 2u * (1 + 2 * (1 + 2)));
  EXPECT_EQ(lastWritingParts(sample), (std::vector<uint32_t>{4, 1, 3}));
}

TEST(PartsVerifier, AcceptsTheSamples) {
  const Status status = verifyProgram(partsSample());
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(verifyProgram(nestedSample(kMaxPartDepth)).ok());
}

/// A copy of the part's program that may be changed.
Program& changed(Part& part) {
  auto own = std::make_shared<Program>(*part.program);
  part.program = own;
  return *own;
}

TEST(PartsVerifier, RefusesWhatDoesNotFitItsHolder) {
  struct Case {
    std::function<void(Program& holder)> change;
    std::string words;
  };
  constexpr uint64_t kWork = 7, kAll = 5;
  const Case cases[] = {
      {[](Program& p) { p.parts[0].program = nullptr; }, "a part has no program"},
      {[](Program& p) { p.dynamic = dynamicSample().dynamic; }, ""},
      {[](Program& p) { p.numSignals = 1; }, "queues of its own"},
      {[](Program& p) { p.sections.push_back({SectionKind::kSram, kNone, 256}); }, "section 9 is SRAM"},
      {[](Program& p) { p = nestedSample(kMaxPartDepth + 1); }, "deep"},
      {[](Program& p) { p.parts.resize(kMaxParts, p.parts[0]); }, "more than 4096"},
      {[](Program& p) { changed(p.parts[0]).target = Target::kGaudi3; }, "part 0 'first' has another target"},
      {[](Program& p) { p.parts[1].trips = 0; }, "part 1 'body' runs at most 0 times"},
      {[](Program& p) { p.parts[1].trips = 6; }, "6 steps of -256, which leave"},
      {[](Program& p) { p.parts[0].sections.pop_back(); }, "places for 2 sections"},
      {[](Program& p) { changed(p.parts[0]).hostOrder.pop_back(); }, "part 0 'first': "},
      {[](Program& p) { p.parts[0].sections[0].section = 77; }, "in section 77"},
      {[](Program& p) { p.parts[0].sections[0].offset = 4; }, "which leave its 256 bytes"},
      {[](Program& p) { p.parts[0].sections[0].offset = 2; }, "no multiples of 4"},
      {[](Program& p) { p.parts[0].sections[2].offset += 4; }, "no multiples of 256"},
      {[](Program& p) { p.parts[0].sections[1] = at(0); }, "section 1 (an output) in section 0"},
      {[](Program& p) { p.parts[3].sections[0] = at(kWork); }, "section 0 (constants) in section 7"},
      {[](Program& p) { p.parts[1].sections[4] = at(kWork); }, "which it has for itself"},
      {[](Program& p) { p.parts[1].sections[0].turns = 2; }, "the turns of part 2"},
      {[](Program& p) { p.parts[0].sections[0].oddOffset = 8; }, "at a second place"},
      {[](Program& p) { p.parts[1].count.step = 8; }, ""},
      {[](Program& p) {
         p.parts[1].count = at(3);
         p.parts[1].count.step = 0;
         p.parts[1].count.offset = 8;
       },
       "leave its 8"},
      {[](Program& p) { p.parts[2].condition.offset = 8; }, "its condition"},
      {[](Program& p) { p.parts[0].conditionInverted = true; }, "inverts its condition"},
      {[](Program& p) { p.parts[0].condition.offset = 1; }, "condition that is nowhere"},
      {[](Program& p) { changed(p.parts[3]).constants.clear(); }, ""},
      {[](Program& p) { p.constants[0].bytes -= 128; }, ""},
      // The second place of what is carried is the first one.
      {[](Program& p) { p.parts[1].sections[2] = p.parts[1].sections[0]; }, "writes section 2 where it has section 0"},
      {[](Program& p) { p.parts[1].sections[3] = moving(kWork, 5 * 256, -256); }, "in one iteration"},
      {[](Program& p) { p.parts[0].sections[2] = at(kWork); }, "writes section 1 where it has section 2"},
      {[](Program& p) {
         p.parts[0].sections[0] = at(8);
         p.constants[0].bytes = 128;
         p.parts.resize(1);
       },
       "reads its input 0 'in0', bytes 0 to 256 of section 8"},
      // Nothing writes the fourth of the places.
      {[](Program& p) { p.parts[2].sections[0] = at(kWork, 3 * 256); }, "reads its input 0 'in0'"},
      {[](Program& p) { p.parts.erase(p.parts.begin()); }, ""},
      {[](Program& p) { p.parts[1].sections[0].offset = 6 * 256; }, "in iteration 0"},
      {[](Program& p) { p.parts[1].sections[0].oddOffset = 6 * 256; }, "in iteration 1"},
      {[](Program& p) { p.parts[1].condition = moving(kAll, 0, 1); }, "reads its condition"},
      {[](Program& p) { p.parts[1].count = at(kWork, 6 * 256); }, "reads its count"},
      {[](Program& p) {
         Program& nested = changed(p.parts[4]);
         nested.parts[1].trips = 9;
       },
       "part 4 'nested': part 1 'copy' has its condition"},
  };
  for (const Case& each : cases) {
    Program holder = partsSample();
    each.change(holder);
    const Status status = verifyProgram(holder);
    EXPECT_FALSE(status.ok()) << each.words;
    EXPECT_THAT(status.message(), HasSubstr(each.words));
  }
}

TEST(PartsVerifier, RefusesFreeDimensions) {
  Program sample = dynamicSample();
  sample.parts = nestedSample(1).parts;
  EXPECT_FALSE(verifyProgram(sample).ok());
  Program holder = partsSample();
  holder.dynamic = std::make_shared<const Dynamic>();
  EXPECT_FALSE(verifyProgram(holder).ok());
  Program own = partsSample();
  changed(own.parts[0]).dynamic = std::make_shared<const Dynamic>();
  EXPECT_THAT(verifyProgram(own).message(), HasSubstr("which parts cannot have yet"));
}

TEST(PartsVerifier, BoundsIterations) {
  Program holder = nestedSample(3);
  auto loop = [](Program& program) { program.parts[0].trips = kMaxPartTrips; };
  loop(holder);
  EXPECT_TRUE(verifyProgram(holder).ok());
  loop(changed(holder.parts[0]));
  EXPECT_THAT(verifyProgram(holder).message(), HasSubstr("whatever its data is"));
}

TEST(PartsVerifier, AValueThatMovesOverItsOwnPlaceIsRefusedOnlyWhereTheyMeet) {
  // Reads from the front and writes from behind, over one tensor of workspace: they meet in the middle.
  for (int64_t count : {4, 5}) {
    Program holder;
    holder.target = Target::kGaudi2;
    const uint32_t in = addInput(holder, ElementType::kI32, {count * 64});
    const uint32_t work = addSection(holder, SectionKind::kWorkspace, static_cast<uint64_t>(count) * 256);
    const uint32_t out = addOutput(holder, ElementType::kI32, {1});
    PartBuilder all("all");
    all.passOn(ElementType::kI32, count * 64);
    all.addTo(holder, {nullptr, {at(in), at(work)}});
    PartBuilder one("one");
    one.passOn(ElementType::kI32, 64);
    one.addTo(holder, {nullptr,
                       {moving(work, 0, 256), moving(work, static_cast<uint64_t>(count - 1) * 256, -256)},
                       static_cast<uint64_t>(count)});
    PartBuilder end("end");
    end.passOn(ElementType::kI32, 1);
    end.addTo(holder, {nullptr, {at(work), at(out)}});
    EXPECT_EQ(verifyProgram(holder).ok(), count == 4) << verifyProgram(holder).message();
  }
}

}  // namespace
}  // namespace hpu::recipe
