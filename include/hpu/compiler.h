// SPDX-License-Identifier: Apache-2.0
// The graph compiler: ONNX or a Graph in, a Recipe out.
// The one thing to know: everything that a model needs and OpenHPU lacks is reported at once, in one
// Status whose message has a line for each node.
//
//   hpu::CompileOptions options;
//   options.target = hpu::Target::kGaudi2;
//   HPU_ASSIGN(auto result, hpu::compileFile("model.onnx", options));
//   HPU_RETURN_IF_ERROR(result.recipe.save("model.recipe"));
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "hpu/graph.h"
#include "hpu/recipe.h"
#include "hpu/status.h"
#include "hpu/target.h"
#include "hpu/types.h"

namespace hpu {

struct PhaseInfo {
  std::string name;     ///< As in compiler/pipeline/Phases.def.
  double ms = 0;        ///< Host wall time.
  std::string summary;  ///< What the phase did, for people: "212 -> 41 units".
};

struct CompileOptions {
  Target target = Target::kGaudi2;
  Precision precision = Precision::kF32;
  int optLevel = 2;  ///< 0: one op a unit, no reuse; 1: fusion; 2: layouts and slices; 3: wider search.
  /// Sizes of inputs, by input name. Every free dimension must get a size; a fixed one must have the size given
  /// (kDynamic: not given), else the call is an error that names both.
  std::map<std::string, Shape> shapes;
  /// Values for named symbolic dimensions (ONNX dim_param), an alternative to `shapes`.
  std::map<std::string, int64_t> dims;
  std::string stopAfter;             ///< Stop after this phase; the result has no recipe but `ir`.
  std::string startFrom;             ///< The input is IR of an earlier dump; start with this phase.
  std::string dumpDir;               ///< Write NN-phase.mlir after each phase into this folder.
  std::vector<std::string> reports;  ///< Any of shapes, precision, fusion, layout, tile, memory, schedule, time.
  std::string cacheDir;              ///< Reuse recipes keyed by model content, options and shapes; empty: off.
  std::string cpu;  ///< "": images for x86-64-v3 and x86-64-v4; "native": only what this CPU runs best.
  /// Follow this node of the source model through the phases (CompileResult::explanation); a part of its name will do
  /// when no other has it. kNotFound with similar names when there is none.
  std::string explain;
  bool checkSchedule = true;  ///< Prove every hazard ordered before emitting.
  /// Called after each phase, on the compiling thread. What it throws ends the compilation, with kUnknown and what().
  std::function<void(const PhaseInfo&)> onPhase;
  /// Ops (by mnemonic) and nodes (by name) that keep f32 with a narrow precision, beside the default list.
  std::vector<std::string> keepF32;
  /// fp8: the largest magnitude of each activation that a matrix product reads, as calibrationGraph() names
  /// them. Empty: scales are computed at run time.
  std::map<std::string, double> ranges;
  bool dumpConstants = false;  ///< Dumps have the large constants, so that `startFrom` can go on from one.
  bool irConstants = true;     ///< `ir` has them.
  /// Asked on the compiling threads, often: true ends the compilation soon, with kCancelled. Must be quick. What it
  /// throws ends the compilation, too, with kUnknown and what().
  std::function<bool()> isCancelled;
  /// Bounds of named free dimensions whose sizes launches give. With any of them, every free dimension that `shapes`
  /// and `dims` do not give a size is given late, from 1 where nothing is said.
  std::map<std::string, DimBounds> dimBounds;
  /// Sizes, by name, of dimensions that have bounds, for which the recipe gets a variant that is compiled for them
  /// alone:
  /// {{{"seq", 128}}, {{"batch", 1}, {"seq", 512}}}. What a variant does not name stays late in it. Launches of these
  /// sizes run it without being asked to. At most 64.
  std::vector<std::map<std::string, int64_t>> specialize;
  /// Outputs that are inputs changed in place, by the output's name: a cache of keys and values stays in device memory,
  /// and a launch writes what is new in it (Recipe::states). A '*' in both names stands for the same text:
  /// {"present.*", "past_key_values.*"}. Where the model does not append to the input, what it computes is copied over
  /// it. With a narrow precision states have that type.
  std::map<std::string, std::string> states;
  /// How long to look for better slices of units and chains of them (-O2, -O3), in percent of what is usual: with 10
  /// programs may be a percent slower, and the search is several times shorter, which tells for hundreds of ops and for
  /// free sizes; 0 takes what needs no search. Results are the same. At most 1000.
  int searchEffort = 100;
  /// Files of custom ops: functions in MLIR that stand for nodes of ONNX models, by domain and name
  /// (docs/custom-ops.md). Recipes carry what they become.
  std::vector<std::string> plugins;
  /// Up to so many ops, of all iterations together, a loop of a model is unrolled; of more ops it runs on the device,
  /// as does one of which data decides how often it runs, and a branch, when a 32nd or 64th of it would be computed for
  /// nothing. 0: loops and branches are on the device wherever they can be. At most 8192. It is for the import of a
  /// file.
  int unrollLimit = 1024;
};

struct CompileStats {
  double compileMs = 0;
  std::vector<PhaseInfo> phases;
  int64_t recipeBytes = 0;
  int64_t workspaceBytes = 0;
  int64_t largestLiveSetBytes = 0;  ///< From liveness alone, without the plan.
  int64_t sramPeakBytes = 0;
  double deviceTimeUs = 0;  ///< Modelled.
  /// What no schedule of the graph can beat: the largest of the three below (docs/performance-model.md).
  double lowerBoundUs = 0;
  /// Required work of the unfused graph at each engine's peak. Not known (0) when the recipe came from the cache.
  double lowerBoundMmeUs = 0, lowerBoundTpcUs = 0, lowerBoundHbmUs = 0;
  int64_t lowerBoundBytes = 0;  ///< Inputs, constants and outputs: what HBM must move at least.
  bool cacheHit = false;
  /// Multiply-accumulates of the unfused graph's products and convolutions. 0 when the recipe came from the cache.
  int64_t macs = 0;
};

/// One sentence on the node of CompileOptions::explain.
struct NodeNote {
  std::string phase, text;
};

struct CompileResult {
  Recipe recipe;  ///< Not valid() when `stopAfter` was given.
  CompileStats stats;
  std::string ir;                              ///< With stopAfter: the IR as MLIR text.
  std::map<std::string, std::string> reports;  ///< By report name.
  std::string explainedNode;                   ///< With `explain`: the node's full name.
  std::vector<NodeNote> explanation;           ///< With `explain`: what each phase made of the node.
  std::vector<std::string> warnings;
};

/// One node of a model that cannot be compiled; also an input or initializer that cannot be, with "input" or
/// "initializer" in place of the op.
struct UnsupportedNode {
  struct Value {
    std::string name;
    std::string type;  ///< "2x3xf32"; empty where neither the file nor the import says it.
  };
  std::string op, node, reason;
  std::string domain;  ///< Empty: ONNX's own.
  int64_t opset = 0;   ///< The domain's version that the node is read by; 0 where the model does not say it.
  std::vector<Value> inputs, outputs;  ///< Those that are there, in order.
  std::string help;                    ///< What would make it compile.
};

/// Reads an ONNX model. `shapes`/`dims` as in CompileOptions. When nodes are unsupported the Status is
/// kUnimplemented, its message lists all of them, and `unsupported` (if not null) holds them.
HPU_API StatusOr<Graph> importOnnx(const std::string& path, const CompileOptions& options, size_t optionsBytes,
                                   std::vector<UnsupportedNode>* unsupported);
inline StatusOr<Graph> importOnnx(const std::string& path, const CompileOptions& options = {},
                                  std::vector<UnsupportedNode>* unsupported = nullptr) {
  return importOnnx(path, options, sizeof(CompileOptions), unsupported);
}

/// Reads MLIR text or bytecode in the hpu dialect, or in tosa and linalg (docs/mlir-coverage.md).
HPU_API StatusOr<Graph> importMlir(const std::string& path);

/// Compiles a graph. The graph is not changed. Any thread may compile; compilations run in parallel. Errors:
/// kInvalidArgument (options that there are not, or that do not fit the graph; what is wrong with the model),
/// kUnimplemented, kFailedPrecondition (the graph was moved from).
HPU_API StatusOr<CompileResult> compile(const Graph& graph, const CompileOptions& options, size_t optionsBytes);
inline StatusOr<CompileResult> compile(const Graph& graph, const CompileOptions& options = {}) {
  return compile(graph, options, sizeof(CompileOptions));
}

/// A graph with the inputs of `graph` whose outputs are the largest magnitudes of the activations that its
/// matrix products read: run it (in f32) on typical data, and give the maxima, by output name, to
/// CompileOptions::ranges. Uses the shapes and dims of `options`. Errors: kInvalidArgument when there is
/// nothing to calibrate.
HPU_API StatusOr<Graph> calibrationGraph(const Graph& graph, const CompileOptions& options, size_t optionsBytes);
inline StatusOr<Graph> calibrationGraph(const Graph& graph, const CompileOptions& options = {}) {
  return calibrationGraph(graph, options, sizeof(CompileOptions));
}

/// importOnnx (or importMlir, by the file's content) and compile, with the recipe cache if asked.
HPU_API StatusOr<CompileResult> compileFile(const std::string& path, const CompileOptions& options, size_t optionsBytes,
                                            std::vector<UnsupportedNode>* unsupported);
inline StatusOr<CompileResult> compileFile(const std::string& path, const CompileOptions& options = {},
                                           std::vector<UnsupportedNode>* unsupported = nullptr) {
  return compileFile(path, options, sizeof(CompileOptions), unsupported);
}

/// A compilation that goes on beside the program; a shared handle, and any thread may call. It runs on a thread of its
/// own; with the last handle it is cancelled and waited for.
class HPU_API Compilation {
 public:
  Compilation();  ///< Empty; only assignable.
  ~Compilation();
  bool valid() const { return state_ != nullptr; }
  /// The graph is not to be changed meanwhile. Errors: kResourceExhausted (no thread). Those of the compilation are
  /// result()'s.
  static StatusOr<Compilation> start(const Graph& graph, const CompileOptions& options = {}) {
    return start(graph, options, sizeof(CompileOptions));
  }
  static StatusOr<Compilation> start(const Graph& graph, const CompileOptions& options, size_t optionsBytes);
  /// compileFile in place of compile.
  static StatusOr<Compilation> startFile(const std::string& path, const CompileOptions& options = {}) {
    return startFile(path, options, sizeof(CompileOptions));
  }
  static StatusOr<Compilation> startFile(const std::string& path, const CompileOptions& options, size_t optionsBytes);
  bool done() const;
  /// Waits; deadlineMs < 0: without one, as compilation waits for nothing. Errors: as compile, kCancelled,
  /// kDeadlineExceeded (it goes on).
  StatusOr<CompileResult> result(int64_t deadlineMs = -1) const;
  /// Returns at once; it ends soon, with kCancelled unless it is done before.
  void cancel() const;
  /// Calls `told` once, when it is done, on its thread; now on this one when it is. What it throws is logged.
  void onDone(std::function<void()> told) const;
  /// The name of the phase that runs; empty before the first.
  std::string phase() const;
  /// Of startFile, when it is done: the nodes that cannot be imported, as compileFile gives them; empty until then.
  std::vector<UnsupportedNode> unsupported() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// The names of the phases, in order.
HPU_API std::vector<std::string> phaseNames();
/// The ONNX ops that import, each "Op (opset a..b)".
HPU_API std::vector<std::string> supportedOnnxOps();

}  // namespace hpu
