// SPDX-License-Identifier: Apache-2.0
// Values: what ranks gather, as bytes.
// The one thing to know: values that are alike cost next to nothing, and of those that are not only the bytes are sent
// in which each differs from the one before it: cards of ranks differ in a few numbers.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "collectives/bootstrap/Wire.h"

namespace hpu::collectives {

/// Each with its place in the group.
using PlacedValues = std::vector<std::pair<int32_t, std::string>>;

inline constexpr size_t kMaxProcessBytes = 1024;  ///< Of the text that tells of a process.

/// What some members of a group have gathered.
struct Part {
  Status status;  ///< Not ok: there will be no values.
  PlacedValues values;
  PlacedValues processes;  ///< In a group's first phase: of each process its first member, and "process 123 on host-a".
};

/// Whatever their order, they come back by ascending place.
std::string encodePart(const Part& part);
/// All values of a part have at most `most` bytes: those of more are refused before memory is spent on them. Errors:
/// kInternal (malformed; a place that is not below `places`, or comes twice), kResourceExhausted.
StatusOr<Part> decodePart(std::string_view bytes, size_t places, uint64_t most = wire::kMaxGatheredBytes);
/// The longest message that a part of a group of so many members can be, with its phase's name.
size_t mostPartBytes(size_t members);

/// As arithmetic sequences: 0, 0, 0, 1, 1, 1 is two, 0, 1, 2, 3 is one.
void encodeRuns(const std::vector<int32_t>& numbers, wire::Writer& out);
/// At most `limit` of them, else `in` is not ok.
std::vector<int32_t> decodeRuns(wire::Reader& in, size_t limit);

/// Which process the ranks of a communicator are of: numbers from 0, by rank.
struct Roster {
  std::vector<int32_t> processOf;
};
std::string encodeRoster(const Roster& roster);
StatusOr<Roster> decodeRoster(std::string_view bytes, size_t ranks);

}  // namespace hpu::collectives
