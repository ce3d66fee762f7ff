// SPDX-License-Identifier: Apache-2.0
#include "compiler/memory/Planner.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace hpu::memory {
namespace {

int64_t alignUp(int64_t value, int64_t alignment) { return (value + alignment - 1) / alignment * alignment; }

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

}  // namespace

Plan planBuffers(const std::vector<Buffer>& buffers, int64_t alignment, bool reuse) {
  Plan plan;
  plan.offsets.assign(buffers.size(), 0);
  plan.largestLiveSet = largestLiveSet(buffers, alignment);
  std::vector<size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), 0);
  if (reuse)
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return buffers[a].bytes > buffers[b].bytes; });
  std::vector<size_t> placed;
  for (size_t index : order) {
    const Buffer& buffer = buffers[index];
    int64_t bytes = alignUp(buffer.bytes, alignment);
    // What is in the way, by address; then the smallest gap that fits.
    std::vector<std::pair<int64_t, int64_t>> taken;
    for (size_t other : placed) {
      const Buffer& o = buffers[other];
      bool meets = !reuse || (o.begin <= buffer.end && buffer.begin <= o.end);
      if (meets) taken.emplace_back(plan.offsets[other], plan.offsets[other] + alignUp(o.bytes, alignment));
    }
    std::sort(taken.begin(), taken.end());
    int64_t best = -1, bestGap = INT64_MAX, end = 0;
    for (auto [from, to] : taken) {
      int64_t gap = from - end;
      if (gap >= bytes && gap < bestGap) {
        best = end;
        bestGap = gap;
      }
      end = std::max(end, to);
    }
    plan.offsets[index] = best >= 0 ? best : end;
    plan.bytes = std::max(plan.bytes, plan.offsets[index] + bytes);
    placed.push_back(index);
  }
  return plan;
}

}  // namespace hpu::memory
