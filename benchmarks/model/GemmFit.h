// SPDX-License-Identifier: Apache-2.0
// Fits the GEMM law's four constants of Gaudi 1 to reference rows, and cross-validates it.
// The one thing to know: the law that is fitted is perfmodel::gemmCost itself, on a copy of the target
// description, so what is validated is what the compiler and the simulator use.
#pragma once

#include <string>
#include <vector>

#include "arch/TargetDesc.h"
#include "hpu/status.h"
#include "perfmodel/EngineCost.h"

namespace hpu::benchmarks {

struct GemmRow {
  perfmodel::GemmShape shape;
  double tflops = 0;  ///< Measured.
};

/// Lines "M,K,N,dtype,transpose_a,transpose_b,TFLOP/s" with dtype bf16 or float; '#' starts a comment.
StatusOr<std::vector<GemmRow>> readGemmRows(const std::string& path);

/// The model's TFLOP/s for a GEMM with all operands in HBM.
double predictTflops(const arch::TargetDesc&, const arch::ClockProfile&, const perfmodel::GemmShape&);
/// A plain roofline: peak FLOP/s or pin bandwidth.
double rooflineTflops(const arch::TargetDesc&, const arch::ClockProfile&, const perfmodel::GemmShape&);

/// `target` with roll-up, fill, launch and stream stall (and the drain that follows from them) that give the least
/// mean squared relative error on `rows`. The search starts from the vendor planner's values (roll-up 128, 1500
/// cycles a slice), not from `target`'s, and has no randomness.
arch::TargetDesc fitGemmLaw(const arch::TargetDesc& target, const std::vector<GemmRow>& rows);

/// Prediction of each row by the law fitted on the other folds; `seed` shuffles the rows into folds.
std::vector<double> crossValidate(const arch::TargetDesc& target, const std::vector<GemmRow>& rows, int folds,
                                  uint32_t seed);

struct Errors {
  double mean = 0, worst = 0;  ///< Of |predicted / measured - 1|.
  int points = 0, within10 = 0;
  double within10Fraction() const { return points ? static_cast<double>(within10) / points : 0; }
};
Errors errorsOf(const std::vector<GemmRow>& rows, const std::vector<double>& predicted);

}  // namespace hpu::benchmarks
