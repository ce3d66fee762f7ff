// SPDX-License-Identifier: Apache-2.0
// In this order: sizes are set, units cut and memory placed (InstanceMemory), what has no points is left out, the whole
// is verified, commands are sliced and issued, and these are verified, too. So whatever a recipe says, an instance is
// safe to run.
#include "plan/Instantiate.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <optional>
#include <utility>

#include "base/Format.h"
#include "base/Parallel.h"
#include "base/StatusMacros.h"
#include "plan/InstanceMemory.h"
#include "plan/InstancePlan.h"
#include "plan/Issue.h"
#include "plan/Packing.h"
#include "plan/SharedWaits.h"
#include "plan/Slices.h"
#include "recipe/CommandAccess.h"
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

namespace {

constexpr double kPicosecondsPerUs = 1e6;
/// Commands of all instances of some sizes that are priced beside the first one, at 10 us each.
constexpr int64_t kMostPriced = 4096;

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

/// The cuts that an instance may have: those of the choice for its sizes, then those of the other choices, and coarser
/// ones, for sizes that lie far below those that a choice was made at.
std::vector<Cuts> cutsFor(const Dynamic& dynamic, const Sizes& sizes) {
  constexpr int kCoarser = 1;
  const size_t first = choiceFor(dynamic, sizes);
  std::vector<Cuts> all = {dynamic.choices[first].slices};
  for (int halvings = 0; halvings <= kCoarser; ++halvings)
    for (const recipe::TileChoice& choice : dynamic.choices) {
      Cuts cuts = choice.slices;
      for (auto& unit : cuts)
        for (auto& part : unit)
          for (uint32_t& slices : part) slices = (slices + (1u << halvings) - 1) >> halvings;
      if (std::find(all.begin(), all.end(), cuts) == all.end()) all.push_back(std::move(cuts));
    }
  return all;
}

Status patchTensors(std::vector<TensorInfo>& tensors, Patch::Field field, const Dynamic& dynamic,
                    const SizeValues& values) {
  for (const Patch& patch : dynamic.patches)
    if (patch.field == field) {
      HPU_ASSIGN(tensors[patch.index].type.shape[patch.dim], sizeAt(values, patch.expr));
    }
  return okStatus();
}

/// `only`: by kernel, those that are asked for; null: all.
recipe::KernelReads readsOf(const Dynamic& dynamic, const SizeValues& values, const Program& instance,
                            const std::vector<bool>* only = nullptr) {
  // What a kernel reads is computed for every point of its space, where it must not overflow.
  constexpr int64_t kMost = int64_t{1} << 60;
  std::vector<std::array<int64_t, recipe::kMaxRank>> spaces(dynamic.kernels.size());
  for (const recipe::Op& op : instance.ops)
    for (size_t d = 0; op.engine == Engine::kTpc && d < op.space.size(); ++d)
      spaces[op.tpc.kernel][d] = std::max(spaces[op.tpc.kernel][d], op.space[d]);
  auto inRange = [&](int64_t value) { return value >= -kMost && value <= kMost; };
  recipe::KernelReads reads(dynamic.kernels.size());
  for (size_t k = 0; k < reads.size(); ++k) {
    if (only && !(*only)[k]) continue;
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
  }
  return reads;
}

/// Makes one instance.
class Maker {
 public:
  Maker(const Program& source, const SizeValues& values, const arch::TargetDesc& target,
        std::shared_ptr<Program> program = std::make_shared<Program>())
      : source_(source),
        dynamic_(*source.dynamic),
        target_(target),
        values_(values),
        program_(std::move(program)),
        ops_(*program_),
        changed_(program_->ops.size()) {}
  Maker(const Maker&) = delete;
  Maker& operator=(const Maker&) = delete;

  /// Those of the cuts that slice some unit as none before them does, the first one first, which must serve; of the
  /// others so many as do not make more than kMostPriced commands.
  StatusOr<std::vector<const Cuts*>> different(const std::vector<Cuts>& all) {
    HPU_RETURN_IF_ERROR(copy());
    InstanceMemory memory(*program_, ops_, dynamic_, values_, target_);
    std::vector<std::vector<std::vector<int64_t>>> known;  ///< The boxes of all parts.
    std::vector<const Cuts*> different;
    int64_t left = kMostPriced;
    for (const Cuts& cuts : all) {
      if (Status cut = memory.cut(cuts); !cut.ok()) {
        if (different.empty()) return cut;
        continue;
      }
      std::vector<std::vector<int64_t>> boxes;
      for (uint32_t u = 0; u < dynamic_.units.size(); ++u)
        for (uint32_t p = 0; p < dynamic_.units[u].parts.size(); ++p) boxes.push_back(memory.box(u, p));
      if (std::find(known.begin(), known.end(), boxes) != known.end()) continue;
      known.push_back(std::move(boxes));
      const int64_t commands = commandsOf(memory);
      if (!different.empty()) {
        if (commands > left) continue;
        left -= commands;
      }
      different.push_back(&cuts);
    }
    return different;
  }

  /// All with a plan of its own, which keepPlan() gives; its commands are not verified.
  StatusOr<std::shared_ptr<Program>> make(const Cuts& cuts) {
    HPU_RETURN_IF_ERROR(copy());
    memory_ = std::make_unique<InstanceMemory>(*program_, ops_, dynamic_, values_, target_);
    const InstanceMemory& memory = *memory_;
    HPU_RETURN_IF_ERROR(memory_->plan(cuts));
    HPU_RETURN_IF_ERROR(lay(memory));
    regions_ = memory.regions();
    dropEmpty(memory);
    HPU_RETURN_IF_ERROR(verifyLaid());
    HPU_RETURN_IF_ERROR(checkUnits(memory));
    const IssueContext context{*program_, reads_, target_, target_.clock()};
    std::vector<std::vector<SlicedCommand>> sliced;
    sliced.reserve(units_.size());
    for (const IssueUnit& unit : units_) sliced.push_back(sliceUnit(context, unit));
    for (auto& commands : sliced) pack(context, commands);
    std::vector<const std::vector<SlicedCommand>*> pointers;
    for (const auto& commands : sliced) pointers.push_back(&commands);
    HPU_ASSIGN(Issued issued, issueCommands(context, pointers, dynamic_.reorder));
    program_->queues = std::move(issued.queues);
    program_->estimates.deviceTimeUs = static_cast<double>(issued.time) / kPicosecondsPerUs;
    program_->estimates.lowerBoundUs = static_cast<double>(issued.lowerBound) / kPicosecondsPerUs;
    order_ = std::move(issued.order);
    return program_;
  }

  /// What make() has planned, for other sizes.
  std::shared_ptr<const InstancePlan> keepPlan() {
    auto made = std::make_shared<InstancePlan>();
    made->memory = memory_->decided();
    made->estimates = program_->estimates;
    std::vector<OperandRegion> own;
    for (const OperandRegion& region : regions_)
      if (now_[region.op] != kNone) {
        own.push_back(region);
        own.back().op = now_[region.op];
      }
    made->waits = SharedWaits::make(*program_, reads_, units_, order_, std::move(own));
    made->order = std::move(order_);
    made->packings.assign(source_.ops.size(), 1);
    for (size_t op = 0; op < now_.size(); ++op)
      if (now_[op] != kNone) made->packings[op] = program_->ops[now_[op]].mme.packingFactor;
    if (!made->waits) return made;
    numberContents();
    made->prototype = program_;
    made->numbers = values_.numbers();
    made->now = now_;
    made->dropped = dropped_;
    made->units = units_;
    made->unitParts = unitParts_;
    made->sliceDims = memory_->sliceDims();
    return made;
  }

  /// Makes the program of a copy of the plan's prototype, which was an instance of the plan for the sizes that have
  /// `before`: with the plan of larger sizes and its commands as they are. False when these do not serve. What is set
  /// is what depends on a number that is another one now.
  StatusOr<bool> makeLike(const InstancePlan& plan, const recipe::SizeNumbers& before) {
    before_ = &before;
    ops_ = InstanceOps(*program_, plan.now, plan.dropped);
    packings_ = &plan.packings;
    HPU_RETURN_IF_ERROR(setSizes());
    InstanceMemory memory(*program_, ops_, dynamic_, values_, target_);
    HPU_ASSIGN(bool serves, memory.reuse(plan.memory));
    if (!serves || memory.sliceDims() != plan.sliceDims) return false;
    HPU_RETURN_IF_ERROR(lay(memory));
    HPU_RETURN_IF_ERROR(verifyLaid());
    std::vector<Tiles> tiles(plan.units.size());
    for (size_t u = 0; u < tiles.size(); ++u)
      for (const auto& [unit, part] : plan.unitParts[u]) tiles[u].push_back(&memory.box(unit, part));
    if (!plan.waits->setBoxes(*program_, plan.units, tiles, changed_)) return false;
    numberContents();
    HPU_RETURN_IF_ERROR(recipe::verifyBoxes(*program_, &changed_.list()));
    return plan.waits->holds(
        *program_, [&] { return readsOf(dynamic_, values_, *program_, &plan.waits->kernels()); }, &changed_);
  }

  /// With the plan of larger sizes; null when it does not serve these.
  StatusOr<std::shared_ptr<Program>> makeFrom(const InstancePlan& plan) {
    std::shared_ptr<Program> none;
    HPU_RETURN_IF_ERROR(copy());
    packings_ = &plan.packings;
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

  /// The most that any of the cuts needs.
  StatusOr<uint64_t> workspace(const std::vector<Cuts>& all) {
    HPU_RETURN_IF_ERROR(copy());
    InstanceMemory memory(*program_, ops_, dynamic_, values_, target_);
    int64_t most = 0;
    for (size_t i = 0; i < all.size(); ++i) {
      const Status planned = memory.plan(all[i]);
      if (planned.ok())
        most = std::max(most, memory.decided().workspaceBytes);
      else if (i == 0)
        return planned;
    }
    return static_cast<uint64_t>(most);
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
    p.states = source_.states;
    p.sections = source_.sections;
    p.constants = source_.constants;
    p.kernels = source_.kernels;
    p.images = source_.images;
    p.ops = source_.ops;
    p.sourceNodes = source_.sourceNodes;
    p.numSignals = static_cast<uint32_t>(kNumEngines - 1);
    changed_ = ChangedOps(p.ops.size());
    return setSizes();
  }

  /// The copy has the value that the expression says.
  bool isSet(uint32_t expr) const { return before_ && values_.isAsIn(*before_, expr); }

  Status setSizes() {
    Program& p = *program_;
    HPU_RETURN_IF_ERROR(patchTensors(p.inputs, Patch::Field::kInputSize, dynamic_, values_));
    HPU_RETURN_IF_ERROR(patchTensors(p.outputs, Patch::Field::kOutputSize, dynamic_, values_));
    for (const Patch& patch : dynamic_.patches) {
      // Ops that are not there have the spaces of the plan's own sizes, and an operand's sizes reset its offset.
      const bool always = patch.field == Patch::Field::kOperandOffset ||
                          (patch.field == Patch::Field::kSpace && !ops_.find(patch.index));
      if (always || !isSet(patch.expr)) HPU_RETURN_IF_ERROR(patchOp(patch));
    }
    return checkSpaces();
  }

  Status patchOp(const Patch& patch) {
    using Field = Patch::Field;
    if (patch.field == Field::kInputSize || patch.field == Field::kOutputSize) return okStatus();
    if (patch.field == Field::kSpace) {
      HPU_ASSIGN(ops_.space(patch.index)[patch.dim], sizeAt(values_, patch.expr));
      if (ops_.find(patch.index)) changed_.add(ops_.number(patch.index));
      return okStatus();
    }
    if (!ops_.find(patch.index)) return okStatus();
    const uint32_t number = ops_.number(patch.index);
    recipe::Op& op = *ops_.find(patch.index);
    recipe::Operand& operand = *recipe::operandAt(op, patch.operand);
    if (patch.field == Field::kOperandSize) {
      HPU_ASSIGN(operand.sizes[patch.dim], sizeAt(values_, patch.expr));
      changed_.add(number);
      // A part of nothing would begin beyond it. (An offset that is an expression, and that of a placed operand, is set
      // behind the sizes: the op counts as changed already.)
      const recipe::Operand& source = *recipe::operandAt(source_.ops[patch.index], patch.operand);
      operand.offset = recipe::isEmpty(operand) ? 0 : source.offset;
      return okStatus();
    }
    HPU_ASSIGN(int64_t value, values_.at(patch.expr));
    if (value < 0) return outOfRange(strCat("a stride or offset of op '", op.name, "' is ", value));
    if (patch.field == Field::kOperandStride)
      changed_.set(number, operand.strides[patch.dim], value);
    else
      changed_.set(number, operand.offset, recipe::isEmpty(operand) ? 0 : static_cast<uint64_t>(value));
    return okStatus();
  }

  /// Ops of a part have one index space at these sizes, too.
  Status checkSpaces() const {
    for (const DynamicUnit& unit : dynamic_.units)
      for (const DynamicUnit::Part& part : unit.parts)
        for (uint32_t op : part.ops)
          if (op != part.ops[0] && ops_.space(op) != ops_.space(part.ops[0]))
            return dataLoss(strCat(recipe::opText(source_, part.ops[0]), " and ", recipe::opText(source_, op),
                                   " of one unit have the index spaces ", shapeToString(ops_.space(part.ops[0])),
                                   " and ", shapeToString(ops_.space(op))));
    return okStatus();
  }

  // ---- Memory, kernels, ops --------------------------------------------------------------------------

  Status lay(const InstanceMemory& memory) {
    Program& p = *program_;
    HPU_RETURN_IF_ERROR(memory.apply(p, changed_));
    std::vector<bool> others;  ///< Sections with other bounds than before.
    for (uint32_t s = 0; s < p.sections.size(); ++s) {
      recipe::Section& section = p.sections[s];
      const bool input = section.kind == recipe::SectionKind::kInput;
      if (!input && section.kind != recipe::SectionKind::kOutput) continue;
      const TensorInfo& tensor = (input ? p.inputs : p.outputs)[section.binding];
      std::vector<int64_t> sizes = tensor.type.shape;
      std::replace(sizes.begin(), sizes.end(), int64_t{0}, int64_t{1});
      if (recipe::boundedProduct(sizes, recipe::kMaxPoints) < 0)
        return outOfRange(strCat("tensor '", tensor.name, "' has the shape ", shapeToString(tensor.type.shape),
                                 " of more than 2^48 elements"));
      const recipe::State* state = recipe::stateOf(p, section);
      const uint64_t bytes = state ? recipe::stateBytes(p, *state) : static_cast<uint64_t>(tensor.type.bytes());
      if (std::exchange(section.bytes, bytes) == bytes || !before_) continue;
      others.resize(p.sections.size());
      others[s] = true;
    }
    if (!others.empty()) addUsers(others);
    HPU_RETURN_IF_ERROR(setKernels(memory));
    setPackings(memory);
    p.estimates.largestLiveSetBytes = static_cast<uint64_t>(memory.decided().largestLiveSet);
    p.estimates.sramPeakBytes = static_cast<uint64_t>(memory.decided().sramBytes);
    return okStatus();
  }

  /// Ops with operands in the sections are to be verified.
  void addUsers(const std::vector<bool>& sections) {
    std::vector<const recipe::Operand*> operands;
    for (uint32_t op = 0; op < program_->ops.size(); ++op) {
      if (changed_.has(op)) continue;
      operands.clear();
      recipe::appendOperands(program_->ops[op], operands, operands);
      for (const recipe::Operand* operand : operands)
        if (sections[operand->section]) changed_.add(op);
    }
  }

  /// All but the commands. Of a copy that was verified with other numbers, what has changed.
  Status verifyLaid() const {
    HPU_RETURN_IF_ERROR(recipe::verifyMemory(*program_));
    HPU_RETURN_IF_ERROR(recipe::verifyKernels(*program_));
    return recipe::verifyOps(*program_, before_ ? &changed_.list() : nullptr);
  }

  Status setKernels(const InstanceMemory& memory) {
    std::vector<double> points(program_->kernels.size(), 0);
    std::vector<bool> others(program_->kernels.size());  ///< Those with other sizes, reads or another cost.
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
      const auto hasOther = [&](uint32_t expr) { return !isSet(expr); };
      bool isOther = hasOther(sizes.scratchBytes) || std::any_of(sizes.dims.begin(), sizes.dims.end(), hasOther);
      for (const auto& input : sizes.reads)
        for (const DynamicKernel::Read& read : input)
          isOther |= read.dim >= 0 && (hasOther(read.scale) || hasOther(read.low) || hasOther(read.high));
      others[k] = isOther;
      kernel.dims.clear();
      const recipe::TpcCost cost = std::exchange(kernel.cost, {});
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
      if (kernel.cost != cost) others[k] = true;
    }
    for (uint32_t i = 0; i < program_->ops.size(); ++i) {
      const recipe::Op& op = program_->ops[i];
      if (op.engine == Engine::kTpc && others[op.tpc.kernel]) changed_.add(i);
    }
    return okStatus();
  }

  /// Those of the plan; products that cannot be packed so at these sizes are not packed. Without a plan none is, yet.
  void setPackings(const InstanceMemory& memory) {
    for (uint32_t u = 0; u < dynamic_.units.size(); ++u)
      for (uint32_t p = 0; p < dynamic_.units[u].parts.size(); ++p)
        for (uint32_t index : dynamic_.units[u].parts[p].ops) {
          if (!memory.hasPoints(index) || source_.ops[index].engine != Engine::kMme) continue;
          recipe::Op& op = *ops_.find(index);
          int64_t factor = packings_ ? (*packings_)[index] : 1;
          if (factor > 1 && (isCutApart(op, memory.box(u, p)) || !recipe::packingObstacle(op.mme, factor).empty()))
            factor = 1;
          changed_.set(ops_.number(index), op.mme.packingFactor, factor);
        }
  }
  /// Slices of a packed transposed convolution begin where its period does.
  static bool isCutApart(const recipe::Op& op, const std::vector<int64_t>& box) {
    return op.mme.kind == recipe::MmeKind::kConvTranspose2d && box[3] < op.space[3] && box[3] % op.mme.strides[1] != 0;
  }
  /// What is best for these sizes: what a product gains by it depends on them.
  void pack(const IssueContext& context, std::vector<SlicedCommand>& commands) {
    std::vector<std::pair<uint32_t, std::vector<SlicedCommand*>>> products;
    for (SlicedCommand& command : commands) {
      const recipe::Op& op = program_->ops[command.command.op];
      if (op.engine != Engine::kMme || op.mme.packing != recipe::BPacking::kBlocked) continue;
      auto own = std::find_if(products.begin(), products.end(),
                              [&](const auto& product) { return product.first == command.command.op; });
      if (own == products.end()) own = products.insert(own, {command.command.op, {}});
      own->second.push_back(&command);
    }
    for (const auto& [number, own] : products) {
      recipe::Op& op = program_->ops[number];
      const recipe::Command& first = own.front()->command;
      std::vector<int64_t> box;
      for (size_t d = 0; d < first.lo.size(); ++d) box.push_back(first.hi[d] - first.lo[d]);
      if (!isCutApart(op, box)) op.mme.packingFactor = packOp(context, number, own, true);
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

  /// Of ops that have changed, or of all.
  void numberContents() {
    static std::atomic<uint64_t> last{0};
    for (uint32_t op = 0; op < program_->ops.size(); ++op)
      if (!before_ || changed_.has(op)) program_->ops[op].content = ++last;
  }

  int64_t commandsOf(const InstanceMemory& memory) const {
    int64_t commands = 0;
    for (uint32_t u = 0; u < dynamic_.units.size(); ++u) {
      int64_t ops = 0;
      for (const DynamicUnit::Part& part : dynamic_.units[u].parts) ops += static_cast<int64_t>(part.ops.size());
      commands += memory.slices(u) * ops;
    }
    return commands;
  }

  /// What can be issued: not too many commands, parts of a unit in as many slices as one another.
  Status checkUnits(const InstanceMemory& memory) {
    const int64_t commands = commandsOf(memory);
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

  const Program& source_;
  const Dynamic& dynamic_;
  const arch::TargetDesc& target_;
  const SizeValues& values_;
  std::shared_ptr<Program> program_;
  InstanceOps ops_;
  ChangedOps changed_;
  const recipe::SizeNumbers* before_ = nullptr;  ///< Numbers with which the program was verified; null: it was not.
  std::vector<uint32_t> now_;                    ///< By op of the source its number; kNone: it was left out ...
  std::vector<std::vector<int64_t>> dropped_;    ///< ... with this space.
  std::vector<IssueUnit> units_;
  std::vector<PartRefs> unitParts_;  ///< By unit.
  recipe::KernelReads reads_;
  const std::vector<int64_t>* packings_ = nullptr;  ///< Of a plan, by op of the source.

  // What make() leaves for keepPlan().
  std::unique_ptr<InstanceMemory> memory_;
  std::vector<OperandRegion> regions_;
  std::vector<uint32_t> order_;
};

/// The fastest instance that any of the cuts makes, and its plan where that is asked for. The first of them must serve;
/// of the others only some are tried where all would be too many commands to price.
StatusOr<std::shared_ptr<Program>> makeFastest(const Program& program, const Sizes& sizes,
                                               const arch::TargetDesc& target, const std::vector<Cuts>& all,
                                               std::shared_ptr<const InstancePlan>* plan) {
  const SizeValues values(*program.dynamic, sizes);
  HPU_ASSIGN(const std::vector<const Cuts*> different, Maker(program, values, target).different(all));
  struct Made {
    std::unique_ptr<Maker> maker;
    Status status;
    std::shared_ptr<Program> program;
  };
  std::vector<Made> made(different.size());
  auto make = [&](Made& own, const Cuts& cuts) {
    try {
      own.maker = std::make_unique<Maker>(program, values, target);
      auto result = own.maker->make(cuts);
      own.status = result.status();
      if (result.ok()) own.program = *std::move(result);
    } catch (const std::exception& error) {  // No memory, or more elements than a vector can have.
      own.program = nullptr;
      own.status = resourceExhausted(strCat("an instance could not be made: ", error.what()));
    }
  };
  base::parallelFor(static_cast<int64_t>(made.size()), 1, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) make(made[i], *different[i]);
  });
  // Its own choice must serve; what another one cannot is left out.
  HPU_RETURN_IF_ERROR(made[0].status);
  std::vector<const Made*> order;
  for (const Made& each : made)
    if (each.program) order.push_back(&each);
  std::stable_sort(order.begin(), order.end(), [](const Made* a, const Made* b) {
    return a->program->estimates.deviceTimeUs < b->program->estimates.deviceTimeUs;
  });
  for (const Made* each : order) {
    const Status verified = recipe::verifyCommands(*each->program);
    if (!verified.ok() && each == &made[0]) return verified;
    if (!verified.ok()) continue;
    if (plan) *plan = each->maker->keepPlan();
    return each->program;
  }
  return internalError("no choice of tiles serves these sizes");  // Not reached: the first choice returns or fails.
}

}  // namespace

Status checkSizes(const Program& program, const Sizes& sizes) {
  if (program.dynamic) return recipe::checkBounds(*program.dynamic, sizes);
  if (sizes.empty()) return okStatus();
  return invalidArgument(strCat(sizes.size(), " sizes are given for a program without free dimensions"));
}

std::string making(const Program& program, const Sizes& sizes) {
  return "making the program for " + recipe::sizesText(*program.dynamic, sizes);
}

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
  if (program.dynamic)
    return Maker(program, SizeValues(*program.dynamic, sizes), target).workspace(cutsFor(*program.dynamic, sizes));
  uint64_t bytes = 0;
  for (const recipe::Section& section : program.sections)
    if (section.kind == recipe::SectionKind::kWorkspace) bytes += section.bytes;
  return bytes;
}

StatusOr<std::shared_ptr<Program>> instantiate(const Program& program, const Sizes& sizes,
                                               const arch::TargetDesc& target, const recipe::TileChoice* only) {
  HPU_RETURN_IF_ERROR(checkSizes(program, sizes));
  if (!program.dynamic) return std::make_shared<Program>(program);
  const Dynamic& dynamic = *program.dynamic;
  auto made =
      makeFastest(program, sizes, target, only ? std::vector<Cuts>{only->slices} : cutsFor(dynamic, sizes), nullptr);
  if (!made.ok()) return made.status().withContext(making(program, sizes));
  return made;
}

StatusOr<std::shared_ptr<Program>> makePlanned(const Program& program, const Sizes& sizes,
                                               const arch::TargetDesc& target,
                                               std::shared_ptr<const InstancePlan>& plan) {
  return makeFastest(program, sizes, target, cutsFor(*program.dynamic, sizes), &plan);
}

StatusOr<std::shared_ptr<Program>> makeFrom(const InstancePlan& plan, const Program& program, const Sizes& sizes,
                                            const arch::TargetDesc& target) {
  const SizeValues values(*program.dynamic, sizes);
  return Maker(program, values, target).makeFrom(plan);
}

StatusOr<bool> makeLike(const std::shared_ptr<const InstancePlan>& plan, const Program& program, const Sizes& sizes,
                        const arch::TargetDesc& target, LikeInstance& like) {
  if (like.plan != plan) {
    like.program = *plan->prototype;
    like.numbers = plan->numbers;
  }
  like.plan = nullptr;
  const SizeValues values(*program.dynamic, sizes);
  // The caller's: nobody counts here.
  const std::shared_ptr<Program> own(std::shared_ptr<void>(), &like.program);
  HPU_ASSIGN(bool serves, Maker(program, values, target, own).makeLike(*plan, like.numbers));
  if (!serves) return false;
  like.plan = plan;
  like.numbers = values.numbers();
  return true;
}

recipe::KernelReads kernelReads(const Program& program, const Sizes& sizes, const Program& instance) {
  return readsOf(*program.dynamic, SizeValues(*program.dynamic, sizes), instance);
}

}  // namespace hpu::plan
