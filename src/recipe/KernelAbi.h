// SPDX-License-Identifier: Apache-2.0
// The binary interface between a recipe's native TPC kernels and whoever calls them: include/hpu/kernel.h.
// The one thing to know: it is plain C and versioned with the recipe format; kernels call nothing, keep
// no state and touch only the operands' elements that their slice of the index space selects.
#pragma once

#include "hpu/kernel.h"
