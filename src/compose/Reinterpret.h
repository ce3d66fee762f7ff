// SPDX-License-Identifier: Apache-2.0
// Bytes of a tensor read as elements of another type.
#pragma once

#include "compose/Emitter.h"

namespace hpu::compose {

/// The same bytes as elements of `to`. Of another width the last dim grows or shrinks: elements are cut into their
/// parts, or parts put together, least significant first (as memory has them). A failure where the bytes of the last
/// dim are no whole number of elements.
Value reinterpret(Emitter& e, Value v, ElementType to);

}  // namespace hpu::compose
