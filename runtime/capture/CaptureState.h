// SPDX-License-Identifier: Apache-2.0
// CaptureState: a capture that goes on: what its streams were asked to do, in order.
// The one thing to know: StreamState::submit hands work over to the capture that its stream is in;
// nothing of it reaches the driver.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "hpu/external_work.h"
#include "hpu/status.h"
#include "runtime/capture/WorkRanges.h"
#include "runtime/driver/Driver.h"

namespace hpu {

class CaptureState;
class DeviceState;
class EventState;
class ExecutableState;
class Instance;
class StreamState;

/// Operations in the order of capture, which is one in which they can be submitted. Branch 0 is the
/// stream that the capture began on.
class CapturedWork {
 public:
  struct Operation {
    uint32_t branch = 0;
    driver::Work work;
    std::string label;
    std::vector<KeptOwner> owners;
    uint32_t waitOperation = driver::BatchItem::kNone;  ///< Of a wait.
    uint32_t waitSignal = driver::BatchItem::kNone;
    std::shared_ptr<ExecutableState> executable;  ///< Of a launch ...
    std::shared_ptr<const Instance> instance;     ///< ... and what of it runs.
    /// Work that each replay enqueues again; `work` is external work of nobody then.
    std::shared_ptr<RepeatableWork> repeatable;
    std::vector<WorkMemory> memory;  ///< Of repeatable work.
    /// Taken for its calls: that of all graphs which have the same object.
    std::shared_ptr<std::mutex> calls;
  };
  struct Branch {
    std::string name;
    int32_t priority = 0;
  };

  std::shared_ptr<DeviceState> device;
  std::vector<Operation> operations;
  std::vector<Branch> branches;
  /// Executables whose own memory the operations share with launches outside; each once.
  std::vector<std::shared_ptr<ExecutableState>> ordered;
  bool repeats = false;  ///< There is repeatable work.
};

/// What an event stands for that was recorded in a capture.
struct CapturedPoint {
  std::weak_ptr<CaptureState> capture;
  uint32_t operation = 0;
  uint32_t signal = driver::BatchItem::kNone;
  bool set = false;
};

/// Any thread may call anything. Locks: a stream's, then a capture's.
class CaptureState : public std::enable_shared_from_this<CaptureState> {
 public:
  /// Errors: kFailedPrecondition (the stream is captured already).
  static StatusOr<std::shared_ptr<CaptureState>> begin(const std::shared_ptr<StreamState>& origin);
  explicit CaptureState(std::shared_ptr<DeviceState> device);

  using Owners = driver::Owners;
  /// Records work of a stream of the capture; the index of the operation.
  StatusOr<uint32_t> add(const StreamState& stream, driver::Work work, std::string label, Owners owners,
                         std::shared_ptr<ExecutableState> executable = nullptr,
                         std::shared_ptr<const Instance> instance = nullptr);
  /// Records work that replays enqueue again; `memory` is what it uses, each range in a live allocation or empty.
  Status addRepeatable(const StreamState& stream, std::shared_ptr<RepeatableWork> work, std::vector<WorkMemory> memory);
  /// Stream::record.
  Status record(const std::shared_ptr<StreamState>& stream, EventState& event);
  /// Stream::wait for a point of this capture, by a stream that is in it or joins it.
  Status wait(const std::shared_ptr<StreamState>& stream, const CapturedPoint& point);
  /// Before a launch that uses its executable's own memory: behind the one before it.
  Status orderBehindLast(const StreamState& stream, const std::shared_ptr<ExecutableState>& executable);
  /// The last work of `stream` was the last of such a launch.
  void used(const std::shared_ptr<ExecutableState>& executable, const StreamState& stream);

  /// A call that cannot be captured: it fails with the result, and so does the capture.
  Status refuse(std::string_view call, std::string_view why);
  /// The same for a call that could be captured, and was wrong with `why`, which it returns.
  Status fail(const Status& why);
  /// refuse() for a call that belongs to no stream, when the calling thread has begun a capture of
  /// the device that goes on; ok when it has not.
  static Status refuseOnThisThread(const DeviceState& device, std::string_view call, std::string_view why);

  bool active() const;
  /// Of no other capture of this process; not 0.
  uint64_t number() const { return number_; }
  /// Ends it. Errors: as CaptureSession::end.
  StatusOr<std::shared_ptr<const CapturedWork>> end();

 private:
  StatusOr<uint32_t> branchOf(const StreamState& stream) const;
  StatusOr<uint32_t> append(uint32_t branch, CapturedWork::Operation operation);
  Status checkJoined() const;

  const uint64_t number_;
  mutable std::mutex mutex_;  // Guards everything below.
  std::shared_ptr<CapturedWork> work_;
  std::vector<std::shared_ptr<StreamState>> streams_;  ///< By branch.
  std::vector<uint32_t> last_;                         ///< By branch; kNone: nothing yet.
  std::unordered_map<const ExecutableState*, uint32_t> lastUse_;
  KnownMemory memory_;
  Status refused_;
  bool ended_ = false;
};

}  // namespace hpu
