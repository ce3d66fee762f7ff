// SPDX-License-Identifier: Apache-2.0
// SynapseAI's element types (synDataType) as ours, and its order of sizes as ours.
// The one thing to know: sizes are reversed: SynapseAI's index 0 is the last dim of an hpu::Shape.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compose/Elements.h"
#include "hpu/status.h"
#include "hpu/target.h"
#include "hpu/types.h"

namespace hpu::synapse {

/// Errors: kInvalidArgument (no such type), kUnimplemented (a 4-bit or unsigned-float type).
StatusOr<ElementType> elementTypeOf(uint32_t synDataType, Target target);
/// The synDataType of an element type; of kBool the one of i8. 0 when SynapseAI has none.
uint32_t synDataTypeOf(ElementType type);

using compose::isFloat;
using compose::isInteger;

/// Sizes, slowest first. Errors: kInvalidArgument when the tensor could not be addressed.
StatusOr<Shape> shapeOf(const std::vector<uint64_t>& sizes);
/// And back: fastest first.
std::vector<uint64_t> sizesOf(const Shape& shape);
/// "{4, 3}": sizes as SynapseAI's users write them.
std::string sizesText(const std::vector<uint64_t>& sizes);
std::string sizesText(const Shape& shape);
/// The compiler's words with its types, "2x3xf32", as "{3, 2} f32".
std::string inUsersOrder(std::string_view text);

using compose::convertElements;

}  // namespace hpu::synapse
