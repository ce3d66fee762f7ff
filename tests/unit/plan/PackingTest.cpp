// SPDX-License-Identifier: Apache-2.0
// What is chosen, against all factors there are.
#include "plan/Packing.h"

#include <gtest/gtest.h>

#include "recipe/MmePacking.h"

namespace hpu::plan {
namespace {

using recipe::SectionKind;

/// One convolution [images, channels, size, size], channels last, of square windows.
struct Conv {
  recipe::Program program;
  recipe::KernelReads reads;

  Conv(ElementType type, int64_t images, int64_t channels, int64_t size, int64_t outputs, int64_t window,
       int64_t stride = 1) {
    const int64_t out = (size + 2 * (window / 2) - window) / stride + 1;
    program.sections = {{SectionKind::kInput, 0, uint64_t{1} << 30},
                        {SectionKind::kConst, recipe::kNone, uint64_t{1} << 30},
                        {SectionKind::kSram, recipe::kNone, uint64_t{1} << 20}};
    auto operand = [&](uint32_t section, std::vector<int64_t> s) {
      return recipe::Operand{section, 0, type, s, {s[1] * s[2] * s[3], 1, s[1] * s[3], s[1]}, {}};
    };
    recipe::Op op;
    op.engine = Engine::kMme;
    op.space = {images, outputs, out, out};
    op.mme.kind = recipe::MmeKind::kConv2d;
    op.mme.packing = recipe::BPacking::kBlocked;
    op.mme.a = operand(0, {images, channels, size, size});
    op.mme.b = operand(1, {outputs, channels, window, window});
    op.mme.c = operand(2, op.space);
    for (int i = 0; i < 2; ++i) {
      op.mme.strides[i] = stride;
      op.mme.padBegin[i] = op.mme.padEnd[i] = window / 2;
    }
    program.ops = {op};
  }

  IssueContext context(Target target) const {
    const arch::TargetDesc& desc = arch::targetDesc(target);
    return {program, reads, desc, desc.clock()};
  }
  /// All slices together, of so many rows each.
  std::vector<SlicedCommand> commands(Target target, int64_t rows) const {
    std::vector<int64_t> tile = program.ops[0].space;
    tile[2] = std::min(rows, tile[2]);
    return sliceUnit(context(target), {{0}, tile, recipe::kNone, 0});
  }
  perfmodel::Picoseconds timeOf(Target target, int64_t rows, int64_t factor) const {
    Conv packed = *this;
    packed.program.ops[0].mme.packingFactor = factor;
    perfmodel::Picoseconds time = 0;
    for (const auto& command : packed.commands(target, rows)) time += command.cost.alone;
    return time;
  }
  int64_t chosen(Target target, int64_t rows = 1 << 20) const {
    std::vector<SlicedCommand> all = commands(target, rows);
    std::vector<Packing> packings = packCommands(context(target), all);
    const int64_t factor = packings.empty() ? 1 : packings[0].factor;
    perfmodel::Picoseconds time = 0;
    for (const auto& command : all) time += command.cost.alone;
    EXPECT_EQ(time, timeOf(target, rows, factor)) << "the commands are priced as packed";
    return factor;
  }
};

TEST(Packing, FillsTheArrayWhereOutputsAreFew) {
  EXPECT_EQ(Conv(ElementType::kF32, 8, 64, 56, 64, 3).chosen(Target::kGaudi2), 2);
  EXPECT_EQ(Conv(ElementType::kBF16, 8, 64, 56, 64, 3).chosen(Target::kGaudi2), 2);
  EXPECT_EQ(Conv(ElementType::kF32, 8, 64, 56, 32, 3).chosen(Target::kGaudi2), 4);
}

TEST(Packing, LeavesWhatIsNotFaster) {
  EXPECT_EQ(Conv(ElementType::kF32, 8, 256, 28, 512, 3).chosen(Target::kGaudi2), 1) << "the array is full";
  EXPECT_EQ(Conv(ElementType::kF32, 1, 64, 7, 64, 3).chosen(Target::kGaudi2), 1) << "one pass either way";
}

TEST(Packing, TheChoiceIsTheLeastOfAllFactors) {
  int packed = 0;
  for (Target target : {Target::kGaudi1, Target::kGaudi2, Target::kGaudi3})
    for (ElementType type : {ElementType::kF32, ElementType::kBF16})
      for (int64_t channels : {3, 24, 64})
        for (int64_t outputs : {8, 24, 64, 144})
          for (int64_t window : {1, 3, 7})
            for (int64_t rows : {5, 1 << 20}) {
              Conv conv(type, 4, channels, 56, outputs, window, window == 7 ? 2 : 1);
              const int64_t factor = conv.chosen(target, rows);
              const perfmodel::Picoseconds time = conv.timeOf(target, rows, factor);
              packed += factor > 1;
              for (int64_t other = 1; other <= recipe::kMaxPackingFactor; ++other) {
                if (!recipe::packingObstacle(conv.program.ops[0].mme, other).empty()) continue;
                const auto least = static_cast<double>(conv.timeOf(target, rows, other));
                // Large factors are tried in steps.
                EXPECT_LE(static_cast<double>(time), other <= 8 ? least : 1.1 * least)
                    << "K " << channels << " N " << outputs << " window " << window << ": " << factor << " against "
                    << other;
              }
            }
  EXPECT_GT(packed, 50);
}

TEST(Packing, WhatCannotBePackedIsLeft) {
  Conv conv(ElementType::kF32, 8, 64, 56, 64, 3);
  recipe::Operand& c = conv.program.ops[0].mme.c;
  c.strides = {64 * 56 * 56, 56 * 56, 56, 1};
  EXPECT_EQ(conv.chosen(Target::kGaudi2), 1);
}

}  // namespace
}  // namespace hpu::plan
