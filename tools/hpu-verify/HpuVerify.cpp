// SPDX-License-Identifier: Apache-2.0
// hpu-verify: runs a model on the device and compares its outputs, or those of every unit, with a
// reference.
#include <cstdio>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "tools/common/Calibrate.h"
#include "tools/common/Cli.h"
#include "tools/common/Compare.h"
#include "tools/common/CompileFlags.h"
#include "tools/common/Inputs.h"
#include "tools/common/Interrupt.h"
#include "tools/common/ModelFile.h"
#include "tools/common/Npy.h"
#include "tools/common/Session.h"
#include "tools/hpu-verify/PerOp.h"

namespace hpu::tools {
namespace {

struct Arguments {
  std::string model, data, labels, reference = "files";
  std::vector<std::string> npz, inputs;
  bool perOp = false, bisect = false;
  double rtol = -1, atol = -1;
  Tolerance tolerance;  ///< Of both and the precision.
  CompileFlags flags;
};

std::string format(const char* pattern, double value) {
  char text[64];
  snprintf(text, sizeof text, pattern, value);
  return text;
}

/// Inputs (and expected outputs, if there are any) in sets: files, or what --input says.
StatusOr<std::vector<DataSet>> readSets(const Arguments& arguments) {
  int sources = !arguments.data.empty() + !arguments.npz.empty() + !arguments.inputs.empty();
  if (sources > 1) return invalidArgument("--data, --npz and --input exclude each other");
  if (!arguments.data.empty()) return readDataSets(arguments.data);
  if (arguments.npz.empty()) return std::vector<DataSet>();
  DataSet set;
  set.folder = arguments.npz[0];
  set.byName = true;
  HPU_ASSIGN(set.inputs, readNpz(arguments.npz[0]));
  HPU_ASSIGN(set.outputs, readNpz(arguments.npz[1]));
  return std::vector<DataSet>{set};
}

/// Inputs made from --input (random numbers by default) for a compiled program.
StatusOr<DataSet> makeSet(const Arguments& arguments, const Recipe& recipe) {
  DataSet set;
  set.folder = "--input";
  std::vector<std::string> names;
  for (const TensorInfo& input : recipe.inputs()) names.push_back(input.name);
  HPU_RETURN_IF_ERROR(checkInputNames(arguments.inputs, names));
  for (const TensorInfo& input : recipe.inputs()) {
    InputSpec chosen{"", "rand:0"};
    for (const std::string& text : arguments.inputs) {
      HPU_ASSIGN(InputSpec spec, parseInputSpec(text));
      if (spec.name.empty() ? chosen.name.empty() : spec.name == input.name) chosen = spec;
    }
    HPU_ASSIGN(HostTensor tensor, tensorFrom(chosen, input));
    set.inputs.push_back(std::move(tensor));
  }
  return set;
}

/// The expected outputs in the program's order: by name when the names agree.
StatusOr<std::vector<HostTensor>> matchOutputs(const Recipe& recipe, const DataSet& set) {
  const std::vector<TensorInfo> outputs = modelOutputs(recipe);
  if (set.outputs.size() != outputs.size())
    return invalidArgument("the model has " + std::to_string(outputs.size()) + " outputs, '" + set.folder + "' has " +
                           std::to_string(set.outputs.size()));
  std::vector<HostTensor> matched;
  for (const TensorInfo& output : outputs)
    for (const HostTensor& tensor : set.outputs)
      if (tensor.name == output.name) {
        matched.push_back(tensor);
        break;
      }
  if (set.byName && matched.size() != outputs.size()) {
    std::string names;
    for (const TensorInfo& output : outputs) names += (names.empty() ? "" : ", ") + output.name;
    return invalidArgument("--npz: the outputs of the model are " + names +
                           ", and the second archive lacks one of them");
  }
  return matched.size() == outputs.size() ? matched : set.outputs;
}

/// Compares the outputs of one set; true when all pass.
StatusOr<bool> verifySet(Tool& tool, const Arguments& arguments, Session& session, const CompileOptions& options,
                         const DataSet& set) {
  HPU_ASSIGN(std::vector<HostTensor> inputs,
             matchInputs(session.recipe().inputs(), set.inputs, "'" + set.folder + "'", set.byName));
  HPU_ASSIGN(std::vector<HostTensor> outputs, session.run(inputs));
  std::vector<HostTensor> expected;
  if (arguments.reference == "interp") {
    HPU_ASSIGN(expected, interpretModel(arguments.model, options, inputs));
  } else {
    HPU_ASSIGN(expected, matchOutputs(session.recipe(), set));
  }
  bool passed = true;
  for (size_t k = 0; k < outputs.size(); ++k) {
    Comparison result = compare(outputs[k], expected[k], arguments.tolerance);
    passed &= result.passed;
    tool.printAlways(base::strCat(result.passed ? "passed   " : "DIFFERS  ", outputs[k].name, " ",
                                  outputs[k].type.toString(), ": ", toText(result)));
    if (result.firstWrong >= 0)
      tool.print(base::strCat("         first at ", indexText(outputs[k].type.shape, result.firstWrong), ": ",
                              outputs[k].number(result.firstWrong), ", expected ",
                              expected[k].number(result.firstWrong)));
    tool.json()["outputs"].append(toJson(outputs[k].name, result).set("data", set.folder));
  }
  if (!arguments.labels.empty() && !outputs.empty()) {
    HPU_ASSIGN(HostTensor labels, readLabels(arguments.labels));
    HPU_ASSIGN(Accuracy right, accuracy(outputs.front(), labels));
    HPU_ASSIGN(Accuracy same, sameArgMax(outputs.front(), expected.front()));
    tool.json().set("accuracy",
                    static_cast<double>(right.right) / static_cast<double>(std::max<int64_t>(right.rows, 1)));
    tool.json().set("same_answers", same.right);
    tool.printAlways(base::strCat("answers ", right.right, " of ", right.rows, " right, ", same.right, " of ",
                                  same.rows, " the same as the reference's"));
  }
  return passed;
}

Json unitJson(const UnitResult& unit) {
  Json json = toJson(unit.name, unit.whole);
  json.set("engine", unit.engine).set("type", unit.type.toString());
  json.set("local", toJson(unit.name, unit.local));
  Json& nodes = json["nodes"] = Json::array();
  for (const std::string& node : unit.nodes) nodes.append(node);
  return json;
}

/// Every unit in a table, or the first one that is wrong by itself.
StatusOr<bool> verifyAllUnits(Tool& tool, const Arguments& arguments, const Recipe& recipe,
                              const CompileOptions& options, const DataSet& set) {
  HPU_ASSIGN(std::vector<HostTensor> inputs, matchInputs(recipe.inputs(), set.inputs, "'" + set.folder + "'"));
  HPU_ASSIGN(std::vector<UnitResult> units, verifyUnits(arguments.model, options, inputs, arguments.tolerance));
  const UnitResult* culprit = nullptr;
  Table table({Column::name("unit"), Column::word("engine"), Column::word("type").leaveOut(1),
               Column::number("max_abs"), Column::number("wrong"), Column::number("pcc"), Column::number("own max_abs"),
               Column::number("own wrong")});
  Json& list = tool.json()["per_op"] = Json::array();
  for (const UnitResult& unit : units) {
    if (!culprit && !unit.local.passed) culprit = &unit;
    table.row({unit.name, unit.engine, unit.type.toString(), format("%.3g", unit.whole.maxAbs),
               std::to_string(unit.whole.wrong), format("%.6f", unit.whole.pcc), format("%.3g", unit.local.maxAbs),
               std::to_string(unit.local.wrong)});
    list.append(unitJson(unit));
  }
  if (arguments.perOp) tool.printAlways(table);
  if (!culprit) {
    tool.printAlways(base::strCat("all ", units.size(), " unit results are right on their own inputs"));
    tool.json().set("bisect", Json());
    return true;
  }
  tool.json().set("bisect", unitJson(*culprit));
  tool.printAlways(base::strCat("first wrong unit: ", culprit->name, " (", culprit->engine, ", ",
                                culprit->type.toString(), "): ", toText(culprit->local), "; it computes ",
                                base::join(culprit->nodes)));
  return false;
}

StatusOr<ExitCode> run(Tool& tool, Arguments arguments) {
  HPU_ASSIGN(bool isRecipe, isRecipeFile(arguments.model));
  if (isRecipe)
    return invalidArgument("'" + arguments.model +
                           "' is a recipe; give the model that it was made of (hpu-run --data "
                           "compares a recipe's outputs)");
  const Interrupt early("ending before the comparison", tool.quiet());  // Its signal is that of the others, too.
  HPU_ASSIGN(std::vector<DataSet> sets, readSets(arguments));
  HPU_RETURN_IF_ERROR(protectData(tool, sets, arguments.inputs));
  if (!arguments.labels.empty()) HPU_RETURN_IF_ERROR(readLabels(arguments.labels).status());
  HPU_ASSIGN(CompileOptions options, arguments.flags.options(tool));
  HPU_ASSIGN(arguments.tolerance, toleranceFrom(arguments.rtol, arguments.atol, options.precision));
  HPU_RETURN_IF_ERROR(takeShapesFrom(arguments.model, sets, arguments.inputs, options));
  const bool units = arguments.perOp || arguments.bisect;
  const bool outputs = arguments.reference == "interp" || (!sets.empty() && !sets.front().outputs.empty());
  if (!units && !outputs)
    return invalidArgument("nothing to compare with: give --data or --npz with outputs, or --ref interp");
  int signal = 0;
  StatusOr<CompileResult> result = compileInterruptibly(tool, arguments.flags, arguments.model, options, signal);
  if (signal != 0) {
    tool.json().set("passed", Json());
    return endInterrupted(tool, signal, " while the model was compiled; nothing was compared");
  }
  if (!result.ok()) return result.status();
  const CompileResult compiled = std::move(*result);
  if (sets.empty()) {
    HPU_ASSIGN(DataSet made, makeSet(arguments, compiled.recipe));
    sets.push_back(std::move(made));
  }
  tool.json()["outputs"] = Json::array();
  bool passed = true;
  Interrupt interrupt("stopping after the data set in flight", tool.quiet());
  auto interrupted = [&](const std::string& what) {
    tool.json().set("passed", Json());
    return endInterrupted(tool, interrupt.signal(), what);
  };
  if (outputs) {
    HPU_ASSIGN(Session session, Session::open(compiled.recipe, {}));
    size_t done = 0;
    for (const DataSet& set : sets) {
      if (interrupt.signal() != 0) return interrupted(base::strCat(" after ", done, " of ", sets.size(), " data sets"));
      ++done;
      HPU_ASSIGN(bool setPassed, verifySet(tool, arguments, session, options, set));
      passed &= setPassed;
    }
  }
  if (units && interrupt.signal() != 0) return interrupted(" before the units");
  if (units) {
    HPU_ASSIGN(bool unitsPassed, verifyAllUnits(tool, arguments, compiled.recipe, options, sets.front()));
    passed &= unitsPassed;
  }
  tool.json().set("passed", passed);
  if (interrupt.signal() != 0) return endBySignal(interrupt.signal());
  return passed ? ExitCode::kOk : ExitCode::kMismatch;
}

}  // namespace
}  // namespace hpu::tools

int main(int argc, char** argv) {
  using namespace hpu::tools;
  Tool tool("hpu-verify", "Runs a model on the simulated device and compares its results with a reference.");
  Arguments arguments;
  tool.addPositional("MODEL", arguments.model, "The model (.onnx, .mlir)");
  tool.addOption("--data", arguments.data,
                 "Folder with input_k.pb and output_k.pb, or test_data_set_* folders of them");
  tool.addTuple("--npz", arguments.npz, 2, "Inputs and expected outputs as .npz archives, by name: IN OUT");
  tool.addOption("--input", arguments.inputs, "NAME=@FILE.npy, NAME=rand:SEED[:LOW:HIGH], ... (with --ref interp)");
  tool.addChoice("--ref", arguments.reference, {"files", "interp"},
                 "What to compare with: the expected outputs, or the reference interpreter");
  tool.addFlag("--per-op", arguments.perOp, "Compare the result of every unit with the reference interpreter");
  tool.addFlag("--bisect", arguments.bisect, "Name the first unit that is wrong on its own inputs");
  tool.addOption("--labels", arguments.labels, "Expected classes (.txt, .npy, .pb): prints the accuracy of output 0");
  tool.addOption("--rtol", arguments.rtol,
                 "Relative tolerance; -1: 1e-3 for f32, 2e-2 for bf16, 5e-3 for f16, 1e-1 for fp8");
  tool.addOption("--atol", arguments.atol, "Tolerance relative to the largest expected number; -1: 1e-4, 2e-2");
  for (const char* read : {"MODEL", "--data", "--npz", "--labels"}) tool.readsFiles(read);
  tool.setEnvironment({"all", "runtime", "compiler"});
  arguments.flags.addTo(tool);
  return tool.run(argc, argv, [&] { return run(tool, arguments); });
}
