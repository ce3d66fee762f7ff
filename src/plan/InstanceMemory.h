// SPDX-License-Identifier: Apache-2.0
// Where an instance's operands lie, and how its units are cut: the part of plan::instantiate that decides, apart from
// the order of commands. The one thing to know: what it decides is a MemoryPlan, which also serves smaller sizes.
#pragma once

#include <cstdint>
#include <vector>

#include "arch/TargetDesc.h"
#include "hpu/status.h"
#include "recipe/Dynamic.h"
#include "recipe/Recipe.h"
#include "recipe/SizeValues.h"

namespace hpu::plan {

/// By unit, part and dimension, as TileChoice::slices.
using Cuts = std::vector<std::vector<std::vector<uint32_t>>>;

/// Decisions that instances of one or of similar sizes share.
struct MemoryPlan {
  struct Place {
    int64_t offset = 0;
    int64_t bytes = 0;  ///< As many as there is room for.
  };
  Cuts cuts;
  std::vector<Place> tiles;     ///< By tile storage.
  std::vector<bool> spilled;    ///< By tile storage: it lies in the workspace, as a whole.
  std::vector<Place> storages;  ///< By storage; without meaning for one that is an output.
  std::vector<int64_t> slices;  ///< By unit.
  std::vector<bool> hasPoints;  ///< By op.
  int64_t workspaceBytes = 0, sramBytes = 0;
  int64_t largestLiveSet = 0;  ///< Of the workspace.
};

/// Lays out one instance. `program` is the copy whose sizes are set already; it keeps all of its ops, those without
/// points, too. All references must outlive this.
class InstanceMemory {
 public:
  InstanceMemory(const recipe::Program& program, const recipe::Dynamic& dynamic, const recipe::SizeValues& values,
                 const arch::TargetDesc& target);

  /// Cuts units as the choice says, or finer where their tiles would not fit into SRAM; what cannot be cut finer lies
  /// in the workspace. Errors: kOutOfRange when a size has no value.
  Status plan(const Cuts& cuts);
  /// Takes over a plan of other sizes. False when it does not serve these: something is larger, or there would be
  /// another number of slices.
  StatusOr<bool> reuse(const MemoryPlan& plan);

  /// Sets operands' places, strides and rings, and the sections' bytes. Errors: kDataLoss when an operand leaves its
  /// storage.
  Status apply(recipe::Program& program) const;

  const MemoryPlan& decided() const { return plan_; }
  /// Points of a slice of a part, along each dimension of its space; of one that is not cut, all.
  const std::vector<int64_t>& box(uint32_t unit, uint32_t part) const { return boxes_[unit][part]; }
  /// How many slices a unit has: that of each of its parts with points; 1 when none has any.
  int64_t slices(uint32_t unit) const { return slices_[unit]; }
  /// Whether the op has any points.
  bool hasPoints(uint32_t op) const { return hasPoints_[op]; }

 private:
  /// A tile storage at these sizes.
  struct TileShape {
    bool used = false, ring = false;
    uint32_t slots = 1;
    int64_t slotBytes = 0;
    std::vector<int64_t> strides;  ///< By dimension of the result, elements.
    int64_t bytes() const { return used ? slots * slotBytes : 0; }
  };

  const std::vector<int64_t>& spaceOf(uint32_t unit, uint32_t part) const;
  bool partHasPoints(uint32_t unit, uint32_t part) const;
  void shapeUnit(uint32_t unit);
  Status shapeTile(uint32_t tile);
  Status shapeAll();
  bool refine(uint32_t tile);
  bool mayCut(uint32_t unit, uint32_t part, size_t dim) const;
  Status fitTiles();
  void placeTiles();
  Status sizeStorages();
  void placeWorkspace();

  const recipe::Program& program_;
  const recipe::Dynamic& dynamic_;
  const recipe::SizeValues& values_;
  const arch::TargetDesc& target_;
  MemoryPlan plan_;
  std::vector<bool> hasPoints_;                           ///< By op.
  std::vector<uint32_t> unitOf_;                          ///< By op.
  std::vector<bool> inPart_;                              ///< By tile storage: all users are ops of its part.
  std::vector<std::vector<std::vector<int64_t>>> boxes_;  ///< By unit and part.
  std::vector<int64_t> slices_;                           ///< By unit.
  std::vector<TileShape> shapes_;                         ///< By tile storage.
  std::vector<int64_t> storageBytes_;                     ///< By storage; 0: nothing with points lies in it.
  uint32_t workspace_ = recipe::kNone, sram_ = recipe::kNone;
};

}  // namespace hpu::plan
