// SPDX-License-Identifier: Apache-2.0
// WorkHCCL: what a collective's caller gets.
// The one thing to know: wait() makes the calling thread's current stream wait, not the thread; only a barrier, results
// in host memory, and a wait with a timeout hold the thread.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <memory>
#include <utility>
#include <vector>

#include "pytorch/distributed/Channel.h"

namespace hpu_torch {

class HPU_TORCH_API WorkHCCL : public c10d::Work {
 public:
  WorkHCCL(int rank, c10d::OpType type, std::shared_ptr<Channel> channel, std::shared_ptr<Operation> operation);

  /// Done or failed, on the device.
  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  int sourceRank() const override;
  std::vector<at::Tensor> result() override { return outputs; }
  /// What the current stream is given from now on comes after the collective. Throws when it is known to have failed.
  void synchronize() override;
  /// The same; with a timeout the thread waits until it is done. Throws: CollectiveError.
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  void abort() override;
  /// Complete as soon as the collective is launched; who waits for it waits on the streams, as for work of CUDA.
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

  std::vector<at::Tensor> outputs;  ///< The caller's.
  std::vector<at::Tensor> kept;     ///< What it works on.
  /// Host tensors, and the device's tensors that have their values.
  std::vector<std::pair<at::Tensor, at::Tensor>> toHost;
  bool holdsThread = false;  ///< A barrier.
  /// Of a call in a graph that is captured: the operation of the replay that goes on. A wait is a step of the graph,
  /// too.
  std::shared_ptr<std::shared_ptr<Operation>> replayed;
  int source = -1;

 private:
  void throwIfFailed() const;
  void copyToHost();
  const std::shared_ptr<Channel> channel_;
  const std::shared_ptr<Operation> operation_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

}  // namespace hpu_torch
