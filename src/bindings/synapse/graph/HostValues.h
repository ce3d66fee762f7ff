// SPDX-License-Identifier: Apache-2.0
// Values in host memory, converted to the element type that the device holds them in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "hpu/status.h"
#include "hpu/target.h"

namespace hpu::synapse {

/// The elements of `values`, `from` a synDataType, as `to`: floats are rounded to nearest even and saturate in
/// 8-bit formats, floats become integers by truncation, integers keep their low bits. Errors: kInvalidArgument
/// (a size that is no number of elements), kUnimplemented (a type without a host format).
StatusOr<std::vector<std::byte>> convertValues(const std::vector<std::byte>& values, uint32_t from, uint32_t to,
                                               Target target);

}  // namespace hpu::synapse
