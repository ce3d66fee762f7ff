// SPDX-License-Identifier: Apache-2.0
// RoceEngine: queue pairs of our own RoCE v2 (collectives/roce) for links.
// The one thing to know: it is the endpoint with another face; windows are entries of a table that packets are looked
// up in, so taking one back costs nothing.
#pragma once

#include <memory>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "collectives/roce/udp/Endpoint.h"
#include "collectives/transport/net/PairEngine.h"

namespace hpu::collectives::net {

class RoceEngine final : public PairEngine {
 public:
  RoceEngine(std::unique_ptr<roce::Endpoint> endpoint, uint32_t pathMtu)
      : endpoint_(std::move(endpoint)), pathMtu_(pathMtu) {}

  std::string_view name() const override { return "roce"; }
  roce_wire::End end() const override;
  StatusOr<std::unique_ptr<Pair>> makePair(const PairOptions& options) override;
  bool progress(int batches) override { return endpoint_->progress(batches); }
  void drain() override;
  void send() override { endpoint_->send(); }
  uint32_t takeCompleted() override { return endpoint_->takeCompleted(); }
  bool hasCompleted() const override { return endpoint_->hasCompleted(); }
  std::optional<roce::TimeNs> nextTime() const override { return endpoint_->nextTime(); }
  int descriptor() const override { return endpoint_->descriptor(); }
  bool wantsToWrite() const override { return endpoint_->wantsToWrite(); }
  void rest() override { endpoint_->flushCapture(); }
  roce::Endpoint::Counters counters() const override { return endpoint_->total(); }

 private:
  const std::unique_ptr<roce::Endpoint> endpoint_;
  const uint32_t pathMtu_;
  std::unordered_set<uint32_t> numbers_;  ///< Of all pairs; those that are not connected yet, too.
};

}  // namespace hpu::collectives::net
