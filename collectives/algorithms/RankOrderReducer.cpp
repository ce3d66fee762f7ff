// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "collectives/algorithms/Algorithms.h"

namespace hpu::collectives {

RankOrderReducer::RankOrderReducer(ScheduleBuilder& builder, int ranks, int64_t elements, int32_t slices)
    : builder_(builder), ranks_(ranks), depth_(std::min(slices, kSlicesInFlight)) {
  for (int i = 0; i < depth_ * (ranks - 1); i++) room_.push_back(builder.allocate(BufferKind::kScratch, elements));
}

void RankOrderReducer::reduce(int owner, Span from, const Range& dst, int32_t slice) {
  std::vector<Range> sources(static_cast<size_t>(ranks_));
  sources[static_cast<size_t>(owner)] = ScheduleBuilder::contribution(from, owner);
  // From the next rank on: not everybody begins with the same owner.
  for (int shift = 1; shift < ranks_; shift++) {
    const int rank = (owner + shift) % ranks_;
    const Range& room = room_[static_cast<size_t>(slice % depth_ * (ranks_ - 1) + shift - 1)];
    Range& source = sources[static_cast<size_t>(rank)];
    source = ScheduleBuilder::first(room, from.count, rank);
    builder_.move(rank, ScheduleBuilder::input(from), owner, source);
  }
  builder_.reduce(owner, dst, sources);
}

}  // namespace hpu::collectives
