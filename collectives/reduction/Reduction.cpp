// SPDX-License-Identifier: Apache-2.0
#include "collectives/reduction/Reduction.h"

#include <algorithm>
#include <cstring>

#include "base/Copy.h"
#include "collectives/reduction/Kernels.h"
#include "numerics/ConvertKernels.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace hpu::collectives {

ElementType accumulatorType(ElementType type) {
  const bool narrow = type == ElementType::kF16 || type == ElementType::kBF16 || numerics::isFp8(type);
  return narrow ? ElementType::kF32 : type;
}

bool canReduce(ElementType type) {
  switch (type) {
    case ElementType::kI8:
    case ElementType::kU8:
    case ElementType::kI32:
    case ElementType::kU32:
    case ElementType::kI64:
    case ElementType::kU64:
    case ElementType::kF16:
    case ElementType::kF32:
    case ElementType::kF64:
    case ElementType::kBF16:
      return true;
    default:
      return numerics::isFp8(type);
  }
}

namespace {

/// Round to nearest, denormals kept, nothing trapped, while it lives.
class DefaultRounding {
 public:
#if defined(__x86_64__)
  DefaultRounding() : saved_(_mm_getcsr()) {
    if ((saved_ & ~0x3fu) != 0x1f80) _mm_setcsr(0x1f80);
  }
  ~DefaultRounding() { _mm_setcsr(saved_); }

 private:
  const unsigned saved_;
#endif
};

/// Chosen at the first reduction of the process; every level gives the same bits.
base::CpuLevel chosenLevel() {
  static const base::CpuLevel chosen = [] {
    auto level = base::usableCpuLevel();
    return level.ok() ? *level : base::detectCpuLevel();
  }();
  return chosen;
}

/// Elements of a staged block: its f32 copies of a few sources stay in the first-level cache.
constexpr int64_t kBlock = 512;
constexpr int kStaged = 8;

bool isPlain(const Source* sources, int64_t numSources) {
  return std::none_of(sources, sources + numSources, [](const Source& s) { return s.partial || s.scale != 1; });
}

void callKernel(base::CpuLevel level, ElementType type, ReduceOp op, const KernelCall& call) {
  reductionKernel(level, type, op, isPlain(call.sources, call.numSources))(call);
}

/// fp8: each block becomes f32 and is combined as f32.
void reduceFp8(base::CpuLevel level, const Reduce& what, const Source* sources, int64_t numSources) {
  const numerics::ConvertKernels& convert = numerics::convertKernels(level);
  const numerics::Fp8Format format = numerics::fp8Format(what.type);
  alignas(64) float staged[kStaged][kBlock], acc[kBlock];
  for (int64_t at = 0; at < what.count; at += kBlock) {
    const int64_t count = std::min(kBlock, what.count - at);
    for (int64_t next = 0; next < numSources;) {
      Source inputs[kStaged];
      int used = 0;
      if (next > 0) inputs[used++] = {reinterpret_cast<const std::byte*>(acc), false, 1};
      for (; used < kStaged && next < numSources; ++next, ++used) {
        const Source& source = sources[next];
        if (source.partial) {
          inputs[used] = {source.data + at * 4, false, 1};
          continue;
        }
        convert.fp8ToF32(format, reinterpret_cast<const uint8_t*>(source.data + at), staged[used],
                         static_cast<size_t>(count));
        inputs[used] = {reinterpret_cast<const std::byte*>(staged[used]), false, source.scale};
      }
      KernelCall call{inputs, used, reinterpret_cast<std::byte*>(acc), count};
      if (next == numSources && !what.dstPartial) call.divisor = what.divisor;
      callKernel(level, ElementType::kF32, what.op, call);
    }
    if (what.dstPartial) {
      std::memcpy(what.dst + at * 4, acc, static_cast<size_t>(count * 4));
    } else {
      convert.f32ToFp8(format, acc, reinterpret_cast<uint8_t*>(what.dst + at), static_cast<size_t>(count),
                       numerics::Overflow::kIeee);
      // This format's overflow is a NaN with the sign of what overflowed; results have the positive
      // one only.
      if (format == numerics::Fp8Format::kE4M3Fn)
        for (int64_t i = 0; i < count; ++i)
          if (what.dst[at + i] == std::byte{0xff}) what.dst[at + i] = std::byte{0x7f};
    }
  }
}

/// More sources than a kernel takes: block by block, the first ones become a partial result.
void reduceMany(base::CpuLevel level, const Reduce& what, const Source* sources, int64_t numSources) {
  const int64_t dataBytes = elementSize(what.type);
  const int64_t accBytes = elementSize(accumulatorType(what.type));
  alignas(64) std::byte acc[kBlock * 8];
  for (int64_t at = 0; at < what.count; at += kBlock) {
    const int64_t count = std::min(kBlock, what.count - at);
    for (int64_t next = 0; next < numSources;) {
      Source inputs[kMaxSources];
      int used = 0;
      if (next > 0) inputs[used++] = {acc, true, 1};
      for (; used < kMaxSources && next < numSources; ++next, ++used) {
        inputs[used] = sources[next];
        inputs[used].data += at * (sources[next].partial ? accBytes : dataBytes);
      }
      const bool last = next == numSources;
      KernelCall call{inputs, used, acc, count, /*dstPartial=*/true};
      if (last) {
        call.dst = what.dst + at * (what.dstPartial ? accBytes : dataBytes);
        call.dstPartial = what.dstPartial;
        call.divisor = what.dstPartial ? 1 : what.divisor;
      }
      callKernel(level, what.type, what.op, call);
    }
  }
}

}  // namespace

void reduceAt(base::CpuLevel level, const Reduce& what, const Source* sources, int64_t numSources) {
  if (what.count <= 0 || numSources <= 0 || !canReduce(what.type)) return;
  DefaultRounding rounding;
  if (numerics::isFp8(what.type)) return reduceFp8(level, what, sources, numSources);
  if (numSources > kMaxSources) return reduceMany(level, what, sources, numSources);
  KernelCall call{sources,         static_cast<int>(numSources),       what.dst,   what.count,
                  what.dstPartial, what.dstPartial ? 1 : what.divisor, what.stream};
  callKernel(level, what.type, what.op, call);
}

void reduce(const Reduce& what, std::span<const Source> sources) {
  reduceAt(chosenLevel(), what, sources.data(), static_cast<int64_t>(sources.size()));
}

void copyBytes(std::byte* dst, const std::byte* src, int64_t bytes, bool stream) {
  if (bytes <= 0 || dst == src) return;
  if (stream) return streamCopy(chosenLevel())(dst, src, bytes);
  base::copyMemory(dst, src, bytes);
}

}  // namespace hpu::collectives
