// SPDX-License-Identifier: Apache-2.0
// The lists of ops that autocast knows: PyTorch's, or those of the environment.
// The one thing to know: the environment's lists replace PyTorch's; a name that no op has is an error that names it.
#pragma once

#include "hpu_torch/autocast.h"

namespace hpu_torch {

/// PyTorch's lists, with what PT_HPU_AUTOCAST_LOWER_PRECISION_OPS_LIST (or LOWER_LIST) and
/// PT_HPU_AUTOCAST_FP32_OPS_LIST (or FP32_LIST) put in their places. Throws c10::ValueError.
AutocastLists listsOfEnvironment();

/// What a setting says: the lines of the file that it names, or names with commas or spaces between.
std::vector<std::string> readOpList(const std::string& setting, const char* variable);

}  // namespace hpu_torch
