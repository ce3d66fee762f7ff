// SPDX-License-Identifier: Apache-2.0
// The windows of convolutions and pooling along one dimension: how many there are, and which taps of one lie where.
// The one thing to know: everything is computed in constant time, however large the numbers of a model are.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "compiler/dialect/hpu/HpuTypes.h"

namespace hpu::ir {

/// A dimension of a window op. Kernel, stride and dilation are at least 1, pads at least 0.
struct WindowDim {
  int64_t in = 1, kernel = 1, stride = 1, dilation = 1, padBegin = 0, padEnd = 0;
  bool ceilMode = false;  ///< A window may end beyond the padding, but must begin ahead of its end.

  /// From the first to the last element of a window; nullopt when no integer holds it.
  std::optional<int64_t> extent() const;
  /// How many windows there are: 0 when not one fits, nullopt when no integer holds the numbers.
  std::optional<int64_t> count() const;
  /// The same for an extent of the input that is not known yet (`in` is not looked at); at most 0 where not one fits.
  std::optional<shape::DimExpr> count(const shape::DimExpr& input) const;
  /// The taps [first, last) of the window at `position` that lie in [low, high), in coordinates of the unpadded input.
  /// Empty ranges are {n, n}.
  std::pair<int64_t, int64_t> taps(int64_t position, int64_t low, int64_t high) const;
  std::pair<int64_t, int64_t> tapsInside(int64_t position) const { return taps(position, 0, in); }
};

/// How many windows there are along a free dimension.
SymDim windowsOf(const SymDim& in, const WindowDim& window);

}  // namespace hpu::ir
