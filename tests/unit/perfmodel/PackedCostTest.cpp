// SPDX-License-Identifier: Apache-2.0
// Prices of packed products: the packed GEMM's time, the plain product's work, the packed weights' bytes.
#include <gtest/gtest.h>

#include <random>

#include "perfmodel/Timeline.h"
#include "recipe/MmePacking.h"

namespace hpu::perfmodel {
namespace {

using recipe::Command;
using recipe::MmeKind;
using recipe::Op;
using recipe::Operand;
using recipe::Program;
using recipe::SectionKind;

constexpr uint32_t kConst = 0, kSram = 1;

Operand operand(uint32_t section, ElementType type, std::vector<int64_t> sizes, bool channelsLast) {
  Operand o;
  o.section = section;
  o.type = type;
  o.sizes = sizes;
  o.strides.assign(sizes.size(), 1);
  for (size_t d = sizes.size(); d-- > 1;) o.strides[d - 1] = o.strides[d] * sizes[d];
  if (channelsLast) o.strides = {sizes[1] * sizes[2] * sizes[3], 1, sizes[1] * sizes[3], sizes[1]};
  return o;
}

struct Conv {
  int64_t images = 1, channels = 64, rows = 56, columns = 56, outputs = 64, window = 3, stride = 1, pad = 1;
  ElementType type = ElementType::kF32;
  MmeKind kind = MmeKind::kConv2d;
};

Program programOf(const Conv& c, int64_t factor) {
  Program p;
  p.sections = {{SectionKind::kConst, recipe::kNone, uint64_t{1} << 32}, {SectionKind::kSram, recipe::kNone, 1 << 20}};
  Op& op = p.ops.emplace_back();
  op.engine = Engine::kMme;
  op.mme.kind = c.kind;
  op.mme.packing = recipe::BPacking::kBlocked;
  op.mme.packingFactor = factor;
  auto out = [&](int64_t in) {
    return c.kind == MmeKind::kConv2d ? (in + 2 * c.pad - c.window) / c.stride + 1
                                      : (in - 1) * c.stride + c.window - 2 * c.pad;
  };
  op.space = {c.images, c.outputs, out(c.rows), out(c.columns)};
  op.mme.a = operand(kConst, c.type, {c.images, c.channels, c.rows, c.columns}, true);
  op.mme.b = operand(kConst, c.type,
                     c.kind == MmeKind::kConv2d ? std::vector<int64_t>{c.outputs, c.channels, c.window, c.window}
                                                : std::vector<int64_t>{c.channels, c.outputs, c.window, c.window},
                     false);
  op.mme.c = operand(kSram, c.type, op.space, true);
  for (int i = 0; i < 2; ++i) {
    op.mme.strides[i] = c.stride;
    op.mme.padBegin[i] = op.mme.padEnd[i] = c.pad;
  }
  return p;
}

Command whole(const Op& op) {
  Command c;
  c.op = 0;
  c.lo.assign(op.space.size(), 0);
  c.hi = op.space;
  return c;
}

Cost costOf(const Program& p, Target t = Target::kGaudi2) {
  return commandCost(p, whole(p.ops[0]), arch::targetDesc(t), arch::targetDesc(t).clock());
}

Picoseconds termOf(const Cost& cost, Term term) {
  return cost.terms[static_cast<size_t>(term)];
}

TEST(PackedCost, TwoPixelsOf64ChannelsFillTheArray) {
  // 3 x 3, 64 to 64 channels, 8 images of 56 x 56 in f32: m = 25088, k = 576, 4 cycles a K. The 128 columns of the
  // tall arrangement are half empty: ceil(25088 / 1024) = 25 passes of 2304 cycles. Packed by two, k = 768 and 12544
  // rows: 13 passes of 3072. Of each, the first is port-constrained and has its K cycles twice.
  Conv conv;
  conv.images = 8;
  Program plain = programOf(conv, 1), packed = programOf(conv, 2);
  GemmShape shape = mmeShape(packed.ops[0], whole(packed.ops[0]));
  EXPECT_EQ(shape.m, 8 * 56 * 28);
  EXPECT_EQ(shape.n, 128);
  EXPECT_EQ(shape.k, 64 * 3 * 4);
  Cost before = costOf(plain), after = costOf(packed);
  const double psPerCycle = 1000 / 1.65, fixed = 512 + 395;
  EXPECT_NEAR(static_cast<double>(before.compute), psPerCycle * (26 * 2304 + 25 * 66 + fixed), 2);
  EXPECT_NEAR(static_cast<double>(after.compute), psPerCycle * (14 * 3072 + 13 * 66 + fixed), 2);
  EXPECT_EQ(termOf(before, Term::kIdeal), termOf(after, Term::kIdeal));
  // Traffic: the weights with their zeros.
  EXPECT_EQ(after.bytes.hbm - before.bytes.hbm, 4 * 64 * (128 * 12 - 64 * 9));
  EXPECT_EQ(after.bytes.sram, before.bytes.sram);
}

TEST(PackedCost, ZerosBelowTheRollUpCostNothing) {
  // 1 x 1, 64 to 64 channels in bf16: k = 64, then 128, of the 256 that a pass takes at least.
  Conv conv;
  conv.images = 8, conv.window = 1, conv.pad = 0, conv.type = ElementType::kBF16;
  Cost before = costOf(programOf(conv, 1)), after = costOf(programOf(conv, 2));
  const double psPerCycle = 1000 / 1.65, fixed = 512 + 395;
  EXPECT_NEAR(static_cast<double>(before.compute), psPerCycle * (25 * (256 + 66) + fixed), 2);
  EXPECT_NEAR(static_cast<double>(after.compute), psPerCycle * (13 * (256 + 66) + fixed), 2);
  EXPECT_EQ(termOf(before, Term::kIdeal), termOf(after, Term::kIdeal));
}

TEST(PackedCost, AColumnThatIsLeftOverIsPaidAsAWholeOne) {
  Conv conv;
  conv.columns = 57;
  Program packed = programOf(conv, 2);
  EXPECT_EQ(mmeShape(packed.ops[0], whole(packed.ops[0])).m, 56 * 29);
}

TEST(PackedCost, RowsOfAGemmArePackedWithinEachMatrixOfTheBatch) {
  Program p;
  p.sections = {{SectionKind::kConst, recipe::kNone, uint64_t{1} << 32}};
  Op& op = p.ops.emplace_back();
  op.engine = Engine::kMme;
  op.space = {8, 197, 64};
  op.mme.packing = recipe::BPacking::kBlocked;
  op.mme.a = operand(kConst, ElementType::kBF16, {8, 197, 32}, false);
  op.mme.b = operand(kConst, ElementType::kBF16, {1, 32, 64}, false);
  op.mme.c = operand(kConst, ElementType::kBF16, {8, 197, 64}, false);
  const Picoseconds ideal = termOf(costOf(p), Term::kIdeal);
  const int64_t bytes = costOf(p).bytes.hbm;
  op.mme.packingFactor = 4;
  ASSERT_EQ(recipe::packingObstacle(op.mme, 4), "");
  GemmShape shape = mmeShape(op, whole(op));
  EXPECT_EQ(shape.batch, 1);
  EXPECT_EQ(shape.m, 8 * 50);
  EXPECT_EQ(shape.n, 256);
  EXPECT_EQ(shape.k, 128);
  EXPECT_EQ(termOf(costOf(p), Term::kIdeal), ideal);
  EXPECT_EQ(costOf(p).bytes.hbm - bytes, 2 * (128 * 256 - 32 * 64));
}

TEST(PackedCost, IsNeverBelowTheIdealOfThePlainProductAndAddsUp) {
  std::mt19937_64 random(23);
  auto pick = [&](std::initializer_list<int64_t> values) { return values.begin()[random() % values.size()]; };
  int packed = 0, faster = 0;
  for (Target t : {Target::kGaudi1, Target::kGaudi2, Target::kGaudi3})
    for (int i = 0; i < 600; ++i) {
      Conv conv;
      conv.images = pick({1, 2, 8, 16});
      conv.channels = pick({1, 3, 16, 64, 100, 512});
      conv.outputs = pick({1, 3, 8, 24, 32, 64, 96, 144, 640});
      conv.rows = pick({7, 14, 33, 56, 112});
      conv.columns = pick({7, 14, 33, 56, 112});
      conv.window = pick({1, 2, 3, 5, 7});
      conv.stride = pick({1, 2, 3});
      conv.pad = random() % 2 ? conv.window / 2 : 0;
      conv.type = random() % 2 ? ElementType::kF32 : ElementType::kBF16;
      conv.kind = random() % 4 ? MmeKind::kConv2d : MmeKind::kConvTranspose2d;
      Program plain = programOf(conv, 1);
      const Cost before = costOf(plain, t);
      for (int64_t factor = 1; factor <= recipe::kMaxPackingFactor; ++factor) {
        if (!recipe::packingObstacle(plain.ops[0].mme, factor).empty()) continue;
        const Cost cost = costOf(programOf(conv, factor), t);
        Picoseconds sum = 0;
        for (Picoseconds term : cost.terms) {
          ASSERT_GE(term, 0);
          sum += term;
        }
        ASSERT_EQ(sum, cost.alone);
        ASSERT_EQ(termOf(cost, Term::kIdeal), termOf(before, Term::kIdeal));
        ASSERT_GE(cost.compute, termOf(before, Term::kIdeal));
        // (Transposed, taps that meet no pixel are left out.)
        if (conv.kind == MmeKind::kConv2d) {
          ASSERT_GE(cost.bytes.hbm, before.bytes.hbm);
        }
        packed += factor > 1;
        faster += factor > 1 && cost.alone < before.alone;
      }
    }
  EXPECT_GT(packed, 10000);
  EXPECT_GT(faster, 1000);
}

}  // namespace
}  // namespace hpu::perfmodel
