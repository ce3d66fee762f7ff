// SPDX-License-Identifier: Apache-2.0
// RoleSteps: the program of a role in flat arrays, with what its messages' ends need to find each other.
// The one thing to know: peers' names are brought to one form and each is there once, so that the name by which a peer
// calls a rank back is found by a look-up, not by resolving all the peer's names.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "collectives/scaleout/Program.h"
#include "hpu/status.h"

namespace hpu::collectives {

struct RoleSteps {
  std::vector<StepKind> kind;
  std::vector<int32_t> peer;  ///< Of messages: an index into names.
  std::vector<int64_t> bytes;
  std::vector<int32_t> waits;  ///< How many earlier steps it waits for.
  /// The steps that wait for step i are dependents[dependentsFirst[i]] to dependents[dependentsFirst[i + 1]].
  std::vector<int32_t> dependentsFirst, dependents;
  std::vector<PeerName> names;  ///< In one form; each differs from the others and is used.
  /// Sends to (receives from) name p, ascending: sends[sendsFirst[p]] to sends[sendsFirst[p + 1]].
  std::vector<int32_t> sendsFirst, sends, receivesFirst, receives;

  int32_t size() const { return static_cast<int32_t>(kind.size()); }
  /// By which names a rank `from` of this role calls rank `to`: ascending indices into names.
  void namesOf(const RankMap& map, int32_t from, int32_t to, std::vector<int32_t>& result) const;
  bool uses(PeerName::Form form) const { return forms_[static_cast<size_t>(form)]; }
  /// The program of `rank`. Errors: kInternal, naming the rank and the step that is not a program's.
  static StatusOr<RoleSteps> create(const Plan& plan, int32_t rank);

 private:
  std::vector<std::pair<uint64_t, int32_t>> byKey_;
  std::array<bool, 4> forms_{};
};

/// As resolve(), but -1 when there is no such rank.
int32_t resolveChecked(const RankMap& map, int32_t rank, PeerName peer);

}  // namespace hpu::collectives
