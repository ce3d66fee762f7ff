// SPDX-License-Identifier: Apache-2.0
// The node types: names, operand counts, whether they take parameters. Pure data, shared by synNodeCreate
// and the lowering.
// The one thing to know: a GUID is a base name and, for kernels, an element type: "relu_fwd_f32".
//
//   HPU_ASSIGN(ParsedGuid guid, parseGuid("Add_BF16"));  // guid.info->name "add_fwd", type "bf16"
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "hpu/status.h"

namespace hpu::synapse {

enum class GuidClass : uint8_t { kApi, kTpc, kTpcPlain, kInternal };
enum class GuidParams : uint8_t { kNone, kOptional, kRequired };

struct GuidInfo {
  std::string_view name;
  GuidClass kind = GuidClass::kApi;
  uint16_t minInputs = 0, maxInputs = 0, minOutputs = 0, maxOutputs = 0;
  GuidParams params = GuidParams::kNone;
};
inline constexpr uint16_t kMany = 0xFFFF;  ///< A count without limit.

struct ParsedGuid {
  const GuidInfo* info = nullptr;
  uint32_t type = 0;  ///< synDataType of the suffix; 0 without one. Of a cast: what it casts from.
  uint32_t to = 0;    ///< Of a cast: what it casts to; else 0.
};

/// All types, sorted by name.
std::span<const GuidInfo> allGuids();

/// Any letter case. Errors: kUnimplemented (no such type; the message names similar ones),
/// kInvalidArgument (a kernel without its suffix, a name of the compiler's own).
StatusOr<ParsedGuid> parseGuid(std::string_view guid);

}  // namespace hpu::synapse
