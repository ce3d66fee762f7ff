// SPDX-License-Identifier: Apache-2.0
// Executable: a recipe loaded on a device, ready to be launched any number of times.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "hpu/device.h"
#include "hpu/memory.h"
#include "hpu/recipe.h"
#include "hpu/status.h"
#include "hpu/stream.h"

namespace hpu {

class ExecutableState;

/// A shared handle. Any thread may launch; launches of one executable on several streams share its
/// workspace and are therefore ordered by the runtime.
class HPU_API Executable {
 public:
  Executable();
  ~Executable();
  /// Uploads constants, maps the kernel image that fits this CPU and reserves the workspace.
  /// Errors: kFailedPrecondition (other target, no kernel image for this CPU; the message names the
  /// command that mends it), kResourceExhausted.
  static StatusOr<Executable> load(const Device& device, const Recipe& recipe);

  const Recipe& recipe() const;
  /// Enqueues one run. Buffers in the order of recipe().inputs() and outputs(), each at least as large as
  /// its tensor (dense, row-major). They stay alive until the launch is done.
  Status launch(const Stream& stream, const std::vector<Buffer>& inputs,
                const std::vector<Buffer>& outputs);

 private:
  std::shared_ptr<ExecutableState> state_;
};

}  // namespace hpu
