// SPDX-License-Identifier: Apache-2.0
#include "plan/InstanceMemory.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "base/Format.h"
#include "base/Math.h"
#include "base/StatusMacros.h"
#include "plan/Issue.h"
#include "plan/Planner.h"
#include "recipe/CommandAccess.h"
#include "recipe/VerifierParts.h"

namespace hpu::plan {

using base::ceilDiv;
using base::strCat;
using recipe::DynamicUnit;
using recipe::kNone;
using recipe::Operand;
using recipe::Storage;
using recipe::TileStorage;

namespace {

constexpr auto kAlign = static_cast<int64_t>(recipe::kAlignment);
/// Memory has no more bytes (RecipeVerifier).
constexpr int64_t kMostBytes = int64_t{1} << 50;
/// Tiles that give way to their neighbours one by one; those that do then must be many, and all do.
constexpr int kMostGiveWay = 16;

int64_t alignUp(int64_t bytes) {
  return ceilDiv(bytes, kAlign) * kAlign;
}

/// The dimension that is cut; kNone when none is.
uint32_t cutDim(const std::vector<uint32_t>& slices) {
  for (uint32_t d = 0; d < slices.size(); ++d)
    if (slices[d] > 1) return d;
  return kNone;
}

}  // namespace

InstanceMemory::InstanceMemory(const recipe::Program& program, const InstanceOps& ops, const recipe::Dynamic& dynamic,
                               const recipe::SizeValues& values, const arch::TargetDesc& target)
    : program_(program),
      ops_(ops),
      dynamic_(dynamic),
      values_(values),
      target_(target),
      hasPoints_(ops.size()),
      unitOf_(ops.size()),
      inPart_(dynamic.tiles.size()),
      boxes_(dynamic.units.size()),
      slices_(dynamic.units.size(), 1),
      shapes_(dynamic.tiles.size()),
      storageBytes_(dynamic.storages.size()) {
  for (uint32_t op = 0; op < ops.size(); ++op) {
    const std::vector<int64_t>& space = ops.space(op);
    hasPoints_[op] = std::find(space.begin(), space.end(), 0) == space.end();
  }
  for (uint32_t u = 0; u < dynamic.units.size(); ++u)
    for (const DynamicUnit::Part& part : dynamic.units[u].parts)
      for (uint32_t op : part.ops) unitOf_[op] = u;
  for (size_t t = 0; t < dynamic.tiles.size(); ++t) {
    const TileStorage& tile = dynamic.tiles[t];
    const std::vector<uint32_t>& ops = dynamic.units[tile.unit].parts[tile.part].ops;
    inPart_[t] = std::all_of(tile.users.begin(), tile.users.end(), [&](const TileStorage::User& user) {
      return std::find(ops.begin(), ops.end(), user.op) != ops.end();
    });
  }
  for (uint32_t s = 0; s < program.sections.size(); ++s) {
    if (program.sections[s].kind == recipe::SectionKind::kWorkspace) workspace_ = s;
    if (program.sections[s].kind == recipe::SectionKind::kSram) sram_ = s;
  }
}

bool InstanceMemory::partHasPoints(uint32_t unit, uint32_t part) const {
  return hasPoints_[dynamic_.units[unit].parts[part].ops[0]];
}

// ---- Cuts --------------------------------------------------------------------------------------------

/// Parts of one unit are cut in the same proportion, each where it has as many points as the common divisor has slices,
/// or a multiple.
void InstanceMemory::shapeUnit(uint32_t u) {
  const size_t parts = dynamic_.units[u].parts.size();
  const auto& cuts = plan_->cuts[u];
  boxes_[u].resize(parts);
  slices_[u] = 1;
  int64_t common = 0;
  for (uint32_t p = 0; parts > 1 && p < parts; ++p)
    if (const uint32_t d = cutDim(cuts[p]); d != kNone && partHasPoints(u, p))
      common = std::gcd(common, spaceOf(u, p)[d]);
  for (uint32_t p = 0; p < parts; ++p) {
    const std::vector<int64_t>& space = spaceOf(u, p);
    std::vector<int64_t>& box = boxes_[u][p];
    box = space;
    if (!partHasPoints(u, p)) continue;
    for (size_t d = 0; d < cuts[p].size(); ++d) {
      if (cuts[p][d] <= 1) continue;
      box[d] = common == 0 ? ceilDiv(space[d], cuts[p][d]) : ceilDiv(common, cuts[p][d]) * (space[d] / common);
    }
    slices_[u] = sliceCount(space, box);
  }
}

/// Whether the unit's slices are tiles. Where it is cut along another dimension the result lies in SRAM as a whole:
/// strides of tiles, which kernels know, are those of one dimension.
bool InstanceMemory::followsSlices(const TileStorage& tile) const {
  const std::vector<int64_t>&box = boxes_[tile.unit][tile.part], &space = spaceOf(tile.unit, tile.part);
  for (uint32_t d = 0; d < box.size(); ++d)
    if (box[d] < space[d] && d != tile.dim) return false;
  return true;
}

Status InstanceMemory::shapeTile(uint32_t t) {
  const TileStorage& tile = dynamic_.tiles[t];
  TileShape& shape = shapes_[t];
  shape = {};
  shape.used = std::any_of(tile.users.begin(), tile.users.end(),
                           [&](const TileStorage::User& user) { return hasPoints_[user.op]; });
  std::array<int64_t, recipe::kMaxRank> extents{};
  const size_t rank = tile.sizes.size();
  int64_t elements = 1;
  for (size_t d = 0; d < rank; ++d) {
    HPU_ASSIGN(int64_t extent, values_.at(tile.sizes[d]));
    if (extent < 0 || (extent > 0 && elements > recipe::kMaxPoints / extent))
      return outOfRange(strCat("tile storage ", t, " has a negative size, or more than 2^48 elements"));
    elements *= std::max<int64_t>(extent, 1);
    if (extent == 0) shape.used = false;
    extents[d] = extent;
  }
  const bool cut = (inPart_[t] || tile.slots > 1) && slices_[tile.unit] > 1 && followsSlices(tile);
  shape.ring = shape.used && !plan_->spilled[t] && (cut || inPart_[t]);
  if (shape.ring && cut) {
    const int64_t size = extents[tile.dim], box = boxes_[tile.unit][tile.part][tile.dim];
    if (size != spaceOf(tile.unit, tile.part)[tile.dim])
      return dataLoss(strCat("tile storage ", t, " has size ", size, " where its unit ", tile.unit,
                             " is cut, which has ", spaceOf(tile.unit, tile.part)[tile.dim]));
    elements = elements / size * box;
    extents[tile.dim] = box;
    shape.slots = static_cast<uint32_t>(std::min<int64_t>(tile.slots, slices_[tile.unit]));
  }
  int64_t stride = 1;
  for (size_t i = rank; i-- > 0;) {
    shape.strides[tile.order[i]] = stride;
    stride *= std::max<int64_t>(extents[tile.order[i]], 1);
  }
  shape.slotBytes = alignUp(elements * tile.elementBytes);
  if (shape.slotBytes > kMostBytes / shape.slots)
    return outOfRange(strCat("tile storage ", t, " has ", shape.slots, " slots of ", shape.slotBytes, " bytes"));
  return okStatus();
}

Status InstanceMemory::shapeAll() {
  for (uint32_t u = 0; u < dynamic_.units.size(); ++u) shapeUnit(u);
  for (uint32_t t = 0; t < dynamic_.tiles.size(); ++t) HPU_RETURN_IF_ERROR(shapeTile(t));
  return sizeStorages();
}

bool InstanceMemory::mayCut(uint32_t unit, uint32_t part, size_t dim) const {
  for (uint32_t index : dynamic_.units[unit].parts[part].ops) {
    const recipe::Op& op = *ops_.find(index);
    if (op.engine == Engine::kTpc && (program_.kernels[op.tpc.kernel].wholeDims >> dim & 1)) return false;
  }
  return true;
}

/// Twice as many slices of the unit that fills the tile, or as many as there can be; false when it has them already.
bool InstanceMemory::refine(uint32_t t) {
  const TileStorage& tile = dynamic_.tiles[t];
  const uint32_t u = tile.unit;
  auto& cuts = own_.cuts[u];
  if (!inPart_[t] && tile.slots == 1) return false;
  // As a whole it is too large: the last choice cuts along the dimension of tiles.
  if (!followsSlices(tile)) {
    cuts = dynamic_.choices.back().slices[u];
    shapeUnit(u);
    return followsSlices(tile);
  }
  int64_t size = 0, ops = 0;
  for (uint32_t p = 0; p < cuts.size(); ++p) {
    ops += static_cast<int64_t>(dynamic_.units[u].parts[p].ops.size());
    const uint32_t dim = cuts.size() == 1 ? tile.dim : cutDim(cuts[p]);
    if (dim == kNone || !mayCut(u, p, dim)) return false;
    if (partHasPoints(u, p)) size = std::gcd(size, spaceOf(u, p)[dim]);
  }
  const int64_t slices = std::min(2 * slices_[u], size);
  if (slices <= slices_[u] || slices > recipe::kMaxInstanceCommands / ops) return false;
  for (uint32_t p = 0; p < cuts.size(); ++p) {
    const uint32_t dim = cuts.size() == 1 ? tile.dim : cutDim(cuts[p]);
    cuts[p].resize(spaceOf(u, p).size(), 1);
    cuts[p][dim] = static_cast<uint32_t>(slices);
  }
  // 5 points in 4 slices are 3 of at most 2: the next finer cut is into 5.
  const int64_t before = slices_[u];
  shapeUnit(u);
  if (slices_[u] > before || slices == size) return slices_[u] > before;
  for (auto& part : cuts)
    if (const uint32_t dim = cutDim(part); dim != kNone) part[dim] = static_cast<uint32_t>(size);
  if (size > recipe::kMaxInstanceCommands / ops) return false;
  shapeUnit(u);
  return true;
}

// ---- SRAM --------------------------------------------------------------------------------------------

/// The tiles of each place in the order of bundles must fit by themselves: finer tiles, else what is largest goes to
/// the workspace.
Status InstanceMemory::fitTiles() {
  std::map<uint32_t, std::vector<uint32_t>> places;
  for (uint32_t t = 0; t < dynamic_.tiles.size(); ++t) places[dynamic_.tiles[t].begin].push_back(t);
  for (const auto& [place, tiles] : places) {
    for (;;) {
      int64_t bytes = 0;
      uint32_t largest = kNone;
      for (uint32_t t : tiles) {
        if (own_.spilled[t]) continue;
        bytes += shapes_[t].bytes();
        if (largest == kNone || shapes_[t].bytes() > shapes_[largest].bytes()) largest = t;
      }
      if (bytes <= target_.sramBytes) break;
      const uint32_t unit = dynamic_.tiles[largest].unit;
      if (!refine(largest)) own_.spilled[largest] = true;
      for (uint32_t t = 0; t < dynamic_.tiles.size(); ++t)
        if (dynamic_.tiles[t].unit == unit) HPU_RETURN_IF_ERROR(shapeTile(t));
    }
  }
  return okStatus();
}

/// As the phase memory does (compiler/memory/Rings.cpp): tiles stay while their neighbours' are filled; where that is
/// beyond the SRAM the largest give way first, which costs the overlap of the two bundles.
void InstanceMemory::placeTiles() {
  std::vector<Buffer> buffers;
  std::vector<uint32_t> which;
  own_.tiles.assign(dynamic_.tiles.size(), {});
  for (uint32_t t = 0; t < dynamic_.tiles.size(); ++t) {
    const TileStorage& tile = dynamic_.tiles[t];
    if (!shapes_[t].used || own_.spilled[t]) continue;
    buffers.push_back({shapes_[t].bytes(), tile.begin, tile.end});
    which.push_back(t);
  }
  Placement placement = placeBuffers(buffers, kAlign, true, target_.sramBytes, /*search=*/false);
  for (int given = 0; placement.bytes > target_.sramBytes; ++given) {
    size_t largest = buffers.size();
    for (size_t i = 0; i < buffers.size(); ++i) {
      if (buffers[i].begin == buffers[i].end) continue;
      if (largest == buffers.size() || buffers[i].bytes > buffers[largest].bytes) largest = i;
      if (given == kMostGiveWay) buffers[i].end = buffers[i].begin;
    }
    if (largest == buffers.size()) break;
    buffers[largest].end = buffers[largest].begin;
    placement = placeBuffers(buffers, kAlign, true, target_.sramBytes, /*search=*/false);
  }
  for (size_t i = 0; i < which.size(); ++i) own_.tiles[which[i]] = {placement.offsets[i], buffers[i].bytes};
  own_.sramBytes = placement.bytes;
}

// ---- Workspace ---------------------------------------------------------------------------------------

Status InstanceMemory::sizeStorages() {
  std::vector<bool> used(dynamic_.storages.size());
  for (const recipe::StoragePlacement& placement : dynamic_.placements)
    if (hasPoints_[placement.op]) used[placement.storage] = true;
  for (size_t s = 0; s < used.size(); ++s) {
    storageBytes_[s] = 0;
    if (!used[s]) continue;
    HPU_ASSIGN(storageBytes_[s], values_.at(dynamic_.storages[s].bytes));
    if (storageBytes_[s] < 0 || storageBytes_[s] > kMostBytes)
      return outOfRange(strCat("storage ", s, " has ", storageBytes_[s], " bytes"));
  }
  return okStatus();
}

void InstanceMemory::placeWorkspace() {
  std::vector<Buffer> buffers;
  std::vector<MemoryPlan::Place*> which;
  own_.storages.assign(dynamic_.storages.size(), {});
  for (size_t s = 0; s < dynamic_.storages.size(); ++s) {
    const Storage& storage = dynamic_.storages[s];
    if (storage.section != kNone || storageBytes_[s] == 0) continue;
    buffers.push_back({storageBytes_[s], storage.begin, storage.end});
    which.push_back(&own_.storages[s]);
  }
  for (size_t t = 0; t < dynamic_.tiles.size(); ++t) {
    if (!own_.spilled[t] || !shapes_[t].used) continue;
    Buffer buffer{shapes_[t].bytes(), INT64_MAX, 0};
    for (const TileStorage::User& user : dynamic_.tiles[t].users) {
      buffer.begin = std::min<int64_t>(buffer.begin, unitOf_[user.op]);
      buffer.end = std::max<int64_t>(buffer.end, unitOf_[user.op]);
    }
    buffers.push_back(buffer);
    which.push_back(&own_.tiles[t]);
  }
  const Placement placement = placeBuffers(buffers, kAlign, true, 0, /*search=*/false);
  for (size_t i = 0; i < which.size(); ++i) *which[i] = {placement.offsets[i], buffers[i].bytes};
  own_.workspaceBytes = placement.bytes;
  own_.largestLiveSet = placement.largestLiveSet;
}

// ---- The whole ---------------------------------------------------------------------------------------

Status InstanceMemory::cut(const Cuts& cuts) {
  own_ = {};
  plan_ = &own_;
  own_.cuts = cuts;
  own_.spilled.resize(dynamic_.tiles.size());
  HPU_RETURN_IF_ERROR(shapeAll());
  return fitTiles();
}

Status InstanceMemory::plan(const Cuts& cuts) {
  HPU_RETURN_IF_ERROR(cut(cuts));
  placeTiles();
  if (workspace_ == kNone && std::find(own_.spilled.begin(), own_.spilled.end(), true) != own_.spilled.end())
    return resourceExhausted(strCat("the tiles of a unit are beyond the SRAM of ", target_.sramBytes,
                                    " bytes, and the recipe has no workspace"));
  placeWorkspace();
  own_.slices = slices_;
  own_.hasPoints = hasPoints_;
  return okStatus();
}

StatusOr<bool> InstanceMemory::reuse(const MemoryPlan& plan) {
  plan_ = &plan;
  HPU_RETURN_IF_ERROR(shapeAll());
  if (slices_ != plan.slices || hasPoints_ != plan.hasPoints) return false;
  for (size_t s = 0; s < storageBytes_.size(); ++s)
    if (dynamic_.storages[s].section == kNone && storageBytes_[s] > plan.storages[s].bytes) return false;
  for (size_t t = 0; t < shapes_.size(); ++t)
    if (shapes_[t].bytes() > plan.tiles[t].bytes) return false;
  return true;
}

std::vector<int64_t> InstanceMemory::sliceDims() const {
  std::vector<int64_t> counts;
  for (uint32_t u = 0; u < boxes_.size(); ++u)
    for (uint32_t p = 0; p < boxes_[u].size(); ++p) {
      if (!partHasPoints(u, p)) continue;
      const std::vector<int64_t>& space = spaceOf(u, p);
      for (size_t d = 0; d < space.size(); ++d) counts.push_back(ceilDiv(space[d], boxes_[u][p][d]));
    }
  return counts;
}

std::vector<OperandRegion> InstanceMemory::regions() const {
  std::vector<OperandRegion> regions;
  auto add = [&](uint32_t op, uint32_t operand, const MemoryPlan::Place& place) {
    regions.push_back({op, operand, static_cast<uint64_t>(place.offset),
                       static_cast<uint64_t>(place.offset) + static_cast<uint64_t>(place.bytes)});
  };
  for (const recipe::StoragePlacement& placement : dynamic_.placements)
    if (hasPoints_[placement.op] && dynamic_.storages[placement.storage].section == kNone)
      add(placement.op, placement.operand, plan_->storages[placement.storage]);
  for (uint32_t t = 0; t < dynamic_.tiles.size(); ++t)
    for (const TileStorage::User& user : dynamic_.tiles[t].users)
      if (hasPoints_[user.op] && shapes_[t].used) {
        add(user.op, user.operand, plan_->tiles[t]);
        const recipe::Ring& ring = recipe::operandAt(*ops_.find(user.op), user.operand)->ring;
        if (ring.slots == 0) continue;
        regions.back().ring = t;
        regions.back().slots = ring.slots;
      }
  return regions;
}

Status InstanceMemory::apply(recipe::Program& program, ChangedOps& changed) const {
  for (const recipe::StoragePlacement& placement : dynamic_.placements) {
    if (!hasPoints_[placement.op]) continue;
    const Storage& storage = dynamic_.storages[placement.storage];
    Operand& operand = *recipe::operandAt(*ops_.find(placement.op), placement.operand);
    HPU_ASSIGN(int64_t offset, values_.at(placement.offset));
    const uint64_t bytes = recipe::operandSpanBytes(operand);
    const auto most = static_cast<uint64_t>(storageBytes_[placement.storage]);
    if (offset < 0 || (bytes > 0 && (bytes > most || static_cast<uint64_t>(offset) > most - bytes)))
      return dataLoss(strCat("operand ", placement.operand, " of op ", placement.op, " '",
                             ops_.find(placement.op)->name, "' with ", bytes, " bytes at byte ", offset,
                             " leaves storage ", placement.storage, ", which has ", most));
    const int64_t start = storage.section == kNone ? plan_->storages[placement.storage].offset : 0;
    changed.set(ops_.number(placement.op), operand.offset, bytes > 0 ? static_cast<uint64_t>(start + offset) : 0);
  }
  for (size_t t = 0; t < dynamic_.tiles.size(); ++t) {
    const TileStorage& tile = dynamic_.tiles[t];
    const TileShape& shape = shapes_[t];
    for (const TileStorage::User& user : tile.users) {
      if (!ops_.find(user.op)) continue;
      const uint32_t op = ops_.number(user.op);
      Operand& operand = *recipe::operandAt(*ops_.find(user.op), user.operand);
      recipe::Ring ring;
      const std::string& name = ops_.find(user.op)->name;
      changed.set(op, operand.section, plan_->spilled[t] ? workspace_ : sram_);
      uint64_t start = shape.used ? static_cast<uint64_t>(plan_->tiles[t].offset) : 0;
      if (user.offset != TileStorage::User::kNoOffset && shape.used) {
        HPU_ASSIGN(const int64_t offset, values_.at(user.offset));
        const int64_t most = shape.ring ? shape.slotBytes : shape.bytes();
        if (offset < 0 || offset > most)
          return dataLoss(strCat("operand ", user.operand, " of op ", user.op, " '", name, "' begins at byte ", offset,
                                 " of tile storage ", t, ", which has ", most));
        start += static_cast<uint64_t>(offset);
      }
      changed.set(op, operand.offset, start);
      for (uint32_t d = 0; d < user.dims.size(); ++d) {
        int64_t stride = 0;
        if (user.strides.empty()) {
          if (user.dims[d] != kNone) stride = shape.strides[user.dims[d]];
        } else {
          HPU_ASSIGN(stride, values_.at(user.strides[d]));
          if (stride < 0) return outOfRange(strCat("a stride of op '", name, "' is ", stride));
        }
        changed.set(op, operand.strides[d], stride);
        if (shape.ring && user.dims[d] == tile.dim) ring = {shape.slots, d, static_cast<uint64_t>(shape.slotBytes)};
      }
      changed.set(op, operand.ring, ring);
      // Rings are checked slot by slot, with the commands.
      const uint64_t bytes = recipe::operandSpanBytes(operand), most = static_cast<uint64_t>(shape.bytes());
      const uint64_t first = static_cast<uint64_t>(plan_->tiles[t].offset);
      if (user.offset != TileStorage::User::kNoOffset && hasPoints_[user.op] && !shape.ring && bytes > 0 &&
          (bytes > most || operand.offset - first > most - bytes))
        return dataLoss(strCat("operand ", user.operand, " of op ", user.op, " '", name, "' with ", bytes,
                               " bytes leaves tile storage ", t, ", which has ", most));
    }
  }
  if (workspace_ != kNone) program.sections[workspace_].bytes = static_cast<uint64_t>(plan_->workspaceBytes);
  if (sram_ != kNone) program.sections[sram_].bytes = static_cast<uint64_t>(plan_->sramBytes);
  return okStatus();
}

}  // namespace hpu::plan
