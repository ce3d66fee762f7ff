// SPDX-License-Identifier: Apache-2.0
// PlanSimulator: runs the programs of some ranks (the classes' representatives, or all) on a fabric's ports.
// The one thing to know: what happens at one time is ordered by what ranks of a class have in common (a rank's place at
// a shared port, then the number of its step), so that a representative's times are those of all ranks of its class.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "collectives/scaleout/EventHeap.h"
#include "collectives/scaleout/PlanTimer.h"
#include "collectives/scaleout/RankClasses.h"
#include "collectives/scaleout/RoleSteps.h"

namespace hpu::collectives {

class PlanSimulator {
 public:
  PlanSimulator(const Fabric& fabric, const PlanTimerOptions& options) : fabric_(fabric), options_(options) {}
  PlanSimulator(const PlanSimulator&) = delete;
  PlanSimulator& operator=(const PlanSimulator&) = delete;

  /// What is given lives as long as the simulator. Errors: kInternal (messages whose ends do not match),
  /// kInvalidArgument (too many steps).
  Status add(const Plan& plan, std::span<const RoleSteps> roles, const RankClasses& classes, const RankPorts& ports,
             std::span<const int64_t> arrivalPs, const LinkState& links);
  /// Once. Errors: kInternal (steps that wait for ever).
  Status run();
  /// Of the operation that was added `operation`-th. Ports are those of all operations.
  PlanTiming timing(size_t operation) const;

 private:
  // Of one time, events come in this order: first what ends, which makes messages ready; then ports, in the order in
  // which messages pass them. A message takes at least a picosecond, so nothing of an earlier phase comes later.
  enum Phase : uint64_t { kEnd, kRailOut, kUplink, kDownlink, kRailIn };

  struct Operation {
    const Plan* plan = nullptr;
    const RankClasses* classes = nullptr;
    std::span<const RoleSteps> roles;
    int32_t firstRank = 0;  // Of simulated ranks.
  };
  struct SimRank {
    const RoleSteps* role = nullptr;
    int32_t operation = 0, rank = 0, alike = 1;
    int32_t base = 0;                                                            // Number of its first step.
    size_t peers = 0;                                                            // Its first in peers_.
    int32_t engine = -1, railOut = -1, railIn = -1, uplink = -1, downlink = -1;  // Ports.
    int64_t arrivalPs = 0, endPs = 0;
    double rate = 1;
    int64_t spans = -1;  // Its first in stepStart_ and stepEnd_.
  };
  struct Peer {
    int32_t link = -1;  // Port of the mesh; -1: by rail.
    bool across = false;
  };
  struct Port {
    int64_t freePs = 0;
    int32_t use = -1;  // In uses_.
  };

  Status match(const RankPorts& ports, int32_t from, const LinkState& links);
  Status matchPair(int32_t from, int32_t to, std::span<const int32_t> sends, std::span<const int32_t> receives);
  int32_t port(PortUse::Kind kind, int32_t node, int32_t index, int32_t alike);
  void notBefore(int32_t port, int64_t freePs) {
    ports_[static_cast<size_t>(port)].freePs = std::max(ports_[static_cast<size_t>(port)].freePs, freePs);
  }
  int64_t take(int32_t port, int64_t readyPs, int64_t costPs, int64_t bytes);
  int64_t takeLane(int32_t port, int64_t readyPs, int64_t costPs, int64_t bytes);
  void note(int32_t port, int32_t lane, int64_t readyPs, int64_t startPs, int64_t costPs, int64_t bytes);
  void push(int64_t timePs, Phase phase, int32_t step) {
    events_.push({timePs, static_cast<uint64_t>(phase) << 32 | static_cast<uint32_t>(step)});
  }
  void release(int32_t step, int64_t nowPs);
  void begin(int32_t send, int64_t nowPs);
  void finish(int32_t send, int64_t endPs);
  void finishStep(int32_t step, int64_t endPs);
  void end(int32_t step, int64_t nowPs);
  void setSpan(int32_t step, int64_t startPs);
  int64_t lanePs(int64_t railPs) const;
  Status stuck() const;

  const Fabric& fabric_;
  const PlanTimerOptions& options_;
  std::vector<Operation> operations_;
  std::vector<SimRank> ranks_;
  std::vector<Peer> peers_;
  std::vector<Port> ports_;
  std::unordered_map<uint64_t, int32_t> portOf_;
  std::vector<PortUse> uses_;
  std::vector<PortInterval> intervals_;
  EventHeap events_;
  // By step of the simulated ranks.
  std::vector<int32_t> rankOf_, partner_, next_;
  std::vector<int32_t> waits_;   // Sends wait for their receive and for the pair's earlier send, too.
  std::vector<int64_t> leftPs_;  // Of messages under way: when the last of the ports so far is done with it.
  std::vector<int64_t> stepStart_, stepEnd_;
  int32_t lanes_ = 1;
  double laneFactor_ = 1;
  int64_t done_ = 0, eventCount_ = 0;
};

}  // namespace hpu::collectives
