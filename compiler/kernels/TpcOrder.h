// SPDX-License-Identifier: Apache-2.0
// How a TPC orders a row: bitonic networks in local memory, ahead of which only groups that can hold one of the first
// elements are kept. A plan is data: its price is counted from it, and a test runs it on numbers.
// The one thing to know: everything here is about one row on one TPC; rows share nothing.
//
//   TpcOrder plan = planTpcOrder(1024, 64, OrderedElements{...});
//   OrderCycles cycles = tpcOrderCycles(plan);
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace hpu::kernels {

/// What is ordered, in registers of 64 lanes of 32 bits.
struct OrderedElements {
  int64_t bytes = 4;
  /// Instructions that make keys of a register's elements, which order as integers.
  double keyOps = 4;
  /// Keys of 16 bits share a word with a position of 16 bits: rows of up to 2^16 elements.
  bool isPacked(int64_t size) const { return bytes <= 2 && size <= 65536; }
  /// Words of an entry in local memory: its key and its position.
  int64_t words(int64_t size) const { return isPacked(size) ? 1 : bytes == 8 ? 3 : 2; }
};

/// Of a network over 2^bits entries: entries whose numbers differ in bit `bit` are compared and exchanged; they rise
/// where bit `level` of the number is 0, and fall elsewhere.
struct NetworkStage {
  int level = 0, bit = 0;
};

/// Bit 0 of an entry's number is compared most often. So the lowest bits count registers of local memory, the next six
/// the lanes of a register, and the highest what does not fit into local memory.
struct SortingNetwork {
  int bits = 0, registerBits = 0, laneBits = 0;
  std::vector<NetworkStage> stages;
  bool isAcrossLanes(int bit) const { return bit >= registerBits && bit < registerBits + laneBits; }
  bool isGlobal(int bit) const { return bit >= registerBits + laneBits; }
};
SortingNetwork sortingNetwork(int64_t size, const OrderedElements& elements);

/// The first `count` of `size` entries, in order.
struct TpcOrder {
  int64_t size = 0, count = 0;
  OrderedElements elements;
  /// Entries are those of memory, keys to be made; else they are in local memory.
  bool isOfMemory = true;
  /// 1: all of them are sorted. Else each `group` entries of one lane in registers that follow one another are a group;
  /// `ofGroups` finds the groups with the `count` first firsts, `ofChosen` the first of what these hold. (An entry
  /// outside of them is behind the first one of each.)
  int64_t group = 1;
  std::shared_ptr<const TpcOrder> ofGroups, ofChosen;
};
/// The cheapest plan.
TpcOrder planTpcOrder(int64_t size, int64_t count, const OrderedElements& elements);

struct OrderCycles {
  double vectorOps = 0, scalarOps = 0;
  double loads = 0, stores = 0;  ///< Of registers, from and to global memory.
  OrderCycles& operator+=(const OrderCycles& other);
  /// The phases of a row wait for each other.
  double total() const;
};
/// Instructions of a stage for each register of entries.
double stageOps(const SortingNetwork& network, const NetworkStage& stage, int64_t size,
                const OrderedElements& elements);
/// Without the indices' way to memory, which tpcOrderCycles counts.
OrderCycles sortingCycles(int64_t size, const OrderedElements& elements);
/// Of a whole row.
OrderCycles tpcOrderCycles(const TpcOrder& plan);
/// Of storing the elements beside their indices: a key does not tell 0 from -0, so they are looked up.
OrderCycles pickedCycles(int64_t count, const OrderedElements& elements);

}  // namespace hpu::kernels
