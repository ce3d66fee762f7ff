// SPDX-License-Identifier: Apache-2.0
// SharedWaits: what the commands of one instance wait for, for instances of other sizes with as many commands.
// The one thing to know: waits are a proof that two commands which meet in memory are ordered, and sizes change which
// commands meet. So it keeps the list of pairs that its waits do not order, or order in another way than the program
// does, and that lie in memory which may meet: an instance takes the waits when no such pair meets at its sizes.
//
// Why that is enough, for every instance that holds() accepts: take two commands of it that touch the same byte, one of
// them writing. Each operand lies within its region (holds() looks at all of them), and a
// slice within its slot (which verifyBoxes has seen), so their regions meet, in the same slot where both are one ring.
// Then the pair is either ordered by the waits as in program order, which is what is asked for, or in the list; and
// pairs of the list do not meet.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/FunctionRef.h"
#include "plan/ChangedOps.h"
#include "plan/Slices.h"
#include "recipe/CommandAccess.h"
#include "recipe/CommandRef.h"
#include "recipe/Recipe.h"

namespace hpu::plan {

/// Where an operand lies whatever the sizes of an instance.
struct OperandRegion {
  uint32_t op = 0, operand = 0;
  uint64_t begin = 0, end = 0;
  /// Operands with the same are one ring (Ring), of so many slots: slices in different slots do not meet.
  uint32_t ring = recipe::kNone;
  uint32_t slots = 0;  ///< 0: none.
};

class SharedWaits {
 public:
  /// Of an instance with its queues, as issueCommands filled them in the order `order`: one an engine, each raising the
  /// signal of its number. An operand without a region may lie anywhere in its section. Null when too many pairs would
  /// have to be looked at for each instance.
  static std::shared_ptr<const SharedWaits> make(const recipe::Program& program, const recipe::KernelReads& reads,
                                                 const std::vector<IssueUnit>& units,
                                                 const std::vector<uint32_t>& order,
                                                 std::vector<OperandRegion> regions);

  /// Sets the boxes of the commands of a copy of that instance to the slices of its own spaces; `tiles` by unit. Adds
  /// the ops that have other boxes then. False when there are other commands.
  bool setBoxes(recipe::Program& program, const std::vector<IssueUnit>& units, const std::vector<Tiles>& tiles,
                ChangedOps& changed) const;

  /// Whether the waits order the commands of an instance that has its boxes. `reads` is asked only when there are
  /// pairs, and of kernels() only. `changed`: the ops that have other numbers than in an instance for which they hold,
  /// or whose kernels read in another way; null: all.
  bool holds(const recipe::Program& program, base::FunctionRef<recipe::KernelReads()> reads,
             const ChangedOps* changed = nullptr) const;

  size_t pairs() const { return pairs_.size(); }
  /// By kernel: what it reads is looked at, of the commands of pairs.
  const std::vector<bool>& kernels() const { return kernels_; }

 private:
  SharedWaits() = default;

  std::vector<OperandRegion> regions_;
  std::vector<recipe::CommandRef> commands_;          ///< In program order.
  std::vector<recipe::CommandRef> looked_;            ///< Commands of pairs ...
  std::vector<std::pair<uint32_t, uint32_t>> pairs_;  ///< ... which these count into.
  std::vector<bool> kernels_;
};

}  // namespace hpu::plan
