// SPDX-License-Identifier: Apache-2.0
#include "recipe/PackedWeights.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace hpu::recipe {
namespace {

/// Rows of a panel that are packed together: 64 x 64 four-byte elements stay in the first-level cache.
constexpr int64_t kRowBlock = 64;

template <typename T>
void packPanel(int64_t k, int64_t columns, const T* src, int64_t kStride, int64_t nStride, T* dst) {
  if (nStride == 1) {
    for (int64_t row = 0; row < k; ++row, src += kStride, dst += kPackedN) {
      std::memcpy(dst, src, static_cast<size_t>(columns) * sizeof(T));
      std::fill(dst + columns, dst + kPackedN, T(0));
    }
    return;
  }
  // Sources such as OIHW weights run along k: read them in that direction, a few rows at a time.
  for (int64_t row0 = 0; row0 < k; row0 += kRowBlock) {
    int64_t rows = std::min(kRowBlock, k - row0);
    T* block = dst + row0 * kPackedN;
    for (int64_t column = 0; column < columns; ++column) {
      const T* from = src + column * nStride + row0 * kStride;
      for (int64_t row = 0; row < rows; ++row) block[row * kPackedN + column] = from[row * kStride];
    }
    for (int64_t row = 0; row < rows && columns < kPackedN; ++row)
      std::fill(block + row * kPackedN + columns, block + (row + 1) * kPackedN, T(0));
  }
}

template <typename T>
void pack(const PackedShape& shape, const T* src, int64_t tapStride, int64_t kStride, int64_t nStride, T* dst) {
  for (int64_t tap = 0; tap < shape.taps; ++tap)
    for (int64_t block = 0; block < shape.panels(); ++block)
      packPanel(shape.k, std::min(kPackedN, shape.n - block * kPackedN),
                src + tap * tapStride + block * kPackedN * nStride, kStride, nStride,
                dst + shape.panelOffset(tap, block));
}

}  // namespace

Status packWeights(const PackedShape& shape, ElementType type, const void* src, int64_t tapStride, int64_t kStride,
                   int64_t nStride, void* dst) {
  switch (elementSize(type)) {
    case 1:
      pack(shape, static_cast<const uint8_t*>(src), tapStride, kStride, nStride, static_cast<uint8_t*>(dst));
      return okStatus();
    case 2:
      pack(shape, static_cast<const uint16_t*>(src), tapStride, kStride, nStride, static_cast<uint16_t*>(dst));
      return okStatus();
    case 4:
      pack(shape, static_cast<const uint32_t*>(src), tapStride, kStride, nStride, static_cast<uint32_t*>(dst));
      return okStatus();
    default:
      return invalidArgument("weights of type " + std::string(elementTypeName(type)) +
                             " cannot be packed: the blocked layout holds elements of 1, 2 and 4 bytes");
  }
}

}  // namespace hpu::recipe
