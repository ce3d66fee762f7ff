// SPDX-License-Identifier: Apache-2.0
#include "plan/Planner.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace hpu::plan {
namespace {

int64_t alignUp(int64_t value, int64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

/// Pairs of buffers that one try may compare; tries are so many that all of them together stay at some 0.1 s.
constexpr int64_t kMostWork = 20'000'000;
constexpr int64_t kMostTries = 2000;

class Search {
 public:
  Search(const std::vector<Buffer>& buffers, int64_t alignment, int64_t enough) : buffers_(buffers), enough_(enough) {
    for (const Buffer& buffer : buffers) sizes_.push_back(alignUp(buffer.bytes, alignment));
    meets_.resize(buffers.size());
    for (size_t a = 0; a < buffers.size(); ++a)
      for (size_t b = 0; b < a; ++b)
        if (buffers[a].begin <= buffers[b].end && buffers[b].begin <= buffers[a].end) {
          meets_[a].push_back(b);
          meets_[b].push_back(a);
        }
    best_.largestLiveSet = largestLiveSet(buffers, alignment);
  }

  Placement run(bool search) {
    for (const std::vector<size_t>& order : startOrders())
      if (attempt(order)) return best_;
    if (!search) return best_;
    int64_t work = 1;
    for (const auto& meets : meets_) work += static_cast<int64_t>(meets.size()) + 1;
    int64_t tries = std::clamp<int64_t>(kMostWork / work, 16, kMostTries);
    // What reaches above the largest live set found no room below: it goes first next time. Should that not help for a
    // while, the search starts again at the best order.
    std::vector<size_t> order = bestOrder_;
    std::vector<int64_t> offsets = best_.offsets;
    int64_t stale = 0;
    for (int64_t i = 0; i < tries; ++i) {
      promote(order, offsets, i);
      int64_t before = best_.bytes;
      if (attempt(order)) return best_;
      offsets = offsets_;
      stale = best_.bytes < before ? 0 : stale + 1;
      if (stale < 24) continue;
      order = bestOrder_;
      offsets = best_.offsets;
      stale = 0;
    }
    return best_;
  }

 private:
  template <typename Key>
  std::vector<size_t> sortedBy(Key key) const {
    std::vector<size_t> order(buffers_.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key(a) > key(b); });
    return order;
  }

  std::vector<std::vector<size_t>> startOrders() const {
    auto life = [&](size_t i) { return buffers_[i].end - buffers_[i].begin + 1; };
    // How much is alive beside a buffer, at most.
    std::vector<int64_t> crowd(buffers_.size());
    for (size_t i = 0; i < buffers_.size(); ++i) {
      crowd[i] = sizes_[i];
      for (size_t other : meets_[i]) crowd[i] += sizes_[other];
    }
    return {sortedBy([&](size_t i) { return sizes_[i]; }),
            sortedBy([&](size_t i) { return static_cast<double>(sizes_[i]) * static_cast<double>(life(i)); }),
            sortedBy([&](size_t i) { return -buffers_[i].begin; }),
            sortedBy([&](size_t i) { return -buffers_[i].end; }),
            sortedBy([&](size_t i) { return crowd[i]; }),
            sortedBy([&](size_t i) { return life(i); })};
  }

  /// Moves what sticks out ahead of what it meets; how far ahead alternates, so that the search does not circle.
  void promote(std::vector<size_t>& order, const std::vector<int64_t>& offsets, int64_t round) const {
    std::vector<size_t> out;
    for (size_t index : order)
      if (offsets[index] + sizes_[index] > best_.largestLiveSet) out.push_back(index);
    if (out.empty()) return;
    size_t chosen = out[static_cast<size_t>(round) % out.size()];
    size_t from = std::find(order.begin(), order.end(), chosen) - order.begin();
    size_t to = round % 3 == 0 ? 0 : round % 3 == 1 ? from / 2 : from - std::min<size_t>(from, 1 + round % 7);
    std::rotate(order.begin() + static_cast<int64_t>(to), order.begin() + static_cast<int64_t>(from),
                order.begin() + static_cast<int64_t>(from) + 1);
  }

  /// Places the buffers in this order; true when no plan can be better.
  bool attempt(const std::vector<size_t>& order) {
    ++tries_;
    offsets_.assign(buffers_.size(), -1);
    int64_t top = 0;
    for (size_t index : order) {
      // What is in the way, by address; then the smallest gap that fits.
      taken_.clear();
      for (size_t other : meets_[index])
        if (offsets_[other] >= 0) taken_.emplace_back(offsets_[other], offsets_[other] + sizes_[other]);
      std::sort(taken_.begin(), taken_.end());
      int64_t best = -1, bestGap = INT64_MAX, end = 0;
      for (auto [from, to] : taken_) {
        int64_t gap = from - end;
        if (gap >= sizes_[index] && gap < bestGap) {
          best = end;
          bestGap = gap;
        }
        end = std::max(end, to);
      }
      offsets_[index] = best >= 0 ? best : end;
      top = std::max(top, offsets_[index] + sizes_[index]);
    }
    if (bestOrder_.empty() || top < best_.bytes) {
      best_.bytes = top;
      best_.offsets = offsets_;
      best_.tries = tries_;
      bestOrder_ = order;
    }
    return best_.bytes <= std::max(best_.largestLiveSet, enough_);
  }

  const std::vector<Buffer>& buffers_;
  std::vector<int64_t> sizes_;              ///< Aligned.
  std::vector<std::vector<size_t>> meets_;  ///< By buffer: those alive with it.
  std::vector<int64_t> offsets_;            ///< Of the last try; -1: not placed yet.
  std::vector<std::pair<int64_t, int64_t>> taken_;
  std::vector<size_t> bestOrder_;
  int64_t enough_;
  Placement best_;
  int64_t tries_ = 0;
};

}  // namespace

int64_t largestLiveSet(const std::vector<Buffer>& buffers, int64_t alignment) {
  std::map<int64_t, int64_t> change;
  for (const Buffer& buffer : buffers) {
    change[buffer.begin] += alignUp(buffer.bytes, alignment);
    change[buffer.end + 1] -= alignUp(buffer.bytes, alignment);
  }
  int64_t alive = 0, most = 0;
  for (auto [step, delta] : change) most = std::max(most, alive += delta);
  return most;
}

Placement placeBuffers(const std::vector<Buffer>& buffers, int64_t alignment, bool reuse, int64_t enough, bool search) {
  if (reuse && !buffers.empty()) return Search(buffers, alignment, enough).run(search);
  Placement plan;
  plan.largestLiveSet = largestLiveSet(buffers, alignment);
  for (const Buffer& buffer : buffers) {
    plan.offsets.push_back(plan.bytes);
    plan.bytes += alignUp(buffer.bytes, alignment);
  }
  return plan;
}

}  // namespace hpu::plan
