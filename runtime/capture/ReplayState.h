// SPDX-License-Identifier: Apache-2.0
// ReplayState: captured work as one batch for the driver, with queues of its own for the branches.
// The one thing to know: a replay only hands the prepared items over; what is checked is checked at
// capture and when memory is rebound.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/FunctionRef.h"
#include "hpu/status.h"
#include "runtime/capture/CaptureState.h"
#include "runtime/device/DeviceState.h"
#include "runtime/driver/Driver.h"

namespace hpu {

/// Any thread may call anything.
class ReplayState {
 public:
  static StatusOr<std::shared_ptr<ReplayState>> create(std::shared_ptr<const CapturedWork> work);
  explicit ReplayState(std::shared_ptr<const CapturedWork> work);
  ~ReplayState();
  ReplayState(const ReplayState&) = delete;
  ReplayState& operator=(const ReplayState&) = delete;

  /// As GraphInstance::replay.
  Status replay(StreamState& stream);
  /// As GraphInstance::rebind; the old range may be larger than the new one when its end is unused.
  Status rebindDevice(uint64_t from, uint64_t to, int64_t fromBytes, int64_t toBytes);
  enum class HostSide : uint8_t { kSource, kDestination };
  Status rebindHost(HostSide side, const void* from, const void* to, int64_t bytes);

  const std::shared_ptr<DeviceState>& device() const { return work_->device; }

 private:
  using Owner = std::shared_ptr<const void>;
  using Owners = std::vector<Owner>;
  /// What a replay hands over; replaced as a whole.
  struct Plan {
    std::vector<driver::BatchItem> items;
    std::vector<Owners> owners;  ///< By item.
  };
  /// A range that an operation uses: its address, to be changed, and its bytes.
  using Range = base::FunctionRef<void(uint64_t& address, int64_t bytes)>;

  void forEachDeviceRange(size_t item, driver::Work& work, Range range) const;
  static void forEachHostRange(driver::Work& work, HostSide side, Range range);
  Status checkLaunch(size_t item, const driver::Launch& launch) const;
  /// Moves what lies in [from, from + bytes); the number of ranges that moved.
  StatusOr<int> move(Plan& plan, uint64_t from, uint64_t to, int64_t fromBytes, int64_t toBytes,
                     bool host, HostSide side, const Owner& newOwner);

  const std::shared_ptr<const CapturedWork> work_;
  std::vector<driver::QueueId> queues_;  ///< By branch; 0: the stream of the replay.

  std::mutex mutex_;  // Guards the rest. Taken before a stream's.
  std::shared_ptr<const Plan> plan_;
  std::shared_ptr<TicketHandle> last_;
  driver::QueueId lastQueue_ = 0;
};

}  // namespace hpu
