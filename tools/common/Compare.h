// SPDX-License-Identifier: Apache-2.0
// Compare: the rule by which an output passes, and the figures that say how far it is off.
// The one thing to know: floats pass when |a - b| <= atol * max|b| + rtol * |b| everywhere (b is
// the expected one); NaN equals NaN, an infinity only itself; integers and booleans must be equal.
#pragma once

#include <string>

#include "tools/common/HostTensor.h"
#include "tools/common/Json.h"

namespace hpu::tools {

struct Tolerance {
  double rtol = 1e-3, atol = 1e-4;
};
/// The defaults: 1e-3 and 1e-4 for f32; 2e-2 and 2e-2 for bf16, whose numbers are 2^-8 apart;
/// 5e-3 for f16, 1e-1 for fp8.
Tolerance defaultTolerance(Precision precision);
/// What --rtol and --atol say; -1 stands for the default. Errors: kInvalidArgument for other negative numbers, NaN and
/// infinity, which would let everything or nothing pass.
StatusOr<Tolerance> toleranceFrom(double rtol, double atol, Precision precision);

struct Comparison {
  bool passed = false;
  int64_t count = 0, wrong = 0;
  int64_t firstWrong = -1;        ///< Row-major index; -1 when none is wrong.
  double maxAbs = 0, maxRel = 0;  ///< Over the elements where both are finite.
  double pcc = 1;                 ///< Pearson's correlation; 1 for two equal constants.
  double rmsRatio = 0;            ///< Root mean square of a - b, over that of b.
  std::string note;               ///< Why nothing was compared: another shape or type.
};

Comparison compare(const HostTensor& actual, const HostTensor& expected, const Tolerance& tolerance);
/// "max_abs 1.2e-06, max_rel 3e-05, 0 of 1000 wrong, pcc 1.000000".
std::string toText(const Comparison& result);
/// The keys of hpu-verify's outputs[]: name, passed, max_abs, max_rel, wrong, pcc and more.
Json toJson(const std::string& name, const Comparison& result);
/// [3, 17] for a row-major index.
std::string indexText(const Shape& shape, int64_t index);

/// How often the largest element along the last dim is at the place that `labels` says. Errors:
/// kInvalidArgument when the number of labels is not the number of rows.
struct Accuracy {
  int64_t rows = 0, right = 0;
};
StatusOr<Accuracy> accuracy(const HostTensor& scores, const HostTensor& labels);
/// In how many rows two tensors have their largest element at the same place.
StatusOr<Accuracy> sameArgMax(const HostTensor& actual, const HostTensor& expected);

}  // namespace hpu::tools
