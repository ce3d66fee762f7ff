// SPDX-License-Identifier: Apache-2.0
// Where an instance's operands lie, and how its units are cut: the part of plan::instantiate that decides, apart from
// the order of commands. The one thing to know: what it decides is a MemoryPlan, which also serves smaller sizes.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "arch/TargetDesc.h"
#include "hpu/status.h"
#include "plan/ChangedOps.h"
#include "plan/SharedWaits.h"
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

/// The ops of an instance by their numbers in the program that it is made from. Ops without points may have been left
/// out already; their spaces stay known.
class InstanceOps {
 public:
  /// All are there.
  explicit InstanceOps(recipe::Program& program) : program_(&program) {}
  /// `now`: by op its number in `program`, kNone for those that are not there; these have the spaces `dropped`.
  InstanceOps(recipe::Program& program, const std::vector<uint32_t>& now, std::vector<std::vector<int64_t>> dropped)
      : program_(&program), now_(&now), dropped_(std::move(dropped)) {}

  size_t size() const { return now_ ? now_->size() : program_->ops.size(); }
  /// Its number; kNone: it is not there.
  uint32_t number(uint32_t op) const { return now_ ? (*now_)[op] : op; }
  /// Null: it is not there.
  recipe::Op* find(uint32_t op) const { return number(op) == recipe::kNone ? nullptr : &program_->ops[number(op)]; }
  std::vector<int64_t>& space(uint32_t op) {
    return number(op) == recipe::kNone ? dropped_[op] : program_->ops[number(op)].space;
  }
  const std::vector<int64_t>& space(uint32_t op) const { return const_cast<InstanceOps*>(this)->space(op); }

 private:
  recipe::Program* program_;
  const std::vector<uint32_t>* now_ = nullptr;
  std::vector<std::vector<int64_t>> dropped_;  ///< By op.
};

/// Lays out one instance. `ops` are those of `program`, whose sizes are set already. All references must outlive this.
class InstanceMemory {
 public:
  InstanceMemory(const recipe::Program& program, const InstanceOps& ops, const recipe::Dynamic& dynamic,
                 const recipe::SizeValues& values, const arch::TargetDesc& target);
  InstanceMemory(const InstanceMemory&) = delete;
  InstanceMemory& operator=(const InstanceMemory&) = delete;

  /// Cuts units like this, or finer where their tiles would not fit into SRAM; what cannot be cut finer lies
  /// in the workspace. Errors: kOutOfRange when a size has no value.
  Status plan(const Cuts& cuts);
  /// As plan(), but nothing gets a place: boxes are what it is good for.
  Status cut(const Cuts& cuts);
  /// Takes over a plan of other sizes, which must outlive this. False when it does not serve these: something is
  /// larger, or there would be another number of slices.
  StatusOr<bool> reuse(const MemoryPlan& plan);

  /// Sets operands' places, strides and rings, and the sections' bytes; adds the ops of which one is another one.
  /// Errors: kDataLoss when an operand leaves its storage.
  Status apply(recipe::Program& program, ChangedOps& changed) const;

  const MemoryPlan& decided() const { return *plan_; }
  /// Of the operands that are placed, after apply(): the same for all sizes that the plan serves.
  std::vector<OperandRegion> regions() const;
  /// Points of a slice of a part, along each dimension of its space; of one that is not cut, all.
  const std::vector<int64_t>& box(uint32_t unit, uint32_t part) const { return boxes_[unit][part]; }
  /// How many slices a unit has: that of each of its parts with points; 1 when none has any.
  int64_t slices(uint32_t unit) const { return slices_[unit]; }
  /// Slices along each dimension, unit by unit and part by part: commands of instances with the same are the same but
  /// for their boxes.
  std::vector<int64_t> sliceDims() const;
  /// Whether the op has any points.
  bool hasPoints(uint32_t op) const { return hasPoints_[op]; }

 private:
  /// A tile storage at these sizes.
  struct TileShape {
    bool used = false, ring = false;
    uint32_t slots = 1;
    int64_t slotBytes = 0;
    std::array<int64_t, recipe::kMaxRank> strides{};  ///< By dimension of the result, elements.
    int64_t bytes() const { return used ? slots * slotBytes : 0; }
  };

  const std::vector<int64_t>& spaceOf(uint32_t unit, uint32_t part) const {
    return ops_.space(dynamic_.units[unit].parts[part].ops[0]);
  }
  bool partHasPoints(uint32_t unit, uint32_t part) const;
  void shapeUnit(uint32_t unit);
  bool followsSlices(const recipe::TileStorage& tile) const;
  Status shapeTile(uint32_t tile);
  Status shapeAll();
  bool refine(uint32_t tile);
  bool mayCut(uint32_t unit, uint32_t part, size_t dim) const;
  Status fitTiles();
  void placeTiles();
  Status sizeStorages();
  void placeWorkspace();

  const recipe::Program& program_;
  const InstanceOps& ops_;
  const recipe::Dynamic& dynamic_;
  const recipe::SizeValues& values_;
  const arch::TargetDesc& target_;
  MemoryPlan own_;
  const MemoryPlan* plan_ = &own_;                        ///< Or one of other sizes.
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
