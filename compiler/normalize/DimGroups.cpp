// SPDX-License-Identifier: Apache-2.0
#include "compiler/normalize/DimGroups.h"

using llvm::ArrayRef;

namespace hpu::normalize {

std::optional<DimGroups> splitOf(ArrayRef<int64_t> coarse, ArrayRef<int64_t> fine) {
  if (fine.size() <= coarse.size() || coarse.empty()) return std::nullopt;
  DimGroups groups;
  groups.shape.assign(fine.begin(), fine.end());
  size_t next = 0;
  for (size_t d = 0; d < coarse.size(); ++d) {
    const size_t first = next, after = coarse.size() - d - 1;
    if (coarse[d] < 1 || next == fine.size()) return std::nullopt;
    int64_t product = fine[next++];
    while (product < coarse[d] && next < fine.size()) product *= fine[next++];
    if (product != coarse[d]) return std::nullopt;
    while (fine.size() - next > after && fine[next] == 1 && (after == 0 || coarse[d + 1] != 1)) ++next;
    groups.runs.push_back({static_cast<int64_t>(first), static_cast<int64_t>(next - first)});
  }
  if (next != fine.size()) return std::nullopt;
  return groups;
}

std::optional<DimGroups> refinementOf(ArrayRef<int64_t> from, ArrayRef<int64_t> to) {
  DimGroups groups;
  size_t next = 0;
  int64_t left = 1;  // What is not yet used of the dim of `from` ahead of `next`.
  for (int64_t size : to) {
    const auto first = static_cast<int64_t>(groups.shape.size());
    if (size < 1) return std::nullopt;
    if (size == 1) groups.shape.push_back(1);
    while (size > 1) {
      while (left == 1 && next < from.size()) left = from[next++];
      if (left <= 1) return std::nullopt;
      const int64_t part = std::min(size, left);
      if (size % part != 0 || left % part != 0) return std::nullopt;
      groups.shape.push_back(part);
      size /= part;
      left /= part;
    }
    groups.runs.push_back({first, static_cast<int64_t>(groups.shape.size()) - first});
  }
  if (left != 1 || groups.shape.size() == to.size()) return std::nullopt;
  return groups;
}

}  // namespace hpu::normalize
