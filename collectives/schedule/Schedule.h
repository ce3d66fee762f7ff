// SPDX-License-Identifier: Apache-2.0
// Schedule: a collective operation as data: for each rank, a DAG of copies, reductions, sends and
// receives over ranges of its buffers. Algorithms make it; the checker, the cost model, the
// executor and the exporter read it. The one thing to know: the k-th send of rank a to rank b and
// the k-th receive of b from a are one message, in the order of `steps`; all other ordering is by
// `after`, and only within a rank.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hpu::collectives {

/// The values are part of call records that ranks compare, and never change.
enum class Collective : uint8_t {
  kAllReduce = 0,
  kReduceScatter = 1,
  kAllGather = 2,
  kAllToAll = 3,
  kBroadcast = 4,
  kReduce = 5,
  kGather = 6,
  kScatter = 7,
  kBarrier = 8,
  kPointToPoint = 9,  ///< From `root` to `destination`, with the other ranks as relays.
};
inline constexpr int kNumCollectives = 10;
/// "all-reduce", "point-to-point" ...
std::string_view collectiveName(Collective collective);
std::optional<Collective> parseCollective(std::string_view name);
/// All-reduce, reduce-scatter and reduce: only they may have kReduce steps.
bool isReducing(Collective collective);
/// nccl-tests' factor from bytes over time (algbw) to what the links carry (busbw).
double busFactor(Collective collective, int ranks);

/// What is to be done, without addresses: equal problems have equal schedules on every rank. In
/// place is not part of it, because ranks may differ in that: a schedule is right both when input
/// and output are distinct and when they are one memory as HCCL has it (all-reduce, broadcast,
/// reduce: the same start; reduce-scatter, and scatter at its root: the output is the rank's part
/// of the input; all-gather, and gather at its root: the input is the rank's part of the output;
/// never for all-to-all). Copies onto themselves are not run.
struct Problem {
  Collective collective = Collective::kAllReduce;
  int32_t ranks = 1;
  /// Elements, as HCCL counts them: all-reduce, broadcast, reduce, point-to-point: of the whole
  /// buffer; reduce-scatter: of one rank's output; all-gather, gather: of one rank's input;
  /// scatter: of one rank's output; all-to-all: of what one rank sends to one other.
  int64_t count = 0;
  int32_t root = 0;         ///< Of broadcast, reduce, gather, scatter, point-to-point.
  int32_t destination = 0;  ///< Of point-to-point.
  int32_t elementBytes = 4;
  int32_t partialBytes = 4;  ///< Of one element of a kPartial buffer: the accumulator's.
  bool operator==(const Problem&) const = default;
};

/// Elements of rank `rank`'s input and output; 0 where it has none (a broadcast's input off root,
/// ...).
int64_t inputElements(const Problem& problem, int rank);
int64_t outputElements(const Problem& problem, int rank);
/// S of nccl-tests, the size that tables and benchmarks name: the bytes of all ranks' parts
/// together for gather, scatter, all-gather, reduce-scatter and all-to-all, else of the buffer.
int64_t problemBytes(const Problem& problem);
/// What to add to an index into the input to get the same memory's index into the output when the
/// rank's call is in place; nothing when the operation has no in-place form there.
std::optional<int64_t> inPlaceOffset(const Problem& problem, int rank);
/// "all-reduce of 1024 elements of 4 bytes among 8 ranks"
std::string problemText(const Problem& problem);

enum class BufferKind : uint8_t {
  kInput,    ///< The caller's; read only.
  kOutput,   ///< The caller's; each element is written by one step, or by several that are ordered.
  kScratch,  ///< The rank's own, in the data's type.
  kPartial,  ///< The rank's own, in the accumulator's type: partial results lose nothing on their
             ///< way.
};

/// Elements [offset, offset + count) of a buffer of the step's rank.
struct Range {
  BufferKind buffer = BufferKind::kInput;
  int64_t offset = 0, count = 0;
  /// Of a reduction's source that is not kPartial: the rank whose contribution it is (scaling by
  /// rank).
  int32_t contributor = -1;
  bool operator==(const Range&) const = default;
};

enum class StepKind : uint8_t {
  kCopy,    ///< dst = source, same rank, same type.
  kReduce,  ///< dst = op over the sources in their order, in the accumulator's type; rounded once,
            ///< and averaged, when dst is not kPartial.
  kSend,    ///< Offers the source to `peer`; done when the peer's receive, and what reads it there in
            ///< place, are done.
  kRecv,    ///< Fills dst with the peer's message, which has as many elements of the same form.
};

struct Step {
  StepKind kind = StepKind::kCopy;
  int32_t rank = 0;
  int32_t peer = -1;           ///< Of sends and receives.
  Range dst;                   ///< Of copies, reductions and receives.
  std::vector<Range> sources;  ///< One; of a reduction one or more.
  std::vector<int32_t> after;  ///< Earlier steps of the same rank that must be done before it begins.
};

struct Schedule {
  Problem problem;
  std::string algorithm;                             ///< "mesh", "ring" ...: a name of algorithms/Registry.h.
  int32_t slices = 1;                                ///< Into how many pieces the data was cut, for people.
  std::vector<Step> steps;                           ///< Of all ranks; `after` points backwards.
  int64_t scratchElements = 0, partialElements = 0;  ///< Of each rank.
  /// Indices into steps by rank, ascending; filled in by finish().
  std::vector<std::vector<int32_t>> ofRank;
  void finish();
};

std::string_view bufferName(BufferKind buffer);  ///< "input", "output", "scratch", "partial"
std::string_view stepName(StepKind kind);        ///< "copy", "reduce", "send", "receive"
std::string rangeText(const Range& range);       ///< "input[0, 128)"
/// "step 17 (rank 3: receive scratch[0, 128) from rank 2)": for errors.
std::string stepText(const Schedule& schedule, int32_t index);

}  // namespace hpu::collectives
