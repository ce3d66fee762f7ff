// SPDX-License-Identifier: Apache-2.0
#include "recipe/MmePacking.h"

#include <algorithm>
#include <numeric>

#include "base/Format.h"
#include "base/Math.h"
#include "recipe/PackedWeights.h"

namespace hpu::recipe {

using base::strCat;

namespace {

using base::ceilDiv;

/// Dimension `inner` lies densely, and `outer` behind it. A dimension of one point may have any stride.
bool dense(const Operand& operand, size_t outer, size_t inner) {
  return (operand.sizes[inner] == 1 || operand.strides[inner] == 1) && operand.strides[outer] == operand.sizes[inner];
}

std::string gemmObstacle(const MmeDesc& mme) {
  const size_t rank = mme.c.sizes.size(), rows = rank - 2, last = rank - 1;
  for (size_t d = 0; d < rows; ++d)
    if (mme.b.sizes[d] != 1) return " is packed, but its batch does not share b";
  if (!dense(mme.a, rows, last)) return " is packed, but the rows of a do not lie one behind the other";
  if (!dense(mme.c, rows, last)) return " is packed, but the rows of c do not lie one behind the other";
  return {};
}

std::string convObstacle(const MmeDesc& mme, int64_t factor) {
  if (mme.groups != 1) return strCat(" is packed, but has ", mme.groups, " groups");
  if (mme.kind == MmeKind::kConvTranspose2d) {
    if (mme.dilations[1] != 1) return " is packed, but it is transposed and dilated";
    if (factor % mme.strides[1])
      return strCat(" is packed by ", factor, ", but it is transposed with the stride ", mme.strides[1],
                    ", of which that is no multiple");
  }
  // The pixels of a group may lie apart (within a concatenation): they are a dimension of their own, the fifth that the
  // array's addresses have.
  if (mme.c.sizes[1] > 1 && mme.c.strides[1] != 1) return " is packed, but c is not channels last";
  return {};
}

/// More than any memory, and little enough to compute with.
constexpr int64_t kMostWeightBytes = int64_t{1} << 44;

int64_t tapsOf(const MmeDesc& mme, int64_t factor) {
  if (mme.kind == MmeKind::kGemm) return factor;
  const int64_t window = mme.b.sizes[3], stride = mme.strides[1];
  if (mme.kind == MmeKind::kConvTranspose2d) {
    // Of the window, the taps that meet one output pixel.
    if (factor == 1) return ceilDiv(window, stride);
    // Output o gets from input j where o = j * stride + tap - pad: the multiples of the stride in what pixels 0 to
    // factor - 1 see.
    const int64_t pad = mme.padBegin[1];
    return std::max<int64_t>(base::floorDiv(pad + factor - 1, stride) - ceilDiv(pad - (window - 1), stride) + 1, 1);
  }
  if (factor == 1) return window;
  const int64_t reach = (window - 1) * mme.dilations[1];
  const int64_t step = std::gcd(stride, window > 1 ? mme.dilations[1] : stride);
  return ((factor - 1) * stride + reach) / step + 1;
}

/// At most kMostWeightBytes.
int64_t weightBytes(const MmeDesc& mme, int64_t factor) {
  int64_t bytes = elementSize(mme.b.type);
  auto times = [&](int64_t size) {
    if (__builtin_mul_overflow(bytes, size, &bytes)) bytes = kMostWeightBytes;
    bytes = std::min(bytes, kMostWeightBytes);
  };
  const std::vector<int64_t>& b = mme.b.sizes;
  int64_t columns;
  if (mme.kind == MmeKind::kGemm) {
    for (size_t d = 0; d + 1 < b.size(); ++d) times(b[d]);
    times(factor);
    columns = b.back();
  } else {
    times(mme.a.sizes[1]);
    times(b[2]);
    // Transposed, each row of the window has weights of its own, whichever pixels it meets.
    times(factor == 1 ? b[3] : tapsOf(mme, factor));
    columns = mme.c.sizes[1] / mme.groups;
  }
  times(PackedShape{1, 1, columns * factor}.elements());
  return bytes;
}

}  // namespace

std::string packingObstacle(const MmeDesc& mme, int64_t factor) {
  if (factor == 1) return {};
  if (factor < 1 || factor > kMaxPackingFactor)
    return strCat(" is packed by ", factor, ", which is not in 1..", kMaxPackingFactor);
  const bool gemm = mme.kind == MmeKind::kGemm;
  const int64_t pixels = mme.c.sizes[gemm ? mme.c.sizes.size() - 2 : 3];
  if (factor > pixels) return strCat(" is packed by ", factor, ", but a row has ", pixels, " pixels");
  if (mme.packing != BPacking::kBlocked) return " is packed, but b is not a packed constant";
  std::string why = gemm ? gemmObstacle(mme) : convObstacle(mme, factor);
  if (why.empty() && weightBytes(mme, factor) == kMostWeightBytes)
    why = strCat(" is packed by ", factor, ", which makes more than 2^44 bytes of its weights");
  return why;
}

int64_t packedTaps(const MmeDesc& mme) {
  return tapsOf(mme, mme.packingFactor);
}

int64_t packedWeightBytes(const MmeDesc& mme) {
  return weightBytes(mme, mme.packingFactor);
}

}  // namespace hpu::recipe
