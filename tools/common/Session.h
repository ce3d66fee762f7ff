// SPDX-License-Identifier: Apache-2.0
// Session: a recipe on a device with buffers for its inputs and outputs, run any number of times
// and timed on both clocks. The one thing to know: host time includes the copies to and from the
// device; device time is modelled and is measured by events around each part.
//
//   HPU_ASSIGN(auto session, Session::open(recipe, {}));
//   HPU_ASSIGN(auto outputs, session.run(inputs));
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "hpu/device.h"
#include "hpu/executable.h"
#include "hpu/recipe.h"
#include "tools/common/HostTensor.h"
#include "tools/common/RunTimes.h"

namespace hpu::tools {

class Session {
 public:
  /// Opens the device that the recipe is for and loads the recipe. Errors: those of Device::open,
  /// Executable::load and Device::allocate.
  static StatusOr<Session> open(const Recipe& recipe, DeviceOptions options);

  /// One run; states begin as their inputs say, and end as their outputs. Inputs in the order of the recipe, of its
  /// types; free dimensions take the inputs' sizes. Errors: kInvalidArgument, the device's.
  StatusOr<std::vector<HostTensor>> run(const std::vector<HostTensor>& inputs);
  /// `warmup` runs, then `iterations` timed ones; the outputs of the last are kept in outputs().
  /// `stopped` is asked before each run: true ends the runs there, and the times are of those that ran, if any.
  StatusOr<RunTimes> runTimed(const std::vector<HostTensor>& inputs, int warmup, int iterations,
                              const std::function<bool()>& stopped = {});
  /// Those of the model, with the sizes that the last run has found where data decides them.
  const std::vector<HostTensor>& outputs() const { return recipe_.dataSizes().empty() ? outputs_ : found_; }

  const Recipe& recipe() const { return recipe_; }
  const Device& device() const { return device_; }
  double loadMs() const { return loadMs_; }
  /// Host time of the last run's launch call alone.
  double launchUs() const { return launchUs_; }

 private:
  Session() = default;
  Status checkInputs(const std::vector<HostTensor>& inputs) const;
  Status allocate(const std::vector<TensorInfo>& inputs, const std::vector<TensorInfo>& outputs);
  /// checkInputs, and outputs and buffers for these inputs.
  Status fit(const std::vector<HostTensor>& inputs);
  /// After a run: found_.
  Status findSizes();
  Status runOnce(const std::vector<HostTensor>& inputs, const Event* marks);

  Recipe recipe_;
  Device device_;
  Executable executable_;
  Stream stream_;
  std::vector<Buffer> inputBuffers_, outputBuffers_;
  std::vector<HostTensor> outputs_;           ///< As the launch writes them.
  std::vector<HostTensor> found_;             ///< Of sizes that depend on data: as the model has them.
  std::vector<std::vector<uint8_t>> states_;  ///< By state of the recipe: its memory, before a run and after one.
  std::vector<Shape> inputShapes_;            ///< Of the last run of a recipe with free dimensions.
  InputValues inputValues_;                   ///< Likewise.
  double loadMs_ = 0, launchUs_ = 0;
};

/// The outputs of the model that the recipe is made of: without the one that says sizes that depend on data.
std::vector<TensorInfo> modelOutputs(const Recipe& recipe);

/// The file begins as a recipe does. Errors: those of opening it.
StatusOr<bool> isRecipeFile(const std::string& path);

}  // namespace hpu::tools
