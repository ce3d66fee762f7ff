// SPDX-License-Identifier: Apache-2.0
// In this order: sizes are set, units cut and memory placed (InstanceMemory), what has no points is left out, the whole
// is verified, commands are sliced and issued, and these are verified, too. So whatever a recipe says, an instance is
// safe to run.
#include "plan/Instantiate.h"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "plan/InstanceMemory.h"
#include "plan/Issue.h"
#include "plan/SharedWaits.h"
#include "plan/Slices.h"
#include "recipe/MmePacking.h"
#include "recipe/VerifierParts.h"

namespace hpu::plan {

using base::strCat;
using recipe::Dynamic;
using recipe::DynamicKernel;
using recipe::DynamicUnit;
using recipe::kNone;
using recipe::Patch;
using recipe::Program;
using recipe::SizeValues;

/// Unit and part of Dynamic::units.
using PartRefs = std::vector<std::pair<uint32_t, uint32_t>>;

struct InstancePlan {
  size_t choice = 0;
  MemoryPlan memory;
  std::vector<uint32_t> order;  ///< Of commands, as Issued has it.
  recipe::Estimates estimates;

  // What instances take as it is. Null: their commands are made anew.
  std::shared_ptr<const SharedWaits> waits;
  std::shared_ptr<const Program> prototype;   ///< The instance of these sizes.
  std::vector<uint32_t> now;                  ///< By op of the source its number; kNone: it has no points.
  std::vector<std::vector<int64_t>> dropped;  ///< Spaces of those, by op.
  std::vector<IssueUnit> units;
  std::vector<PartRefs> unitParts;  ///< By unit of `units`.
  std::vector<int64_t> sliceDims;

  /// Copies of the prototype that were instances of other sizes and are not in use any more: to set their numbers is a
  /// fraction of what a copy takes.
  static constexpr size_t kMostSpare = 4;
  mutable std::mutex mutex;
  mutable std::vector<std::unique_ptr<Program>> spare;  // Guarded by mutex.
};

namespace {

constexpr double kPicosecondsPerUs = 1e6;

Status checkSizes(const Program& program, const Sizes& sizes) {
  if (program.dynamic) return recipe::checkBounds(*program.dynamic, sizes);
  if (sizes.empty()) return okStatus();
  return invalidArgument(strCat(sizes.size(), " sizes are given for a program without free dimensions"));
}

/// What a patch of a size may say.
StatusOr<int64_t> sizeAt(const SizeValues& values, uint32_t expr) {
  HPU_ASSIGN(int64_t size, values.at(expr));
  if (size >= 0 && size <= recipe::kMaxPoints) return size;
  return outOfRange(strCat("a size is ", size, ", which is negative or beyond 2^48"));
}

size_t choiceFor(const Dynamic& dynamic, const Sizes& sizes) {
  for (size_t c = 0; c + 1 < dynamic.choices.size(); ++c) {
    const recipe::TileChoice& choice = dynamic.choices[c];
    bool holds = true;
    for (size_t s = 0; s < sizes.size(); ++s) holds &= choice.min[s] <= sizes[s] && sizes[s] <= choice.max[s];
    if (holds) return c;
  }
  return dynamic.choices.size() - 1;
}

Status patchTensors(std::vector<TensorInfo>& tensors, Patch::Field field, const Dynamic& dynamic,
                    const SizeValues& values) {
  for (const Patch& patch : dynamic.patches)
    if (patch.field == field) {
      HPU_ASSIGN(tensors[patch.index].type.shape[patch.dim], sizeAt(values, patch.expr));
    }
  return okStatus();
}

recipe::KernelReads readsOf(const Dynamic& dynamic, const SizeValues& values, const Program& instance) {
  // What a kernel reads is computed for every point of its space, where it must not overflow.
  constexpr int64_t kMost = int64_t{1} << 60;
  std::vector<std::array<int64_t, recipe::kMaxRank>> spaces(dynamic.kernels.size());
  for (const recipe::Op& op : instance.ops)
    for (size_t d = 0; op.engine == Engine::kTpc && d < op.space.size(); ++d)
      spaces[op.tpc.kernel][d] = std::max(spaces[op.tpc.kernel][d], op.space[d]);
  auto inRange = [&](int64_t value) { return value >= -kMost && value <= kMost; };
  recipe::KernelReads reads(dynamic.kernels.size());
  for (size_t k = 0; k < reads.size(); ++k)
    for (const auto& from : dynamic.kernels[k].reads) {
      recipe::InputReads::value_type& input = reads[k].emplace_back();
      for (const DynamicKernel::Read& read : from) {
        recipe::DimRead& made = input.emplace_back();
        if (read.dim < 0) continue;
        const auto scale = values.find(read.scale), low = values.find(read.low), high = values.find(read.high);
        if (!scale || !low || !high || *scale < 0 || !inRange(*low) || !inRange(*high)) continue;
        const int64_t size = spaces[k][static_cast<size_t>(read.dim)];
        if (size > 0 && *scale <= kMost / size) made = {read.dim, *scale, *low, *high};
      }
    }
  return reads;
}

/// Makes one instance.
class Maker {
 public:
  Maker(const Program& source, const Sizes& sizes, const arch::TargetDesc& target,
        std::shared_ptr<Program> program = std::make_shared<Program>())
      : source_(source),
        dynamic_(*source.dynamic),
        sizes_(sizes),
        target_(target),
        values_(dynamic_, sizes),
        program_(std::move(program)),
        ops_(*program_) {}

  /// All with a plan of its own.
  StatusOr<std::shared_ptr<Program>> make(InstancePlan* made) {
    HPU_RETURN_IF_ERROR(copy());
    InstanceMemory memory(*program_, ops_, dynamic_, values_, target_);
    const size_t choice = choiceFor(dynamic_, sizes_);
    HPU_RETURN_IF_ERROR(memory.plan(dynamic_.choices[choice]));
    HPU_RETURN_IF_ERROR(lay(memory));
    const std::vector<OperandRegion> regions = made ? memory.regions() : std::vector<OperandRegion>();
    dropEmpty(memory);
    HPU_RETURN_IF_ERROR(verifyLaid());
    HPU_RETURN_IF_ERROR(checkUnits(memory));
    const IssueContext context{*program_, reads_, target_, target_.clock()};
    std::vector<std::vector<SlicedCommand>> sliced;
    sliced.reserve(units_.size());
    for (const IssueUnit& unit : units_) sliced.push_back(sliceUnit(context, unit));
    std::vector<const std::vector<SlicedCommand>*> pointers;
    for (const auto& commands : sliced) pointers.push_back(&commands);
    HPU_ASSIGN(Issued issued, issueCommands(context, pointers, dynamic_.reorder));
    program_->queues = std::move(issued.queues);
    program_->estimates.deviceTimeUs = static_cast<double>(issued.time) / kPicosecondsPerUs;
    program_->estimates.lowerBoundUs = static_cast<double>(issued.lowerBound) / kPicosecondsPerUs;
    HPU_RETURN_IF_ERROR(recipe::verifyCommands(*program_));
    if (made) keepPlan(memory, choice, std::move(issued.order), regions, *made);
    return program_;
  }

  /// Makes the program of a copy of the plan's prototype: with the plan of larger sizes and its commands as they are.
  /// False when these do not serve. All numbers are set, so it does not matter which sizes the copy had.
  StatusOr<bool> makeLike(const InstancePlan& plan) {
    ops_ = InstanceOps(*program_, plan.now, plan.dropped);
    HPU_RETURN_IF_ERROR(setSizes());
    InstanceMemory memory(*program_, ops_, dynamic_, values_, target_);
    HPU_ASSIGN(bool serves, memory.reuse(plan.memory));
    if (!serves || memory.sliceDims() != plan.sliceDims) return false;
    HPU_RETURN_IF_ERROR(lay(memory));
    HPU_RETURN_IF_ERROR(verifyLaid());
    std::vector<Tiles> tiles(plan.units.size());
    for (size_t u = 0; u < tiles.size(); ++u)
      for (const auto& [unit, part] : plan.unitParts[u]) tiles[u].push_back(&memory.box(unit, part));
    if (!plan.waits->setBoxes(*program_, plan.units, tiles)) return false;
    HPU_RETURN_IF_ERROR(recipe::verifyBoxes(*program_));
    return plan.waits->holds(*program_, [&] { return readsOf(dynamic_, values_, *program_); });
  }

  /// With the plan of larger sizes; null when it does not serve these.
  StatusOr<std::shared_ptr<Program>> makeFrom(const InstancePlan& plan) {
    std::shared_ptr<Program> none;
    if (choiceFor(dynamic_, sizes_) != plan.choice) return none;
    HPU_RETURN_IF_ERROR(copy());
    InstanceMemory memory(*program_, ops_, dynamic_, values_, target_);
    HPU_ASSIGN(bool serves, memory.reuse(plan.memory));
    if (!serves) return none;
    HPU_RETURN_IF_ERROR(lay(memory));
    dropEmpty(memory);
    HPU_RETURN_IF_ERROR(verifyLaid());
    HPU_RETURN_IF_ERROR(checkUnits(memory));
    HPU_ASSIGN(auto queues, issueInOrder(*program_, reads_, units_, plan.order));
    if (!queues) return none;
    program_->queues = std::move(*queues);
    program_->estimates = plan.estimates;
    HPU_RETURN_IF_ERROR(recipe::verifyCommands(*program_));
    return program_;
  }

  StatusOr<uint64_t> workspace() {
    HPU_RETURN_IF_ERROR(copy());
    InstanceMemory memory(*program_, ops_, dynamic_, values_, target_);
    HPU_RETURN_IF_ERROR(memory.plan(dynamic_.choices[choiceFor(dynamic_, sizes_)]));
    return static_cast<uint64_t>(memory.decided().workspaceBytes);
  }

 private:
  // ---- Sizes -----------------------------------------------------------------------------------------

  Status copy() {
    Program& p = *program_;
    p.name = source_.name;
    p.producer = source_.producer;
    p.target = source_.target;
    p.inputs = source_.inputs;
    p.outputs = source_.outputs;
    p.sections = source_.sections;
    p.constants = source_.constants;
    p.kernels = source_.kernels;
    p.images = source_.images;
    p.ops = source_.ops;
    p.sourceNodes = source_.sourceNodes;
    p.numSignals = static_cast<uint32_t>(kNumEngines - 1);
    return setSizes();
  }

  Status setSizes() {
    Program& p = *program_;
    HPU_RETURN_IF_ERROR(patchTensors(p.inputs, Patch::Field::kInputSize, dynamic_, values_));
    HPU_RETURN_IF_ERROR(patchTensors(p.outputs, Patch::Field::kOutputSize, dynamic_, values_));
    for (const Patch& patch : dynamic_.patches) HPU_RETURN_IF_ERROR(patchOp(patch));
    return checkSpaces();
  }

  Status patchOp(const Patch& patch) {
    using Field = Patch::Field;
    if (patch.field == Field::kInputSize || patch.field == Field::kOutputSize) return okStatus();
    if (patch.field == Field::kSpace) {
      HPU_ASSIGN(ops_.space(patch.index)[patch.dim], sizeAt(values_, patch.expr));
      return okStatus();
    }
    if (!ops_.find(patch.index)) return okStatus();
    recipe::Op& op = *ops_.find(patch.index);
    recipe::Operand& operand = *recipe::operandAt(op, patch.operand);
    if (patch.field == Field::kOperandSize) {
      HPU_ASSIGN(operand.sizes[patch.dim], sizeAt(values_, patch.expr));
      return okStatus();
    }
    HPU_ASSIGN(int64_t value, values_.at(patch.expr));
    if (value < 0) return outOfRange(strCat("a stride or offset of op '", op.name, "' is ", value));
    if (patch.field == Field::kOperandStride)
      operand.strides[patch.dim] = value;
    else
      operand.offset = static_cast<uint64_t>(value);
    return okStatus();
  }

  /// Ops of a part have one index space at these sizes, too.
  Status checkSpaces() const {
    for (const DynamicUnit& unit : dynamic_.units)
      for (const DynamicUnit::Part& part : unit.parts)
        for (uint32_t op : part.ops)
          if (ops_.space(op) != ops_.space(part.ops[0]))
            return dataLoss(strCat(recipe::opText(source_, part.ops[0]), " and ", recipe::opText(source_, op),
                                   " of one unit have the index spaces ", shapeToString(ops_.space(part.ops[0])),
                                   " and ", shapeToString(ops_.space(op))));
    return okStatus();
  }

  // ---- Memory, kernels, ops --------------------------------------------------------------------------

  Status lay(const InstanceMemory& memory) {
    Program& p = *program_;
    HPU_RETURN_IF_ERROR(memory.apply(p));
    for (recipe::Section& section : p.sections) {
      const bool input = section.kind == recipe::SectionKind::kInput;
      if (!input && section.kind != recipe::SectionKind::kOutput) continue;
      const TensorInfo& tensor = (input ? p.inputs : p.outputs)[section.binding];
      std::vector<int64_t> sizes = tensor.type.shape;
      std::replace(sizes.begin(), sizes.end(), int64_t{0}, int64_t{1});
      if (recipe::boundedProduct(sizes, recipe::kMaxPoints) < 0)
        return outOfRange(strCat("tensor '", tensor.name, "' has the shape ", shapeToString(tensor.type.shape),
                                 " of more than 2^48 elements"));
      section.bytes = static_cast<uint64_t>(tensor.type.bytes());
    }
    HPU_RETURN_IF_ERROR(setKernels(memory));
    setPackings(memory);
    p.estimates.largestLiveSetBytes = static_cast<uint64_t>(memory.decided().largestLiveSet);
    p.estimates.sramPeakBytes = static_cast<uint64_t>(memory.decided().sramBytes);
    return okStatus();
  }

  /// All but the commands.
  Status verifyLaid() const {
    HPU_RETURN_IF_ERROR(recipe::verifyMemory(*program_));
    HPU_RETURN_IF_ERROR(recipe::verifyKernels(*program_));
    return recipe::verifyOps(*program_);
  }

  Status setKernels(const InstanceMemory& memory) {
    std::vector<double> points(program_->kernels.size(), 0);
    for (uint32_t i = 0; i < ops_.size(); ++i) {
      if (!memory.hasPoints(i)) continue;
      const recipe::Op& op = *ops_.find(i);
      if (op.engine != Engine::kTpc) continue;
      double& count = points[op.tpc.kernel];
      count = 1;
      for (int64_t size : op.space) count *= static_cast<double>(size);
    }
    for (size_t k = 0; k < points.size(); ++k) {
      recipe::Kernel& kernel = program_->kernels[k];
      const DynamicKernel& sizes = dynamic_.kernels[k];
      kernel.dims.clear();
      kernel.cost = {};
      if (points[k] == 0) continue;  // Never called: what it would need may have no value.
      for (uint32_t expr : sizes.dims) {
        HPU_ASSIGN(kernel.dims.emplace_back(), values_.at(expr));
      }
      HPU_ASSIGN(int64_t scratch, values_.at(sizes.scratchBytes));
      kernel.scratchBytes = static_cast<uint64_t>(scratch);  // The verifier refuses negative ones as too large.
      for (const DynamicKernel::CostTerm& term : sizes.cost) {
        double trips = 1 / points[k];
        for (uint32_t expr : term.trips) {
          HPU_ASSIGN(int64_t count, values_.at(expr));
          trips *= static_cast<double>(std::max<int64_t>(count, 0));
        }
        kernel.cost.loads += term.loads * trips;
        kernel.cost.stores += term.stores * trips;
        kernel.cost.vectorOps += term.vectorOps * trips;
        kernel.cost.scalarOps += term.scalarOps * trips;
      }
    }
    return okStatus();
  }

  /// Products that cannot be packed at these sizes are not: that only costs time.
  void setPackings(const InstanceMemory& memory) {
    for (uint32_t u = 0; u < dynamic_.units.size(); ++u)
      for (uint32_t p = 0; p < dynamic_.units[u].parts.size(); ++p)
        for (uint32_t index : dynamic_.units[u].parts[p].ops) {
          if (!memory.hasPoints(index) || source_.ops[index].mme.packingFactor == 1) continue;
          recipe::Op& op = *ops_.find(index);
          if (op.engine != Engine::kMme) continue;
          op.mme.packingFactor = source_.ops[index].mme.packingFactor;
          const std::vector<int64_t>& box = memory.box(u, p);
          // Slices of a transposed convolution begin where its period does.
          const bool apart = op.mme.kind == recipe::MmeKind::kConvTranspose2d && box[3] < op.space[3] &&
                             box[3] % op.mme.strides[1] != 0;
          if (apart || !recipe::packingObstacle(op.mme, op.mme.packingFactor).empty()) op.mme.packingFactor = 1;
        }
  }

  /// Leaves out ops without points, and makes bundles, host order and units of those that stay.
  void dropEmpty(const InstanceMemory& memory) {
    Program& p = *program_;
    std::vector<uint32_t>& now = now_;
    now.assign(p.ops.size(), kNone);
    dropped_.resize(p.ops.size());
    uint32_t kept = 0;
    for (uint32_t op = 0; op < p.ops.size(); ++op) {
      if (!memory.hasPoints(op)) {
        dropped_[op] = p.ops[op].space;
        continue;
      }
      now[op] = kept;
      if (kept != op) p.ops[kept] = std::move(p.ops[op]);
      ++kept;
    }
    p.ops.resize(kept);
    ops_ = InstanceOps(p, now, dropped_);
    for (uint32_t u = 0; u < dynamic_.units.size(); ++u) {
      const DynamicUnit& unit = dynamic_.units[u];
      std::vector<IssueUnit> parts;
      PartRefs refs;
      std::vector<uint32_t> ops;
      for (uint32_t part = 0; part < unit.parts.size(); ++part) {
        const DynamicUnit::Part& from = unit.parts[part];
        if (now[from.ops[0]] == kNone) {  // Its ops have one index space.
          if (!parts.empty()) parts.back().kept = 0;
          continue;
        }
        IssueUnit& made = parts.emplace_back();
        refs.emplace_back(u, part);
        for (uint32_t op : from.ops) made.ops.push_back(now[op]);
        made.tile = memory.box(u, part);
        made.slots = from.slots;
        made.kept = from.kept;
        made.reader = from.reader;
        ops.insert(ops.end(), made.ops.begin(), made.ops.end());
      }
      if (parts.empty()) continue;
      parts.back().kept = 0;
      p.hostOrder.insert(p.hostOrder.end(), ops.begin(), ops.end());
      IssueUnit whole = std::move(parts[0]);
      whole.chained.assign(std::make_move_iterator(parts.begin() + 1), std::make_move_iterator(parts.end()));
      if (unit.bundle != kNone) {
        whole.bundle = static_cast<uint32_t>(p.bundles.size());
        p.bundles.push_back(
            {source_.bundles[unit.bundle].name, std::move(ops), static_cast<uint32_t>(memory.slices(u))});
      }
      units_.push_back(std::move(whole));
      unitParts_.push_back(std::move(refs));
    }
  }

  // ---- Commands --------------------------------------------------------------------------------------

  /// What can be issued: not too many commands, parts of a unit in as many slices as one another.
  Status checkUnits(const InstanceMemory& memory) {
    int64_t commands = 0;
    for (uint32_t u = 0; u < dynamic_.units.size(); ++u) {
      int64_t ops = 0;
      for (const DynamicUnit::Part& part : dynamic_.units[u].parts) ops += static_cast<int64_t>(part.ops.size());
      commands += memory.slices(u) * ops;
    }
    if (commands > recipe::kMaxInstanceCommands)
      return resourceExhausted(
          strCat("the program would have ", commands, " commands, more than ", recipe::kMaxInstanceCommands));
    for (const IssueUnit& unit : units_) HPU_RETURN_IF_ERROR(checkParts(unit));
    reads_ = readsOf(dynamic_, values_, *program_);
    return okStatus();
  }

  Status checkParts(const IssueUnit& unit) const {
    const int64_t slices = sliceCount(program_->ops[unit.ops[0]].space, unit.tile);
    for (const IssueUnit& part : unit.chained) {
      const recipe::Op& first = program_->ops[part.ops[0]];
      const int64_t own = sliceCount(first.space, part.tile);
      if (own != slices) return dataLoss(strCat("op '", first.name, "' has ", own, " slices, but its unit ", slices));
    }
    return okStatus();
  }

  void keepPlan(const InstanceMemory& memory, size_t choice, std::vector<uint32_t> order,
                const std::vector<OperandRegion>& regions, InstancePlan& made) const {
    made.choice = choice;
    made.memory = memory.decided();
    made.estimates = program_->estimates;
    std::vector<OperandRegion> own;
    for (const OperandRegion& region : regions)
      if (now_[region.op] != kNone) {
        own.push_back(region);
        own.back().op = now_[region.op];
      }
    made.waits = SharedWaits::make(*program_, reads_, units_, order, std::move(own));
    made.order = std::move(order);
    if (!made.waits) return;
    made.prototype = program_;
    made.now = now_;
    made.dropped = dropped_;
    made.units = units_;
    made.unitParts = unitParts_;
    made.sliceDims = memory.sliceDims();
  }

  const Program& source_;
  const Dynamic& dynamic_;
  const Sizes& sizes_;
  const arch::TargetDesc& target_;
  const SizeValues values_;
  std::shared_ptr<Program> program_;
  InstanceOps ops_;
  std::vector<uint32_t> now_;                  ///< By op of the source its number; kNone: it was left out ...
  std::vector<std::vector<int64_t>> dropped_;  ///< ... with this space.
  std::vector<IssueUnit> units_;
  std::vector<PartRefs> unitParts_;  ///< By unit.
  recipe::KernelReads reads_;
};

/// "making the program for seq = 5".
std::string making(const Program& program, const Sizes& sizes) {
  return "making the program for " + recipe::sizesText(*program.dynamic, sizes);
}

}  // namespace

StatusOr<std::vector<TensorInfo>> outputsFor(const Program& program, const Sizes& sizes) {
  HPU_RETURN_IF_ERROR(checkSizes(program, sizes));
  std::vector<TensorInfo> outputs = program.outputs;
  if (!program.dynamic) return outputs;
  const SizeValues values(*program.dynamic, sizes);
  HPU_RETURN_IF_ERROR(patchTensors(outputs, Patch::Field::kOutputSize, *program.dynamic, values));
  return outputs;
}

StatusOr<uint64_t> workspaceBytes(const Program& program, const Sizes& sizes, const arch::TargetDesc& target) {
  HPU_RETURN_IF_ERROR(checkSizes(program, sizes));
  if (program.dynamic) return Maker(program, sizes, target).workspace();
  uint64_t bytes = 0;
  for (const recipe::Section& section : program.sections)
    if (section.kind == recipe::SectionKind::kWorkspace) bytes += section.bytes;
  return bytes;
}

StatusOr<std::shared_ptr<Program>> instantiate(const Program& program, const Sizes& sizes,
                                               const arch::TargetDesc& target) {
  HPU_RETURN_IF_ERROR(checkSizes(program, sizes));
  if (!program.dynamic) return std::make_shared<Program>(program);
  auto made = Maker(program, sizes, target).make(nullptr);
  if (!made.ok()) return made.status().withContext(making(program, sizes));
  return made;
}

recipe::KernelReads kernelReads(const Program& program, const Sizes& sizes, const Program& instance) {
  return readsOf(*program.dynamic, SizeValues(*program.dynamic, sizes), instance);
}

// ---- Instances of similar sizes -----------------------------------------------------------------------

int64_t bucketEnd(int64_t size) {
  constexpr int64_t kSteps = 4;
  if (size <= 2 * kSteps) return size;
  const auto octave = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(size - 1)));
  const int64_t step = octave / kSteps;
  return (size + step - 1) / step * step;
}

Instances::Instances(std::shared_ptr<const Program> program, const arch::TargetDesc& target)
    : program_(std::move(program)), target_(target) {}
Instances::~Instances() = default;

Instances::Stats Instances::stats() const {
  std::lock_guard lock(mutex_);
  return stats_;
}

std::shared_ptr<const InstancePlan> Instances::find(const Sizes& key) {
  std::lock_guard lock(mutex_);
  for (auto it = plans_.begin(); it != plans_.end(); ++it) {
    if (it->first != key) continue;
    plans_.splice(plans_.begin(), plans_, it);
    return it->second;
  }
  return nullptr;
}

void Instances::keep(const Sizes& key, std::shared_ptr<const InstancePlan> plan) {
  std::lock_guard lock(mutex_);
  plans_.remove_if([&](const auto& known) { return known.first == key; });
  plans_.emplace_front(key, std::move(plan));
  if (plans_.size() > kMostPlans) plans_.pop_back();
}

/// Null when the commands of the plan's own instance do not serve these sizes, whatever the reason: what is wrong with
/// them is found by who makes the commands anew.
std::shared_ptr<const Program> Instances::instanceLike(const std::shared_ptr<const InstancePlan>& plan,
                                                       const Sizes& sizes) const {
  if (!plan->waits || choiceFor(*program_->dynamic, sizes) != plan->choice) return nullptr;
  std::unique_ptr<Program> spare;
  {
    std::lock_guard lock(plan->mutex);
    if (!plan->spare.empty()) {
      spare = std::move(plan->spare.back());
      plan->spare.pop_back();
    }
  }
  if (!spare) spare = std::make_unique<Program>(*plan->prototype);
  std::shared_ptr<Program> program(spare.release(), [from = std::weak_ptr(plan)](Program* unused) {
    std::unique_ptr<Program> owned(unused);
    const auto known = from.lock();
    if (!known) return;
    std::lock_guard lock(known->mutex);
    if (known->spare.size() < InstancePlan::kMostSpare) known->spare.push_back(std::move(owned));
  });
  auto made = Maker(*program_, sizes, target_, program).makeLike(*plan);
  return made.ok() && *made ? std::move(program) : nullptr;
}

StatusOr<std::shared_ptr<const Program>> Instances::get(const Sizes& sizes) {
  HPU_RETURN_IF_ERROR(checkSizes(*program_, sizes));
  if (!program_->dynamic) return program_;
  const Dynamic& dynamic = *program_->dynamic;
  Sizes end;
  for (size_t s = 0; s < sizes.size(); ++s) end.push_back(std::min(bucketEnd(sizes[s]), dynamic.symbols[s].max));
  // Sizes that the plan of their bucket does not serve have one of their own: a bucket may hold sizes of several
  // choices of tiles, of other numbers of slices, and its end is no sizes where guards do not hold.
  for (const Sizes* key : {&sizes, static_cast<const Sizes*>(&end)}) {
    std::shared_ptr<const InstancePlan> plan = find(*key);
    if (!plan && key == &end && end != sizes) {
      auto made = std::make_shared<InstancePlan>();
      if (!Maker(*program_, end, target_).make(made.get()).ok()) continue;
      keep(end, made);
      plan = made;
    }
    if (!plan) continue;
    if (auto like = instanceLike(plan, sizes)) {
      std::lock_guard lock(mutex_);
      ++stats_.reused;
      ++stats_.alike;
      return like;
    }
    auto made = Maker(*program_, sizes, target_).makeFrom(*plan);
    if (!made.ok()) return made.status().withContext(making(*program_, sizes));
    if (!*made) continue;
    std::lock_guard lock(mutex_);
    ++stats_.reused;
    return std::shared_ptr<const Program>(std::move(*made));
  }
  auto own = std::make_shared<InstancePlan>();
  auto made = Maker(*program_, sizes, target_).make(own.get());
  if (!made.ok()) return made.status().withContext(making(*program_, sizes));
  keep(sizes, own);
  std::lock_guard lock(mutex_);
  ++stats_.planned;
  return std::shared_ptr<const Program>(std::move(*made));
}

}  // namespace hpu::plan
