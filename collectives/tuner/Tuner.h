// SPDX-License-Identifier: Apache-2.0
// Tuner: which algorithm, cut into how many slices, for a problem on a node or among several; with the reason.
// The one thing to know: the choice depends on the problem, the link model or cluster and the override table
// alone, so all ranks choose alike (the table's hash is part of what ranks compare).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "collectives/scaleout/Choose.h"
#include "collectives/schedule/Schedule.h"
#include "collectives/schedule/Timing.h"
#include "collectives/topology/LinkModel.h"
#include "collectives/tuner/TunerTable.h"
#include "hpu/status.h"

namespace hpu::collectives {

struct Cluster;

struct Candidate {
  std::string algorithm;
  int32_t slices = 1;
  int64_t predictedPs = 0;
  bool estimated = false;  ///< In closed form, as most are among nodes (collectives/scaleout/Choose.h).
};

struct Choice {
  std::shared_ptr<const Schedule> schedule;     ///< Checked; among nodes, of a plan that is proven: one rank's steps.
  std::shared_ptr<const OperationTimer> timer;  ///< Of the operation on the tuner's links.
  int64_t predictedPs = 0, lowerBoundPs = 0;    ///< The timer's, unless it is `estimated`.
  bool estimated = false;   ///< Among nodes, where timing the plan takes longer than a choice may: ask the timer.
  bool amongNodes = false;  ///< Of a plan; slices are its chunks.
  ChoiceWork work;          ///< Among nodes: what it cost, the rank's own steps included.
  /// All that were priced, ascending by time. Unless a rule overrode it the first is chosen; on a node, of
  /// those within 0.2 % of it, the one that moves the fewest bytes in the fewest steps.
  std::vector<Candidate> candidates;
  /// "mesh, 8 slices: 12.1 us; next ring, 4 slices: 19 us", "ring, 4 slices: 19 us (rule at F:3)",
  /// "rails, 8 chunks: 3.6 ms; next rails-one-shot, 1 chunk: about 9 ms": an estimate.
  std::string reason;
};

/// Any thread may call. Choices are kept by problem, least recently used go; all tuners of this
/// process without a table share them, so that ranks that are threads choose once (not among nodes).
class Tuner {
 public:
  /// `links` lives as long as the tuner.
  explicit Tuner(const LinkModel& links, TunerTable table = {});
  /// Of `rank` of a communicator of several nodes: choices are plans of collectives/scaleout, their schedules have the
  /// steps of that rank alone. Only rules that name one of planAlgorithms() count; their slices are chunks.
  Tuner(std::shared_ptr<const Cluster> cluster, int32_t rank, TunerTable table = {});
  ~Tuner();
  /// The first call for a problem takes about a millisecond (up to 64 MB among 8 ranks), among 1,024 ranks of 128 nodes
  /// at most ten and 10 MB (Choice::work); the next ones are a look-up. Errors: kUnimplemented (nothing accepts the
  /// problem); kInvalidArgument (a rule names an algorithm that does not); kInternal (a schedule failed its check).
  StatusOr<std::shared_ptr<const Choice>> choose(const Problem& problem);
  uint64_t tableHash() const { return table_.hash(); }
  /// Of a node.
  const LinkModel& links() const { return links_; }
  /// Null: one node.
  const std::shared_ptr<const Cluster>& cluster() const { return cluster_; }

 private:
  class Cache;
  static std::shared_ptr<Cache> sharedCache(const LinkModel& links);
  const std::shared_ptr<const Cluster> cluster_;
  const int32_t rank_ = 0;
  const LinkModel& links_;
  const TunerTable table_;
  std::shared_ptr<Cache> cache_;
};

/// The choice itself, uncached. `rule` may be null.
StatusOr<Choice> makeChoice(const Problem& problem, const LinkModel& links, const TunerTable::Rule* rule);
/// The same for a rank of a cluster.
StatusOr<Choice> makeChoice(const Problem& problem, std::shared_ptr<const Cluster> cluster, int32_t rank,
                            const TunerTable::Rule* rule);

/// Several lines for people: the problem, the choice, every candidate with its time and share of
/// the links' limit.
std::string choiceText(const Choice& choice);
/// "rails, 8 chunks: about 3.6 ms".
std::string candidateText(const Candidate& candidate, bool amongNodes);

}  // namespace hpu::collectives
