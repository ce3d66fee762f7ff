// SPDX-License-Identifier: Apache-2.0
// What a TPC's selection of boxes is priced by is run here on numbers, register by register: it selects the right
// boxes, and its instructions, counted as they are executed, are those of the price.
#include "compiler/kernels/TpcBoxes.h"

#include <algorithm>
#include <array>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace hpu::kernels {
namespace {

constexpr int kLanes = 64;

/// A register; each operation on registers counts.
struct Register {
  std::array<float, kLanes> lane{};
};
class Machine {
 public:
  template <typename Op>
  Register each(const Register& a, const Register& b, Op op, double instructions = 1) {
    count += instructions;
    Register result;
    for (size_t i = 0; i < kLanes; ++i) result.lane[i] = op(a.lane[i], b.lane[i]);
    return result;
  }
  Register add(const Register& a, const Register& b) {
    return each(a, b, [](float x, float y) { return x + y; });
  }
  Register sub(const Register& a, const Register& b) {
    return each(a, b, [](float x, float y) { return x - y; });
  }
  Register mul(const Register& a, const Register& b) {
    return each(a, b, [](float x, float y) { return x * y; });
  }
  Register min(const Register& a, const Register& b) {
    return each(a, b, [](float x, float y) { return x < y ? x : y; });
  }
  Register max(const Register& a, const Register& b) {
    return each(a, b, [](float x, float y) { return x > y ? x : y; });
  }
  Register div(const Register& a, const Register& b) {
    return each(a, b, [](float x, float y) { return x / y; }, 8);
  }
  Register more(const Register& a, const Register& b) {
    return each(a, b, [](float x, float y) { return x > y ? 1.0F : 0.0F; });
  }
  /// Under a predicate that is there.
  Register choose(const Register& condition, const Register& a, const Register& b) {
    ++count;
    Register result;
    for (size_t i = 0; i < kLanes; ++i) result.lane[i] = condition.lane[i] != 0 ? a.lane[i] : b.lane[i];
    return result;
  }
  Register shuffled(const Register& a, int distance) {
    ++count;
    Register result;
    for (size_t i = 0; i < kLanes; ++i) result.lane[i] = a.lane[i ^ static_cast<size_t>(distance)];
    return result;
  }
  double count = 0;
};

Register splat(float value) {
  Register result;
  result.lane.fill(value);
  return result;
}

constexpr float kNone = 1e9F;
/// Position, ends and area.
using Held = std::array<Register, 6>;

std::vector<int> select(Machine& m, const std::vector<std::array<float, 4>>& boxes, const std::vector<float>& scores,
                        int64_t most, float limit, float threshold) {
  const size_t registers = (boxes.size() + kLanes - 1) / kLanes;
  std::vector<Held> all(registers);
  std::vector<Register> left(registers);
  for (size_t r = 0; r < registers; ++r) {
    Register corner[4], score = splat(-1);
    for (size_t i = 0; i < kLanes && r * kLanes + i < boxes.size(); ++i) {
      for (size_t k = 0; k < 4; ++k) corner[k].lane[i] = boxes[r * kLanes + i][k];
      score.lane[i] = scores[r * kLanes + i];
    }
    Held& own = all[r];
    for (size_t i = 0; i < kLanes; ++i) own[0].lane[i] = static_cast<float>(r * kLanes + i);
    own[1] = m.min(corner[1], corner[3]), own[2] = m.min(corner[0], corner[2]);
    own[3] = m.max(corner[1], corner[3]), own[4] = m.max(corner[0], corner[2]);
    own[5] = m.mul(m.sub(own[3], own[1]), m.sub(own[4], own[2]));
    left[r] = m.more(score, splat(threshold));
  }
  std::vector<int> chosen;
  std::array<float, 6> box = {kNone, 0, 0, 0, 0, 0};  // None conflicts with what has no area.
  for (int64_t pass = 0; pass < most; ++pass) {
    Held first;
    first[0] = splat(kNone);
    for (size_t r = 0; r < registers; ++r) {
      const Held& own = all[r];
      Register width = m.sub(m.min(own[3], splat(box[3])), m.max(own[1], splat(box[1])));
      Register height = m.sub(m.min(own[4], splat(box[4])), m.max(own[2], splat(box[2])));
      const Register both = m.mul(m.max(width, splat(0)), m.max(height, splat(0)));
      const Register whole = m.sub(m.add(own[5], splat(box[5])), both);
      // Comparisons under the predicate of the one before, which starts as those that are left; the chosen one shares
      // all of its area with itself.
      const Register isMore = m.more(m.div(both, whole), splat(limit)), shares = m.more(both, splat(0));
      ++m.count;
      for (size_t i = 0; i < kLanes; ++i)
        if ((isMore.lane[i] != 0 && shares.lane[i] != 0) || own[0].lane[i] == box[0]) left[r].lane[i] = 0;
      Register takes;
      for (size_t i = 0; i < kLanes; ++i) takes.lane[i] = left[r].lane[i] != 0 && first[0].lane[i] == kNone ? 1 : 0;
      for (size_t k = 0; k < 6; ++k) first[k] = m.choose(takes, own[k], first[k]);
    }
    for (int distance = kLanes / 2; distance >= 1; distance /= 2) {
      Held other;
      for (size_t k = 0; k < 6; ++k) other[k] = m.shuffled(first[k], distance);
      const Register isEarlier = m.more(first[0], other[0]);
      for (size_t k = 0; k < 6; ++k) first[k] = m.choose(isEarlier, other[k], first[k]);
    }
    for (size_t k = 0; k < 6; ++k) box[k] = first[k].lane[0];
    if (box[0] != kNone)
      chosen.push_back(static_cast<int>(box[0]));
    else
      box = {kNone, 0, 0, 0, 0, 0};
  }
  return chosen;
}

std::vector<int> wanted(const std::vector<std::array<float, 4>>& boxes, const std::vector<float>& scores, int64_t most,
                        float limit, float threshold) {
  std::vector<int> chosen;
  for (size_t i = 0; i < boxes.size() && static_cast<int64_t>(chosen.size()) < most; ++i) {
    bool stays = scores[i] > threshold;
    for (int j : chosen) {
      const auto &a = boxes[i], &b = boxes[static_cast<size_t>(j)];
      auto length = [&](size_t low, size_t high) {
        return std::max(std::min(std::max(a[low], a[high]), std::max(b[low], b[high])) -
                            std::max(std::min(a[low], a[high]), std::min(b[low], b[high])),
                        0.0F);
      };
      auto area = [](const std::array<float, 4>& box) { return std::abs(box[3] - box[1]) * std::abs(box[2] - box[0]); };
      const float both = length(0, 2) * length(1, 3);
      stays &= !(both > 0 && both / (area(a) + area(b) - both) > limit);
    }
    if (stays) chosen.push_back(static_cast<int>(i));
  }
  return chosen;
}

TEST(TpcBoxes, SelectsInAsManyPassesAsBoxesAndIsPricedAsWhatItRuns) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> place(0, 10), score(0, 1);
  for (auto [count, most] :
       std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {64, 64}, {65, 10}, {300, 40}, {1000, 100}}) {
    std::vector<std::array<float, 4>> boxes(static_cast<size_t>(count));
    std::vector<float> scores(boxes.size());
    for (auto& box : boxes)
      for (float& end : box) end = place(random);
    for (float& each : scores) each = score(random);
    std::sort(scores.rbegin(), scores.rend());
    Machine machine;
    EXPECT_EQ(select(machine, boxes, scores, most, 0.3F, 0.2F), wanted(boxes, scores, most, 0.3F, 0.2F));
    const OrderCycles price = selectBoxesCycles(count, most, false);
    EXPECT_NEAR(machine.count, price.vectorOps, 1e-9 * price.vectorOps) << count << " boxes";
  }
}

TEST(TpcBoxes, TakesTheBoxesThatDoNotFitFromMemory) {
  EXPECT_EQ(selectBoxesCycles(3000, 100, false).stores, 2 * 47);
  EXPECT_GT(selectBoxesCycles(5000, 100, false).stores, 100 * 79);
  EXPECT_EQ(selectBoxesCycles(100, 1000, false).vectorOps, selectBoxesCycles(100, 100, false).vectorOps);
}

}  // namespace
}  // namespace hpu::kernels
