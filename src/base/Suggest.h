// SPDX-License-Identifier: Apache-2.0
// "Did you mean": the known words that are nearest to one that is not known.
// The one thing to know: nothing is offered that is far away; an empty answer is normal.
//
//   return invalidArgument("there is no report '" + name + "'" + base::didYouMean(name, reports));
#pragma once

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hpu::base {

/// Insertions, deletions, replacements and swaps of neighbours that make one word of the other, in any letter case.
inline size_t editDistance(std::string_view a, std::string_view b) {
  auto same = [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) == std::tolower(static_cast<unsigned char>(y));
  };
  std::vector<size_t> before(b.size() + 1), row(b.size() + 1), next(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    next[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      next[j] = std::min({next[j - 1] + 1, row[j] + 1, row[j - 1] + (same(a[i - 1], b[j - 1]) ? 0 : 1)});
      if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]))
        next[j] = std::min(next[j], before[j - 2] + 1);
    }
    before.swap(row);
    row.swap(next);
  }
  return row[b.size()];
}

/// At most three of `known`, the nearest first: those with few edits, or that begin with the word.
template <typename Words>
std::vector<std::string> nearestOf(std::string_view word, const Words& known) {
  constexpr size_t kLongest = 300, kMost = 3;  // Names of a damaged file may have any length.
  std::vector<std::pair<size_t, std::string>> near;
  if (word.empty() || word.size() > kLongest) return {};
  const size_t far = std::max<size_t>(1, word.size() / 3) + 1;
  for (const auto& item : known) {
    const std::string_view candidate(item);
    if (candidate.size() > kLongest) continue;
    size_t distance = far;
    if (std::max(word.size(), candidate.size()) - std::min(word.size(), candidate.size()) < far)
      distance = editDistance(word, candidate);
    // Half a word that was meant to be completed.
    if (word.size() >= 3 && candidate.starts_with(word)) distance = std::min(distance, far - 1);
    if (distance < far) near.emplace_back(distance, std::string(candidate));
  }
  std::sort(near.begin(), near.end());
  std::vector<std::string> names;
  for (const auto& [distance, name] : near)
    if (names.size() < kMost && distance <= near.front().first + 1) names.push_back(name);
  return names;
}

/// "; did you mean 'a' or 'b'?", or nothing when no known word is near.
template <typename Words>
std::string didYouMean(std::string_view word, const Words& known) {
  const std::vector<std::string> near = nearestOf(word, known);
  std::string text;
  for (size_t i = 0; i < near.size(); ++i)
    text += (i == 0 ? "; did you mean '" : i + 1 < near.size() ? ", '" : " or '") + near[i] + "'";
  return text.empty() ? text : text + "?";
}

}  // namespace hpu::base
