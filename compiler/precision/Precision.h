// SPDX-License-Identifier: Apache-2.0
// The phase precision: chooses the element type of every tensor. With bf16 and f16 the f32 tensors of a
// model become narrow, except where that would cost accuracy that PyTorch's own low precision keeps; with
// fp8 the operands of matrix products become 8 bits wide as well, and the rest is bf16. The one thing to
// know: inputs and outputs of the program keep their types; kernels compute in f32 and round where a
// tensor is stored.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "hpu/types.h"

namespace mlir {
class OpPassManager;
class Pass;
}  // namespace mlir
namespace hpu::arch {
struct TargetDesc;
}

namespace hpu::precision {

struct PrecisionOptions {
  Precision precision = Precision::kF32;
  const arch::TargetDesc* target = nullptr;  ///< Must be given for fp8; else it is only checked.
  /// Ops (by mnemonic) and nodes (by name) that keep f32, beside what does so by itself (HpuOp::getNarrowing). The
  /// names must have been checked (KeepList.h).
  std::vector<std::string> keepF32;
  /// fp8: the largest magnitudes of activations by the names of Fp8.h. When it is empty scales are computed
  /// at run time; when it is not, every activation must have one.
  std::map<std::string, double> ranges;
  std::string* report = nullptr;   ///< A line for each matrix product and each op that keeps f32, if wanted.
  std::string* summary = nullptr;  ///< "112 tensors bf16, 3 f32; 14 MiB of constants", if wanted.
};

/// hpu-precision. Beside the ops of the keep list these keep f32: what HpuOp::getNarrowing says, what is made from
/// integers by a cast and by elementwise ops alone, what leads to integers or to a softmax alone, ops with constants
/// that the narrow type does not have, and the last TPC op before an output (the output is f32 anyway).
std::unique_ptr<mlir::Pass> createPrecisionPass(PrecisionOptions options);
/// Post-condition: the target's MME has every type that it is given; with a narrow precision every MME op
/// has narrow operands (unless kept), no constant is cast at run time, no tensor is narrowed and widened.
std::unique_ptr<mlir::Pass> createVerifyPrecisionPass(PrecisionOptions options);

/// Both; `pm` must be anchored on func.func.
void addPrecisionPasses(mlir::OpPassManager& pm, const PrecisionOptions& options);
/// For hpu-opt: --hpu-precision=to=bf16 and --hpu-verify-precision=to=bf16 (target=gaudi2).
void registerPrecisionPasses();

}  // namespace hpu::precision
