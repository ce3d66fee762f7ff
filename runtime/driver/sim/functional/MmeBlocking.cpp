// SPDX-License-Identifier: Apache-2.0
#include "runtime/driver/sim/functional/MmeBlocking.h"

#include <algorithm>

#include "base/Math.h"

namespace hpu::sim {
namespace {

using base::ceilDiv;

using recipe::kPackedN;

// Shares of a second-level cache of 1-2 MB, found by measurement (benchmarks/mme).
constexpr int64_t kResidentWeights = 768 << 10;   ///< Weights that all blocks of a thread reuse.
constexpr int64_t kStreamedWeights = 512 << 10;   ///< Weights of one block when they do not fit.
constexpr int64_t kPixelBytes = 256 << 10;        ///< Input and output of a block beside resident weights.
constexpr int64_t kReusedPixelBytes = 896 << 10;  ///< Input of a block that streamed weights pass over.
constexpr int64_t kMinBlocks = 14;                ///< Enough to balance a few threads.
constexpr int64_t kImages = 8;                    ///< Rows of a product that hide each other's latency.
constexpr int64_t kMinPixels = 48;                ///< Below, a block does not earn its weights' way.

/// The largest part <= wanted such that parts of `extent` are nearly equal.
int64_t evenPart(int64_t extent, int64_t wanted) {
  wanted = std::clamp<int64_t>(wanted, 1, extent);
  return ceilDiv(extent, ceilDiv(extent, wanted));
}

bool isWhole(const BlockLimits& limits, int dim) {
  return dim >= 0 && (limits.wholeDims >> dim & 1);
}

/// Windows of several columns keep rows apart, and short rows are few rows of a product. Then images are taken
/// together, each at its own place: of a weight's gradient these are the channels.
void chooseRuns(const Contraction& c, const BlockLimits& limits, MmeBlocking& b) {
  if (c.phases.size() != 1 || limits.singleImage || b.x != c.extentX || c.extentZ < 2) return;
  const std::vector<Tap>& taps = c.phases[0].taps;
  if (taps.empty()) return;
  auto [left, right] =
      std::minmax_element(taps.begin(), taps.end(), [](const Tap& x, const Tap& y) { return x.dx < y.dx; });
  auto [top, bottom] =
      std::minmax_element(taps.begin(), taps.end(), [](const Tap& x, const Tap& y) { return x.dy < y.dy; });
  if (left->dx == right->dx) return;
  const int64_t imageBytes = c.depth * 4 * ((b.y - 1) * c.strideY + bottom->dy - top->dy + 1) *
                             ((b.x - 1) * c.strideX + right->dx - left->dx + 1);
  const int64_t images = std::max(b.z, std::min(kImages, kReusedPixelBytes / std::max<int64_t>(imageBytes, 1)));
  const int64_t z = isWhole(limits, c.dimZ) ? c.extentZ : evenPart(c.extentZ, images);
  if (z < 2 * c.extentX) return;
  b.alongZ = true;
  b.z = z;
}

}  // namespace

int64_t panelPitch(int64_t columns) {
  constexpr int64_t kLine = 16;  // Elements of a cache line.
  return std::min(kPackedN, ceilDiv(columns, kLine) * kLine);
}

MmeBlocking chooseBlocking(const Contraction& c, const BlockLimits& limits) {
  const int64_t panels = ceilDiv(c.columns, kPackedN);
  int64_t outer = 1, taps = 0;
  for (const OuterDim& dim : c.outer) outer *= dim.extent;
  for (const Phase& phase : c.phases) taps += static_cast<int64_t>(phase.taps.size());
  const int64_t panelBytes = std::max<int64_t>(taps * c.depth * (c.packed ? kPackedN : panelPitch(c.columns)) * 4, 1);
  const int64_t pixels = c.extentZ * c.extentY * c.extentX;
  const bool window = taps > 1;
  const int64_t inBytes = c.depth * 4 * (window ? c.strideY * c.strideX : 1);
  const int64_t outBytes = 4 * c.stepY * c.stepX;

  MmeBlocking b;
  int64_t wanted = 0;
  if (panels * panelBytes <= kResidentWeights) {
    b.panels = panels;
    wanted = kPixelBytes / (inBytes + outBytes * c.columns);
    wanted = std::min(wanted, ceilDiv(pixels * outer, kMinBlocks));
  } else {
    b.panelsOutside = true;
    b.panels = std::clamp<int64_t>(kStreamedWeights / panelBytes, 1, panels);
    wanted = std::min(kReusedPixelBytes / inBytes, kReusedPixelBytes / (outBytes * b.panels * kPackedN));
    wanted = std::clamp<int64_t>(wanted, kMinPixels, pixels);
    auto blocks = [&] { return outer * ceilDiv(pixels, wanted) * ceilDiv(panels, b.panels); };
    while (b.panels > 1 && blocks() < kMinBlocks) b.panels = ceilDiv(b.panels, 2);
    while (wanted >= 2 * kMinPixels && blocks() < kMinBlocks / 2) wanted = ceilDiv(wanted, 2);
  }
  wanted = std::max<int64_t>(wanted, 1);
  if (isWhole(limits, c.dimN)) b.panels = panels;
  b.panels = evenPart(panels, b.panels);

  // Whole rows where they are short enough, whole images where these are.
  if (c.extentX > wanted && !isWhole(limits, c.dimX)) {
    b.x = evenPart(c.extentX, wanted);
  } else {
    b.x = c.extentX;
    b.y = evenPart(c.extentY, wanted / c.extentX);
    if (b.y == c.extentY && !limits.singleImage) b.z = evenPart(c.extentZ, wanted / (c.extentX * c.extentY));
  }
  chooseRuns(c, limits, b);
  if (isWhole(limits, c.dimX)) b.x = c.extentX;
  if (isWhole(limits, c.dimY)) b.y = c.extentY;
  if (isWhole(limits, c.dimZ)) b.z = c.extentZ;
  return b;
}

}  // namespace hpu::sim
