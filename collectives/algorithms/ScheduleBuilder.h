// SPDX-License-Identifier: Apache-2.0
// ScheduleBuilder: writes a schedule down as if one thread did everything on all ranks, in order.
// The one thing to know: `after` follows from the ranges, for distinct and for shared input and
// output; an algorithm that is right when its calls run one by one gives a schedule that is right
// in any interleaving.
//
//   ScheduleBuilder b(problem, "mesh", 1);
//   if (b.trivial()) return b.finish();
//   for (int to = 0; to < ranks; to++) b.move(root, b.input({0, count}), to, b.output({0, count}));
//   return b.finish();
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <memory_resource>
#include <string_view>
#include <vector>

#include "collectives/algorithms/Split.h"
#include "collectives/schedule/Schedule.h"

namespace hpu::collectives {

/// Which steps last wrote and have since read each element of a buffer. Not for several threads.
class AccessMap {
 public:
  /// Adds to `after` what must be done before `step` reads, or writes, [begin, end).
  void read(int64_t begin, int64_t end, int32_t step, std::vector<int32_t>& after);
  void write(int64_t begin, int64_t end, int32_t step, std::vector<int32_t>& after);

 private:
  static constexpr int32_t kNone = -1;
  /// A list that only grows at its head, so that the halves of a segment that is split share what they have.
  struct Reader {
    int32_t step, next;
  };
  struct Segment {
    int64_t end = 0;
    int32_t writer = kNone, readers = kNone;  // readers: an index into readers_.
  };
  using Segments = std::pmr::map<int64_t, Segment>;
  // As many are made as a program has accesses, and all go at once.
  std::unique_ptr<std::pmr::monotonic_buffer_resource> memory_ =
      std::make_unique<std::pmr::monotonic_buffer_resource>();
  Segments segments_{memory_.get()};  // By begin; no two overlap.
  std::vector<Reader> readers_;

  /// The first segment that begins at `where` or behind it; one that lies across is split.
  Segments::iterator splitAt(int64_t where);
};

class ScheduleBuilder {
 public:
  ScheduleBuilder(const Problem& problem, std::string_view algorithm, int32_t slices);

  /// True when no data moves between ranks (no elements, one rank); the local copies are then made.
  bool trivial();

  static Range input(Span span) { return {BufferKind::kInput, span.offset, span.count, -1}; }
  static Range output(Span span) { return {BufferKind::kOutput, span.offset, span.count, -1}; }
  /// Input as the contribution of the rank whose it is.
  static Range contribution(Span span, int rank) { return {BufferKind::kInput, span.offset, span.count, rank}; }
  /// The first `count` elements of an allocated range.
  static Range first(Range range, int64_t count, int contributor = -1) {
    return {range.buffer, range.offset, count, contributor};
  }
  /// Room in kScratch or kPartial, at the same place on every rank.
  Range allocate(BufferKind buffer, int64_t elements);

  /// Each does nothing for ranges without elements.
  void copy(int rank, const Range& dst, const Range& source);
  void reduce(int rank, const Range& dst, const std::vector<Range>& sources);
  /// A message from rank to rank; a copy when they are one.
  void move(int from, const Range& source, int to, const Range& dst);

  /// A message without elements, sent after steps of `from`; gives the receiving step.
  int32_t signal(int from, int to, const std::vector<int32_t>& after);

  Schedule finish();

 private:
  /// Spaces of a rank: its buffers, and input and output as one memory.
  static constexpr int kInPlace = 4, kSpaces = 5;
  Schedule schedule_;
  std::vector<AccessMap> accesses_;  // By rank, space.
  int32_t add(Step step);
  void order(Step& step, int32_t index);
  /// Where a range lies when input and output of the rank are one memory; false when it never is.
  bool inPlace(int rank, const Range& range, int64_t& begin) const;
};

}  // namespace hpu::collectives
