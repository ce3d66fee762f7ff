// SPDX-License-Identifier: Apache-2.0
// Split: how data is cut into shards and slices, and how many slices are worth trying.
// The one thing to know: parts differ by at most one unit of alignment, and nothing overflows for
// counts up to INT64_MAX.
#pragma once

#include <cstdint>
#include <vector>

namespace hpu::collectives {

/// Elements [offset, offset + count).
struct Span {
  int64_t offset = 0, count = 0;
  int64_t end() const { return offset + count; }
};

/// Part `index` of `parts` parts of nearly equal size. Boundaries lie at multiples of 64 elements
/// from the start; of a smaller power of two where parts would differ by more than an eighth.
Span part(Span whole, int64_t parts, int64_t index);

/// Slice `index` of `slices` of which the last three are a half, a quarter, an eighth of the
/// others: little is left to do when the last one has come.
Span tapered(Span whole, int32_t slices, int32_t index);
/// No slice of `count` elements in `slices` tapered ones is larger.
int64_t largestTapered(int64_t count, int32_t slices);

/// No part of `count` elements in `parts` is larger.
int64_t largestPart(int64_t count, int64_t parts);

/// Of `count` elements over `paths` paths: how many each path with a relay carries in `slices`
/// slices when its end comes as late as the end of what goes directly: that is a slice, and `hop`
/// elements, more. Each relayed share is followed by count - paths * share elements that all go
/// directly.
int64_t relayedShare(int64_t count, int64_t paths, int32_t slices, int64_t hop);

/// `slices`, but no more than elements, at least one and at most 4096.
int32_t usefulSlices(int64_t elements, int32_t slices);

/// Powers of two for cutting `bytes`: slices not below `minBytes`, not above `maxBytes` as far as
/// `most` slices allow; at most five choices, ascending.
std::vector<int32_t> sliceChoices(int64_t bytes, int64_t minBytes, int64_t maxBytes, int32_t most);

}  // namespace hpu::collectives
