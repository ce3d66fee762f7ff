// SPDX-License-Identifier: Apache-2.0
#include "recipe/BoxCover.h"

#include <algorithm>

namespace hpu::recipe {

namespace {

/// A box whose first dimensions are already reduced to the coordinate of a corner (kept in lo; hi
/// is 0), with the number of times that it counts.
struct Term {
  Box box;
  int64_t count = 0;
};

bool before(const Term& a, const Term& b) {
  return a.box.lo != b.box.lo ? a.box.lo < b.box.lo : a.box.hi < b.box.hi;
}
bool same(const Term& a, const Term& b) {
  return a.box.lo == b.box.lo && a.box.hi == b.box.hi;
}

/// Adds equal terms up and drops those that cancel.
void combine(std::vector<Term>& terms) {
  std::sort(terms.begin(), terms.end(), before);
  size_t kept = 0;
  for (size_t i = 0; i < terms.size();) {
    Term sum = terms[i];
    for (++i; i < terms.size() && same(terms[i], sum); ++i) sum.count += terms[i].count;
    if (sum.count != 0) terms[kept++] = sum;
  }
  terms.resize(kept);
}

}  // namespace

CoverResult checkCover(std::span<const int64_t> space, std::vector<Box> boxes) {
  // Most ops are one command.
  if (boxes.size() == 1) {
    bool all = true;
    for (size_t d = 0; d < space.size(); ++d) all &= boxes[0].lo[d] == 0 && boxes[0].hi[d] == space[d];
    if (all) return {};
  }
  std::vector<Term> terms;
  terms.reserve(2 * boxes.size() + 2);
  for (const Box& box : boxes) terms.push_back({box, 1});
  Term whole{{}, -1};
  for (size_t d = 0; d < space.size(); ++d) whole.box.hi[d] = space[d];
  terms.push_back(whole);

  const size_t limit = 256 * (boxes.size() + 1);
  std::vector<Term> next;
  for (size_t d = 0; d < space.size(); ++d) {
    // [lo, hi) = (everything from lo on) - (everything from hi on); neighbours' terms cancel.
    next.clear();
    for (const Term& term : terms) {
      Term begin = term, end = term;
      begin.box.hi[d] = end.box.hi[d] = 0;
      end.box.lo[d] = term.box.hi[d];
      end.count = -term.count;
      next.push_back(begin);
      next.push_back(end);
    }
    terms.swap(next);
    combine(terms);
    if (terms.size() > limit) return {Cover::kTooIrregular, {}};
  }
  if (space.empty()) combine(terms);
  if (terms.empty()) return {};
  // Every corner that could add to the first one's cell sorts before it, so its count is the cell's
  // surplus.
  return {terms.front().count > 0 ? Cover::kOverlap : Cover::kGap, terms.front().box.lo};
}

}  // namespace hpu::recipe
