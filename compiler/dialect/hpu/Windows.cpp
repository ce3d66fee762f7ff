// SPDX-License-Identifier: Apache-2.0
#include "compiler/dialect/hpu/Windows.h"

#include <algorithm>

namespace hpu::ir {
namespace {

using Wide = __int128;

/// a / b rounded towards plus infinity; b > 0.
Wide ceilDiv(Wide a, Wide b) {
  return a >= 0 ? (a + b - 1) / b : -(-a / b);
}

std::optional<int64_t> narrow(Wide value) {
  if (value > INT64_MAX || value < INT64_MIN) return std::nullopt;
  return static_cast<int64_t>(value);
}

}  // namespace

std::optional<int64_t> WindowDim::extent() const {
  return narrow(Wide{dilation} * (kernel - 1) + 1);
}

std::optional<int64_t> WindowDim::count() const {
  if (kernel < 1 || stride < 1 || dilation < 1) return 0;
  const Wide padded = Wide{in} + padBegin + padEnd, span = padded - (Wide{dilation} * (kernel - 1) + 1);
  if (!ceilMode) return span < 0 ? 0 : narrow(span / stride + 1);
  Wide windows = ceilDiv(span, stride) + 1;
  // The last one must still begin inside of the input or its leading padding.
  if ((windows - 1) * stride >= Wide{in} + padBegin) --windows;
  return narrow(std::max<Wide>(windows, 0));
}

std::optional<shape::DimExpr> WindowDim::count(const shape::DimExpr& input) const {
  using shape::DimExpr;
  const std::optional<int64_t> own = extent(), added = narrow(Wide{padBegin} + padEnd - own.value_or(0));
  if (!own || !added || stride < 1) return std::nullopt;
  const std::optional<DimExpr> span = input.plus(*added);
  const std::optional<DimExpr> steps = !span ? std::nullopt : ceilMode ? span->ceilDiv(stride) : span->floorDiv(stride);
  const std::optional<DimExpr> windows = steps ? steps->plus(1) : std::nullopt;
  // Rounded up, the last window begins less than a stride behind the last one that is whole; see count().
  const bool beginsInside = static_cast<Wide>(padEnd) + stride <= *own;
  if (!windows || !ceilMode || beginsInside) return windows;
  const std::optional<DimExpr> lastBegin = steps->times(stride), end = input.plus(padBegin);
  if (!lastBegin || !end) return std::nullopt;
  return DimExpr::select(DimExpr::Compare::kLess, *lastBegin, *end, *windows, *steps);
}

std::pair<int64_t, int64_t> WindowDim::taps(int64_t position, int64_t low, int64_t high) const {
  const Wide start = Wide{position} * stride - padBegin;
  auto tapAt = [&](int64_t bound) {
    return static_cast<int64_t>(std::clamp<Wide>(ceilDiv(bound - start, dilation), 0, kernel));
  };
  const int64_t first = tapAt(low), last = tapAt(high);
  return {std::min(first, last), last};
}

SymDim windowsOf(const SymDim& in, const WindowDim& window) {
  const std::optional<shape::DimExpr> size = exprOf(in);
  if (!size || !in.isNamed()) return {mlir::ShapedType::kDynamic};
  return dimOf(in.symbol.getContext(), window.count(*size),
               in.isFree() ? mlir::ShapedType::kDynamic : window.count().value_or(0));
}

}  // namespace hpu::ir
