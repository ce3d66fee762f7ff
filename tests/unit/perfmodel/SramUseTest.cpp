// SPDX-License-Identifier: Apache-2.0
#include "perfmodel/SramUse.h"

#include <gtest/gtest.h>

#include "perfmodel/Timeline.h"

namespace hpu::perfmodel {
namespace {

using recipe::Op;
using recipe::Operand;
using recipe::Program;
using recipe::SectionKind;

constexpr uint32_t kHbm = 0, kSram = 1;

Operand block(uint32_t section, uint64_t offset, int64_t bytes) {
  Operand o;
  o.section = section;
  o.offset = offset;
  o.type = ElementType::kI8;
  o.sizes = {bytes};
  o.strides = {1};
  return o;
}

/// One op a unit: a kernel from `in` to `out`.
Op kernel(const Operand& in, const Operand& out) {
  Op op;
  op.engine = Engine::kTpc;
  op.space = {1};
  op.tpc.inputs = {in};
  op.tpc.outputs = {out};
  return op;
}

Program withSections(uint64_t sramBytes) {
  Program p;
  p.sections = {{SectionKind::kWorkspace, recipe::kNone, uint64_t{1} << 32},
                {SectionKind::kSram, recipe::kNone, sramBytes}};
  return p;
}

std::vector<int64_t> useOf(const Program& p) {
  const SramUse use(p);
  std::vector<int64_t> all;
  for (uint32_t op = 0; op < p.ops.size(); ++op) all.push_back(use.beside(op));
  return all;
}

const Operand kOut = block(kHbm, 0, 1);

TEST(SramUse, ATileCountsFromTheUnitAheadToTheOneBehind) {
  Program p = withSections(1000);
  const Operand tile = block(kSram, 0, 300);
  p.ops = {kernel(kOut, kOut), kernel(kOut, kOut), kernel(kOut, tile), kernel(kOut, kOut),
           kernel(tile, kOut), kernel(kOut, kOut), kernel(kOut, kOut)};
  EXPECT_EQ(useOf(p), (std::vector<int64_t>{0, 300, 300, 300, 300, 300, 0}));
}

TEST(SramUse, BytesThatAreWrittenAgainAreAnotherTile) {
  Program p = withSections(1000);
  const Operand tile = block(kSram, 100, 300);
  p.ops = {kernel(kOut, tile), kernel(tile, kOut), kernel(kOut, kOut), kernel(kOut, kOut),
           kernel(kOut, kOut), kernel(kOut, tile), kernel(tile, kOut)};
  EXPECT_EQ(useOf(p), (std::vector<int64_t>{300, 300, 300, 0, 300, 300, 300}));
}

TEST(SramUse, TilesOfOneTimeAddUpToAtMostAllSections) {
  Program p = withSections(500);
  p.ops = {kernel(kOut, block(kSram, 0, 200)), kernel(block(kSram, 0, 200), block(kSram, 200, 300)),
           kernel(block(kSram, 200, 300), kOut)};
  EXPECT_EQ(useOf(p), (std::vector<int64_t>{500, 500, 500}));
  EXPECT_EQ(SramUse::ofAll(p), 500);
}

TEST(SramUse, OpsOfABundleAreOneUnit) {
  Program p = withSections(1000);
  const Operand tile = block(kSram, 0, 400);
  p.ops = {kernel(kOut, kOut), kernel(kOut, kOut), kernel(kOut, tile), kernel(tile, tile),
           kernel(tile, kOut), kernel(kOut, kOut), kernel(kOut, kOut)};
  p.bundles.push_back({"bundle", {2, 3, 4}, 1});
  EXPECT_EQ(useOf(p), (std::vector<int64_t>{0, 400, 400, 400, 400, 400, 0}));
}

TEST(SramUse, ARingIsAllOfItsSlots) {
  Program p = withSections(1000);
  Operand ring = block(kSram, 0, 100);
  ring.ring.slots = 3;
  ring.ring.slotBytes = 128;
  p.ops = {kernel(kOut, ring), kernel(ring, kOut)};
  EXPECT_EQ(useOf(p), (std::vector<int64_t>{384, 384}));
}

TEST(SramUse, WithoutTilesNothingIsInUse) {
  Program p = withSections(0);
  p.ops = {kernel(kOut, kOut)};
  EXPECT_EQ(useOf(p), (std::vector<int64_t>{0}));
}

/// A product far from the tiles has all of the SRAM to stage its operands in: each is read once.
TEST(SramUse, ProductsReadTheirOperandsOnceWhereTilesAreOfAnotherTime) {
  const arch::TargetDesc& target = arch::targetDesc(Target::kGaudi2);
  Program p = withSections(static_cast<uint64_t>(target.sramBytes) - 1024);
  const Operand tile = block(kSram, 0, target.sramBytes - 1024);
  auto matrix = [](int64_t rows, int64_t columns) {
    Operand o;
    o.section = kHbm;
    o.type = ElementType::kBF16;
    o.sizes = {rows, columns};
    o.strides = {columns, 1};
    return o;
  };
  Op product;
  product.engine = Engine::kMme;
  product.mme.a = matrix(2048, 4096), product.mme.b = matrix(4096, 2048), product.mme.c = matrix(2048, 2048);
  product.space = {2048, 2048};
  p.ops = {product, kernel(kOut, kOut), kernel(kOut, tile), kernel(tile, kOut), product};
  recipe::Queue queue;
  queue.engine = Engine::kMme;
  for (uint32_t op : {0u, 4u}) {
    recipe::Command command;
    command.op = op;
    command.lo = {0, 0};
    command.hi = {2048, 2048};
    queue.commands.push_back(command);
  }
  p.queues = {queue};
  const std::vector<TimedQueue> timed = timedQueues(p, target, target.clock());
  const int64_t once = 2 * (2048 * 4096 + 4096 * 2048 + 2048 * 2048);
  EXPECT_EQ(timed[0].commands[0].cost.bytes.hbm, once);
  EXPECT_GT(timed[0].commands[1].cost.bytes.hbm, once);  // Just behind the unit that fills the SRAM.
}

}  // namespace
}  // namespace hpu::perfmodel
