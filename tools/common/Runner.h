// SPDX-License-Identifier: Apache-2.0
// Runner: one recipe on one device with its buffers; what hpu-run and hpu-verify launch.
#pragma once

#include <string>
#include <vector>

#include "hpu/device.h"
#include "hpu/executable.h"
#include "hpu/recipe.h"
#include "hpu/stream.h"
#include "tools/common/HostTensor.h"

namespace hpu::tools {

class Runner {
 public:
  /// Opens the device that the recipe is for and loads it.
  static StatusOr<Runner> create(const Recipe& recipe, int threads,
                                 const std::string& driver = "sim");

  /// Copies the inputs to the device; tensors in the order of recipe.inputs().
  Status upload(const std::vector<HostTensor>& inputs);
  /// One launch; waits for its end. Gives the device time that it took.
  StatusOr<int64_t> launch();
  StatusOr<std::vector<HostTensor>> download();

  const Device& device() const { return device_; }
  const Recipe& recipe() const { return recipe_; }
  double loadMs() const { return loadMs_; }

 private:
  Recipe recipe_;
  Device device_;
  Stream stream_;
  Executable executable_;
  std::vector<Buffer> inputs_, outputs_;
  double loadMs_ = 0;
};

}  // namespace hpu::tools
