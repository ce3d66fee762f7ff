// SPDX-License-Identifier: Apache-2.0
// Plans and fabrics that the tests of the timer share.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collectives/scaleout/PlanTimer.h"
#include "collectives/scaleout/Program.h"

namespace hpu::collectives::test {

/// A plan whose programs a function writes.
class TestPlan final : public Plan {
 public:
  TestPlan(RankMap map, std::vector<int32_t> roleOf, std::function<Program(int32_t)> write);
  const Problem& problem() const override { return problem_; }
  const RankMap& map() const override { return map_; }
  std::string_view algorithm() const override { return "of the test"; }
  int32_t chunks() const override { return 1; }
  int32_t roles() const override { return roles_; }
  int32_t roleOf(int32_t rank) const override { return roleOf_[static_cast<size_t>(rank)]; }
  Program program(int32_t rank) const override {
    ++programs_;
    return write_(rank);
  }
  int programs() const { return programs_; }  ///< How many were asked for.

 private:
  Problem problem_;
  RankMap map_;
  std::vector<int32_t> roleOf_;
  std::function<Program(int32_t)> write_;
  int32_t roles_ = 1;
  mutable int programs_ = 0;
};

/// A schedule of one node: each rank a role.
TestPlan planOf(const Schedule& schedule, RankMap map);

inline PeerName gridShift(int32_t node, int32_t local) {
  return {PeerName::Form::kGridShift, node, local};
}
inline PeerName nodeXor(int32_t flip) {
  return {PeerName::Form::kNodeXor, flip, 0};
}
inline PeerName rankShift(int32_t shift) {
  return {PeerName::Form::kRankShift, shift, 0};
}
inline PeerName toRank(int32_t rank) {
  return {PeerName::Form::kRank, rank, 0};
}

/// Gives the step's number.
int32_t add(Program& program, StepKind kind, PeerName peer, int64_t bytes, std::vector<int32_t> after = {});
inline int32_t send(Program& program, PeerName peer, int64_t bytes, std::vector<int32_t> after = {}) {
  return add(program, StepKind::kSend, peer, bytes, std::move(after));
}
inline int32_t receive(Program& program, PeerName peer, int64_t bytes, std::vector<int32_t> after = {}) {
  return add(program, StepKind::kRecv, peer, bytes, std::move(after));
}

/// Round numbers: rails of 1 byte a ns, 50 ns on the way; links of 2 bytes a ns, 100 ns; 7 ns to start.
Fabric roundFabric(int32_t nodes, int32_t devices, int32_t rails);

/// Everything drawn from a seed: a fabric with shared rails, leaves, slow nodes and rails that are down, a map with
/// gaps and mixed numbers, a plan whose messages are shifts and exchanges, with random dependencies, and arrivals.
struct RandomCase {
  Fabric fabric;
  std::vector<TestPlan> plans;  ///< One, or several for operations at a time.
  std::vector<std::vector<int64_t>> arrivals;
  std::string text;
};
RandomCase randomCase(uint32_t seed, int operations);

/// Of operations at a time, timed with ports and intervals: no port has two messages at a time.
void expectNoPortExceeded(const std::vector<PlanTiming>& timings, const Fabric& fabric, const std::string& text);

}  // namespace hpu::collectives::test
