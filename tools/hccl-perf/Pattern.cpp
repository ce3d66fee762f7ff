// SPDX-License-Identifier: Apache-2.0
#include "tools/hccl-perf/Pattern.h"

#include <algorithm>
#include <cstring>

#include "numerics/ElementKinds.h"
#include "numerics/SmallFloat.h"

namespace hpu::tools {
namespace {

using collectives::ReduceOp;
using numerics::isFloat;

template <typename T>
void put(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof(value));
}

/// An integer of magnitude below 2^31, or the quotient of one and a small divisor.
void encode(ElementType type, double value, std::byte* at) {
  switch (type) {
    case ElementType::kF32:
      return put(at, static_cast<float>(value));
    case ElementType::kF64:
      return put(at, value);
    case ElementType::kBF16:
      return put(at, numerics::f32ToBf16(static_cast<float>(value)));
    case ElementType::kF16:
      return put(at, numerics::f32ToF16(static_cast<float>(value)));
    case ElementType::kF8E4M3:
    case ElementType::kF8E4M3Ieee:
    case ElementType::kF8E5M2:
      return put(at,
                 numerics::f32ToFp8(numerics::fp8Format(type), static_cast<float>(value), numerics::Overflow::kIeee));
    default:
      break;
  }
  // Modulo the type's range, as integers wrap.
  auto bits = static_cast<uint64_t>(static_cast<int64_t>(value));
  std::memcpy(at, &bits, static_cast<size_t>(elementSize(type)));
}

/// Small enough that every partial result is exact in every type: sums are at most 2 a rank (or 1),
/// products a few powers of two.
double contribution(const Workload& work, int rank, int64_t index) {
  auto mixed = static_cast<uint64_t>(index) * 2654435761u + static_cast<uint64_t>(rank) * 40503u;
  mixed ^= mixed >> 15;
  if (!work.reduces()) return static_cast<double>((mixed + static_cast<uint64_t>(rank)) % 13);
  if (work.redop == ReduceOp::kProd) return (index + rank) % std::max(work.ranks / 2, 1) == 0 ? 2 : 1;
  bool narrow =
      elementSize(work.type) == 1 && isFloat(work.type) && work.redop != ReduceOp::kMin && work.redop != ReduceOp::kMax;
  return static_cast<double>(mixed % (narrow ? 2 : 3));
}

double combine(const Workload& work, int64_t index) {
  double result = contribution(work, 0, index);
  for (int rank = 1; rank < work.ranks; ++rank) {
    double value = contribution(work, rank, index);
    switch (work.redop) {
      case ReduceOp::kSum:
      case ReduceOp::kAverage:
        result += value;
        break;
      case ReduceOp::kProd:
        result *= value;
        break;
      case ReduceOp::kMin:
        result = std::min(result, value);
        break;
      case ReduceOp::kMax:
        result = std::max(result, value);
        break;
    }
  }
  if (work.redop != ReduceOp::kAverage) return result;
  // Divided once in the accumulator's type: f32 for the narrow floats.
  if (work.type == ElementType::kF64) return result / work.ranks;
  if (isFloat(work.type)) return static_cast<double>(static_cast<float>(result) / static_cast<float>(work.ranks));
  return static_cast<double>(static_cast<int64_t>(result) / work.ranks);
}

}  // namespace

Pattern::Pattern(const Workload& work, int seed) : work_(work), elementBytes_(elementSize(work.type)) {
  auto table = [&](auto&& valueAt) {
    std::vector<std::byte> bytes(static_cast<size_t>(2 * kPeriod * elementBytes_));
    for (int64_t i = 0; i < 2 * kPeriod; ++i)
      encode(work_.type, valueAt(i % kPeriod + seed), bytes.data() + i * elementBytes_);
    return bytes;
  };
  for (int rank = 0; rank < work_.ranks; ++rank)
    contributions_.push_back(table([&](int64_t index) { return contribution(work_, rank, index); }));
  if (work_.reduces()) reduced_ = table([&](int64_t index) { return combine(work_, index); });
}

void Pattern::fill(const std::vector<std::byte>& table, int64_t start, int64_t count, std::byte* data) const {
  int64_t first = std::min(count, kPeriod), bytes = count * elementBytes_;
  std::memcpy(data, table.data() + start % kPeriod * elementBytes_, static_cast<size_t>(first * elementBytes_));
  for (int64_t done = first * elementBytes_; done < bytes;) {
    // Whole periods repeat themselves.
    int64_t piece = std::min(done, bytes - done);
    std::memcpy(data + done, data, static_cast<size_t>(piece));
    done += piece;
  }
}

int64_t Pattern::differing(const std::vector<std::byte>& table, int64_t start, int64_t count,
                           const std::byte* data) const {
  int64_t wrong = 0;
  for (int64_t done = 0; done < count;) {
    int64_t piece = std::min(count - done, kPeriod);
    const std::byte* expected = table.data() + (start + done) % kPeriod * elementBytes_;
    const std::byte* actual = data + done * elementBytes_;
    if (std::memcmp(expected, actual, static_cast<size_t>(piece * elementBytes_)) != 0)
      for (int64_t i = 0; i < piece; ++i)
        wrong += std::memcmp(expected + i * elementBytes_, actual + i * elementBytes_,
                             static_cast<size_t>(elementBytes_)) != 0;
    done += piece;
  }
  return wrong;
}

void Pattern::fillInput(int rank, std::byte* data) const {
  if (work_.inputElements() > 0) fill(contributions_[static_cast<size_t>(rank)], 0, work_.inputElements(), data);
}

int64_t Pattern::wrong(int rank, const std::byte* data) const {
  const int64_t count = work_.count;
  auto of = [&](int other) -> const std::vector<std::byte>& { return contributions_[static_cast<size_t>(other)]; };
  int64_t wrong = 0;
  switch (work_.op) {
    case PerfOp::kAllReduce:
      return differing(reduced_, 0, count, data);
    case PerfOp::kReduce:
      return rank == work_.root ? differing(reduced_, 0, count, data) : 0;
    case PerfOp::kReduceScatter:
      return differing(reduced_, rank * count, count, data);
    case PerfOp::kBroadcast:
      return differing(of(work_.root), 0, count, data);
    case PerfOp::kSendRecv:
      return differing(of((rank + work_.ranks - 1) % work_.ranks), 0, count, data);
    case PerfOp::kAllGather:
      for (int peer = 0; peer < work_.ranks; ++peer)
        wrong += differing(of(peer), 0, count, data + peer * count * elementBytes_);
      return wrong;
    case PerfOp::kAllToAll:
      for (int peer = 0; peer < work_.ranks; ++peer)
        wrong += differing(of(peer), rank * count, count, data + peer * count * elementBytes_);
      return wrong;
  }
  return wrong;
}

}  // namespace hpu::tools
