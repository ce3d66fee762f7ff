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

}  // namespace hpu::collectives
