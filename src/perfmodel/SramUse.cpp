// SPDX-License-Identifier: Apache-2.0
#include "perfmodel/SramUse.h"

#include <algorithm>

namespace hpu::perfmodel {
namespace {

using recipe::Op;
using recipe::Operand;
using recipe::Program;

/// A tile, or a ring of them, between the first unit that writes it and the last one that touches it.
struct Tile {
  uint32_t section = 0;
  uint64_t begin = 0, end = 0;
  size_t first = 0, last = 0;  ///< Units.
};

class Tiles {
 public:
  explicit Tiles(const Program& program) : program_(program) {}

  void access(const Operand& operand, size_t unit, bool writes) {
    if (operand.section >= program_.sections.size() ||
        program_.sections[operand.section].kind != recipe::SectionKind::kSram)
      return;
    const uint64_t begin = operand.offset;
    uint64_t end = 0;
    if (__builtin_add_overflow(begin, recipe::operandSpanBytes(operand), &end)) end = UINT64_MAX;
    bool isKnown = false;
    for (size_t i = 0; i < current_.size();) {
      Tile& tile = tiles_[current_[i]];
      if (tile.section != operand.section || tile.end <= begin || end <= tile.begin) {
        ++i;
        continue;
      }
      // Another write of the same bytes is a new tile, unless the unit fills or changes this one.
      if (!writes || tile.last == unit) {
        tile.last = unit;
        isKnown |= tile.begin <= begin && end <= tile.end;
        ++i;
      } else {
        current_.erase(current_.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
    if (isKnown) return;
    current_.push_back(tiles_.size());
    tiles_.push_back({operand.section, begin, end, unit, unit});
  }

  const std::vector<Tile>& all() const { return tiles_; }

 private:
  const Program& program_;
  std::vector<Tile> tiles_;
  std::vector<size_t> current_;  ///< Those whose bytes nobody has written over.
};

}  // namespace

int64_t SramUse::ofAll(const Program& program) {
  uint64_t all = 0;
  for (const recipe::Section& section : program.sections)
    if (section.kind == recipe::SectionKind::kSram && __builtin_add_overflow(all, section.bytes, &all))
      all = UINT64_MAX;
  return static_cast<int64_t>(std::min<uint64_t>(all, uint64_t{1} << 60));
}

SramUse::SramUse(const Program& program) : all_(ofAll(program)) {
  const size_t count = program.ops.size();
  byOp_.assign(count, all_);
  if (all_ == 0 || count == 0) return;
  std::vector<uint32_t> bundleOf(count, recipe::kNone);
  for (size_t b = 0; b < program.bundles.size(); ++b)
    for (uint32_t op : program.bundles[b].ops)
      if (op < count) bundleOf[op] = static_cast<uint32_t>(b);
  std::vector<size_t> unitOf(count, 0);
  for (size_t op = 1; op < count; ++op) {
    const bool isSame = bundleOf[op] != recipe::kNone && bundleOf[op] == bundleOf[op - 1];
    unitOf[op] = unitOf[op - 1] + (isSame ? 0 : 1);
  }
  Tiles tiles(program);
  for (size_t i = 0; i < count; ++i) {
    const Op& op = program.ops[i];
    switch (op.engine) {
      case Engine::kMme:
        tiles.access(op.mme.a, unitOf[i], false);
        tiles.access(op.mme.b, unitOf[i], false);
        tiles.access(op.mme.c, unitOf[i], true);
        break;
      case Engine::kTpc:
        for (const Operand& input : op.tpc.inputs) tiles.access(input, unitOf[i], false);
        for (const Operand& output : op.tpc.outputs) tiles.access(output, unitOf[i], true);
        break;
      case Engine::kDma:
        tiles.access(op.dma.src, unitOf[i], false);
        tiles.access(op.dma.dst, unitOf[i], true);
        break;
      case Engine::kNic:
        break;
    }
  }
  const size_t units = unitOf.back() + 1;
  std::vector<int64_t> change(units + 1, 0);
  for (const Tile& tile : tiles.all()) {
    const auto bytes = static_cast<int64_t>(std::min<uint64_t>(tile.end - tile.begin, static_cast<uint64_t>(all_)));
    change[tile.first == 0 ? 0 : tile.first - 1] += bytes;
    change[std::min(tile.last + 2, units)] -= bytes;
  }
  std::vector<int64_t> used(units, 0);
  int64_t sum = 0;
  for (size_t u = 0; u < units; ++u) used[u] = std::min(sum += change[u], all_);
  for (size_t i = 0; i < count; ++i) byOp_[i] = used[unitOf[i]];
}

}  // namespace hpu::perfmodel
