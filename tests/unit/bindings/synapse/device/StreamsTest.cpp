// SPDX-License-Identifier: Apache-2.0
// Streams: order, waits, affinities, ends.
#include <chrono>
#include <thread>

#include "tests/unit/bindings/synapse/DeviceFixture.h"

namespace synapse_test {
namespace {

using Streams = SynapseTest;

TEST_F(Streams, AreQueriedWhileTheyWorkAndWhenTheyAreDone) {
  uint64_t buffer = allocate(200 << 20);
  EXPECT_SYN(synStreamQuery(stream)) << "nothing was enqueued";
  int busy = 0;
  for (int i = 0; i < 4; ++i) ASSERT_SYN(synMemsetD8Async(buffer, static_cast<uint8_t>(i), 200 << 20, stream));
  synStatus status;
  while ((status = synStreamQuery(stream)) == synBusy) {
    ++busy;
    std::this_thread::yield();
  }
  EXPECT_SYN(status);
  EXPECT_GT(busy, 0) << "800 MB were written before the first query";
  EXPECT_SYN(synStreamSynchronize(stream));
}

TEST_F(Streams, TakeThousandsOfOperationsWithoutBlocking) {
  uint64_t buffer = allocate(4096);
  for (uint32_t i = 0; i < 10000; ++i) ASSERT_SYN(synMemsetD32Async(buffer + 4 * (i % 1024), i, 1, stream));
  std::vector<uint8_t> bytes = download(buffer, 4096);
  for (uint32_t i = 0; i < 1024; ++i) {
    uint32_t word;
    std::memcpy(&word, bytes.data() + 4 * i, 4);
    uint32_t last = i < 10000 % 1024 ? 10000 / 1024 * 1024 + i : (10000 / 1024 - 1) * 1024 + i;
    ASSERT_EQ(word, last) << i;
  }
}

TEST_F(Streams, WaitForEventsOfOtherStreams) {
  synStreamHandle second = nullptr;
  ASSERT_SYN(synStreamCreateGeneric(&second, device, 0));
  synEventHandle event = nullptr;
  ASSERT_SYN(synEventCreate(&event, device, 0));
  uint64_t a = allocate(32 << 20), b = allocate(32 << 20);
  std::vector<uint8_t> back(32 << 20);
  for (int round = 1; round <= 5; ++round) {
    ASSERT_SYN(synMemsetD8Async(a, static_cast<uint8_t>(round), 32 << 20, stream));
    ASSERT_SYN(synEventRecord(event, stream));
    ASSERT_SYN(synStreamWaitEvent(second, event, 0));
    ASSERT_SYN(synMemCopyAsync(second, a, 32 << 20, b, DRAM_TO_DRAM));
    ASSERT_SYN(synMemCopyAsync(second, b, 32 << 20, address(back.data()), DRAM_TO_HOST));
    ASSERT_SYN(synStreamSynchronize(second));
    ASSERT_EQ(back, std::vector<uint8_t>(32 << 20, static_cast<uint8_t>(round)));
  }
}

TEST_F(Streams, WaitForEventsOfOtherDevices) {
  synDeviceId other = 0;
  ASSERT_SYN(synDeviceAcquireByDeviceType(&other, synDeviceGaudi3));
  synStreamHandle there = nullptr;
  ASSERT_SYN(synStreamCreateGeneric(&there, other, 0));
  synEventHandle event = nullptr;
  ASSERT_SYN(synEventCreate(&event, device, 0));
  uint64_t buffer = allocate(16 << 20), remote = 0;
  ASSERT_SYN(synDeviceMalloc(other, 16 << 20, 0, 0, &remote));
  std::vector<uint8_t> between(16 << 20), back(16 << 20);
  ASSERT_SYN(synMemsetD8Async(buffer, 0x77, 16 << 20, stream));
  ASSERT_SYN(synMemCopyAsync(stream, buffer, 16 << 20, address(between.data()), DRAM_TO_HOST));
  ASSERT_SYN(synEventRecord(event, stream));
  ASSERT_SYN(synStreamWaitEvent(there, event, 0));
  ASSERT_SYN(synMemCopyAsync(there, address(between.data()), 16 << 20, remote, HOST_TO_DRAM));
  ASSERT_SYN(synMemCopyAsync(there, remote, 16 << 20, address(back.data()), DRAM_TO_HOST));
  ASSERT_SYN(synDeviceSynchronize(other));
  EXPECT_EQ(back, std::vector<uint8_t>(16 << 20, 0x77));
  EXPECT_EQ(synEventRecord(event, there), synInvalidArgument) << "an event belongs to its device";
  EXPECT_EQ(synMemsetD8Async(buffer, 1, 16, there), synSuccess) << "the two devices have the same addresses";
  EXPECT_EQ(synMemsetD8Async(buffer + (64 << 20), 1, 16, there), synMappingNotFound);
}

TEST_F(Streams, FinishTheirWorkWhenTheyAreDestroyed) {
  synStreamHandle second = nullptr;
  ASSERT_SYN(synStreamCreateGeneric(&second, device, 0));
  uint64_t buffer = allocate(8 << 20);
  ASSERT_SYN(synMemsetD8Async(buffer, 0x11, 8 << 20, second));
  ASSERT_SYN(synStreamDestroy(second));
  ASSERT_SYN(synDeviceSynchronize(device));
  EXPECT_EQ(download(buffer, 8 << 20), std::vector<uint8_t>(8 << 20, 0x11));
  EXPECT_SYN_ERROR(synStreamDestroy(second), synInvalidArgument, "stale");
  EXPECT_SYN_ERROR(synStreamQuery(second), synInvalidArgument, "stale");
  EXPECT_SYN_ERROR(synStreamSynchronize(second), synInvalidArgument, "stale");
}

TEST_F(Streams, WrongHandlesAreErrors) {
  synEventHandle event = nullptr;
  ASSERT_SYN(synEventCreate(&event, device, 0));
  auto foreign = reinterpret_cast<synStreamHandle>(event);
  EXPECT_SYN_ERROR(synStreamSynchronize(foreign), synInvalidArgument, "one of an event");
  EXPECT_SYN_ERROR(synStreamDestroy(foreign), synInvalidArgument, "one of an event");
  EXPECT_SYN_ERROR(synStreamQuery(nullptr), synInvalidArgument, "null");
  int local = 0;
  EXPECT_SYN_ERROR(synStreamQuery(reinterpret_cast<synStreamHandle>(&local)), synInvalidArgument, "not one that");
  EXPECT_SYN_ERROR(synStreamCreateGeneric(nullptr, device, 0), synInvalidArgument, "null");
  synStreamHandle made = nullptr;
  synDeviceId second = 0;
  ASSERT_SYN(synDeviceAcquire(&second, nullptr)) << "with one device every id is its id";
  EXPECT_SYN_ERROR(synStreamCreateGeneric(&made, 6, 0), synInvalidArgument, "device 6");
  EXPECT_SYN_ERROR(synStreamCreateGeneric(&made, device, 3), synInvalidArgument, "flags is 3");
  EXPECT_SYN_ERROR(hpuSynStreamCreateWithPriority(nullptr, device, 1), synInvalidArgument, "null");
  EXPECT_EQ(made, nullptr);
  EXPECT_SYN_ERROR(synStreamWaitEvent(stream, event, 1), synInvalidArgument, "flags is 1");
  EXPECT_SYN_ERROR(synStreamWaitEvent(stream, nullptr, 0), synInvalidArgument, "event handle is null");
  EXPECT_SYN_ERROR(synStreamWaitEvent(nullptr, event, 0), synInvalidArgument, "stream handle is null");
}

TEST_F(Streams, OfHigherPriorityStartFirst) {
  // Both are ready at one device time; the engine is given to the higher.
  synStreamHandle low = nullptr, high = nullptr;
  ASSERT_SYN(hpuSynStreamCreateWithPriority(&low, device, -1));
  ASSERT_SYN(hpuSynStreamCreateWithPriority(&high, device, 5));
  synEventHandle gate = nullptr, lowDone = nullptr, highDone = nullptr;
  ASSERT_SYN(synEventCreate(&gate, device, 0));
  ASSERT_SYN(synEventCreate(&lowDone, device, EVENT_COLLECT_TIME));
  ASSERT_SYN(synEventCreate(&highDone, device, EVENT_COLLECT_TIME));
  uint64_t buffer = allocate(64 << 20);
  ASSERT_SYN(synMemsetD8Async(buffer, 1, 64 << 20, stream));
  ASSERT_SYN(synEventRecord(gate, stream));
  ASSERT_SYN(synStreamWaitEvent(low, gate, 0));
  ASSERT_SYN(synStreamWaitEvent(high, gate, 0));
  ASSERT_SYN(synMemsetD8Async(buffer, 2, 16 << 20, low));
  ASSERT_SYN(synEventRecord(lowDone, low));
  ASSERT_SYN(synMemsetD8Async(buffer + (32 << 20), 3, 16 << 20, high));
  ASSERT_SYN(synEventRecord(highDone, high));
  ASSERT_SYN(synDeviceSynchronize(device));
  uint64_t lowNs = 0, highNs = 0;
  ASSERT_SYN(synEventElapsedTime(&lowNs, lowDone, nullptr));
  ASSERT_SYN(synEventElapsedTime(&highNs, highDone, nullptr));
  EXPECT_LT(highNs, lowNs);
}

TEST_F(Streams, KeepTheirAffinity) {
  uint64_t range = 0, mask = 0, next = 0, seen = 0;
  ASSERT_SYN(synDeviceGetAffinityMaskRange(device, &range));
  EXPECT_NE(range, 0u);
  ASSERT_SYN(synStreamGetAffinity(device, stream, &mask));
  EXPECT_EQ(mask, range);
  for (int i = 0; i < 64; ++i) {
    ASSERT_SYN(synDeviceGetNextStreamAffinity(device, &next));
    EXPECT_EQ(next & range, next);
    EXPECT_EQ(next & (next - 1), 0u) << "one queue";
    seen |= next;
  }
  EXPECT_EQ(seen, range) << "streams are spread over all";
  ASSERT_SYN(synStreamSetAffinity(device, stream, next));
  ASSERT_SYN(synStreamGetAffinity(device, stream, &mask));
  EXPECT_EQ(mask, next);
  EXPECT_SYN_ERROR(synStreamSetAffinity(device, stream, 0), synInvalidArgument, "mask 0x0");
  EXPECT_SYN_ERROR(synStreamSetAffinity(device, stream, ~range), synInvalidArgument, "within");
  EXPECT_SYN_ERROR(synStreamSetAffinity(device, nullptr, 1), synInvalidArgument, "null");
  synDeviceId second = 0;
  ASSERT_SYN(synDeviceAcquire(&second, nullptr)) << "with one device every id is its id";
  EXPECT_SYN_ERROR(synStreamSetAffinity(5, stream, 1), synInvalidArgument, "device 5");
  EXPECT_SYN_ERROR(synStreamGetAffinity(device, stream, nullptr), synInvalidArgument, "null");
  synDeviceId other = 0;
  ASSERT_SYN(synDeviceAcquire(&other, nullptr));
  EXPECT_SYN_ERROR(synStreamGetAffinity(other, stream, &mask), synInvalidArgument, "the stream is one of device 0");
  EXPECT_SYN_ERROR(synDeviceGetAffinityMaskRange(device, nullptr), synInvalidArgument, "null");
  EXPECT_SYN_ERROR(synDeviceGetAffinityMaskRange(7, &range), synInvalidArgument, "device 7");
  EXPECT_SYN_ERROR(synDeviceGetNextStreamAffinity(device, nullptr), synInvalidArgument, "null");
  EXPECT_SYN_ERROR(synDeviceGetNextStreamAffinity(7, &next), synInvalidArgument, "device 7");
}

TEST_F(Streams, OfADeviceThatIsResetGoOn) {
  uint64_t buffer = allocate(200 << 20);
  upload(buffer, pattern(4096));
  for (int i = 0; i < 50; ++i) ASSERT_SYN(synMemsetD8Async(buffer + 4096, 1, 190 << 20, stream));
  ASSERT_SYN(hpuSynDeviceReset(device));
  EXPECT_SYN(synStreamSynchronize(stream)) << "what was dropped is forgotten";
  EXPECT_EQ(download(buffer, 4096), pattern(4096)) << "memory stays";
  synDeviceId second = 0;
  ASSERT_SYN(synDeviceAcquire(&second, nullptr)) << "with one device every id is its id";
  EXPECT_SYN_ERROR(hpuSynDeviceReset(4), synInvalidArgument, "device 4");
}

TEST_F(Streams, ThreadsUseOneAtOnce) {
  constexpr int kThreads = 8, kRounds = 200;
  uint64_t buffer = allocate(kThreads * 4096);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      synEventHandle event = nullptr;
      EXPECT_SYN(synEventCreate(&event, device, 0));
      for (int i = 0; i < kRounds; ++i) {
        EXPECT_SYN(synMemsetD32Async(buffer + static_cast<uint64_t>(t) * 4096, static_cast<uint32_t>(t * kRounds + i),
                                     1024, stream));
        EXPECT_SYN(synEventRecord(event, stream));
      }
      EXPECT_SYN(synEventSynchronize(event));
      EXPECT_SYN(synEventDestroy(event));
    });
  for (std::thread& thread : threads) thread.join();
  std::vector<uint8_t> bytes = download(buffer, kThreads * 4096);
  for (int t = 0; t < kThreads; ++t) {
    uint32_t word;
    std::memcpy(&word, bytes.data() + t * 4096 + 4092, 4);
    EXPECT_EQ(word, static_cast<uint32_t>(t * kRounds + kRounds - 1));
  }
}

TEST_F(Streams, AreAsManyAsTheyMayBe) {
  std::vector<synStreamHandle> made;
  synStreamHandle next = nullptr;
  synStatus status = synSuccess;
  while (made.size() < 5000 && (status = synStreamCreateGeneric(&next, device, 0)) == synSuccess) made.push_back(next);
  EXPECT_EQ(status, synAllResourcesTaken);
  EXPECT_EQ(next, nullptr);
  EXPECT_EQ(made.size(), 1023u) << "and the fixture's";
  EXPECT_THAT(hpuSynLastError(), testing::HasSubstr("1024 streams"));
  ASSERT_SYN(synStreamDestroy(made.back()));
  EXPECT_SYN(synStreamCreateGeneric(&made.back(), device, 0)) << "one that is destroyed makes room";
  for (synStreamHandle one : made) EXPECT_SYN(synStreamDestroy(one));
}

}  // namespace
}  // namespace synapse_test
