// SPDX-License-Identifier: Apache-2.0
// How a TPC selects boxes of a class, and what that costs. Boxes lie in local memory in their order, one a lane; each
// pass over them removes what the box that was chosen last overlaps and finds the first one that is left.
// The one thing to know: there are as many passes as boxes may be chosen, whatever the data are.
#pragma once

#include <cstdint>

#include "compiler/kernels/TpcOrder.h"

namespace hpu::kernels {

/// Instructions on a register of 64 boxes, counted in TpcBoxes.cpp.
struct BoxOps {
  double setUp = 0;   ///< Ends and areas, and which scores are above the threshold.
  double remove = 0;  ///< What overlaps the chosen box goes.
  double find = 0;    ///< In each lane, the first one that is left, with its ends and its area.
  double choose = 0;  ///< Across the lanes; once a pass.
};
BoxOps boxOps(bool centred);

/// Of one class: `count` boxes of which at most `most` are chosen.
OrderCycles selectBoxesCycles(int64_t count, int64_t most, bool centred);

}  // namespace hpu::kernels
