// SPDX-License-Identifier: Apache-2.0
// ExecutableState: a program loaded on a device: its driver program, constants and workspace.
// The one thing to know: all launches share the workspace, so a launch on another stream than the
// one before it first waits for that one.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "hpu/memory.h"
#include "hpu/recipe.h"
#include "hpu/status.h"
#include "runtime/device/DeviceState.h"
#include "runtime/stream/StreamState.h"

namespace hpu {

/// Any thread may call anything.
class ExecutableState {
 public:
  /// Errors: as Executable::load.
  static StatusOr<std::shared_ptr<ExecutableState>> load(const std::shared_ptr<DeviceState>& device,
                                                         const Recipe& recipe);
  ExecutableState(std::shared_ptr<DeviceState> device, Recipe recipe, driver::ProgramId program);
  ~ExecutableState();
  ExecutableState(const ExecutableState&) = delete;
  ExecutableState& operator=(const ExecutableState&) = delete;

  const Recipe& recipe() const { return recipe_; }
  /// As Executable::launch; `self` is this, kept alive by the launch.
  Status launch(const std::shared_ptr<ExecutableState>& self, StreamState& stream,
                const std::vector<Buffer>& inputs, const std::vector<Buffer>& outputs);

 private:
  Status placeSections();
  Status uploadConstants();
  Status bind(const std::vector<Buffer>& buffers, bool isOutput,
              std::vector<driver::DeviceAddress>& sections) const;
  Status checkBuffer(const Buffer& buffer, const TensorInfo& tensor, uint64_t sectionBytes) const;
  Status checkOverlap(const std::vector<Buffer>& inputs, const std::vector<Buffer>& outputs) const;

  const std::shared_ptr<DeviceState> device_;
  const Recipe recipe_;
  const driver::ProgramId program_;
  std::vector<std::shared_ptr<BufferState>> buffers_;  ///< Constants, workspace, persistent.
  std::vector<driver::DeviceAddress> sections_;        ///< By section; 0 where a launch binds it.

  std::mutex mutex_;  // Guards the two, and makes `last_` the last in the order of the queues.
  std::shared_ptr<TicketHandle> last_;
  driver::QueueId lastQueue_ = 0;
};

}  // namespace hpu
