// SPDX-License-Identifier: Apache-2.0
// Where hpu.resize reads: from the position of a result element to that in the input, along one dimension.
// The one thing to know: it is computed in f32 with the scale as f32, as exporters and other runtimes do. In double,
// 3 / 0.6f is a little less than 5, and the neighbour below it another one.
#pragma once

#include <cstdint>
#include <optional>

#include "compiler/dialect/hpu/HpuDialect.h"

namespace hpu::ir {

/// One resized dimension.
struct ResizeDim {
  CoordMode mode = CoordMode::half_pixel;
  int64_t in = 1, out = 1;
  double scale = 1;  ///< Of a model: an f32 number. 0: out / in.

  /// Between elements, and outside of [0, in) at the edges.
  float coordinate(int64_t position) const;
};

/// How far from half-way between two elements a coordinate is still taken as half-way: the scale as f32 is not the
/// quotient of two sizes, so that 9 / 1.2f is a little less than 7.5. ONNX Runtime's number (1.27 and later).
constexpr float kHalfwayTolerance = 1e-6f;

/// The element that `coordinate` is nearest to, inside of [0, in).
int64_t nearestElement(NearestMode mode, float coordinate, int64_t in);

/// The two elements that a linear resize mixes: (1 - weight) * x[low] + weight * x[high].
struct LinearTap {
  int64_t low, high;
  double weight;
};

/// What lies at `coordinate`. An element that would weigh nothing is not read, so that it may be an infinity or a NaN:
/// both taps are the other one then, at half the weight each, which is exact.
LinearTap linearTap(float coordinate, int64_t in);

/// The size of a dimension of `in` elements that is scaled: the product in f32, rounded down. nullopt when it is none
/// that a tensor can have.
std::optional<int64_t> scaledSize(int64_t in, double scale);

}  // namespace hpu::ir
