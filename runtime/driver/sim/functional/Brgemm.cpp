// SPDX-License-Identifier: Apache-2.0
#include "runtime/driver/sim/functional/Brgemm.h"

#include <libxsmm.h>

#include <algorithm>
#include <climits>
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
  bool usable = false;

  Registry() {
    auto level = base::usableCpuLevel();
    base::CpuLevel cpu = level.ok() ? *level : base::detectCpuLevel();
    usable = cpu >= base::CpuLevel::kV3;
    if (!usable) return;
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

void runPortable(const BrgemmShape& s, const float* a, const float* b, float* c, uint64_t count,
                 const uint64_t* aOffsets, const uint64_t* bOffsets) {
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
          for (int64_t i = 0; i < width; ++i) sums[i] += value * right[i];
        }
      }
      std::copy(sums, sums + width, out);
    }
  }
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
  if (!r.usable) return kernel;
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
  runPortable(shape_, a, b, c, count, aOffsets, bOffsets);
}

}  // namespace hpu::sim
