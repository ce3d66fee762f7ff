// SPDX-License-Identifier: Apache-2.0
// Communicators are made, used and dropped again and again; the process does not grow.
// HPU_COMM_CHURN says how often (200).
#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>
#include <vector>

#include "Resources.h"
#include "hpu/collectives.h"
#include "hpu/stream.h"

namespace hpu::collectives::testing {
namespace {

TEST(CommunicatorChurn, TheProcessDoesNotGrow) {
  const char* text = std::getenv("HPU_COMM_CHURN");
  const int rounds = text ? std::atoi(text) : 200;
  std::vector<Device> devices;
  std::vector<Stream> streams;
  std::vector<Buffer> buffers;
  for (int index = 0; index < 2; ++index) {
    DeviceOptions options;
    options.index = index;
    options.hbmBytes = 64 << 20;
    devices.push_back(Device::open(options).value());
    streams.push_back(Stream::create(devices.back()).value());
    buffers.push_back(devices.back().allocate(1 << 20).value());
  }
  auto round = [&](int number) {
    UniqueId id = createUniqueId().value();
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < 2; ++rank)
      threads.emplace_back([&, rank] {
        const auto r = static_cast<size_t>(rank);
        auto comm = Communicator::create(id, rank, 2, devices[r]);
        ASSERT_TRUE(comm.ok()) << "round " << number << ": " << comm.status().message();
        const uint64_t address = buffers[r].address();
        Status status = comm->allReduce(address, address, 1000, ElementType::kF32, ReduceOp::kSum, streams[r]);
        ASSERT_TRUE(status.ok()) << status.message();
        status = streams[r].synchronize(60000);
        ASSERT_TRUE(status.ok()) << status.message();
        // In turn: an end that all agree on, and just leaving.
        if (number % 2 == 0) {
          status = comm->finalize(60000);
          ASSERT_TRUE(status.ok()) << status.message();
        }
      });
  };
  const int warm = 20;
  for (int i = 0; i < warm && !HasFatalFailure(); ++i) round(i);
  const Resources before = settledResources(std::nullopt);
  const long beforeKb = residentAnonymousKb();
  const int64_t deviceBytes = devices[0].memoryInfo().usedBytes;
  for (int i = 0; i < rounds && !HasFatalFailure(); ++i) round(warm + i);
  // A device starts its threads when it needs them, and keeps these few.
  Resources after = settledResources(before);
  auto threads = [](const Resources& resources) {
    int sum = 0;
    for (const auto& [name, count] : resources.threads) sum += count;
    return sum;
  };
  EXPECT_LE(threads(after), threads(before) + 8) << difference(before, after);
  after.threads = before.threads;
  EXPECT_EQ(difference(before, after), "");
  EXPECT_EQ(devices[0].memoryInfo().usedBytes, deviceBytes);
  const long grownKb = residentAnonymousKb() - beforeKb;
  std::printf("%d communicators: resident anonymous memory grew by %ld KB\n", rounds, grownKb);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  // The allocator keeps some of what threads have had; a leak grows with the rounds.
  EXPECT_LT(grownKb, 4096 + rounds / 4);
#endif
}

}  // namespace
}  // namespace hpu::collectives::testing
