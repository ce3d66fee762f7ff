// SPDX-License-Identifier: Apache-2.0
// Variants: linking, their file, what the verifier refuses, and which one is for a launch.
#include "recipe/Variants.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "DynamicSample.h"
#include "SampleProgram.h"
#include "base/Hash.h"
#include "hpu/recipe.h"
#include "recipe/CommandAccess.h"
#include "recipe/Container.h"
#include "recipe/LittleEndian.h"
#include "recipe/RecipeReader.h"
#include "recipe/RecipeVerifier.h"
#include "recipe/RecipeWriter.h"

namespace hpu::recipe {
namespace {

using ::testing::HasSubstr;
using namespace testing;
using VariantMap = std::map<std::string, int64_t>;

StatusOr<std::shared_ptr<const Program>> read(const std::vector<uint8_t>& bytes) {
  return readRecipe(bytes.data(), bytes.size(), nullptr, "variants.recipe");
}

/// The bytes that an operand begins with.
const uint8_t* bytesOf(const Program& program, const Operand& operand) {
  for (const ConstantBlob& blob : program.constants)
    if (blob.section == operand.section && operand.offset >= blob.offset && operand.offset < blob.offset + blob.bytes)
      return blob.data + (operand.offset - blob.offset);
  return nullptr;
}

TEST(VariantLinker, KeepsConstantsOfEqualBytesOnce) {
  const Program holder = positionsSample(), linked = variantsSample();
  ASSERT_TRUE(verifyProgram(linked).ok()) << verifyProgram(linked).message();
  // Only the one that a variant alone has came to the holder's two, which are where they were.
  ASSERT_EQ(linked.constants.size(), 3u);
  for (size_t i = 0; i < holder.constants.size(); ++i)
    EXPECT_EQ(linked.constants[i].offset, holder.constants[i].offset);
  ASSERT_EQ(linked.variants.size(), 2u);
  for (const Variant& variant : linked.variants) EXPECT_EQ(variant.program->constants.size(), 3u);
  VariantLinker linker(positionsSample());
  ASSERT_TRUE(linker.add({{"seq", 16}}, positionsSample({{"seq", 16}})).ok());
  EXPECT_EQ(linker.addedBytes(), 0u);
  ASSERT_TRUE(linker.add({{"past", 4}}, positionsSample({{"past", 4}})).ok());
  EXPECT_EQ(linker.addedBytes(), 2u * 64 * 4);
}

TEST(VariantLinker, MovesOperandsWithTheirConstants) {
  const Program linked = variantsSample();
  for (const Variant& variant : linked.variants) {
    const Program& program = *variant.program;
    EXPECT_EQ(*bytesOf(program, program.ops[0].mme.b), 64 * 64 * 4 / 512);
    EXPECT_EQ(*bytesOf(program, program.ops[1].dma.src), 24 * 64 * 4 / 512);
  }
  // Also where the offset depends on a size: row `past` of the table.
  const Variant& open = linked.variants[1];
  ASSERT_TRUE(open.program->dynamic);
  const Operand& rows = open.program->ops[1].dma.src;
  uint64_t table = 0;
  for (const ConstantBlob& blob : linked.constants)
    if (blob.bytes == 24 * 64 * 4) table = blob.offset;
  EXPECT_EQ(rows.offset, table + 3 * 64 * 4);
  for (const Patch& patch : open.program->dynamic->patches)
    if (patch.field == Patch::Field::kOperandOffset && patch.index == 1) {
      EXPECT_EQ(SizeValues(*open.program->dynamic, {7}).find(patch.expr), static_cast<int64_t>(table) + 7 * 64 * 4);
      return;
    }
  FAIL() << "the rows have no offset that depends on past";
}

TEST(VariantLinker, RefusesSizesThatTheHolderHasNot) {
  VariantLinker linker(positionsSample());
  EXPECT_THAT(linker.check({{"sequence", 3}}).message(), HasSubstr("there are: past, seq"));
  EXPECT_THAT(linker.check({{"seq", 17}}).message(), HasSubstr("1 to 16"));
  EXPECT_TRUE(linker.check({{"seq", 16}}).ok());
}

TEST(VariantLinker, DoesNotShareWhatReadsSeveralConstants) {
  Program variant = positionsSample({{"seq", 16}});
  // Both of them as one.
  variant.ops[1].dma.src.sizes[0] = 60;
  VariantLinker linker(positionsSample());
  EXPECT_THAT(linker.add({{"seq", 16}}, variant).message(), HasSubstr("'positions' does not lie in one constant"));
}

TEST(Variants, ThoseThatFixMoreAreTakenFirst) {
  const Program linked = variantsSample();
  EXPECT_EQ(variantFor(linked, {4, 16}), 0u);
  EXPECT_EQ(variantFor(linked, {3, 16}), 1u);
  EXPECT_EQ(variantFor(linked, {4, 15}), std::nullopt);
  EXPECT_EQ(variantText(*linked.dynamic, linked.variants[0]), "past=4, seq=16");
  EXPECT_EQ(linked.variants[1].program->name, "dynamic [seq=16]");
  const Recipe recipe(std::make_shared<const Program>(linked));
  EXPECT_EQ(recipe.variants(), (std::vector<VariantMap>{{{"past", 4}, {"seq", 16}}, {{"seq", 16}}}));
}

TEST(VariantRecipe, IsTheSameAfterWritingAndReading) {
  const Program sample = variantsSample();
  auto bytes = writeRecipe(sample);
  ASSERT_TRUE(bytes.ok()) << bytes.status().message();
  auto program = read(*bytes);
  ASSERT_TRUE(program.ok()) << program.status().message();
  EXPECT_TRUE(samePrograms(sample, **program));
  ASSERT_EQ((*program)->variants.size(), sample.variants.size());
  for (size_t v = 0; v < sample.variants.size(); ++v) {
    const Variant &was = sample.variants[v], &is = (*program)->variants[v];
    EXPECT_EQ(was.sizes, is.sizes);
    EXPECT_TRUE(samePrograms(*was.program, *is.program));
    ASSERT_EQ(was.program->dynamic != nullptr, is.program->dynamic != nullptr);
    if (was.program->dynamic) EXPECT_TRUE(sameDynamics(*was.program->dynamic, *is.program->dynamic));
  }
  EXPECT_TRUE(writeRecipe(**program).value() == *bytes);
}

TEST(VariantRecipe, TheBytesOfFormat1_3StayTheSame) {
  // As those of 1.1 (RecipeContainerTest.cpp): whoever changes them changes the version too.
  std::vector<uint8_t> bytes = writeRecipe(variantsSample()).value();
  storeLe(bytes.data() + kAtMinor, uint16_t{3});
  ASSERT_TRUE(resealRecipe(bytes).ok());
  EXPECT_EQ(base::hash64(bytes.data(), bytes.size()), 0x81c43495dc48e696u);
}

TEST(VariantRecipe, NeedsAReaderThatKnowsItsSection) {
  std::vector<uint8_t> bytes = writeRecipe(variantsSample()).value();
  EXPECT_EQ(loadLe<uint16_t>(bytes.data() + kAtReaderMinor), 3);
  EXPECT_EQ(loadLe<uint16_t>(writeRecipe(positionsSample())->data() + kAtReaderMinor), 2);
  const uint32_t sections = loadLe<uint32_t>(bytes.data() + kAtNumSections);
  for (uint32_t i = 0; i < sections; ++i) {
    uint8_t* at = bytes.data() + kHeaderBytes + i * kEntryBytes;
    if (readEntry(at).id != SectionId::kVariants) continue;
    EXPECT_EQ(readEntry(at).flags, kRequired);
    storeLe(at, uint32_t{77});
    ASSERT_TRUE(resealRecipe(bytes).ok());
    EXPECT_EQ(read(bytes).status().code(), StatusCode::kFailedPrecondition);
    return;
  }
  FAIL() << "there is no section of variants";
}

/// With an input whose element says `past`.
Program counted(Program program) {
  const auto input = static_cast<uint32_t>(program.inputs.size());
  program.inputs.push_back({"count", {ElementType::kI64, {1}}});
  program.sections.push_back({SectionKind::kInput, input, 8});
  Dynamic dynamic = *program.dynamic;
  for (uint32_t s = 0; s < dynamic.symbols.size(); ++s)
    if (dynamic.symbols[s].name == "past") dynamic.values = {{input, 0, s}};
  program.dynamic = std::make_shared<const Dynamic>(std::move(dynamic));
  return program;
}

TEST(VariantRecipe, HasTheInputValuesOfItsHolder) {
  VariantLinker linker(counted(positionsSample()));
  const Status fixed = linker.check({{"past", 4}});
  EXPECT_EQ(fixed.code(), StatusCode::kUnimplemented);
  EXPECT_THAT(fixed.message(), HasSubstr("a value of the input 'count'"));
  ASSERT_TRUE(linker.add({{"seq", 16}}, counted(positionsSample({{"seq", 16}}))).ok());
  const std::shared_ptr<const Program> linked = linker.finish();
  ASSERT_TRUE(verifyProgram(*linked).ok()) << verifyProgram(*linked).message();
  auto bytes = writeRecipe(*linked);
  ASSERT_TRUE(bytes.ok()) << bytes.status().message();
  auto program = read(*bytes);
  ASSERT_TRUE(program.ok()) << program.status().message();
  // Of the dimensions that the variant leaves open, `past` is the only one.
  ASSERT_EQ(linked->dynamic->values, (std::vector<InputValue>{{2, 0, 0}}));
  EXPECT_EQ((*program)->variants[0].program->dynamic->values, (std::vector<InputValue>{{2, 0, 0}}));
  EXPECT_TRUE(writeRecipe(**program).value() == *bytes);
  EXPECT_EQ(solveSizes(*(*program)->variants[0].program, {{16, 64}, {3, 64}, {1}, {3}}).value(), Sizes{3});

  Program changed = *linked;
  Program other = *changed.variants[0].program;
  Dynamic without = *other.dynamic;
  without.values.clear();
  other.dynamic = std::make_shared<const Dynamic>(std::move(without));
  changed.variants[0].program = std::make_shared<const Program>(std::move(other));
  EXPECT_THAT(verifyProgram(changed).message(), HasSubstr("takes other sizes than the program"));
}

TEST(VariantVerifier, RefusesStatesBesideVariants) {
  Program program = variantsSample();
  program.states = {{1, 0, {16, 64}}};
  for (Section& section : program.sections)
    if (const State* state = stateOf(program, section)) section.bytes = stateBytes(program, *state);
  const Status status = verifyProgram(program);
  EXPECT_THAT(status.message(), ::testing::HasSubstr("states and variants, which exclude each other"));
}

TEST(VariantVerifier, RefusesWhatDoesNotFitItsHolder) {
  struct Case {
    std::function<void(Program& holder, Variant& variant, Program& program)> change;
    std::string words;
  };
  const Case cases[] = {
      {[](Program& holder, Variant&, Program&) { holder.dynamic = nullptr; }, "no free dimensions"},
      {[](Program&, Variant& variant, Program&) { variant.sizes.pop_back(); }, "has 1 sizes"},
      {[](Program&, Variant& variant, Program&) { variant.sizes[1] = 17; }, "the size 17 of 'seq'"},
      {[](Program&, Variant& variant, Program&) { variant.sizes = {kDynamic, kDynamic}; }, "is for all sizes"},
      {[](Program&, Variant& variant, Program&) { variant.sizes = {3, 16}; }, "which the variant fixes"},
      {[](Program&, Variant&, Program& program) { program.dynamic = nullptr; }, "neither fixes nor has"},
      {[](Program&, Variant&, Program& program) { program.sections.pop_back(); }, "sections, and the program"},
      {[](Program&, Variant&, Program& program) { program.sections[0].bytes += 256; }, "which it is"},
      {[](Program&, Variant&, Program& program) { program.target = Target::kGaudi3; }, "another target"},
      {[](Program& holder, Variant&, Program& program) { program.variants = holder.variants; }, "of its own"},
      {[](Program&, Variant&, Program& program) { program.inputs[0].name = "z"; }, "input 0 is 'z'"},
      {[](Program&, Variant&, Program& program) { program.outputs[1].type.element = ElementType::kI32; }, "output 1"},
      {[](Program&, Variant& variant, Program&) { variant.sizes[1] = 15; }, "input 0 is 'x'"},
      {[](Program&, Variant&, Program& program) { program.hostOrder.pop_back(); }, "variant 1: "},
      {[](Program& holder, Variant&, Program&) { holder.variants.resize(65, holder.variants[0]); }, "more than 64"},
  };
  for (const Case& each : cases) {
    Program holder = variantsSample();
    Variant variant = holder.variants[1];
    Program program = *variant.program;
    each.change(holder, variant, program);
    variant.program = std::make_shared<const Program>(program);
    holder.variants[1] = variant;
    EXPECT_THAT(verifyProgram(holder).message(), HasSubstr(each.words));
  }
  Program program = variantsSample();
  Dynamic other = *program.variants[1].program->dynamic;
  other.symbols[0].max = 9;
  Program changed = *program.variants[1].program;
  changed.dynamic = std::make_shared<const Dynamic>(other);
  program.variants[1].program = std::make_shared<const Program>(changed);
  EXPECT_FALSE(verifyProgram(program).ok());
}

}  // namespace
}  // namespace hpu::recipe
