// SPDX-License-Identifier: Apache-2.0
// Channel: a communicator of a group on a device, with the stream that its operations go on.
// The one thing to know: `submit` never waits for other ranks once the communicator is there; a channel that is still
// meeting its peer in the background keeps operations and launches them, in order, when it has met it.
#pragma once

#include <c10/core/Stream.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "hpu/collectives.h"
#include "hpu/event.h"
#include "pytorch/device/Streams.h"

namespace hpu_torch {

/// What errors call a process group.
struct GroupInfo {
  std::string name;
  int rank = 0, ranks = 1;
  std::chrono::milliseconds timeout{0};
};

/// One call of a process group on its way.
class Operation {
 public:
  using Issue = std::function<hpu::Status(hpu::collectives::Communicator&, hpu::Stream&)>;
  std::string name;  ///< As PyTorch calls it: "all_reduce".
  uint64_t number = 0;
  hpu::Event ready;  ///< What the caller's stream was given before.
  hpu::Event end;    ///< Stands for nothing before the operation is launched.
  Issue issue;       ///< Enqueues it; called once, then let go of, with the tensors that it has.

  /// One that stands for those of a graph's replays; it is launched never.
  void setReplayed() {
    isCaptured_ = true;
    setLaunched({});
  }
  /// Waits (on the host) until the device was given the operation. Errors: why it could not be.
  hpu::Status waitLaunched();
  /// Recorded in a capture: there is nothing to wait for.
  bool isCaptured() const { return isCaptured_; }
  bool isLaunched() const { return isLaunched_.load(std::memory_order_acquire); }
  /// Launched, and done or failed.
  hpu::StatusOr<bool> isDone();

 private:
  friend class Channel;
  void setLaunched(hpu::Status status);
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> isLaunched_{false};
  bool isCaptured_ = false;  ///< Written before isLaunched_ is.
  hpu::Status status_;
};

/// Any thread may call anything.
class Channel {
 public:
  /// `rank` of `ranks` of this communicator, which is made by `key` in the store.
  Channel(OpenDevice& device, std::shared_ptr<const GroupInfo> group, c10::intrusive_ptr<c10d::Store> store,
          std::string key, int rank, int ranks);
  /// Ends a meeting that goes on; operations that do not end within two seconds are aborted, here and at the peers.
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  /// Makes the communicator: all its ranks call it. Throws.
  void connect();
  /// The same on a thread; failures are those of the operations.
  void connectLater();

  void submit(const std::shared_ptr<Operation>& operation);
  OpenDevice& device() { return device_; }
  c10::StreamId stream() const { return stream_; }

  /// Throws the failure of an operation as a CollectiveError.
  [[noreturn]] void raiseFailure(const Operation& operation, const hpu::Status& status) const;
  /// When `status` of a stream or event is the failure of an operation of this channel: throws as raiseFailure.
  void inspect(const hpu::Status& status);

 private:
  hpu::StatusOr<hpu::collectives::Communicator> meet();
  void launch(Operation& operation);
  void close();

  OpenDevice& device_;
  const std::shared_ptr<const GroupInfo> group_;
  const c10::intrusive_ptr<c10d::Store> store_;
  const std::string key_;
  const int rank_, ranks_;
  const c10::StreamId stream_;
  std::atomic<bool> isClosing_{false};
  std::thread meeting_;

  std::mutex mutex_;  ///< Guards what follows; launches are made with it, so that they are in order.
  bool isConnected_ = false;
  hpu::Status failure_;  ///< Of the meeting.
  hpu::collectives::Communicator communicator_;
  std::deque<std::shared_ptr<Operation>> waiting_;  ///< For the meeting.
  std::deque<std::shared_ptr<Operation>> running_;  ///< Launched and not seen to be done, in order.
};

}  // namespace hpu_torch
