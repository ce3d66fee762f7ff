// SPDX-License-Identifier: Apache-2.0
// synDataType without its header: sizes, names, the suffixes of GUIDs, and the element type of the same
// format.
#pragma once

#include <cstdint>
#include <string_view>

#include "hpu/target.h"
#include "hpu/types.h"

namespace hpu::synapse {

struct DataTypeInfo {
  uint32_t type = 0;        ///< synDataType.
  uint32_t bits = 0;        ///< Of one element.
  std::string_view name;    ///< "float32".
  std::string_view suffix;  ///< Of GUIDs: "f32"; empty: none.
  /// Of Gaudi 2 (deviceElementType knows the others); kInvalid: the runtime has no such format.
  ElementType element = ElementType::kInvalid;
};

/// Null for a value that is no type (also for syn_type_na).
const DataTypeInfo* findDataType(uint32_t type);
/// By suffix ("bf16"); null when no type has it.
const DataTypeInfo* findDataTypeBySuffix(std::string_view suffix);
/// The format on a target: fp8_143 is Gaudi 2's own there and OCP's on Gaudi 3. kInvalid: it has none.
ElementType deviceElementType(uint32_t type, Target target);
/// The name, or "none" for a value that is no type.
std::string_view dataTypeName(uint32_t type);

}  // namespace hpu::synapse
