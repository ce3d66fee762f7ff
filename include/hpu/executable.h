// SPDX-License-Identifier: Apache-2.0
// Executable: a recipe loaded on a device, ready to be launched any number of times.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "hpu/device.h"
#include "hpu/event.h"
#include "hpu/memory.h"
#include "hpu/recipe.h"
#include "hpu/status.h"
#include "hpu/stream.h"
#include "hpu/types.h"

namespace hpu {

class ExecutableState;

/// An event that stands for one output instead of a whole stream: recorded by the launch, done when
/// the output is written for the last time, perhaps long before the launch ends. Other streams wait
/// for it as for any event.
struct OutputEvent {
  int output = 0;  ///< Index in recipe().outputs().
  Event event;
};

/// A launch by device addresses.
struct LaunchArguments {
  /// In the order of recipe().inputs() and outputs(): multiples of the element size, each in one
  /// live allocation with room for its tensor (dense, row-major). 0 for an input that has a default
  /// (Recipe::inputDefault): the launch takes that.
  std::vector<uint64_t> inputs, outputs;
  uint64_t workspace = 0;  ///< workspaceBytes() bytes of the caller's; 0: the executable's own.
  std::vector<OutputEvent> events;
  /// The shapes of all inputs, which say the sizes of the recipe's free dimensions (Recipe::dims). May be left out
  /// where there are none; what is given must then be the recipe's own shapes.
  std::vector<Shape> inputShapes;
  /// The elements of the inputs that say sizes (Recipe::valueInputs), which the runtime does not read from the device:
  /// a launch whose input has others there computes with both. May be left out where there are none.
  InputValues inputValues;
};

struct LoadOptions {
  bool reserveWorkspace = true;  ///< false: every launch brings its own (LaunchArguments::workspace).
};

/// A shared handle. Any thread may launch; launches of one executable that share its workspace are
/// ordered by the runtime, those with workspaces of their own overlap where engines are free.
///
/// A recipe with free dimensions runs with any sizes within their bounds, and sizes may differ from launch to launch.
/// The first launch of some sizes makes the program for them, on the calling thread and without a compiler: a fraction
/// of a millisecond to some 100 ms for the largest models, less for sizes near others that were launched. The 64 that
/// were used last are kept, and a launch of these costs as one of a recipe of fixed sizes. All share the constants. The
/// executable's own workspace is as large as the largest launch has needed.
///
///   HPU_ASSIGN(auto outputs, executable.outputs({{batch, seq}}));
///   HPU_RETURN_IF_ERROR(executable.launch(stream, {tokens}, {logits}, {{batch, seq}}));
class HPU_API Executable {
 public:
  Executable();
  ~Executable();
  /// Uploads constants, maps the kernel image that fits this CPU and reserves the workspace.
  /// Errors: kFailedPrecondition (other target, no kernel image for this CPU; the message names the
  /// command that mends it), kResourceExhausted.
  static StatusOr<Executable> load(const Device& device, const Recipe& recipe, const LoadOptions& options = {}) {
    return load(device, recipe, options, sizeof(LoadOptions));
  }
  static StatusOr<Executable> load(const Device& device, const Recipe& recipe, const LoadOptions& options,
                                   size_t optionsBytes);

  const Recipe& recipe() const;
  /// All outputs in the order in which a launch on idle engines is done with them. Needs no device.
  static StatusOr<std::vector<int>> outputOrder(const Recipe& recipe);
  /// Names, types and shapes of the outputs for inputs of these shapes. Needs no device. Errors: kInvalidArgument (the
  /// shapes do not fit; names the input, its dimension and what is expected), kOutOfRange.
  StatusOr<std::vector<TensorInfo>> outputs(const std::vector<Shape>& inputShapes) const;
  /// The same with LaunchArguments::inputValues.
  StatusOr<std::vector<TensorInfo>> outputs(const std::vector<Shape>& inputShapes, const InputValues& values) const;
  /// Bytes that LaunchArguments::workspace must have; 0: the recipe needs none. With free dimensions: what the
  /// executable's own workspace has now, 0 before the first launch.
  int64_t workspaceBytes() const;
  /// The same for inputs of these shapes; makes the program for them, as a launch does. Errors: as launch.
  StatusOr<int64_t> workspaceBytes(const std::vector<Shape>& inputShapes) const;
  StatusOr<int64_t> workspaceBytes(const std::vector<Shape>& inputShapes, const InputValues& values) const;
  /// Enqueues one run. Buffers in the order of recipe().inputs() and outputs(), each at least as
  /// large as its tensor (dense, row-major); an empty one for an input that is to have its default. They stay alive
  /// until the launch is done. An output may use the memory of an input, wholly or in part (weights updated in place):
  /// it is then computed in other memory and copied after the run. Errors: kInvalidArgument (sizes, devices, outputs
  /// that share memory).
  Status launch(const Stream& stream, const std::vector<Buffer>& inputs, const std::vector<Buffer>& outputs);
  /// The same with the shapes of all inputs, as LaunchArguments::inputShapes: each buffer is at least as large as its
  /// tensor has then. Errors: also kInvalidArgument (shapes that do not fit: the dimension, its bounds and the inputs
  /// that disagree), kOutOfRange (sizes for which the program has no meaning), kResourceExhausted (no memory for the
  /// workspace). Nothing is launched then.
  Status launch(const Stream& stream, const std::vector<Buffer>& inputs, const std::vector<Buffer>& outputs,
                const std::vector<Shape>& inputShapes);
  Status launch(const Stream& stream, const std::vector<Buffer>& inputs, const std::vector<Buffer>& outputs,
                const std::vector<Shape>& inputShapes, const InputValues& values);
  /// The same by addresses. Launches with workspaces of their own run concurrently on several
  /// streams; the caller orders launches that share one. Errors: also kNotFound, kOutOfRange as
  /// Stream's copies.
  Status launch(const Stream& stream, const LaunchArguments& arguments) {
    return launch(stream, arguments, sizeof(LaunchArguments));
  }
  Status launch(const Stream& stream, const LaunchArguments& arguments, size_t argumentsBytes);

 private:
  std::shared_ptr<ExecutableState> state_;
};

}  // namespace hpu
