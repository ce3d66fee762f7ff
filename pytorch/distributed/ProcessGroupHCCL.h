// SPDX-License-Identifier: Apache-2.0
// ProcessGroupHCCL: torch.distributed's backend "hccl", on hpu::collectives.
// The one thing to know: a call enqueues on a stream of the group's own, behind what the caller's current stream was
// given, and returns; results are for streams that waited for the work (Work::wait does that for the current one).
//
//   auto group = c10::make_intrusive<hpu_torch::ProcessGroupHCCL>(store, rank, size, options);
//   std::vector<at::Tensor> tensors{gradient};
//   group->allreduce(tensors)->wait();
#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "hpu_torch/api.h"
#include "pytorch/distributed/Channel.h"
#include "pytorch/distributed/Operands.h"
#include "pytorch/distributed/Work.h"

namespace hpu_torch {

/// The communicator of all ranks is made by the first collective, with the device of its tensors: every rank calls it.
/// Sends and receives have a communicator for each peer, direction and tag, which is made in the background, so that
/// two ranks may both send first. Any thread may call anything, as long as all ranks call in the same order.
class HPU_TORCH_API ProcessGroupHCCL : public c10d::ProcessGroup {
 public:
  /// `timeout`: for ranks to come to a collective, and for each to be done; 0: none.
  ProcessGroupHCCL(c10::intrusive_ptr<c10d::Store> store, int rank, int size, std::chrono::milliseconds timeout,
                   std::string name);
  /// Waits at most two seconds for operations that are not done, then aborts them.
  ~ProcessGroupHCCL() override;

  const std::string getBackendName() const override { return "hccl"; }
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override { return number_; }

  using Tensors = std::vector<at::Tensor>;
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;
  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  WorkPtr allgather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                              const c10d::AllgatherOptions& options) override;
  WorkPtr gather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& options) override;
  WorkPtr scatter(Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ScatterOptions& options) override;
  WorkPtr reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                         const c10d::ReduceScatterOptions& options) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override;
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& outputSplits,
                        std::vector<int64_t>& inputSplits, const c10d::AllToAllOptions& options) override;
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) override;
  WorkPtr send(Tensors& tensors, int to, int tag) override;
  WorkPtr recv(Tensors& tensors, int from, int tag) override;
  WorkPtr recvAnysource(Tensors& tensors, int tag) override;
  WorkPtr barrier(const c10d::BarrierOptions& options) override;

 private:
  Operands operandsOf(const char* name, const Tensors& tensors);
  std::shared_ptr<Channel> collectiveChannel(c10::DeviceIndex device);
  std::shared_ptr<Channel> pairChannel(c10::DeviceIndex device, int from, int to, int tag);
  c10::intrusive_ptr<WorkHCCL> enqueue(c10d::OpType type, Operands operands, const std::shared_ptr<Channel>& channel,
                                       Operation::Issue issue);
  c10::intrusive_ptr<WorkHCCL> enqueue(c10d::OpType type, Operands operands, Operation::Issue issue);
  /// Memory for work on the channel's stream; the operands keep it.
  static uint64_t scratch(Operands& operands, Channel& channel, int64_t bytes);
  void checkRoot(const char* name, int64_t root) const;
  void checkList(const char* name, const Tensors& tensors) const;

  const c10::intrusive_ptr<c10d::Store> store_;
  const std::shared_ptr<const GroupInfo> info_;
  std::atomic<uint64_t> number_{0};
  std::atomic<int> lastDevice_{-1};  ///< Of tensors that were given; -1: none yet.
  std::mutex mutex_;                 ///< Guards what follows.
  std::map<c10::DeviceIndex, std::shared_ptr<Channel>> collective_;
  std::map<std::string, std::shared_ptr<Channel>> pairs_;
};

}  // namespace hpu_torch
