// SPDX-License-Identifier: Apache-2.0
#include "collectives/algorithms/Split.h"

#include <algorithm>

namespace hpu::collectives {
namespace {

constexpr int64_t kAlignment = 64;

}  // namespace

Span part(Span whole, int64_t parts, int64_t index) {
  int64_t align = kAlignment;
  while (align > 1 && whole.count / parts < 8 * align) align /= 2;
  const int64_t units = whole.count / align, each = units / parts, more = units % parts;
  auto boundary = [&](int64_t i) { return i == parts ? whole.count : (each * i + std::min(i, more)) * align; };
  return {whole.offset + boundary(index), boundary(index + 1) - boundary(index)};
}

int64_t largestPart(int64_t count, int64_t parts) {
  return std::min(count, count / parts + kAlignment);
}

namespace {

/// Of slices [0, end), in units: the last slice is one, and none more than eight.
int64_t taperedUnits(int32_t slices, int32_t end) {
  int64_t units = 0;
  const int32_t full = std::max(slices - 3, 0);
  units += int64_t{8} * std::min(end, full);
  for (int32_t i = full; i < end; i++) units += int64_t{1} << (slices - 1 - i);
  return units;
}

}  // namespace

Span tapered(Span whole, int32_t slices, int32_t index) {
  const int64_t all = taperedUnits(slices, slices);
  const Span first = part(whole, all, taperedUnits(slices, index));
  const Span last = part(whole, all, taperedUnits(slices, index + 1) - 1);
  return {first.offset, last.end() - first.offset};
}

int64_t largestTapered(int64_t count, int32_t slices) {
  const int64_t units = std::min<int64_t>(8, int64_t{1} << std::min(slices - 1, 3));
  return std::min(count, units * largestPart(count, taperedUnits(slices, slices)));
}

int64_t relayedShare(int64_t count, int64_t paths, int32_t slices, int64_t hop) {
  hop = std::max<int64_t>(hop, 0);
  if (count <= hop || paths < 1) return 0;
  // count = paths * share + share / slices + hop.
  const int64_t units = paths * slices + 1, rest = count - hop;
  const int64_t share = rest / units * slices + rest % units * slices / units;
  return share >= 8 * kAlignment ? share / kAlignment * kAlignment : share;
}

int32_t usefulSlices(int64_t elements, int32_t slices) {
  return static_cast<int32_t>(std::clamp<int64_t>(slices, 1, std::clamp<int64_t>(elements, 1, 4096)));
}

std::vector<int32_t> sliceChoices(int64_t bytes, int64_t minBytes, int64_t maxBytes, int32_t most) {
  int32_t finest = 1;
  while (finest * 2 <= most && bytes / (finest * 2) >= minBytes) finest *= 2;
  std::vector<int32_t> choices;
  for (int32_t slices = finest; slices >= 1 && choices.size() < 5; slices /= 2) {
    choices.push_back(slices);
    if (slices > 1 && bytes / (slices / 2) > maxBytes) break;
  }
  std::reverse(choices.begin(), choices.end());
  return choices;
}

}  // namespace hpu::collectives
