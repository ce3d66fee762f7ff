// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline/Pipeline.h"

#include <chrono>
#include <cstdio>
#include <map>

#include "arch/TargetDesc.h"
#include "base/File.h"
#include "base/OptionNames.h"
#include "base/StatusMacros.h"
#include "base/Suggest.h"
#include "compiler/dialect/sched/SchedOps.h"
#include "compiler/emit/Emit.h"
#include "compiler/fuse/Fuse.h"
#include "compiler/import/NamedSizes.h"
#include "compiler/kernels/KernelCompiler.h"
#include "compiler/kernels/KernelsPass.h"
#include "compiler/layout/Layout.h"
#include "compiler/memory/Memory.h"
#include "compiler/normalize/Passes.h"
#include "compiler/pipeline/CompileParts.h"
#include "compiler/pipeline/Drafting.h"
#include "compiler/pipeline/LateSizes.h"
#include "compiler/pipeline/LiveSet.h"
#include "compiler/pipeline/LowerBound.h"
#include "compiler/pipeline/NodeTrail.h"
#include "compiler/pipeline/ShapesReport.h"
#include "compiler/pipeline/States.h"
#include "compiler/pipeline/Supported.h"
#include "compiler/precision/KeepList.h"
#include "compiler/precision/Precision.h"
#include "compiler/schedule/Schedule.h"
#include "compiler/support/Cancellation.h"
#include "compiler/support/DiagnosticCapture.h"
#include "compiler/support/Units.h"
#include "compiler/tile/Tile.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"
#include "perfmodel/Timeline.h"

using namespace mlir;

namespace hpu::pipeline {

const std::vector<PhaseEntry>& phases() {
  static const auto& list = *new std::vector<PhaseEntry>{
#define HPU_PHASE(name, text) {Phase::k_##name, #name, text},
#include "compiler/pipeline/Phases.def"
  };
  return list;
}

StatusOr<Phase> parsePhase(const std::string& name) {
  std::string names;
  std::vector<std::string_view> known;
  for (const PhaseEntry& entry : phases()) {
    if (name == entry.name) return entry.phase;
    known.push_back(entry.name);
    names += (names.empty() ? "" : ", ") + std::string(entry.name);
  }
  return invalidArgument("there is no phase '" + name + "'; the phases are " + names + base::didYouMean(name, known));
}

void addNormalize(PassManager& manager, const CompileOptions& options, std::string* summary, std::string* report) {
  normalize::NormalizeOptions normalize;
  normalize.summary = summary;
  normalize.moveViews = options.optLevel >= 1;
  normalize.skipMasked = options.optLevel >= 1;
  normalize.stored = options.precision == Precision::kF32   ? ElementType::kF32
                     : options.precision == Precision::kF16 ? ElementType::kF16
                                                            : ElementType::kBF16;
  if (options.optLevel >= 2) {
    const arch::TargetDesc& target = arch::targetDesc(options.target);
    ElementType type = options.precision == Precision::kF32   ? ElementType::kF32
                       : options.precision == Precision::kF16 ? ElementType::kF16
                       : options.precision == Precision::kFp8 ? target.e4m3Type
                       : isFp8(options.precision)             ? ElementType::kF8E5M2
                                                              : ElementType::kBF16;
    normalize.merge = normalize::MergeOptions{&target, type, report};
  }
  normalize::addNormalizePasses(manager.nest<func::FuncOp>(), normalize);
}

namespace {

using Clock = std::chrono::steady_clock;
double msSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

class PhaseRunner {
 public:
  PhaseRunner(ModuleOp module, const CompileOptions& options, std::shared_ptr<const void> owner,
              std::vector<UnsupportedNode>* unsupported)
      : module_(module),
        options_(options),
        owner_(std::move(owner)),
        unsupported_(unsupported),
        target_(arch::targetDesc(options.target)),
        drafting_(options.target, target_),
        late_(options),
        trail_(options.explain) {}

  StatusOr<CompileResult> run() {
    Phase first = Phase::k_normalize, last = Phase::k_emit;
    if (!options_.startFrom.empty()) {
      HPU_ASSIGN(first, parsePhase(options_.startFrom));
      HPU_RETURN_IF_ERROR(checkInput(first));
    }
    if (!options_.stopAfter.empty()) {
      HPU_ASSIGN(last, parsePhase(options_.stopAfter));
    }
    // Phases are about straight code (CompileParts.h).
    if (hasFlow(module_) && last > Phase::k_import)
      return unimplemented(
          "loops and branches of the device (hpu.loop, hpu.if) are compiled as programs of their own, "
          "and this takes a model that is one program; " +
          base::optionName("unrollLimit") + " 8192 unrolls what can be");
    for (const std::string& report : options_.reports) result_.reports[report];
    if (first <= Phase::k_precision) HPU_RETURN_IF_ERROR(precision::checkKeepList(module_, options_.keepF32));
    // Of IR that is fused already, the live set is that of its units.
    if (auto function = module_.lookupSymbol<func::FuncOp>("main"); function && first > Phase::k_precision)
      result_.stats.largestLiveSetBytes = largestLiveSetBytes(function);
    // A graph comes imported to this.
    if (options_.startFrom.empty() || first <= Phase::k_import) HPU_RETURN_IF_ERROR(dump(Phase::k_import));
    if (auto text = result_.reports.find("shapes"); text != result_.reports.end() && first <= Phase::k_normalize)
      if (auto function = module_.lookupSymbol<func::FuncOp>("main")) text->second = shapesReport(function);
    if (explains()) {
      HPU_RETURN_IF_ERROR(trail_.begin(module_));
      trail_.record(Phase::k_import, module_, "");
    }
    HPU_RETURN_IF_ERROR(late_.begin(module_, first));
    if (!options_.states.empty() && first > Phase::k_normalize)
      return invalidArgument(base::optionName("states") + ": the IR of a later phase (" +
                             base::optionName("startFrom") +
                             ") has the states that it was compiled with; leave it out");
    if (auto function = module_.lookupSymbol<func::FuncOp>("main"); function && first <= Phase::k_normalize)
      HPU_RETURN_IF_ERROR(bindStates(function, options_.states));
    for (const PhaseEntry& entry : phases()) {
      if (entry.phase == Phase::k_import || entry.phase < first || entry.phase > last) continue;
      auto start = Clock::now();
      summary_.clear();
      Status status = runPhase(entry);
      // Whatever else was wrong: what was left half done is no news.
      if (support::isCancelled()) return support::cancelledStatus().withContext(std::string("phase ") + entry.name);
      HPU_RETURN_IF_ERROR(status);
      if (explains()) trail_.record(entry.phase, module_, reportOf(entry.phase));
      PhaseInfo info{entry.name, msSince(start), summary_};
      result_.stats.phases.push_back(info);
      if (options_.onPhase) options_.onPhase(info);
      HPU_RETURN_IF_ERROR(dump(entry.phase));
    }
    if (late_.isUsed())
      if (auto text = result_.reports.find("shapes"); text != result_.reports.end())
        if (auto function = module_.lookupSymbol<func::FuncOp>("main")) text->second = shapesReport(function);
    if (!options_.stopAfter.empty()) {
      llvm::raw_string_ostream stream(result_.ir);
      module_.print(stream, printFlags(options_.irConstants));
    }
    timeReport();
    if (explains()) {
      result_.explainedNode = trail_.node();
      result_.explanation = trail_.take();
    }
    return std::move(result_);
  }

 private:
  bool explains() const { return !options_.explain.empty(); }

  /// Where a phase writes its report: null when nobody reads it.
  std::string* report(const char* name) {
    auto found = result_.reports.find(name);
    if (found != result_.reports.end()) return &found->second;
    return explains() ? &unasked_[name] : nullptr;
  }
  std::string reportOf(Phase phase) {
    const char* name = phase == Phase::k_fuse     ? "fusion"
                       : phase == Phase::k_layout ? "layout"
                       : phase == Phase::k_tile   ? "tile"
                       : phase == Phase::k_memory ? "memory"
                                                  : nullptr;
    std::string* text = name ? report(name) : nullptr;
    return text ? *text : "";
  }

  Status runPhase(const PhaseEntry& entry) {
    if (support::isCancelled()) return support::cancelledStatus();
    if (entry.phase == Phase::k_tile && late_.isUsed())
      HPU_RETURN_IF_ERROR(late_.bind(
          module_, [&](OpPassManager& functions) { functions.addPass(tile::createTilePass(tileOptions())); }));
    if (entry.phase == Phase::k_emit) return emitRecipe();
    PassManager manager(module_.getContext());
    // Passes may lose names of sizes, and with these the types of returned values, until the phase is over.
    const bool isNamed = late_.isUsed();
    manager.enableVerifier(!isNamed || entry.phase > Phase::k_layout);
    addPasses(entry.phase, manager);
    ir::DiagnosticCapture diagnostics(module_.getContext());
    if (failed(manager.run(module_)))
      return diagnostics.status(StatusCode::kInternal, std::string("phase ") + entry.name);
    if (isNamed && entry.phase <= Phase::k_layout) {
      HPU_RETURN_IF_ERROR(importer::nameSizes(module_).withContext(std::string("phase ") + entry.name));
      if (failed(mlir::verify(module_)))
        return diagnostics.status(StatusCode::kInternal, std::string("phase ") + entry.name);
    }
    if (entry.phase == Phase::k_tile && late_.isUsed()) late_.recordTiles(module_);
    // Long before code is made for a program that cannot be loaded.
    if (entry.phase == Phase::k_memory) return checkCapacity(memory_.hbm);
    auto function = module_.lookupSymbol<func::FuncOp>("main");
    if (!function) return okStatus();
    // Before types change, and with those that the compiler chose.
    if (entry.phase == Phase::k_normalize) return checkSupported(function, target_, unsupported_);
    if (entry.phase != Phase::k_precision) return okStatus();
    if (options_.precision != Precision::kF32) narrowStates(function);
    OwningOpRef<ModuleOp> sized;
    if (late_.isUsed()) {  // Of the sizes that the rest is chosen for, not of the representatives.
      HPU_ASSIGN(sized, late_.sized(module_));
    }
    auto measured = sized ? sized->lookupSymbol<func::FuncOp>("main") : function;
    measureBound(measured);
    result_.stats.largestLiveSetBytes = largestLiveSetBytes(measured);
    return checkSupported(function, target_, unsupported_);
  }

  static bool hasCode(sched::ProgramOp program) {
    return program.getOps<sched::KernelOp>().empty() || !program.getOps<sched::CodeOp>().empty();
  }

  /// A phase that has run already on the IR, by the form that it leaves: with what is fused no earlier phase begins,
  /// and with a program only what comes after it.
  Status checkNotPast(Phase first) {
    const PhaseEntry& start = phases()[static_cast<int>(first)];
    const char *what = nullptr, *left = nullptr;
    if (auto program = module_.lookupSymbol<sched::ProgramOp>("main")) {
      const bool compiled = hasCode(program) && !program.getOps<sched::CodeOp>().empty();
      if (first > Phase::k_kernels || (first == Phase::k_kernels && !compiled)) return okStatus();
      what = compiled ? "a program with compiled kernels" : "a program";
      left = compiled ? "kernels" : "schedule";
    } else if (auto function = module_.lookupSymbol<func::FuncOp>("main"); function && first <= Phase::k_fuse) {
      const bool fused = llvm::any_of(function.getOps(), [](Operation& op) { return ir::isUnit(&op); });
      if (!fused) return okStatus();
      what = "a function of units";
      left = "fuse or a later phase";
    }
    if (!what) return okStatus();
    return invalidArgument(base::optionValue("startFrom", start.name) + ": the file is " + what + ", which phase " +
                           left + " leaves; start from a later phase, or give the IR of an earlier one (" +
                           base::optionName("stopAfter") + ")");
  }

  /// IR to start from in the middle must have the post-condition of the phase before.
  Status checkInput(Phase first) {
    HPU_RETURN_IF_ERROR(checkNotPast(first));
    if (first <= Phase::k_normalize) return okStatus();
    const PhaseEntry &before = phases()[static_cast<int>(first) - 1], &start = phases()[static_cast<int>(first)];
    PassManager manager(module_.getContext());
    OpPassManager& functions = manager.nest<func::FuncOp>();
    bool isProgram = before.phase >= Phase::k_schedule;
    if (before.phase >= Phase::k_fuse && !isProgram) functions.addPass(fuse::createVerifyFusedPass());
    if (before.phase >= Phase::k_layout && !isProgram) functions.addPass(layout::createVerifyLayoutPass());
    if (before.phase == Phase::k_normalize) functions.addPass(normalize::createVerifyNormalizedPass());
    if (before.phase == Phase::k_tile) functions.addPass(tile::createVerifyTilePass(&target_));
    if (before.phase == Phase::k_memory) functions.addPass(memory::createVerifyMemoryPass(target_.sramBytes));
    if (isProgram) manager.addPass(schedule::createVerifySchedulePass());
    ir::DiagnosticCapture diagnostics(module_.getContext());
    bool bad = failed(manager.run(module_)) || !module_.lookupSymbol("main");
    std::string why = bad ? diagnostics.status(StatusCode::kInvalidArgument, "").message() : "";
    auto program = module_.lookupSymbol<sched::ProgramOp>("main");
    if (before.phase == Phase::k_kernels && program && !hasCode(program)) {
      bad = true;
      why = "its kernels are not compiled";
    }
    if (!bad) return okStatus();
    return invalidArgument(base::optionValue("startFrom", start.name) + " needs the IR that phase " + before.name +
                           " leaves (" + base::optionValue("stopAfter", before.name) + "): " + why);
  }

  void addPasses(Phase phase, PassManager& manager) {
    bool optimize = options_.optLevel >= 1;
    OpPassManager& functions = manager.nest<func::FuncOp>();
    switch (phase) {
      case Phase::k_normalize:
        addNormalize(manager, options_, &summary_, report("fusion"));
        return;
      case Phase::k_precision:
        precision::addPrecisionPasses(functions, {.precision = options_.precision,
                                                  .target = &target_,
                                                  .keepF32 = options_.keepF32,
                                                  .ranges = options_.ranges,
                                                  .report = report("precision"),
                                                  .summary = &summary_});
        return;
      case Phase::k_fuse: {
        fuse::FuseOptions fuse;
        fuse.group = optimize;
        fuse.canFormKernel = [](ArrayRef<Operation*> ops, std::string* why) {
          return !support::isCancelled() && kernels::canFormKernel(ops, why);
        };
        fuse.report = report("fusion");
        fuse.summary = &summary_;
        if (optimize) functions.addPass(fuse::createSplitReductionsPass());
        if (optimize) functions.addPass(fuse::createSplitOrdersPass(target_.numTpcs));
        functions.addPass(fuse::createFusePass(fuse));
        functions.addPass(fuse::createVerifyFusedPass());
        return;
      }
      case Phase::k_layout:
        functions.addPass(layout::createLayoutPass({options_.optLevel >= 1, report("layout"), &summary_}));
        functions.addPass(layout::createVerifyLayoutPass());
        return;
      case Phase::k_tile:
        functions.addPass(tile::createTilePass(tileOptions(report("tile"), &summary_)));
        functions.addPass(tile::createVerifyTilePass(&target_));
        return;
      case Phase::k_memory:
        functions.addPass(
            memory::createMemoryPass({optimize, target_.sramBytes, target_.hbmBytes, result_.stats.largestLiveSetBytes,
                                      &memory_, report("memory"), &summary_}));
        functions.addPass(memory::createVerifyMemoryPass(target_.sramBytes));
        return;
      case Phase::k_schedule:
        manager.addPass(schedule::createSchedulePass(
            {.target = &target_,
             .draft = [this](sched::ProgramOp program) { return drafting_.draft(program); },
             .reorder = options_.optLevel >= 2,
             .report = report("schedule"),
             .summary = &summary_}));
        manager.addPass(schedule::createVerifySchedulePass());
        return;
      case Phase::k_kernels:
        manager.addPass(kernels::createKernelsPass(
            {options_.cpu, options_.optLevel, &summary_, late_.isUsed() ? &late_.kernels : nullptr}));
        return;
      case Phase::k_import:
      case Phase::k_emit:
        return;
    }
  }

  tile::TileOptions tileOptions(std::string* report = nullptr, std::string* summary = nullptr) {
    return {.slice = options_.optLevel >= 2,
            .target = &target_,
            .draft = [this](func::FuncOp function) { return drafting_.draft(function); },
            .effort = options_.searchEffort,
            .report = report,
            .summary = summary};
  }

  Status checkCapacity(const memory::HbmNeeds& needs) const {
    return memory::checkCapacity(needs, target_.hbmBytes, targetName(options_.target));
  }

  void measureBound(func::FuncOp function) {
    LowerBound bound = lowerBound(function, target_);
    CompileStats& stats = result_.stats;
    stats.lowerBoundUs = bound.us();
    stats.lowerBoundMmeUs = bound.mmeUs;
    stats.lowerBoundTpcUs = bound.tpcUs;
    stats.lowerBoundHbmUs = bound.hbmUs;
    stats.lowerBoundBytes = static_cast<int64_t>(bound.hbmBytes);
    stats.macs = static_cast<int64_t>(std::min(bound.macs, 9e18));
  }

  Status emitRecipe() {
    emit::EmitOptions emit;
    emit.target = options_.target;
    emit.checkSchedule = options_.checkSchedule;
    recipe::KernelReads reads;
    if (auto source = module_.lookupSymbol<sched::ProgramOp>("main")) {
      HPU_ASSIGN(schedule::Draft draft, drafting_.draft(source));
      reads = std::move(draft.reads);
      emit.reads = &reads;
    }
    if (auto name = module_->getAttrOfType<StringAttr>("hpu.model")) emit.name = name.str();
    HPU_ASSIGN(std::shared_ptr<recipe::Program> program, emit::emitProgram(module_, emit, owner_));
    if (late_.isUsed()) HPU_RETURN_IF_ERROR(late_.complete(module_, target_, *program));
    HPU_RETURN_IF_ERROR(checkCapacity(hbmNeedsOf(*program)));
    const arch::ClockProfile& clock = target_.clock();
    std::vector<perfmodel::TimedQueue> queues = perfmodel::timedQueues(*program, target_, clock);
    perfmodel::TimedLaunch launch;
    launch.queues = &queues;
    launch.numSignals = program->numSignals;
    HPU_ASSIGN(perfmodel::TimelineResult timeline, perfmodel::simulate(target_, clock, {launch}));
    CompileStats& stats = result_.stats;
    stats.deviceTimeUs = timeline.end / 1e6;
    stats.workspaceBytes = hbmNeedsOf(*program).workspace;
    stats.sramPeakBytes = memory_.sramPeakBytes;
    program->estimates = {stats.deviceTimeUs, stats.lowerBoundUs, static_cast<uint64_t>(stats.largestLiveSetBytes),
                          static_cast<uint64_t>(memory_.sramPeakBytes)};
    for (int engine = 0; engine < kNumEngines; ++engine) busyUs_[engine] = timeline.busy[engine] / 1e6;
    commands_ = 0;
    for (const recipe::Queue& queue : program->queues) commands_ += queue.commands.size();
    if (auto text = result_.reports.find("shapes"); text != result_.reports.end() && program->dynamic)
      text->second += lateSizesReport(*program);
    result_.recipe = Recipe(std::move(program));
    summary_ = std::to_string(commands_) + " commands verified";
    return okStatus();
  }

  void timeReport() {
    auto found = result_.reports.find("time");
    if (found == result_.reports.end()) return;
    std::string* text = &found->second;
    char line[160];
    snprintf(line, sizeof line, "device time %.2f us (modelled), lower bound %.2f us\n", result_.stats.deviceTimeUs,
             result_.stats.lowerBoundUs);
    *text += line;
    for (int engine = 0; engine < 3; ++engine) {
      snprintf(line, sizeof line, "%s busy %.2f us (%.1f %%)\n", std::string(engineName(Engine(engine))).c_str(),
               busyUs_[engine], 100 * busyUs_[engine] / std::max(result_.stats.deviceTimeUs, 1e-9));
      *text += line;
    }
    for (const PhaseInfo& phase : result_.stats.phases) {
      snprintf(line, sizeof line, "compile %-10s %8.1f ms\n", phase.name.c_str(), phase.ms);
      *text += line;
    }
  }

  static OpPrintingFlags printFlags(bool constants) {
    constexpr int64_t kLargeElements = 256, kLargeResource = 1024;  // Hexadecimal digits, of the latter.
    OpPrintingFlags flags;
    flags.enableDebugInfo(true, false);
    if (!constants) {
      flags.elideLargeElementsAttrs(kLargeElements);
      flags.elideLargeResourceString(kLargeResource);
    }
    return flags;
  }

  /// DIR/03-fuse.mlir, numbered as in Phases.def.
  Status dump(Phase phase) {
    if (options_.dumpDir.empty()) return okStatus();
    char name[64];
    snprintf(name, sizeof name, "/%02d-%s.mlir", static_cast<int>(phase), phases()[static_cast<int>(phase)].name);
    std::string text;
    llvm::raw_string_ostream stream(text);
    module_.print(stream, printFlags(options_.dumpConstants));
    return base::writeFileAtomic(options_.dumpDir + name, text);
  }

  ModuleOp module_;
  const CompileOptions& options_;
  std::shared_ptr<const void> owner_;
  std::vector<UnsupportedNode>* unsupported_;
  const arch::TargetDesc& target_;
  Drafting drafting_;
  memory::MemoryStats memory_;
  LateSizes late_;
  NodeTrail trail_;
  std::map<std::string, std::string> unasked_;  ///< Reports that only the trail reads.
  CompileResult result_;
  std::string summary_;
  double busyUs_[kNumEngines] = {};
  size_t commands_ = 0;
};

}  // namespace

memory::HbmNeeds hbmNeedsOf(const recipe::Program& program) {
  memory::HbmNeeds needs;
  for (const recipe::Section& section : program.sections) {
    auto bytes = static_cast<int64_t>(section.bytes);
    if (section.kind == recipe::SectionKind::kConst) needs.weights += bytes;
    if (section.kind == recipe::SectionKind::kWorkspace) needs.workspace += bytes;
    // A state's memory is its output's.
    if (section.kind == recipe::SectionKind::kInput && !recipe::stateOf(program, section)) needs.inputs += bytes;
    if (section.kind == recipe::SectionKind::kOutput) needs.outputs += bytes;
  }
  return needs;
}

StatusOr<CompileResult> runPipeline(ModuleOp module, const CompileOptions& options, std::shared_ptr<const void> owner,
                                    std::vector<UnsupportedNode>* unsupported) {
  return PhaseRunner(module, options, std::move(owner), unsupported).run();
}

}  // namespace hpu::pipeline
