// SPDX-License-Identifier: Apache-2.0
// Program: what a graph was compiled to for one set of sizes, and where it is loaded.
// The one thing to know: recipes of equal structure share one, so that an eager op that was compiled and
// loaded once is neither again.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "bindings/synapse/graph/GraphDescription.h"
#include "bindings/synapse/lowering/Compile.h"
#include "hpu/device.h"
#include "hpu/executable.h"
#include "hpu/recipe.h"
#include "hpu/status.h"

namespace hpu::synapse {

/// Immutable but for the devices it is loaded on. Any thread may call.
class Program {
 public:
  /// Errors: kInternal or kDataLoss when the indices or tensors do not fit the graph.
  static StatusOr<std::shared_ptr<Program>> create(CompiledGraph compiled, const GraphDescription& graph,
                                                   bool compiledHere);
  /// What was compiled by a request with thisCpuOnly: keeps the graph, with its values, for a file.
  static StatusOr<std::shared_ptr<Program>> createForThisCpu(CompiledGraph compiled, const GraphDescription& graph);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  const Recipe& recipe() const { return recipe_; }
  /// As Recipe::serialize, with kernels for every CPU: the first time they may have to be compiled. Errors: as
  /// compileWithLibrary.
  StatusOr<std::vector<uint8_t>> serialize();
  /// For each input and output of the recipe, the index of its tensor.
  const std::vector<int32_t>& inputs() const { return inputs_; }
  const std::vector<int32_t>& outputs() const { return outputs_; }
  /// By tensor index; empty lists where nothing is known.
  const std::vector<std::vector<uint64_t>>& sizes() const { return sizes_; }
  /// One program for all sizes, which launches give (`launchShapes`).
  bool isFree() const { return !freeDims_.empty(); }
  /// As CompiledGraph::freeDims.
  const std::vector<std::vector<std::string>>& freeDims() const { return freeDims_; }
  const std::string& log() const { return log_; }
  uint64_t recipeBytes() const { return recipeBytes_; }
  /// That a launch with a workspace of the caller's needs. Of a free program 0: each launch has another one.
  uint64_t workspaceBytes() const { return workspaceBytes_; }
  /// By tensor index: the place among the outputs, -1 for none.
  int outputOf(int32_t tensor) const;

  /// Loads it on the device at the first call. `ownWorkspace`: launches will bring none; one program is always asked
  /// in the same way.
  StatusOr<Executable> load(const Device& device, bool ownWorkspace);
  /// Lets go what programs hold of a device that is released or was reset.
  static void forget(const Device& device);

 private:
  Program(Recipe recipe, CompiledGraph&& compiled);
  /// Moves what is loaded on the device to `dropped`, to be let go without locks.
  void drop(const DeviceState* device, std::vector<Executable>& dropped);

  const Recipe recipe_;
  const std::vector<int32_t> inputs_, outputs_;
  const std::vector<std::vector<uint64_t>> sizes_;
  const std::vector<std::vector<std::string>> freeDims_;
  const std::string log_;
  const uint64_t recipeBytes_, workspaceBytes_;

  std::unique_ptr<const GraphDescription> source_;  ///< Set by createForThisCpu.

  std::mutex mutex_;  // Guards what follows.
  std::vector<std::pair<const DeviceState*, Executable>> loaded_;
  std::mutex fileMutex_;  // Guards what follows.
  std::vector<uint8_t> forEveryCpu_;
};

/// What a launch of certain sizes runs.
struct SizedProgram {
  std::shared_ptr<Program> program;
  std::vector<Shape> shapes;  ///< Of a free program: launchShapes.
  /// Of a free program, on the device that asked first; UINT64_MAX: not known yet.
  std::atomic<uint64_t> workspaceBytes{UINT64_MAX};
};

/// Sizes by tensor index, in SynapseAI's order; null or empty: the largest of an input, and of a result what follows.
using SizesByTensor = std::vector<const std::vector<uint64_t>*>;

/// What a launch of a free program says of its inputs (LaunchArguments::inputShapes). Errors: kInvalidArgument (sizes
/// that contradict each other or the program, results beyond what the graph declares; names the tensor),
/// kOutOfRange.
StatusOr<std::vector<Shape>> launchShapes(const Program& program, const GraphDescription& graph,
                                          const SizesByTensor& sizes);

/// Of a launch with these shapes, on any device. Errors: as plan::instantiate.
StatusOr<uint64_t> workspaceBytesFor(const Program& program, const std::vector<Shape>& shapes);

}  // namespace hpu::synapse
