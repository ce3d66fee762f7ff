// SPDX-License-Identifier: Apache-2.0
// Scenario: what goes wrong, at which rank, when; all of it from one number. The one thing to know:
// the driver and the ranks make it from the same seed, so a scenario can be run again by its seed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hpu/collectives.h"
#include "hpu/types.h"

namespace hpu::collectives::testing {

inline constexpr int kScenarioRanks = 4;

enum class Mishap : uint8_t {
  kNone,
  kKill,   ///< SIGKILL.
  kStop,   ///< SIGSTOP; SIGCONT or SIGKILL when the others have given up.
  kPause,  ///< SIGSTOP and, well within the deadline, SIGCONT: nothing fails.
  kCount,  ///< The victim's call differs from the others'.
  kType,
  kOp,
  kRoot,
  kCollective,
  kMissing,  ///< The victim lives and does not call.
  kExtra,    ///< It makes a call that the others do not make.
  kAbort,    ///< Another thread of it aborts.
  kPointer,  ///< Its call has wrong addresses, fails at once, and is made again rightly.
  kMemory,   ///< Its device is full when a call needs scratch memory.
  kLeave     ///< It drops its communicator and ends, well-behaved.
};
inline constexpr int kNumMishaps = 15;
const char* mishapName(Mishap mishap);

enum class Moment : uint8_t { kInit, kOperation, kFinalize };

struct ScenarioCall {
  enum Kind : uint8_t { kAllReduce, kBroadcast, kAllGather, kReduceScatter, kReduce } kind = kAllReduce;
  int64_t count = 0;
  ElementType type = ElementType::kI32;
  ReduceOp op = ReduceOp::kSum;
  int root = 0;
};

struct Scenario {
  uint64_t seed = 0;
  Mishap mishap = Mishap::kNone;
  Moment moment = Moment::kOperation;
  int victim = 0;
  int at = 0;               ///< Which call.
  int64_t delayUs = 0;      ///< From the moment on.
  int host = -1;            ///< The rank whose process has the coordinator; -1: the driver's.
  bool endsByKill = false;  ///< Of kStop.
  int waitEvery = 1;        ///< Calls that are enqueued before each wait.
  std::vector<ScenarioCall> calls;

  std::string text() const;
};
Scenario makeScenario(uint64_t seed);

/// Without progress of a rank, and of the creation.
inline constexpr int64_t kTimeoutMs = 2500, kInitTimeoutMs = 5000;
/// How long a pause is.
inline constexpr int64_t kPauseMs = 300;

}  // namespace hpu::collectives::testing
