// SPDX-License-Identifier: Apache-2.0
// What a TPC's order is priced by is run here on numbers, step by step: it gives the order, and its instructions,
// counted as they are executed, are those of the price.
#include "compiler/kernels/TpcOrder.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "gtest/gtest.h"

namespace hpu::kernels {
namespace {

struct Entry {
  int64_t key = 0, position = 0;
  bool operator<(const Entry& other) const { return key != other.key ? key < other.key : position < other.position; }
};
constexpr Entry kNone{INT64_MAX, INT64_MAX};

/// Runs plans on numbers and counts what the instructions of the networks are.
class Machine {
 public:
  /// The first `plan.count` of the entries.
  std::vector<Entry> run(const TpcOrder& plan, std::vector<Entry> entries) {
    EXPECT_EQ(static_cast<int64_t>(entries.size()), plan.size);
    if (plan.group == 1) {
      sort(entries, plan);
      entries.resize(static_cast<size_t>(plan.count));
      return entries;
    }
    // Lane l of register r is entry 64 r + l; a group is a lane of `group` registers.
    const int64_t registers = (plan.size + 63) / 64, groups = (registers + plan.group - 1) / plan.group * 64;
    auto placeOf = [&](int64_t group, int64_t k) { return (group / 64 * plan.group + k) * 64 + group % 64; };
    auto at = [&](int64_t place) { return place < plan.size ? entries[static_cast<size_t>(place)] : kNone; };
    std::vector<Entry> firsts;
    for (int64_t g = 0; g < groups; ++g) {
      Entry first = at(placeOf(g, 0));
      for (int64_t k = 1; k < plan.group; ++k) {
        const Entry next = at(placeOf(g, k));
        if (next.key < first.key) first = next;  // Only keys are compared: positions rise.
      }
      firsts.push_back(first);
    }
    // The groups by the place of their first ones: those of an inner plan are told by their positions.
    const std::vector<Entry> chosen = run(*plan.ofGroups, firsts);
    std::vector<Entry> held;
    for (const Entry& first : chosen) {
      const auto g = std::find_if(firsts.begin(), firsts.end(),
                                  [&](const Entry& e) { return e.key == first.key && e.position == first.position; }) -
                     firsts.begin();
      for (int64_t k = 0; k < plan.group; ++k) held.push_back(at(placeOf(g, k)));
    }
    return run(*plan.ofChosen, held);
  }
  double networkOps = 0;
  int64_t exchanges = 0;

 private:
  void sort(std::vector<Entry>& entries, const TpcOrder& plan) {
    const SortingNetwork network = sortingNetwork(plan.size, plan.elements);
    const int64_t size = int64_t{1} << network.bits;
    ASSERT_GE(size, plan.size);
    entries.resize(static_cast<size_t>(size), kNone);
    const bool isPacked = plan.elements.isPacked(plan.size), isWide = plan.elements.bytes == 8;
    const double compare = isWide ? 5 : 3, words = isPacked ? 1 : isWide ? 3 : 2;
    for (const NetworkStage& stage : network.stages) {
      const int64_t step = int64_t{1} << stage.bit;
      int64_t pairs = 0;
      for (int64_t i = 0; i < size; ++i) {
        if (i & step) continue;
        Entry &a = entries[static_cast<size_t>(i)], &b = entries[static_cast<size_t>(i + step)];
        if (stage.level < network.bits && (i >> stage.level & 1) ? a < b : b < a) std::swap(a, b);
        ++pairs;
      }
      exchanges += pairs;
      const bool falls = stage.level < network.bits && network.isAcrossLanes(stage.level);
      // Of 64 pairs: two registers.
      double ops = 0;
      if (network.isAcrossLanes(stage.bit))
        ops = isPacked ? 2 * 3 : 2 * (words + compare + 1 + words);
      else
        ops = isPacked ? (falls ? 4 : 2) : compare + 2 * words + (falls ? 1 : 0);
      networkOps += ops * static_cast<double>(pairs) / 64;
    }
  }
};

double networkOpsOf(const TpcOrder& plan) {
  if (plan.group > 1) return networkOpsOf(*plan.ofGroups) + networkOpsOf(*plan.ofChosen);
  return sortingCycles(plan.size, plan.elements).vectorOps;
}

std::vector<Entry> rowOf(int64_t size, int64_t different, uint32_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Entry> row;
  for (int64_t i = 0; i < size; ++i)
    row.push_back({static_cast<int64_t>(random() % static_cast<uint64_t>(different)), i});
  return row;
}

OrderedElements elementsOf(int64_t bytes) {
  OrderedElements elements;
  elements.bytes = bytes;
  return elements;
}

TEST(TpcOrder, GivesTheFirstOnesInOrderAndIsPricedAsWhatItRuns) {
  for (int64_t bytes : {1, 2, 4, 8})
    for (auto [size, count] : std::vector<std::pair<int64_t, int64_t>>{{1, 1},
                                                                       {7, 3},
                                                                       {10, 10},
                                                                       {64, 64},
                                                                       {65, 2},
                                                                       {300, 299},
                                                                       {1000, 1000},
                                                                       {1024, 64},
                                                                       {4096, 8},
                                                                       {5000, 100},
                                                                       {20000, 7},
                                                                       {20000, 20000},
                                                                       {70000, 100}})
      for (int64_t different : {int64_t{1}, int64_t{3}, size, int64_t{1} << 20}) {
        const TpcOrder plan = planTpcOrder(size, count, elementsOf(bytes));
        const std::vector<Entry> row = rowOf(size, different, static_cast<uint32_t>(size + count));
        Machine machine;
        const std::vector<Entry> first = machine.run(plan, row);
        std::vector<Entry> wanted = row;
        std::sort(wanted.begin(), wanted.end());
        for (int64_t i = 0; i < count; ++i)
          ASSERT_EQ(first[static_cast<size_t>(i)].position, wanted[static_cast<size_t>(i)].position)
              << count << " of " << size << " elements of " << bytes << " bytes at " << i;
        EXPECT_NEAR(machine.networkOps, networkOpsOf(plan), 1e-6 * machine.networkOps);
        EXPECT_GT(tpcOrderCycles(plan).total(), machine.networkOps);
      }
}

TEST(TpcOrder, CostsNoMoreThanToSortAllAndGrowsSlowly) {
  const OrderedElements elements;
  for (int64_t size : {100, 1000, 10000, 100000})
    for (int64_t count : {2, 10, 50, 100})
      EXPECT_LE(tpcOrderCycles(planTpcOrder(size, count, elements)).total(),
                tpcOrderCycles(planTpcOrder(size, size, elements)).total());
  // n log^2 n.
  for (int64_t size = 128; size < 65536; size *= 2) {
    const double one = tpcOrderCycles(planTpcOrder(size, size, elements)).total();
    const double two = tpcOrderCycles(planTpcOrder(2 * size, 2 * size, elements)).total();
    EXPECT_GT(two, 2 * one);
    EXPECT_LT(two, 3 * one);
  }
}

TEST(TpcOrder, OfNarrowKeysIsCheaper) {
  const double narrow = tpcOrderCycles(planTpcOrder(1024, 1024, elementsOf(2))).total();
  const double single = tpcOrderCycles(planTpcOrder(1024, 1024, elementsOf(4))).total();
  const double wide = tpcOrderCycles(planTpcOrder(1024, 1024, elementsOf(8))).total();
  EXPECT_LT(2 * narrow, single);
  EXPECT_LT(1.3 * single, wide);
}

}  // namespace
}  // namespace hpu::kernels
