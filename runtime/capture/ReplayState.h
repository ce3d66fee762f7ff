// SPDX-License-Identifier: Apache-2.0
// ReplayState: captured work as one batch for the driver, with queues of its own for the branches; with repeatable
// work in it as the same calls that were captured, of streams of its own, what is together as one batch.
// The one thing to know: a replay only hands the prepared items over; what is checked is checked at
// capture and when memory is rebound, but for repeatable work, which checks itself.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "hpu/external_work.h"
#include "hpu/status.h"
#include "hpu/stream.h"
#include "runtime/capture/CaptureState.h"
#include "runtime/device/DeviceState.h"
#include "runtime/driver/Driver.h"

namespace hpu {

/// Any thread may call anything.
class ReplayState {
 public:
  static StatusOr<std::shared_ptr<ReplayState>> create(const CapturedWork& work);
  explicit ReplayState(const CapturedWork& work);
  ~ReplayState();
  ReplayState(const ReplayState&) = delete;
  ReplayState& operator=(const ReplayState&) = delete;

  /// As GraphInstance::replay.
  Status replay(const Stream& stream);
  /// As GraphInstance::rebind; the old range may be larger than the new one when its end is unused.
  Status rebindDevice(uint64_t from, uint64_t to, int64_t fromBytes, int64_t toBytes);
  Status rebindHost(HostSide side, const void* from, const void* to, int64_t bytes);

  const std::shared_ptr<DeviceState>& device() const { return device_; }

 private:
  /// One call of a replay: a batch of one stream (or, without repeatable work, of all), a wait of one branch for
  /// another, or repeatable work.
  struct Step {
    enum class Kind : uint8_t { kBatch, kWait, kWork };
    Kind kind = Kind::kBatch;
    uint32_t branch = 0;
    uint32_t operation = 0;  ///< The first one.
    size_t point = 0;        ///< Of a wait.
    /// Of a batch: the items that others wait for; of repeatable work: 0 is its end.
    struct Given {
      size_t item = 0;
      uint32_t signal = driver::BatchItem::kNone;
      size_t point = 0;
    };
    std::vector<Given> given;
    std::vector<std::shared_ptr<ExecutableState>> ordered;  ///< Those of the graph's that are launched here.
  };
  struct Place {
    size_t step = 0, item = 0;
  };
  /// What a replay hands over; replaced as a whole.
  struct Plan {
    std::vector<std::vector<driver::BatchItem>> steps;  ///< One item for a wait and for repeatable work.
    std::vector<std::vector<KeptOwner>> owners;         ///< By operation, as the rest.
    std::vector<std::vector<WorkMemory>> memory;
  };
  using Points = std::vector<std::shared_ptr<TicketHandle>>;

  Status makeStreams(const CapturedWork& work);
  void makeSteps(const CapturedWork& work, Plan& plan);
  Status replayWhole(StreamState& stream);
  Status replaySteps(const Stream& stream);
  Status enqueueStep(size_t index, const Stream& stream, Points& points);
  Status enqueueBatch(size_t index, StreamState& stream, Points& points);
  /// After a failure: what was enqueued on the branches comes before what follows on the stream.
  void joinBranches(StreamState& stream);
  /// Lets go of a plan when what was enqueued of it is done.
  void retire(std::shared_ptr<const Plan> plan);

  /// Moves what lies in [from, from + fromBytes), on the device or on one side of the host's; the
  /// number of ranges that moved.
  StatusOr<int> move(Plan& plan, uint64_t from, uint64_t to, int64_t fromBytes, int64_t toBytes, const HostSide* side,
                     const KeptOwner& newOwner) const;

  // Not the captured work: it keeps the memory that a rebind lets go.
  const std::shared_ptr<DeviceState> device_;
  const std::vector<std::shared_ptr<ExecutableState>> ordered_;  ///< As CapturedWork's.
  const bool repeats_;                                           ///< As CapturedWork's.
  std::vector<std::shared_ptr<ExecutableState>> executables_;    ///< By operation; null: no launch.
  std::vector<std::shared_ptr<const Instance>> instances_;       ///< Likewise: what of it runs.
  // Not of the plan, which work in flight keeps: a communicator should not end on a thread of the driver.
  std::vector<std::shared_ptr<RepeatableWork>> repeatable_;  ///< By operation; null: none.
  std::vector<std::shared_ptr<std::mutex>> calls_;           ///< By operation, of repeatable work.
  std::vector<driver::QueueId> queues_;  ///< By branch; 0: the stream of the replay. Without repeatable work.
  std::vector<Stream> streams_;          ///< By branch; empty: the stream of the replay. With repeatable work.
  std::vector<Step> steps_;
  std::vector<Place> places_;  ///< By operation.
  size_t points_ = 0;

  std::mutex mutex_;  // Guards the rest. Taken before a stream's.
  std::shared_ptr<const Plan> plan_;
  std::shared_ptr<TicketHandle> last_;
  driver::QueueId lastQueue_ = 0;
};

}  // namespace hpu
