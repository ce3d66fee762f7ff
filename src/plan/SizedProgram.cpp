// SPDX-License-Identifier: Apache-2.0
#include "plan/SizedProgram.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "recipe/MmePacking.h"
#include "recipe/VerifierParts.h"

namespace hpu::plan {

using base::strCat;
using recipe::Dynamic;
using recipe::DynamicKernel;
using recipe::DynamicUnit;
using recipe::Patch;
using recipe::Program;
using recipe::SizeValues;

namespace {

/// What a patch of a size may say.
StatusOr<int64_t> sizeAt(const SizeValues& values, uint32_t expr) {
  HPU_ASSIGN(int64_t size, values.at(expr));
  if (size >= 0 && size <= recipe::kMaxPoints) return size;
  return outOfRange(strCat("a size is ", size, ", which is negative or beyond 2^48"));
}

}  // namespace

Status patchTensors(std::vector<TensorInfo>& tensors, Patch::Field field, const Dynamic& dynamic,
                    const SizeValues& values) {
  for (const Patch& patch : dynamic.patches)
    if (patch.field == field) {
      HPU_ASSIGN(tensors[patch.index].type.shape[patch.dim], sizeAt(values, patch.expr));
    }
  return okStatus();
}

recipe::KernelReads readsOf(const Dynamic& dynamic, const SizeValues& values, const Program& instance,
                            const std::vector<bool>* only) {
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

SizedProgram::SizedProgram(const Program& source, const SizeValues& values, const arch::TargetDesc& target,
                           std::shared_ptr<Program> program)
    : source_(source),
      dynamic_(*source.dynamic),
      target_(target),
      values_(values),
      program_(std::move(program)),
      ops_(*program_),
      changed_(program_->ops.size()) {}

// ---- Sizes
// -----------------------------------------------------------------------------------------

Status SizedProgram::copy() {
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

Status SizedProgram::setAgain(const InstancePlan& plan, const recipe::SizeNumbers& before) {
  before_ = &before;
  ops_ = InstanceOps(*program_, plan.now, plan.dropped);
  packings_ = &plan.packings;
  return setSizes();
}

/// The copy has the value that the expression says.
bool SizedProgram::isSet(uint32_t expr) const {
  return before_ && values_.isAsIn(*before_, expr);
}

Status SizedProgram::setSizes() {
  Program& p = *program_;
  HPU_RETURN_IF_ERROR(patchTensors(p.inputs, Patch::Field::kInputSize, dynamic_, values_));
  HPU_RETURN_IF_ERROR(patchTensors(p.outputs, Patch::Field::kOutputSize, dynamic_, values_));
  for (const Patch& patch : dynamic_.patches) {
    // Ops that are not there have the spaces of the plan's own sizes, and an operand's sizes reset its offset.
    const bool always =
        patch.field == Patch::Field::kOperandOffset || (patch.field == Patch::Field::kSpace && !ops_.find(patch.index));
    if (always || !isSet(patch.expr)) HPU_RETURN_IF_ERROR(patchOp(patch));
  }
  return checkSpaces();
}

Status SizedProgram::patchOp(const Patch& patch) {
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
Status SizedProgram::checkSpaces() const {
  for (const DynamicUnit& unit : dynamic_.units)
    for (const DynamicUnit::Part& part : unit.parts)
      for (uint32_t op : part.ops)
        if (op != part.ops[0] && ops_.space(op) != ops_.space(part.ops[0]))
          return dataLoss(strCat(recipe::opText(source_, part.ops[0]), " and ", recipe::opText(source_, op),
                                 " of one unit have the index spaces ", shapeToString(ops_.space(part.ops[0])), " and ",
                                 shapeToString(ops_.space(op))));
  return okStatus();
}

// ---- Memory, kernels, ops
// --------------------------------------------------------------------------

Status SizedProgram::lay(const InstanceMemory& memory) {
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
void SizedProgram::addUsers(const std::vector<bool>& sections) {
  std::vector<const recipe::Operand*> operands;
  for (uint32_t op = 0; op < program_->ops.size(); ++op) {
    if (changed_.has(op)) continue;
    operands.clear();
    recipe::appendOperands(program_->ops[op], operands, operands);
    for (const recipe::Operand* operand : operands)
      if (sections[operand->section]) changed_.add(op);
  }
}

/// Of a copy that was verified with other numbers, what has changed.
Status SizedProgram::verifyLaid() const {
  HPU_RETURN_IF_ERROR(recipe::verifyMemory(*program_));
  HPU_RETURN_IF_ERROR(recipe::verifyKernels(*program_));
  return recipe::verifyOps(*program_, before_ ? &changed_.list() : nullptr);
}

Status SizedProgram::setKernels(const InstanceMemory& memory) {
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
void SizedProgram::setPackings(const InstanceMemory& memory) {
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

bool SizedProgram::isCutApart(const recipe::Op& op, const std::vector<int64_t>& box) {
  return op.mme.kind == recipe::MmeKind::kConvTranspose2d && box[3] < op.space[3] && box[3] % op.mme.strides[1] != 0;
}
void SizedProgram::numberContents() {
  static std::atomic<uint64_t> last{0};
  for (uint32_t op = 0; op < program_->ops.size(); ++op)
    if (!before_ || changed_.has(op)) program_->ops[op].content = ++last;
}

}  // namespace hpu::plan
