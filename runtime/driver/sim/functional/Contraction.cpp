// SPDX-License-Identifier: Apache-2.0
#include "runtime/driver/sim/functional/Contraction.h"

#include <algorithm>
#include <string>

#include "base/Math.h"
#include "base/StatusMacros.h"
#include "runtime/driver/sim/functional/Pack.h"

namespace hpu::sim {
namespace {

using base::ceilDiv;

using recipe::MmeDesc;
using recipe::MmeKind;

/// Element stride of dimension `d`, 0 for a dimension of one element.
int64_t strideOf(const recipe::Operand& operand, size_t d) {
  return operand.sizes[d] == 1 ? 0 : operand.strides[d];
}

void makeGemm(const MmeDesc& mme, Contraction& c) {
  const size_t rank = mme.c.sizes.size(), m = rank - 2, n = rank - 1;
  c.depth = mme.a.sizes[n];
  c.columns = c.hi[n] - c.lo[n];
  c.packedShape = {1, c.depth, mme.c.sizes[n]};
  c.columnBase = c.lo[n];
  c.aK = strideOf(mme.a, n);
  c.aX = strideOf(mme.a, m);
  c.cN = strideOf(mme.c, n);
  c.cX = strideOf(mme.c, m);
  c.dimX = static_cast<int>(m);
  c.dimN = static_cast<int>(n);
  if (!c.packed) {
    c.bK = strideOf(mme.b, m);
    c.bN = strideOf(mme.b, n);
    c.bBase += c.lo[n] * c.bN;
  }
  c.extentX = c.outX = c.inX = c.hi[m] - c.lo[m];
  c.aBase += c.lo[m] * c.aX;
  c.cBase += c.lo[m] * c.cX + c.lo[n] * c.cN;

  int64_t packedStride = 1;
  std::vector<OuterDim> dims;  // Fastest first.
  for (size_t d = m; d-- > 0;) {
    OuterDim dim;
    dim.extent = c.hi[d] - c.lo[d];
    dim.dim = static_cast<int>(d);
    dim.aStride = strideOf(mme.a, d);
    dim.cStride = strideOf(mme.c, d);
    if (!c.packed) {
      dim.bStride = strideOf(mme.b, d);
    } else if (mme.b.sizes[d] > 1) {
      dim.bStride = packedStride;
      packedStride *= mme.b.sizes[d];
    }
    c.aBase += c.lo[d] * dim.aStride;
    c.bBase += c.lo[d] * dim.bStride;
    c.cBase += c.lo[d] * dim.cStride;
    if (dim.extent > 1) dims.push_back(dim);
  }
  // Batches that share B are more rows: they become the pixels' y and z.
  size_t next = 0;
  if (next < dims.size() && dims[next].bStride == 0) {
    const OuterDim& dim = dims[next++];
    c.extentY = c.outY = c.inY = dim.extent;
    c.aY = dim.aStride;
    c.cY = dim.cStride;
    c.dimY = dim.dim;
  }
  if (next == 1 && next < dims.size() && dims[next].bStride == 0) {
    const OuterDim& dim = dims[next++];
    c.extentZ = dim.extent;
    c.aZ = dim.aStride;
    c.cZ = dim.cStride;
    c.dimZ = dim.dim;
  }
  c.outer.assign(dims.rbegin(), dims.rend() - static_cast<std::ptrdiff_t>(next));
  c.phases.push_back({0, 0, c.extentY, c.extentX, {Tap{}}});
  if (c.depth == 0) {  // Without a tap every point is zero.
    c.phases[0].taps.clear();
    c.depth = c.packedShape.k = 1;
  }
}

/// Taps of one phase in one spatial dimension: input offset and window position.
struct AxisTap {
  int64_t offset = 0, window = 0;
};

/// The taps that meet the input for some of `count` points. Wide dilations of small images have
/// many that only ever see the padding.
std::vector<AxisTap> axisTaps(const MmeDesc& mme, int axis, int64_t lo, int64_t phase, int64_t count) {
  const int64_t window = mme.b.sizes[2 + axis], stride = mme.strides[axis];
  const int64_t dilation = mme.dilations[axis], pad = mme.padBegin[axis];
  const int64_t step = mme.kind == MmeKind::kConv2d ? stride : 1;
  std::vector<AxisTap> taps;
  for (int64_t w = 0; w < window; ++w) {
    if (mme.kind == MmeKind::kConv2d) {
      taps.push_back({lo * stride - pad + w * dilation, w});
      continue;
    }
    // Output lo + phase + stride * i takes input i + (lo + phase + pad - w * dilation) / stride.
    int64_t distance = lo + phase + pad - w * dilation;
    if (((distance % stride) + stride) % stride == 0) taps.push_back({distance / stride, w});
  }
  std::erase_if(taps, [&](const AxisTap& tap) {
    const int64_t first = tap.offset >= 0 ? 0 : ceilDiv(-tap.offset, step);
    return first >= count || first * step + tap.offset >= mme.a.sizes[2 + axis];
  });
  std::sort(taps.begin(), taps.end(), [](const AxisTap& a, const AxisTap& b) { return a.offset < b.offset; });
  return taps;
}

Status makeConv(const MmeDesc& mme, Contraction& c) {
  const bool transposed = mme.kind == MmeKind::kConvTranspose2d;
  const int64_t groups = mme.groups, window = mme.b.sizes[2] * mme.b.sizes[3];
  const int64_t groupColumns = mme.c.sizes[1] / groups;
  c.depth = mme.a.sizes[1] / groups;
  c.window = window;
  c.packedShape = {1, c.depth, groupColumns};
  c.aK = strideOf(mme.a, 1);
  c.cN = strideOf(mme.c, 1);
  if (!c.packed) {
    c.bK = strideOf(mme.b, transposed ? 0 : 1);
    c.bN = strideOf(mme.b, transposed ? 1 : 0);
  }
  // Channels of the box: whole groups, or part of a single one.
  const int64_t firstGroup = c.lo[1] / groupColumns, lastGroup = (c.hi[1] - 1) / groupColumns;
  const int64_t firstColumn = c.lo[1] - firstGroup * groupColumns;
  if (firstGroup != lastGroup && (firstColumn != 0 || c.hi[1] % groupColumns != 0))
    return unimplemented("a slice of output channels " + std::to_string(c.lo[1]) + ".." + std::to_string(c.hi[1]) +
                         " cuts through groups of " + std::to_string(groupColumns) +
                         " channels; slice at group borders");
  c.columns = firstGroup == lastGroup ? c.hi[1] - c.lo[1] : groupColumns;
  c.columnBase = firstColumn;
  OuterDim group;
  group.extent = lastGroup - firstGroup + 1;
  group.aStride = c.depth * c.aK;
  group.bStride = c.packed ? window : transposed ? c.depth * c.bK : groupColumns * c.bN;
  group.cStride = groupColumns * c.cN;
  group.dim = 1;
  group.dimStep = groupColumns;
  c.aBase += firstGroup * group.aStride;
  c.bBase += firstGroup * group.bStride + (c.packed ? 0 : firstColumn * c.bN);
  c.cBase += c.lo[1] * c.cN;
  if (group.extent > 1) c.outer.push_back(group);
  c.dimN = 1;

  c.dimZ = 0;
  c.extentZ = c.hi[0] - c.lo[0];
  c.aZ = strideOf(mme.a, 0);
  c.cZ = strideOf(mme.c, 0);
  c.aY = strideOf(mme.a, 2);
  c.cY = strideOf(mme.c, 2);
  c.aX = strideOf(mme.a, 3);
  c.cX = strideOf(mme.c, 3);
  c.dimY = 2;
  c.dimX = 3;
  c.inY = mme.a.sizes[2];
  c.inX = mme.a.sizes[3];
  c.outY = c.hi[2] - c.lo[2];
  c.outX = c.hi[3] - c.lo[3];
  c.stepY = transposed ? mme.strides[0] : 1;
  c.stepX = transposed ? mme.strides[1] : 1;
  c.strideY = transposed ? 1 : mme.strides[0];
  c.strideX = transposed ? 1 : mme.strides[1];
  c.extentY = ceilDiv(c.outY, c.stepY);
  c.extentX = ceilDiv(c.outX, c.stepX);
  c.aBase += c.lo[0] * c.aZ;
  c.cBase += c.lo[0] * c.cZ + c.lo[2] * c.cY + c.lo[3] * c.cX;

  const int64_t bY = c.packed ? 0 : strideOf(mme.b, 2), bX = c.packed ? 0 : strideOf(mme.b, 3);
  for (int64_t py = 0; py < std::min(c.stepY, c.outY); ++py) {
    const int64_t countY = ceilDiv(c.outY - py, c.stepY);
    std::vector<AxisTap> rows = axisTaps(mme, 0, c.lo[2], py, countY);
    for (int64_t px = 0; px < std::min(c.stepX, c.outX); ++px) {
      Phase phase{py, px, countY, ceilDiv(c.outX - px, c.stepX), {}};
      for (const AxisTap& row : rows)
        for (const AxisTap& column : axisTaps(mme, 1, c.lo[3], px, phase.countX))
          phase.taps.push_back({row.offset, column.offset, row.window * mme.b.sizes[3] + column.window,
                                row.window * bY + column.window * bX});
      c.phases.push_back(std::move(phase));
    }
  }
  return okStatus();
}

/// Moves y to x and z to y while x is a single point, so that the pixels of a run are many.
void rotateSingleColumns(Contraction& c) {
  for (int i = 0; i < 2; ++i) {
    if (c.extentX > 1 || c.outX > 1 || c.phases.size() > 1 || c.phases[0].taps.size() != 1) return;
    Phase& phase = c.phases[0];
    Tap& tap = phase.taps[0];
    if (tap.dx < 0 || tap.dx >= c.inX) return;
    c.aBase += tap.dx * c.aX;
    tap.dx = tap.dy;
    c.extentX = c.extentY;
    c.outX = c.outY;
    c.stepX = c.stepY;
    c.inX = c.inY;
    c.strideX = c.strideY;
    c.aX = c.aY;
    c.cX = c.cY;
    c.dimX = c.dimY;
    phase.countX = phase.countY;
    tap.dy = 0;
    c.extentY = c.outY = c.inY = phase.countY = c.extentZ;
    c.stepY = c.strideY = 1;
    c.aY = c.aZ;
    c.cY = c.cZ;
    c.dimY = c.dimZ;
    c.extentZ = 1;
    c.aZ = c.cZ = 0;
    c.dimZ = -1;
  }
}

}  // namespace

StatusOr<Contraction> makeContraction(const MmeDesc& mme, const std::vector<int64_t>& lo,
                                      const std::vector<int64_t>& hi) {
  if (!isFactorType(mme.a.type) || mme.b.type != mme.a.type || !isProductType(mme.c.type))
    return unimplemented("the simulated MME multiplies f32, bf16, f16 or fp8 into f32, bf16 or f16, not " +
                         std::string(elementTypeName(mme.a.type)) + " by " + std::string(elementTypeName(mme.b.type)) +
                         " into " + std::string(elementTypeName(mme.c.type)));
  Contraction c;
  c.abType = mme.a.type;
  c.cType = mme.c.type;
  c.packed = mme.packing == recipe::BPacking::kBlocked;
  c.lo = lo;
  c.hi = hi;
  if (mme.kind == MmeKind::kGemm) {
    makeGemm(mme, c);
  } else {
    HPU_RETURN_IF_ERROR(makeConv(mme, c));
  }
  rotateSingleColumns(c);
  return c;
}

}  // namespace hpu::sim
