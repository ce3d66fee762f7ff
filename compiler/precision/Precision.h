// SPDX-License-Identifier: Apache-2.0
// The phase precision: chooses the element type of every tensor; with bf16 the f32 tensors of a
// model become bf16, except where that would cost accuracy that PyTorch's own bf16 keeps. The one
// thing to know: inputs and outputs of the program keep their types; kernels compute in f32 and
// round where a tensor is stored.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "hpu/types.h"

namespace mlir {
class OpPassManager;
class Pass;
}  // namespace mlir

namespace hpu::precision {

struct PrecisionOptions {
  Precision precision = Precision::kF32;
  /// Mnemonics of ops that keep f32 operands and results with bf16. Positions lose their value
  /// beyond 256 in bf16, so functions of them stay; so do logarithms of probabilities.
  std::vector<std::string> keepF32 = {"sin", "cos", "log_softmax", "batch_norm"};
  std::string* summary = nullptr;  ///< "112 tensors bf16, 3 f32; 14 MiB of constants", if wanted.
};

/// hpu-precision. Beside the ops of keepF32 these keep f32: what is made from integers by a cast
/// and by elementwise ops alone, and the last TPC op before an output (the output is f32 anyway).
std::unique_ptr<mlir::Pass> createPrecisionPass(PrecisionOptions options);
/// Post-condition: with bf16 every MME op has bf16 operands (unless kept), no constant is cast at
/// run time, no tensor is cast to bf16 and back; with f32 nothing changed.
std::unique_ptr<mlir::Pass> createVerifyPrecisionPass(PrecisionOptions options);

/// Both; `pm` must be anchored on func.func.
void addPrecisionPasses(mlir::OpPassManager& pm, const PrecisionOptions& options);
/// For hpu-opt: --hpu-precision and --hpu-verify-precision, with bf16.
void registerPrecisionPasses();

}  // namespace hpu::precision
