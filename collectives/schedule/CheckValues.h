// SPDX-License-Identifier: Apache-2.0
// The part of the check that is about data: what every element of every buffer holds, who wrote it
// and who still reads it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "collectives/schedule/CheckOrder.h"
#include "collectives/schedule/Messages.h"
#include "collectives/schedule/Schedule.h"
#include "hpu/status.h"

namespace hpu::collectives {

/// How a value came about: a rank's contribution as it is, or a reduction of others in their order,
/// partial or finished (rounded and averaged). Equal numbers mean equal bits.
class Expressions {
 public:
  explicit Expressions(int32_t ranks);
  /// Contribution of a rank.
  static int32_t leaf(int32_t rank) { return rank; }
  bool isLeaf(int32_t e) const { return e < ranks_; }
  bool isFinished(int32_t e) const { return list_[e].finished; }
  bool isComplete(int32_t e) const { return list_[e].contributors == ranks_; }
  bool contains(int32_t e, int32_t rank) const { return list_[e].set[rank / 64] >> (rank % 64) & 1; }
  /// The reduction of `sources`; -1 when two of them have a rank's contribution, which is in
  /// `twice`.
  int32_t reduce(std::span<const int32_t> sources, bool finished, int32_t& twice);
  /// "rank 3's contribution", "a reduction of ranks 0, 1, 2"
  std::string text(int32_t e) const;

 private:
  struct Expression {
    std::vector<uint64_t> set;  // Of contributing ranks.
    int32_t contributors = 0;
    bool finished = false;
  };
  struct Hash {
    size_t operator()(const std::vector<int32_t>& key) const;
  };
  int32_t ranks_;
  std::vector<Expression> list_;
  std::unordered_map<std::vector<int32_t>, int32_t, Hash> known_;
  std::vector<int32_t> key_;
};

/// Elements of a message or a step's source with one kind of value.
struct Piece {
  int64_t begin = 0, end = 0;  ///< Within the step's range.
  int64_t shift = 0;           ///< What to add to get the number of the problem's element that it belongs to.
  int32_t expression = -1;
};

class ValueCheck {
 public:
  ValueCheck(const Schedule& schedule, const Messages& messages);
  /// Follows the steps in `order`. Errors: kInternal.
  Status run(std::span<const int32_t> order);
  /// After run(): who reads received data where it may lie at the sender.
  const std::vector<InPlaceReader>& inPlaceReaders() const { return inPlaceReaders_; }
  /// After run(): every output holds what the problem asks for.
  Status checkResults();

 private:
  // Elements [begin, end) of a buffer, up to the next segment's begin.
  struct Segment {
    int64_t begin = 0;
    int64_t shift = 0;        // Of the value: element number less index.
    int32_t expression = -1;  // -1: not written.
    int32_t writer = -1;
    int32_t readers = -1;  // Heads of lists in pool_.
    // Of an output: steps that read the input at the same memory, should the call be in place.
    int32_t inputReaders = -1;
    bool ontoItself = false;  // Written by a copy that in place does nothing.
  };
  struct Reader {
    int32_t step, next;
  };
  struct Memory {  // One buffer of a rank.
    int64_t size = 0;
    std::vector<Segment> segments;
    int64_t endOf(size_t i) const { return i + 1 < segments.size() ? segments[i + 1].begin : size; }
  };
  Memory& memory(int32_t rank, BufferKind kind) { return memories_[rank * 3 + static_cast<int>(kind) - 1]; }
  static size_t splitAt(Memory& memory, int64_t position);
  void addReader(int32_t& list, int32_t step);

  Status read(int32_t step, const Range& range, std::vector<Piece>& pieces);
  Status readInput(int32_t step, const Range& range);
  Status write(int32_t step, const Range& range, const std::vector<Piece>& pieces);
  Status reduce(int32_t step, std::vector<Piece>& result);
  Status checkOverlap(int32_t step) const;
  bool copiesOntoItself(const Step& step) const;
  std::string wrong(int32_t rank, int64_t begin, int64_t end, const Segment& segment) const;

  const Schedule& schedule_;
  const Problem& problem_;
  const Messages& messages_;
  Expressions expressions_;
  Ancestry ancestry_;
  std::vector<Memory> memories_;
  std::vector<Reader> pool_;
  std::vector<InPlaceReader> inPlaceReaders_;
  std::unordered_map<int32_t, std::vector<Piece>> underWay_;  // By receive.
};

}  // namespace hpu::collectives
