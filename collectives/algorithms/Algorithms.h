// SPDX-License-Identifier: Apache-2.0
// The registered algorithms, one file each, and what several of them do.
// The one thing to know: of each reduced element there is one place where it becomes final; from
// there it is copied, so that all ranks have the same bits.
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/algorithms/Registry.h"
#include "collectives/algorithms/ScheduleBuilder.h"

namespace hpu::collectives {

extern const Algorithm kMesh, kMeshOneShot, kRing, kHalvingDoubling, kTree, kScatterExchange, kDirect, kRelays;

/// Ranks, roots and counts make sense, and no size of the problem overflows.
bool wellFormed(const Problem& problem);

/// One reduction of all ranks' raw contributions in rank order, where one rank has them all.
/// Slices take turns in the room that the contributions arrive in.
class RankOrderReducer {
 public:
  /// `elements`: of the largest slice; `slices`: how many each owner reduces.
  RankOrderReducer(ScheduleBuilder& builder, int ranks, int64_t elements, int32_t slices);
  /// Every rank's input at `from` is reduced at rank `owner` into `dst`, its slice number `slice`.
  void reduce(int owner, Span from, const Range& dst, int32_t slice);

 private:
  ScheduleBuilder& builder_;
  int ranks_;
  std::vector<Range> room_;  // By slice modulo depth, other rank.
  int32_t depth_;
};

/// How many slices may be on their way before the oldest is reduced; at least 2.
inline constexpr int32_t kSlicesInFlight = 4;

}  // namespace hpu::collectives
