// SPDX-License-Identifier: Apache-2.0
// hpu-run: runs a recipe, or a model that it compiles first, and times it on both clocks.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <optional>

#include "base/Format.h"
#include "base/Settings.h"
#include "base/StatusMacros.h"
#include "base/Suggest.h"
#include "hpu/device.h"
#include "hpu/trace.h"
#include "runtime/trace/Export.h"
#include "tools/common/Cli.h"
#include "tools/common/Compare.h"
#include "tools/common/FreeSizes.h"
#include "tools/common/Inputs.h"
#include "tools/common/Interrupt.h"
#include "tools/common/Npy.h"
#include "tools/common/OutputCheck.h"
#include "tools/common/Session.h"
#include "tools/common/Table.h"
#include "tools/hpu-run/LoadProgram.h"

namespace hpu::tools {
namespace {

struct Arguments {
  std::string program, data, outputDir, trace, labels, sweep, driver = "sim";
  std::vector<std::string> inputs;
  int iterations = 1, warmup = 0, threads = 0, device = kAnyDevice;
  double percentile = 0, rtol = -1, atol = -1;
  ProgramFlags flags;
};

std::string format(const char* pattern, double value) {
  char text[64];
  snprintf(text, sizeof text, pattern, value);
  return text;
}

/// What --data, --input, --dim and --shape say of the inputs, in the program's order.
struct InputPlan {
  std::vector<InputSpec> specs;                    ///< By input.
  std::vector<std::optional<HostTensor>> tensors;  ///< Those that come from files.
  FreeSizes sizes;
};

StatusOr<InputPlan> planInputs(Tool& tool, const Arguments& arguments, const Recipe& recipe,
                               const std::vector<DataSet>& data) {
  InputPlan plan;
  const std::vector<TensorInfo>& infos = recipe.inputs();
  plan.tensors.resize(infos.size());
  if (!recipe.dims().empty()) {
    HPU_ASSIGN(plan.sizes, parseFreeSizes(arguments.flags.compile.dims, arguments.flags.compile.shapes));
  }
  auto take = [&](size_t i, HostTensor tensor) -> Status {
    auto [known, added] = plan.sizes.shapes.emplace(infos[i].name, tensor.type.shape);
    if (!added && known->second != tensor.type.shape)
      return invalidArgument(base::strCat("--shape: input '", infos[i].name, "' is ", shapeToString(known->second),
                                          ", but its file has ", shapeToString(tensor.type.shape)));
    const std::vector<int> values = recipe.valueInputs();
    if (std::find(values.begin(), values.end(), static_cast<int>(i)) != values.end())
      plan.sizes.values[infos[i].name] = tensor.integers();
    plan.tensors[i] = std::move(tensor);
    return okStatus();
  };
  auto takeDefault = [&](size_t i) {
    HostTensor tensor;
    tensor.name = infos[i].name;
    tensor.type = infos[i].type;
    const auto* bytes = static_cast<const uint8_t*>(recipe.inputDefault(i));
    tensor.bytes.assign(bytes, bytes + tensor.type.bytes());
    return take(i, std::move(tensor));
  };
  if (!data.empty()) {
    // Data of fewer inputs are without those that have a default.
    std::vector<TensorInfo> asked;
    std::vector<size_t> places;
    for (size_t i = 0; i < infos.size(); ++i) {
      if (data.front().inputs.size() < infos.size() && recipe.inputDefault(i)) {
        HPU_RETURN_IF_ERROR(takeDefault(i));
        continue;
      }
      asked.push_back(infos[i]);
      places.push_back(i);
    }
    HPU_ASSIGN(auto matched, matchInputs(asked, data.front().inputs, "'" + data.front().folder + "'"));
    for (size_t i = 0; i < matched.size(); ++i) HPU_RETURN_IF_ERROR(take(places[i], std::move(matched[i])));
    return plan;
  }
  std::vector<std::string> names;
  for (const TensorInfo& input : infos) names.push_back(input.name);
  HPU_RETURN_IF_ERROR(checkInputNames(arguments.inputs, names));
  InputSpec all{"", "rand:0"};
  std::map<std::string, InputSpec> byName;
  bool isForAll = false;
  for (const std::string& text : arguments.inputs) {
    HPU_ASSIGN(InputSpec spec, parseInputSpec(text));
    if (spec.name.empty())
      all = spec, isForAll = true;
    else
      byName[spec.name] = spec;
  }
  if (arguments.inputs.empty() && !infos.empty())
    tool.note("no --data or --input: the inputs are random numbers (rand:0)");
  for (size_t i = 0; i < infos.size(); ++i) {
    auto found = byName.find(infos[i].name);
    plan.specs.push_back(found == byName.end() ? all : found->second);
    if (found == byName.end() && !isForAll && recipe.inputDefault(i)) {
      HPU_RETURN_IF_ERROR(takeDefault(i));
      continue;
    }
    if (!plan.specs[i].source.starts_with('@')) continue;
    HPU_ASSIGN(HostTensor tensor, tensorFrom(plan.specs[i], infos[i]));
    HPU_RETURN_IF_ERROR(take(i, std::move(tensor)));
  }
  return plan;
}

StatusOr<std::vector<HostTensor>> makeInputs(const InputPlan& plan, const Recipe& recipe, const FreeSizes& sizes) {
  LaunchSizes launch;
  if (!recipe.dims().empty()) {
    HPU_ASSIGN(launch, launchSizesFor(recipe, sizes));
  }
  std::vector<HostTensor> inputs;
  for (size_t i = 0; i < recipe.inputs().size(); ++i) {
    if (plan.tensors[i]) {
      inputs.push_back(*plan.tensors[i]);
      continue;
    }
    TensorInfo info = recipe.inputs()[i];
    if (!launch.shapes.empty()) info.type.shape = launch.shapes[i];
    if (!launch.values.empty() && !launch.values[i].empty()) {
      HPU_ASSIGN(HostTensor tensor, integerTensor(info.type, launch.values[i]));
      inputs.push_back(std::move(tensor));
      continue;
    }
    HPU_ASSIGN(HostTensor tensor, tensorFrom(plan.specs[i], info));
    inputs.push_back(std::move(tensor));
  }
  return inputs;
}

void printTimes(Tool& tool, const Arguments& arguments, const Session& session, const RunTimes& times) {
  tool.print(base::strCat("host    p50 ", format("%.3f", times.hostPercentile(50)), " ms, p90 ",
                          format("%.3f", times.hostPercentile(90)), " ms, p99 ",
                          format("%.3f", times.hostPercentile(99)), " ms, min ", format("%.3f", times.hostMin()),
                          " ms; ", format("%.1f", times.runsPerSecond()), " runs/s (", times.hostMs.size(),
                          times.hostMs.size() == 1 ? " run" : " runs", ", copies included)"));
  if (arguments.percentile > 0) {
    double value = times.hostPercentile(arguments.percentile);
    tool.print(base::strCat("        p", arguments.percentile, " ", format("%.3f", value), " ms"));
    tool.json()["host_latency_ms"].set(base::strCat("p", arguments.percentile), value);
  }
  tool.print(base::strCat("device  ", format("%.1f", times.deviceUs), " us (modelled), copy in ",
                          format("%.1f", times.h2dUs), " us, copy out ", format("%.1f", times.d2hUs), " us"));
  std::string busy;
  for (Engine engine : {Engine::kMme, Engine::kTpc, Engine::kDma})
    busy += base::strCat(busy.empty() ? "" : ", ", engineName(engine), " ",
                         format("%.1f", 100 * times.busy[static_cast<int>(engine)]), " %");
  MemoryInfo memory = session.device().memoryInfo();
  tool.print(base::strCat("busy    ", busy, "; HBM in use ", base::formatBytes(memory.usedBytes)));
}

StatusOr<ExitCode> compareOutputs(Tool& tool, const Arguments& arguments, const Session& session,
                                  const std::vector<HostTensor>& expected, Precision precision) {
  const std::vector<HostTensor>& outputs = session.outputs();
  if (expected.size() != outputs.size())
    return invalidArgument("the program has " + std::to_string(outputs.size()) + " outputs, the data folder " +
                           std::to_string(expected.size()));
  HPU_ASSIGN(Tolerance tolerance, toleranceFrom(arguments.rtol, arguments.atol, precision));
  bool passed = true;
  Json& list = tool.json()["outputs"] = Json::array();
  for (size_t k = 0; k < outputs.size(); ++k) {
    Comparison result = compare(outputs[k], expected[k], tolerance);
    passed &= result.passed;
    tool.printAlways(
        base::strCat("output  ", outputs[k].name, ": ", result.passed ? "passed" : "DIFFERS", ", ", toText(result)));
    list.append(toJson(outputs[k].name, result));
  }
  tool.json().set("passed", passed);
  return passed ? ExitCode::kOk : ExitCode::kMismatch;
}

/// Accuracy against --labels, and equality of the answers with those of the data folder.
Status checkLabels(Tool& tool, const Arguments& arguments, const Session& session,
                   const std::vector<HostTensor>& expected) {
  if (session.outputs().empty()) return invalidArgument("--labels: the program has no output");
  const HostTensor& scores = session.outputs().front();
  HPU_ASSIGN(HostTensor labels, readLabels(arguments.labels));
  HPU_ASSIGN(Accuracy right, accuracy(scores, labels));
  double fraction = static_cast<double>(right.right) / static_cast<double>(std::max<int64_t>(right.rows, 1));
  tool.json().set("accuracy", fraction);
  std::string text =
      base::strCat("answers ", right.right, " of ", right.rows, " right (", format("%.2f", 100 * fraction), " %)");
  if (!expected.empty()) {
    HPU_ASSIGN(Accuracy same, sameArgMax(scores, expected.front()));
    tool.json().set("same_answers", same.right);
    text += base::strCat(", ", same.right, " of ", same.rows, " the same as the reference's");
  }
  tool.printAlways(text);
  return okStatus();
}

std::string outputPath(const Arguments& arguments, size_t output) {
  return arguments.outputDir + "/output_" + std::to_string(output) + ".npy";
}

Status writeOutputs(Tool& tool, const Arguments& arguments, const Session& session) {
  for (size_t k = 0; k < session.outputs().size(); ++k) {
    const std::string path = outputPath(arguments, k);
    HPU_RETURN_IF_ERROR(writeNpy(path, session.outputs()[k]));
    tool.detail("wrote " + path);
  }
  return okStatus();
}

/// As opening the device would say it.
Status checkDevice(const Arguments& arguments) {
  const std::vector<std::string> drivers = Device::drivers();
  if (std::find(drivers.begin(), drivers.end(), arguments.driver) == drivers.end())
    return notFound(base::strCat("--driver: there is no driver '", arguments.driver, "'; this build has ",
                                 base::join(drivers), base::didYouMean(arguments.driver, drivers)));
  if (arguments.device == kAnyDevice) return okStatus();
  HPU_ASSIGN(const int devices, Device::count());
  if (arguments.device >= 0 && arguments.device < devices) return okStatus();
  return notFound(base::strCat("--device: there is no device ", arguments.device, ": a node has devices 0 to ",
                               devices - 1, ", and ", kAnyDevice, " takes any free one"));
}

/// What can be said before anything is compiled, loaded or run.
Status checkArguments(const Arguments& arguments) {
  if (arguments.iterations < 1 || arguments.warmup < 0)
    return invalidArgument("--iters must be at least 1 and --warmup at least 0");
  if (!(arguments.percentile >= 0 && arguments.percentile <= 100))
    return invalidArgument("--percentile is between 0 and 100");
  if (arguments.threads < 0 || arguments.threads > 1024)
    return invalidArgument("--threads is between 1 and 1024, or 0 for all CPUs");
  HPU_RETURN_IF_ERROR(toleranceFrom(arguments.rtol, arguments.atol, Precision::kF32).status());
  HPU_RETURN_IF_ERROR(checkDevice(arguments));
  if (!arguments.trace.empty() && settings::isSet(Setting::HPU_TRACE))
    return invalidArgument(
        "--trace: HPU_TRACE (which 'hpu-trace record' sets) records this run already; leave one out");
  if (!arguments.sweep.empty())
    for (const auto& [option, given] : {std::pair("--data", !arguments.data.empty()),
                                        {"--output", !arguments.outputDir.empty()},
                                        {"--labels", !arguments.labels.empty()}})
      if (given) return invalidArgument(base::strCat("--shape-sweep and ", option, " exclude each other"));
  if (!arguments.outputDir.empty()) HPU_RETURN_IF_ERROR(checkWritableFolder("--output", arguments.outputDir));
  return okStatus();
}

/// Ends the recording and writes it.
Status writeTrace(Tool& tool, const Arguments& arguments, const Interrupt& interrupt) {
  HPU_ASSIGN(trace::Recording recording, trace::stop());
  HPU_ASSIGN(const AwaitedReader reader, AwaitedReader::of(arguments.trace, interrupt));
  HPU_RETURN_IF_ERROR(trace::save(recording, arguments.trace).withContext("--trace"));
  tool.json().set("trace", arguments.trace).set("dropped_events", recording.dropped);
  if (arguments.trace != "/dev/stdout")
    tool.print("trace   " + arguments.trace + " (" + trace::readerOf(arguments.trace) + ")");
  if (recording.dropped > 0)
    tool.note(
        base::strCat(recording.dropped, " events found no room in the trace and were dropped; give fewer --iters"));
  return okStatus();
}

/// Runs each size of a sweep and prints a table.
Status runSweep(Tool& tool, const Arguments& arguments, Session& session, const InputPlan& plan,
                const ShapeSweep& sweep, const Interrupt& interrupt) {
  Table table({Column::number(sweep.dim), Column::number("device").unit("us"),
               Column::number("first launch").unit("host us"), Column::number("later launches").unit("host us")});
  Json& json = tool.json();
  json.set("dim", sweep.dim);
  Json& sizes = json["sizes"] = Json::array();
  for (int64_t size = sweep.first; size <= sweep.last && interrupt.signal() == 0; size += sweep.step) {
    FreeSizes all = plan.sizes;
    if (auto given = all.dims.find(sweep.dim); given != all.dims.end())
      return invalidArgument(base::strCat("--shape-sweep: --dim gives '", sweep.dim, "' one size; leave one out"));
    all.dims[sweep.dim] = size;
    HPU_ASSIGN(std::vector<HostTensor> inputs, makeInputs(plan, session.recipe(), all));
    HPU_RETURN_IF_ERROR(session.run(inputs).status());
    const double first = session.launchUs();
    std::vector<double> later;
    double deviceUs = 0;
    for (int i = 0; i < arguments.iterations && interrupt.signal() == 0; ++i) {
      HPU_ASSIGN(RunTimes times, session.runTimed(inputs, 0, 1));
      later.push_back(session.launchUs());
      deviceUs = times.deviceUs;
    }
    if (later.empty()) break;
    auto middle = later.begin() + static_cast<std::ptrdiff_t>(later.size() / 2);
    std::nth_element(later.begin(), middle, later.end());
    table.row({std::to_string(size), format("%.1f", deviceUs), format("%.1f", first), format("%.1f", *middle)});
    sizes.append(Json()
                     .set("size", size)
                     .set("device_time_us", deviceUs)
                     .set("first_launch_us", first)
                     .set("launch_us", *middle));
  }
  tool.print(table);
  return okStatus();
}

StatusOr<ExitCode> run(Tool& tool, const Arguments& arguments) {
  HPU_RETURN_IF_ERROR(checkArguments(arguments));
  const Interrupt early("ending before the first run", tool.quiet());
  std::vector<DataSet> data;
  if (!arguments.data.empty()) {
    if (!arguments.inputs.empty()) return invalidArgument("--data and --input exclude each other");
    HPU_ASSIGN(data, readDataSets(arguments.data));
  }
  HPU_RETURN_IF_ERROR(protectData(tool, data, arguments.inputs));
  if (data.size() > 1) data.resize(1);  // The others are hpu-verify's.
  if (!arguments.labels.empty()) HPU_RETURN_IF_ERROR(readLabels(arguments.labels).status());
  HPU_ASSIGN(LoadedProgram program, loadProgram(tool, arguments.program, arguments.flags, data, arguments.inputs));
  if (program.signal != 0)
    return endInterrupted(tool, program.signal, " while the model was compiled; nothing was run");
  auto endEarly = [&] {
    tool.json().set("iterations", int64_t{0});
    return endInterrupted(tool, early.signal(), "; nothing was run");
  };
  if (early.signal() != 0) return endEarly();
  if (!arguments.outputDir.empty()) {
    std::error_code error;
    std::filesystem::create_directories(arguments.outputDir, error);
    if (error) return invalidArgument("--output: cannot make '" + arguments.outputDir + "': " + error.message());
    for (size_t k = 0; k < modelOutputs(program.recipe).size(); ++k)
      HPU_RETURN_IF_ERROR(tool.writes(outputPath(arguments, k)));
  }
  HPU_ASSIGN(InputPlan plan, planInputs(tool, arguments, program.recipe, data));
  std::optional<ShapeSweep> sweep;
  std::vector<HostTensor> inputs;
  if (!arguments.sweep.empty()) {
    HPU_ASSIGN(sweep, parseShapeSweep(arguments.sweep, program.recipe));
  } else {
    HPU_ASSIGN(inputs, makeInputs(plan, program.recipe, plan.sizes));
  }
  if (early.signal() != 0) return endEarly();
  DeviceOptions deviceOptions;
  deviceOptions.driver = arguments.driver;
  deviceOptions.index = arguments.device;
  deviceOptions.threads = arguments.threads;
  HPU_ASSIGN(Session session, Session::open(program.recipe, deviceOptions));
  if (!arguments.trace.empty()) HPU_RETURN_IF_ERROR(trace::start());
  const Interrupt interrupt("stopping after the run in flight", tool.quiet());
  Json& json = tool.json();
  json.set("program", arguments.program).set("target", targetName(program.recipe.target()));
  json.set("compile_ms", program.compileMs).set("load_ms", session.loadMs());
  if (sweep) {
    HPU_RETURN_IF_ERROR(runSweep(tool, arguments, session, plan, *sweep, interrupt));
    json.set("interrupted", interrupt.signal() != 0);
    if (!arguments.trace.empty()) HPU_RETURN_IF_ERROR(writeTrace(tool, arguments, interrupt));
    return interrupt.signal() != 0 ? endBySignal(interrupt.signal()) : ExitCode::kOk;
  }
  HPU_ASSIGN(RunTimes times,
             session.runTimed(inputs, arguments.warmup, arguments.iterations, [&] { return interrupt.signal() != 0; }));
  const bool ran = !times.hostMs.empty();
  json.set("interrupted", interrupt.signal() != 0);
  if (interrupt.signal() != 0) {
    json.set("signal", signalName(interrupt.signal()));
    tool.note(base::strCat("interrupted by ", signalName(interrupt.signal()), " after ", times.hostMs.size(), " of ",
                           arguments.iterations, " timed runs"));
  }
  if (ran) {
    addTimes(json, times, program.recipe.target());
    printTimes(tool, arguments, session, times);
  } else {
    json.set("iterations", int64_t{0});
  }
  // Behind the times, which a full disk is no reason to keep back.
  if (!arguments.trace.empty()) {
    Status written = writeTrace(tool, arguments, interrupt);
    if (written.code() == StatusCode::kCancelled)
      return endInterrupted(tool, interrupt.signal(), "; the trace was not written: " + written.message());
    HPU_RETURN_IF_ERROR(written);
  }
  if (!ran) return endBySignal(interrupt.signal());
  if (!arguments.outputDir.empty()) HPU_RETURN_IF_ERROR(writeOutputs(tool, arguments, session));
  std::vector<HostTensor> expected = data.empty() ? std::vector<HostTensor>() : data.front().outputs;
  ExitCode code = ExitCode::kOk;
  if (!expected.empty()) {
    HPU_ASSIGN(code, compareOutputs(tool, arguments, session, expected, program.precision));
  }
  if (!arguments.labels.empty()) HPU_RETURN_IF_ERROR(checkLabels(tool, arguments, session, expected));
  return interrupt.signal() != 0 ? endBySignal(interrupt.signal()) : code;
}

}  // namespace
}  // namespace hpu::tools

int main(int argc, char** argv) {
  using namespace hpu::tools;
  Tool tool("hpu-run", programHelp());
  Arguments arguments;
  tool.addPositional("PROGRAM", arguments.program, programArgumentHelp());
  tool.addOption("--data", arguments.data, "Folder with input_k.pb; outputs are compared with its output_k.pb");
  tool.addOption("--input", arguments.inputs,
                 "NAME=@FILE.npy, NAME=rand:SEED[:LOW:HIGH], NAME=zeros, NAME=ones; without NAME= "
                 "for all inputs");
  tool.addOption("--output", arguments.outputDir, "Folder to write output_k.npy to");
  tool.addOption("--shape-sweep", arguments.sweep,
                 "NAME=FIRST:LAST[:STEP]: run each of these sizes of a free dimension and print a table");
  tool.addOption("--labels", arguments.labels, "Expected classes (.txt, .npy, .pb): prints the accuracy of output 0");
  tool.addOption("--iters", arguments.iterations, "Timed runs");
  tool.addOption("--warmup", arguments.warmup, "Runs before them");
  tool.addOption("--threads", arguments.threads, "Host threads of the simulated device; 0: all CPUs");
  tool.addOption("--percentile", arguments.percentile, "One more percentile of the host latency to print");
  tool.addOption("--trace", arguments.trace,
                 "Record all runs to this file (.json: Chrome, .pftrace: Perfetto, -: stdout)");
  tool.addOption("--rtol", arguments.rtol,
                 "Relative tolerance; -1: 1e-3 for f32, 2e-2 for bf16, 5e-3 for f16, 1e-1 for fp8");
  tool.addOption("--atol", arguments.atol, "Tolerance relative to the largest expected number; -1: 1e-4, 2e-2");
  tool.addOption("--driver", arguments.driver, "Driver of the device: sim or null");
  tool.addOption("--device", arguments.device, "Index of the device in the node, 0 to 7; -1: any free one");
  for (const char* read : {"PROGRAM", "--data", "--labels"}) tool.readsFiles(read);
  tool.writesFile("--trace", arguments.trace);
  tool.setEnvironment(programSettings());
  arguments.flags.addTo(tool);
  return tool.run(argc, argv, [&] { return run(tool, arguments); });
}
