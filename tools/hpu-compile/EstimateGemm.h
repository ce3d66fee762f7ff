// SPDX-License-Identifier: Apache-2.0
// hpu-compile --estimate-gemm: the performance model's answer for one matrix product.
#pragma once

#include <string>

#include "hpu/target.h"
#include "tools/common/Cli.h"

namespace hpu::tools {

/// `text` is [BATCHx]MxKxN:dtype; A is MxK, B is KxN, all operands in HBM, each moved once. `clock` names a clock
/// profile of the target (empty: HPU_SIM_CLOCK, or the target's first). Prints time, TFLOPS and the terms that
/// keep it from the peak. Errors: kInvalidArgument for another text, kUnimplemented for an element type that the
/// target's MME does not multiply, kOutOfRange beyond 1000 s.
StatusOr<ExitCode> estimateGemm(Tool& tool, const std::string& text, Target target, const std::string& clock);

}  // namespace hpu::tools
