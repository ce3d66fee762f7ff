// SPDX-License-Identifier: Apache-2.0
// ExecutableState: a program loaded on a device: its driver program, constants and workspace.
// The one thing to know: launches without a workspace of their own share the executable's, so one
// on another stream than the one before it first waits for that one.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "hpu/executable.h"
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
                                                         const Recipe& recipe,
                                                         const LoadOptions& options);
  ExecutableState(std::shared_ptr<DeviceState> device, Recipe recipe, driver::ProgramId program);
  ~ExecutableState();
  ExecutableState(const ExecutableState&) = delete;
  ExecutableState& operator=(const ExecutableState&) = delete;

  const Recipe& recipe() const { return recipe_; }
  /// As Executable::launch; `self` is this, kept alive by the launch.
  Status launch(const std::shared_ptr<ExecutableState>& self, StreamState& stream,
                const std::vector<Buffer>& inputs, const std::vector<Buffer>& outputs);
  Status launch(const std::shared_ptr<ExecutableState>& self, const Stream& stream,
                const LaunchArguments& arguments);
  int64_t workspaceBytes() const { return workspaceBytes_; }

 private:
  using Owner = std::shared_ptr<const void>;
  /// Memory of a tensor in one launch.
  struct Bound {
    uint64_t address = 0;
    int64_t bytes = 0;  ///< That the tensor may use.
    Owner owner;
  };
  /// What a launch uses, checked one by one.
  struct Bindings {
    std::vector<Bound> inputs, outputs;
    Bound workspace;  ///< Address 0: the executable's own.
  };

  Status placeSections(const LoadOptions& options);
  Status uploadConstants();
  int64_t neededBytes(bool isOutput, size_t index) const;
  Status checkStream(const StreamState& stream) const;
  StatusOr<std::vector<Bound>> bind(const std::vector<Buffer>& buffers, bool isOutput) const;
  StatusOr<std::vector<Bound>> bind(const std::vector<uint64_t>& addresses, bool isOutput) const;
  StatusOr<Bound> bindWorkspace(uint64_t address) const;
  Status checkCount(size_t given, bool isOutput) const;
  StatusOr<std::vector<size_t>> overwritten(const Bindings& bindings) const;
  StatusOr<std::shared_ptr<BufferState>> staging(size_t output, bool mayReuse);
  Status enqueue(const std::shared_ptr<ExecutableState>& self, StreamState& stream,
                 Bindings bindings);

  const std::shared_ptr<DeviceState> device_;
  const Recipe recipe_;
  const driver::ProgramId program_;
  std::vector<std::shared_ptr<BufferState>> buffers_;  ///< Constants, workspace, persistent.
  std::vector<driver::DeviceAddress> sections_;        ///< By section; 0 where a launch binds it.
  std::vector<int64_t> inputSectionBytes_,
      outputSectionBytes_;      ///< By tensor; 0: no op touches it.
  int64_t workspaceBytes_ = 0;  ///< Of all workspace sections together.
  bool ownsWorkspace_ = false;  ///< It is reserved, or none is needed.
  bool keepsState_ = false;     ///< Launches share memory besides the workspace.

  std::mutex mutex_;  // Guards the next, and makes `last_` the last in the order of the queues.
  std::shared_ptr<TicketHandle> last_;
  driver::QueueId lastQueue_ = 0;
  /// By output: what stands in for an output that overwrites an input. Guarded by mutex_.
  std::vector<std::shared_ptr<BufferState>> staging_;
};

}  // namespace hpu
