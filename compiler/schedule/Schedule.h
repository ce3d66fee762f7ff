// SPDX-License-Identifier: Apache-2.0
// The phase schedule: turns units with addresses into engine queues with signals and waits.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "arch/TargetDesc.h"
#include "compiler/dialect/sched/SchedOps.h"
#include "hpu/status.h"
#include "recipe/CommandAccess.h"

namespace mlir {
class Pass;
}

namespace hpu::schedule {

/// A program's sections and ops as recipe structs, with priced kernels; it has no constants, code or queues.
struct Draft {
  std::shared_ptr<const recipe::Program> program;
  recipe::KernelReads reads;
  std::vector<uint32_t> unitOf;  ///< By op: its unit, numbered in program order. Of a draft without queues only.
};
using Drafter = std::function<StatusOr<Draft>(sched::ProgramOp)>;

/// On the descriptors of a draft: the number of the unit.
inline constexpr const char* kUnitAttr = "unit";
/// On an MME op: how many neighbouring pixels the phase tile wants computed as one (recipe/MmePacking.h). More than 1.
inline constexpr const char* kPackingAttr = "hpu.packing";

/// On a program whose sizes are given late: its units in order, {bundle, parts}; of each part {ops, tile, choices},
/// several take turns.
inline constexpr const char* kUnitsAttr = "hpu.units";

/// Where sizes are given late, on units: how other sizes would have them cut, an array of slices along each dimension
/// (none: one slice) for each of the sizes of kChoicesAttr on the module, dictionaries by dimension.
inline constexpr const char* kTileChoicesAttr = "hpu.tile_choices";
inline constexpr const char* kChoicesAttr = "hpu.choices";

/// In OperandAttr's `late`: of which chained unit's result it is (a view), {number, dim, slots}; and which dimension of
/// the operand follows the slices, where there are several.
inline constexpr const char* kLateChain = "chain";
inline constexpr const char* kLateAlong = "along";

struct ScheduleOptions {
  const arch::TargetDesc* target = nullptr;
  Drafter draft;                 ///< Prices the commands.
  bool reorder = true;           ///< false: commands keep program order (-O0, -O1).
  bool descriptorsOnly = false;  ///< Leaves the queues empty.
  std::string* report = nullptr;
  std::string* summary = nullptr;
};

/// Module pass: the function @main is replaced by a sched.program @main, since a program is module-level.
std::unique_ptr<mlir::Pass> createSchedulePass(ScheduleOptions options);
/// Post-condition: no function is left, symbols resolve, each queue runs descriptors of its engine.
std::unique_ptr<mlir::Pass> createVerifySchedulePass();

}  // namespace hpu::schedule
