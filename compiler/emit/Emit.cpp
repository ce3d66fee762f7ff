// SPDX-License-Identifier: Apache-2.0
// Phase emit. In: a sched.program with code. Out: recipe::Program, proven by recipe::verifyProgram and
// recipe::checkSchedule.
#include "compiler/emit/Emit.h"

#include "base/StatusMacros.h"
#include "compiler/dialect/hpu/DataSizes.h"
#include "compiler/dialect/hpu/HpuTypes.h"
#include "compiler/dialect/hpu/States.h"
#include "compiler/dialect/sched/SchedRecords.h"
#include "compiler/interp/ConstantData.h"
#include "hpu/version.h"
#include "recipe/RecipeVerifier.h"
#include "recipe/ScheduleChecker.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace hpu::emit {

namespace {

class Emitter {
 public:
  Emitter(sched::ProgramOp source, const EmitOptions& options, std::shared_ptr<const void> owner)
      : source_(source), options_(options), owner_(std::move(owner)), program_(std::make_shared<recipe::Program>()) {}

  StatusOr<std::shared_ptr<recipe::Program>> run() {
    program_->name = options_.name;
    program_->producer = std::string("OpenHPU ") + HPU_VERSION_STRING;
    program_->target = options_.target;
    program_->numSignals = source_.getNumSignals();
    addStates();
    for (const ir::DataSize& size : ir::dataSizes(source_->getParentOfType<ModuleOp>()))
      program_->dataSizes.push_back({size.output, size.dim, size.element});
    Status status;
    for (Operation& op : source_.getBody().front()) {
      TypeSwitch<Operation*>(&op)
          .Case<sched::SectionOp>([&](auto section) { addSection(section); })
          .Case<sched::ConstantOp>([&](auto constant) { status = addConstant(constant); })
          .Case<sched::KernelOp>([&](auto kernel) { addKernel(kernel); })
          .Case<sched::CodeOp>([&](auto code) { status = addCode(code); })
          .Case<sched::MmeOp>([&](auto mme) { addMme(mme); })
          .Case<sched::TpcOp>([&](auto tpc) { addTpc(tpc); })
          .Case<sched::DmaOp>([&](auto dma) { addDma(dma); })
          .Case<sched::BundleOp>([&](auto bundle) { addBundle(bundle); })
          .Case<sched::QueueOp>([&](auto queue) { addQueue(queue); });
      if (!status.ok()) return status;
    }
    HPU_RETURN_IF_ERROR(addDefaults());
    HPU_RETURN_IF_ERROR(checked(recipe::verifyProgram(*program_)));
    if (options_.checkSchedule) HPU_RETURN_IF_ERROR(checked(recipe::checkSchedule(*program_, options_.reads)));
    return program_;
  }

  std::shared_ptr<recipe::Program> describe() {
    program_->target = options_.target;
    addStates();
    for (Operation& op : source_.getBody().front())
      TypeSwitch<Operation*>(&op)
          .Case<sched::SectionOp>([&](auto section) { addSection(section); })
          .Case<sched::KernelOp>([&](auto kernel) { addKernel(kernel); })
          .Case<sched::MmeOp>([&](auto mme) { addMme(mme); })
          .Case<sched::TpcOp>([&](auto tpc) { addTpc(tpc); })
          .Case<sched::DmaOp>([&](auto dma) { addDma(dma); })
          .Case<sched::BundleOp>([&](auto bundle) { addBundle(bundle); });
    return program_;
  }

 private:
  /// The compiler made the program, so a violation is its bug.
  static Status checked(Status status) {
    return status.ok() ? status : internalError("the compiled program does not verify: " + status.message());
  }

  void addStates() {
    auto states = source_->getAttrOfType<ArrayAttr>(ir::kStatesAttr);
    for (mlir::Attribute each : states ? states.getValue() : ArrayRef<mlir::Attribute>()) {
      auto state = cast<DictionaryAttr>(each);
      const ArrayRef<int64_t> capacity = state.getAs<DenseI64ArrayAttr>("capacity");
      program_->states.push_back({static_cast<uint32_t>(state.getAs<IntegerAttr>("input").getInt()),
                                  static_cast<uint32_t>(state.getAs<IntegerAttr>("output").getInt()),
                                  {capacity.begin(), capacity.end()}});
    }
  }

  Status addDefaults() {
    auto all = source_->getParentOfType<ModuleOp>()->getAttrOfType<DictionaryAttr>(ir::kDefaultsAttr);
    for (uint32_t i = 0; all && i < program_->inputs.size(); ++i) {
      const TensorInfo& input = program_->inputs[i];
      auto value = all.getAs<ElementsAttr>(input.name);
      if (!value) continue;
      HPU_ASSIGN(const interp::Tensor tensor, interp::tensorOf(value));
      const bool isState = llvm::any_of(program_->states, [&](const recipe::State& state) { return state.input == i; });
      // A state is what earlier launches left.
      if (isState || tensor.type() != input.type) continue;
      struct Keep {
        interp::Tensor tensor;
        std::shared_ptr<const void> owner;
      };
      auto keep = std::make_shared<Keep>(Keep{tensor, owner_});
      program_->defaults.push_back({i, keep->tensor.data(), static_cast<uint64_t>(tensor.bytes()), keep});
    }
    return okStatus();
  }

  void addSection(sched::SectionOp op) {
    recipe::Section section{static_cast<recipe::SectionKind>(op.getKind()), recipe::kNone,
                            static_cast<uint64_t>(op.getBytes())};
    if (op.getType()) {
      auto type = cast<RankedTensorType>(*op.getType());
      TensorInfo info{op.getName().value_or("").str(),
                      {ir::elementType(type.getElementType()), Shape(type.getShape().begin(), type.getShape().end())}};
      auto& list = op.getKind() == sched::SectionKind::input ? program_->inputs : program_->outputs;
      section.binding = list.size();
      list.push_back(std::move(info));
    }
    program_->sections.push_back(section);
  }

  Status addConstant(sched::ConstantOp op) {
    HPU_ASSIGN(recipe::ConstantBlob blob, toConstant(op, owner_));
    program_->constants.push_back(std::move(blob));
    return okStatus();
  }

  void addKernel(sched::KernelOp op) {
    kernels_[op.getSymName()] = program_->kernels.size();
    auto number = [&](const char* name) {
      auto attribute = op->getAttrOfType<IntegerAttr>(name);
      return attribute ? attribute.getInt() : 0;
    };
    recipe::Kernel kernel;
    kernel.name = op.getSymName().str();
    if (auto cost = op->getAttrOfType<DenseF64ArrayAttr>("cost"); cost && cost.size() == 4)
      kernel.cost = {cost[0], cost[1], cost[2], cost[3]};
    kernel.numInputs = op.getInputs().size();
    kernel.numOutputs = op.getOutputs().size();
    kernel.rank = number("rank");
    kernel.wholeDims = number("whole_dims");
    kernel.scratchBytes = number("scratch_bytes");
    program_->kernels.push_back(std::move(kernel));
  }

  Status addCode(sched::CodeOp op) {
    HPU_ASSIGN(interp::Tensor image, interp::tensorOf(op.getImage()));
    recipe::KernelImage code;
    code.cpu = static_cast<recipe::CpuVariant>(op.getCpu());
    code.entries.assign(op.getEntries().begin(), op.getEntries().end());
    auto data = std::make_shared<std::vector<uint8_t>>(image.data(), image.data() + image.bytes());
    code.data = data->data();
    code.bytes = data->size();
    code.owner = data;
    program_->images.push_back(std::move(code));
    return okStatus();
  }

  recipe::Op& newOp(Operation* op, Engine engine, ArrayRef<int64_t> space) {
    ops_[cast<SymbolOpInterface>(op).getName()] = program_->ops.size();
    program_->hostOrder.push_back(program_->ops.size());
    recipe::Op& result = program_->ops.emplace_back();
    result.engine = engine;
    if (auto name = op->getAttrOfType<StringAttr>("name")) result.name = name.str();
    result.space.assign(space.begin(), space.end());
    if (auto sources = op->getAttrOfType<ArrayAttr>("sources"))
      for (Attribute source : sources) {
        auto pair = cast<ArrayAttr>(source);
        result.provenance.push_back(sourceNode(cast<StringAttr>(pair[0]).str(), cast<StringAttr>(pair[1]).str()));
      }
    return result;
  }

  uint32_t sourceNode(const std::string& name, const std::string& op) {
    auto [found, fresh] = sourceNodes_.try_emplace(op + '\n' + name, program_->sourceNodes.size());
    if (fresh) program_->sourceNodes.push_back({name, op});
    return found->second;
  }

  void addMme(sched::MmeOp op) { newOp(op, Engine::kMme, op.getC().getSizes()).mme = sched::toMmeDesc(op); }

  void addTpc(sched::TpcOp op) {
    auto first = cast<sched::OperandAttr>(op.getOutputs()[0]);
    recipe::TpcDesc& tpc = newOp(op, Engine::kTpc, first.getSizes()).tpc;
    tpc.kernel = kernels_[op.getKernel()];
    for (Attribute input : op.getInputs()) tpc.inputs.push_back(sched::toOperand(cast<sched::OperandAttr>(input)));
    for (Attribute output : op.getOutputs()) tpc.outputs.push_back(sched::toOperand(cast<sched::OperandAttr>(output)));
  }

  void addDma(sched::DmaOp op) {
    recipe::DmaDesc& dma = newOp(op, Engine::kDma, op.getDst().getSizes()).dma;
    dma.src = sched::toOperand(op.getSrc());
    dma.dst = sched::toOperand(op.getDst());
  }

  void addBundle(sched::BundleOp op) {
    recipe::Bundle bundle;
    bundle.name = op.getName().str();
    for (Attribute member : op.getMembers()) bundle.ops.push_back(ops_[cast<FlatSymbolRefAttr>(member).getValue()]);
    bundle.slices = op.getSlices();
    program_->bundles.push_back(std::move(bundle));
  }

  void addQueue(sched::QueueOp op) {
    recipe::Queue queue;
    queue.engine = static_cast<Engine>(op.getEngine());
    for (auto run : op.getBody().getOps<sched::RunOp>()) {
      recipe::Command command;
      command.op = ops_[run.getOp()];
      const auto bundle = static_cast<int64_t>(run.getBundle());
      command.bundle = bundle < 0 ? recipe::kNone : static_cast<uint32_t>(bundle);
      command.slice = run.getSlice();
      command.lo.assign(run.getLo().begin(), run.getLo().end());
      command.hi.assign(run.getHi().begin(), run.getHi().end());
      command.signal = run.getSignal();
      if (auto waits = run.getWaits())
        for (size_t i = 0; i + 1 < waits->size(); i += 2)
          command.waits.push_back({static_cast<uint32_t>((*waits)[i]), static_cast<uint32_t>((*waits)[i + 1])});
      queue.commands.push_back(std::move(command));
    }
    program_->queues.push_back(std::move(queue));
  }

  sched::ProgramOp source_;
  const EmitOptions& options_;
  std::shared_ptr<const void> owner_;
  std::shared_ptr<recipe::Program> program_;
  llvm::StringMap<uint32_t> kernels_, ops_, sourceNodes_;
};

}  // namespace

StatusOr<std::shared_ptr<recipe::Program>> emitProgram(ModuleOp module, const EmitOptions& options,
                                                       std::shared_ptr<const void> owner) {
  auto program = module.lookupSymbol<sched::ProgramOp>("main");
  if (!program) return internalError("the module has no sched.program @main to emit");
  return Emitter(program, options, std::move(owner)).run();
}

std::shared_ptr<recipe::Program> describeProgram(sched::ProgramOp program, Target target) {
  EmitOptions options;
  options.target = target;
  return Emitter(program, options, nullptr).describe();
}

}  // namespace hpu::emit
