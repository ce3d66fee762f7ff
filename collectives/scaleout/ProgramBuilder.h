// SPDX-License-Identifier: Apache-2.0
// ProgramBuilder: writes down what one rank of a Plan does, without the other ranks.
// The one thing to know: `after` is derived from *cells*, not from elements: the data is cut into a grid of cells that
// is the same on all ranks, and two steps are ordered when they touch the same cell. A cell may have no elements (fewer
// elements than ranks) and counts nevertheless, so all ranks of a role get the same steps in the same order.
//
//   ProgramBuilder b(problem, map, rank, cells);
//   b.send({PeerName::Form::kGridShift, 0, 1}, b.input(first, last, largest));
//   Part room = b.room(BufferKind::kScratch, largest);
//   b.receive({PeerName::Form::kGridShift, 0, 7}, room.first(elements).of(contributor));
//   b.reduce(b.output(first, last, largest), {b.input(first, last, largest).of(rank), room...});
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "collectives/algorithms/ScheduleBuilder.h"
#include "collectives/scaleout/Program.h"

namespace hpu::collectives {

/// How input and output are cut: into blocks of `blockElements`, each into cells at the same places. All-reduce,
/// broadcast and reduce have one block; the others one a rank.
struct CellGrid {
  int64_t blockElements = 0;
  std::vector<int64_t> boundaries = {0};  ///< Within a block: cells + 1, ascending.
  int64_t cells() const { return static_cast<int64_t>(boundaries.size()) - 1; }
  /// First element of a cell by its number in the whole buffer.
  int64_t offset(int64_t cell) const {
    return cell / cells() * blockElements + boundaries[static_cast<size_t>(cell % cells())];
  }
};

/// Where data lies at this rank, and how much every rank of the role is charged for it.
struct Part {
  Range range;
  int64_t begin = 0, end = 0;  ///< Cells of the buffer (of rooms: numbers that are theirs alone).
  int64_t largest = 0;         ///< Elements that are priced: of the largest such part of any rank.

  /// The contribution of a rank.
  Part of(int32_t rank) const {
    Part part = *this;
    part.range.contributor = rank;
    return part;
  }
  /// The first elements of a room.
  Part first(int64_t elements) const {
    Part part = *this;
    part.range.count = elements;
    return part;
  }
};

class ProgramBuilder {
 public:
  ProgramBuilder(const Problem& problem, const RankMap& map, int32_t rank, const CellGrid& grid);

  int32_t rank() const { return rank_; }
  Position position() const { return map_.position(rank_); }
  const RankMap& map() const { return map_; }
  const Problem& problem() const { return problem_; }

  /// Cells [first, last) of a buffer of the caller's; they are contiguous elements.
  Part input(int64_t first, int64_t last, int64_t largest) const {
    return data(BufferKind::kInput, first, last, largest);
  }
  Part output(int64_t first, int64_t last, int64_t largest) const {
    return data(BufferKind::kOutput, first, last, largest);
  }
  /// Room in kScratch or kPartial, of `cells` cells that can be used apart from each other.
  Part room(BufferKind buffer, int64_t largest, int64_t cells = 1);
  /// Of a room: `count` elements at `offset`, its cells [first, last).
  static Part inside(const Part& room, int64_t first, int64_t last, int64_t offset, int64_t count, int64_t largest);

  void copy(const Part& dst, const Part& source);
  void reduce(const Part& dst, const std::vector<Part>& sources);
  void send(PeerName peer, const Part& source);
  void receive(PeerName peer, const Part& dst);
  /// Messages without elements; a signal is sent after all that were received before it in the program.
  void sendSignal(PeerName peer);
  void receiveSignal(PeerName peer);

  Program finish() { return std::move(program_); }

 private:
  /// The four buffers, and input and output as one memory.
  static constexpr size_t kInPlace = 4, kSpaces = 5;
  const Problem& problem_;
  const RankMap& map_;
  int32_t rank_;
  const CellGrid& grid_;
  Program program_;
  AccessMap accesses_[kSpaces];
  int64_t roomCells_[2] = {0, 0};
  bool hasInPlace_ = false;
  int64_t inPlaceCells_ = 0;  // From a cell of the input to the output's.
  std::vector<int32_t> signals_;
  std::unordered_map<uint64_t, int32_t> peers_;

  Part data(BufferKind buffer, int64_t first, int64_t last, int64_t largest) const;
  int64_t bytesOf(const Part& part) const;
  int32_t peerIndex(PeerName peer);
  void add(StepKind kind, int32_t peer, const Part* dst, const Part* sources, size_t numSources);
};

}  // namespace hpu::collectives
