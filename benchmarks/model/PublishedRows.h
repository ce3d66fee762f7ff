// SPDX-License-Identifier: Apache-2.0
// Published figures of Gaudi 1, 2 and 3 beside what the performance model says.
// The one thing to know: `gated` rows come from sources that were read in full; the others are shown only.
#pragma once

#include <string>
#include <vector>

namespace hpu::benchmarks {

struct PublishedRow {
  std::string what, unit;
  double published = 0, model = 0;
  double roofline = 0;   ///< What a plain roofline says; 0: does not apply.
  double tolerance = 0;  ///< Relative, when gated.
  bool gated = false;
  std::string source;

  double error() const { return model / published - 1; }
  bool fails() const { return gated && !(error() <= tolerance && error() >= -tolerance); }
};

/// Measured GEMM rates of Gaudi 2 and 3.
std::vector<PublishedRow> measuredGemms();
/// Vector, stream, GEMV and gather figures of Gaudi 2.
std::vector<PublishedRow> measuredVectors();
/// Peaks, bandwidths and sizes of the data sheets and of the vendor's open planner.
std::vector<PublishedRow> specifications();
/// How full the array is in cases that the vendor's planner tests.
std::vector<PublishedRow> arrangements();

}  // namespace hpu::benchmarks
