// SPDX-License-Identifier: Apache-2.0
#include "Scenario.h"

#include <random>

namespace hpu::collectives::testing {

const char* mishapName(Mishap mishap) {
  constexpr const char* kNames[] = {"none",       "kill",  "stop",    "pause",      "count",
                                    "type",       "op",    "root",    "collective", "missing call",
                                    "extra call", "abort", "pointer", "memory",     "leave"};
  return kNames[static_cast<int>(mishap)];
}

std::string Scenario::text() const {
  std::string when = moment == Moment::kInit ? "creation"
                     : moment == Moment::kFinalize
                         ? "finalize"
                         : "call " + std::to_string(at) + " of " + std::to_string(calls.size());
  return "seed " + std::to_string(seed) + ": " + mishapName(mishap) + " of rank " + std::to_string(victim) + " at " +
         when + " + " + std::to_string(delayUs) + " us, coordinator in " +
         (host < 0 ? "the driver" : "rank " + std::to_string(host)) + (endsByKill ? ", then killed" : "");
}

Scenario makeScenario(uint64_t seed) {
  // Its sequence is the standard's, the distributions are not: only its bits are used.
  std::mt19937_64 random(seed);
  auto pick = [&](uint64_t count) { return static_cast<int>(random() % count); };
  Scenario s;
  s.seed = seed;
  // Signals are the most, then what a program does wrong.
  constexpr Mishap kMishaps[] = {Mishap::kKill,  Mishap::kKill,       Mishap::kKill,    Mishap::kKill,  Mishap::kStop,
                                 Mishap::kStop,  Mishap::kPause,      Mishap::kCount,   Mishap::kType,  Mishap::kOp,
                                 Mishap::kRoot,  Mishap::kCollective, Mishap::kMissing, Mishap::kExtra, Mishap::kAbort,
                                 Mishap::kAbort, Mishap::kPointer,    Mishap::kMemory,  Mishap::kLeave, Mishap::kNone};
  s.mishap = kMishaps[pick(std::size(kMishaps))];
  s.victim = pick(kScenarioRanks);
  s.host = pick(2) ? 0 : -1;
  s.endsByKill = s.mishap == Mishap::kStop && pick(2);
  constexpr int64_t kCounts[] = {1, 5, 1000, 4096, 30011, 262144};
  constexpr ElementType kTypes[] = {ElementType::kI32, ElementType::kU32, ElementType::kF32};
  const int calls = 3 + pick(20);
  for (int i = 0; i < calls; ++i) {
    ScenarioCall call;
    call.kind = static_cast<ScenarioCall::Kind>(pick(5));
    call.count = kCounts[pick(std::size(kCounts))];
    call.type = kTypes[pick(std::size(kTypes))];
    call.op = pick(2) ? ReduceOp::kSum : ReduceOp::kMax;
    call.root = pick(kScenarioRanks);
    s.calls.push_back(call);
  }
  s.waitEvery = 1 + pick(static_cast<uint64_t>(calls));
  const int place = pick(3);
  s.at = place == 0 ? 0 : place == 1 ? calls - 1 : pick(static_cast<uint64_t>(calls));
  const bool bySignal = s.mishap == Mishap::kKill || s.mishap == Mishap::kStop || s.mishap == Mishap::kPause;
  const int moment = pick(6);
  if (bySignal || s.mishap == Mishap::kAbort)
    s.moment = moment == 0 ? Moment::kInit : moment == 1 ? Moment::kFinalize : Moment::kOperation;
  // The creation takes some milliseconds, and what follows less.
  s.delayUs = pick(s.moment == Moment::kInit ? 20000 : 3000);
  ScenarioCall& call = s.calls[static_cast<size_t>(s.at)];
  if (s.mishap == Mishap::kRoot) call.kind = pick(2) ? ScenarioCall::kBroadcast : ScenarioCall::kReduce;
  if (s.mishap == Mishap::kOp || s.mishap == Mishap::kPointer) call.kind = ScenarioCall::kAllReduce;
  if (s.mishap == Mishap::kMemory) {
    call.kind = ScenarioCall::kAllReduce;
    call.count = 262144;
  }
  return s;
}

}  // namespace hpu::collectives::testing
