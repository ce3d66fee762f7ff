// SPDX-License-Identifier: Apache-2.0
// hpu-compile: a model in, a recipe out.
#include <cstdio>
#include <filesystem>

#include "arch/TargetDesc.h"
#include "base/File.h"
#include "base/Format.h"
#include "base/StatusMacros.h"
#include "hpu/compiler.h"
#include "tools/common/Calibrate.h"
#include "tools/common/Cli.h"
#include "tools/common/CompileFlags.h"
#include "tools/common/ModelFile.h"
#include "tools/hpu-compile/DeviceTime.h"
#include "tools/hpu-compile/EstimateGemm.h"
#include "tools/hpu-compile/Explain.h"
#include "tools/hpu-compile/Reports.h"

namespace hpu::tools {
namespace {

struct Arguments {
  std::string model, output, stopAfter, startFrom, dumpDir, explain, estimateGemm, clock, signKey, makeKey;
  std::vector<std::string> reports;
  bool listOps = false, listTargets = false, listPhases = false;
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
  std::vector<std::vector<std::string>> rows = {
      {"target", "bf16 TFLOPS", "f32 TFLOPS", "TPCs", "SRAM", "HBM", "HBM GB/s", "clocks"}};
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
    rows.push_back({std::string(targetName(target)), format("%.1f", bf16), format("%.1f", f32),
                    std::to_string(desc.numTpcs), base::formatBytes(desc.sramBytes), base::formatBytes(desc.hbmBytes),
                    format("%.0f", desc.hbmBytesPerNs), base::join(clocks)});
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
  tool.printAlways(formatTable(rows));
  return ExitCode::kOk;
}

void addStats(Json& json, const CompileResult& result) {
  const CompileStats& stats = result.stats;
  json.set("compile_ms", stats.compileMs);
  Json& phases = json["phases"] = Json::array();
  for (const PhaseInfo& phase : stats.phases)
    phases.append(Json().set("name", phase.name).set("ms", phase.ms).set("summary", phase.summary));
  json.set("recipe_bytes", stats.recipeBytes);
  json.set("workspace_bytes", stats.workspaceBytes);
  json.set("largest_live_set_bytes", stats.largestLiveSetBytes);
  json.set("sram_peak_bytes", stats.sramPeakBytes);
  json.set("device_time_us", stats.deviceTimeUs);
  json.set("lower_bound_us", stats.lowerBoundUs);
  // A recipe from the cache does not know the parts.
  if (!stats.cacheHit) {
    json.set("lower_bound_parts_us", Json::object()
                                         .set("mme", stats.lowerBoundMmeUs)
                                         .set("tpc", stats.lowerBoundTpcUs)
                                         .set("hbm", stats.lowerBoundHbmUs));
    json.set("lower_bound_bytes", stats.lowerBoundBytes);
  }
  json.set("cache_hit", stats.cacheHit);
  json.set("unsupported", Json::array());
}

/// Writes the recipe, or the IR of a partial run.
Status writeResult(Tool& tool, const Arguments& arguments, CompileResult& result) {
  if (!result.recipe.valid()) {
    if (arguments.output.empty()) {
      tool.printAlways(result.ir);
      return okStatus();
    }
    tool.json().set("ir", arguments.output);
    return base::writeFileAtomic(arguments.output, result.ir);
  }
  if (!arguments.signKey.empty()) {
    HPU_ASSIGN(result.recipe, result.recipe.signedWith(arguments.signKey));
    tool.json().set("signer", result.recipe.signer());
  }
  std::string path = arguments.output.empty() ? stemOf(arguments.model) + ".recipe" : arguments.output;
  HPU_RETURN_IF_ERROR(result.recipe.save(path));
  std::error_code error;
  uintmax_t bytes = std::filesystem::file_size(path, error);
  result.stats.recipeBytes = error ? 0 : static_cast<int64_t>(bytes);  // A device has no size.
  tool.json().set("recipe", path);
  const CompileStats& stats = result.stats;
  tool.print(base::strCat(path, ": ", targetName(result.recipe.target()), ", ", arguments.flags.precision, ", ",
                          base::formatBytes(stats.recipeBytes), stats.cacheHit ? ", from the cache" : ""));
  tool.print(base::strCat("  device time ", format("%.1f", stats.deviceTimeUs), " us (modelled; lower bound ",
                          format("%.1f", stats.lowerBoundUs), " us), workspace ",
                          base::formatBytes(stats.workspaceBytes), " (largest live set ",
                          base::formatBytes(stats.largestLiveSetBytes), "), SRAM peak ",
                          base::formatBytes(stats.sramPeakBytes)));
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
  if (!options.dumpDir.empty()) {
    std::error_code error;
    std::filesystem::create_directories(options.dumpDir, error);
    if (error) return invalidArgument("--dump-phases: cannot make '" + options.dumpDir + "': " + error.message());
  }
  HPU_RETURN_IF_ERROR(calibrateIfAsked(tool, arguments.flags, arguments.model, options));
  StatusOr<CompileResult> result = compileWithProgress(tool, arguments.model, options);
  if (!result.ok()) return result.status();
  HPU_RETURN_IF_ERROR(writeResult(tool, arguments, *result));
  addStats(tool.json(), *result);
  if (tool.jsonMode() && result->recipe.valid()) HPU_RETURN_IF_ERROR(addDeviceTime(tool.json(), result->recipe));
  for (const std::string& name : arguments.reports) {
    const std::string& text = result->reports[name];
    tool.printAlways(base::strCat("\n== ", name, " ==\n", tool.verbose() ? text : condensed(text)));
    tool.json()["reports"].set(name, text);
  }
  if (!arguments.explain.empty()) explainNode(tool, *result);
  return ExitCode::kOk;
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
  return compileModel(tool, arguments);
}

}  // namespace
}  // namespace hpu::tools

int main(int argc, char** argv) {
  using namespace hpu::tools;
  Tool tool("hpu-compile", "Compiles a model (ONNX, or MLIR in the hpu dialect) to a recipe.");
  Arguments arguments;
  tool.addPositional("MODEL", arguments.model, "The model: .onnx, or .mlir/.mlirbc in the hpu dialect", false);
  tool.addOption("-o,--output", arguments.output, "The recipe to write (default: the model's name with .recipe)");
  tool.addOption("--sign", arguments.signKey, "Sign the recipe with this secret key (see --make-key, HPU_RECIPE_KEYS)");
  tool.addOption("--make-key", arguments.makeKey,
                 "Make a key for --sign: the secret one in this file, the public one beside it");
  arguments.flags.addTo(tool);
  tool.addOption("--stop-after", arguments.stopAfter, "Stop after this phase and write the IR (see --list-phases)");
  tool.addOption("--start-from", arguments.startFrom, "MODEL is the IR of an earlier phase; start with this one");
  tool.addOption("--dump-phases", arguments.dumpDir, "Write the IR after every phase into this folder");
  tool.addOption("--report", arguments.reports,
                 "Reports to print: precision, fusion, layout, tile, memory, schedule, time", ',');
  tool.addOption("--explain", arguments.explain,
                 "What each phase and the device make of a node of the model, by its name");
  tool.addFlag("--list-ops", arguments.listOps, "List the ONNX ops that compile");
  tool.addFlag("--list-targets", arguments.listTargets, "List the targets");
  tool.addFlag("--list-phases", arguments.listPhases, "List the phases of the compiler in order");
  tool.addOption("--estimate-gemm", arguments.estimateGemm,
                 "Price one GEMM by the performance model: [BATCHx]MxKxN:dtype, A is MxK, B is KxN");
  tool.addOption("--clock", arguments.clock,
                 "Clock profile of --estimate-gemm (see --list-targets; default: HPU_SIM_CLOCK)");
  return tool.run(argc, argv, [&] { return run(tool, arguments); });
}
