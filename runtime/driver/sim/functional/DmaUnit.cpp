// SPDX-License-Identifier: Apache-2.0
#include "runtime/driver/sim/functional/DmaUnit.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/Math.h"
#include "runtime/driver/sim/functional/Transpose.h"
#include "runtime/driver/sim/functional/WorkSharing.h"

namespace hpu::sim {
namespace {

using base::ceilDiv;

/// Bytes of one block: enough to be worth a thread's while, little enough to balance.
constexpr int64_t kBlockBytes = 128 << 10;
/// Rows of a part that are next to each other in the source: whole cache lines of it, whatever the elements.
constexpr int64_t kSourceRun = 64;
/// Side of the square that a transposing copy keeps in the first-level cache.
constexpr int64_t kTile = 32;

/// An element, which several of the tensor's own may make up: aligned as those are.
template <typename T>
struct [[gnu::packed]] Element {
  T bits;
};

/// rows x columns elements; the destination's columns are the closer ones.
template <typename T>
void copyPlane(int64_t rows, int64_t columns, const T* src, int64_t srcRow, int64_t srcColumn, T* dst, int64_t dstRow,
               int64_t dstColumn) {
  if (srcColumn == 1 && dstColumn == 1) {
    for (int64_t r = 0; r < rows; ++r)
      std::memcpy(dst + r * dstRow, src + r * srcRow, static_cast<size_t>(columns) * sizeof(T));
    return;
  }
  if (srcColumn == 0 && dstColumn == 1) {
    for (int64_t r = 0; r < rows; ++r) std::fill(dst + r * dstRow, dst + r * dstRow + columns, src[r * srcRow]);
    return;
  }
  if constexpr (sizeof(T) == sizeof(float)) {
    if (srcRow == 1 && dstColumn == 1) {
      transpose(std::bit_cast<const float*>(src), srcColumn, rows, columns, std::bit_cast<float*>(dst), dstRow);
      return;
    }
  }
  for (int64_t r0 = 0; r0 < rows; r0 += kTile)
    for (int64_t c0 = 0; c0 < columns; c0 += kTile)
      for (int64_t r = r0; r < std::min(r0 + kTile, rows); ++r)
        for (int64_t c = c0; c < std::min(c0 + kTile, columns); ++c)
          dst[r * dstRow + c * dstColumn] = src[r * srcRow + c * srcColumn];
}

}  // namespace

DmaUnit::DmaUnit(const recipe::DmaDesc& desc, const OpSlice& slice)
    : fill_(desc.fill), pattern_(desc.fillPattern), elementSize_(elementSize(desc.dst.type)) {
  dst_ = bufferRef(desc.dst, slice);
  if (!fill_) src_ = bufferRef(desc.src, slice);
  std::vector<Dim> dims;
  for (size_t d = 0; d < slice.lo.size(); ++d) {
    Dim dim;
    dim.extent = slice.hi[d] - slice.lo[d];
    dim.dstStride = desc.dst.strides[d];
    dim.srcStride = fill_ ? 0 : desc.src.strides[d];
    dstBase_ += slice.lo[d] * dim.dstStride;
    srcBase_ += slice.lo[d] * dim.srcStride;
    if (dim.extent > 1) dims.push_back(dim);
  }
  std::stable_sort(dims.begin(), dims.end(), [](const Dim& a, const Dim& b) { return a.dstStride > b.dstStride; });
  for (const Dim& dim : dims) {
    bool merges = !dims_.empty() && dims_.back().dstStride == dim.extent * dim.dstStride &&
                  dims_.back().srcStride == dim.extent * dim.srcStride;
    if (!merges) {
      dims_.push_back(dim);
      continue;
    }
    dims_.back().extent *= dim.extent;
    dims_.back().dstStride = dim.dstStride;
    dims_.back().srcStride = dim.srcStride;
  }
  widenElements();
  while (dims_.size() < 2) {
    // A contiguous one is better the row's columns.
    bool front = !dims_.empty();
    dims_.insert(front ? dims_.begin() : dims_.end(), Dim{});
  }
  // The dimension that is closest in the source becomes the second to last: the copied plane.
  size_t plane = dims_.size() - 2;
  for (size_t d = 0; !fill_ && d + 1 < dims_.size(); ++d)
    if (dims_[d].extent > 1 && (dims_[plane].extent == 1 || dims_[d].srcStride < dims_[plane].srcStride)) plane = d;
  std::rotate(dims_.begin() + static_cast<std::ptrdiff_t>(plane),
              dims_.begin() + static_cast<std::ptrdiff_t>(plane) + 1, dims_.end() - 1);

  const int64_t run = kSourceRun / elementSize_;
  int64_t bytes = elementSize_;
  for (const Dim& dim : dims_) bytes *= dim.extent;
  int64_t wanted = ceilDiv(bytes, kBlockBytes);
  for (Dim& dim : dims_) {
    dim.part = ceilDiv(dim.extent, std::min(wanted, dim.extent));
    if (!fill_ && dim.srcStride == 1 && dim.dstStride != 1)
      dim.part = std::min(ceilDiv(dim.part, run) * run, dim.extent);
    dim.parts = ceilDiv(dim.extent, dim.part);
    wanted = ceilDiv(wanted, dim.parts);
    blocks_ *= dim.parts;
  }
}

/// A run that both sides have and that is no longer than the largest element becomes one element.
void DmaUnit::widenElements() {
  if (fill_ || dims_.empty()) return;
  const Dim last = dims_.back();
  const auto bytes = static_cast<uint64_t>(last.extent * elementSize_);
  auto divides = [&](int64_t elements) { return elements % last.extent == 0; };
  if (last.srcStride != 1 || last.dstStride != 1 || bytes > sizeof(uint64_t) || !std::has_single_bit(bytes) ||
      !divides(srcBase_) || !divides(dstBase_) || !std::all_of(dims_.begin(), dims_.end() - 1, [&](const Dim& dim) {
        return divides(dim.srcStride) && divides(dim.dstStride);
      }))
    return;
  dims_.pop_back();
  elementSize_ *= last.extent;
  srcBase_ /= last.extent;
  dstBase_ /= last.extent;
  for (Dim& dim : dims_) {
    dim.srcStride /= last.extent;
    dim.dstStride /= last.extent;
  }
}

template <typename T>
void DmaUnit::copyBox(const int64_t* extents, const T* src, T* dst) const {
  const size_t planes = dims_.size() - 2;
  const Dim &rows = dims_[planes], &columns = dims_[planes + 1];
  int64_t index[recipe::kMaxRank] = {};
  for (;;) {
    copyPlane(extents[planes], extents[planes + 1], src, rows.srcStride, columns.srcStride, dst, rows.dstStride,
              columns.dstStride);
    size_t d = planes;
    while (d > 0) {
      --d;
      src += dims_[d].srcStride;
      dst += dims_[d].dstStride;
      if (++index[d] < extents[d]) break;
      src -= extents[d] * dims_[d].srcStride;
      dst -= extents[d] * dims_[d].dstStride;
      index[d] = 0;
      if (d == 0) return;
    }
    if (planes == 0) return;
  }
}

void DmaUnit::runBlock(int64_t block, const std::byte* src, std::byte* dst) const {
  int64_t extents[recipe::kMaxRank + 2], srcOffset = srcBase_, dstOffset = dstBase_;
  for (size_t d = dims_.size(); d-- > 0;) {
    const Dim& dim = dims_[d];
    int64_t first = block % dim.parts * dim.part;
    block /= dim.parts;
    extents[d] = std::min(dim.part, dim.extent - first);
    srcOffset += first * dim.srcStride;
    dstOffset += first * dim.dstStride;
  }
  auto copy = [&]<typename T>(T) {
    // A fill is a copy from one element that every stride stays at.
    Element<T> element;
    std::memcpy(&element, &pattern_, sizeof(T));
    const auto* from = fill_ ? &element : reinterpret_cast<const Element<T>*>(src) + srcOffset;
    copyBox(extents, from, reinterpret_cast<Element<T>*>(dst) + dstOffset);
  };
  switch (elementSize_) {
    case 1:
      return copy(uint8_t{});
    case 2:
      return copy(uint16_t{});
    case 4:
      return copy(uint32_t{});
    default:
      return copy(uint64_t{});
  }
}

void DmaUnit::run(const RunContext& context) const {
  const std::byte* src = fill_ ? nullptr : src_.in(context);
  std::byte* dst = dst_.in(context);
  shareBlocks(blocks_, context.threads, [&](int, BlockCursor& cursor) {
    for (int64_t block = cursor.next(); block >= 0; block = cursor.next()) runBlock(block, src, dst);
  });
}

}  // namespace hpu::sim
