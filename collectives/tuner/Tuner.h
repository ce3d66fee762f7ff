// SPDX-License-Identifier: Apache-2.0
// Tuner: which algorithm, cut into how many slices, for a problem on a node; with the reason.
// The one thing to know: the choice depends on the problem, the link model and the override table
// alone, so all ranks choose alike (the table's hash is part of what ranks compare).
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "collectives/schedule/Schedule.h"
#include "collectives/topology/LinkModel.h"
#include "hpu/status.h"

namespace hpu::collectives {

struct Candidate {
  std::string algorithm;
  int32_t slices = 1;
  int64_t predictedPs = 0;
};

struct Choice {
  std::shared_ptr<const Schedule> schedule;  ///< Checked.
  int64_t predictedPs = 0, lowerBoundPs = 0;
  std::vector<Candidate>
      candidates;      ///< Ascending by time; the first is chosen unless a rule overrode it.
  std::string reason;  ///< "mesh, 8 slices: 12.1 us; next ring, 4 slices: 19.0 us".
};

/// Lines "collective ranks dtype-bytes min-bytes max-bytes algorithm slices"; '*' for any; '#'
/// comments. The first match wins.
class TunerTable {
 public:
  /// Errors: kInvalidArgument, with the file and the line.
  static StatusOr<TunerTable> parse(const std::string& text, const std::string& fileName);
  static StatusOr<TunerTable> load(const std::string& path);
  uint64_t hash() const { return hash_; }
  struct Rule {
    int32_t collective = -1, ranks = -1, elementBytes = -1;  ///< -1: any.
    int64_t minBytes = 0, maxBytes = INT64_MAX;
    std::string algorithm;
    int32_t slices = 0;  ///< 0: the best of the algorithm's.
    int line = 0;
  };
  const Rule* match(const Problem& problem) const;

 private:
  std::vector<Rule> rules_;
  uint64_t hash_ = 0;
};

/// Any thread may call. Choices are cached by problem (least recently used go).
class Tuner {
 public:
  Tuner(const LinkModel& links, TunerTable table);
  /// Errors: kUnimplemented (nothing accepts the problem); kInvalidArgument (a rule names an
  /// algorithm that does not); kInternal (a schedule failed its check).
  StatusOr<std::shared_ptr<const Choice>> choose(const Problem& problem);
  uint64_t tableHash() const { return table_.hash(); }
  const LinkModel& links() const { return links_; }

 private:
  const LinkModel& links_;
  const TunerTable table_;
  std::mutex mutex_;  // Guards the cache.
  struct Cache;
  std::shared_ptr<Cache> cache_;
};

}  // namespace hpu::collectives
