// SPDX-License-Identifier: Apache-2.0
// The host's code of kernels that order a row: compiled by itself into an object that OrderKernel.cpp links into
// recipes. The one thing to know: it calls nothing outside of this file and has no writable data. What it works on
// beyond its 80 KB of scratch lies in the result itself, whose elements have 8 bytes: a key of 32 bits and a position.
// HPU_ORDERED_BITS: an unsigned integer of an element's size; each size is an object of its own.
#include "compiler/kernels/OrderCode.h"

#include "hpu/kernel.h"

namespace {

using namespace hpu::kernels::order;
using u8 = uint8_t;
using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;

/// Entries of 8 bytes in a half of the scratch memory.
constexpr int64_t kHalf = kScratchBytes / 16;

template <typename To>
To bitsAt(const char* place) {
  To value;
  __builtin_memcpy(&value, place, sizeof value);
  return value;
}

/// `Bits` is what an element is read as; the result is the lower, the earlier the element is in rising order.
template <typename Bits, Kind kKind>
u64 keyAt(const char* place) {
  const Bits bits = bitsAt<Bits>(place);
  constexpr int kWidth = sizeof(Bits) * 8;
  constexpr Bits kSign = static_cast<Bits>(Bits{1} << (kWidth - 1));
  if constexpr (kKind == Kind::kUnsigned) {
    return bits;
  } else if constexpr (kKind == Kind::kSigned) {
    return static_cast<Bits>(bits ^ kSign);
  } else {
    constexpr Bits kInfinity = kKind == Kind::kFloat32   ? static_cast<Bits>(0x7f800000)
                               : kKind == Kind::kBfloat  ? static_cast<Bits>(0x7f80)
                               : kKind == Kind::kFloat16 ? static_cast<Bits>(0x7c00)
                                                         : static_cast<Bits>(u64{0x7ff0} << 48);
    const Bits magnitude = static_cast<Bits>(bits & ~kSign);
    const Bits number = bits & kSign ? static_cast<Bits>(kSign - magnitude) : static_cast<Bits>(kSign + magnitude);
    return magnitude > kInfinity ? static_cast<Bits>(~Bits{0}) : number;
  }
}

struct Row {
  const char* x;
  int64_t step, size;                 ///< Of x, in bytes; elements.
  u64* out;                           ///< Null where indices are not asked for.
  char* values;                       ///< Null where the elements themselves are not.
  int64_t outStep, valueStep, count;  ///< In elements, in bytes; how many are picked.
  u32 flip;                           ///< Of keys of 32 bits: all ones where the largest come first.
  u64* scratch;
};

/// The k-th pick is the element at `position`.
template <typename Bits>
void put(const Row& row, int64_t k, u64 position) {
  if (row.values)
    *reinterpret_cast<Bits*>(row.values + k * row.valueStep) =
        bitsAt<Bits>(row.x + static_cast<int64_t>(position) * row.step);
  if (row.out) row.out[k * row.outStep] = position;
}

// ---- Entries: a key in the upper half, its position in the lower one. No two are equal. ----

void insertionSort(u64* a, int64_t n) {
  for (int64_t i = 1; i < n; ++i) {
    const u64 entry = a[i];
    int64_t to = i;
    for (; to > 0 && a[to - 1] > entry; --to) a[to] = a[to - 1];
    a[to] = entry;
  }
}

/// By bytes from `low` to `high` of the entries, the lowest first; entries that agree in all of them stay as they are.
/// Returns a or b: where the result is.
u64* radixSort(u64* a, u64* b, int64_t n, int low, int high) {
  for (int byte = low; byte <= high; ++byte) {
    const int shift = byte * 8;
    u32 starts[256];
    for (u32& start : starts) start = 0;
    for (int64_t i = 0; i < n; ++i) ++starts[a[i] >> shift & 255];
    if (starts[a[0] >> shift & 255] == static_cast<u32>(n)) continue;
    u32 sum = 0;
    for (u32& start : starts) {
      const u32 own = start;
      start = sum;
      sum += own;
    }
    for (int64_t i = 0; i < n; ++i) b[starts[a[i] >> shift & 255]++] = a[i];
    u64* other = a;
    a = b, b = other;
  }
  return a;
}

constexpr int64_t kFewEntries = 40;

/// `a` has the entries in the order of their positions among equal keys, in the first half of the scratch.
u64* sortInScratch(u64* scratch, int64_t n) {
  if (n > kFewEntries) return radixSort(scratch, scratch + kHalf, n, 4, 7);
  insertionSort(scratch, n);
  return scratch;
}

/// Entries in any order, at a stride: by one byte after the other from `byte` down in place, until the rest fits into
/// scratch memory.
void sortInPlace(u64* a, int64_t step, int64_t n, int byte, u64* scratch) {
  while (n > kHalf) {
    const int shift = byte * 8;
    u32 ends[257], next[256];
    for (u32& end : ends) end = 0;
    for (int64_t i = 0; i < n; ++i) ++ends[(a[i * step] >> shift & 255) + 1];
    bool isOne = false;
    for (int d = 0; d < 256; ++d) isOne |= ends[d + 1] == static_cast<u32>(n);
    if (isOne) {
      --byte;
      continue;
    }
    for (int d = 0; d < 256; ++d) ends[d + 1] += ends[d];
    for (int d = 0; d < 256; ++d) next[d] = ends[d];
    for (u32 d = 0; d < 256; ++d)
      while (next[d] < ends[d + 1]) {
        u64 entry = a[next[d] * step];
        for (u32 to = entry >> shift & 255; to != d; to = entry >> shift & 255) {
          u64& place = a[next[to]++ * step];
          const u64 moved = place;
          place = entry;
          entry = moved;
        }
        a[next[d]++ * step] = entry;
      }
    for (int d = 0; d < 256; ++d)
      if (ends[d + 1] - ends[d] > 1) sortInPlace(a + ends[d] * step, step, ends[d + 1] - ends[d], byte - 1, scratch);
    return;
  }
  for (int64_t i = 0; i < n; ++i) scratch[i] = a[i * step];
  const u64* sorted = scratch;
  if (n > kFewEntries)
    sorted = radixSort(scratch, scratch + kHalf, n, 0, byte);
  else
    insertionSort(scratch, n);
  for (int64_t i = 0; i < n; ++i) a[i * step] = sorted[i];
}

// ---- A heap of what is picked, its last one on top ----

template <typename Before>
void sift(u64* a, int64_t step, int64_t n, int64_t hole, u64 entry, const Before& before) {
  for (int64_t child = 2 * hole + 1; child < n; child = 2 * hole + 1) {
    if (child + 1 < n && before(a[child * step], a[(child + 1) * step])) ++child;
    if (!before(entry, a[child * step])) break;
    a[hole * step] = a[child * step];
    hole = child;
  }
  a[hole * step] = entry;
}

template <typename Before>
void makeHeap(u64* a, int64_t step, int64_t n, const Before& before) {
  for (int64_t i = n / 2; i-- > 0;) sift(a, step, n, i, a[i * step], before);
}

// ---- Keys of at most 32 bits ----

template <typename Bits, Kind kKind>
u32 narrowKey(const Row& row, int64_t i) {
  return static_cast<u32>(keyAt<Bits, kKind>(row.x + i * row.step)) ^ row.flip;
}

u64 entryOf(u32 key, int64_t position) {
  return u64{key} << 32 | static_cast<u32>(position);
}

constexpr int64_t kBlock = 64;

/// The keys of a block, and the least of them.
template <typename Bits, Kind kKind>
u32 blockOf(const Row& row, int64_t first, u32* keys) {
  u32 least = ~u32{0};
  const char* x = row.x + first * row.step;
  auto fill = [&](int64_t step) {
    for (int64_t i = 0; i < kBlock; ++i) keys[i] = static_cast<u32>(keyAt<Bits, kKind>(x + i * step)) ^ row.flip;
  };
  if (row.step == static_cast<int64_t>(sizeof(Bits)))
    fill(sizeof(Bits));
  else
    fill(row.step);
  for (int64_t i = 0; i < kBlock; ++i) least = keys[i] < least ? keys[i] : least;
  return least;
}

/// Few entries set the limit early; too few are ordered too often.
constexpr int64_t kLeastRoom = 256;

/// What may be among the first is gathered; when that is as much as fits, all but the first are dropped.
template <typename Bits, Kind kKind>
u64* gatherFirst(const Row& row) {
  const int64_t room = row.count * 2 > kHalf ? kHalf : row.count * 2 < kLeastRoom ? kLeastRoom : row.count * 2;
  int64_t held = 0;
  u64 limit = ~u64{0};  // Of the last of the first, once there are enough. A later equal key is behind it.
  u64* entries = row.scratch;
  auto drop = [&] {
    const u64* sorted = sortInScratch(entries, held);
    held = held < row.count ? held : row.count;
    if (sorted != entries)
      for (int64_t i = 0; i < held; ++i) entries[i] = sorted[i];
    if (held == row.count) limit = entries[held - 1] >> 32;
  };
  auto take = [&](u32 key, int64_t position) {
    if (key >= limit) return;
    entries[held++] = entryOf(key, position);
    if (held == room) drop();
  };
  u32 keys[kBlock];
  int64_t i = 0;
  for (; i + kBlock <= row.size; i += kBlock) {
    if (blockOf<Bits, kKind>(row, i, keys) >= limit) continue;
    for (int64_t j = 0; j < kBlock; ++j) take(keys[j], i + j);
  }
  for (; i < row.size; ++i) take(narrowKey<Bits, kKind>(row, i), i);
  drop();
  return entries;
}

/// The first ones of few entries, one after the other.
template <typename Bits>
void selectFew(const Row& row, u64* entries) {
  for (int64_t k = 0; k < row.count; ++k) {
    u64 first = ~u64{0};
    for (int64_t i = 0; i < row.size; ++i) first = entries[i] < first ? entries[i] : first;
    entries[static_cast<u32>(first)] = ~u64{0};
    put<Bits>(row, k, static_cast<u32>(first));
  }
}

template <typename Bits, Kind kKind>
void narrowRow(const Row& row) {
  auto putAll = [&](const u64* sorted) {
    for (int64_t i = 0; i < row.count; ++i) put<Bits>(row, i, static_cast<u32>(sorted[i]));
  };
  constexpr int64_t kFewSteps = 1024;
  if (row.size * row.count <= kFewSteps && row.size > row.count) {
    for (int64_t i = 0; i < row.size; ++i) row.scratch[i] = entryOf(narrowKey<Bits, kKind>(row, i), i);
    return selectFew<Bits>(row, row.scratch);
  }
  if (row.size <= kHalf && row.count * 8 > row.size) {
    for (int64_t i = 0; i < row.size; ++i) row.scratch[i] = entryOf(narrowKey<Bits, kKind>(row, i), i);
    return putAll(sortInScratch(row.scratch, row.size));
  }
  if (row.count <= kHalf / 2) return putAll(gatherFirst<Bits, kKind>(row));
  // In the result's own memory.
  u64* const out = row.out;
  const int64_t step = row.outStep;
  for (int64_t i = 0; i < row.count; ++i) out[i * step] = entryOf(narrowKey<Bits, kKind>(row, i), i);
  if (row.count < row.size) {
    auto before = [](u64 a, u64 b) { return a < b; };
    makeHeap(out, step, row.count, before);
    for (int64_t i = row.count; i < row.size; ++i) {
      const u64 entry = entryOf(narrowKey<Bits, kKind>(row, i), i);
      if (entry < out[0]) sift(out, step, row.count, 0, entry, before);
    }
  }
  sortInPlace(out, step, row.count, 7, row.scratch);
  for (int64_t i = 0; i < row.count; ++i) put<Bits>(row, i, static_cast<u32>(out[i * step]));
}

// ---- Keys of 64 bits: positions are sorted, keys looked up ----

template <Kind kKind>
struct WideBefore {
  const Row& row;
  u64 flip;
  u64 key(u64 position) const { return keyAt<u64, kKind>(row.x + static_cast<int64_t>(position) * row.step) ^ flip; }
  bool operator()(u64 a, u64 b) const {
    const u64 first = key(a), second = key(b);
    return first < second || (first == second && a < b);
  }
};

/// Merges runs of positions, which rise among equal keys, until there is one; returns where it is.
template <Kind kKind>
u32* mergeSort(u32* a, u32* b, int64_t n, const WideBefore<kKind>& before) {
  for (int64_t i = 0; i < n; ++i) a[i] = static_cast<u32>(i);
  for (int64_t width = 1; width < n; width *= 2) {
    for (int64_t from = 0; from < n; from += 2 * width) {
      const int64_t middle = from + width < n ? from + width : n, end = middle + width < n ? middle + width : n;
      int64_t i = from, j = middle;
      for (int64_t to = from; to < end; ++to) {
        const bool isSecond = i == middle || (j < end && before(a[j], a[i]));
        b[to] = isSecond ? a[j++] : a[i++];
      }
    }
    u32* other = a;
    a = b, b = other;
  }
  return a;
}

template <Kind kKind>
void wideRow(const Row& row) {
  const WideBefore<kKind> before{row, row.flip ? ~u64{0} : 0};
  u64* const out = row.out;
  const int64_t step = row.outStep, count = row.count;
  if (row.size <= kHalf && (!out || count * 8 > row.size)) {
    auto* a = reinterpret_cast<u32*>(row.scratch);
    const u32* sorted = mergeSort<kKind>(a, a + kHalf, row.size, before);
    for (int64_t i = 0; i < count; ++i) put<u64>(row, i, sorted[i]);
    return;
  }
  for (int64_t i = 0; i < count; ++i) out[i * step] = static_cast<u64>(i);
  makeHeap(out, step, count, before);
  for (int64_t i = count; i < row.size; ++i)
    if (before(static_cast<u64>(i), out[0])) sift(out, step, count, 0, static_cast<u64>(i), before);
  for (int64_t n = count - 1; n > 0; --n) {
    const u64 last = out[n * step];
    out[n * step] = out[0];
    sift(out, step, n, 0, last, before);
  }
  for (int64_t i = 0; i < count; ++i) put<u64>(row, i, out[i * step]);
}

using RowFunction = void (*)(const Row&);

template <typename Bits>
void orderRow(const Row& row, Kind kind) {
  if constexpr (sizeof(Bits) == 8) {
    if (kind == Kind::kFloat64) return wideRow<Kind::kFloat64>(row);
    if (kind == Kind::kSigned) return wideRow<Kind::kSigned>(row);
    return wideRow<Kind::kUnsigned>(row);
  } else {
    if constexpr (sizeof(Bits) == 4)
      if (kind == Kind::kFloat32) return narrowRow<u32, Kind::kFloat32>(row);
    if constexpr (sizeof(Bits) == 2) {
      if (kind == Kind::kFloat16) return narrowRow<u16, Kind::kFloat16>(row);
      if (kind == Kind::kBfloat) return narrowRow<u16, Kind::kBfloat>(row);
    }
    if (kind == Kind::kSigned) return narrowRow<Bits, Kind::kSigned>(row);
    return narrowRow<Bits, Kind::kUnsigned>(row);
  }
}

}  // namespace

extern "C" void hpu_top_indices(const HpuKernelArgs* args) {
  const int64_t* numbers = args->dims;
  const int64_t rank = numbers[kRank], axis = numbers[kAxis];
  constexpr int64_t kBytes = sizeof(HPU_ORDERED_BITS);
  const int64_t *strides = numbers + kStrides, *outStrides = strides + rank, *valueStrides = outStrides + rank;
  const auto kind = static_cast<Kind>(numbers[kKind]);
  const int64_t out = numbers[kIndices], values = numbers[kValues];
  Row row{};
  row.step = strides[axis] * kBytes;
  row.size = numbers[kSize];
  row.outStep = outStrides[axis];
  row.valueStep = valueStrides[axis] * kBytes;
  row.count = numbers[kCount];
  row.flip = numbers[kLargest] ? ~u32{0} : 0;
  row.scratch = static_cast<u64*>(args->scratch);
  if (row.count <= 0) return;
  int64_t at[kMostRank];
  for (int64_t d = 0; d < rank; ++d) {
    at[d] = d == axis ? 0 : args->lo[d];
    if (d != axis && args->lo[d] >= args->hi[d]) return;
  }
  for (;;) {
    int64_t from = 0, to = 0, valuesTo = 0;
    for (int64_t d = 0; d < rank; ++d) {
      from += at[d] * strides[d];
      to += at[d] * outStrides[d];
      valuesTo += at[d] * valueStrides[d];
    }
    row.x = static_cast<const char*>(args->buffers[0]) + from * kBytes;
    row.out = out < 0 ? nullptr : static_cast<u64*>(args->buffers[out]) + to;
    row.values = values < 0 ? nullptr : static_cast<char*>(args->buffers[values]) + valuesTo * kBytes;
    orderRow<HPU_ORDERED_BITS>(row, kind);
    int64_t d = rank - 1;
    for (; d >= 0; --d) {
      if (d == axis) continue;
      if (++at[d] < args->hi[d]) break;
      at[d] = args->lo[d];
    }
    if (d < 0) return;
  }
}
