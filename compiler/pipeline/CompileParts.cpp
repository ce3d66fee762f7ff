// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline/CompileParts.h"

#include <filesystem>
#include <map>

#include "arch/TargetDesc.h"
#include "base/Format.h"
#include "base/OptionNames.h"
#include "base/StatusMacros.h"
#include "compiler/dialect/hpu/DataSizes.h"
#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/dialect/hpu/HpuTypes.h"
#include "compiler/interp/ConstantData.h"
#include "compiler/pipeline/CutFunction.h"
#include "compiler/pipeline/NodeTrail.h"
#include "compiler/pipeline/PartsWorkspace.h"
#include "compiler/precision/KeepList.h"
#include "compiler/support/DiagnosticCapture.h"
#include "compiler/support/Units.h"
#include "hpu/version.h"
#include "perfmodel/PartsTime.h"
#include "recipe/ConstantPool.h"
#include "recipe/Parts.h"
#include "recipe/RecipeVerifier.h"

namespace hpu::pipeline {

using namespace mlir;
using base::strCat;
using recipe::kNone;
using recipe::Part;
using recipe::PartPlace;
using recipe::Program;
using recipe::SectionKind;

namespace {

uint64_t bytesOf(mlir::Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  return static_cast<uint64_t>(type.getNumElements()) *
         static_cast<uint64_t>(elementSize(ir::elementType(type.getElementType())));
}

std::string argumentName(func::FuncOp function, unsigned i) {
  auto name = function.getArgAttrOfType<StringAttr>(i, "hpu.name");
  return name ? name.str() : strCat("input", i);
}
std::string resultName(func::FuncOp function, unsigned i) {
  auto name = function.getResultAttrOfType<StringAttr>(i, "hpu.name");
  return name ? name.str() : strCat("output", i);
}

TensorInfo infoOf(std::string name, Type type) {
  auto tensor = cast<RankedTensorType>(type);
  return {std::move(name),
          {ir::elementType(tensor.getElementType()), Shape(tensor.getShape().begin(), tensor.getShape().end())}};
}

class PartsCompiler;

/// One function with flow, and the program that it becomes.
class HolderBuilder {
 public:
  /// `isBody`: of a loop or branch, or of one in it.
  HolderBuilder(PartsCompiler& compiler, func::FuncOp function, const std::string& name, uint64_t runs, bool isBody)
      : compiler_(compiler), cut_(function), function_(function), name_(name), runs_(runs), isBody_(isBody) {}
  StatusOr<std::shared_ptr<Program>> run();

 private:
  /// A result of a piece and where it goes.
  struct Handed {
    mlir::Value value;
    PartPlace place;
  };
  /// Sections from here on are regions until all have places.
  static constexpr uint32_t kFirstRegion = 1u << 30;

  PartPlace region(uint64_t bytes) { return {kFirstRegion + workspace_.add(bytes), 0, 0, kNone, kNone, 0}; }
  PartPlace outputPlace(unsigned i) const { return {outputSections_[i], 0, 0, kNone, kNone, 0}; }
  static PartPlace turning(uint32_t part, const PartPlace& even, const PartPlace& odd) {
    return {even.section, even.offset, 0, part, odd.section, odd.offset};
  }
  /// The slice of `value`, which lies at `whole`, that iteration 0 has, and those that follow.
  static PartPlace moving(PartPlace whole, uint64_t sliceBytes, uint64_t trips, bool backwards);

  uint32_t nextPart() const { return static_cast<uint32_t>(program_->parts.size()); }
  void touch(const PartPlace& place, uint32_t part);
  /// Where the value is kept that op makes: an output of the program, if it is one, or else a region.
  PartPlace homeOf(mlir::Value value);
  StatusOr<PartPlace> constantPlace(ir::ConstantOp constant);
  void addIo();
  Status addSegment(unsigned k);
  Status addFlow(unsigned k);
  Status addLoop(ir::LoopOp loop);
  Status addIf(ir::IfOp branch);
  Status addPart(std::shared_ptr<Program> program, const std::vector<PartPlace>& inputs,
                 const std::vector<PartPlace>& outputs, Part part);
  void finish();

  PartsCompiler& compiler_;
  CutFunction cut_;
  func::FuncOp function_;
  std::string name_;
  uint64_t runs_;
  bool isBody_;
  std::shared_ptr<Program> program_ = std::make_shared<Program>();
  uint32_t constants_ = kNone;  ///< A section.
  std::vector<uint32_t> outputSections_;
  DenseMap<mlir::Value, PartPlace> places_;  ///< Of values that several parts see.
  /// Of the flow op that comes next: where carried values and the condition begin.
  std::vector<PartPlace> begins_, others_;
  PartsWorkspace workspace_;
};

class PartsCompiler {
 public:
  PartsCompiler(const CompileOptions& options, std::shared_ptr<const void> owner,
                std::vector<UnsupportedNode>* unsupported)
      : options_(options), owner_(std::move(owner)), unsupported_(unsupported) {}

  StatusOr<CompileResult> run(ModuleOp module) {
    HPU_RETURN_IF_ERROR(check(module));
    auto main = module.lookupSymbol<func::FuncOp>("main");
    auto model = module->getAttrOfType<StringAttr>("hpu.model");
    const std::string name = model ? model.str() : "model";
    HPU_ASSIGN(std::shared_ptr<Program> program, compileFunction(main, name, 1, /*isBody=*/false));
    if (!failure_.ok()) return failure_;
    for (auto& [phase, info] : phases_) {
      result_.stats.phases.push_back(info);
      if (options_.onPhase) options_.onPhase(info);
    }
    if (!options_.stopAfter.empty()) return std::move(result_);
    pool_.finish();
    program->name = name;
    for (const ir::DataSize& size : ir::dataSizes(module))
      program->dataSizes.push_back({size.output, size.dim, size.element});
    if (const uint64_t runs = recipe::sureIterations(*program); runs > recipe::kMaxPartIterations)
      return unimplemented(strCat("the loops of the model run ", runs, " times in all, more than the ",
                                  recipe::kMaxPartIterations, " that one launch may have"));
    if (Status verified = recipe::verifyProgram(*program); !verified.ok())
      return internalError("the compiled program does not verify: " + verified.message());
    const memory::HbmNeeds needs = hbmNeedsOf(*program);
    HPU_RETURN_IF_ERROR(
        memory::checkCapacity(needs, arch::targetDesc(options_.target).hbmBytes, targetName(options_.target)));
    CompileStats& stats = result_.stats;
    stats.workspaceBytes = needs.workspace;
    stats.deviceTimeUs = program->estimates.deviceTimeUs;
    stats.lowerBoundUs = program->estimates.lowerBoundUs;
    if (auto time = result_.reports.find("time"); time != result_.reports.end())
      time->second = strCat("device time ", stats.deviceTimeUs,
                            " us (modelled), of as many iterations as there can be\n", time->second);
    result_.recipe = Recipe(std::move(program));
    return std::move(result_);
  }

  /// The program of a function, which runs `runs` times in a launch at most.
  StatusOr<std::shared_ptr<Program>> compileFunction(func::FuncOp function, const std::string& name, uint64_t runs,
                                                     bool isBody) {
    if (!hasFlow(function->getParentOfType<ModuleOp>()))
      return compilePiece(function->getParentOfType<ModuleOp>(), name, runs, isBody);
    if (depth_ + 1 >= static_cast<int>(recipe::kMaxPartDepth))
      return unimplemented(strCat("'", name, "': loops and branches of the device are nested more than ",
                                  recipe::kMaxPartDepth - 1, " deep"));
    ++depth_;
    StatusOr<std::shared_ptr<Program>> program = HolderBuilder(*this, function, name, runs, isBody).run();
    --depth_;
    return program;
  }

  /// One more part of this program.
  Status count(const std::string& name, size_t sections) {
    if (sections > recipe::kMaxPartSections)
      return unimplemented(strCat("'", name,
                                  "': a body of a loop or branch, and what is between them, reads and writes at most ",
                                  recipe::kMaxPartSections, " values, and this one ", sections));
    if (++parts_ > static_cast<int>(recipe::kMaxParts))
      return unimplemented(strCat("the model has more than ", recipe::kMaxParts,
                                  " pieces that loops and branches of the device cut it into; ",
                                  base::optionName("unrollLimit"), " 8192 unrolls what can be"));
    return okStatus();
  }

  recipe::ConstantPool& pool() { return pool_; }
  Target target() const { return options_.target; }
  const std::shared_ptr<const void>& owner() const { return owner_; }
  /// Says it of the node that is to be explained when that is what `op` comes from.
  void explain(Operation* op, std::string text) {
    const bool isIt = llvm::any_of(ir::sourceNames(op->getLoc()),
                                   [&](const ir::SourceName& source) { return source.node == result_.explainedNode; });
    if (isIt) result_.explanation.push_back({"parts", std::move(text)});
  }
  void warn(std::string text) { result_.warnings.push_back(std::move(text)); }
  /// A name for a piece that no other one has.
  std::string unique(const std::string& name) {
    const int count = names_[name]++;
    return count == 0 ? name : strCat(name, "#", count + 1);
  }

 private:
  Status check(ModuleOp module) {
    if (!options_.startFrom.empty() && options_.startFrom != "import" && options_.startFrom != "normalize")
      return invalidArgument(
          base::optionValue("startFrom", options_.startFrom) +
          ": the file has loops or branches of the device (hpu.loop, hpu.if), which are cut out ahead "
          "of the phase normalize; start from there");
    if (!options_.states.empty())
      return unimplemented(base::optionName("states") +
                           ": a model with loops or branches that the device decides cannot have states yet; give "
                           "and take them as an input and an output");
    HPU_RETURN_IF_ERROR(precision::checkKeepList(module, options_.keepF32));
    if (!options_.explain.empty()) {
      NodeTrail trail(options_.explain);
      HPU_RETURN_IF_ERROR(trail.begin(module));
      result_.explainedNode = trail.node();
    }
    for (const std::string& report : options_.reports) result_.reports[report];
    return okStatus();
  }

  StatusOr<std::shared_ptr<Program>> compilePiece(ModuleOp module, const std::string& name, uint64_t runs,
                                                  bool isBody) {
    CompileOptions own = options_;
    own.onPhase = nullptr;
    own.startFrom.clear();
    // A calibration sees the products of main alone; others find their ranges when they run.
    if (isBody) own.ranges.clear();
    std::erase_if(own.keepF32, [&](const std::string& each) { return !precision::checkKeepList(module, {each}).ok(); });
    own.explain.clear();
    if (!result_.explainedNode.empty() && NodeTrail(result_.explainedNode).begin(module).ok())
      own.explain = result_.explainedNode;
    if (!own.dumpDir.empty()) {
      std::string folder = name;
      llvm::replace(folder, '/', '_');
      own.dumpDir += "/" + folder;
      std::error_code error;
      std::filesystem::create_directories(own.dumpDir, error);
      if (error) return unavailable(strCat("cannot make the folder '", own.dumpDir, "': ", error.message()));
    }
    StatusOr<CompileResult> compiled = runPipeline(module, own, owner_, unsupported_);
    if (!compiled.ok()) {
      // All that is unsupported is told at once.
      if (compiled.status().code() != StatusCode::kUnimplemented) return compiled.status();
      if (failure_.ok()) failure_ = compiled.status();
      return std::shared_ptr<Program>();
    }
    take(*compiled, name, runs);
    if (!compiled->recipe.valid()) return std::shared_ptr<Program>();
    auto program = std::make_shared<Program>(*compiled->recipe.program());
    program->name = name;
    return program;
  }

  void take(CompileResult& piece, const std::string& name, uint64_t runs) {
    for (const PhaseInfo& info : piece.stats.phases) {
      auto found = llvm::find_if(phases_, [&](const auto& each) { return each.first == info.name; });
      if (found == phases_.end())
        phases_.emplace_back(info.name, info);
      else
        found->second.ms += info.ms;
    }
    for (auto& [report, text] : piece.reports)
      if (!text.empty()) result_.reports[report] += strCat("== ", name, " ==\n", text);
    if (!piece.ir.empty()) result_.ir += strCat(result_.ir.empty() ? "" : "// -----\n", "// ", name, "\n", piece.ir);
    llvm::append_range(result_.explanation, piece.explanation);
    llvm::append_range(result_.warnings, piece.warnings);
    CompileStats& all = result_.stats;
    const CompileStats& own = piece.stats;
    const auto times = static_cast<double>(runs);
    all.largestLiveSetBytes = std::max(all.largestLiveSetBytes, own.largestLiveSetBytes);
    all.sramPeakBytes = std::max(all.sramPeakBytes, own.sramPeakBytes);
    all.lowerBoundMmeUs += own.lowerBoundMmeUs * times;
    all.lowerBoundTpcUs += own.lowerBoundTpcUs * times;
    all.lowerBoundHbmUs += own.lowerBoundHbmUs * times;
    auto add = [&](int64_t& sum, int64_t each) {
      sum = static_cast<int64_t>(std::min(static_cast<double>(sum) + static_cast<double>(each) * times, 9e18));
    };
    add(all.lowerBoundBytes, own.lowerBoundBytes);
    add(all.macs, own.macs);
  }

  const CompileOptions& options_;
  std::shared_ptr<const void> owner_;
  std::vector<UnsupportedNode>* unsupported_;
  recipe::ConstantPool pool_;
  std::map<std::string, int> names_;
  int depth_ = 0, parts_ = 0;
  std::vector<std::pair<std::string, PhaseInfo>> phases_;  ///< Of all pieces together.
  Status failure_;
  CompileResult result_;
};

PartPlace HolderBuilder::moving(PartPlace whole, uint64_t sliceBytes, uint64_t trips, bool backwards) {
  whole.step = backwards ? -static_cast<int64_t>(sliceBytes) : static_cast<int64_t>(sliceBytes);
  if (backwards) {
    whole.offset += (trips - 1) * sliceBytes;
    if (whole.turns != kNone) whole.oddOffset += (trips - 1) * sliceBytes;
  }
  return whole;
}

void HolderBuilder::touch(const PartPlace& place, uint32_t part) {
  for (uint32_t section : {place.section, place.oddSection})
    if (section != kNone && section >= kFirstRegion) workspace_.touch(section - kFirstRegion, part);
}

PartPlace HolderBuilder::homeOf(mlir::Value value) {
  for (OpOperand& result : cut_.block().getTerminator()->getOpOperands())
    if (result.get() == value) return outputPlace(result.getOperandNumber());
  return region(bytesOf(value));
}

void HolderBuilder::addIo() {
  program_->name = name_;
  program_->producer = std::string("OpenHPU ") + HPU_VERSION_STRING;
  program_->target = compiler_.target();
  for (BlockArgument argument : cut_.block().getArguments()) {
    const auto section = static_cast<uint32_t>(program_->sections.size());
    program_->sections.push_back({SectionKind::kInput, argument.getArgNumber(), bytesOf(argument)});
    program_->inputs.push_back(infoOf(argumentName(function_, argument.getArgNumber()), argument.getType()));
    places_[argument] = {section, 0, 0, kNone, kNone, 0};
  }
  for (OpOperand& result : cut_.block().getTerminator()->getOpOperands()) {
    const unsigned i = result.getOperandNumber();
    outputSections_.push_back(static_cast<uint32_t>(program_->sections.size()));
    program_->sections.push_back({SectionKind::kOutput, i, bytesOf(result.get())});
    program_->outputs.push_back(infoOf(resultName(function_, i), result.get().getType()));
  }
}

StatusOr<std::shared_ptr<Program>> HolderBuilder::run() {
  addIo();
  HPU_ASSIGN(constants_, compiler_.pool().add(program_));
  for (unsigned k = 0; k <= cut_.flows().size(); ++k) {
    HPU_RETURN_IF_ERROR(addSegment(k));
    if (k < cut_.flows().size()) HPU_RETURN_IF_ERROR(addFlow(k));
  }
  finish();
  return program_;
}

StatusOr<PartPlace> HolderBuilder::constantPlace(ir::ConstantOp constant) {
  HPU_ASSIGN(interp::Tensor tensor, interp::tensorOf(constant.getValue()));
  struct Kept {
    interp::Tensor tensor;
    std::shared_ptr<const void> owner;
  };
  auto kept = std::make_shared<Kept>(Kept{tensor, compiler_.owner()});
  recipe::ConstantBlob blob{kNone, 0, tensor.data(), static_cast<uint64_t>(tensor.bytes()), kept};
  return PartPlace{constants_, compiler_.pool().place(blob), 0, kNone, kNone, 0};
}

/// Operands of a flow op that do not begin in memory of their own.
SmallVector<mlir::Value> readAsTheyAre(Operation* flow) {
  auto loop = dyn_cast<ir::LoopOp>(flow);
  if (!loop) return SmallVector<mlir::Value>(flow->getOperands());
  SmallVector<mlir::Value> values(loop.getScanned());
  llvm::append_range(values, loop.getCaptured());
  if (loop.getCount()) values.push_back(loop.getCount());
  return values;
}

Status HolderBuilder::addSegment(unsigned k) {
  std::vector<Handed> handed;
  DenseSet<mlir::Value> given;
  Operation* flow = k < cut_.flows().size() ? cut_.flows()[k] : nullptr;
  begins_.clear();
  others_.clear();
  // What a loop changes begins in memory of its own, which the loop writes to.
  if (auto loop = dyn_cast_if_present<ir::LoopOp>(flow)) {
    SmallVector<mlir::Value> changing(loop.getCarried());
    if (loop.getCondition()) changing.insert(changing.begin(), loop.getCondition());
    for (mlir::Value value : changing) {
      begins_.push_back(region(bytesOf(value)));
      others_.push_back(region(bytesOf(value)));
      handed.push_back({value, begins_.back()});
      if (value.hasOneUse()) given.insert(value);
    }
  }
  for (Operation* op : cut_.segment(k))
    for (mlir::Value value : op->getResults())
      if (cut_.isHandedOn(value, k) && !given.contains(value)) {
        places_[value] = homeOf(value);
        handed.push_back({value, places_[value]});
      }
  // What a flow op reads as it is, and nothing but constants makes.
  if (flow)
    for (mlir::Value value : readAsTheyAre(flow)) {
      if (!CutFunction::isCopied(value) || places_.count(value)) continue;
      if (auto constant = value.getDefiningOp<ir::ConstantOp>()) {
        HPU_ASSIGN(places_[value], constantPlace(constant));
        continue;
      }
      places_[value] = region(bytesOf(value));
      handed.push_back({value, places_[value]});
    }
  if (!flow)
    for (OpOperand& result : cut_.block().getTerminator()->getOpOperands()) {
      const PartPlace place = outputPlace(result.getOperandNumber());
      auto found = places_.find(result.get());
      if (found == places_.end() || found->second != place) handed.push_back({result.get(), place});
    }
  if (handed.empty()) return okStatus();

  SmallVector<mlir::Value> inputs = cut_.readsOf(k), results;
  for (const Handed& each : handed) {
    results.push_back(each.value);
    const bool isRead = !cut_.isOf(each.value, k) && !CutFunction::isCopied(each.value);
    if (isRead && !llvm::is_contained(inputs, each.value)) inputs.push_back(each.value);
  }
  const std::string name = compiler_.unique(strCat(name_, ".", k));
  OwningOpRef<ModuleOp> piece = makePiece(name, function_.getLoc(), inputs, cut_.segment(k), results);
  HPU_ASSIGN(std::shared_ptr<Program> program,
             compiler_.compileFunction(piece->lookupSymbol<func::FuncOp>("main"), name, runs_, isBody_));
  std::vector<PartPlace> in, out;
  for (mlir::Value value : inputs) in.push_back(places_.lookup(value));
  for (const Handed& each : handed) out.push_back(each.place);
  return addPart(std::move(program), in, out, {});
}

Status HolderBuilder::addFlow(unsigned k) {
  if (auto loop = dyn_cast<ir::LoopOp>(cut_.flows()[k])) return addLoop(loop);
  return addIf(cast<ir::IfOp>(cut_.flows()[k]));
}

std::string flowName(Operation* op) {
  const std::string name = ir::locationText(op->getLoc());
  return name.empty() ? op->getName().stripDialect().str() : name;
}

/// The function of a body of `op`.
OwningOpRef<ModuleOp> bodyPiece(Operation* op, Region& region, const std::string& name) {
  Block& block = region.front();
  SmallVector<mlir::Value> inputs(block.getArguments()), results(block.getTerminator()->getOperands());
  SmallVector<Operation*> ops;
  for (Operation& inner : block.without_terminator()) ops.push_back(&inner);
  return makePiece(name, op->getLoc(), inputs, ops, results);
}

Status HolderBuilder::addLoop(ir::LoopOp loop) {
  const uint32_t part = nextPart();
  const uint64_t trips = loop.getTrips();
  const std::string name = compiler_.unique(strCat(name_, ".", flowName(loop)));
  Part how;
  how.trips = trips;
  if (loop.getCount()) how.count = places_.lookup(loop.getCount());
  if (loop.getCondition()) how.condition = turning(part, begins_[0], others_[0]);
  const bool isUnbounded = recipe::isUnbounded(how);
  uint64_t runs = 0;
  if (__builtin_mul_overflow(runs_, isUnbounded ? 1 : trips, &runs)) runs = UINT64_MAX;
  OwningOpRef<ModuleOp> piece = bodyPiece(loop, loop.getBody(), name);
  HPU_ASSIGN(std::shared_ptr<Program> program,
             compiler_.compileFunction(piece->lookupSymbol<func::FuncOp>("main"), name, runs, /*isBody=*/true));
  std::vector<PartPlace> in, out;
  size_t changing = 0;
  if (loop.getCondition()) {
    out.push_back(turning(part, others_[0], begins_[0]));
    changing = 1;
  }
  for (mlir::Value result : loop.getFinals()) {
    const PartPlace now = turning(part, begins_[changing], others_[changing]);
    in.push_back(now);
    out.push_back(turning(part, others_[changing], begins_[changing]));
    places_[result] = now;
    ++changing;
  }
  for (auto [i, value] : llvm::enumerate(loop.getScanned()))
    in.push_back(moving(places_.lookup(value), bytesOf(value) / trips, trips, loop.getScannedBackwards()[i]));
  for (mlir::Value value : loop.getCaptured()) in.push_back(places_.lookup(value));
  for (auto [i, value] : llvm::enumerate(loop.getCollected())) {
    places_[value] = homeOf(value);
    out.push_back(moving(places_[value], bytesOf(value) / trips, trips, loop.getCollectedBackwards()[i]));
  }
  compiler_.explain(loop, strCat("a loop on the device, whose body is part '", name, "': ",
                                 isUnbounded              ? "as often as data says"
                                 : recipe::isDecided(how) ? strCat("as often as data says, at most ", trips, " times")
                                                          : strCat(trips, trips == 1 ? " time" : " times")));
  if (isUnbounded)
    compiler_.warn(strCat("'", flowName(loop),
                          "' runs as often as data says, and no bound of that is known: times of the "
                          "model are those of one iteration"));
  return addPart(std::move(program), in, out, std::move(how));
}

Status HolderBuilder::addIf(ir::IfOp branch) {
  std::vector<PartPlace> in, out;
  for (mlir::Value value : branch.getCaptured()) in.push_back(places_.lookup(value));
  for (mlir::Value value : branch.getResults()) {
    places_[value] = homeOf(value);
    out.push_back(places_[value]);
  }
  compiler_.explain(branch, "a branch on the device: one of two parts runs, as data says");
  for (Region* region : {&branch.getThen(), &branch.getOtherwise()}) {
    const bool isThen = region == &branch.getThen();
    const std::string name = compiler_.unique(strCat(name_, ".", flowName(branch), isThen ? ".then" : ".else"));
    OwningOpRef<ModuleOp> piece = bodyPiece(branch, *region, name);
    HPU_ASSIGN(std::shared_ptr<Program> program,
               compiler_.compileFunction(piece->lookupSymbol<func::FuncOp>("main"), name, runs_, /*isBody=*/true));
    Part how;
    how.condition = places_.lookup(branch.getCondition());
    how.conditionInverted = !isThen;
    HPU_RETURN_IF_ERROR(addPart(std::move(program), in, out, std::move(how)));
  }
  return okStatus();
}

Status HolderBuilder::addPart(std::shared_ptr<Program> program, const std::vector<PartPlace>& inputs,
                              const std::vector<PartPlace>& outputs, Part part) {
  const uint32_t number = nextPart();
  if (!program) {  // IR, or an error, is all that is asked for.
    program_->parts.emplace_back();
    return okStatus();
  }
  // Holders among them are in the pool already.
  if (program->parts.empty()) {
    HPU_RETURN_IF_ERROR(compiler_.pool().add(program).status());
  }
  for (uint32_t s = 0; s < program->sections.size(); ++s) {
    const recipe::Section& section = program->sections[s];
    PartPlace place;
    switch (section.kind) {
      case SectionKind::kInput:
        place = inputs[section.binding];
        break;
      case SectionKind::kOutput:
        place = outputs[section.binding];
        break;
      case SectionKind::kConst:
        place.section = constants_;
        break;
      case SectionKind::kWorkspace:
        place = region(section.bytes);
        break;
      case SectionKind::kSram:
        break;
      case SectionKind::kPersistent:
        return internalError("a piece has a state");
    }
    touch(place, number);
    part.sections.push_back(place);
  }
  HPU_RETURN_IF_ERROR(compiler_.count(program->name, program->sections.size()));
  touch(part.count, number);
  touch(part.condition, number);
  part.program = std::move(program);
  program_->parts.push_back(std::move(part));
  return okStatus();
}

void HolderBuilder::finish() {
  const uint64_t bytes = workspace_.place();
  const auto section = static_cast<uint32_t>(program_->sections.size());
  if (workspace_.isUsed()) program_->sections.push_back({SectionKind::kWorkspace, kNone, bytes});
  auto fix = [&](uint32_t& in, uint64_t& offset) {
    if (in == kNone || in < kFirstRegion) return;
    offset += workspace_.offsetOf(in - kFirstRegion);
    in = section;
  };
  bool isWhole = true;
  for (Part& part : program_->parts) {
    isWhole &= part.program != nullptr;
    std::vector<PartPlace*> places = {&part.count, &part.condition};
    for (PartPlace& place : part.sections) places.push_back(&place);
    for (PartPlace* place : places) {
      fix(place->section, place->offset);
      fix(place->oddSection, place->oddOffset);
    }
  }
  if (isWhole)
    program_->estimates = perfmodel::estimateOfParts(*program_);
  else
    program_ = nullptr;
}

}  // namespace

bool hasFlow(ModuleOp module) {
  auto main = module.lookupSymbol<func::FuncOp>("main");
  return main && !main.isExternal() &&
         llvm::any_of(main.getBody().front(), [](Operation& op) { return isa<ir::LoopOp, ir::IfOp>(op); });
}

StatusOr<CompileResult> compileParts(ModuleOp module, const CompileOptions& options, std::shared_ptr<const void> owner,
                                     std::vector<UnsupportedNode>* unsupported) {
  return PartsCompiler(options, std::move(owner), unsupported).run(module);
}

}  // namespace hpu::pipeline
