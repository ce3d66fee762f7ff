// SPDX-License-Identifier: Apache-2.0
// From a recipe's commands to cost inputs: the slice's shape, and the bytes that it moves by
// memory. The one thing to know: the reuse rules here are the ones of docs/performance-model.md,
// "Traffic".
#include <algorithm>
#include <array>

#include "base/Math.h"
#include "perfmodel/Timeline.h"
#include "recipe/MmePacking.h"
#include "recipe/PackedWeights.h"

namespace hpu::perfmodel {
namespace {

using base::ceilDiv;

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
  return d < command.lo.size() && d < command.hi.size() ? std::max<int64_t>(command.hi[d] - command.lo[d], 0) : 1;
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
  Traffic(const Program& program, const Command& command, const arch::TargetDesc& target, int64_t tileBytes)
      : program_(program),
        inLaterSlice_(command.bundle != recipe::kNone && command.slice > 0),
        stage_(std::max<int64_t>(target.sramBytes - tileBytes, 0)) {}

  bool inSram(const Operand& operand) const {
    return operand.section < program_.sections.size() && program_.sections[operand.section].kind == SectionKind::kSram;
  }
  /// True when an earlier slice of the bundle left this input on the chip: it is the same for all
  /// slices and fits beside the planned buffers.
  bool resident(const Operand& operand, bool whole, int64_t bytes) {
    if (!inLaterSlice_ || !whole || inSram(operand) || bytes > stage_) return false;
    stage_ -= bytes;
    return true;
  }
  void add(const Operand& operand, int64_t bytes) { (inSram(operand) ? bytes_.sram : bytes_.hbm) += bytes; }
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
void addMmeInputs(Traffic& traffic, const Operand& a, bool aWhole, int64_t aBytes, const Operand& b, bool bWhole,
                  int64_t bBytes) {
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
    once = std::min(mul(ceilDiv(aBytes, half), bBytes) + aBytes, mul(ceilDiv(bBytes, half), aBytes) + bBytes);
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

/// `shape` with `factor` neighbouring rows as one and `taps` times as long a K: what was all of the product is now its
/// work.
GemmShape packed(GemmShape shape, int64_t rows, int64_t factor, int64_t k) {
  shape.work = gemmWork(shape);
  shape.m = rows;
  shape.n = mul(shape.n, factor);
  shape.k = k;
  return shape;
}

bool sharesB(const recipe::MmeDesc& mme) {
  return constantAlong(mme.b, mme.b.sizes.size() > 2 ? mme.b.sizes.size() - 2 : 0);
}

/// One matrix for the whole batch is one GEMM: its rows are simply more rows.
GemmShape joinedBatch(GemmShape shape) {
  shape.m = mul(shape.m, shape.batch);
  shape.batch = 1;
  return shape;
}

GemmShape gemmShape(const Op& op, const Command& command) {
  const recipe::MmeDesc& mme = op.mme;
  size_t rank = op.space.size(), leading = rank >= 2 ? rank - 2 : 0;
  GemmShape shape;
  shape.type = mme.a.type;
  shape.m = rank >= 2 ? extentOf(command, rank - 2) : 1;
  shape.n = rank >= 1 ? extentOf(command, rank - 1) : 1;
  shape.k = mme.a.sizes.empty() ? 1 : mme.a.sizes.back();
  for (size_t d = 0; d < leading; ++d) shape.batch = mul(shape.batch, extentOf(command, d));
  auto strided = [](const Operand& operand, size_t fromEnd) {
    return operand.strides.size() >= fromEnd && operand.strides[operand.strides.size() - fromEnd] > 1;
  };
  shape.transposeA = strided(mme.a, 1);
  shape.transposeB = mme.packing == recipe::BPacking::kStrided && strided(mme.b, 1);
  return shape;
}

GemmShape packedGemm(const Op& op, const Command& command) {
  GemmShape shape = gemmShape(op, command);
  const int64_t factor = std::max<int64_t>(op.mme.packingFactor, 1);
  if (factor > 1) shape = packed(shape, ceilDiv(shape.m, factor), factor, mul(shape.k, factor));
  return sharesB(op.mme) ? joinedBatch(shape) : shape;
}

Cost gemmCommand(const Op& op, const Command& command, const arch::TargetDesc& target, const arch::ClockProfile& clock,
                 Traffic& traffic) {
  const recipe::MmeDesc& mme = op.mme;
  size_t rank = op.space.size();
  const GemmShape shape = gemmShape(op, command), product = packedGemm(op, command);
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
  if (mme.packing == recipe::BPacking::kBlocked)
    bBytes = blockedBytes(sharesB(mme) ? 1 : shape.batch, product.k, product.n, mme.b.type);
  else
    bBytes = lineBytes(mme.b, b, line);
  addMmeInputs(traffic, mme.a, a.whole, lineBytes(mme.a, a, line), mme.b, b.whole, bBytes);
  traffic.add(mme.c, lineBytes(mme.c, alongSpace(op, command, mme.c), line));
  return gemmCost(target, clock, product, traffic.bytes());
}

int64_t sizeOf(const Operand& operand, size_t d) {
  return d < operand.sizes.size() ? std::max<int64_t>(operand.sizes[d], 1) : 1;
}

/// Of a convolution's groups, how many a command touches.
int64_t touchedGroups(const recipe::MmeDesc& mme, const Command& command) {
  int64_t outPerGroup = std::max<int64_t>(sizeOf(mme.c, 1) / std::max<int64_t>(mme.groups, 1), 1);
  int64_t first = command.lo.size() > 1 ? command.lo[1] / outPerGroup : 0;
  int64_t last = command.hi.size() > 1 && command.hi[1] > 0 ? (command.hi[1] - 1) / outPerGroup : 0;
  return std::max<int64_t>(last - first + 1, 1);
}

int64_t channelsPerGroup(const recipe::MmeDesc& mme) {
  return std::max<int64_t>(sizeOf(mme.a, 1) / std::max<int64_t>(mme.groups, 1), 1);
}

GemmShape convShape(const Op& op, const Command& command) {
  const recipe::MmeDesc& mme = op.mme;
  int64_t tapsAlongH = sizeOf(mme.b, 2), tapsAlongW = sizeOf(mme.b, 3);
  if (mme.kind == MmeKind::kConvTranspose2d) {  // Of the window, the taps that meet one output pixel.
    tapsAlongH = ceilDiv(tapsAlongH, std::max<int64_t>(mme.strides[0], 1));
    tapsAlongW = ceilDiv(tapsAlongW, std::max<int64_t>(mme.strides[1], 1));
  }
  int64_t lines = mul(extentOf(command, 0), extentOf(command, 2)), kOfTap = mul(channelsPerGroup(mme), tapsAlongH);
  GemmShape shape;
  shape.type = mme.a.type;
  shape.batch = touchedGroups(mme, command);
  shape.m = mul(lines, extentOf(command, 3));
  shape.n = ceilDiv(extentOf(command, 1), shape.batch);
  shape.k = mul(kOfTap, tapsAlongW);
  if (mme.packingFactor <= 1) return shape;
  return packed(shape, mul(lines, ceilDiv(extentOf(command, 3), mme.packingFactor)), mme.packingFactor,
                mul(kOfTap, recipe::packedTaps(mme)));
}

Cost convCommand(const Op& op, const Command& command, const arch::TargetDesc& target, const arch::ClockProfile& clock,
                 Traffic& traffic) {
  const recipe::MmeDesc& mme = op.mme;
  int64_t line = target.cacheLineBytes;
  bool transposed = mme.kind == MmeKind::kConvTranspose2d;
  const GemmShape shape = convShape(op, command);
  int64_t channels = sizeOf(mme.a, 1), inChannels = mul(shape.batch, channelsPerGroup(mme));
  int64_t outChannels = extentOf(command, 1), rows[2];
  for (size_t i = 0; i < 2; ++i) {
    int64_t window = sizeOf(mme.b, 2 + i), size = sizeOf(mme.a, 2 + i);
    int64_t stride = std::max<int64_t>(mme.strides[i], 1), extent = extentOf(command, 2 + i);
    if (transposed) {
      rows[i] = std::min(size, ceilDiv(extent, stride) + ceilDiv(window, stride));
    } else {
      int64_t lo = 2 + i < command.lo.size() ? command.lo[2 + i] : 0;
      int64_t first = mul(lo, stride) - mme.padBegin[i];
      int64_t last = first + mul(extent - 1, stride) + mul(window - 1, std::max<int64_t>(mme.dilations[i], 1));
      rows[i] = std::max<int64_t>(std::min(last, size - 1) - std::max<int64_t>(first, 0) + 1, 0);
    }
  }

  Box a;
  a.push(extentOf(command, 0), sizeOf(mme.a, 0));
  a.push(std::min(channels, inChannels), channels);
  a.push(rows[0], sizeOf(mme.a, 2));
  a.push(rows[1], sizeOf(mme.a, 3));
  int64_t bBytes;
  if (mme.packing == recipe::BPacking::kBlocked) {
    int64_t window = mul(sizeOf(mme.b, 2), mme.packingFactor > 1 ? recipe::packedTaps(mme) : sizeOf(mme.b, 3));
    bBytes = blockedBytes(mul(shape.batch, window), channelsPerGroup(mme), shape.n, mme.b.type);
  } else {
    Box b;
    b.push(transposed ? inChannels : outChannels, sizeOf(mme.b, 0));
    b.push(transposed ? shape.n : sizeOf(mme.b, 1), sizeOf(mme.b, 1));
    b.push(sizeOf(mme.b, 2), sizeOf(mme.b, 2));
    b.push(sizeOf(mme.b, 3), sizeOf(mme.b, 3));
    bBytes = lineBytes(mme.b, b, line);
  }
  bool bWhole = outChannels >= sizeOf(mme.c, 1);
  addMmeInputs(traffic, mme.a, a.whole, lineBytes(mme.a, a, line), mme.b, bWhole, bBytes);
  traffic.add(mme.c, lineBytes(mme.c, alongSpace(op, command, mme.c), line));
  return gemmCost(target, clock, shape, traffic.bytes());
}

Cost tpcCommand(const Program& program, const Op& op, const Command& command, const arch::TargetDesc& target,
                const arch::ClockProfile& clock, Traffic& traffic) {
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
  // And writes no more than it stores: of the data of a scatter only what is updated. Scalar stores are scalar
  // instructions, each of a line at most.
  int64_t storable = kMany;
  if (work.stores + work.scalarOps > 0) {
    double accesses = static_cast<double>(work.points) * (work.stores + work.scalarOps);
    if (accesses < static_cast<double>(kMany / line)) storable = (static_cast<int64_t>(accesses) + 1) * line;
  }
  for (const Operand& output : op.tpc.outputs)
    traffic.add(output, std::min(lineBytes(output, alongSpace(op, command, output), line), storable));
  return tpcCost(target, clock, work, traffic.bytes());
}

Cost dmaCommand(const Op& op, const Command& command, const arch::TargetDesc& target, const arch::ClockProfile& clock,
                Traffic& traffic) {
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

GemmShape mmeShape(const Op& op, const Command& command) {
  return op.mme.kind == MmeKind::kGemm ? packedGemm(op, command) : convShape(op, command);
}

Cost commandCost(const Program& program, const Command& command, const arch::TargetDesc& target,
                 const arch::ClockProfile& clock, const SramUse* use) {
  return commandCost(program, program.ops[command.op], command, target, clock, use);
}

Cost commandCost(const Program& program, const Op& op, const Command& command, const arch::TargetDesc& target,
                 const arch::ClockProfile& clock, const SramUse* use) {
  Traffic traffic(program, command, target, use ? use->beside(command.op) : SramUse::ofAll(program));
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
                                    const arch::ClockProfile& clock, CostMemo* memo) {
  const SramUse use(program);
  std::vector<uint32_t> seen(memo ? program.ops.size() : 0);  ///< Commands of each op.
  std::vector<TimedQueue> queues;
  queues.reserve(program.queues.size());
  for (const recipe::Queue& queue : program.queues) {
    TimedQueue& timed = queues.emplace_back();
    timed.engine = queue.engine;
    timed.commands.reserve(queue.commands.size());
    for (const Command& command : queue.commands) {
      TimedCommand& out = timed.commands.emplace_back();
      auto compute = [&] { return commandCost(program, command, target, clock, &use); };
      const uint64_t content = memo && command.op < program.ops.size() ? program.ops[command.op].content : 0;
      out.cost = content ? memo->get(content, use.beside(command.op), seen[command.op]++, compute) : compute();
      out.waits = command.waits;
      out.signal = command.signal;
    }
  }
  return queues;
}

}  // namespace hpu::perfmodel
