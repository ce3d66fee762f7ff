// SPDX-License-Identifier: Apache-2.0
// ExecutableState: a recipe loaded on a device: its programs as the driver has them, constants and workspace.
// The one thing to know: launches without a workspace of their own share the executable's, so one
// on another stream than the one before it first waits for that one.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "hpu/executable.h"
#include "hpu/memory.h"
#include "hpu/recipe.h"
#include "hpu/status.h"
#include "runtime/device/DeviceState.h"
#include "runtime/executable/Instance.h"
#include "runtime/executable/InstanceCache.h"
#include "runtime/executable/LaunchBindings.h"
#include "runtime/executable/LaunchPlans.h"
#include "runtime/stream/StreamState.h"
#include "runtime/trace/Recorder.h"

namespace hpu {

/// Any thread may call anything.
class ExecutableState {
 public:
  /// Errors: as Executable::load.
  static StatusOr<std::shared_ptr<ExecutableState>> load(const std::shared_ptr<DeviceState>& device,
                                                         const Recipe& recipe, const LoadOptions& options);
  ExecutableState(std::shared_ptr<DeviceState> device, Recipe recipe);
  ExecutableState(const ExecutableState&) = delete;
  ExecutableState& operator=(const ExecutableState&) = delete;

  const Recipe& recipe() const { return recipe_; }
  /// As Executable::launch; `self` is this, kept alive by the launch. `scope` is the call's, and gets the sizes.
  Status launch(const std::shared_ptr<ExecutableState>& self, const std::shared_ptr<StreamState>& stream,
                const std::vector<Buffer>& inputs, const std::vector<Buffer>& outputs,
                const std::vector<Shape>& inputShapes, trace::HostScope& scope);
  Status launch(const std::shared_ptr<ExecutableState>& self, const std::shared_ptr<StreamState>& stream,
                const LaunchArguments& arguments, trace::HostScope& scope);
  /// As Executable's.
  StatusOr<std::vector<TensorInfo>> outputs(const std::vector<Shape>& inputShapes) const;
  int64_t workspaceBytes();
  StatusOr<int64_t> workspaceBytes(const std::vector<Shape>& inputShapes);

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
  /// One launch.
  struct Run {
    driver::Addresses sections;
    driver::Owners owners;
    std::vector<size_t> inPlace;
    bool shared = true;
    bool growing = false;    ///< As LaunchPlan's: the workspace gets its addresses when it is enqueued.
    std::string_view label;  ///< The name of the program, which outlives this; it says which variant.
  };
  /// An output of a launch that is computed in other memory and copied to its own.
  struct Staged {
    size_t output = 0;
    driver::DeviceAddress address = 0;
    int64_t bytes = 0;
    std::shared_ptr<BufferState> buffer;
  };

  Status placeSections(const LoadOptions& options);
  Status uploadConstants();
  StatusOr<std::shared_ptr<Instance>> instanceFor(const std::vector<Shape>& inputShapes, trace::HostScope& scope);
  Status checkFixedShapes(const std::vector<Shape>& inputShapes) const;
  Status checkStream(const StreamState& stream) const;
  Status checkCount(size_t given, bool isOutput) const;
  /// Is the address a multiple of the element's size?
  static Status checkAligned(const Instance& instance, uint64_t address, bool isOutput, size_t index);
  StatusOr<std::vector<BoundMemory>> bind(const Instance& instance, const std::vector<Buffer>& buffers,
                                          bool isOutput) const;
  /// `shown` gets the buffers that were found.
  StatusOr<std::vector<BoundMemory>> bind(const Instance& instance, const std::vector<uint64_t>& addresses,
                                          bool isOutput, Shown& shown) const;
  StatusOr<BoundMemory> bindWorkspace(const Instance& instance, uint64_t address, Shown& shown) const;
  StatusOr<Run> prepare(const Instance& instance, LaunchBindings bindings) const;
  StatusOr<Run> prepare(Instance& instance, const LaunchArguments& arguments);
  bool replan(const LaunchPlan& plan, Run& run) const;
  Status growWorkspace(const Instance& instance, Run& run);
  StatusOr<std::shared_ptr<BufferState>> staging(const Instance& instance, size_t output, bool mayReuse);
  StatusOr<std::vector<Staged>> stage(const Instance& instance, Run& run);
  static bool isStaged(const std::vector<Staged>& staged, int output);
  static driver::CopyOnDevice copyBack(const Staged& staged);
  Status enqueue(const std::shared_ptr<ExecutableState>& self, const std::shared_ptr<Instance>& instance,
                 const std::shared_ptr<StreamState>& stream, Run run, const std::vector<OutputEvent>& events);
  Status capture(CaptureState& capture, const std::shared_ptr<StreamState>& stream, driver::Launch work, Run run,
                 const std::vector<Staged>& staged, const std::vector<OutputEvent>& events,
                 const std::shared_ptr<ExecutableState>& self, const std::shared_ptr<Instance>& instance);
  StatusOr<std::shared_ptr<TicketHandle>> submit(const std::shared_ptr<StreamState>& stream, driver::Launch work,
                                                 Run run, const std::vector<OutputEvent>& events);
  StatusOr<std::shared_ptr<TicketHandle>> submitStaged(const std::shared_ptr<StreamState>& stream, driver::Launch work,
                                                       Run run, const std::vector<Staged>& staged,
                                                       const std::vector<OutputEvent>& events);

  const std::shared_ptr<DeviceState> device_;
  const Recipe recipe_;
  std::shared_ptr<Instance> fixed_;                    ///< Of a recipe of fixed sizes; else null ...
  std::unique_ptr<InstanceCache> instances_;           ///< ... and these, which null is of a recipe of fixed sizes.
  std::vector<std::shared_ptr<BufferState>> buffers_;  ///< Constants, workspace of fixed size, persistent.
  std::map<size_t, BoundMemory> defaults_;             ///< By input.
  driver::Addresses sections_;                         ///< By section; 0 where a launch binds it.
  bool reservesWorkspace_ = true;                      ///< Launches may do without one of their own.
  bool keepsState_ = false;                            ///< Launches share memory besides the workspace.

  Order order_;
  /// By output: what stands in for an output that overwrites an input. Guarded by order_.mutex.
  std::vector<std::shared_ptr<BufferState>> staging_;
  /// Of a recipe of free dimensions: as large as the largest launch has needed. Guarded by order_.mutex; launches that
  /// are in flight own its memory, so that it may be replaced.
  std::shared_ptr<BufferState> workspace_;
};

}  // namespace hpu
