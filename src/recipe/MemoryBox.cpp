// SPDX-License-Identifier: Apache-2.0
#include "recipe/MemoryBox.h"

#include <algorithm>

namespace hpu::recipe {

namespace {

/// Radices: every stride of either box, descending, then single bytes.
constexpr size_t kMaxDigits = 2 * kMaxRank + 1;

struct Radices {
  std::array<uint64_t, kMaxDigits> unit{};
  size_t count = 0;
};

/// False when the strides do not divide one another, so that an address has no unique digits.
bool commonRadices(const MemoryBox& a, const MemoryBox& b, Radices& radices) {
  for (const MemoryBox* box : {&a, &b}) {
    for (uint32_t d = 0; d < box->rank; ++d) radices.unit[radices.count++] = box->dims[d].stride;
  }
  auto* begin = radices.unit.data();
  std::sort(begin, begin + radices.count, std::greater<>());
  radices.count = static_cast<size_t>(std::unique(begin, begin + radices.count) - begin);
  radices.unit[radices.count++] = 1;
  for (size_t k = 1; k < radices.count; ++k) {
    if (radices.unit[k - 1] % radices.unit[k] != 0) return false;
  }
  return true;
}

struct Digits {
  std::array<uint64_t, kMaxDigits> lo{}, hi{};
};

/// A superset of the box's addresses, counted from `origin`: each digit by itself in lo..hi.
Digits digitsOf(const MemoryBox& box, const Radices& radices, uint64_t origin) {
  Digits digits;
  uint64_t rest = box.begin - origin;
  for (size_t k = 0; k < radices.count; ++k) {
    digits.lo[k] = digits.hi[k] = rest / radices.unit[k];
    rest %= radices.unit[k];
    for (uint32_t d = 0; d < box.rank; ++d) {
      if (box.dims[d].stride == radices.unit[k]) digits.hi[k] += box.dims[d].count - 1;
    }
  }
  digits.hi[radices.count - 1] += box.run - 1;
  for (size_t k = radices.count - 1; k > 0; --k) {
    uint64_t base = radices.unit[k - 1] / radices.unit[k];
    if (digits.hi[k] < base) continue;
    // It carries: then the digit may be anything.
    digits.hi[k - 1] += digits.hi[k] / base;
    digits.lo[k] = 0;
    digits.hi[k] = base - 1;
  }
  return digits;
}

/// Whether a digit of the addresses, counted from `origin`, tells the boxes apart.
bool disjointFrom(const MemoryBox& a, const MemoryBox& b, const Radices& radices, uint64_t origin) {
  Digits x = digitsOf(a, radices, origin), y = digitsOf(b, radices, origin);
  for (size_t k = 0; k < radices.count; ++k)
    if (x.hi[k] < y.lo[k] || y.hi[k] < x.lo[k]) return true;
  return false;
}

}  // namespace

MemoryBox denseBox(uint32_t section, uint64_t offset, uint64_t bytes) {
  MemoryBox box;
  box.section = section;
  box.begin = offset;
  box.end = offset + bytes;
  box.run = bytes;
  return box;
}

MemoryBox memoryBox(const Operand& operand, std::span<const int64_t> lo, std::span<const int64_t> hi, uint32_t slice) {
  const auto element = static_cast<uint64_t>(elementSize(operand.type));
  MemoryBox box = denseBox(operand.section, operand.offset, element);
  const Ring& ring = operand.ring;
  if (ring.slots) box.begin += (slice % ring.slots) * ring.slotBytes;
  for (size_t d = 0; d < operand.sizes.size(); ++d) {
    const uint64_t stride = static_cast<uint64_t>(operand.strides[d]) * element;
    // A ring counts its dimension from the slice's own start.
    if (!ring.slots || d != ring.dim) box.begin += static_cast<uint64_t>(lo[d]) * stride;
    const auto count = static_cast<uint64_t>(hi[d] - lo[d]);
    if (count == 1 || stride == 0) continue;
    uint32_t at = box.rank++;
    for (; at > 0 && box.dims[at - 1].stride > stride; --at) box.dims[at] = box.dims[at - 1];
    box.dims[at] = {stride, count};
  }
  // Merge what touches: first into the run, then dimensions into one another.
  uint64_t reach = 0;
  uint32_t kept = 0;
  for (uint32_t d = 0; d < box.rank; ++d) {
    MemoryBox::Dim dim = box.dims[d];
    reach += dim.stride * (dim.count - 1);
    if (kept == 0 && dim.stride <= box.run) {
      box.run += dim.stride * (dim.count - 1);
    } else if (kept > 0 && dim.stride == box.dims[kept - 1].stride * box.dims[kept - 1].count) {
      box.dims[kept - 1].count *= dim.count;
    } else {
      box.dims[kept++] = dim;
    }
  }
  for (uint32_t d = kept; d < box.rank; ++d) box.dims[d] = {};
  box.rank = kept;
  box.end = box.begin + reach + element;
  return box;
}

MemoryBox wholeBox(const Operand& operand) {
  if (operand.ring.slots) {
    return denseBox(operand.section, operand.offset, operandSpanBytes(operand));
  }
  std::array<int64_t, kMaxRank> zeros{};
  return memoryBox(operand, {zeros.data(), operand.sizes.size()}, operand.sizes, 0);
}

bool disjoint(const MemoryBox& a, const MemoryBox& b) {
  if (a.section != b.section || a.end <= b.begin || b.end <= a.begin) return true;
  if (a.dense() && b.dense()) return false;
  Radices radices;
  if (!commonRadices(a, b, radices)) return false;
  // Where counting starts changes nothing but the digits: from the first of the two, parts of one tensor do not carry,
  // wherever the tensor lies. A part of a part begins inside of a digit; then the other one is where a digit begins.
  const uint64_t first = std::min(a.begin, b.begin), behind = std::max(a.begin, b.begin) - first;
  if (disjointFrom(a, b, radices, first) || disjointFrom(a, b, radices, 0)) return true;
  for (size_t k = 0; k < radices.count; ++k) {
    const uint64_t unit = radices.unit[k], ahead = (unit - behind % unit) % unit;
    if (ahead > 0 && ahead <= first && disjointFrom(a, b, radices, first - ahead)) return true;
  }
  return false;
}

}  // namespace hpu::recipe
