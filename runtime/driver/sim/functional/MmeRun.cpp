// SPDX-License-Identifier: Apache-2.0
// What a worker does with an MmePlan: packs strips and panels, and computes blocks.
#include <algorithm>
#include <cstring>

#include "base/Math.h"
#include "runtime/driver/sim/functional/MmePlan.h"
#include "runtime/driver/sim/functional/Pack.h"

namespace hpu::sim {
namespace {

using base::ceilDiv;

using recipe::kPackedN;

/// The first i >= 0 with start + i * step >= 0.
int64_t firstInside(int64_t start, int64_t step) {
  return start >= 0 ? 0 : ceilDiv(-start, step);
}

/// Pointer arithmetic that may pass through addresses outside of the tensor (windows at its edge).
template <typename T>
T* advance(T* pointer, int64_t elements) {
  return reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(pointer) + static_cast<uintptr_t>(elements) * sizeof(T));
}

}  // namespace

MmePlan::Block MmePlan::decode(int64_t block) const {
  Block b;
  int64_t panels = block % panelBlocks_, pixels = block / panelBlocks_;
  if (blocking_.panelsOutside) {
    const int64_t perOuter = pixelBlocks() * panelBlocks_, inOuter = block % perOuter;
    panels = inOuter / pixelBlocks();
    pixels = block / perOuter * pixelBlocks() + inOuter % pixelBlocks();
  }
  b.pixelKey = pixels;
  b.panel0 = panels * blocking_.panels;
  b.panel1 = std::min(b.panel0 + blocking_.panels, panels_);
  b.x0 = pixels % xBlocks_ * blocking_.x;
  b.x1 = std::min(b.x0 + blocking_.x, c_.extentX);
  pixels /= xBlocks_;
  b.y0 = pixels % yBlocks_ * blocking_.y;
  b.y1 = std::min(b.y0 + blocking_.y, c_.extentY);
  pixels /= yBlocks_;
  b.z0 = pixels % zBlocks_ * blocking_.z;
  b.z1 = std::min(b.z0 + blocking_.z, c_.extentZ);
  pixels /= zBlocks_;
  for (size_t i = c_.outer.size(); i-- > 0; pixels /= c_.outer[i].extent) b.outer[i] = pixels % c_.outer[i].extent;
  return b;
}

void MmePlan::blockBox(int64_t block, int64_t* lo, int64_t* hi) const {
  Block b = decode(block);
  std::copy(c_.lo.begin(), c_.lo.end(), lo);
  std::copy(c_.hi.begin(), c_.hi.end(), hi);
  auto narrow = [&](int dim, int64_t begin, int64_t end) {
    if (dim < 0) return;
    hi[dim] = std::min(hi[dim], lo[dim] + end);
    lo[dim] += begin;
  };
  for (size_t i = 0; i < c_.outer.size(); ++i) {
    const OuterDim& dim = c_.outer[i];
    narrow(dim.dim, b.outer[i] * dim.dimStep, (b.outer[i] + 1) * dim.dimStep);
  }
  narrow(c_.dimZ, b.z0, b.z1);
  narrow(c_.dimY, b.y0 * c_.stepY, b.y1 * c_.stepY);
  narrow(c_.dimX, b.x0 * c_.stepX, b.x1 * c_.stepX);
  narrow(c_.dimN, b.panel0 * kPackedN, b.panel1 * kPackedN);
}

/// Element offset (packed: taps) of the bIndex-th matrix of B.
int64_t MmePlan::weightsOffset(int64_t bIndex) const {
  int64_t offset = c_.bBase;
  for (size_t i = c_.outer.size(); i-- > 0;) {
    const OuterDim& dim = c_.outer[i];
    if (dim.bStride == 0) continue;
    offset += bIndex % dim.extent * dim.bStride;
    bIndex /= dim.extent;
  }
  return offset;
}

/// Brings one panel of all taps into the layout [tap][k][bPitch_] of f32.
void MmePlan::packPanel(int64_t bIndex, int64_t panel, const std::byte* b, float* dst) const {
  const int64_t base = weightsOffset(bIndex), size = elementSize(c_.abType);
  const int64_t columns = panelColumns(panel), matrix = c_.depth * bPitch_;
  if (joinTaps_) {
    const int64_t from = base + panel * kPackedN * c_.bN;
    packWindow(b + from * size, c_.abType, c_.window, taps_, c_.depth, columns, c_.bK, c_.bN, dst, bPitch_);
    return;
  }
  for (const Phase& phase : c_.phases) {
    for (const Tap& tap : phase.taps) {
      float* out = dst + tap.packedIndex * matrix;
      if (!c_.packed) {
        int64_t from = base + tap.bOffset + panel * kPackedN * c_.bN;
        packMatrix(b + from * size, c_.abType, c_.depth, columns, c_.bK, c_.bN, out, bPitch_);
        continue;
      }
      // The box may begin inside a packed panel: then a panel of it comes from two.
      for (int64_t done = 0; done < columns;) {
        int64_t column = c_.columnBase + panel * kPackedN + done;
        int64_t count = std::min(columns - done, kPackedN - column % kPackedN);
        int64_t from = c_.packedShape.panelOffset(base + tap.packedIndex, column / kPackedN) + column % kPackedN;
        packMatrix(b + from * size, c_.abType, c_.depth, count, kPackedN, 1, out + done, bPitch_);
        done += count;
      }
    }
  }
}

void MmePlan::stage(int64_t item, const MmeBuffers& buffers) const {
  const int64_t panelElements = taps_ * c_.depth * bPitch_;
  packPanel(item / panels_, item % panels_, buffers.b, reinterpret_cast<float*>(buffers.shared) + item * panelElements);
}

std::vector<int64_t> MmePlan::stagedKey(const std::byte* b) const {
  const recipe::PackedShape& shape = c_.packedShape;
  std::vector<int64_t> key = {static_cast<int64_t>(reinterpret_cast<uintptr_t>(b)),
                              static_cast<int64_t>(c_.abType),
                              c_.depth,
                              c_.columns,
                              c_.columnBase,
                              c_.bBase,
                              shape.taps,
                              shape.k,
                              shape.n,
                              taps_};
  for (const OuterDim& dim : c_.outer)
    if (dim.bStride != 0) key.insert(key.end(), {dim.extent, dim.bStride});
  // Taps that meet A nowhere are not packed.
  key.push_back(-1);
  for (const Phase& phase : c_.phases)
    for (const Tap& tap : phase.taps) key.push_back(tap.packedIndex);
  return key;
}

const float* MmePlan::panelAddress(const Block& block, int64_t panel, const MmeBuffers& buffers,
                                   std::byte* scratch) const {
  int64_t bIndex = 0;
  for (size_t i = 0; i < c_.outer.size(); ++i)
    if (c_.outer[i].bStride != 0) bIndex = bIndex * c_.outer[i].extent + block.outer[i];
  if (weights_ == Weights::kStaged) {
    const int64_t panelElements = taps_ * c_.depth * bPitch_;
    return reinterpret_cast<const float*>(buffers.shared) + (bIndex * panels_ + panel) * panelElements;
  }
  if (weights_ == Weights::kPerBlock) {
    auto* packed = reinterpret_cast<float*>(scratch + panelOffset_);
    packPanel(bIndex, panel, buffers.b, packed);
    return packed;
  }
  const auto* b = reinterpret_cast<const float*>(buffers.b);
  int64_t base = weightsOffset(bIndex);
  if (c_.packed) return b + c_.packedShape.panelOffset(base, c_.columnBase / kPackedN + panel);
  return b + base + panel * kPackedN * c_.bN;
}

/// Copies the input that a block needs into dense f32 rows, zeros where columns lie outside of A.
/// Rows outside are left alone: no tap that reads them is computed.
void MmePlan::packStrip(const Block& block, const std::byte* a, float* strip) const {
  const int64_t size = elementSize(c_.abType);
  int64_t base = c_.aBase;
  for (size_t i = 0; i < c_.outer.size(); ++i) base += block.outer[i] * c_.outer[i].aStride;
  const int64_t firstY = block.y0 * c_.strideY + minDy_, firstX = block.x0 * c_.strideX + minDx_;
  const int64_t rows =
      (block.y1 - block.y0 - 1) * (c_.strideY / stripStepY_) + (stripStepY_ == 1 ? maxDy_ - minDy_ + 1 : 1);
  const int64_t columns = (block.x1 - block.x0 - 1) * (c_.strideX / stripStepX_) + (maxDx_ - minDx_ + 1);
  const int64_t left = std::min(firstInside(firstX, stripStepX_), columns);
  // Columns left..right are inside of A.
  int64_t right = std::clamp(ceilDiv(c_.inX - firstX, stripStepX_), left, columns);
  const int64_t rowElements = c_.depth * stripColumns_;
  for (int64_t z = block.z0; z < block.z1; ++z) {
    for (int64_t row = 0; row < rows; ++row) {
      int64_t iy = firstY + row * stripStepY_;
      if (iy < 0 || iy >= c_.inY) continue;
      float* to = strip + (z - block.z0) * imagePitch_ + row * rowElements;
      std::fill(to, to + left * c_.depth, 0.0f);
      int64_t from = base + z * c_.aZ + iy * c_.aY + (firstX + left * stripStepX_) * c_.aX;
      packMatrix(a + from * size, c_.abType, right - left, c_.depth, c_.aX * stripStepX_, c_.aK, to + left * c_.depth,
                 c_.depth);
      std::fill(to + right * c_.depth, to + columns * c_.depth, 0.0f);
    }
  }
}

const Brgemm& MmePlan::kernel(int64_t rows, bool tailColumns, bool tailDepth, bool accumulate) const {
  return kernels_[static_cast<size_t>(((rows * 2 + tailColumns) * 2 + tailDepth) * 2 + accumulate)];
}

/// One panel of one phase for all pixels of the block. `pixels` is the first grid point's input.
void MmePlan::runPanel(const Block& block, const PhasePlan& phase, const float* pixels, const float* panel,
                       int64_t panelIndex, const MmeBuffers& buffers, float* tile) const {
  const int64_t columns = panelColumns(panelIndex);
  const bool tailColumns = columns < std::min(kPackedN, c_.columns);
  const int64_t images = block.z1 - block.z0;
  const int64_t rows = std::min(block.y1, phase.countY) - block.y0;
  const int64_t beginX = std::max(block.x0, phase.beginX);
  int64_t length = std::min(block.x1, phase.endX) - beginX;
  if (rows <= 0 || length <= 0) return;
  if (mergeRows_) length *= rows;
  if (mergeImages_) length *= images;
  const int64_t runRows = mergeRows_ ? 1 : rows, runImages = mergeImages_ || alongZ_ ? 1 : images;
  const int64_t runColumns = alongZ_ ? length : 1;
  if (alongZ_) length = images;
  const int64_t part = ceilDiv(length, ceilDiv(length, maxRows_));

  int64_t cBase = c_.cBase + panelIndex * kPackedN * c_.cN;
  for (size_t i = 0; i < c_.outer.size(); ++i) cBase += block.outer[i] * c_.outer[i].cStride;
  cBase += (beginX * c_.stepX + phase.px) * c_.cX;
  auto outAt = [&](int64_t z, int64_t y, int64_t x) {
    return cBase + (block.z0 + z) * c_.cZ + ((block.y0 + y) * c_.stepY + phase.py) * c_.cY + x * c_.stepX * c_.cX;
  };
  auto tileAt = [&](int64_t z, int64_t y, int64_t x) {
    return tile + ((z * runRows + y) * runColumns + x) * length * kPackedN;
  };
  const int64_t outPitch = useTile_ ? kPackedN : cPitch_;

  for (size_t s = 0; s < phase.steps.size(); ++s) {
    const Step& step = phase.steps[s];
    const float* stepPanel = panel + step.depth0 * bPitch_;
    for (int64_t z = 0; z < runImages; ++z) {
      for (int64_t y = 0; y < runRows; ++y) {
        // Taps whose row lies inside of A; they are sorted by row.
        int64_t tap0 = 0, tap1 = static_cast<int64_t>(phase.tapRow.size());
        if (phase.edges) {
          int64_t iy = (block.y0 + y) * c_.strideY;
          while (tap0 < tap1 && iy + phase.tapRow[static_cast<size_t>(tap0)] < 0) ++tap0;
          while (tap1 > tap0 && iy + phase.tapRow[static_cast<size_t>(tap1 - 1)] >= c_.inY) --tap1;
        }
        auto out = [&](int64_t x) {
          return useTile_ ? tileAt(z, y, x) : reinterpret_cast<float*>(buffers.c) + outAt(z, y, x);
        };
        if (tap0 == tap1) {
          for (int64_t x = 0; s == 0 && x < runColumns; ++x)
            for (int64_t i = 0; i < length; ++i)
              std::fill(out(x) + i * outPitch, out(x) + i * outPitch + columns, 0.0f);
          continue;
        }
        const bool accumulate = step.depth0 > 0 || tap0 < step.tap0;
        tap0 = std::max(tap0, step.tap0);
        tap1 = std::min(tap1, step.tap1);
        if (tap0 >= tap1) continue;
        for (int64_t x = 0; x < runColumns; ++x) {
          const float* in = advance(pixels, z * imagePitch_ + y * rowPitch_ + x * pixelPitch_ + step.depth0);
          for (int64_t done = 0; done < length; done += part) {
            int64_t count = std::min(part, length - done);
            for (int64_t q = 0; q < interleave_ && q < count; ++q) {
              const Brgemm& brgemm =
                  kernel(ceilDiv(count - q, interleave_), tailColumns, step.depth != stepDepth_, accumulate);
              brgemm(advance(in, (done + q) * runPitch_), stepPanel, out(x) + (done + q) * outPitch,
                     static_cast<uint64_t>(tap1 - tap0), phase.aOffsets.data() + tap0, phase.bOffsets.data() + tap0);
            }
          }
        }
      }
    }
  }
  if (!useTile_) return;
  const int64_t size = elementSize(c_.cType);
  for (int64_t z = 0; z < runImages; ++z)
    for (int64_t y = 0; y < runRows; ++y)
      for (int64_t x = 0; x < runColumns; ++x)
        storeMatrix(tileAt(z, y, x), kPackedN, length, columns, buffers.c + outAt(z, y, x) * size, c_.cType, cPitch_,
                    c_.cN);
}

void MmePlan::run(int64_t block, const MmeBuffers& buffers, std::byte* scratch, StripCache& strips) const {
  const Block b = decode(block);
  const float* pixels = nullptr;
  if (useStrip_) {
    const int64_t slot = b.pixelKey % stripSlots_;
    auto* strip = reinterpret_cast<float*>(scratch + stripOffset_) + slot * imagePitch_ * blocking_.z;
    // Without a tap nothing is read of A, which may have no elements.
    if (strips.keys[slot] != b.pixelKey && taps_ > 0) packStrip(b, buffers.a, strip);
    strips.keys[slot] = b.pixelKey;
    pixels = strip;
  } else {
    int64_t offset =
        c_.aBase + b.z0 * c_.aZ + (b.y0 * c_.strideY + minDy_) * c_.aY + (b.x0 * c_.strideX + minDx_) * c_.aX;
    for (size_t i = 0; i < c_.outer.size(); ++i) offset += b.outer[i] * c_.outer[i].aStride;
    pixels = advance(reinterpret_cast<const float*>(buffers.a), offset);
  }
  auto* tile = reinterpret_cast<float*>(scratch + tileOffset_);
  for (int64_t panel = b.panel0; panel < b.panel1; ++panel) {
    const float* weights = panelAddress(b, panel, buffers, scratch);
    for (const PhasePlan& phase : phases_) runPanel(b, phase, pixels, weights, panel, buffers, tile);
  }
}

}  // namespace hpu::sim
