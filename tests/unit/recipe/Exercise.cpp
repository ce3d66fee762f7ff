// SPDX-License-Identifier: Apache-2.0
#include "Exercise.h"

#include <algorithm>

#include "recipe/MmePacking.h"
#include "recipe/PackedWeights.h"
#include "recipe/Parts.h"
#include "recipe/ScheduleChecker.h"

namespace hpu::recipe::testing {

namespace {

using Wide = __int128;  // Products of two 64-bit numbers fit.

struct Exercise {
  const Program& p;
  std::string error;
  uint64_t sum = 0;

  void require(bool condition, const char* what) {
    if (!condition && error.empty()) error = what;
  }

  /// Least and greatest byte of an operand with the indices of one box, as an executor computes
  /// them.
  void operand(const Operand& o, bool write) {
    if (!write && isEmpty(o)) return;
    require(o.section < p.sections.size(), "operand section");
    if (!error.empty()) return;
    const Section& section = p.sections[o.section];
    require(!write || (section.kind != SectionKind::kConst && section.kind != SectionKind::kInput),
            "write into a constant or an input");
    require(o.sizes.size() <= kMaxRank && o.strides.size() == o.sizes.size(), "operand rank");
    const int64_t element = elementSize(o.type);
    require(element > 0 && o.offset % static_cast<uint64_t>(std::max<int64_t>(element, 1)) == 0,
            "element type or alignment");
    Wide last = 0, points = 1;
    for (size_t d = 0; d < o.sizes.size() && error.empty(); ++d) {
      require(o.sizes[d] > 0 && o.strides[d] >= 0, "size or stride");
      points *= o.sizes[d];
      require(points <= (Wide{1} << 62), "number of elements");
      if (o.ring.slots && d == o.ring.dim) continue;
      last += Wide{o.sizes[d] - 1} * o.strides[d];
    }
    Wide end = Wide{o.offset} + (last + 1) * element;
    if (o.ring.slots) end = Wide{o.offset} + Wide{o.ring.slots} * o.ring.slotBytes;
    Wide limit = section.bytes;
    if (section.kind == SectionKind::kInput) limit = p.inputs.at(section.binding).type.bytes();
    if (section.kind == SectionKind::kOutput) limit = p.outputs.at(section.binding).type.bytes();
    if (const State* state = stateOf(p, section))
      limit = section.kind == SectionKind::kInput ? 0 : Wide{stateBytes(p, *state)};
    require(end <= limit, "operand leaves its section");
  }

  void packed(const MmeDesc& mme) {
    const std::vector<int64_t>& b = mme.b.sizes;
    Wide taps = 1, k = 0, n = 0;
    if (mme.kind == MmeKind::kGemm) {
      k = b.at(b.size() - 2);
      n = b.at(b.size() - 1);
      for (size_t d = 0; d + 2 < b.size(); ++d) taps *= b[d];
    } else {
      k = mme.a.sizes.at(1) / mme.groups;
      n = mme.c.sizes.at(1) / mme.groups;
      taps = Wide{mme.groups} * b.at(2) * b.at(3);
    }
    Wide bytes = taps * ((n + kPackedN - 1) / kPackedN) * k * kPackedN * elementSize(mme.b.type);
    require(mme.b.section < p.sections.size(), "packed section");
    if (!error.empty()) return;
    require(Wide{mme.b.offset} + bytes <= Wide{p.sections[mme.b.section].bytes}, "packed weights leave");
    require(p.sections[mme.b.section].kind == SectionKind::kConst, "packed weights not constant");
  }

  void op(const Op& o) {
    for (uint32_t node : o.provenance) require(node < p.sourceNodes.size(), "provenance");
    switch (o.engine) {
      case Engine::kMme:
        require(o.mme.groups > 0, "groups");
        require(
            packingObstacle(o.mme, o.mme.packingFactor).empty() && (packedWeightBytes(o.mme) > 0 || isEmpty(o.mme.b)),
            "packing");
        if (!error.empty()) return;
        operand(o.mme.a, false);
        operand(o.mme.c, true);
        if (o.mme.packing == BPacking::kBlocked) {
          packed(o.mme);
        } else {
          operand(o.mme.b, false);
        }
        return;
      case Engine::kTpc:
        require(o.tpc.kernel < p.kernels.size(), "kernel");
        for (const Operand& x : o.tpc.inputs) operand(x, false);
        for (const Operand& x : o.tpc.outputs) operand(x, true);
        return;
      case Engine::kDma:
        if (!o.dma.fill) operand(o.dma.src, false);
        operand(o.dma.dst, true);
        return;
      default:
        require(false, "engine");
    }
  }

  void ringSlot(const Operand& o, const Command& c) {
    if (!o.ring.slots || !error.empty()) return;
    require(c.bundle < p.bundles.size(), "ring outside of a bundle");
    require(o.ring.dim < o.sizes.size() && o.ring.dim < c.lo.size(), "ring dimension");
    if (!error.empty()) return;
    Wide last = 0;
    for (size_t d = 0; d < o.sizes.size(); ++d) {
      int64_t count = d == o.ring.dim ? c.hi[d] - c.lo[d] : o.sizes[d];
      last += Wide{count - 1} * o.strides[d];
    }
    require((last + 1) * elementSize(o.type) <= Wide{o.ring.slotBytes}, "slice leaves its ring slot");
  }

  void queues() {
    std::vector<uint64_t> raised(p.numSignals, 0);
    std::vector<Wide> points(p.ops.size(), 0);
    for (const Queue& queue : p.queues) {
      for (const Command& c : queue.commands) {
        require(c.op < p.ops.size() && p.ops[std::min<size_t>(c.op, p.ops.size() - 1)].engine == queue.engine,
                "command's op");
        if (!error.empty()) return;
        const Op& o = p.ops[c.op];
        require(c.lo.size() == o.space.size() && c.hi.size() == o.space.size(), "box rank");
        Wide volume = 1;
        for (size_t d = 0; d < o.space.size() && error.empty(); ++d) {
          require(c.lo[d] >= 0 && c.lo[d] < c.hi[d] && c.hi[d] <= o.space[d], "box");
          volume *= c.hi[d] - c.lo[d];
        }
        points[c.op] += volume;
        require(c.bundle == kNone || c.bundle < p.bundles.size(), "bundle");
        require(c.signal == kNone || c.signal < p.numSignals, "signal");
        for (const Wait& wait : c.waits) require(wait.signal < p.numSignals, "wait");
        if (o.engine == Engine::kMme) {
          ringSlot(o.mme.a, c);
          ringSlot(o.mme.c, c);
          if (o.mme.packing == BPacking::kStrided) ringSlot(o.mme.b, c);
        } else if (o.engine == Engine::kTpc) {
          for (const Operand& x : o.tpc.inputs) ringSlot(x, c);
          for (const Operand& x : o.tpc.outputs) ringSlot(x, c);
        }
      }
    }
    for (size_t i = 0; i < p.ops.size(); ++i) {
      Wide volume = 1;
      for (int64_t size : p.ops[i].space) volume *= size;
      require(points[i] == volume, "commands do not cover an op");
    }
  }

  /// Where a value of a part is in its first and last iterations, whatever other parts have run.
  void place(const PartPlace& place, uint32_t part, uint64_t bytes, bool write) {
    const uint64_t trips = p.parts[part].trips;
    for (uint64_t iteration : {uint64_t{0}, uint64_t{1}, trips - std::min<uint64_t>(trips, 2), trips - 1}) {
      if (iteration >= trips) continue;
      for (uint64_t turns : {0, 1}) {
        require(place.turns == kNone || place.turns <= part, "turns of a later part");
        if (!error.empty()) return;
        std::vector<uint64_t> ran;
        for (uint32_t other = 0; other < part; ++other)
          ran.push_back(isDecided(p.parts[other]) ? turns : p.parts[other].trips);
        const PartAddress address = addressOf(place, part, iteration, ran);
        require(address.section < p.sections.size(), "a part's section");
        if (!error.empty()) return;
        const Section& section = p.sections[address.section];
        require(!write || (section.kind != SectionKind::kConst && section.kind != SectionKind::kInput),
                "a part writes a constant or an input");
        require(Wide{address.offset} + bytes <= Wide{section.bytes}, "a part's section leaves its holder's");
      }
    }
  }

  void parts() {
    for (uint32_t i = 0; i < p.parts.size() && error.empty(); ++i) {
      const Part& part = p.parts[i];
      require(part.program && part.sections.size() == part.program->sections.size() && part.trips > 0, "a part");
      if (!error.empty()) return;
      for (uint32_t s = 0; s < part.sections.size() && error.empty(); ++s) {
        const Section& section = part.program->sections[s];
        if (section.kind == SectionKind::kSram) continue;
        uint64_t bytes = section.bytes;
        if (section.kind == SectionKind::kInput)
          bytes = static_cast<uint64_t>(part.program->inputs.at(section.binding).type.bytes());
        if (section.kind == SectionKind::kOutput)
          bytes = static_cast<uint64_t>(part.program->outputs.at(section.binding).type.bytes());
        place(part.sections[s], i, bytes, section.kind != SectionKind::kInput && section.kind != SectionKind::kConst);
      }
      if (part.count.section != kNone) place(part.count, i, 8, false);
      if (part.condition.section != kNone) place(part.condition, i, 1, false);
      if (std::string problem = exerciseProgram(*part.program); error.empty() && !problem.empty())
        error = "in a part: " + problem;
    }
  }

  void data() {
    for (const ConstantBlob& blob : p.constants) {
      require(blob.section < p.sections.size(), "constant's section");
      if (!error.empty()) return;
      require(Wide{blob.offset} + blob.bytes <= Wide{p.sections[blob.section].bytes}, "constant leaves");
      for (uint64_t i = 0; i < blob.bytes; ++i) sum += blob.data[i];
    }
    for (const KernelImage& image : p.images) {
      require(image.entries.size() == p.kernels.size(), "image entries");
      for (uint64_t i = 0; i < image.bytes; ++i) sum += image.data[i];
      for (uint64_t entry : image.entries) require(entry < image.bytes, "image entry");
    }
  }
};

}  // namespace

std::string exerciseProgram(const Program& program) {
  Exercise exercise{program, {}};
  for (const Op& op : program.ops) {
    if (exercise.error.empty()) exercise.op(op);
  }
  if (exercise.error.empty()) exercise.queues();
  if (exercise.error.empty()) exercise.data();
  if (exercise.error.empty()) exercise.parts();
  // A program may have hazards, but saying so must be all that happens.
  if (Status status = checkSchedule(program); !status.ok() && status.message().empty()) {
    return "a failed schedule check without a message";
  }
  volatile uint64_t keep = exercise.sum;
  (void)keep;
  return exercise.error;
}

}  // namespace hpu::recipe::testing
