// SPDX-License-Identifier: Apache-2.0
// ReplayState: captured work as one batch for the driver, with queues of its own for the branches.
// The one thing to know: a replay only hands the prepared items over; what is checked is checked at
// capture and when memory is rebound.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "hpu/status.h"
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
  Status replay(StreamState& stream);
  /// As GraphInstance::rebind; the old range may be larger than the new one when its end is unused.
  Status rebindDevice(uint64_t from, uint64_t to, int64_t fromBytes, int64_t toBytes);
  Status rebindHost(HostSide side, const void* from, const void* to, int64_t bytes);

  const std::shared_ptr<DeviceState>& device() const { return device_; }

 private:
  /// What a replay hands over; replaced as a whole.
  struct Plan {
    std::vector<driver::BatchItem> items;
    std::vector<std::vector<KeptOwner>> owners;  ///< By item.
  };

  /// Moves what lies in [from, from + fromBytes), on the device or on one side of the host's; the
  /// number of ranges that moved.
  StatusOr<int> move(Plan& plan, uint64_t from, uint64_t to, int64_t fromBytes, int64_t toBytes, const HostSide* side,
                     const KeptOwner& newOwner) const;

  // Not the captured work: it keeps the memory that a rebind lets go.
  const std::shared_ptr<DeviceState> device_;
  const std::vector<std::shared_ptr<ExecutableState>> ordered_;  ///< As CapturedWork's.
  std::vector<std::shared_ptr<ExecutableState>> executables_;    ///< By item; null: no launch.
  std::vector<driver::QueueId> queues_;                          ///< By branch; 0: the stream of the replay.

  std::mutex mutex_;  // Guards the rest. Taken before a stream's.
  std::shared_ptr<const Plan> plan_;
  std::shared_ptr<TicketHandle> last_;
  driver::QueueId lastQueue_ = 0;
};

}  // namespace hpu
