// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/Missing.h"

#include <algorithm>

#include "base/Format.h"
#include "collectives/bootstrap/Wire.h"

namespace hpu::collectives {

std::string rankName(int32_t rank, const std::string& description) {
  std::string text = base::strCat("rank ", rank);
  return description.empty() ? text : base::strCat(text, " (", description, ")");
}

std::string encodeMissing(const std::vector<MissingRank>& missing) {
  wire::Writer out;
  out.u32(static_cast<uint32_t>(missing.size()));
  for (const MissingRank& one : missing) {
    out.i32(one.rank);
    out.u8(static_cast<uint8_t>(one.state));
    out.text(std::string_view(one.description).substr(0, wire::kMaxNameBytes));
  }
  return out.take();
}

StatusOr<std::vector<MissingRank>> decodeMissing(std::string_view payload) {
  wire::Reader in(payload);
  uint32_t count = in.u32();
  std::vector<MissingRank> missing;
  for (uint32_t i = 0; i < count && in.ok(); ++i) {
    MissingRank one;
    one.rank = in.i32();
    one.state = static_cast<MemberState>(std::min<uint8_t>(in.u8(), 3));
    one.description = in.text(wire::kMaxNameBytes);
    missing.push_back(std::move(one));
  }
  if (!in.done()) return invalidArgument("a malformed answer of the coordinator");
  return missing;
}

std::string missingText(const std::vector<MissingRank>& missing) {
  constexpr size_t kMost = 8;
  std::string text;
  size_t shown = 0;
  auto add = [&](const std::string& piece) { text += (text.empty() ? "" : "; ") + piece; };
  // Those that never came have nothing to tell them apart: ranges of them.
  for (size_t i = 0; i < missing.size() && shown < kMost;) {
    const MissingRank& one = missing[i];
    ++shown;
    if (one.state == MemberState::kAbsent) {
      size_t end = i + 1;
      while (end < missing.size() && missing[end].state == MemberState::kAbsent &&
             missing[end].rank == missing[end - 1].rank + 1)
        ++end;
      if (end - i == 1)
        add(base::strCat("rank ", one.rank, " has not come"));
      else
        add(base::strCat("ranks ", one.rank, " to ", missing[end - 1].rank, " have not come"));
      i = end;
      continue;
    }
    std::string_view what = one.state == MemberState::kPresent ? " has not got there"
                            : one.state == MemberState::kLeft  ? " has left"
                                                               : " has died";
    add(rankName(one.rank, one.description) + std::string(what));
    ++i;
    if (shown == kMost && i < missing.size()) add(base::strCat("and ", missing.size() - i, " more"));
  }
  return text;
}

std::vector<int32_t> absentRanks(std::string_view error) {
  std::vector<int32_t> ranks;
  // What stands before `at`: a number, and what introduces it.
  const auto numberBefore = [&](size_t at, std::string_view before, size_t& begin) -> int64_t {
    begin = at;
    while (begin > 0 && error[begin - 1] >= '0' && error[begin - 1] <= '9') --begin;
    auto number = base::parseInt(error.substr(begin, at - begin));
    if (!number.ok() || !error.substr(0, begin).ends_with(before)) return -1;
    begin -= before.size();
    return *number;
  };
  constexpr std::string_view kOne = " has not come", kSome = " have not come";
  size_t begin = 0;
  for (size_t at = 0; (at = error.find(kOne, at)) != std::string_view::npos; at += kOne.size())
    if (const int64_t rank = numberBefore(at, "rank ", begin); rank >= 0) ranks.push_back(static_cast<int32_t>(rank));
  for (size_t at = 0; (at = error.find(kSome, at)) != std::string_view::npos; at += kSome.size()) {
    const int64_t last = numberBefore(at, " to ", begin);
    const int64_t first = last < 0 ? -1 : numberBefore(begin, "ranks ", begin);
    constexpr int64_t kMost = 8;
    for (int64_t rank = first; first >= 0 && rank <= std::min(last, first + kMost - 1); ++rank)
      ranks.push_back(static_cast<int32_t>(rank));
  }
  return ranks;
}

}  // namespace hpu::collectives
