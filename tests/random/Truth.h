// SPDX-License-Identifier: Apache-2.0
// Functions computed in double: what a reference that works in float is corrected by. The one thing to
// know: only ops that are listed in Truth.cpp are corrected, and a correction by more than a part in a thousand is not
// made, since then one of the two does not compute what the other does. A zero
// and what is no number are always replaced: a reference gives them where an intermediate result leaves its range.
#pragma once

#include "tests/random/Model.h"

namespace hpu::randomtest {

/// Replaces `result` where the op is known; false when it is not. `error`, of the result's elements, gets what rounding
/// a mean does to a norm: of two numbers the result is 1 and -1 however they are moved.
bool applyTruth(const Node& node, const std::vector<const HostTensor*>& operands, HostTensor& result,
                std::vector<double>* error = nullptr);

/// Of each element of a tensor, the element of a reduction over `axes` (all when there are none) that it belongs to.
std::vector<size_t> reducedInto(const Shape& shape, const Ints& axes);

}  // namespace hpu::randomtest
