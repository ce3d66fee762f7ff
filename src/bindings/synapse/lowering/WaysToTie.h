// SPDX-License-Identifier: Apache-2.0
// WaysToTie: which sizes that a node reads may be made equal, in the order in which that is tried.
#pragma once

#include <cstdint>
#include <vector>

#include "bindings/synapse/lowering/LoneNodes.h"
#include "bindings/synapse/lowering/SizeTies.h"

namespace hpu::synapse {

/// Of so many places all ways to make some equal are tried (203 ways); of more, two.
inline constexpr size_t kMostTiedInAllWays = 6;

/// As SizeTies::firsts: places i and j, and all that are equal to them, are one from now on.
void uniteFirsts(std::vector<size_t>& firsts, size_t i, size_t j);

/// Each is `firsts` with some of the places `present` made equal that are as large at their largest: those with the
/// most different sizes first, and of these the ones that join what lies at one dim of several operands.
/// `inputs`: sizes of the node's operands, where place p has the size numbers[p].
std::vector<std::vector<size_t>> waysToTie(const std::vector<FreePlace>& places, const std::vector<size_t>& firsts,
                                           const std::vector<size_t>& present, const Shapes& inputs,
                                           const std::vector<int64_t>& numbers);

}  // namespace hpu::synapse
