// SPDX-License-Identifier: Apache-2.0
#include "collectives/scaleout/ProgramBuilder.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace hpu::collectives {

ProgramBuilder::ProgramBuilder(const Problem& problem, const RankMap& map, int32_t rank, const CellGrid& grid)
    : problem_(problem), map_(map), rank_(rank), grid_(grid) {
  // The offset in blocks: that of blocks of one element.
  Problem unit = problem;
  unit.count = 1;
  const std::optional<int64_t> offset = inPlaceOffset(unit, rank);
  hasInPlace_ = offset.has_value();
  inPlaceCells_ = offset.value_or(0) * grid.cells();
}

Part ProgramBuilder::data(BufferKind buffer, int64_t first, int64_t last, int64_t largest) const {
  const int64_t begin = grid_.offset(first);
  // The end of the last cell, not the begin of the next one: that may be of another block.
  const int64_t end = last > first
                          ? grid_.offset(last - 1) - grid_.boundaries[static_cast<size_t>((last - 1) % grid_.cells())] +
                                grid_.boundaries[static_cast<size_t>((last - 1) % grid_.cells()) + 1]
                          : begin;
  return {{buffer, begin, end - begin, -1}, first, last, largest};
}

Part ProgramBuilder::room(BufferKind buffer, int64_t largest, int64_t cells) {
  const bool partial = buffer == BufferKind::kPartial;
  int64_t& used = partial ? program_.partialElements : program_.scratchElements;
  int64_t& numbered = roomCells_[partial ? 1 : 0];
  const Part part{{buffer, used, largest, -1}, numbered, numbered + cells, largest};
  used += (largest + 63) / 64 * 64;
  numbered += cells;
  return part;
}

Part ProgramBuilder::inside(const Part& room, int64_t first, int64_t last, int64_t offset, int64_t count,
                            int64_t largest) {
  return {{room.range.buffer, room.range.offset + offset, count, room.range.contributor},
          room.begin + first,
          room.begin + last,
          largest};
}

int64_t ProgramBuilder::bytesOf(const Part& part) const {
  return part.largest * (part.range.buffer == BufferKind::kPartial ? problem_.partialBytes : problem_.elementBytes);
}

int32_t ProgramBuilder::peerIndex(PeerName peer) {
  if (peer.form == PeerName::Form::kGridShift) {
    const int32_t nodes = map_.nodes(), locals = map_.ranksPerNode();
    peer.a = ((peer.a % nodes) + nodes) % nodes;
    peer.b = ((peer.b % locals) + locals) % locals;
  } else if (peer.form == PeerName::Form::kRankShift) {
    peer.a = ((peer.a % map_.ranks()) + map_.ranks()) % map_.ranks();
  }
  const uint64_t key =
      static_cast<uint64_t>(peer.form) << 60 | static_cast<uint64_t>(peer.a) << 20 | static_cast<uint64_t>(peer.b);
  const auto [at, fresh] = peers_.try_emplace(key, static_cast<int32_t>(program_.peers.size()));
  if (fresh) program_.peers.push_back(peer);
  return at->second;
}

void ProgramBuilder::add(StepKind kind, int32_t peer, const Part* dst, const Part* sources, size_t numSources) {
  const auto index = static_cast<int32_t>(program_.steps.size());
  ProgramStep step;
  step.kind = kind;
  step.peer = peer;
  // A copy onto itself is not run.
  const auto cellInOutput = [&](const Part& part) {
    return part.begin + (part.range.buffer == BufferKind::kInput ? inPlaceCells_ : 0);
  };
  const auto isData = [](const Part& part) {
    return part.range.buffer == BufferKind::kInput || part.range.buffer == BufferKind::kOutput;
  };
  const bool ontoItself = kind == StepKind::kCopy && hasInPlace_ && isData(*sources) && isData(*dst) &&
                          cellInOutput(*sources) == cellInOutput(*dst);
  const auto access = [&](const Part& part, auto how) {
    (accesses_[static_cast<size_t>(part.range.buffer)].*how)(part.begin, part.end, index, step.after);
    if (!hasInPlace_ || !isData(part) || ontoItself) return;
    const int64_t begin = cellInOutput(part);
    (accesses_[kInPlace].*how)(begin, begin + part.end - part.begin, index, step.after);
  };
  for (size_t i = 0; i < numSources; i++) {
    access(sources[i], &AccessMap::read);
    step.sources.push_back(sources[i].range);
    if (kind != StepKind::kReduce) step.sources.back().contributor = -1;
    step.bytes += bytesOf(sources[i]);
  }
  if (dst) {
    access(*dst, &AccessMap::write);
    step.dst = dst->range;
    step.dst.contributor = -1;
    step.bytes += bytesOf(*dst);
  }
  std::sort(step.after.begin(), step.after.end());
  step.after.erase(std::unique(step.after.begin(), step.after.end()), step.after.end());
  if (!step.after.empty() && step.after.back() == index) step.after.pop_back();
  program_.steps.push_back(std::move(step));
}

void ProgramBuilder::copy(const Part& dst, const Part& source) {
  add(StepKind::kCopy, -1, &dst, &source, 1);
}

void ProgramBuilder::reduce(const Part& dst, const std::vector<Part>& sources) {
  add(StepKind::kReduce, -1, &dst, sources.data(), sources.size());
}

void ProgramBuilder::send(PeerName peer, const Part& source) {
  add(StepKind::kSend, peerIndex(peer), nullptr, &source, 1);
}

void ProgramBuilder::receive(PeerName peer, const Part& dst) {
  add(StepKind::kRecv, peerIndex(peer), &dst, nullptr, 0);
}

void ProgramBuilder::sendSignal(PeerName peer) {
  ProgramStep step;
  step.kind = StepKind::kSend;
  step.peer = peerIndex(peer);
  step.sources = {Range{BufferKind::kScratch, 0, 0, -1}};
  step.after = signals_;
  program_.steps.push_back(std::move(step));
}

void ProgramBuilder::receiveSignal(PeerName peer) {
  ProgramStep step;
  step.kind = StepKind::kRecv;
  step.peer = peerIndex(peer);
  step.dst = Range{BufferKind::kScratch, 0, 0, -1};
  signals_.push_back(static_cast<int32_t>(program_.steps.size()));
  program_.steps.push_back(std::move(step));
}

}  // namespace hpu::collectives
