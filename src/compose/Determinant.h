// SPDX-License-Identifier: Apache-2.0
// Determinants of small square matrices.
#pragma once

#include "compose/Emitter.h"

namespace hpu::compose {

constexpr int64_t kMostDeterminantRows = 64;

/// Of the last two dims, by elimination with the largest pivot of each column; as many steps as there are rows.
Value determinant(Emitter& c, Value matrices);

}  // namespace hpu::compose
