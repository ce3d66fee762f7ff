// SPDX-License-Identifier: Apache-2.0
// Mesh one-shot: every rank sends all of its data to every other one, and each reduces for itself.
#include "collectives/algorithms/Algorithms.h"

namespace hpu::collectives {
namespace {

using B = ScheduleBuilder;

bool accepts(const Problem& p) {
  return wellFormed(p) && p.collective == Collective::kAllReduce;
}

Schedule make(const Problem& p, const AlgorithmOptions& options) {
  B b(p, "mesh-one-shot", options.slices);
  if (b.trivial()) return b.finish();
  const int32_t slices = usefulSlices(p.count, options.slices);
  RankOrderReducer reducer(b, p.ranks, largestPart(p.count, slices), slices);
  // By way of scratch: in place, nobody may write its output while a peer still reads it there,
  // and each is a peer of all others.
  std::vector<Range> results;
  for (int32_t j = 0; j < slices && j < kSlicesInFlight; j++)
    results.push_back(b.allocate(BufferKind::kScratch, largestPart(p.count, slices)));
  for (int32_t j = 0; j < slices; j++) {
    const Span piece = part({0, p.count}, slices, j);
    const Range result = B::first(results[static_cast<size_t>(j) % results.size()], piece.count);
    for (int rank = 0; rank < p.ranks; rank++) reducer.reduce(rank, piece, result, j);
    for (int rank = 0; rank < p.ranks; rank++) b.copy(rank, B::output(piece), result);
  }
  return b.finish();
}

std::vector<int32_t> choices(const Problem& p) {
  if (p.ranks > 2) return {1};
  return sliceChoices(p.count * p.elementBytes, 64 << 10, 4 << 20, 64);
}

}  // namespace

const Algorithm kMeshOneShot{
    "mesh-one-shot",
    "Everybody sends everything to everybody and reduces all raw contributions in rank order: one "
    "message's latency, but n/2 times the bytes of the mesh. The best for small data, and for two "
    "ranks.",
    accepts, make, choices};

}  // namespace hpu::collectives
