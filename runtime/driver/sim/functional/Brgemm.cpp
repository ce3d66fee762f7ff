// SPDX-License-Identifier: Apache-2.0
#include "runtime/driver/sim/functional/Brgemm.h"

#include <immintrin.h>
#include <libxsmm.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cmath>
#include <mutex>
#include <unordered_map>

#include "base/AtFork.h"
#include "base/CpuFeatures.h"
#include "base/ExitGate.h"

/// What libxsmm calls in place of atexit (cmake/HpuDependencies.cmake): its kernels stay to the end of the process.
extern "C" int hpuXsmmAtExit(void (*)());
extern "C" int hpuXsmmAtExit(void (*)()) {
  return 0;
}

namespace hpu::sim {
namespace {

struct ShapeHash {
  size_t operator()(const BrgemmShape& s) const {
    uint64_t hash = s.accumulate;
    for (int64_t v : {s.rows, s.columns, s.depth, s.aStride, s.bStride, s.cStride})
      hash = (hash ^ static_cast<uint64_t>(v)) * 0x9e3779b97f4a7c15ull, hash ^= hash >> 29;
    return hash;
  }
};

/// libxsmm's own table ends at 131,072 kernels for the whole process; stop well before it.
constexpr size_t kMaxKernels = 100000;

/// Kernels by shape; a null one says that libxsmm has none.
struct Registry {
  std::mutex mutex;
  std::unordered_map<BrgemmShape, void*, ShapeHash> kernels;  // Guarded by mutex.
  base::CpuLevel cpu = base::CpuLevel::kBaseline;

  Registry() {
    auto level = base::usableCpuLevel();
    cpu = level.ok() ? *level : base::detectCpuLevel();
    if (cpu < base::CpuLevel::kV3) return;
    libxsmm_init();
    base::renewExitGate();
    if (cpu == base::CpuLevel::kV3) libxsmm_set_target_archid(LIBXSMM_X86_AVX2);
  }
};

Registry& registry();
std::mutex& registryMutex() {
  return registry().mutex;
}
Registry& registry() {
  static Registry* instance = [] {
    base::atFork(base::ForkRank::kMatrixKernels, base::forkHandlersOf<registryMutex>());
    return new Registry;  // Kernels live as long as the process.
  }();
  return *instance;
}

void* dispatch(const BrgemmShape& s) {
  // libxsmm is column-major: its A is our B and the other way round.
  for (int64_t v : {s.rows, s.columns, s.depth, s.aStride, s.bStride, s.cStride})
    if (v <= 0 || v > INT_MAX / 8) return nullptr;
  libxsmm_blasint lda = static_cast<libxsmm_blasint>(s.bStride);
  libxsmm_blasint ldb = static_cast<libxsmm_blasint>(s.aStride);
  libxsmm_blasint ldc = static_cast<libxsmm_blasint>(s.cStride);
  float alpha = 1.0f, beta = s.accumulate ? 1.0f : 0.0f;
  int flags = LIBXSMM_GEMM_FLAG_NONE, prefetch = LIBXSMM_PREFETCH_NONE;
  // The variant with offsets: the one with addresses writes back into the caller's pointer arrays.
  auto function = libxsmm_smmdispatch_reducebatch_offs(
      static_cast<libxsmm_blasint>(s.columns), static_cast<libxsmm_blasint>(s.rows),
      static_cast<libxsmm_blasint>(s.depth), &lda, &ldb, &ldc, &alpha, &beta, &flags, &prefetch);
  return reinterpret_cast<void*>(function);
}

const float* shifted(const float* base, uint64_t bytes) {
  return reinterpret_cast<const float*>(reinterpret_cast<uintptr_t>(base) + bytes);
}

/// Every way to compute a kernel sums an element's products one by one, in the order of t, then of the depth, in one
/// f32 number; multiply and add are fused wherever the CPU can. So an element depends on nothing but its factors.
template <typename MultiplyAdd>
__attribute__((always_inline)) inline void runLoop(const BrgemmShape& s, const float* a, const float* b, float* c,
                                                   uint64_t count, const uint64_t* aOffsets, const uint64_t* bOffsets,
                                                   MultiplyAdd multiplyAdd) {
  constexpr int64_t kWidth = 64;
  for (int64_t row = 0; row < s.rows; ++row) {
    for (int64_t column0 = 0; column0 < s.columns; column0 += kWidth) {
      int64_t width = std::min(kWidth, s.columns - column0);
      float sums[kWidth] = {};
      float* out = c + row * s.cStride + column0;
      if (s.accumulate) std::copy(out, out + width, sums);
      for (uint64_t t = 0; t < count; ++t) {
        const float* left = shifted(a, aOffsets[t]) + row * s.aStride;
        const float* right = shifted(b, bOffsets[t]) + column0;
        for (int64_t k = 0; k < s.depth; ++k, right += s.bStride) {
          float value = left[k];
          for (int64_t i = 0; i < width; ++i) sums[i] = multiplyAdd(value, right[i], sums[i]);
        }
      }
      std::copy(sums, sums + width, out);
    }
  }
}

void runPortable(const BrgemmShape& s, const float* a, const float* b, float* c, uint64_t count,
                 const uint64_t* aOffsets, const uint64_t* bOffsets) {
  runLoop(s, a, b, c, count, aOffsets, bOffsets, [](float x, float y, float sum) { return sum + x * y; });
}

/// For shapes that libxsmm does not take.
__attribute__((target("avx2,fma"))) void runFused(const BrgemmShape& s, const float* a, const float* b, float* c,
                                                  uint64_t count, const uint64_t* aOffsets, const uint64_t* bOffsets) {
  runLoop(s, a, b, c, count, aOffsets, bOffsets,
          [](float x, float y, float sum) __attribute__((always_inline)) { return __builtin_fmaf(x, y, sum); });
}

constexpr int64_t kNarrowColumns = 16, kNarrowRows = 11;

/// libxsmm's AVX-512 kernels of so few columns and rows keep several sums of an element, to hide the latency of one;
/// how many follows from the rows, so that a product would depend on how its rows are cut.
bool sumsApart(base::CpuLevel cpu, const BrgemmShape& s) {
  return cpu >= base::CpuLevel::kV4 && s.columns <= kNarrowColumns && s.rows <= kNarrowRows;
}

/// These shapes, one sum an element.
template <int kRows>
__attribute__((target("avx512f"))) void runFew(const BrgemmShape& s, const float* a, const float* b, float* c,
                                               uint64_t count, const uint64_t* aOffsets, const uint64_t* bOffsets) {
  const auto mask = static_cast<__mmask16>((1u << s.columns) - 1);
  __m512 sums[kRows];
#pragma GCC unroll 11
  for (int r = 0; r < kRows; ++r)
    sums[r] = s.accumulate ? _mm512_maskz_loadu_ps(mask, c + r * s.cStride) : _mm512_setzero_ps();
  for (uint64_t t = 0; t < count; ++t) {
    const float* left = shifted(a, aOffsets[t]);
    const float* right = shifted(b, bOffsets[t]);
    for (int64_t k = 0; k < s.depth; ++k, right += s.bStride) {
      const __m512 factors = _mm512_maskz_loadu_ps(mask, right);
#pragma GCC unroll 11
      for (int r = 0; r < kRows; ++r)
        sums[r] = _mm512_fmadd_ps(_mm512_set1_ps(left[r * s.aStride + k]), factors, sums[r]);
    }
  }
#pragma GCC unroll 11
  for (int r = 0; r < kRows; ++r) _mm512_mask_storeu_ps(c + r * s.cStride, mask, sums[r]);
}

template <size_t... kIndex>
constexpr auto fewKernels(std::index_sequence<kIndex...>) {
  return std::array{&runFew<static_cast<int>(kIndex) + 1>...};
}

}  // namespace

Brgemm Brgemm::get(BrgemmShape shape) {
  if (shape.rows == 1) {
    shape.aStride = shape.depth;
    shape.cStride = shape.columns;
  }
  if (shape.depth == 1) shape.bStride = shape.columns;
  Brgemm kernel;
  kernel.shape_ = shape;
  Registry& r = registry();
  kernel.loop_ = r.cpu < base::CpuLevel::kV3 ? runPortable : runFused;
  if (r.cpu < base::CpuLevel::kV3) return kernel;
  if (sumsApart(r.cpu, shape)) {
    static constexpr auto kKernels = fewKernels(std::make_index_sequence<kNarrowRows>());
    kernel.loop_ = kKernels[static_cast<size_t>(shape.rows - 1)];
    return kernel;
  }
  std::lock_guard lock(r.mutex);
  auto found = r.kernels.find(shape);
  if (found == r.kernels.end()) {
    if (r.kernels.size() >= kMaxKernels) return kernel;
    found = r.kernels.emplace(shape, dispatch(shape)).first;
  }
  kernel.jitted_ = found->second;
  return kernel;
}

size_t Brgemm::made() {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  return r.kernels.size();
}

void Brgemm::operator()(const float* a, const float* b, float* c, uint64_t count, const uint64_t* aOffsets,
                        const uint64_t* bOffsets) const {
  if (jitted_) {
    unsigned long long batches = count;
    reinterpret_cast<libxsmm_smmfunction_reducebatch_offs>(jitted_)(
        b, a, c, &batches, reinterpret_cast<const unsigned long long*>(bOffsets),
        reinterpret_cast<const unsigned long long*>(aOffsets));
    return;
  }
  loop_(shape_, a, b, c, count, aOffsets, bOffsets);
}

}  // namespace hpu::sim
