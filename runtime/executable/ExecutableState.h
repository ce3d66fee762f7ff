// SPDX-License-Identifier: Apache-2.0
// ExecutableState: a program loaded on a device: its driver program, constants and workspace.
// The one thing to know: launches without a workspace of their own share the executable's, so one
// on another stream than the one before it first waits for that one.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "hpu/executable.h"
#include "hpu/memory.h"
#include "hpu/recipe.h"
#include "hpu/status.h"
#include "runtime/device/DeviceState.h"
#include "runtime/executable/LaunchBindings.h"
#include "runtime/stream/StreamState.h"

namespace hpu {

/// Any thread may call anything.
class ExecutableState {
 public:
  /// Errors: as Executable::load.
  static StatusOr<std::shared_ptr<ExecutableState>> load(const std::shared_ptr<DeviceState>& device,
                                                         const Recipe& recipe, const LoadOptions& options);
  ExecutableState(std::shared_ptr<DeviceState> device, Recipe recipe, driver::ProgramId program);
  ~ExecutableState();
  ExecutableState(const ExecutableState&) = delete;
  ExecutableState& operator=(const ExecutableState&) = delete;

  const Recipe& recipe() const { return recipe_; }
  /// As Executable::launch; `self` is this, kept alive by the launch.
  Status launch(const std::shared_ptr<ExecutableState>& self, const std::shared_ptr<StreamState>& stream,
                const std::vector<Buffer>& inputs, const std::vector<Buffer>& outputs);
  Status launch(const std::shared_ptr<ExecutableState>& self, const std::shared_ptr<StreamState>& stream,
                const LaunchArguments& arguments);
  int64_t workspaceBytes() const { return workspaceBytes_; }

  /// Bytes of a section that a launch may bind (the tensor's, or workspace); 0 for others.
  int64_t boundBytes(size_t section) const;
  /// Whether a launch may use these addresses as they are: aligned, and no output where other
  /// memory of the launch is.
  Status checkSections(const std::vector<driver::DeviceAddress>& sections) const;

  /// Orders launches that share the executable's own memory: who enqueues one holds the mutex,
  /// waits for `last` when it is of another queue, and puts its own there.
  struct Order {
    std::mutex mutex;  // Guards the others, and makes `last` the last in the order of the queues.
    std::shared_ptr<TicketHandle> last;
    driver::QueueId lastQueue = 0;
  };
  Order& order() { return order_; }

 private:
  using Owner = std::shared_ptr<const void>;
  using Shown = std::vector<std::shared_ptr<BufferState>>;
  /// How a launch with certain addresses is done, found out once. It holds as long as the program has the buffers that
  /// the addresses were found in.
  struct Plan {
    std::vector<uint64_t> inputs, outputs;
    uint64_t workspace = 0;
    std::vector<driver::DeviceAddress> sections;  ///< Without staging.
    std::vector<std::weak_ptr<BufferState>> buffers;
    std::vector<BoundMemory> host;  ///< Tensors in host memory, without owners: these are found each time.
    std::vector<size_t> inPlace;    ///< Outputs that lie over inputs.
    bool shared = true;             ///< Uses memory that other launches use too.

    bool isFor(const LaunchArguments& arguments) const;
  };
  /// One launch.
  struct Run {
    std::vector<driver::DeviceAddress> sections;
    std::vector<Owner> owners;
    std::vector<size_t> inPlace;
    bool shared = true;
  };
  /// An output of a launch that is computed in other memory and copied to its own.
  struct Staged {
    size_t output = 0;
    driver::DeviceAddress address = 0;
    std::shared_ptr<BufferState> buffer;
  };

  Status placeSections(const LoadOptions& options);
  Status uploadConstants();
  int64_t neededBytes(bool isOutput, size_t index) const;
  std::string tensorText(bool isOutput, size_t index) const;
  Status checkStream(const StreamState& stream) const;
  Status checkCount(size_t given, bool isOutput) const;
  /// Is the address a multiple of the element's size?
  Status checkAligned(uint64_t address, ElementType type, bool isOutput, size_t index) const;
  StatusOr<std::vector<BoundMemory>> bind(const std::vector<Buffer>& buffers, bool isOutput) const;
  /// `shown` gets the buffers that were found.
  StatusOr<std::vector<BoundMemory>> bind(const std::vector<uint64_t>& addresses, bool isOutput, Shown& shown) const;
  StatusOr<BoundMemory> bindWorkspace(uint64_t address, Shown& shown) const;
  StatusOr<Run> prepare(LaunchBindings bindings) const;
  StatusOr<Run> prepare(const LaunchArguments& arguments);
  bool replan(const LaunchArguments& arguments, Run& run);
  StatusOr<std::shared_ptr<BufferState>> staging(size_t output, bool mayReuse);
  StatusOr<std::vector<Staged>> stage(Run& run);
  static bool isStaged(const std::vector<Staged>& staged, int output);
  driver::CopyOnDevice copyBack(const Staged& staged) const;
  Status enqueue(const std::shared_ptr<ExecutableState>& self, const std::shared_ptr<StreamState>& stream, Run run,
                 const std::vector<OutputEvent>& events);
  Status capture(CaptureState& capture, const std::shared_ptr<StreamState>& stream, driver::Launch work, Run run,
                 const std::vector<Staged>& staged, const std::vector<OutputEvent>& events,
                 const std::shared_ptr<ExecutableState>& self);
  StatusOr<std::shared_ptr<TicketHandle>> submit(const std::shared_ptr<StreamState>& stream, driver::Launch work,
                                                 Run run, const std::vector<OutputEvent>& events);
  StatusOr<std::shared_ptr<TicketHandle>> submitStaged(const std::shared_ptr<StreamState>& stream, driver::Launch work,
                                                       Run run, const std::vector<Staged>& staged,
                                                       const std::vector<OutputEvent>& events);

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

  static constexpr size_t kPlans = 8;  ///< Of the buffers that a program takes in turns.
  std::mutex plansMutex_;              // Guards the next two.
  std::vector<std::shared_ptr<const Plan>> plans_;
  size_t nextPlan_ = 0;

  Order order_;
  /// By output: what stands in for an output that overwrites an input. Guarded by order_.mutex.
  std::vector<std::shared_ptr<BufferState>> staging_;
};

}  // namespace hpu
