// SPDX-License-Identifier: Apache-2.0
// Pooling, 2-D and 3-D, forward and backward.
// The one thing to know: a window's element is its tap; taps are counted row-major over (depth, height, width). Padding
// that windows reach over is put there first (padded).
#pragma once

#include <cstdint>
#include <vector>

#include "compose/Emitter.h"

namespace hpu::compose {

constexpr int64_t kLargest = 1 << 20;  // Of a kernel, stride, dilation or pad: keeps products small.

/// The window along one spatial dim.
struct Axis {
  size_t dim = 0;  ///< Of the tensor.
  int64_t size = 0, out = 0;
  int64_t kernel = 1, stride = 1, dilation = 1, before = 0, after = 0;
  int64_t extent() const { return (kernel - 1) * dilation + 1; }
  /// Where tap k of window o lies; outside of [0, size) in the padding.
  int64_t position(int64_t o, int64_t k) const { return o * stride + k * dilation - before; }
};

struct Window {
  std::vector<Axis> axes;  ///< Depth (3-D only), height, width.
  Shape outer;             ///< Sizes of the result.
  int64_t taps() const {
    int64_t count = 1;
    for (const Axis& a : axes) count *= a.kernel;
    return count;
  }
  /// The element of each axis that tap t is.
  std::vector<int64_t> tap(int64_t t) const {
    std::vector<int64_t> at(axes.size());
    for (size_t i = axes.size(); i-- > 0; t /= axes[i].kernel) at[i] = t % axes[i].kernel;
    return at;
  }
};

/// The permutation that moves height and width to the end; the other dims keep their order.
std::vector<int64_t> heightWidthLast(const Window& w, size_t rank);
std::vector<int64_t> inversePermutation(const std::vector<int64_t>& perm);

/// x with padding of `value` such that every window lies inside.
Value padded(Emitter& c, Value x, const Window& w, double value);
/// The maximum or sum of each window of a padded operand.
Value poolWindows(Emitter& c, Value x, const Window& w, bool isMax);
/// What padding must be so that it never wins.
double lowest(ElementType type);
/// For each window of a padded operand the tap (or, with `flat`, the position in the flattened image) of its first
/// maximum, or last NaN, i32.
Value argMax(Emitter& c, Value x, const Window& w, bool flat);
/// The gradient (f32) of maxima that were at `index` (of argMax, i32), of sizes `shape`.
Value maxBackward(Emitter& c, Value dY, Value index, const Window& w, bool flat, const Shape& shape);
/// The number of elements that each window averages, f32; broadcasts over the result. No value (a null handle) where
/// all have as many as they have taps.
Value windowCounts(Emitter& c, const Window& w, bool includePadding);
/// The sum of each window of a padded operand by `counts` (windowCounts), by one division where that has no value: the
/// mean of equal numbers is that number.
Value meanWindows(Emitter& c, Value x, const Window& w, Value counts);
/// Its gradient: each element gets its share of all windows that it is in, the sum of their `dY` (f32), spread by the
/// strides, by the count.
Value meanBackward(Emitter& c, Value dY, const Window& w, const Shape& shape, Value counts);
/// [in, out], f32: column o adds elements floor(o * in / out) to ceil((o + 1) * in / out).
Value adaptiveWindows(Emitter& c, int64_t in, int64_t out);
/// How many those are, f32, with sizes [out, 1 ...]: `behind` ones.
Value adaptiveCounts(Emitter& c, int64_t in, int64_t out, int64_t behind);

}  // namespace hpu::compose
