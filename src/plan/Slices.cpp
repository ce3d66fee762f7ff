// SPDX-License-Identifier: Apache-2.0
#include "plan/Slices.h"

#include <algorithm>

namespace hpu::plan {

int64_t sliceCount(const std::vector<int64_t>& space, const std::vector<int64_t>& tile) {
  int64_t count = 1;
  for (size_t d = 0; d < tile.size(); ++d) count *= (space[d] + tile[d] - 1) / std::max<int64_t>(tile[d], 1);
  return count;
}

Tiles ownTiles(const recipe::Program& program, const IssueUnit& unit) {
  Tiles tiles;
  auto add = [&](const IssueUnit& part) {
    tiles.push_back(part.tile.empty() ? &program.ops[part.ops[0]].space : &part.tile);
  };
  add(unit);
  for (const IssueUnit& part : unit.chained) add(part);
  return tiles;
}

void setSlice(const std::vector<int64_t>& space, const std::vector<int64_t>& tile, int64_t slice,
              recipe::Command& command) {
  command.slice = static_cast<uint32_t>(slice);
  command.lo.resize(space.size());
  command.hi.resize(space.size());
  int64_t rest = slice;
  for (size_t d = space.size(); d-- > 0;) {
    const int64_t parts = (space[d] + tile[d] - 1) / std::max<int64_t>(tile[d], 1);
    command.lo[d] = rest % parts * tile[d];
    command.hi[d] = std::min(command.lo[d] + tile[d], space[d]);
    rest /= parts;
  }
}

}  // namespace hpu::plan
