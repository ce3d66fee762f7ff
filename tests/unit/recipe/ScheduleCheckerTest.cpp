// SPDX-License-Identifier: Apache-2.0
#include "recipe/ScheduleChecker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "SampleProgram.h"
#include "recipe/MemoryBox.h"
#include "recipe/QueueOrder.h"
#include "recipe/RecipeVerifier.h"

namespace hpu::recipe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace testing;

Command command(uint32_t op, const std::vector<int64_t>& space) {
  Command c;
  c.op = op;
  c.lo.assign(space.size(), 0);
  c.hi = space;
  return c;
}

/// A program of DMA fills and copies in one persistent section; each op is one command on a queue.
class DmaProgram {
 public:
  explicit DmaProgram(uint32_t queues, uint64_t bytes = 4096) {
    p.sections = {{SectionKind::kPersistent, kNone, bytes}};
    p.queues.assign(queues, {Engine::kDma, {}});
    p.numSignals = queues;
  }
  static Operand view(uint64_t offset, std::vector<int64_t> sizes, std::vector<int64_t> strides) {
    return {0, offset, ElementType::kU8, std::move(sizes), std::move(strides), {}};
  }
  /// Returns the count that the queue's own signal has when the command is done.
  uint32_t add(uint32_t queue, const Operand* src, const Operand& dst, std::vector<Wait> waits) {
    Op op;
    op.engine = Engine::kDma;
    op.name = "op" + std::to_string(p.ops.size());
    op.space = dst.sizes;
    op.dma.fill = src == nullptr;
    if (src) op.dma.src = *src;
    op.dma.dst = dst;
    Command c = command(static_cast<uint32_t>(p.ops.size()), op.space);
    c.waits = std::move(waits);
    c.signal = queue;
    p.hostOrder.push_back(c.op);
    p.ops.push_back(std::move(op));
    p.queues[queue].commands.push_back(std::move(c));
    return static_cast<uint32_t>(p.queues[queue].commands.size());
  }
  Program p;
};

TEST(ScheduleChecker, AcceptsTheSamplePrograms) {
  Status sample = checkSchedule(sampleProgram());
  EXPECT_TRUE(sample.ok()) << sample.message();
  for (uint32_t slices : {1u, 2u, 3u, 8u}) {
    Status large = checkSchedule(largeProgram(6, slices));
    EXPECT_TRUE(large.ok()) << large.message();
  }
}

TEST(ScheduleChecker, EveryWaitOfTheSampleIsNeeded) {
  // Each wait orders something; without it, or with it one lower, there is a hazard.
  const Program sample = sampleProgram();
  int tried = 0;
  for (size_t q = 0; q < sample.queues.size(); ++q) {
    for (size_t c = 0; c < sample.queues[q].commands.size(); ++c) {
      for (size_t w = 0; w < sample.queues[q].commands[c].waits.size(); ++w) {
        Program removed = sample, lowered = sample;
        auto& waits = removed.queues[q].commands[c].waits;
        waits.erase(waits.begin() + static_cast<ptrdiff_t>(w));
        lowered.queues[q].commands[c].waits[w].value--;
        for (const Program& program : {removed, lowered}) {
          ASSERT_TRUE(verifyProgram(program).ok());
          EXPECT_FALSE(checkSchedule(program).ok()) << "queue " << q << " command " << c;
          ++tried;
        }
      }
    }
  }
  EXPECT_GE(tried, 16);
}

TEST(ScheduleChecker, AHazardNamesBothCommandsTheirOpsAndTheBytes) {
  DmaProgram d(2);
  d.add(0, nullptr, DmaProgram::view(0, {100}, {1}), {});
  d.add(1, nullptr, DmaProgram::view(60, {100}, {1}), {});
  Status status = checkSchedule(d.p);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("command 0 of queue 0"), HasSubstr("command 0 of queue 1"),
                                      HasSubstr("op 0 'op0'"), HasSubstr("op 1 'op1'"),
                                      HasSubstr("bytes 60 to 99 of section 0"), HasSubstr("neither is ordered")));
}

TEST(ScheduleChecker, ReadsOfTheSameBytesNeedNoOrder) {
  DmaProgram d(2);
  Operand shared = DmaProgram::view(0, {100}, {1});
  d.add(0, &shared, DmaProgram::view(1000, {100}, {1}), {});
  d.add(1, &shared, DmaProgram::view(2000, {100}, {1}), {});
  EXPECT_TRUE(checkSchedule(d.p).ok());
}

TEST(ScheduleChecker, OrderCarriesOverSeveralQueues) {
  DmaProgram d(3);
  uint32_t first = d.add(0, nullptr, DmaProgram::view(0, {64}, {1}), {});
  uint32_t second = d.add(1, nullptr, DmaProgram::view(1024, {8}, {1}), {{0, first}});
  d.add(2, nullptr, DmaProgram::view(32, {64}, {1}), {{1, second}});
  EXPECT_TRUE(checkSchedule(d.p).ok());
}

TEST(ScheduleChecker, ACountThatSeveralQueuesRaiseOrdersOnlyWhatItMustInclude) {
  // Two queues raise signal 0 once each: at 2 both are done, at 1 nobody knows which.
  auto make = [](uint32_t value) {
    DmaProgram d(3);
    d.add(0, nullptr, DmaProgram::view(0, {64}, {1}), {});
    d.add(1, nullptr, DmaProgram::view(64, {64}, {1}), {});
    d.p.queues[1].commands[0].signal = 0;
    d.add(2, nullptr, DmaProgram::view(0, {128}, {1}), {{0, value}});
    return d.p;
  };
  EXPECT_TRUE(checkSchedule(make(2)).ok());
  EXPECT_FALSE(checkSchedule(make(1)).ok());
}

TEST(ScheduleChecker, AnOrderAgainstHostOrderIsRefused) {
  DmaProgram d(1);
  d.add(0, nullptr, DmaProgram::view(0, {64}, {1}), {});
  d.add(0, nullptr, DmaProgram::view(0, {64}, {1}), {});
  ASSERT_TRUE(checkSchedule(d.p).ok());
  std::swap(d.p.hostOrder[0], d.p.hostOrder[1]);
  Status status = checkSchedule(d.p);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.message(), HasSubstr("hostOrder says the reverse"));
}

TEST(ScheduleChecker, InterleavedChannelRangesOfOneTensorDoNotMeet) {
  // A concat on the channels of a channels-last tensor: 8 positions x (5 + 11) channels.
  DmaProgram d(2);
  d.add(0, nullptr, DmaProgram::view(0, {8, 5}, {16, 1}), {});
  d.add(1, nullptr, DmaProgram::view(5, {8, 11}, {16, 1}), {});
  EXPECT_TRUE(checkSchedule(d.p).ok());
  d.p.ops[1].dma.dst.offset = 4;  // One channel too early.
  EXPECT_FALSE(checkSchedule(d.p).ok());
}

TEST(ScheduleChecker, WorkspaceIsNotReadBeforeItIsWritten) {
  DmaProgram d(1);
  d.p.sections[0].kind = SectionKind::kWorkspace;
  Operand src = DmaProgram::view(0, {64}, {1});
  d.add(0, nullptr, DmaProgram::view(0, {63}, {1}), {});
  d.add(0, &src, DmaProgram::view(1024, {64}, {1}), {});
  Status status = checkSchedule(d.p);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.message(), HasSubstr("byte 63 of section 0, which no command before it has"));
}

TEST(ScheduleChecker, AnOpDoesNotOverwriteItsInputExceptInPlaceOnTheTpc) {
  DmaProgram d(1);
  Operand src = DmaProgram::view(0, {64}, {1});
  d.add(0, &src, DmaProgram::view(32, {64}, {1}), {});
  Status status = checkSchedule(d.p);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.message(), HasSubstr("op 0 'op0' reads and writes bytes 32 to 63"));

  Program inPlace = sampleProgram();
  inPlace.ops[kSoftmaxOp].tpc.inputs[0] = inPlace.ops[kSoftmaxOp].tpc.outputs[0];
  inPlace.ops[kGemmOp].mme.c = inPlace.ops[kSoftmaxOp].tpc.outputs[0];
  Status ok = checkSchedule(inPlace);
  EXPECT_TRUE(ok.ok()) << ok.message();
}

TEST(ScheduleChecker, ARingSlotIsNotReusedBeforeItsSliceIsConsumed) {
  Program program = sampleProgram();
  // A third slot would make the waits of slice 2 unneeded; with two, slice 2 overwrites slice 0.
  program.queues[kMmeQueue].commands[2].waits.clear();
  Status status = checkSchedule(program);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.message(), AllOf(HasSubstr("'conv'"), HasSubstr("'bias+relu'")));
  program.sections[kSramSection].bytes *= 2;
  for (Operand* ring : {&program.ops[kConvOp].mme.c, &program.ops[kReluOp].tpc.inputs[0]}) {
    ring->ring.slots = 4;
  }
  program.queues[kMmeQueue].commands[3].waits.clear();
  ASSERT_TRUE(verifyProgram(program).ok());
  Status fixed = checkSchedule(program);
  EXPECT_TRUE(fixed.ok()) << fixed.message();
}

// ---- Random programs against an oracle that enumerates bytes and executions
// ------------------------

std::set<uint64_t> bytesOf(const Operand& o) {
  std::set<uint64_t> bytes;
  std::vector<int64_t> at(o.sizes.size(), 0);
  for (bool more = true; more;) {
    uint64_t address = o.offset;
    for (size_t d = 0; d < at.size(); ++d) address += static_cast<uint64_t>(at[d] * o.strides[d]);
    bytes.insert(address);
    more = false;
    for (size_t d = at.size(); d-- > 0 && !more;) {
      more = ++at[d] < o.sizes[d];
      if (!more) at[d] = 0;
    }
  }
  return bytes;
}

/// True when `b` can start although `a` never finishes: then no wait orders b after a.
bool canStartWithout(const Program& p, CommandRef a, CommandRef b) {
  std::vector<uint32_t> heads(p.queues.size(), 0), counts(p.numSignals, 0);
  for (bool progress = true; progress;) {
    progress = false;
    for (uint32_t q = 0; q < p.queues.size(); ++q) {
      while (heads[q] < p.queues[q].commands.size()) {
        const Command& c = p.queues[q].commands[heads[q]];
        bool free = true;
        for (const Wait& w : c.waits) free &= counts[w.signal] >= w.value;
        if (!free) break;
        if (q == b.queue && heads[q] == b.command) return true;
        if (q == a.queue && heads[q] == a.command) break;
        ++heads[q];
        if (c.signal != kNone) ++counts[c.signal];
        progress = true;
      }
    }
  }
  return false;
}

bool intersects(const std::set<uint64_t>& a, const std::set<uint64_t>& b) {
  for (uint64_t x : a) {
    if (b.count(x)) return true;
  }
  return false;
}

TEST(ScheduleChecker, NeverAcceptsAHazardThatEnumerationFinds) {
  std::mt19937 random(11);
  auto pick = [&](uint64_t n) { return random() % n; };
  int accepted = 0, refused = 0, needless = 0;
  for (int trial = 0; trial < 4000; ++trial) {
    DmaProgram d(3);
    const bool shareSignals = pick(4) == 0;
    std::vector<CommandRef> commands;
    std::vector<std::set<uint64_t>> reads, writes;
    auto randomView = [&] {  // A rectangle of a 6 x 8 matrix of bytes, whole rows, or any stretch.
      uint64_t row = pick(6), column = pick(8);
      int64_t rows = 1 + static_cast<int64_t>(pick(6 - row)), columns = 1 + static_cast<int64_t>(pick(8 - column));
      if (pick(3) == 0) return DmaProgram::view(8 * row + column, {columns}, {1});
      return DmaProgram::view(8 * row + column, {rows, columns}, {8, 1});
    };
    uint32_t counts[3] = {0, 0, 0};
    for (int i = 0; i < 6; ++i) {
      auto queue = static_cast<uint32_t>(pick(3));
      std::vector<Wait> waits;
      for (uint32_t s = 0; s < 3; ++s) {
        if (counts[s] && pick(2)) waits.push_back({s, 1 + static_cast<uint32_t>(pick(counts[s]))});
      }
      Operand dst = randomView(), src = dst;
      src.offset = 1024 + pick(4);  // Sources are read only and elsewhere.
      bool overlapping = pick(2) == 0;
      if (overlapping) {  // Or a source in the matrix, if it is disjoint from the destination.
        Operand other = dst;
        other.offset = pick(48 - dst.offset % 48);
        if (other.offset + operandSpanBytes(other) <= 48 && !intersects(bytesOf(other), bytesOf(dst))) src = other;
      }
      d.add(queue, &src, dst, waits);
      uint32_t signal = shareSignals ? static_cast<uint32_t>(pick(3)) : queue;
      d.p.queues[queue].commands.back().signal = signal;
      ++counts[signal];
      commands.push_back({queue, static_cast<uint32_t>(d.p.queues[queue].commands.size() - 1)});
      reads.push_back(bytesOf(src));
      writes.push_back(bytesOf(dst));
    }
    ASSERT_TRUE(verifyProgram(d.p).ok()) << verifyProgram(d.p).message();
    bool hazard = false;
    for (size_t i = 0; i < commands.size(); ++i) {
      for (size_t j = i + 1; j < commands.size(); ++j) {
        bool meet =
            intersects(writes[i], writes[j]) || intersects(writes[i], reads[j]) || intersects(reads[i], writes[j]);
        // hostOrder is 0, 1, 2 ...: the later op must be the one that waits.
        hazard |= meet && canStartWithout(d.p, commands[i], commands[j]);
      }
    }
    Status status = checkSchedule(d.p);
    if (hazard) {
      ASSERT_FALSE(status.ok()) << "trial " << trial;
      ++refused;
    } else if (status.ok()) {
      ++accepted;
    } else {
      ++needless;  // A false alarm: where a signal has several raisers or a view's digits carry.
    }
  }
  EXPECT_GT(accepted, 150);
  EXPECT_GT(refused, 500);
  EXPECT_LT(needless, accepted / 4);
}

TEST(MemoryBox, DisjointNeverLiesAndUsuallyKnows) {
  std::mt19937 random(5);
  auto pick = [&](uint64_t n) { return static_cast<int64_t>(random() % n); };
  int proved = 0, apart = 0;
  for (int trial = 0; trial < 20000; ++trial) {
    auto view = [&] {
      // Rectangles of a 4 x 3 x 5 tensor, with steps, and now and then rows that run over.
      int64_t lo[3] = {pick(4), pick(3), pick(5)};
      std::vector<int64_t> sizes = {1 + pick(4 - static_cast<uint64_t>(lo[0])),
                                    1 + pick(3 - static_cast<uint64_t>(lo[1])),
                                    1 + pick(5 - static_cast<uint64_t>(lo[2]))};
      if (pick(8) == 0) sizes[2] += 5;
      return DmaProgram::view(static_cast<uint64_t>(lo[0] * 15 + lo[1] * 5 + lo[2]), sizes, {15, 5, 1});
    };
    Operand a = view(), b = view();
    bool meet = intersects(bytesOf(a), bytesOf(b));
    bool shown = disjoint(wholeBox(a), wholeBox(b));
    ASSERT_FALSE(meet && shown) << "trial " << trial;
    apart += !meet;
    proved += shown;
  }
  EXPECT_GT(apart, 5000);
  EXPECT_GT(proved, apart * 9 / 10);
}

TEST(MemoryBox, PartsOfPartsAreDisjointWhereverTheyBegin) {
  // Of a 6 x 5 x 32 tensor whose second dim is the innermost: its fifth column but for the last row, and the last row.
  for (uint64_t tensor : {uint64_t{0}, uint64_t{1536}, uint64_t{8192 + 128}}) {
    Operand column{0, tensor + 8, ElementType::kF16, {6, 1, 31}, {160, 1, 5}, {}};
    Operand row{0, tensor + 310, ElementType::kF16, {6, 5, 1}, {160, 1, 5}, {}};
    EXPECT_TRUE(disjoint(wholeBox(column), wholeBox(row))) << tensor;
    EXPECT_TRUE(disjoint(wholeBox(row), wholeBox(column))) << tensor;
    column.sizes[2] = 32;
    EXPECT_FALSE(disjoint(wholeBox(column), wholeBox(row))) << tensor;
  }
}

TEST(MemoryBox, ReshapesOfOneTensorAreOneBox) {
  Operand matrix = denseOperand(0, 256, ElementType::kF32, {6, 8});
  Operand vector = denseOperand(0, 256, ElementType::kF32, {48});
  EXPECT_EQ(wholeBox(matrix), wholeBox(vector));
  EXPECT_TRUE(wholeBox(matrix).dense());
  Operand channelsLast{0, 256, ElementType::kF32, {2, 3, 8}, {24, 1, 3}, {}};
  EXPECT_EQ(wholeBox(channelsLast), wholeBox(vector));
  Operand padded{0, 0, ElementType::kF32, {2, 3, 4}, {30, 10, 2}, {}};
  Operand joined{0, 0, ElementType::kF32, {6, 4}, {10, 2}, {}};
  EXPECT_EQ(wholeBox(padded), wholeBox(joined));
}

}  // namespace
}  // namespace hpu::recipe
