// SPDX-License-Identifier: Apache-2.0
// Program: what one rank does in an operation among many nodes. A Plan is the rank-independent description: it gives
// the program of any rank alone, without those of the others.
// The one thing to know: ranks of one *role* have the same program but for where their data lies, and name their peers
// alike ("the same place of the next node"), so that one program a role is enough to price an operation, however many
// ranks have it. As in Schedule.h, the k-th send of a to b and the k-th receive of b from a are one message.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/fabric/RankMap.h"
#include "collectives/schedule/Schedule.h"

namespace hpu::collectives {

/// A peer, as seen from a rank at position (node, local) of N nodes with L ranks each (kNode..., kGrid) or of R ranks.
struct PeerName {
  enum class Form : uint8_t {
    kGridShift,  ///< ((node + a) mod N, (local + b) mod L); every node has L ranks.
    kNodeXor,    ///< (node ^ a, local): exists.
    kRankShift,  ///< (rank + a) mod R.
    kRank,       ///< Rank a. Only where the role is of one rank.
  };
  Form form = Form::kRankShift;
  int32_t a = 0, b = 0;
  bool operator==(const PeerName&) const = default;
};
int32_t resolve(const RankMap& map, int32_t rank, PeerName peer);

struct ProgramStep {
  StepKind kind = StepKind::kCopy;
  int32_t peer = -1;  ///< Of messages: an index into peers.
  /// What is priced: the bytes that the message carries, or that the copy or reduction reads and writes. Of the largest
  /// share where ranks' shares differ by a remainder, so that ranks of a role have equal costs.
  int64_t bytes = 0;
  Range dst;  ///< As in Step. May be of no elements; the step is there nevertheless.
  std::vector<Range> sources;
  std::vector<int32_t> after;  ///< Earlier steps of this program.
};

struct Program {
  std::vector<PeerName> peers;
  std::vector<ProgramStep> steps;
  int64_t scratchElements = 0, partialElements = 0;
};

/// An operation of one algorithm, cut in one way, on a map that outlives it. Any thread may call.
class Plan {
 public:
  virtual ~Plan() = default;
  virtual const Problem& problem() const = 0;
  virtual const RankMap& map() const = 0;
  virtual std::string_view algorithm() const = 0;
  /// Into how many pieces the data was cut, which go through the phases one behind another.
  virtual int32_t chunks() const = 0;
  virtual int32_t roles() const = 0;
  virtual int32_t roleOf(int32_t rank) const = 0;
  /// Time and memory: of this rank's steps alone.
  virtual Program program(int32_t rank) const = 0;
};

/// All ranks' programs as one schedule, for the checker, the exporters and small worlds. Steps in the order of the
/// ranks.
Schedule assemble(const Plan& plan);
/// The steps of one rank alone, for its executor: peers by their ranks, `after` among them, room of this rank. Not what
/// checkSchedule reads: messages have one end. `program`: the plan's of that rank, where the caller has it.
Schedule scheduleOf(const Plan& plan, int32_t rank);
Schedule scheduleOf(const Plan& plan, int32_t rank, Program program);
/// Ranks with one role have the same text but for ranges, peers' names resolve to other ranks of the map, messages
/// match in number and size, costs are not below the ranges' bytes. Errors: kInternal, naming rank and step. Cost: all
/// programs.
Status checkRoles(const Plan& plan);

/// How finely to cut, and what suits a fabric.
struct PlanOptions {
  int32_t chunks = 1;
};

struct PlanAlgorithm {
  std::string_view name;      ///< "rails", "rails-one-shot", "rails-tree", "rails-uneven", "pairwise", "hcl".
  std::string_view sentence;  ///< What it does and when it is good, for people.
  bool (*accepts)(const Problem& problem, const RankMap& map);
  std::unique_ptr<Plan> (*make)(const Problem& problem, const RankMap& map, const PlanOptions& options);
  /// Chunk counts worth trying, ascending; at least {1}.
  std::vector<int32_t> (*chunkChoices)(const Problem& problem, const RankMap& map, const Fabric& fabric);
  /// What timePlan would say, in closed form: for choosing. Within a few per cent where one port is the limit; no plan
  /// is made.
  int64_t (*estimatePs)(const Problem& problem, const RankMap& map, const Fabric& fabric, int32_t chunks);
};
const std::vector<PlanAlgorithm>& planAlgorithms();
/// Errors: kNotFound, naming those that accept the problem on that map.
StatusOr<const PlanAlgorithm*> findPlanAlgorithm(std::string_view name, const Problem& problem, const RankMap& map);

}  // namespace hpu::collectives
