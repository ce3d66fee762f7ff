// SPDX-License-Identifier: Apache-2.0
// VerbsEngine: queue pairs of an RDMA device for links, over libibverbs.
// The one thing to know: the device reads and writes memory by itself; that it has stopped is known when the queue pair
// is destroyed or the memory is deregistered, so windows and what is sent are registered for their one use.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "collectives/transport/net/PairEngine.h"
#include "collectives/transport/net/VerbsDevice.h"

namespace hpu::collectives::net {

class VerbsPair;

class VerbsEngine final : public PairEngine {
 public:
  VerbsEngine(std::unique_ptr<VerbsDevice> device, const Address& local);

  std::string_view name() const override { return "verbs"; }
  roce_wire::End end() const override;
  StatusOr<std::unique_ptr<Pair>> makePair(const PairOptions& options) override;
  bool progress(int batches) override;
  void drain() override;
  void send() override {}
  uint32_t takeCompleted() override;
  bool hasCompleted() const override { return !completed_.empty(); }
  std::optional<roce::TimeNs> nextTime() const override { return std::nullopt; }
  int descriptor() const override { return device_->descriptor(); }
  bool wantsToWrite() const override { return false; }

  VerbsDevice& device() { return *device_; }
  /// That pair is to be polled.
  void note(uint32_t number) { completed_.push_back(number); }
  /// Takes what the device says of itself: the reason of a pair's failure may be there.
  void lookAtDevice();
  void forget(uint32_t number) { pairs_.erase(number); }

 private:
  bool takeEvents(int most);
  void takeDeviceEvent(const ibv_async_event& event);
  /// The device, or its port, is gone.
  void breakAll(const Status& why);

  const std::unique_ptr<VerbsDevice> device_;
  const Address local_;
  int nextVector_ = 0;
  Status broken_;
  std::unordered_map<uint32_t, VerbsPair*> pairs_;
  std::deque<uint32_t> completed_;
};

}  // namespace hpu::collectives::net
