// SPDX-License-Identifier: Apache-2.0
// DmaUnit: an N-dimensional strided copy or fill, cut into parts that run in parallel.
// The one thing to know: source and destination must not overlap unless they are the same view.
#pragma once

#include <vector>

#include "runtime/driver/sim/functional/Unit.h"

namespace hpu::sim {

class DmaUnit final : public Unit {
 public:
  DmaUnit(const recipe::DmaDesc& desc, const OpSlice& slice);
  void run(const RunContext& context) const override;
  int64_t blocks() const { return blocks_; }

 private:
  /// A dimension after those of one element are dropped and continuing ones merged.
  struct Dim {
    int64_t extent = 1, srcStride = 0, dstStride = 0;
    int64_t part = 1, parts = 1;  ///< How it is cut into blocks.
  };
  void widenElements();
  void runBlock(int64_t block, const std::byte* src, std::byte* dst) const;
  template <typename T>
  void copyBox(const int64_t* extents, const T* src, T* dst) const;

  bool fill_ = false;
  uint64_t pattern_ = 0;
  int64_t elementSize_ = 1;
  BufferRef src_, dst_;
  int64_t srcBase_ = 0, dstBase_ = 0;  ///< Elements to the slice's first point.
  std::vector<Dim> dims_;              ///< By descending destination stride; at least two.
  int64_t blocks_ = 1;
};

}  // namespace hpu::sim
