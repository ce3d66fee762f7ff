// SPDX-License-Identifier: Apache-2.0
// Slices units into commands and fills the engines' queues: a pure library over recipe structs.
// The one thing to know: program order is always a right order, and every command may move ahead of others as far as
// the bytes that they touch allow. The search for tiles and the phase schedule both use this, so that what the search
// prices is what is scheduled.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "arch/TargetDesc.h"
#include "perfmodel/Timeline.h"
#include "recipe/CommandAccess.h"

namespace hpu::plan {

/// Of a program: one an engine (MME, TPC, DMA).
inline constexpr unsigned kQueues = 3;

/// What a program's commands are made from.
struct IssueContext {
  const recipe::Program& program;  ///< Sections, kernels (with costs) and ops; no queues.
  const recipe::KernelReads& reads;
  const arch::TargetDesc& target;
  const arch::ClockProfile& clock;
};

/// Ops that run slice by slice, one after another in each slice.
struct IssueUnit {
  std::vector<uint32_t> ops;
  std::vector<int64_t> tile;  ///< Box of a slice in the ops' index space; empty: all of it.
  uint32_t bundle = recipe::kNone;
  /// Not 0: what the first op makes is taken to have so many tiles only, though its operand lies as a whole.
  int64_t slots = 0;
  /// Units that run behind this one in each slice, in the same bundle; all have as many slices.
  std::vector<IssueUnit> chained;
  /// Not 0, in a chain: likewise of what the last op makes, which the unit behind reads with its ops up to `reader`.
  int64_t kept = 0;
  uint32_t reader = 0;
};

struct SlicedCommand {
  recipe::Command command;
  unsigned queue = 0;
  perfmodel::Cost cost;
  std::vector<recipe::Access> accesses;
  std::vector<uint32_t> before;  ///< Commands of the same unit, as positions in it, that no access orders.
};

/// Number of slices that `tile` cuts `space` into.
int64_t sliceCount(const std::vector<int64_t>& space, const std::vector<int64_t>& tile);

/// The unit's commands in program order, without waits.
std::vector<SlicedCommand> sliceUnit(const IssueContext& context, const IssueUnit& unit);

struct Issued {
  std::vector<recipe::Queue> queues;  ///< One an engine: MME, TPC, DMA. Queue q raises signal q.
  perfmodel::Picoseconds time = 0;    ///< On the modelled device.
  perfmodel::Picoseconds lowerBound = 0;
  /// In which commands can be issued one after another, by number in program order.
  std::vector<uint32_t> order;
};

/// `units` in program order. `reorder`: the fastest of program order, of an engine taking the earliest command in
/// program order among those that can start first, and of it taking the one among them that begins the longest chain of
/// others. kResourceExhausted when more pairs of commands touch the same bytes than any program's do.
StatusOr<Issued> issueCommands(const IssueContext& context, const std::vector<const std::vector<SlicedCommand>*>& units,
                               bool reorder);

/// The commands of units in an order that is known (Issued::order, of the same units at other sizes), with the waits
/// that their accesses need; nullopt when there is another number of them, or they cannot run in that order. Nothing is
/// priced, so this takes a fraction of issueCommands.
StatusOr<std::optional<std::vector<recipe::Queue>>> issueInOrder(const recipe::Program& program,
                                                                 const recipe::KernelReads& reads,
                                                                 const std::vector<IssueUnit>& units,
                                                                 const std::vector<uint32_t>& order);

}  // namespace hpu::plan
