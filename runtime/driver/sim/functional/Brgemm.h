// SPDX-License-Identifier: Apache-2.0
// The matrix micro-kernel of the simulated MME: C (+)= sum over t of A_t * B_t, all f32 and
// row-major. The one thing to know: an element's products are added one by one, in the order of t, then of the depth,
// whatever the rows and columns of the call; multiply and add are fused (not on a CPU without AVX2, or with
// HPU_MAX_CPU=baseline). This is the only user of libxsmm; a loop of our own computes what its JIT has no such kernel
// for.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hpu::sim {

/// One kernel's fixed sizes. Leading dimensions are in elements; those of a single row may be
/// anything.
struct BrgemmShape {
  int64_t rows = 0, columns = 0,
          depth = 0;        ///< C is rows x columns, A_t rows x depth, B_t depth x columns.
  int64_t aStride = 0;      ///< Between rows of A; at least depth.
  int64_t bStride = 0;      ///< Between rows of B; at least columns.
  int64_t cStride = 0;      ///< Between rows of C; at least columns.
  bool accumulate = false;  ///< C += instead of C =.
  bool operator==(const BrgemmShape&) const = default;
};

/// A callable kernel, cheap to copy; any thread may call it.
class Brgemm {
 public:
  Brgemm() = default;
  /// Makes the kernel, or finds the one made before. Never fails; any thread may call.
  static Brgemm get(BrgemmShape shape);
  /// Kernels that the process has made. Any thread may call.
  static size_t made();

  /// A_t starts aOffsets[t] bytes after `a`, B_t bOffsets[t] bytes after `b` (modulo 2^64); `count`
  /// >= 1.
  void operator()(const float* a, const float* b, float* c, uint64_t count, const uint64_t* aOffsets,
                  const uint64_t* bOffsets) const;
  explicit operator bool() const { return shape_.rows > 0; }
  /// True when libxsmm made it.
  bool isJitted() const { return jitted_ != nullptr; }

 private:
  BrgemmShape shape_;
  void* jitted_ = nullptr;
  void (*loop_)(const BrgemmShape& s, const float* a, const float* b, float* c, uint64_t count,
                const uint64_t* aOffsets, const uint64_t* bOffsets) = nullptr;  ///< Where nothing is jitted.
};

}  // namespace hpu::sim
