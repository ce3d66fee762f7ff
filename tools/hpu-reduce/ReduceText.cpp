// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/StatusMacros.h"
#include "tools/hpu-reduce/Reduce.h"

namespace hpu::tools {

StatusOr<std::vector<size_t>> smallestPart(size_t items,
                                           const std::function<StatusOr<bool>(const std::vector<size_t>&)>& fails) {
  std::vector<size_t> kept(items);
  for (size_t i = 0; i < items; ++i) kept[i] = i;
  size_t parts = 2;
  while (kept.size() > 1) {
    parts = std::min(parts, kept.size());
    bool smaller = false;
    // A part alone, then all but a part.
    for (bool alone : {true, false}) {
      if (alone && parts == 1) continue;
      for (size_t k = 0; k < parts && !smaller; ++k) {
        const size_t begin = kept.size() * k / parts, end = kept.size() * (k + 1) / parts;
        std::vector<size_t> candidate;
        for (size_t i = 0; i < kept.size(); ++i)
          if ((i >= begin && i < end) == alone) candidate.push_back(kept[i]);
        if (candidate.empty() || candidate.size() == kept.size()) continue;
        HPU_ASSIGN(const bool still, fails(candidate));
        if (!still) continue;
        kept = std::move(candidate);
        parts = alone ? 2 : std::max<size_t>(2, parts - 1);
        smaller = true;
      }
      if (smaller) break;
    }
    if (smaller) continue;
    if (parts >= kept.size()) break;
    parts *= 2;
  }
  return kept;
}

StatusOr<Reduced> reduceText(const std::string& text, Predicate& predicate, const Progress& progress) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    lines.push_back(text.substr(at, end - at));
    at = end;
  }
  const auto join = [&](const std::vector<size_t>& kept) {
    std::string joined;
    for (size_t i : kept) joined += lines[i];
    return joined;
  };
  HPU_ASSIGN(const std::vector<size_t> kept,
             smallestPart(lines.size(), [&](const std::vector<size_t>& candidate) -> StatusOr<bool> {
               HPU_ASSIGN(const bool still, predicate.fails(join(candidate)));
               if (still) progress(std::to_string(candidate.size()) + " lines");
               return still;
             }));
  return Reduced{join(kept), static_cast<int64_t>(lines.size()), static_cast<int64_t>(kept.size())};
}

}  // namespace hpu::tools
