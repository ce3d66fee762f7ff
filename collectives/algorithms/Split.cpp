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
  auto boundary = [&](int64_t i) {
    return i == parts ? whole.count : (each * i + std::min(i, more)) * align;
  };
  return {whole.offset + boundary(index), boundary(index + 1) - boundary(index)};
}

int64_t largestPart(int64_t count, int64_t parts) {
  return std::min(count, count / parts + kAlignment);
}

int32_t usefulSlices(int64_t elements, int32_t slices) {
  return static_cast<int32_t>(std::clamp<int64_t>(slices, 1, std::max<int64_t>(elements, 1)));
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
