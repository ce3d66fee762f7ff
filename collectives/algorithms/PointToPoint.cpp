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

/// A relay passes a slice on while the next one arrives; what goes directly ends when it does.
Schedule makeRelays(const Problem& p, const AlgorithmOptions& options) {
  B b(p, "relays", options.slices);
  if (b.trivial()) return b.finish();
  std::vector<int> relays;
  for (int rank = 0; rank < p.ranks; rank++)
    if (rank != p.root && rank != p.destination) relays.push_back(rank);
  const auto paths = static_cast<int64_t>(relays.size()) + 1;
  const int32_t cut = usefulSlices(largestPart(p.count, paths), options.slices);
  const int64_t share = relays.empty() ? 0 : relayedShare(p.count, paths, cut, options.hopBytes / p.elementBytes);
  const int32_t slices = usefulSlices(share, cut);
  std::vector<Range> room;
  for (int32_t j = 0; j < slices && j < kSlicesInFlight; j++)
    room.push_back(b.allocate(BufferKind::kScratch, largestPart(share, slices)));
  for (int32_t j = 0; j < slices; j++)
    for (size_t i = 0; i < relays.size(); i++) {
      const Span piece = part({static_cast<int64_t>(i) * share, share}, slices, j);
      const Range there = B::first(room[static_cast<size_t>(j) % room.size()], piece.count);
      b.move(p.root, B::input(piece), relays[i], there);
      b.move(relays[i], there, p.destination, B::output(piece));
    }
  const int64_t relayed = share * (paths - 1);
  const Span direct{relayed, p.count - relayed};
  b.move(p.root, B::input(direct), p.destination, B::output(direct));
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

const Algorithm kDirect{"direct", "One message over the link between the two ranks.", accepts, makeDirect, oneSlice};

const Algorithm kRelays{"relays",
                        "A share over the link between the two ranks, and one through each other rank, which passes it "
                        "on slice by slice: all links of both ends are full. The best for large data on an idle node.",
                        accepts, makeRelays, choices};

}  // namespace hpu::collectives
