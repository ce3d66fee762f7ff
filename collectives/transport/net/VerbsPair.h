// SPDX-License-Identifier: Apache-2.0
// VerbsPair: a queue pair of an RDMA device, with a completion queue of its own and the memory that it may reach.
// The one thing to know: the device takes so many requests at a time; others wait here, in order. All requests are of
// one queue pair, so what is posted behind a WRITE arrives behind its data.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "collectives/transport/net/PairEngine.h"
#include "collectives/transport/net/VerbsDevice.h"

namespace hpu::collectives::net {

class VerbsEngine;

class VerbsPair final : public Pair {
 public:
  VerbsPair(VerbsEngine& engine, const PairOptions& options) : engine_(engine), options_(options) {}
  ~VerbsPair() override;
  /// `vector`: of the device's interrupts. Errors: kResourceExhausted.
  Status open(int vector);

  uint32_t number() const override { return pair_ ? pair_->qp_num : 0; }
  StatusOr<std::shared_ptr<std::byte>> buffers(size_t bytes) override;
  Status connect(const roce_wire::End& own, const roce_wire::End& peer, uint32_t mtu) override;
  Status post(const roce::Request& request) override;
  Status post(const roce::Receive& receive) override;
  std::optional<roce::Completion> poll() override;
  bool failed() const override { return !failure_.ok(); }
  Status explain(roce::Outcome) const override { return failure_; }
  uint64_t mostWriteBytes() const override;
  StatusOr<Window> openWindow(std::byte* data, int64_t bytes) override;
  void closeWindow(uint32_t key) override;
  bool takeWritten(uint32_t key) override;

  /// Nothing more is done; the first reason stays.
  void fail(const Status& why);
  /// poll() finds the next completion, too, and somebody is called for it.
  Status arm();

 private:
  /// What was asked for and is not complete.
  struct Asked {
    roce::Request request;
    ibv_mr* source = nullptr;  ///< Of a WRITE.
  };
  VerbsDevice& device() const;
  Status failedTo(const char* what, int error) const;
  Status modify(ibv_qp_attr& attributes, int which, const char* what);
  void postMore();
  int postOne(const Asked& asked);
  void noteFailure(const ibv_wc& completion);

  VerbsEngine& engine_;
  const PairOptions options_;
  ibv_cq* queue_ = nullptr;
  ibv_qp* pair_ = nullptr;
  uint32_t depth_ = 0;  ///< Requests that the device takes.
  std::shared_ptr<std::byte> memory_;
  ibv_mr* frames_ = nullptr;          ///< Of memory_.
  std::deque<Asked> posted_, asked_;  ///< With the device; not yet.
  std::unordered_map<uint32_t, ibv_mr*> windows_;
  std::unordered_set<uint32_t> closed_;  ///< Keys that the peer may still name.
  Status failure_;
};

}  // namespace hpu::collectives::net
