// SPDX-License-Identifier: Apache-2.0
#include "compiler/dialect/hpu/ResizeCoordinates.h"

#include <algorithm>
#include <cmath>

namespace hpu::ir {

float ResizeDim::coordinate(int64_t position) const {
  const auto x = static_cast<float>(position);
  const float factor = scale == 0 ? static_cast<float>(out) / static_cast<float>(in) : static_cast<float>(scale);
  switch (mode) {
    case CoordMode::half_pixel:
      return (x + 0.5f) / factor - 0.5f;
    case CoordMode::pytorch_half_pixel:
      return out > 1 ? (x + 0.5f) / factor - 0.5f : 0.0f;
    case CoordMode::align_corners:
      return out > 1 ? x * static_cast<float>(in - 1) / static_cast<float>(out - 1) : 0.0f;
    case CoordMode::asymmetric:
      return x / factor;
    case CoordMode::half_pixel_symmetric: {
      // The centres of both lie on each other, also when the scaled size was rounded.
      const float length = factor * static_cast<float>(in), ratio = static_cast<float>(out) / length;
      const float offset = static_cast<float>(in) / 2.0f * (1.0f - ratio);
      return static_cast<float>(offset + (x + 0.5) / factor - 0.5);
    }
  }
  return x;
}

int64_t nearestElement(NearestMode mode, float coordinate, int64_t in) {
  float element = std::floor(coordinate);
  const float above = coordinate - element;
  switch (mode) {
    case NearestMode::round_prefer_floor:
      element += above > 0.5f + kHalfwayTolerance ? 1.0f : 0.0f;
      break;
    case NearestMode::round_prefer_ceil:
      element += above >= 0.5f - kHalfwayTolerance ? 1.0f : 0.0f;
      break;
    case NearestMode::floor:
      break;
    case NearestMode::ceil:
      element = std::ceil(coordinate);
      break;
  }
  return std::clamp<int64_t>(static_cast<int64_t>(element), 0, in - 1);
}

LinearTap linearTap(float coordinate, int64_t in) {
  const double at = std::clamp<double>(coordinate, 0, static_cast<double>(in - 1));
  const auto low = static_cast<int64_t>(std::floor(at));
  const auto weight = static_cast<double>(static_cast<float>(at - static_cast<double>(low)));
  if (weight == 0) return {low, low, 0.5};
  if (weight == 1) return {low + 1, low + 1, 0.5};
  return {low, low + 1, weight};
}

std::optional<int64_t> scaledSize(int64_t in, double scale) {
  const float size = std::floor(static_cast<float>(in) * static_cast<float>(scale));
  if (!(size >= 0) || size > 0x1p40f) return std::nullopt;
  return static_cast<int64_t>(size);
}

}  // namespace hpu::ir
