// SPDX-License-Identifier: Apache-2.0
// SynapseAI's element types (synDataType) as ours, and its order of sizes as ours.
// The one thing to know: sizes are reversed: SynapseAI's index 0 is the last dim of an hpu::Shape.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hpu/status.h"
#include "hpu/target.h"
#include "hpu/types.h"
#include "numerics/ElementKinds.h"

namespace hpu::synapse {

/// Errors: kInvalidArgument (no such type), kUnimplemented (a 4-bit or unsigned-float type).
StatusOr<ElementType> elementTypeOf(uint32_t synDataType, Target target);
/// The synDataType of an element type; of kBool the one of i8. 0 when SynapseAI has none.
uint32_t synDataTypeOf(ElementType type);

using numerics::isFloat;
using numerics::isInteger;

/// Sizes, slowest first. Errors: kInvalidArgument when the tensor could not be addressed.
StatusOr<Shape> shapeOf(const std::vector<uint64_t>& sizes);
/// And back: fastest first.
std::vector<uint64_t> sizesOf(const Shape& shape);
/// "{4, 3}": sizes as SynapseAI's users write them.
std::string sizesText(const std::vector<uint64_t>& sizes);
std::string sizesText(const Shape& shape);
/// The compiler's words with its types, "2x3xf32", as "{3, 2} f32".
std::string inUsersOrder(std::string_view text);

/// `count` elements of one synDataType as another type; floats round to nearest even, integers wrap.
/// Errors: kUnimplemented for a pair that nothing converts; kInvalidArgument for a wrong number of bytes.
StatusOr<std::vector<std::byte>> convertElements(const std::vector<std::byte>& data, ElementType from, ElementType to,
                                                 int64_t count);

}  // namespace hpu::synapse
