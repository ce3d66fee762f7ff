// SPDX-License-Identifier: Apache-2.0
// The bytes that a strided view touches, exactly enough to tell whether two views can meet.
// The one thing to know: spans may overlap where views do not (two channel ranges of one channels-last
// tensor), so `disjoint` compares the views digit by digit in a mixed radix made of their strides.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "recipe/Recipe.h"

namespace hpu::recipe {

/// Runs of `run` bytes, repeated along up to kMaxRank dimensions. Coalesced: equal sets of bytes that come
/// from reshapes of one tensor give equal boxes.
struct MemoryBox {
  struct Dim {
    uint64_t stride = 0;  ///< Bytes, larger than the run and ascending.
    uint64_t count = 0;   ///< > 1.
    bool operator==(const Dim&) const = default;
  };
  uint32_t section = kNone;
  uint32_t rank = 0;
  uint64_t begin = 0, end = 0;  ///< The span in the section.
  uint64_t run = 0;
  std::array<Dim, kMaxRank> dims{};

  /// Every byte of the span is touched.
  bool dense() const { return rank == 0; }
  bool operator==(const MemoryBox&) const = default;
};

/// The part lo..hi of a verified operand, in its own dimensions. For a ring: in the slot of `slice`.
MemoryBox memoryBox(const Operand& operand, std::span<const int64_t> lo, std::span<const int64_t> hi, uint32_t slice);
/// The whole operand, all slots of a ring.
MemoryBox wholeBox(const Operand& operand);
/// `bytes` from `offset` on.
MemoryBox denseBox(uint32_t section, uint64_t offset, uint64_t bytes);

/// True only when no byte is in both; false may mean that it could not be shown.
bool disjoint(const MemoryBox& a, const MemoryBox& b);

}  // namespace hpu::recipe
