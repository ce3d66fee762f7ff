// SPDX-License-Identifier: Apache-2.0
// Merge: the recordings of several processes as one .hputrace file.
// The one thing to know: host times are shifted onto one clock, and only when it is known how they
// lie to each other (or the caller says how); device times stay each device's own, byte for byte.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hpu/status.h"
#include "runtime/trace/TraceData.h"

namespace hpu::trace {

/// How the host clocks of the recordings are laid over each other.
enum class Align : uint8_t {
  kClock,  ///< By the clock that recordings of one boot of one machine share: exact.
  kWall,   ///< Those of other machines by their wall clocks: as good as these were set.
  kStart,  ///< Every recording begins at 0: nothing is known about the times between them.
};

struct MergeInput {
  std::string path;  ///< For messages.
  const TraceData* trace = nullptr;
};

struct Merged {
  std::vector<uint8_t> bytes;  ///< The file.
  struct Process {
    size_t input = 0;  ///< Index of the recording.
    uint64_t pid = 0;
    std::string name;
    int64_t offsetNs = 0;  ///< Of its start, since the merged trace's.
    bool exact = true;     ///< The offset is one of a shared clock.
  };
  std::vector<Process> processes;
  /// Devices whose index another recording has too.
  struct Renumbered {
    size_t input = 0;
    uint32_t before = 0, after = 0;
  };
  std::vector<Renumbered> renumbered;
};

/// Errors: kInvalidArgument (no input, the same recording twice), kFailedPrecondition (clocks that
/// cannot be aligned as asked; names the two files), kOutOfRange (times too far apart).
StatusOr<Merged> mergeTraces(const std::vector<MergeInput>& inputs, Align align);

}  // namespace hpu::trace
