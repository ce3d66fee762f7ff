// SPDX-License-Identifier: Apache-2.0
// Random programs, sliced at random: the schedule checker, which knows nothing of the issuer, proves every order.
#include "plan/Issue.h"

#include <gtest/gtest.h>

#include <random>

#include "recipe/ScheduleChecker.h"

namespace hpu::plan {
namespace {

using recipe::kNone;
using recipe::SectionKind;

constexpr int64_t kRows = 64, kColumns = 32;
constexpr uint64_t kTensorBytes = kRows * kColumns * 4;
constexpr uint32_t kInput = 0, kWorkspace = 1, kWeights = 2;

recipe::Operand tensor(uint32_t section, uint64_t offset) {
  return {section, offset, ElementType::kF32, {kRows, kColumns}, {kColumns, 1}, {}};
}

struct Sample {
  recipe::Program program;
  recipe::KernelReads reads;
  std::vector<IssueUnit> units;
};

/// A program whose ops pass tensors on through a few places of the workspace, which are used again and again.
class SampleMaker {
 public:
  explicit SampleMaker(unsigned seed) : random_(seed) {
    sample_.program.sections = {{SectionKind::kInput, 0, kTensorBytes},
                                {SectionKind::kWorkspace, kNone, 6 * kTensorBytes},
                                {SectionKind::kConst, kNone, kColumns * kColumns * 4}};
    // Kernel 0 reads each point at its own place, kernel 1 rows with their neighbours, kernel 2 all of its input.
    const recipe::TpcCost cost{1.0 / 64, 1.0 / 64, 4.0 / 64, 0};
    for (int64_t reach : {0, 1, -1}) {
      recipe::Kernel kernel;
      kernel.cost = cost;
      kernel.numInputs = kernel.numOutputs = 1;
      kernel.rank = 2;
      sample_.program.kernels.push_back(kernel);
      recipe::DimRead rows{0, 1, -reach, reach}, columns{1, 1, 0, 0};
      sample_.reads.push_back(
          {reach < 0 ? std::vector<recipe::DimRead>(2) : std::vector<recipe::DimRead>{rows, columns}});
    }
  }

  Sample make() {
    for (int64_t units = between(2, 12); units > 0; --units) addUnit();
    return std::move(sample_);
  }

 private:
  int64_t between(int64_t lo, int64_t hi) { return std::uniform_int_distribution<int64_t>(lo, hi)(random_); }

  uint64_t somethingWritten() { return written_[between(0, static_cast<int64_t>(written_.size()) - 1)]; }
  recipe::Operand source() {
    return written_.empty() || between(0, 5) == 0 ? tensor(kInput, 0) : tensor(kWorkspace, somethingWritten());
  }
  /// Another place than the source's, as an op must not overwrite what it reads.
  recipe::Operand target(const recipe::Operand& source) {
    uint64_t offset;
    do offset = between(0, 5) * kTensorBytes;
    while (source.section == kWorkspace && source.offset == offset);
    return tensor(kWorkspace, offset);
  }

  uint32_t addOp(recipe::Op op) {
    const auto index = static_cast<uint32_t>(sample_.program.ops.size());
    op.name = "op" + std::to_string(index);
    op.space = {kRows, kColumns};
    sample_.program.ops.push_back(std::move(op));
    sample_.program.hostOrder.push_back(index);
    return index;
  }

  void addUnit() {
    recipe::Operand from = source(), to = target(from);
    recipe::Op op;
    IssueUnit unit;
    switch (between(0, 2)) {
      case 0:
        op.engine = Engine::kMme;
        op.mme.a = from;
        op.mme.b = {kWeights, 0, ElementType::kF32, {kColumns, kColumns}, {kColumns, 1}, {}};
        op.mme.c = to;
        unit.ops.push_back(addOp(op));
        written_.push_back(to.offset);
        if (between(0, 1)) {  // And a kernel behind it.
          from = to;
          to = target(from);
          op = {};
          op.engine = Engine::kTpc;
          op.tpc = {0, {from}, {to}};
          unit.ops.push_back(addOp(op));
        }
        break;
      case 1:
        op.engine = Engine::kTpc;
        op.tpc = {static_cast<uint32_t>(between(0, 2)), {from}, {to}};
        unit.ops.push_back(addOp(op));
        break;
      default:
        op.engine = Engine::kDma;
        op.dma.src = from;
        op.dma.dst = to;
        unit.ops.push_back(addOp(op));
    }
    written_.push_back(to.offset);
    if (between(0, 3)) {
      bool rows = sample_.program.ops[unit.ops[0]].engine == Engine::kMme || between(0, 2) != 0;
      unit.tile = {kRows, kColumns};
      unit.tile[rows ? 0 : 1] = between(5, 40);
    }
    std::vector<int64_t> space = {kRows, kColumns};
    unit.bundle = static_cast<uint32_t>(sample_.program.bundles.size());
    sample_.program.bundles.push_back({"unit", unit.ops, static_cast<uint32_t>(sliceCount(space, unit.tile))});
    sample_.units.push_back(std::move(unit));
  }

  std::mt19937 random_;
  Sample sample_;
  std::vector<uint64_t> written_;
};

StatusOr<Issued> issue(const Sample& sample, bool reorder) {
  const arch::TargetDesc& target = arch::targetDesc(Target::kGaudi2);
  IssueContext context{sample.program, sample.reads, target, target.clock()};
  std::vector<std::vector<SlicedCommand>> sliced;
  for (const IssueUnit& unit : sample.units) sliced.push_back(sliceUnit(context, unit));
  std::vector<const std::vector<SlicedCommand>*> pointers;
  for (const auto& commands : sliced) pointers.push_back(&commands);
  return issueCommands(context, pointers, reorder);
}

/// Units that take turns: gemms and kernels, each on what the one before left in a ring of tiles of some rows.
Sample chainSample(std::mt19937& random) {
  auto between = [&](int64_t lo, int64_t hi) { return std::uniform_int_distribution<int64_t>(lo, hi)(random); };
  constexpr uint32_t kSram = 3;
  Sample sample;
  sample.program.sections = {{SectionKind::kInput, 0, kTensorBytes},
                             {SectionKind::kWorkspace, kNone, kTensorBytes},
                             {SectionKind::kConst, kNone, kColumns * kColumns * 4},
                             {SectionKind::kSram, kNone, 0}};
  recipe::Kernel kernel;
  kernel.cost = {1.0 / 64, 1.0 / 64, 4.0 / 64, 0};
  kernel.numInputs = kernel.numOutputs = 1;
  kernel.rank = 2;
  sample.program.kernels = {kernel};
  sample.reads = {{{{0, 1, 0, 0}, {1, 1, 0, 0}}}};
  const int64_t rows = between(3, 40);
  recipe::Operand from = tensor(kInput, 0);
  const int64_t length = between(2, 5);
  for (int64_t i = 0; i < length; ++i) {
    recipe::Operand to = tensor(kWorkspace, 0);
    if (i + 1 < length) {
      to = tensor(kSram, sample.program.sections[kSram].bytes);
      to.ring = {static_cast<uint32_t>(between(1, 3)), 0, static_cast<uint64_t>(rows * kColumns * 4)};
      sample.program.sections[kSram].bytes += to.ring.slots * to.ring.slotBytes;
    }
    recipe::Op op;
    op.space = {kRows, kColumns};
    if (between(0, 1)) {
      op.engine = Engine::kMme;
      op.mme.a = from;
      op.mme.b = {kWeights, 0, ElementType::kF32, {kColumns, kColumns}, {kColumns, 1}, {}};
      op.mme.c = to;
    } else {
      op.engine = Engine::kTpc;
      op.tpc = {0, {from}, {to}};
    }
    from = to;
    const auto index = static_cast<uint32_t>(i);
    op.name = "op" + std::to_string(index);
    sample.program.ops.push_back(op);
    sample.program.hostOrder.push_back(index);
    IssueUnit unit{{index}, {rows, kColumns}, 0};
    if (i == 0)
      sample.units.push_back(unit);
    else
      sample.units[0].chained.push_back(unit);
  }
  sample.program.bundles = {{"chain", sample.program.hostOrder, static_cast<uint32_t>((kRows + rows - 1) / rows)}};
  return sample;
}

/// The schedule in program order and the one by time are both right, and the latter is not slower; counts when it is
/// faster.
void checkBothOrders(const Sample& sample, int64_t& moved) {
  perfmodel::Picoseconds inOrder = 0;
  for (bool reorder : {false, true}) {
    StatusOr<Issued> issued = issue(sample, reorder);
    ASSERT_TRUE(issued.ok()) << issued.status().message();
    recipe::Program program = sample.program;
    program.queues = issued->queues;
    program.numSignals = 3;
    Status status = recipe::checkSchedule(program, &sample.reads);
    ASSERT_TRUE(status.ok()) << status.message();
    if (!reorder) inOrder = issued->time;
    ASSERT_LE(issued->time, inOrder);
    moved += issued->time < inOrder;
  }
}

TEST(Issue, EveryOrderIsProvedByTheChecker) {
  int64_t moved = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Sample sample = SampleMaker(seed).make();
    ASSERT_NO_FATAL_FAILURE(checkBothOrders(sample, moved));
  }
  EXPECT_GT(moved, 20);  // Else nothing is tested beyond program order.
}

TEST(Issue, AWaitLeftOutIsFoundByTheChecker) {
  int64_t waits = 0, found = 0;
  for (unsigned seed = 0; seed < 40; ++seed) {
    Sample sample = SampleMaker(seed).make();
    StatusOr<Issued> issued = issue(sample, true);
    ASSERT_TRUE(issued.ok());
    recipe::Program program = sample.program;
    program.queues = issued->queues;
    program.numSignals = 3;
    for (recipe::Queue& queue : program.queues)
      for (recipe::Command& command : queue.commands)
        for (size_t w = 0; w < command.waits.size(); ++w) {
          std::vector<recipe::Wait> kept = command.waits;
          command.waits.erase(command.waits.begin() + static_cast<int64_t>(w));
          ++waits;
          found += !recipe::checkSchedule(program, &sample.reads).ok();
          command.waits = std::move(kept);
        }
  }
  EXPECT_GT(waits, 100);
  EXPECT_EQ(found, waits);
}

TEST(Issue, SlicesCoverTheIndexSpaceOnce) {
  Sample sample = SampleMaker(1).make();
  const arch::TargetDesc& target = arch::targetDesc(Target::kGaudi2);
  IssueContext context{sample.program, sample.reads, target, target.clock()};
  std::vector<SlicedCommand> commands = sliceUnit(context, {{0}, {20, 20}, 0, 0});
  ASSERT_EQ(commands.size(), 8u);  // 64 x 32 in 4 x 2 boxes.
  std::vector<int> seen(kRows * kColumns);
  for (const SlicedCommand& command : commands)
    for (int64_t i = command.command.lo[0]; i < command.command.hi[0]; ++i)
      for (int64_t j = command.command.lo[1]; j < command.command.hi[1]; ++j) ++seen[i * kColumns + j];
  EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), kRows * kColumns);
}

TEST(Issue, AssumedSlotsHoldTheFirstOpBack) {
  // A gemm in eight slices and a slow kernel behind it, as two ops of one unit.
  Sample sample = SampleMaker(3).make();
  recipe::Program& program = sample.program;
  program.ops.clear();
  program.kernels[0].cost.vectorOps = 100;
  recipe::Op gemm, kernel;
  gemm.engine = Engine::kMme;
  gemm.space = kernel.space = {kRows, kColumns};
  gemm.mme.a = tensor(kInput, 0);
  gemm.mme.b = {kWeights, 0, ElementType::kF32, {kColumns, kColumns}, {kColumns, 1}, {}};
  gemm.mme.c = tensor(kWorkspace, 0);
  kernel.engine = Engine::kTpc;
  kernel.tpc = {0, {tensor(kWorkspace, 0)}, {tensor(kWorkspace, kTensorBytes)}};
  program.ops = {gemm, kernel};
  program.hostOrder = {0, 1};
  for (int64_t slots : {0, 2}) {
    sample.units = {{{0, 1}, {8, kColumns}, 0, slots}};
    StatusOr<Issued> issued = issue(sample, false);
    ASSERT_TRUE(issued.ok());
    const std::vector<recipe::Command>& mme = issued->queues[0].commands;
    ASSERT_EQ(mme.size(), 8u);
    for (size_t i = 0; i < mme.size(); ++i) {
      if (slots == 0 || i < 2) {
        EXPECT_TRUE(mme[i].waits.empty());
      } else {
        ASSERT_EQ(mme[i].waits.size(), 1u);
        EXPECT_EQ(mme[i].waits[0].value, i - 1);
      }
    }
  }
}

TEST(Issue, ChainsTakeTurnsThroughTheirRings) {
  std::mt19937 random(5);
  int64_t moved = 0;
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    Sample sample = chainSample(random);
    ASSERT_NO_FATAL_FAILURE(checkBothOrders(sample, moved));
  }
  EXPECT_GT(moved, 20);
}

TEST(Issue, AChainWithoutRingsKeepsToItsNumberOfTiles) {
  // What the search prices: results as wholes, of which so many tiles may exist.
  std::mt19937 random(6);
  Sample sample = chainSample(random);
  for (recipe::Op& op : sample.program.ops) {
    for (recipe::Operand* operand : {&op.mme.a, &op.mme.c}) operand->ring = {};
    for (auto* list : {&op.tpc.inputs, &op.tpc.outputs})
      for (recipe::Operand& operand : *list) operand.ring = {};
  }
  IssueUnit& unit = sample.units[0];
  unit.tile = {4, kColumns};
  for (IssueUnit& behind : unit.chained) behind.tile = unit.tile;
  unit.kept = 2;
  const arch::TargetDesc& target = arch::targetDesc(Target::kGaudi2);
  std::vector<SlicedCommand> commands = sliceUnit({sample.program, sample.reads, target, target.clock()}, unit);
  const size_t perSlice = 1 + unit.chained.size();
  ASSERT_EQ(commands.size(), perSlice * kRows / 4);
  for (size_t slice = 0; slice * perSlice < commands.size(); ++slice) {
    // Slice i of the first unit is behind slice i - 2 of the second.
    std::vector<uint32_t> expected;
    if (slice >= 2) expected.push_back(static_cast<uint32_t>((slice - 2) * perSlice + 1));
    EXPECT_EQ(commands[slice * perSlice].before, expected);
    EXPECT_EQ(commands[slice * perSlice].command.slice, slice);
    EXPECT_EQ(commands[slice * perSlice + 1].command.lo[0], static_cast<int64_t>(slice * 4));
  }
}

}  // namespace
}  // namespace hpu::plan
