// SPDX-License-Identifier: Apache-2.0
// Events: states and device time.
#include <thread>

#include "tests/unit/bindings/synapse/DeviceFixture.h"

namespace synapse_test {
namespace {

class Events : public SynapseTest {
 protected:
  synEventHandle create(uint32_t flags = EVENT_COLLECT_TIME) {
    synEventHandle event = nullptr;
    EXPECT_SYN(synEventCreate(&event, device, flags));
    return event;
  }
};

TEST_F(Events, ThatWereNeverRecordedAreDone) {
  synEventHandle event = create(0);
  EXPECT_SYN(synEventQuery(event));
  EXPECT_SYN(synEventSynchronize(event));
  EXPECT_SYN(synStreamWaitEvent(stream, event, 0));
  EXPECT_SYN(synStreamSynchronize(stream));
}

TEST_F(Events, AreBusyUntilTheirWorkIsDone) {
  synEventHandle event = create(0);
  uint64_t buffer = allocate(200 << 20);
  int busy = 0;
  for (int i = 0; i < 4; ++i) ASSERT_SYN(synMemsetD8Async(buffer, 1, 200 << 20, stream));
  ASSERT_SYN(synEventRecord(event, stream));
  while (synEventQuery(event) == synBusy) {
    ++busy;
    std::this_thread::yield();
  }
  EXPECT_SYN(synEventQuery(event));
  EXPECT_GT(busy, 0);
}

TEST_F(Events, MeasureDeviceTime) {
  synEventHandle start = create(), middle = create(), end = create();
  uint64_t buffer = allocate(128 << 20);
  ASSERT_SYN(synEventRecord(start, stream));
  ASSERT_SYN(synMemsetD8Async(buffer, 1, 32 << 20, stream));
  ASSERT_SYN(synEventRecord(middle, stream));
  ASSERT_SYN(synMemsetD8Async(buffer, 1, 128 << 20, stream));
  ASSERT_SYN(synEventRecord(end, stream));
  ASSERT_SYN(synEventSynchronize(end));
  uint64_t first = 0, second = 0, whole = 0, at = 0, later = 0;
  ASSERT_SYN(synEventElapsedTime(&first, start, middle));
  ASSERT_SYN(synEventElapsedTime(&second, middle, end));
  ASSERT_SYN(synEventElapsedTime(&whole, start, end));
  EXPECT_EQ(first + second, whole);
  // 32 MiB at no more than 2.46 TB/s, the pin rate of Gaudi 2's HBM, and a multiple of it four times that.
  EXPECT_GE(first, (uint64_t{32} << 20) / 2460);
  EXPECT_NEAR(static_cast<double>(second) / static_cast<double>(first), 4, 0.5);
  ASSERT_SYN(synEventElapsedTime(&at, start, nullptr));
  ASSERT_SYN(synEventElapsedTime(&later, end, nullptr));
  EXPECT_EQ(later - at, whole) << "without an end: the time since the device was acquired";
  EXPECT_SYN_ERROR(synEventElapsedTime(&whole, end, start), synInvalidArgument, "before the start event");
}

TEST_F(Events, HaveNoTimeBeforeTheyAreRecordedDoneOrWithoutTheFlag) {
  synEventHandle start = create(), end = create(), plain = create(0);
  uint64_t ns = 7;
  EXPECT_SYN_ERROR(synEventElapsedTime(&ns, start, end), synObjectNotInitialized, "eventHandleStart was not recorded");
  ASSERT_SYN(synEventRecord(start, stream));
  ASSERT_SYN(synStreamSynchronize(stream));
  EXPECT_SYN_ERROR(synEventElapsedTime(&ns, start, end), synObjectNotInitialized, "eventHandleEnd was not recorded");
  ASSERT_SYN(synEventRecord(plain, stream));
  ASSERT_SYN(synStreamSynchronize(stream));
  EXPECT_SYN_ERROR(synEventElapsedTime(&ns, start, plain), synUnavailable, "EVENT_COLLECT_TIME");
  EXPECT_SYN_ERROR(synEventElapsedTime(&ns, plain, nullptr), synUnavailable, "EVENT_COLLECT_TIME");
  uint64_t buffer = allocate(200 << 20);
  for (int i = 0; i < 4; ++i) ASSERT_SYN(synMemsetD8Async(buffer, 1, 200 << 20, stream));
  ASSERT_SYN(synEventRecord(end, stream));
  EXPECT_EQ(synEventElapsedTime(&ns, start, end), synBusy);
  EXPECT_EQ(ns, 7u);
  ASSERT_SYN(synEventSynchronize(end));
  EXPECT_SYN(synEventElapsedTime(&ns, start, end));
}

TEST_F(Events, StandForWhatWasRecordedLast) {
  synEventHandle event = create();
  uint64_t first = 0, second = 0, buffer = allocate(1 << 20);
  ASSERT_SYN(synEventRecord(event, stream));
  ASSERT_SYN(synEventSynchronize(event));
  ASSERT_SYN(synEventElapsedTime(&first, event, nullptr));
  ASSERT_SYN(synMemsetD8Async(buffer, 1, 1 << 20, stream));
  ASSERT_SYN(synEventRecord(event, stream));
  ASSERT_SYN(synEventSynchronize(event));
  ASSERT_SYN(synEventElapsedTime(&second, event, nullptr));
  EXPECT_GT(second, first);
}

TEST_F(Events, MayEndWhileStreamsWaitForThem) {
  synStreamHandle second = nullptr;
  ASSERT_SYN(synStreamCreateGeneric(&second, device, 0));
  synEventHandle event = create(0);
  uint64_t buffer = allocate(64 << 20);
  ASSERT_SYN(synMemsetD8Async(buffer, 9, 64 << 20, stream));
  ASSERT_SYN(synEventRecord(event, stream));
  ASSERT_SYN(synStreamWaitEvent(second, event, 0));
  ASSERT_SYN(synEventDestroy(event));
  std::vector<uint8_t> back(64 << 20);
  ASSERT_SYN(synMemCopyAsync(second, buffer, back.size(), address(back.data()), DRAM_TO_HOST));
  ASSERT_SYN(synStreamSynchronize(second));
  EXPECT_EQ(back, std::vector<uint8_t>(64 << 20, 9));
  EXPECT_SYN_ERROR(synEventQuery(event), synInvalidArgument, "stale");
  EXPECT_SYN_ERROR(synEventDestroy(event), synInvalidArgument, "stale");
}

TEST_F(Events, WrongArgumentsAreErrors) {
  synEventHandle event = create(), made = nullptr;
  uint64_t ns = 0;
  EXPECT_SYN_ERROR(synEventCreate(nullptr, device, 0), synInvalidArgument, "null");
  synDeviceId second = 0;
  ASSERT_SYN(synDeviceAcquire(&second, nullptr)) << "with one device every id is its id";
  EXPECT_SYN_ERROR(synEventCreate(&made, 8, 0), synInvalidArgument, "device 8");
  EXPECT_SYN_ERROR(synEventCreate(&made, device, 2), synInvalidArgument, "flags is 2");
  EXPECT_EQ(made, nullptr);
  EXPECT_SYN_ERROR(synEventRecord(event, nullptr), synInvalidArgument, "stream handle is null");
  EXPECT_SYN_ERROR(synEventRecord(nullptr, stream), synInvalidArgument, "event handle is null");
  EXPECT_SYN_ERROR(synEventQuery(reinterpret_cast<synEventHandle>(stream)), synInvalidArgument, "one of a stream");
  EXPECT_SYN_ERROR(synEventSynchronize(nullptr), synInvalidArgument, "null");
  EXPECT_SYN_ERROR(synEventElapsedTime(nullptr, event, event), synInvalidArgument, "null");
  EXPECT_SYN_ERROR(synEventElapsedTime(&ns, nullptr, event), synInvalidArgument, "null");
  synDeviceId other = 0;
  ASSERT_SYN(synDeviceAcquire(&other, nullptr));
  synEventHandle there = nullptr;
  synStreamHandle otherStream = nullptr;
  ASSERT_SYN(synEventCreate(&there, other, EVENT_COLLECT_TIME));
  ASSERT_SYN(synStreamCreateGeneric(&otherStream, other, 0));
  ASSERT_SYN(synEventRecord(there, otherStream));
  ASSERT_SYN(synEventRecord(event, stream));
  ASSERT_SYN(synDeviceSynchronize(other));
  ASSERT_SYN(synDeviceSynchronize(device));
  EXPECT_SYN_ERROR(synEventElapsedTime(&ns, event, there), synInvalidArgument, "clocks differ");
}

TEST_F(Events, AreAsManyAsTheyMayBe) {
  std::vector<synEventHandle> made;
  synEventHandle next = nullptr;
  synStatus status = synSuccess;
  while (made.size() < (1 << 20) && (status = synEventCreate(&next, device, 0)) == synSuccess) made.push_back(next);
  EXPECT_EQ(status, synAllResourcesTaken);
  EXPECT_EQ(next, nullptr);
  EXPECT_EQ(made.size(), size_t{1} << 18);
  ASSERT_SYN(synEventDestroy(made.back()));
  EXPECT_SYN(synEventCreate(&made.back(), device, EVENT_COLLECT_TIME));
  for (synEventHandle one : made)
    if (synEventDestroy(one) != synSuccess) FAIL() << hpuSynLastError();
}

}  // namespace
}  // namespace synapse_test
