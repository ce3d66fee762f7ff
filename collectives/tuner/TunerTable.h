// SPDX-License-Identifier: Apache-2.0
// TunerTable: a text file that overrides the tuner for some problems.
// The one thing to know: the first line that matches wins, and every rank must have the same lines. A line whose
// algorithm is one among nodes (collectives/scaleout) is for communicators of several nodes, others for those of one.
//
//   # collective     ranks  element-bytes  min-bytes  max-bytes  algorithm         slices
//   all-reduce       8      *              0          64K        mesh-one-shot     1
//   broadcast        *      *              16M        *          scatter-exchange  *
//   all-reduce       *      *              1M         *          rails             8
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collectives/schedule/Schedule.h"
#include "hpu/status.h"

namespace hpu::collectives {

/// '*' is any (of slices: the best of the algorithm's); '#' begins a comment; sizes are
/// problemBytes(), both ends included, with K, M, G.
class TunerTable {
 public:
  struct Rule {
    int32_t collective = -1, ranks = -1, elementBytes = -1;  ///< -1: any.
    int64_t minBytes = 0, maxBytes = INT64_MAX;
    std::string algorithm;
    bool amongNodes = false;  ///< Its algorithm is one of planAlgorithms(), else one of a node's.
    int32_t slices = 0;       ///< Chunks among nodes; 0: the best of the algorithm's.
    int line = 0;
    std::string file;
  };
  /// Errors: kInvalidArgument, with the file and the line.
  static StatusOr<TunerTable> parse(const std::string& text, const std::string& fileName);
  static StatusOr<TunerTable> load(const std::string& path);
  /// The first rule for the problem whose algorithm is one among nodes, or (false) of a node; null for none.
  const Rule* match(const Problem& problem, bool amongNodes = false) const;
  const std::vector<Rule>& rules() const { return rules_; }
  /// Of the rules, without comments and white space; 0 when there are none.
  uint64_t hash() const { return hash_; }

 private:
  std::vector<Rule> rules_;
  uint64_t hash_ = 0;
};

}  // namespace hpu::collectives
