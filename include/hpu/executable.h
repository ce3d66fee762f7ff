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
  /// live allocation with room for its tensor (dense, row-major).
  std::vector<uint64_t> inputs, outputs;
  uint64_t workspace = 0;  ///< workspaceBytes() bytes of the caller's; 0: the executable's own.
  std::vector<OutputEvent> events;
};

struct LoadOptions {
  bool reserveWorkspace = true;  ///< false: every launch brings its own (LaunchArguments::workspace).
};

/// A shared handle. Any thread may launch; launches of one executable that share its workspace are
/// ordered by the runtime, those with workspaces of their own overlap where engines are free.
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
  /// Bytes that LaunchArguments::workspace must have; 0: the recipe needs none.
  int64_t workspaceBytes() const;
  /// Enqueues one run. Buffers in the order of recipe().inputs() and outputs(), each at least as
  /// large as its tensor (dense, row-major). They stay alive until the launch is done. An output
  /// may use the memory of an input, wholly or in part (weights updated in place): it is then
  /// computed in other memory and copied after the run. Errors: kInvalidArgument (sizes, devices,
  /// outputs that share memory).
  Status launch(const Stream& stream, const std::vector<Buffer>& inputs, const std::vector<Buffer>& outputs);
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
