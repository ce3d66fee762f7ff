// SPDX-License-Identifier: Apache-2.0
// Instances of hand-made and of random programs of free dimensions: each is a right program, and has the numbers that
// the same program written for those sizes has.
#include "plan/Instantiate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "InstanceChecks.h"

namespace hpu::plan {
namespace {

using namespace testing;
using ::testing::HasSubstr;

TEST(Instantiate, EverySizeGivesTheProgramWrittenForIt) {
  const Program program = dynamicSample();
  for (int64_t past : {0, 1, 2, 5, 17, 96})
    for (int64_t seq : {1, 2, 3, 6, 15, 16, 17, 33, 104}) {
      SCOPED_TRACE("past " + std::to_string(past) + ", seq " + std::to_string(seq));
      auto instance = instantiate(program, {past, seq}, gaudi2());
      ASSERT_TRUE(instance.ok()) << instance.status().message();
      ASSERT_NO_FATAL_FAILURE(expectRight(program, {past, seq}, **instance));
      ASSERT_NO_FATAL_FAILURE(expectNumbersOf(dynamicSample(past, seq), **instance));
      EXPECT_EQ((*instance)->kernels[1].dims, (std::vector<int64_t>{seq, past + seq}));
      EXPECT_GT((*instance)->estimates.deviceTimeUs, 0);
      EXPECT_LE((*instance)->estimates.lowerBoundUs, (*instance)->estimates.deviceTimeUs);
      auto outputs = outputsFor(program, {past, seq});
      ASSERT_TRUE(outputs.ok());
      EXPECT_EQ((*outputs)[0].type.shape, (Shape{seq, past + seq}));
      auto bytes = workspaceBytes(program, {past, seq}, gaudi2());
      ASSERT_TRUE(bytes.ok());
      for (const recipe::Section& section : (*instance)->sections)
        if (section.kind == SectionKind::kWorkspace) {
          EXPECT_EQ(section.bytes, *bytes);
        }
    }
}

TEST(Instantiate, SlicesAreThoseOfTheChoice) {
  const Program program = dynamicSample();
  const std::vector<recipe::TileChoice>& choices = program.dynamic->choices;
  auto small = instantiate(program, {5, 16}, gaudi2(), &choices[0]),
       large = instantiate(program, {5, 64}, gaudi2(), &choices[1]);
  ASSERT_TRUE(small.ok() && large.ok());
  EXPECT_EQ(commandsOf(**small, "project"), 1);
  EXPECT_EQ(commandsOf(**small, "up"), 2);
  EXPECT_EQ(commandsOf(**large, "project"), 4);
  EXPECT_EQ(commandsOf(**large, "scores"), 4);
  EXPECT_EQ(commandsOf(**large, "up"), 8);
  EXPECT_EQ(findOp(**large, "project")->mme.c.ring, (recipe::Ring{2, 0, 16 * 64 * 4}));
  EXPECT_EQ(findOp(**large, "down")->mme.a.ring, (recipe::Ring{3, 0, 8 * 64 * 4}));
  EXPECT_EQ(findOp(**small, "project")->mme.c.ring, (recipe::Ring{1, 0, 16 * 64 * 4}));
  // 17 rows in 8 slices are 6 slices of 3.
  auto odd = instantiate(program, {5, 17}, gaudi2(), &choices[1]);
  ASSERT_TRUE(odd.ok());
  EXPECT_EQ(commandsOf(**odd, "up"), 6);
  EXPECT_EQ(commandsOf(**odd, "down"), 6);
}

TEST(Instantiate, IsTheFastestOfWhatTheChoicesMake) {
  const Program program = dynamicSample();
  bool differ = false;
  for (const Sizes& sizes : {Sizes{5, 16}, Sizes{5, 64}, Sizes{90, 128}}) {
    auto fastest = instantiate(program, sizes, gaudi2());
    ASSERT_TRUE(fastest.ok()) << fastest.status().message();
    ASSERT_NO_FATAL_FAILURE(expectRight(program, sizes, **fastest));
    for (const recipe::TileChoice& choice : program.dynamic->choices) {
      auto one = instantiate(program, sizes, gaudi2(), &choice);
      ASSERT_TRUE(one.ok());
      EXPECT_LE((*fastest)->estimates.deviceTimeUs, (*one)->estimates.deviceTimeUs);
      differ |= (*fastest)->estimates.deviceTimeUs < (*one)->estimates.deviceTimeUs;
    }
  }
  EXPECT_TRUE(differ);
}

/// What a view that parts or joins dimensions says by strides is what one of whole dimensions says by these.
TEST(Instantiate, UsersOfTilesMayHaveStridesOfTheirOwn) {
  const Program program = dynamicSample();
  auto dynamic = std::make_shared<recipe::Dynamic>(*program.dynamic);
  auto number = [&](int64_t value) {
    dynamic->exprs.push_back({recipe::SizeExpr::Kind::kConstant, value, {}});
    return static_cast<uint32_t>(dynamic->exprs.size() - 1);
  };
  size_t changed = 0;
  for (recipe::TileStorage& tile : dynamic->tiles)
    for (recipe::TileStorage::User& user : tile.users) {
      if (tile.slots != 3 || tile.order.front() != tile.dim || user.op == tile.users[0].op) continue;
      const Operand& operand = *recipe::operandAt(const_cast<Program&>(program).ops[user.op], user.operand);
      for (uint32_t& dim : user.dims) {
        user.strides.push_back(number(operand.strides[user.strides.size()]));
        if (dim != tile.dim) dim = recipe::kNone;
      }
      user.offset = number(0);
      ++changed;
    }
  ASSERT_EQ(changed, 1u);
  Program other = program;
  other.dynamic = dynamic;
  ASSERT_TRUE(recipe::verifyProgram(other).ok()) << recipe::verifyProgram(other).message();
  for (const Sizes& sizes : {Sizes{5, 17}, Sizes{5, 64}}) {
    const recipe::TileChoice& choice = program.dynamic->choices[1];
    auto by = instantiate(program, sizes, gaudi2(), &choice), with = instantiate(other, sizes, gaudi2(), &choice);
    ASSERT_TRUE(by.ok() && with.ok()) << with.status().message();
    EXPECT_EQ(findOp(**by, "down")->mme.a.strides, findOp(**with, "down")->mme.a.strides);
    EXPECT_EQ(findOp(**by, "down")->mme.a.ring, findOp(**with, "down")->mme.a.ring);
    EXPECT_EQ(findOp(**by, "down")->mme.a.offset, findOp(**with, "down")->mme.a.offset);
  }
  // An offset beyond the tile, or strides that leave it, are refused.
  for (recipe::TileStorage& tile : dynamic->tiles)
    for (recipe::TileStorage::User& user : tile.users)
      if (!user.strides.empty()) user.offset = number(int64_t{1} << 40);
  EXPECT_EQ(instantiate(other, {5, 64}, gaudi2(), &program.dynamic->choices[1]).status().code(), StatusCode::kDataLoss);
}

TEST(Instantiate, WithoutAnyPastItIsLeftOutButTheProductOverItStays) {
  const Program program = dynamicSample();
  auto instance = instantiate(program, {0, 6}, gaudi2());
  ASSERT_TRUE(instance.ok()) << instance.status().message();
  EXPECT_FALSE(findOp(**instance, "keep"));
  const Op* old = findOp(**instance, "old");
  ASSERT_TRUE(old);
  EXPECT_EQ(old->mme.a.sizes, (std::vector<int64_t>{6, 0}));
  const Op* join = findOp(**instance, "join");
  ASSERT_TRUE(join);
  EXPECT_EQ(join->tpc.inputs[0].sizes, (std::vector<int64_t>{0, 64}));
}

TEST(Instantiate, SharesConstantsAndImages) {
  const Program program = dynamicSample();
  auto instance = instantiate(program, {5, 64}, gaudi2());
  ASSERT_TRUE(instance.ok());
  EXPECT_EQ((*instance)->constants[0].data, program.constants[0].data);
  EXPECT_EQ((*instance)->images[0].data, program.images[0].data);
}

TEST(Instantiate, CostsOfKernelsAreThoseOfTheirTrips) {
  // Each term counts the whole space: seq trips of 1 load, of seq * 64 points.
  const Program program = dynamicSample();
  for (int64_t seq : {4, 100}) {
    auto instance = instantiate(program, {3, seq}, gaudi2());
    ASSERT_TRUE(instance.ok());
    EXPECT_DOUBLE_EQ((*instance)->kernels[0].cost.loads, 1.0 / 64);
    EXPECT_DOUBLE_EQ((*instance)->kernels[1].cost.vectorOps, 2.0);
  }
}

TEST(Instantiate, RefusesSizesOutOfBounds) {
  const Program program = dynamicSample();
  for (const Sizes& sizes : {Sizes{97, 6}, Sizes{-1, 6}, Sizes{5, 0}, Sizes{5}, Sizes{5, 6, 7}}) {
    EXPECT_EQ(instantiate(program, sizes, gaudi2()).status().code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(outputsFor(program, sizes).status().code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(workspaceBytes(program, sizes, gaudi2()).status().code(), StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(instantiate(program, {97, 6}, gaudi2()).status().message(),
            "dimension 'past' is 97, outside of its bounds 0 to 96");
}

// ---- SRAM --------------------------------------------------------------------------------------------

TEST(Instantiate, CutsFinerWhatWouldNotFitIntoSram) {
  const Program program = dynamicSample();
  arch::TargetDesc small = gaudi2();
  small.sramBytes = 4096;  // Slots of 16 rows have 4 KB each.
  auto instance = instantiate(program, {5, 64}, small);
  ASSERT_TRUE(instance.ok()) << instance.status().message();
  ASSERT_NO_FATAL_FAILURE(expectRight(program, {5, 64}, **instance));
  EXPECT_EQ(commandsOf(**instance, "project"), 8);
  EXPECT_EQ(findOp(**instance, "project")->mme.c.ring, (recipe::Ring{2, 0, 2048}));
  EXPECT_EQ(commandsOf(**instance, "up"), 16);
  for (const recipe::Section& section : (*instance)->sections)
    if (section.kind == SectionKind::kSram) {
      EXPECT_LE(section.bytes, 4096u);
    }
}

/// dynamicSample() whose first choice cuts the unit of 'project', with tiles of rows, along columns.
Program cutAcrossTiles() {
  Program program = dynamicSample();
  auto dynamic = std::make_shared<recipe::Dynamic>(*program.dynamic);
  dynamic->choices[0].slices[1][0] = {1, 2};
  program.dynamic = dynamic;
  return program;
}

TEST(Instantiate, ResultsOfUnitsThatAreCutAcrossTilesLieInSramAsAWhole) {
  const Program program = cutAcrossTiles();
  ASSERT_TRUE(recipe::verifyProgram(program).ok()) << recipe::verifyProgram(program).message();
  for (int64_t seq : {1, 16, 17, 64}) {
    SCOPED_TRACE("seq " + std::to_string(seq));
    auto instance = instantiate(program, {5, seq}, gaudi2(), &program.dynamic->choices[0]);
    ASSERT_TRUE(instance.ok()) << instance.status().message();
    ASSERT_NO_FATAL_FAILURE(expectRight(program, {5, seq}, **instance));
    EXPECT_EQ(commandsOf(**instance, "project"), 2);
    EXPECT_EQ(findOp(**instance, "project")->mme.c.ring, (recipe::Ring{1, 0, static_cast<uint64_t>(seq) * 64 * 4}));
    EXPECT_EQ(findOp(**instance, "project")->mme.c.strides, (std::vector<int64_t>{64, 1}));
  }
}

TEST(Instantiate, WhatDoesNotFitAsAWholeIsCutAsTheLastChoiceSays) {
  const Program program = cutAcrossTiles();
  arch::TargetDesc small = gaudi2();
  small.sramBytes = 10000;  // 64 rows are 16 KB, and two slots of 16 rows 8 KB.
  auto instance = instantiate(program, {5, 64}, small, &program.dynamic->choices[0]);
  ASSERT_TRUE(instance.ok()) << instance.status().message();
  ASSERT_NO_FATAL_FAILURE(expectRight(program, {5, 64}, **instance));
  EXPECT_EQ(commandsOf(**instance, "project"), 4);
  EXPECT_EQ(findOp(**instance, "project")->mme.c.ring, (recipe::Ring{2, 0, 4096}));
  small.sramBytes = 5000;  // Then finer.
  instance = instantiate(program, {5, 64}, small, &program.dynamic->choices[0]);
  ASSERT_TRUE(instance.ok()) << instance.status().message();
  ASSERT_NO_FATAL_FAILURE(expectRight(program, {5, 64}, **instance));
  EXPECT_EQ(findOp(**instance, "project")->mme.c.ring, (recipe::Ring{2, 0, 2048}));
  Instances instances(std::make_shared<const Program>(program), small);
  for (int64_t seq : {1, 13, 16, 40, 63}) {
    auto kept = instances.get({5, seq});
    ASSERT_TRUE(kept.ok()) << kept.status().message();
    ASSERT_NO_FATAL_FAILURE(expectRight(program, {5, seq}, **kept));
  }
}

TEST(Instantiate, WhatCannotBeCutFinerLiesInTheWorkspace) {
  const Program program = dynamicSample();
  arch::TargetDesc tiny = gaudi2();
  tiny.sramBytes = 100;
  auto instance = instantiate(program, {5, 64}, tiny);
  ASSERT_TRUE(instance.ok()) << instance.status().message();
  ASSERT_NO_FATAL_FAILURE(expectRight(program, {5, 64}, **instance));
  const Operand& c = findOp(**instance, "project")->mme.c;
  EXPECT_EQ((*instance)->sections[c.section].kind, SectionKind::kWorkspace);
  EXPECT_EQ(c.ring.slots, 0u);
}

TEST(Instantiate, RandomProgramsAreRightForAllSizes) {
  std::mt19937 random(11);
  for (unsigned seed = 0; seed < 150; ++seed) {
    const Program program = RandomProgram(seed).make();
    Status status = recipe::verifyProgram(program);
    ASSERT_TRUE(status.ok()) << "seed " << seed << ": " << status.message();
    arch::TargetDesc target = gaudi2();
    if (seed % 3 == 0) target.sramBytes = std::uniform_int_distribution<int64_t>(0, 20000)(random);
    Instances instances(std::make_shared<const Program>(program), target);
    for (int i = 0; i < 12; ++i) {
      Sizes sizes;
      for (const recipe::Symbol& symbol : program.dynamic->symbols)
        sizes.push_back(std::uniform_int_distribution<int64_t>(symbol.min, symbol.max)(random));
      SCOPED_TRACE("seed " + std::to_string(seed) + ": " + recipe::sizesText(*program.dynamic, sizes));
      auto instance = instantiate(program, sizes, target);
      ASSERT_TRUE(instance.ok()) << instance.status().message();
      ASSERT_NO_FATAL_FAILURE(expectRight(program, sizes, **instance));
      auto kept = instances.get(sizes);
      ASSERT_TRUE(kept.ok()) << kept.status().message();
      ASSERT_NO_FATAL_FAILURE(expectRight(program, sizes, **kept));
      EXPECT_EQ((*kept)->ops.size(), (*instance)->ops.size());
    }
  }
}

}  // namespace
}  // namespace hpu::plan
