// SPDX-License-Identifier: Apache-2.0
// HPU graphs: what a stream was given between begin and end, to be given to it again at the cost of its launches.
// The one thing to know: what is captured does not run until it is replayed. A graph keeps all memory that it uses, and
// each replay reads and writes the same addresses.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Storage.h>
#include <c10/core/Stream.h>

#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "hpu/executable.h"
#include "hpu_torch/api.h"
#include "pytorch/record/Programs.h"

namespace hpu_torch {

/// Any thread may call anything; one capture a device at a time.
class HPU_TORCH_API CapturedGraph : public std::enable_shared_from_this<CapturedGraph> {
 public:
  struct Memory {
    int64_t kept = 0;       ///< Bytes of tensors that nobody has but this graph.
    int64_t workspace = 0;  ///< Bytes of the programs' workspaces.
  };

  /// Begins on the current stream of the current device. What it is given from now on, by any thread, is captured.
  /// Throws when the device captures already, or this graph has captured and was not reset.
  void begin();
  /// Ends what begin() began. Throws when that was not so, or, once, when what was captured cannot be compiled; the
  /// graph is then empty.
  void end();
  /// Drops what was captured, also in the middle. Never throws.
  void reset() noexcept;
  /// Gives it all to the current stream of its device, behind what that was given. Throws when nothing was captured.
  void replay();

  /// What a replay gives to the stream, in order.
  struct Step {
    std::shared_ptr<const Program> program;  ///< Null: `work`.
    hpu::LaunchArguments arguments;
    std::shared_ptr<void> numbers;  ///< Memory of the launch's run-time numbers.
    std::function<void()> work;
    std::vector<const c10::StorageImpl*> used;  ///< By `work`.
  };
  /// Of a graph that has captured, which loses them.
  std::vector<Step> takeSteps();
  std::vector<c10::intrusive_ptr<c10::StorageImpl>> takeMemory();

  bool isCaptured() const;
  int64_t steps() const;  ///< Launches and host work of a replay.
  Memory memory() const;
  /// Whether replays read or write the memory.
  bool uses(const c10::StorageImpl* storage) const;

  // ---- for the recorder ---------------------------------------------------------------------------
  /// Memory that replays use; kept.
  void keep(const c10::intrusive_ptr<c10::StorageImpl>& storage);
  void addLaunch(std::shared_ptr<const Program> program, hpu::LaunchArguments arguments, std::shared_ptr<void> numbers);
  /// Work of the thread that replays, in order with the launches.
  void addWork(std::function<void()> work, std::vector<const c10::StorageImpl*> used);

 private:
  enum class State { kEmpty, kCapturing, kReady };

  mutable std::mutex mutex_;
  State state_ = State::kEmpty;
  c10::DeviceIndex device_ = -1;
  c10::StreamId stream_ = 0;
  std::vector<Step> steps_;
  std::vector<c10::intrusive_ptr<c10::StorageImpl>> kept_;
  std::set<const c10::StorageImpl*> isKept_;
  std::set<c10::StreamId> streams_;  ///< That the kept memory is known to be used by.
};

/// Work that belongs to the calling thread's current stream of a device, where that stream captures: it is added to the
/// graph, behind what was recorded. False: it does not; do it. `work` runs at each replay, with the device and stream
/// current; `storages` is the memory that it uses.
HPU_TORCH_API bool captureWork(c10::DeviceIndex device, const std::vector<c10::Storage>& storages,
                               std::function<void()> work);
/// Whether the calling thread's current stream of the device captures.
HPU_TORCH_API bool isCapturing(c10::DeviceIndex device) noexcept;

}  // namespace hpu_torch
