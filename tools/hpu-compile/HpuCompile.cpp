// SPDX-License-Identifier: Apache-2.0
// hpu-compile: a model in, a recipe out.
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "arch/TargetDesc.h"
#include "base/File.h"
#include "base/Format.h"
#include "base/StatusMacros.h"
#include "hpu/compiler.h"
#include "recipe/Signature.h"
#include "tools/common/Calibrate.h"
#include "tools/common/Cli.h"
#include "tools/common/CompileFigures.h"
#include "tools/common/CompileFlags.h"
#include "tools/common/Interrupt.h"
#include "tools/common/ModelFile.h"
#include "tools/common/OutputCheck.h"
#include "tools/common/Session.h"
#include "tools/hpu-compile/DeviceTime.h"
#include "tools/hpu-compile/EstimateGemm.h"
#include "tools/hpu-compile/Explain.h"
#include "tools/hpu-compile/Inspect.h"
#include "tools/hpu-compile/Reports.h"

namespace hpu::tools {
namespace {

struct Arguments {
  std::string model, output, stopAfter, startFrom, dumpDir, explain, estimateGemm, clock, signKey, makeKey;
  std::vector<std::string> reports;
  bool listOps = false, listTargets = false, listPhases = false, dumpConstants = false, inspect = false;
  CompileFlags flags;
};

std::string format(const char* pattern, double value) {
  char text[64];
  snprintf(text, sizeof text, pattern, value);
  return text;
}

ExitCode listOps(Tool& tool) {
  Json& list = tool.json()["ops"] = Json::array();
  for (const std::string& op : supportedOnnxOps()) {
    tool.printAlways(op);
    list.append(op);
  }
  return ExitCode::kOk;
}

ExitCode listPhases(Tool& tool) {
  Json& list = tool.json()["phases"] = Json::array();
  for (const std::string& phase : phaseNames()) {
    tool.printAlways(phase);
    list.append(phase);
  }
  return ExitCode::kOk;
}

ExitCode listTargets(Tool& tool) {
  Table table({Column::word("target"), Column::number("bf16 TFLOPS"), Column::number("f32 TFLOPS"),
               Column::number("TPCs"), Column::number("SRAM"), Column::number("HBM"), Column::number("HBM GB/s"),
               Column::text("clocks")});
  Json& list = tool.json()["targets"] = Json::array();
  for (Target target : {Target::kGaudi1, Target::kGaudi2, Target::kGaudi3}) {
    const arch::TargetDesc& desc = arch::targetDesc(target);
    double bf16 = desc.mmePeakTflops(desc.clock(), ElementType::kBF16);
    double f32 = desc.mmePeakTflops(desc.clock(), ElementType::kF32);
    std::vector<std::string> clocks;
    Json clockList = Json::array();
    for (const arch::ClockProfile& clock : desc.clocks) {
      clocks.emplace_back(clock.name);
      clockList.append(clock.name);
    }
    table.row({std::string(targetName(target)), format("%.1f", bf16), format("%.1f", f32), std::to_string(desc.numTpcs),
               base::formatBytes(desc.sramBytes), base::formatBytes(desc.hbmBytes), format("%.0f", desc.hbmBytesPerNs),
               base::join(clocks)});
    list.append(Json()
                    .set("name", targetName(target))
                    .set("bf16_tflops", bf16)
                    .set("f32_tflops", f32)
                    .set("tpcs", desc.numTpcs)
                    .set("sram_bytes", desc.sramBytes)
                    .set("hbm_bytes", desc.hbmBytes)
                    .set("hbm_GBps", desc.hbmBytesPerNs)
                    .set("clocks", clockList));
  }
  tool.printAlways(table);
  return ExitCode::kOk;
}

std::string recipePath(const Arguments& arguments) {
  return arguments.output.empty() ? stemOf(arguments.model) + ".recipe" : arguments.output;
}

/// The files of --dump-phases.
std::vector<std::string> dumpPaths(const Arguments& arguments) {
  std::vector<std::string> paths;
  if (arguments.dumpDir.empty()) return paths;
  const std::vector<std::string> phases = phaseNames();
  bool dumped = arguments.startFrom.empty();
  for (size_t i = 0; i < phases.size(); ++i) {
    dumped |= phases[i] == arguments.startFrom;
    char name[64];
    snprintf(name, sizeof name, "/%02zu-%s.mlir", i, phases[i].c_str());
    if (dumped) paths.push_back(arguments.dumpDir + name);
    if (phases[i] == arguments.stopAfter) break;
  }
  return paths;
}

/// No output is one of the inputs, nor are two of them one.
Status checkFiles(Tool& tool, const Arguments& arguments) {
  HPU_RETURN_IF_ERROR(protectModel(tool, arguments.model));
  if (arguments.output.empty() && arguments.stopAfter.empty()) HPU_RETURN_IF_ERROR(tool.writes(recipePath(arguments)));
  for (const std::string& path : dumpPaths(arguments)) HPU_RETURN_IF_ERROR(tool.writes(path));
  return okStatus();
}

/// The folder and files of --dump-phases, so that an interrupted run does not leave some of them.
class Dumps {
 public:
  /// Makes the folder if it is not there.
  static StatusOr<Dumps> open(const Arguments& arguments) {
    Dumps dumps;
    if (arguments.dumpDir.empty()) return dumps;
    std::error_code error;
    dumps.madeFolder_ = std::filesystem::create_directories(arguments.dumpDir, error);
    if (error) return invalidArgument("--dump-phases: cannot make '" + arguments.dumpDir + "': " + error.message());
    dumps.folder_ = arguments.dumpDir;
    for (const std::string& path : dumpPaths(arguments)) dumps.before_.emplace_back(path, inodeOf(path));
    return dumps;
  }
  /// What this run wrote: a dump is renamed to its path, so the path has another file than before.
  void remove() const {
    for (const auto& [path, inode] : before_)
      if (inodeOf(path) != inode) ::unlink(path.c_str());
    std::error_code ignored;
    if (madeFolder_) std::filesystem::remove(folder_, ignored);  // When nothing else is in it.
  }

 private:
  /// 0: nothing is there.
  static ino_t inodeOf(const std::string& path) {
    struct stat info = {};
    return ::stat(path.c_str(), &info) == 0 ? info.st_ino : 0;
  }
  std::string folder_;
  bool madeFolder_ = false;
  std::vector<std::pair<std::string, ino_t>> before_;
};

/// Writes the recipe, or the IR of a partial run.
Status writeResult(Tool& tool, const Arguments& arguments, const Interrupt& interrupt, CompileResult& result) {
  if (!result.recipe.valid()) {
    if (arguments.output.empty()) {
      tool.printAsIsAlways(result.ir);
      return okStatus();
    }
    HPU_ASSIGN(const AwaitedReader reader, AwaitedReader::of(arguments.output, interrupt));
    tool.json().set("ir", arguments.output);
    return base::writeFileAtomic(arguments.output, result.ir);
  }
  if (!arguments.signKey.empty()) {
    HPU_ASSIGN(result.recipe, result.recipe.signedWith(arguments.signKey));
    tool.json().set("signer", result.recipe.signer());
  }
  const std::string path = recipePath(arguments);
  HPU_ASSIGN(const AwaitedReader reader, AwaitedReader::of(path, interrupt));
  HPU_RETURN_IF_ERROR(result.recipe.save(path));
  std::error_code error;
  uintmax_t bytes = std::filesystem::file_size(path, error);
  result.stats.recipeBytes = error ? 0 : static_cast<int64_t>(bytes);  // A device has no size.
  tool.json().set("recipe", path);
  const std::string shown = path == "/dev/stdout" ? "recipe" : path;
  const CompileStats& stats = result.stats;
  tool.print(base::strCat(shown, ": ", targetName(result.recipe.target()), ", ", arguments.flags.precision,
                          stats.recipeBytes ? ", " + base::formatBytes(stats.recipeBytes) : "",
                          stats.cacheHit ? ", from the cache" : ""));
  tool.print(
      (base::strCat("  device time ", format("%.1f", stats.deviceTimeUs), " us (modelled; lower bound ",
                    format("%.1f", stats.lowerBoundUs), " us), workspace ", base::formatBytes(stats.workspaceBytes),
                    " (largest live set ", base::formatBytes(stats.largestLiveSetBytes), "), SRAM peak ",
                    base::formatBytes(stats.sramPeakBytes))));
  tool.print(base::strCat("  compiled in ", format("%.0f", stats.compileMs), " ms"));
  return okStatus();
}

StatusOr<ExitCode> compileModel(Tool& tool, const Arguments& arguments) {
  HPU_ASSIGN(CompileOptions options, arguments.flags.options(tool));
  if (tool.given("--explain") && arguments.explain.empty())
    return invalidArgument("--explain '' is not the name of a node of the model");
  options.stopAfter = arguments.stopAfter;
  options.startFrom = arguments.startFrom;
  options.dumpDir = arguments.dumpDir;
  options.reports = arguments.reports;
  options.explain = arguments.explain;
  if (arguments.output.empty() && arguments.stopAfter.empty())
    HPU_RETURN_IF_ERROR(checkWritableFile("--output", recipePath(arguments)));
  if (!options.dumpDir.empty()) HPU_RETURN_IF_ERROR(checkWritableFolder("--dump-phases", options.dumpDir));
  if (!arguments.signKey.empty()) HPU_RETURN_IF_ERROR(recipe::checkSecretKey(arguments.signKey));
  HPU_ASSIGN(const bool isRecipe, isRecipeFile(arguments.model));
  if (isRecipe)
    return invalidArgument("'" + arguments.model + "' is a recipe already (hpu-run runs it); give the model");
  HPU_ASSIGN(const Dumps dumps, Dumps::open(arguments));
  HPU_RETURN_IF_ERROR(checkFiles(tool, arguments));
  options.dumpConstants = arguments.dumpConstants;
  // For another run of the compiler it must be whole; nobody reads megabytes of digits.
  options.irConstants = arguments.dumpConstants || !arguments.output.empty() || !isatty(STDOUT_FILENO);
  const Interrupt interrupt("ending the compilation", tool.quiet());
  options.isCancelled = [&] { return interrupt.signal() != 0; };
  auto compiled = [&]() -> StatusOr<CompileResult> {
    HPU_RETURN_IF_ERROR(calibrateIfAsked(tool, arguments.flags, arguments.model, options));
    return compileWithProgress(tool, arguments.model, options);
  };
  StatusOr<CompileResult> result = compiled();
  const bool cancelled = result.ok() || result.status().code() == StatusCode::kCancelled;
  if (interrupt.signal() != 0 && cancelled) {
    dumps.remove();
    return endInterrupted(tool, interrupt.signal(), "; nothing was written");
  }
  if (!result.ok()) return result.status();
  if (Status written = writeResult(tool, arguments, interrupt, *result); written.code() == StatusCode::kCancelled) {
    dumps.remove();
    return endInterrupted(tool, interrupt.signal(), "; nothing was written: " + written.message());
  } else if (!written.ok()) {
    return written;
  }
  addFigures(tool.json(), *result);
  if (tool.jsonMode() && result->recipe.valid()) HPU_RETURN_IF_ERROR(addDeviceTime(tool.json(), result->recipe));
  for (const std::string& name : arguments.reports) {
    const std::string& text = result->reports[name];
    tool.printAlways(base::strCat("\n== ", name, " ==\n", tool.verbose() ? text : condensed(text)));
    tool.json()["reports"].set(name, text);
  }
  if (!arguments.explain.empty()) explainNode(tool, *result);
  // One that came later: what was asked for is there, but a shell's loop shall end.
  if (interrupt.signal() != 0) return endInterrupted(tool, interrupt.signal(), " when the work was done");
  return ExitCode::kOk;
}

StatusOr<ExitCode> inspect(Tool& tool, const Arguments& arguments) {
  for (const char* other :
       {"--output", "--stop-after", "--start-from", "--dump-phases", "--report", "--explain", "--sign"})
    if (tool.given(other)) return invalidArgument(base::strCat("--inspect writes no recipe and takes no ", other));
  HPU_ASSIGN(CompileOptions options, arguments.flags.options(tool));
  HPU_ASSIGN(const bool isRecipe, isRecipeFile(arguments.model));
  if (isRecipe) return invalidArgument("'" + arguments.model + "' is a recipe; --inspect takes the model");
  const Interrupt interrupt("ending the inspection", tool.quiet());
  options.isCancelled = [&] { return interrupt.signal() != 0; };
  StatusOr<ExitCode> code = inspectModel(tool, arguments.model, options);
  if (interrupt.signal() != 0) return endInterrupted(tool, interrupt.signal(), "");
  return code;
}

StatusOr<ExitCode> run(Tool& tool, const Arguments& arguments) {
  if (arguments.listOps) return listOps(tool);
  if (arguments.listTargets) return listTargets(tool);
  if (arguments.listPhases) return listPhases(tool);
  if (!arguments.estimateGemm.empty()) {
    HPU_ASSIGN(Target target, parseTarget(arguments.flags.target));
    return estimateGemm(tool, arguments.estimateGemm, target, arguments.clock);
  }
  if (!arguments.makeKey.empty()) {
    HPU_RETURN_IF_ERROR(Recipe::makeSigningKey(arguments.makeKey));
    tool.print(arguments.makeKey + ": the secret key, for --sign; " + arguments.makeKey +
               ".pub: the public one, a line for the file that HPU_RECIPE_KEYS names");
    return ExitCode::kOk;
  }
  if (!arguments.clock.empty()) return invalidArgument("--clock is for --estimate-gemm");
  if (arguments.model.empty()) return invalidArgument("no model was given (see 'hpu-compile --help')");
  if (arguments.inspect) return inspect(tool, arguments);
  return compileModel(tool, arguments);
}

}  // namespace
}  // namespace hpu::tools

int main(int argc, char** argv) {
  using namespace hpu::tools;
  Tool tool("hpu-compile", "Compiles a model (ONNX, or MLIR in the hpu dialect) to a recipe.");
  Arguments arguments;
  tool.addPositional("MODEL", arguments.model, "The model: .onnx, or .mlir/.mlirbc in the hpu dialect", false);
  tool.readsFiles("MODEL");
  tool.addOption("-o,--output", arguments.output,
                 "The recipe to write, - for stdout (default: the model's name with .recipe)");
  tool.writesFile("--output", arguments.output, [&] { return !arguments.stopAfter.empty(); });
  tool.addOption("--sign", arguments.signKey, "Sign the recipe with this secret key (see --make-key, HPU_RECIPE_KEYS)");
  tool.addOption("--make-key", arguments.makeKey,
                 "Make a key for --sign: the secret one in this file, the public one beside it");
  tool.readsFiles("--sign");
  tool.setEnvironment({"all", "compiler", "HPU_SIM_CLOCK", "HPU_RECIPE_KEYS"});
  tool.setFooter("--calibrate runs the model on a device and reads the settings of hpu-run, too.");
  arguments.flags.addTo(tool);
  tool.addOption("--stop-after", arguments.stopAfter, "Stop after this phase and write the IR (see --list-phases)");
  tool.addOption("--start-from", arguments.startFrom, "MODEL is the IR of an earlier phase; start with this one");
  tool.addOption("--dump-phases", arguments.dumpDir,
                 "Write the IR after every phase into this folder, without large constants");
  tool.addFlag("--dump-constants", arguments.dumpConstants,
               "Write large constants, too, so that --start-from can go on from a dump");
  tool.addOption("--report", arguments.reports,
                 "Reports to print: shapes, precision, fusion, layout, tile, memory, schedule, time", ',');
  tool.addOption("--explain", arguments.explain,
                 "What each phase and the device make of a node of the model, by its name");
  tool.addFlag(
      "--inspect", arguments.inspect,
      "Print inputs, outputs, ops, weights, what does not compile, and the expected cost of MODEL; write nothing");
  tool.addFlag("--list-ops", arguments.listOps, "List the ONNX ops that compile");
  tool.addFlag("--list-targets", arguments.listTargets, "List the targets");
  tool.addFlag("--list-phases", arguments.listPhases, "List the phases of the compiler in order");
  tool.addOption("--estimate-gemm", arguments.estimateGemm,
                 "Price one GEMM by the performance model: [BATCHx]MxKxN:dtype, A is MxK, B is KxN");
  tool.addOption("--clock", arguments.clock,
                 "Clock profile of --estimate-gemm (see --list-targets; default: HPU_SIM_CLOCK)");
  return tool.run(argc, argv, [&] { return run(tool, arguments); });
}
