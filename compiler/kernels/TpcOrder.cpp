// SPDX-License-Identifier: Apache-2.0
#include "compiler/kernels/TpcOrder.h"

#include <algorithm>
#include <bit>
#include <map>
#include <tuple>

namespace hpu::kernels {
namespace {

constexpr int64_t kLanes = 64;
constexpr int kLaneBits = 6;
/// Of local memory, for entries: the rest holds what is on its way.
constexpr int64_t kEntryBytes = 64 * 1024;
/// Global accesses hold their slot for so many cycles.
constexpr double kCyclesPerAccess = 4;
/// Lanes of 64 registers that become 64 registers of neighbours (docs/performance-model.md: turned in local memory).
constexpr double kTurnOps = 12;
/// The lower of two entries: their keys, then their positions, each comparison under the predicate of the one before.
constexpr double kCompareOps = 3, kWideCompareOps = 5;
/// Entries of other lanes are brought one by one: read at a computed address and written where a register is read.
constexpr double kScalarsPerEntry = 2, kScalarsPerGroup = 3;
/// Stages between parts of a row that do not fit into local memory, which one pass over memory does in registers.
constexpr int kStagesPerPass = 3;

int bitsOf(int64_t size) {
  return static_cast<int>(std::bit_width(static_cast<uint64_t>(std::max<int64_t>(size, 1) - 1)));
}

double compareOps(const OrderedElements& elements) {
  return elements.bytes == 8 ? kWideCompareOps : kCompareOps;
}

double registersOf(int64_t size) {
  return static_cast<double>((size + kLanes - 1) / kLanes);
}

/// Keys of `count` elements of memory that lie in registers.
OrderCycles keyCycles(double registers, const OrderedElements& elements) {
  OrderCycles cycles;
  cycles.vectorOps = registers * elements.keyOps * (elements.bytes == 8 ? 2 : 1);
  cycles.loads = registers * static_cast<double>(elements.bytes) / 4;
  return cycles;
}

/// Elements that lie anywhere.
OrderCycles lookUpCycles(int64_t count, const OrderedElements& elements) {
  OrderCycles cycles;
  cycles.scalarOps = kScalarsPerEntry * static_cast<double>(count) * (elements.bytes == 8 ? 2 : 1);
  cycles.vectorOps = registersOf(count) * elements.keyOps * (elements.bytes == 8 ? 2 : 1);
  return cycles;
}

/// The indices, i64, of the first `count` entries, which follow one another along the registers of local memory.
OrderCycles resultCycles(int64_t count) {
  OrderCycles cycles;
  const double registers = registersOf(count);
  cycles.vectorOps = registers * (kTurnOps + 2);
  cycles.stores = registers * 2;
  return cycles;
}

class Planner {
 public:
  explicit Planner(const OrderedElements& elements) : elements_(elements) {}

  struct Planned {
    std::shared_ptr<const TpcOrder> plan;
    OrderCycles cycles;
  };

  Planned best(int64_t size, int64_t count, bool isOfMemory) {
    const auto key = std::make_tuple(size, count, isOfMemory);
    if (auto known = known_.find(key); known != known_.end()) return known->second;
    auto sorted = std::make_shared<TpcOrder>();
    sorted->size = size, sorted->count = count, sorted->elements = elements_, sorted->isOfMemory = isOfMemory;
    Planned best{sorted, sortingCycles(size, elements_)};
    if (isOfMemory) best.cycles += keyCycles(registersOf(size), elements_);
    // Small groups one by one, as sorted are powers of two; of large ones fewer.
    for (int64_t group = 2; size > kLanes && group * count * 2 <= size && group * kLanes <= 2 * size;
         group += group < 8 ? 1 : group / 4) {
      auto grouped = std::make_shared<TpcOrder>(*sorted);
      grouped->group = group;
      const Planned groups = this->best(groupsOf(size, group), count, false);
      const Planned chosen = this->best(group * count, count, false);
      grouped->ofGroups = groups.plan, grouped->ofChosen = chosen.plan;
      OrderCycles cycles = groups.cycles;
      cycles += chosen.cycles;
      cycles += groupCycles(*grouped);
      if (cycles.total() < best.cycles.total()) best = {grouped, cycles};
    }
    known_[key] = best;
    return best;
  }

  static int64_t groupsOf(int64_t size, int64_t group) {
    const int64_t registers = (size + kLanes - 1) / kLanes;
    return (registers + group - 1) / group * kLanes;
  }

  /// The firsts of all groups, and bringing what the chosen ones hold.
  static OrderCycles groupCycles(const TpcOrder& plan) {
    const OrderedElements& elements = plan.elements;
    const double registers = registersOf(plan.size);
    OrderCycles cycles;
    if (plan.isOfMemory) cycles += keyCycles(registers, elements);
    // Positions rise: a comparison selects the key, and the position with it.
    cycles.vectorOps += registers * (elements.bytes == 8 ? 6 : 2);
    cycles += lookUpCycles(plan.group * plan.count, elements);
    cycles.scalarOps += kScalarsPerGroup * static_cast<double>(plan.count);
    return cycles;
  }

 private:
  OrderedElements elements_;
  std::map<std::tuple<int64_t, int64_t, bool>, Planned> known_;
};

OrderCycles cyclesOf(const TpcOrder& plan) {
  OrderCycles cycles;
  if (plan.group > 1) {
    cycles = Planner::groupCycles(plan);
    cycles += cyclesOf(*plan.ofGroups);
    cycles += cyclesOf(*plan.ofChosen);
    return cycles;
  }
  cycles = sortingCycles(plan.size, plan.elements);
  if (plan.isOfMemory) cycles += keyCycles(registersOf(plan.size), plan.elements);
  return cycles;
}

}  // namespace

OrderCycles& OrderCycles::operator+=(const OrderCycles& other) {
  vectorOps += other.vectorOps;
  scalarOps += other.scalarOps;
  loads += other.loads;
  stores += other.stores;
  return *this;
}

double OrderCycles::total() const {
  return scalarOps + std::max({vectorOps, kCyclesPerAccess * loads, kCyclesPerAccess * stores});
}

SortingNetwork sortingNetwork(int64_t size, const OrderedElements& elements) {
  SortingNetwork network;
  network.bits = bitsOf(size);
  const int64_t local = kEntryBytes / 4 / elements.words(size);
  const int localBits = std::min<int>(network.bits, static_cast<int>(std::bit_width(static_cast<uint64_t>(local))) - 1);
  network.laneBits = std::min(kLaneBits, localBits);
  network.registerBits = localBits - network.laneBits;
  for (int level = 1; level <= network.bits; ++level)
    for (int bit = level - 1; bit >= 0; --bit) network.stages.push_back({level, bit});
  return network;
}

double stageOps(const SortingNetwork& network, const NetworkStage& stage, int64_t size,
                const OrderedElements& elements) {
  const auto words = static_cast<double>(elements.words(size));
  // Registers whose lanes rise and fall: the predicate is turned round where they fall.
  const bool isMixed = stage.level < network.bits && network.isAcrossLanes(stage.level);
  if (network.isAcrossLanes(stage.bit)) {
    // The partners are shuffled to their places; each lane keeps one of both.
    if (elements.isPacked(size)) return 3;
    return words + compareOps(elements) + 1 + words;
  }
  // Of two registers, the lower entries and the higher ones.
  if (elements.isPacked(size)) return isMixed ? 2 : 1;
  return (compareOps(elements) + 2 * words + (isMixed ? 1 : 0)) / 2;
}

OrderCycles sortingCycles(int64_t size, const OrderedElements& elements) {
  const SortingNetwork network = sortingNetwork(size, elements);
  // Short rows share a register.
  const double registers = static_cast<double>(int64_t{1} << network.bits) / static_cast<double>(kLanes);
  OrderCycles cycles;
  double passes = 0;
  int inPass = 0;
  for (const NetworkStage& stage : network.stages) {
    cycles.vectorOps += registers * stageOps(network, stage, size, elements);
    if (network.isGlobal(stage.bit)) {
      if (inPass++ % kStagesPerPass == 0) ++passes;
    } else if (inPass > 0) {
      inPass = 0;
      ++passes;  // The rest of the level, in local memory.
    }
  }
  const auto words = static_cast<double>(elements.words(size));
  if (elements.bytes == 8) {
    // Memory for entries between passes is that of the result, 8 bytes each: keys are looked up by the positions.
    cycles.scalarOps += passes * kScalarsPerEntry * 2 * registers * static_cast<double>(kLanes);
    cycles.loads += passes * registers;
    cycles.stores += passes * registers;
  } else {
    cycles.loads += passes * registers * words;
    cycles.stores += passes * registers * words;
  }
  return cycles;
}

TpcOrder planTpcOrder(int64_t size, int64_t count, const OrderedElements& elements) {
  return *Planner(elements)
              .best(std::max<int64_t>(size, 1), std::clamp<int64_t>(count, 1, std::max<int64_t>(size, 1)), true)
              .plan;
}

OrderCycles tpcOrderCycles(const TpcOrder& plan) {
  OrderCycles cycles = cyclesOf(plan);
  cycles += resultCycles(plan.count);
  return cycles;
}

OrderCycles pickedCycles(int64_t count, const OrderedElements& elements) {
  OrderCycles cycles = lookUpCycles(count, elements);
  cycles.vectorOps = 0;
  cycles.stores = registersOf(count) * static_cast<double>(elements.bytes) / 4;
  return cycles;
}

}  // namespace hpu::kernels
