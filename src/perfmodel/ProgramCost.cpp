// SPDX-License-Identifier: Apache-2.0
// From a recipe's commands to cost inputs: the slice's shape, and the bytes that it moves by
// memory. The one thing to know: the reuse rules here are the ones of docs/performance-model.md,
// "Traffic".
#include <algorithm>
#include <array>

#include "perfmodel/Timeline.h"
#include "recipe/PackedWeights.h"

namespace hpu::perfmodel {
namespace {

using recipe::Command;
using recipe::MmeKind;
using recipe::Op;
using recipe::Operand;
using recipe::Program;
using recipe::SectionKind;

// Sizes come from files: a product that would overflow stays at this.
constexpr int64_t kMany = int64_t{1} << 60;

int64_t mul(int64_t a, int64_t b) {
  int64_t product;
  return __builtin_mul_overflow(a, b, &product) ? kMany : std::min(product, kMany);
}
int64_t ceilDiv(int64_t a, int64_t b) {
  return a / b + (a % b != 0);
}

/// The part of an operand that a slice touches.
struct Box {
  std::array<int64_t, recipe::kMaxRank> extent{};
  size_t rank = 0;
  bool whole = true;  ///< All of the operand.
  void push(int64_t size, int64_t full) {
    if (rank == extent.size()) return;
    whole &= size >= full;
    extent[rank++] = size;
  }
};

/// Unique bytes of the box, in whole lines. Broadcast dimensions count once; dimensions are joined
/// from the fastest on as long as the next stride stays within the lines already counted.
int64_t lineBytes(const Operand& operand, const Box& box, int64_t line) {
  struct Dim {
    int64_t strideBytes, extent;
  };
  std::array<Dim, recipe::kMaxRank> dims;
  size_t rank = 0;
  int64_t size = elementSize(operand.type);
  for (size_t d = 0; d < box.rank && d < operand.strides.size(); ++d) {
    if (box.extent[d] <= 0) return 0;
    if (box.extent[d] == 1 || operand.strides[d] <= 0) continue;
    Dim dim = {mul(operand.strides[d], size), box.extent[d]};
    size_t at = rank++;
    for (; at > 0 && dims[at - 1].strideBytes > dim.strideBytes; --at) dims[at] = dims[at - 1];
    dims[at] = dim;
  }
  int64_t span = size;  // Bytes from the first to the end of the last element, without large gaps.
  size_t d = 0;
  for (; d < rank && dims[d].strideBytes <= std::max(span, line); ++d)
    span = std::min(kMany, mul(dims[d].extent - 1, dims[d].strideBytes) + span);
  int64_t bytes = mul(ceilDiv(span, line), line);
  for (; d < rank; ++d) bytes = mul(bytes, dims[d].extent);
  return bytes;
}

int64_t extentOf(const Command& command, size_t d) {
  return d < command.lo.size() && d < command.hi.size()
             ? std::max<int64_t>(command.hi[d] - command.lo[d], 0)
             : 1;
}

/// An operand that lies along the index space: sliced where it has the space's extent, whole where
/// the space has only one point, in proportion elsewhere (a pooling window's rows).
Box alongSpace(const Op& op, const Command& command, const Operand& operand) {
  Box box;
  bool aligned = operand.sizes.size() == op.space.size();
  for (size_t d = 0; d < operand.sizes.size(); ++d) {
    int64_t full = operand.sizes[d], part = full;
    if (aligned && op.space[d] > 0) {
      int64_t extent = extentOf(command, d);
      if (full == op.space[d])
        part = extent;
      else if (full > 1 && extent < op.space[d])
        part = std::min(full, ceilDiv(mul(full, extent), op.space[d]));
    }
    box.push(part, full);
  }
  return box;
}

/// Adds traffic to the memory that the operands lie in.
class Traffic {
 public:
  Traffic(const Program& program, const Command& command, const arch::TargetDesc& target)
      : program_(program), inLaterSlice_(command.bundle != recipe::kNone && command.slice > 0) {
    int64_t planned = 0;
    for (const recipe::Section& section : program.sections)
      if (section.kind == SectionKind::kSram)
        planned += static_cast<int64_t>(std::min<uint64_t>(section.bytes, kMany));
    stage_ = std::max<int64_t>(target.sramBytes - std::min(planned, kMany), 0);
  }

  bool inSram(const Operand& operand) const {
    return operand.section < program_.sections.size() &&
           program_.sections[operand.section].kind == SectionKind::kSram;
  }
  /// True when an earlier slice of the bundle left this input on the chip: it is the same for all
  /// slices and fits beside the planned buffers.
  bool resident(const Operand& operand, bool whole, int64_t bytes) {
    if (!inLaterSlice_ || !whole || inSram(operand) || bytes > stage_) return false;
    stage_ -= bytes;
    return true;
  }
  void add(const Operand& operand, int64_t bytes) {
    (inSram(operand) ? bytes_.sram : bytes_.hbm) += bytes;
  }
  void addSram(int64_t bytes) { bytes_.sram += bytes; }
  void addHbm(int64_t bytes) { bytes_.hbm += bytes; }
  void addInput(const Operand& operand, bool whole, int64_t bytes) {
    if (resident(operand, whole, bytes))
      addSram(bytes);
    else
      add(operand, bytes);
  }
  int64_t stage() const { return stage_; }
  Bytes bytes() const { return {std::min(bytes_.hbm, kMany), std::min(bytes_.sram, kMany)}; }

 private:
  const Program& program_;
  bool inLaterSlice_;
  int64_t stage_ = 0;  ///< On-chip bytes that operands may be staged in.
  Bytes bytes_;
};

/// Inputs of one MME command. Both are fetched once when what comes from HBM fits on the chip;
/// otherwise one is walked over in parts that fill half of it, and the other is fetched again for
/// each part.
void addMmeInputs(Traffic& traffic, const Operand& a, bool aWhole, int64_t aBytes, const Operand& b,
                  bool bWhole, int64_t bBytes) {
  bool aOnChip = traffic.inSram(a) || traffic.resident(a, aWhole, aBytes);
  bool bOnChip = traffic.inSram(b) || traffic.resident(b, bWhole, bBytes);
  if (aOnChip) traffic.addSram(aBytes);
  if (bOnChip) traffic.addSram(bBytes);
  if (aOnChip || bOnChip) {
    if (!aOnChip) traffic.addHbm(aBytes);
    if (!bOnChip) traffic.addHbm(bBytes);
    return;
  }
  int64_t half = std::max<int64_t>(traffic.stage() / 2, 1);
  int64_t once = std::min(kMany, aBytes + bBytes);
  if (once > traffic.stage() && aBytes > half && bBytes > half)
    once = std::min(mul(ceilDiv(aBytes, half), bBytes) + aBytes,
                    mul(ceilDiv(bBytes, half), aBytes) + bBytes);
  traffic.addHbm(once);
}

bool constantAlong(const Operand& operand, size_t leading) {
  for (size_t d = 0; d < leading && d < operand.strides.size(); ++d)
    if (operand.strides[d] != 0 && operand.sizes[d] > 1) return false;
  return true;
}

/// Bytes of a blocked weight: `taps` matrices of k x (columns of the slice, whole panels).
int64_t blockedBytes(int64_t taps, int64_t k, int64_t columns, ElementType type) {
  int64_t padded = mul(ceilDiv(columns, recipe::kPackedN), recipe::kPackedN);
  return mul(mul(mul(taps, k), padded), elementSize(type));
}

Cost gemmCommand(const Op& op, const Command& command, const arch::TargetDesc& target,
                 const arch::ClockProfile& clock, Traffic& traffic) {
  const recipe::MmeDesc& mme = op.mme;
  size_t rank = op.space.size(), leading = rank >= 2 ? rank - 2 : 0;
  GemmShape shape;
  shape.type = mme.a.type;
  shape.m = rank >= 2 ? extentOf(command, rank - 2) : 1;
  shape.n = rank >= 1 ? extentOf(command, rank - 1) : 1;
  shape.k = mme.a.sizes.empty() ? 1 : mme.a.sizes.back();
  for (size_t d = 0; d < leading; ++d) shape.batch = mul(shape.batch, extentOf(command, d));
  auto strided = [](const Operand& operand, size_t fromEnd) {
    return operand.strides.size() >= fromEnd &&
           operand.strides[operand.strides.size() - fromEnd] > 1;
  };
  shape.transposeA = strided(mme.a, 1);
  shape.transposeB = mme.packing == recipe::BPacking::kStrided && strided(mme.b, 1);

  int64_t line = target.cacheLineBytes;
  auto inputBox = [&](const Operand& operand, bool isA) {
    Box box;
    size_t size = operand.sizes.size();
    for (size_t d = 0; d < size; ++d) {
      size_t fromEnd = size - d;
      int64_t full = operand.sizes[d], part = full;
      if (fromEnd > 2) {
        size_t spaceDim = rank >= fromEnd ? rank - fromEnd : 0;
        if (full > 1) part = std::min(full, extentOf(command, spaceDim));
      } else if (isA && fromEnd == 2) {
        part = std::min(full, shape.m);
      } else if (!isA && fromEnd == 1) {
        part = std::min(full, shape.n);
      }
      box.push(part, full);
    }
    return box;
  };
  Box a = inputBox(mme.a, true), b = inputBox(mme.b, false);
  int64_t bBytes;
  bool sharedB = constantAlong(mme.b, mme.b.sizes.size() > 2 ? mme.b.sizes.size() - 2 : 0);
  if (mme.packing == recipe::BPacking::kBlocked)
    bBytes = blockedBytes(sharedB ? 1 : shape.batch, shape.k, shape.n, mme.b.type);
  else
    bBytes = lineBytes(mme.b, b, line);
  addMmeInputs(traffic, mme.a, a.whole, lineBytes(mme.a, a, line), mme.b, b.whole, bBytes);
  traffic.add(mme.c, lineBytes(mme.c, alongSpace(op, command, mme.c), line));

  if (sharedB) {  // One matrix for the whole batch: its rows are simply more rows.
    shape.m = mul(shape.m, shape.batch);
    shape.batch = 1;
  }
  return gemmCost(target, clock, shape, traffic.bytes());
}

Cost convCommand(const Op& op, const Command& command, const arch::TargetDesc& target,
                 const arch::ClockProfile& clock, Traffic& traffic) {
  const recipe::MmeDesc& mme = op.mme;
  int64_t line = target.cacheLineBytes;
  auto dim = [](const Operand& operand, size_t d) {
    return d < operand.sizes.size() ? std::max<int64_t>(operand.sizes[d], 1) : 1;
  };
  bool transposed = mme.kind == MmeKind::kConvTranspose2d;
  int64_t groups = std::max<int64_t>(mme.groups, 1);
  int64_t channels = dim(mme.a, 1), inPerGroup = std::max<int64_t>(channels / groups, 1);
  int64_t outPerGroup = std::max<int64_t>(dim(mme.c, 1) / groups, 1);
  int64_t images = extentOf(command, 0), outChannels = extentOf(command, 1);
  int64_t firstGroup = command.lo.size() > 1 ? command.lo[1] / outPerGroup : 0;
  int64_t lastGroup =
      command.hi.size() > 1 && command.hi[1] > 0 ? (command.hi[1] - 1) / outPerGroup : 0;
  int64_t touchedGroups = std::max<int64_t>(lastGroup - firstGroup + 1, 1);
  int64_t pixels = mul(images, mul(extentOf(command, 2), extentOf(command, 3)));
  int64_t taps = 1, rows[2];
  for (size_t i = 0; i < 2; ++i) {
    int64_t window = dim(mme.b, 2 + i), size = dim(mme.a, 2 + i);
    int64_t stride = std::max<int64_t>(mme.strides[i], 1), extent = extentOf(command, 2 + i);
    if (transposed) {
      taps = mul(taps,
                 ceilDiv(window, stride));  // Of the window, the taps that meet one output pixel.
      rows[i] = std::min(size, ceilDiv(extent, stride) + ceilDiv(window, stride));
    } else {
      taps = mul(taps, window);
      int64_t lo = 2 + i < command.lo.size() ? command.lo[2 + i] : 0;
      int64_t first = mul(lo, stride) - mme.padBegin[i];
      int64_t last =
          first + mul(extent - 1, stride) + mul(window - 1, std::max<int64_t>(mme.dilations[i], 1));
      rows[i] = std::max<int64_t>(std::min(last, size - 1) - std::max<int64_t>(first, 0) + 1, 0);
    }
  }
  GemmShape shape;
  shape.type = mme.a.type;
  shape.batch = touchedGroups;
  shape.m = pixels;
  shape.n = ceilDiv(outChannels, touchedGroups);
  shape.k = mul(inPerGroup, taps);

  Box a;
  a.push(images, dim(mme.a, 0));
  a.push(std::min(channels, mul(touchedGroups, inPerGroup)), channels);
  a.push(rows[0], dim(mme.a, 2));
  a.push(rows[1], dim(mme.a, 3));
  int64_t window = mul(dim(mme.b, 2), dim(mme.b, 3)), bBytes;
  if (mme.packing == recipe::BPacking::kBlocked) {
    bBytes = blockedBytes(mul(touchedGroups, window), inPerGroup, shape.n, mme.b.type);
  } else {
    Box b;
    b.push(transposed ? mul(touchedGroups, inPerGroup) : outChannels, dim(mme.b, 0));
    b.push(transposed ? shape.n : dim(mme.b, 1), dim(mme.b, 1));
    b.push(dim(mme.b, 2), dim(mme.b, 2));
    b.push(dim(mme.b, 3), dim(mme.b, 3));
    bBytes = lineBytes(mme.b, b, line);
  }
  bool bWhole = outChannels >= dim(mme.c, 1);
  addMmeInputs(traffic, mme.a, a.whole, lineBytes(mme.a, a, line), mme.b, bWhole, bBytes);
  traffic.add(mme.c, lineBytes(mme.c, alongSpace(op, command, mme.c), line));
  return gemmCost(target, clock, shape, traffic.bytes());
}

Cost tpcCommand(const Program& program, const Op& op, const Command& command,
                const arch::TargetDesc& target, const arch::ClockProfile& clock, Traffic& traffic) {
  TpcWork work;
  work.points = 1;
  for (size_t d = 0; d < op.space.size(); ++d) work.points = mul(work.points, extentOf(command, d));
  if (op.tpc.kernel < program.kernels.size()) {
    const recipe::TpcCost& cost = program.kernels[op.tpc.kernel].cost;
    work.loads = cost.loads;
    work.stores = cost.stores;
    work.vectorOps = cost.vectorOps;
    work.scalarOps = cost.scalarOps;
  }
  int64_t line = std::max(target.cacheLineBytes, target.tpcVectorBytes);
  // A kernel reads no more than it loads: of an embedding's table only the rows that are looked up.
  int64_t loadable = kMany;
  if (work.loads > 0) {
    double vectors = static_cast<double>(work.points) * work.loads;
    if (vectors < static_cast<double>(kMany / line))
      loadable = (static_cast<int64_t>(vectors) + 1) * target.tpcVectorBytes;
  }
  for (const Operand& input : op.tpc.inputs) {
    Box box = alongSpace(op, command, input);
    traffic.addInput(input, box.whole, std::min(lineBytes(input, box, line), loadable));
  }
  for (const Operand& output : op.tpc.outputs)
    traffic.add(output, lineBytes(output, alongSpace(op, command, output), line));
  return tpcCost(target, clock, work, traffic.bytes());
}

Cost dmaCommand(const Op& op, const Command& command, const arch::TargetDesc& target,
                const arch::ClockProfile& clock, Traffic& traffic) {
  int64_t line = target.cacheLineBytes;
  int64_t out = lineBytes(op.dma.dst, alongSpace(op, command, op.dma.dst), line), in = 0;
  traffic.add(op.dma.dst, out);
  if (!op.dma.fill) {
    Box box = alongSpace(op, command, op.dma.src);
    in = lineBytes(op.dma.src, box, line);
    traffic.addInput(op.dma.src, box.whole, in);
  }
  return dmaCost(target, clock, traffic.bytes(), std::max(in, out));
}

}  // namespace

Cost commandCost(const Program& program, const Command& command, const arch::TargetDesc& target,
                 const arch::ClockProfile& clock) {
  const Op& op = program.ops[command.op];
  Traffic traffic(program, command, target);
  switch (op.engine) {
    case Engine::kMme:
      return op.mme.kind == MmeKind::kGemm ? gemmCommand(op, command, target, clock, traffic)
                                           : convCommand(op, command, target, clock, traffic);
    case Engine::kTpc:
      return tpcCommand(program, op, command, target, clock, traffic);
    case Engine::kDma:
      return dmaCommand(op, command, target, clock, traffic);
    case Engine::kNic:
      break;  // Recipes have no NIC ops: collectives enqueue their own work.
  }
  return {};
}

std::vector<TimedQueue> timedQueues(const Program& program, const arch::TargetDesc& target,
                                    const arch::ClockProfile& clock) {
  std::vector<TimedQueue> queues;
  queues.reserve(program.queues.size());
  for (const recipe::Queue& queue : program.queues) {
    TimedQueue& timed = queues.emplace_back();
    timed.engine = queue.engine;
    timed.commands.reserve(queue.commands.size());
    for (const Command& command : queue.commands) {
      TimedCommand& out = timed.commands.emplace_back();
      out.cost = commandCost(program, command, target, clock);
      out.waits = command.waits;
      out.signal = command.signal;
    }
  }
  return queues;
}

}  // namespace hpu::perfmodel
