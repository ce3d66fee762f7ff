// SPDX-License-Identifier: Apache-2.0
// The process group hccl without Python: its ranks are threads, each with a device of its own.
#include "pytorch/distributed/ProcessGroupHCCL.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <functional>
#include <thread>

#include "hpu/capture.h"
#include "hpu_torch/hpu_torch.h"
#include "pytorch/distributed/Errors.h"

namespace {

using hpu_torch::CollectiveError;
using hpu_torch::ProcessGroupHCCL;
using Group = c10::intrusive_ptr<ProcessGroupHCCL>;
using std::chrono::milliseconds;

constexpr int kRanks = 2;

/// `each` on a thread for each rank, whose current device is the rank's.
void onRanks(milliseconds timeout, const std::function<void(int, const Group&)>& each) {
  auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank)
    threads.emplace_back([&, rank] {
      hpu_torch::setCurrentDevice(static_cast<c10::DeviceIndex>(rank));
      try {
        each(rank, c10::make_intrusive<ProcessGroupHCCL>(store, rank, kRanks, timeout, "test"));
      } catch (const std::exception& e) {
        ADD_FAILURE() << "rank " << rank << ": " << e.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
}

at::Tensor full(float value) {
  return torch::full({1000}, value, at::TensorOptions().device(at::kHPU));
}

void sum(const Group& group, const at::Tensor& tensor) {
  std::vector<at::Tensor> tensors{tensor};
  group->allreduce(tensors, {})->wait();
}

TEST(ProcessGroup, RanksMayBeThreads) {
  onRanks(milliseconds(20000), [](int rank, const Group& group) {
    at::Tensor x = full(static_cast<float>(rank + 1));
    sum(group, x);
    EXPECT_EQ(x.device().index(), rank);
    EXPECT_EQ((x * 2)[999].item<float>(), 6);
  });
}

TEST(ProcessGroup, ACaptureRecordsCollectives) {
  onRanks(milliseconds(20000), [](int rank, const Group& group) {
    at::Tensor x = full(static_cast<float>(rank + 1));
    sum(group, x);  // Makes the communicator; 3 on both.
    hpu_torch::OpenDevice& device = hpu_torch::open(static_cast<c10::DeviceIndex>(rank));
    hpu::Stream& stream = device.streams->get(0);
    hpu_torch::synchronizeDevice(rank);
    hpu::StatusOr<hpu::CaptureSession> session = hpu::CaptureSession::begin(stream);
    ASSERT_TRUE(session.ok()) << session.status().message();
    sum(group, x);
    sum(group, x);
    hpu::StatusOr<hpu::CapturedGraph> graph = session->end();
    ASSERT_TRUE(graph.ok()) << graph.status().message();
    EXPECT_EQ(x[0].item<float>(), 3);  // Nothing was done.
    hpu::StatusOr<hpu::GraphInstance> instance = graph->instantiate();
    ASSERT_TRUE(instance.ok()) << instance.status().message();
    for (int i = 0; i < 2; ++i) {
      const hpu::Status status = instance->replay(stream);
      ASSERT_TRUE(status.ok()) << status.message();
    }
    EXPECT_EQ(x[0].item<float>(), 3 * 16);
    sum(group, x);  // Calls go on behind replays.
    EXPECT_EQ(x[0].item<float>(), 3 * 32);
  });
}

TEST(ProcessGroup, ARankThatGoesAwayIsAnErrorOfTheOther) {
  onRanks(milliseconds(20000), [](int rank, const Group& group) {
    at::Tensor x = full(1);
    sum(group, x);
    hpu_torch::synchronizeDevice(rank);
    if (rank == 1) {
      std::vector<at::Tensor> tensors{x};
      group->broadcast(tensors, {});  // The other one calls something else.
      return;
    }
    try {
      sum(group, x);
      x[0].item<float>();
      ADD_FAILURE() << "nothing was thrown";
    } catch (const CollectiveError& e) {
      EXPECT_NE(std::string(e.what()).find("all_reduce (operation 2 of group 'test') failed on rank 0 of 2"),
                std::string::npos)
          << e.what();
    }
  });
}

}  // namespace
