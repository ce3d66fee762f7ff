// SPDX-License-Identifier: Apache-2.0
// hpu-compile --estimate-gemm: the performance model's answer for one matrix product.
#pragma once

#include <string>

#include "hpu/target.h"
#include "tools/common/Cli.h"

namespace hpu::tools {

/// `text` is MxKxN:dtype; A is MxK, B is KxN, all operands in HBM. Prints time, TFLOPS and the
/// terms that keep it from the peak. Errors: kInvalidArgument for another text.
StatusOr<ExitCode> estimateGemm(Tool& tool, const std::string& text, Target target);

}  // namespace hpu::tools
