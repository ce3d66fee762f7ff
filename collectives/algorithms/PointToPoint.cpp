// SPDX-License-Identifier: Apache-2.0
// Point to point: over the one link between the two ranks, or over all links of both by way of the
// other ranks.
#include <algorithm>

#include "collectives/algorithms/Algorithms.h"

namespace hpu::collectives {
namespace {

using B = ScheduleBuilder;

bool accepts(const Problem& p) {
  return wellFormed(p) && p.collective == Collective::kPointToPoint;
}

Schedule makeDirect(const Problem& p, const AlgorithmOptions&) {
  B b(p, "direct", 1);
  const Span all{0, p.count};
  if (!b.trivial()) b.move(p.root, B::input(all), p.destination, B::output(all));
  return b.finish();
}

/// A relay passes a slice on while the next one arrives, so that its last slice comes one slice's
/// time late: of equal units, the direct link gets one more than each relay.
Schedule makeRelays(const Problem& p, const AlgorithmOptions& options) {
  B b(p, "relays", options.slices);
  if (b.trivial()) return b.finish();
  const int relays = p.ranks - 2;
  const int32_t slices =
      usefulSlices(largestPart(p.count, p.ranks - 1), relays > 0 ? options.slices : 1);
  const Span all{0, p.count};
  const int64_t units = int64_t{p.ranks - 1} * slices + 1;
  std::vector<Range> room;
  for (int32_t j = 0; j < slices && j < kSlicesInFlight && relays > 0; j++)
    room.push_back(b.allocate(BufferKind::kScratch, largestPart(p.count, units)));
  int64_t unit = 0;
  for (int32_t j = 0; j < slices; j++)
    for (int relay = 0; relay < p.ranks; relay++) {
      if (relay == p.root || relay == p.destination) continue;
      const Span piece = part(all, units, unit++);
      const Range there = B::first(room[static_cast<size_t>(j) % room.size()], piece.count);
      b.move(p.root, B::input(piece), relay, there);
      b.move(relay, there, p.destination, B::output(piece));
    }
  const int64_t from = unit < units ? part(all, units, unit).offset : p.count;
  const Span rest{from, p.count - from};
  b.move(p.root, B::input(rest), p.destination, B::output(rest));
  return b.finish();
}

std::vector<int32_t> oneSlice(const Problem&) {
  return {1};
}

std::vector<int32_t> choices(const Problem& p) {
  if (p.ranks <= 2) return {1};
  const int64_t bytes = p.count * p.elementBytes / (p.ranks - 1);
  return sliceChoices(bytes, 32 << 10, 1 << 20, std::clamp(2048 / p.ranks, 1, 128));
}

}  // namespace

const Algorithm kDirect{"direct", "One message over the link between the two ranks.", accepts,
                        makeDirect, oneSlice};

const Algorithm kRelays{
    "relays",
    "A share over the link between the two ranks, and one through each other rank, which passes it "
    "on slice by slice: all links of both ends are full. The best for large data on an idle node.",
    accepts, makeRelays, choices};

}  // namespace hpu::collectives
