// SPDX-License-Identifier: Apache-2.0
// Models: compiling, recipes, the reference interpreter.
#include <atomic>
#include <list>

#include "base/ModelPath.h"
#include "base/OptionNames.h"
#include "hpu/calibration.h"
#include "hpu/recipe.h"
#include "hpu/reference.h"
#include "src/bindings/python/Core.h"
#include "tools/common/CompileFigures.h"

namespace hpu::python {
namespace {

/// What openhpu.compile passes; its signature has the names and defaults.
CompileOptions optionsFrom(const py::dict& given) {
  CompileOptions options;
  options.target = take(parseTarget(given["target"].cast<std::string>()));
  options.precision = take(parsePrecision(given["precision"].cast<std::string>()));
  options.optLevel = given["opt_level"].cast<int>();
  options.searchEffort = given["search_effort"].cast<int>();
  options.unrollLimit = given["unroll_limit"].cast<int>();
  options.plugins = given["plugins"].cast<std::vector<std::string>>();
  options.shapes = given["shapes"].cast<std::map<std::string, Shape>>();
  options.dims = given["dims"].cast<std::map<std::string, int64_t>>();
  for (const auto& [name, bounds] : given["bounds"].cast<std::map<std::string, std::pair<int64_t, int64_t>>>())
    options.dimBounds[name] = {bounds.first, bounds.second};
  options.states = given["states"].cast<std::map<std::string, std::string>>();
  options.keepF32 = given["keep_f32"].cast<std::vector<std::string>>();
  options.ranges = given["ranges"].cast<std::map<std::string, double>>();
  options.reports = given["reports"].cast<std::vector<std::string>>();
  options.explain = given["explain"].cast<std::string>();
  options.cacheDir = given["cache"].cast<std::string>();
  options.cpu = given["cpu"].cast<std::string>();
  if (options.optLevel < 0 || options.optLevel > 3)
    throw StatusError(invalidArgument("opt_level " + std::to_string(options.optLevel) + " is not one of 0 to 3"));
  return options;
}

std::string figuresOf(const CompileResult& result) {
  tools::Json json = tools::Json::object();
  tools::addFigures(json, result);
  tools::Json& reports = json["reports"] = tools::Json::object();
  for (const auto& [name, text] : result.reports) reports.set(name, text);
  tools::Json& warnings = json["warnings"] = tools::Json::array();
  for (const std::string& warning : result.warnings) warnings.append(base::inWordsOf(base::Reader::kPython, warning));
  if (!result.explainedNode.empty()) {
    json.set("explained_node", result.explainedNode);
    tools::Json& notes = json["explain_phases"] = tools::Json::array();
    for (const NodeNote& note : result.explanation)
      notes.append(tools::Json().set("phase", note.phase).set("text", note.text));
  }
  return json.dump(-1);
}

/// A compilation, and those who wait for it. With the GIL, but for notify().
class Job {
 public:
  Job(const std::string& path, const py::dict& given) {
    forgetEnded();
    const CompileOptions options = optionsFrom(given);
    GilReleased released;
    compilation_ = take(Compilation::startFile(path, options));
  }
  /// Nobody waits any more: it is cancelled, and ends by itself.
  ~Job() {
    compilation_.cancel();
    ending().push_back(std::move(compilation_));
    forgetEnded();
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  bool done() const { return compilation_.done(); }
  void cancel() const { compilation_.cancel(); }
  std::string phase() const { return compilation_.phase(); }
  void notify(uint64_t token) const {
    compilation_.onDone([&completions = Completions::ofProcess(), token] { completions.add(token); });
  }
  /// (the recipe, the report); signals and the lock as of waitFor().
  py::tuple result(std::optional<double> seconds) const {
    constexpr double kLongest = 1e9;
    const auto ms = static_cast<int64_t>(std::clamp(seconds.value_or(kLongest), 0.0, kLongest) * 1000 + 0.5);
    StatusOr<CompileResult> result = CompileResult();
    waitInSlices(base::Deadline::afterMs(ms), [&](int64_t slice) {
      result = compilation_.result(slice);
      if (result.status().code() != StatusCode::kDeadlineExceeded) return true;
      if (!compilation_.done()) return false;
      result = compilation_.result(slice);  // Done since; see waitFor().
      return true;
    });
    if (!result.ok()) throw StatusError(result.status(), compilation_.unsupported());
    return py::make_tuple(result->recipe, figuresOf(*result));
  }

 private:
  /// The last handle of a compilation waits for its end, which here nobody should. Never destroyed: the process may end
  /// before, and ends them then. Guarded by the GIL.
  static std::list<Compilation>& ending() {
    static auto* const all = new std::list<Compilation>;
    return *all;
  }
  static void forgetEnded() {
    ending().remove_if([](const Compilation& one) { return one.done(); });
  }
  Compilation compilation_;
};

/// [(name, dtype, shape, bytes)] of the outputs, for [(dtype, shape, bytes)] of the inputs in order.
py::list interpretModel(const std::string& path, const py::dict& given, const py::list& inputs) {
  struct Work {
    CompileOptions options;
    std::vector<ReferenceTensor> inputs;
    std::vector<UnsupportedNode> unsupported;
    StatusOr<std::vector<ReferenceTensor>> outputs = std::vector<ReferenceTensor>();
  };
  auto work = std::make_shared<Work>();
  work->options = optionsFrom(given);
  for (const py::handle& one : inputs) {
    auto [dtype, shape, bytes] = one.cast<std::tuple<std::string, Shape, py::bytes>>();
    std::string_view view = bytes;
    work->inputs.push_back({{}, tensorTypeOf(dtype, shape), {view.begin(), view.end()}});
  }
  runInterruptibly([work, path] {
    StatusOr<Graph> graph =
        base::isMlirPath(path) ? importMlir(path) : importOnnx(path, work->options, &work->unsupported);
    if (graph.ok())
      work->outputs = interpret(*graph, work->inputs);
    else
      work->outputs = graph.status();
  });
  if (!work->outputs.ok()) throw StatusError(work->outputs.status(), work->unsupported);
  py::list outputs;
  for (const ReferenceTensor& output : *work->outputs)
    outputs.append(py::make_tuple(output.name, std::string(elementTypeName(output.type.element)),
                                  py::tuple(py::cast(output.type.shape)),
                                  py::bytes(reinterpret_cast<const char*>(output.bytes.data()), output.bytes.size())));
  return outputs;
}

/// A recipe whose outputs are the ranges of the model's activations (calibrationGraph), in f32.
Recipe calibrationRecipe(const std::string& path, const py::dict& given) {
  struct Work {
    CompileOptions options;
    std::vector<UnsupportedNode> unsupported;
    StatusOr<Recipe> recipe = Recipe();
    std::atomic<bool> abandoned = false;

    StatusOr<Recipe> compiled(const std::string& path) {
      options.isCancelled = [this] { return abandoned.load(std::memory_order_relaxed); };
      StatusOr<CompileResult> result = compileCalibration(path, options, &unsupported);
      if (!result.ok()) return result.status();
      return result->recipe;
    }
  };
  auto work = std::make_shared<Work>();
  work->options = optionsFrom(given);
  if (!isFp8(work->options.precision))
    throw StatusError(invalidArgument("calibrate() is for precision=\"fp8\" and \"fp8_e5m2\"; " +
                                      std::string(precisionName(work->options.precision)) + " needs no ranges"));
  struct Abandon {
    ~Abandon() { work.abandoned = true; }  // When a signal ends the wait.
    Work& work;
  } abandon{*work};
  runInterruptibly([work, path] { work->recipe = work->compiled(path); });
  if (!work->recipe.ok()) throw StatusError(work->recipe.status(), work->unsupported);
  return *work->recipe;
}

py::bytes serialized(const Recipe& recipe) {
  std::vector<uint8_t> bytes;
  {
    GilReleased released;
    bytes = take(recipe.serialize());
  }
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Recipe deserialized(const py::bytes& bytes) {
  std::string_view view = bytes;
  GilReleased released;
  return take(Recipe::deserialize(view.data(), view.size()));
}

}  // namespace

void bindCompile(py::module_& module) {
  using released = py::call_guard<GilReleased>;
  py::class_<Recipe>(module, "Recipe")
      .def_static(
          "load", [](const std::string& path) { return take(Recipe::load(path)); }, released())
      .def_static("from_bytes", &deserialized)
      .def(
          "save", [](const Recipe& recipe, const std::string& path) { check(recipe.save(path)); }, released())
      .def("to_bytes", &serialized)
      .def("signed_with", [](const Recipe& recipe, const std::string& key) { return take(recipe.signedWith(key)); })
      .def("signer", &Recipe::signer)
      .def("name", [](const Recipe& recipe) { return recipe.name(); })
      .def("target", [](const Recipe& recipe) { return std::string(targetName(recipe.target())); })
      .def("inputs", [](const Recipe& recipe) { return describe(recipe.inputs()); })
      .def("outputs", [](const Recipe& recipe) { return describe(recipe.outputs()); })
      .def("input_shapes", [](const Recipe& recipe,
                              const std::map<std::string, int64_t>& dims) { return take(recipe.inputShapes(dims)); })
      .def("data_sizes",
           [](const Recipe& recipe) {
             py::list sizes;
             for (const DataSizeInfo& size : recipe.dataSizes())
               sizes.append(py::make_tuple(size.output, size.dim, size.element));
             return sizes;
           })
      .def("states",
           [](const Recipe& recipe) {
             py::list states;
             for (const StateInfo& state : recipe.states())
               states.append(py::make_tuple(state.input, state.output, state.capacity.shape));
             return states;
           })
      .def("input_default",
           [](const Recipe& recipe, size_t index) -> py::object {
             const void* data = recipe.inputDefault(index);
             if (!data) return py::none();
             return py::bytes(static_cast<const char*>(data),
                              static_cast<size_t>(recipe.inputs().at(index).type.bytes()));
           })
      .def("value_inputs", &Recipe::valueInputs)
      .def("input_values", [](const Recipe& recipe,
                              const std::map<std::string, int64_t>& dims) { return take(recipe.inputValues(dims)); })
      .def("dims",
           [](const Recipe& recipe) {
             py::dict dims;
             for (const FreeDim& dim : recipe.dims())
               dims[py::str(dim.name)] = py::make_tuple(dim.bounds.min, dim.bounds.max);
             return dims;
           })
      .def("workspace_bytes", &Recipe::workspaceBytes)
      .def("constant_bytes", &Recipe::constantBytes)
      .def("estimated_device_time_us", &Recipe::estimatedDeviceTimeUs);
  py::class_<Job>(module, "Compilation")
      .def(py::init<const std::string&, const py::dict&>())
      .def("done", &Job::done)
      .def("cancel", &Job::cancel)
      .def("phase", &Job::phase)
      .def("notify", &Job::notify)
      .def("result", &Job::result);
  module.def("calibration_recipe", &calibrationRecipe);
  module.def("interpret", &interpretModel);
  module.def("supported_onnx_ops", &supportedOnnxOps);
}

}  // namespace hpu::python
