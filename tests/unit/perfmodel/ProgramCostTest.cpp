// SPDX-License-Identifier: Apache-2.0
// Bytes and shapes derived from recipe commands; expected numbers are worked out by hand in the
// comments.
#include <gtest/gtest.h>

#include "perfmodel/Timeline.h"

namespace hpu::perfmodel {
namespace {

using recipe::Command;
using recipe::Op;
using recipe::Operand;
using recipe::Program;
using recipe::SectionKind;

constexpr uint32_t kHbm = 0, kSram = 1;

Program emptyProgram(uint64_t sramBytes = 1 << 20) {
  Program p;
  p.sections = {{SectionKind::kWorkspace, recipe::kNone, uint64_t{1} << 32},
                {SectionKind::kSram, recipe::kNone, sramBytes}};
  return p;
}

Operand dense(uint32_t section, ElementType type, std::vector<int64_t> sizes) {
  Operand o;
  o.section = section;
  o.type = type;
  o.sizes = sizes;
  o.strides.assign(sizes.size(), 1);
  for (size_t d = sizes.size(); d-- > 1;) o.strides[d - 1] = o.strides[d] * sizes[d];
  return o;
}

Command whole(const Op& op, uint32_t index = 0) {
  Command c;
  c.op = index;
  c.lo.assign(op.space.size(), 0);
  c.hi = op.space;
  return c;
}

Op gemmOp(int64_t m, int64_t n, int64_t k, ElementType type = ElementType::kBF16) {
  Op op;
  op.engine = Engine::kMme;
  op.space = {m, n};
  op.mme.a = dense(kHbm, type, {m, k});
  op.mme.b = dense(kHbm, type, {k, n});
  op.mme.c = dense(kSram, type, {m, n});
  return op;
}

struct Priced {
  Cost cost;
  explicit Priced(const Program& p, const Command& c, Target t = Target::kGaudi2)
      : cost(commandCost(p, c, arch::targetDesc(t), arch::targetDesc(t).clock())) {}
};

TEST(ProgramCost, AGemmCountsItsOperandsInTheirMemories) {
  Program p = emptyProgram();
  p.ops.push_back(gemmOp(512, 256, 1024));
  Cost cost = Priced(p, whole(p.ops[0])).cost;
  EXPECT_EQ(cost.bytes.hbm, 2 * (512 * 1024 + 1024 * 256));
  EXPECT_EQ(cost.bytes.sram, 2 * 512 * 256);
  GemmShape shape;
  shape.m = 512, shape.n = 256, shape.k = 1024;
  const arch::TargetDesc& target = arch::targetDesc(Target::kGaudi2);
  EXPECT_EQ(cost.compute, gemmCost(target, target.clock(), shape, {}).compute);
}

TEST(ProgramCost, ASliceCountsOnlyItsBox) {
  Program p = emptyProgram();
  p.ops.push_back(gemmOp(512, 256, 1024));
  Command c = whole(p.ops[0]);
  c.lo[0] = 128, c.hi[0] = 256;
  Cost cost = Priced(p, c).cost;
  EXPECT_EQ(cost.bytes.hbm, 2 * (128 * 1024 + 1024 * 256));
  EXPECT_EQ(cost.bytes.sram, 2 * 128 * 256);
}

TEST(ProgramCost, LaterSlicesOfABundleFindTheSharedOperandOnTheChip) {
  Program p = emptyProgram();
  p.ops.push_back(gemmOp(512, 256, 1024));
  Command c = whole(p.ops[0]);
  c.lo[0] = 128, c.hi[0] = 256, c.bundle = 0, c.slice = 1;
  Cost cost = Priced(p, c).cost;
  EXPECT_EQ(cost.bytes.hbm, 2 * 128 * 1024);
  EXPECT_EQ(cost.bytes.sram, 2 * (128 * 256 + 1024 * 256));
  c.slice = 0;
  EXPECT_EQ(Priced(p, c).cost.bytes.hbm, 2 * (128 * 1024 + 1024 * 256)) << "the first slice fetches it";
}

TEST(ProgramCost, AnOperandThatDoesNotFitBesideThePlannedBuffersIsFetchedAgain) {
  const int64_t sram = arch::targetDesc(Target::kGaudi2).sramBytes;
  Program p = emptyProgram(static_cast<uint64_t>(sram) - 1000);
  p.ops.push_back(gemmOp(512, 256, 1024));
  Command c = whole(p.ops[0]);
  c.lo[0] = 128, c.hi[0] = 256, c.bundle = 0, c.slice = 1;
  EXPECT_GT(Priced(p, c).cost.bytes.hbm, 2 * (128 * 1024 + 1024 * 256) - 1);
}

TEST(ProgramCost, OperandsLargerThanTheChipAreWalkedInParts) {
  Program p = emptyProgram();
  p.ops.push_back(gemmOp(16384, 16384, 16384));
  Cost cost = Priced(p, whole(p.ops[0])).cost;
  const int64_t once = int64_t{2} * 2 * 16384 * 16384;
  const int64_t half = (arch::targetDesc(Target::kGaudi2).sramBytes - (1 << 20)) / 2;
  const int64_t parts = (once / 2 + half - 1) / half;
  EXPECT_EQ(cost.bytes.hbm, once / 2 + parts * (once / 2));
  EXPECT_EQ(cost.bound, "mme") << "still hidden behind the array";
}

TEST(ProgramCost, BroadcastAndTransposedStridesCountUniqueLines) {
  Program p = emptyProgram();
  p.kernels.push_back({});
  p.kernels[0].cost = {2.0 / 64, 1.0 / 64, 1.0 / 64, 0};
  Op op;
  op.engine = Engine::kTpc;
  op.space = {64, 128, 64};
  op.tpc.kernel = 0;
  Operand bias = dense(kHbm, ElementType::kF32, {64, 128, 64});
  bias.strides = {0, 0, 1};
  Operand transposed = dense(kHbm, ElementType::kF32, {64, 128, 64});
  transposed.strides = {128 * 64, 1, 128};
  op.tpc.inputs = {bias, transposed};
  op.tpc.outputs = {dense(kSram, ElementType::kF32, {64, 128, 64})};
  p.ops.push_back(op);
  Cost cost = Priced(p, whole(op)).cost;
  EXPECT_EQ(cost.bytes.hbm, 4 * 64 + 4 * 64 * 128 * 64);
  EXPECT_EQ(cost.bytes.sram, 4 * 64 * 128 * 64);

  // Every 100th element of f32: each one is a 256-byte access of its own.
  op.tpc.inputs = {dense(kHbm, ElementType::kF32, {64, 128, 64})};
  op.tpc.inputs[0].strides = {128 * 64 * 100, 64 * 100, 100};
  p.ops[0] = op;
  p.kernels[0].cost.loads = 1;
  EXPECT_EQ(Priced(p, whole(op)).cost.bytes.hbm, 256 * 64 * 128 * 64);
}

TEST(ProgramCost, AKernelReadsNoMoreThanItLoads) {
  // 16 rows of a 50,000-row table: 3 vectors each for 192 f32.
  Program p = emptyProgram();
  p.kernels.push_back({});
  p.kernels[0].cost = {1.0 / 64, 1.0 / 64, 0, 0};
  Op op;
  op.engine = Engine::kTpc;
  op.space = {16, 192};
  op.tpc.kernel = 0;
  op.tpc.inputs = {dense(kHbm, ElementType::kF32, {50000, 192})};
  op.tpc.outputs = {dense(kSram, ElementType::kF32, {16, 192})};
  p.ops.push_back(op);
  EXPECT_LE(Priced(p, whole(op)).cost.bytes.hbm, (16 * 3 + 1) * 256);
}

TEST(ProgramCost, AConvolutionIsPricedAsItsImplicitGemm) {
  // 2 images of 64 x 56 x 56, 3 x 3, 128 outputs, pad 1: m = 2*56*56, n = 128, k = 64*9.
  Program p = emptyProgram();
  Op op;
  op.engine = Engine::kMme;
  op.mme.kind = recipe::MmeKind::kConv2d;
  op.mme.packing = recipe::BPacking::kBlocked;
  op.mme.a = dense(kHbm, ElementType::kBF16, {2, 64, 56, 56});
  op.mme.b = dense(kHbm, ElementType::kBF16, {128, 64, 3, 3});
  op.mme.c = dense(kSram, ElementType::kBF16, {2, 128, 56, 56});
  op.mme.padBegin[0] = op.mme.padBegin[1] = op.mme.padEnd[0] = op.mme.padEnd[1] = 1;
  op.space = {2, 128, 56, 56};
  p.ops.push_back(op);
  const arch::TargetDesc& target = arch::targetDesc(Target::kGaudi2);
  GemmShape shape;
  shape.m = 2 * 56 * 56, shape.n = 128, shape.k = 64 * 9;
  Cost all = Priced(p, whole(op)).cost;
  EXPECT_EQ(all.compute, gemmCost(target, target.clock(), shape, {}).compute);
  EXPECT_EQ(all.bytes.hbm, 2 * (2 * 64 * 56 * 56 + 128 * 64 * 9));

  // Rows 14..28 of the first image need input rows 13..28.
  Command c = whole(op);
  c.hi[0] = 1, c.lo[2] = 14, c.hi[2] = 28;
  EXPECT_EQ(Priced(p, c).cost.bytes.hbm, 2 * (64 * 16 * 56 + 128 * 64 * 9));
  // The first rows: padding is not read. 15 rows are 1680 bytes a channel, in 14 lines of 128.
  c.lo[2] = 0, c.hi[2] = 14;
  EXPECT_EQ(Priced(p, c).cost.bytes.hbm, 64 * 14 * 128 + 2 * 128 * 64 * 9);
}

TEST(ProgramCost, GroupsOfAConvolutionAreABatch) {
  Program p = emptyProgram();
  Op op;
  op.engine = Engine::kMme;
  op.mme.kind = recipe::MmeKind::kConv2d;
  op.mme.groups = 32;
  op.mme.a = dense(kHbm, ElementType::kBF16, {1, 128, 28, 28});
  op.mme.b = dense(kHbm, ElementType::kBF16, {128, 4, 1, 1});
  op.mme.c = dense(kSram, ElementType::kBF16, {1, 128, 28, 28});
  op.space = {1, 128, 28, 28};
  p.ops.push_back(op);
  const arch::TargetDesc& target = arch::targetDesc(Target::kGaudi2);
  GemmShape shape;
  shape.batch = 32, shape.m = 28 * 28, shape.n = 4, shape.k = 4;
  EXPECT_EQ(Priced(p, whole(op)).cost.compute, gemmCost(target, target.clock(), shape, {}).compute);
  Command c = whole(op);
  c.lo[1] = 8, c.hi[1] = 16;  // Groups 2 and 3.
  shape.batch = 2;
  EXPECT_EQ(Priced(p, c).cost.compute, gemmCost(target, target.clock(), shape, {}).compute);
}

TEST(ProgramCost, ABatchThatSharesItsWeightsIsOneTallGemm) {
  Program p = emptyProgram();
  Op op = gemmOp(128, 256, 512);
  op.space = {16, 128, 256};
  op.mme.a = dense(kHbm, ElementType::kBF16, {16, 128, 512});
  op.mme.c = dense(kSram, ElementType::kBF16, {16, 128, 256});
  p.ops.push_back(op);
  const arch::TargetDesc& target = arch::targetDesc(Target::kGaudi2);
  GemmShape shape;
  shape.m = 16 * 128, shape.n = 256, shape.k = 512;
  Cost cost = Priced(p, whole(op)).cost;
  EXPECT_EQ(cost.compute, gemmCost(target, target.clock(), shape, {}).compute);
  EXPECT_EQ(cost.bytes.hbm, 2 * (16 * 128 * 512 + 512 * 256));
}

TEST(ProgramCost, QueuesKeepWaitsSignalsAndOrder) {
  Program p = emptyProgram();
  p.ops.push_back(gemmOp(128, 128, 128));
  p.numSignals = 1;
  Command c = whole(p.ops[0]);
  c.signal = 0;
  Command d = whole(p.ops[0]);
  d.waits = {{0, 1}};
  p.queues = {{Engine::kMme, {c, d}}};
  const arch::TargetDesc& target = arch::targetDesc(Target::kGaudi2);
  std::vector<TimedQueue> queues = timedQueues(p, target, target.clock());
  ASSERT_EQ(queues.size(), 1u);
  ASSERT_EQ(queues[0].commands.size(), 2u);
  EXPECT_EQ(queues[0].commands[0].signal, 0u);
  EXPECT_EQ(queues[0].commands[1].waits.size(), 1u);
  StatusOr<TimelineResult> r = simulate(target, target.clock(), {{&queues, p.numSignals}});
  ASSERT_TRUE(r.ok());
  EXPECT_EQ(r->end, 2 * queues[0].commands[0].cost.alone);
}

}  // namespace
}  // namespace hpu::perfmodel
