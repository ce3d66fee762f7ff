// SPDX-License-Identifier: Apache-2.0
// The commands of a unit, slice by slice: what everything that issues or sizes commands goes through.
// The one thing to know: their number and order follow from the numbers of slices alone, not from the sizes.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/Issue.h"
#include "recipe/Recipe.h"

namespace hpu::plan {

/// The tiles of a unit's parts, itself first.
using Tiles = std::vector<const std::vector<int64_t>*>;

/// As the unit has them.
Tiles ownTiles(const recipe::Program& program, const IssueUnit& unit);

/// Sets slice, lo and hi to those of a slice of the space.
void setSlice(const std::vector<int64_t>& space, const std::vector<int64_t>& tile, int64_t slice,
              recipe::Command& command);

/// Calls visit(command, before) for the unit's commands in program order; `before` are positions of commands of the
/// unit that no access orders. Of the command, all but waits and signal are set.
template <typename Visit>
void forEachCommand(const recipe::Program& program, const IssueUnit& unit, const Tiles& tiles, Visit&& visit) {
  auto partAt = [&](size_t p) -> const IssueUnit& { return p == 0 ? unit : unit.chained[p - 1]; };
  auto spaceOf = [&](const IssueUnit& part) -> const std::vector<int64_t>& { return program.ops[part.ops[0]].space; };
  int64_t perSlice = 0;
  for (size_t p = 0; p < tiles.size(); ++p) perSlice += static_cast<int64_t>(partAt(p).ops.size());
  const int64_t count = sliceCount(spaceOf(unit), *tiles[0]);
  std::vector<uint32_t> before;
  recipe::Command box;
  box.bundle = unit.bundle;
  for (int64_t slice = 0; slice < count; ++slice) {
    int64_t first = 0;  // Of the part, among the commands of a slice.
    for (size_t p = 0; p < tiles.size(); ++p) {
      const IssueUnit& part = partAt(p);
      const auto size = static_cast<int64_t>(part.ops.size());
      // Position of op `op` of the part, or beyond it of the next one, so many slices ago.
      auto ago = [&](int64_t slices, int64_t op) {
        return static_cast<uint32_t>((slice - slices) * perSlice + first + op);
      };
      setSlice(spaceOf(part), *tiles[p], slice, box);
      for (int64_t i = 0; i < size; ++i) {
        before.clear();
        if (i == 0 && part.slots > 0 && slice >= part.slots) before.push_back(ago(part.slots, size - 1));
        if (i == size - 1 && part.kept > 0 && slice >= part.kept) before.push_back(ago(part.kept, size + part.reader));
        box.op = part.ops[static_cast<size_t>(i)];
        visit(box, before);
      }
      first += size;
    }
  }
}

}  // namespace hpu::plan
