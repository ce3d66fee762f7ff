// SPDX-License-Identifier: Apache-2.0
// Ranks that others wait for in vain, and what is known of them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hpu/status.h"

namespace hpu::collectives {

/// What the coordinator knows of a rank that others wait for.
enum class MemberState : uint8_t {
  kAbsent,   ///< It has not come.
  kPresent,  ///< It has come, but not as far as the others.
  kLeft,     ///< It has left in order.
  kDied,     ///< Its connection broke: the process ended, or its machine.
};
struct MissingRank {
  int32_t rank = 0;
  MemberState state = MemberState::kAbsent;
  std::string description;  ///< "process 123 on host-a"; empty when it never came.
};
/// "rank 5 (process 123 on host-a)".
std::string rankName(int32_t rank, const std::string& description);
std::string encodeMissing(const std::vector<MissingRank>& missing);
StatusOr<std::vector<MissingRank>> decodeMissing(std::string_view payload);
/// "rank 2 has not come; rank 5 (process 123 on host-a) has died".
std::string missingText(const std::vector<MissingRank>& missing);
/// The ranks of which an error with such a text says that they have not come.
std::vector<int32_t> absentRanks(std::string_view error);

}  // namespace hpu::collectives
