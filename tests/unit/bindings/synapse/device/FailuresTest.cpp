// SPDX-License-Identifier: Apache-2.0
// Work that fails on the device: what the C API says, and how the device is used again.
#include <atomic>
#include <thread>

#include "hpu/node.h"
#include "tests/unit/bindings/synapse/DeviceFixture.h"

namespace synapse_test {
namespace {

using testing::HasSubstr;

class Failures : public SynapseTest {
 protected:
  int index() {
    synDeviceInfoV2 info;
    EXPECT_SYN(synDeviceGetInfoV2(device, &info));
    return info.deviceIndex;
  }
};

TEST_F(Failures, OfADeviceLeaveTheProcessAndAResetMendsThem) {
  uint64_t buffer = allocate(4096);
  upload(buffer, pattern(4096));
  ASSERT_TRUE(hpu::node::inject(index(), hpu::node::Fault::kFatalEvent).ok());
  synEventHandle event = nullptr;
  ASSERT_SYN(synEventCreate(&event, device, 0));
  ASSERT_SYN(synMemsetD8Async(buffer, 0, 16, stream)) << "it is enqueued, and fails later";
  ASSERT_SYN(synEventRecord(event, stream));
  EXPECT_SYN_ERROR(synStreamSynchronize(stream), synDeviceReset, "the device has failed");
  ASSERT_SYN(synMemsetD8Async(buffer, 0, 16, stream));
  EXPECT_SYN_ERROR(synDeviceSynchronize(device), synDeviceReset, "the device has failed");
  ASSERT_SYN(hpuSynDeviceReset(device));
  EXPECT_EQ(download(buffer, 4096), pattern(4096)) << "the failed work did nothing";
}

TEST_F(Failures, OfMemoryAreReportedOnce) {
  uint64_t buffer = allocate(4096);
  upload(buffer, pattern(4096));
  ASSERT_TRUE(hpu::node::inject(index(), hpu::node::Fault::kUncorrectedEcc).ok());
  std::vector<uint8_t> back(4096);
  ASSERT_SYN(synMemCopyAsync(stream, buffer, 4096, address(back.data()), DRAM_TO_HOST));
  EXPECT_SYN_ERROR(synStreamSynchronize(stream), synFail, "ECC");
  EXPECT_SYN(synStreamSynchronize(stream));
  EXPECT_EQ(download(buffer, 4096), pattern(4096));
}

/// Frameworks poll, and read the results when the answer is success.
TEST_F(Failures, AreToldToWhoOnlyQueries) {
  uint64_t buffer = allocate(4096);
  upload(buffer, pattern(4096));
  std::vector<uint8_t> back(4096);
  synEventHandle event = nullptr;
  ASSERT_SYN(synEventCreate(&event, device, 0));
  for (bool byEvent : {false, true}) {
    ASSERT_TRUE(hpu::node::inject(index(), hpu::node::Fault::kUncorrectedEcc).ok());
    ASSERT_SYN(synMemCopyAsync(stream, buffer, 4096, address(back.data()), DRAM_TO_HOST));
    ASSERT_SYN(synEventRecord(event, stream));
    synStatus status = synBusy;
    while (status == synBusy) status = byEvent ? synEventQuery(event) : synStreamQuery(stream);
    EXPECT_EQ(status, synFail);
    EXPECT_THAT(hpuSynLastError(), HasSubstr("ECC"));
    EXPECT_SYN_ERROR(synStreamQuery(stream), synFail, "ECC");  // A query leaves it.
    EXPECT_SYN_ERROR(synEventQuery(event), synFail, "ECC");
    EXPECT_SYN_ERROR(synStreamSynchronize(stream), synFail, "ECC");  // A wait takes it.
    EXPECT_SYN(synStreamQuery(stream));
    EXPECT_SYN_ERROR(synEventQuery(event), synFail, "ECC");  // The event stands for it.
    ASSERT_SYN(synEventRecord(event, stream));
    EXPECT_SYN(synEventSynchronize(event));
  }
}

/// A stream that waits for an event of a failed one would compute on garbage.
TEST_F(Failures, CrossEventsToTheStreamsThatWaitForThem) {
  uint64_t buffer = allocate(4096);
  upload(buffer, pattern(4096));
  std::vector<uint8_t> back(4096);
  synStreamHandle other = nullptr;
  synEventHandle event = nullptr;
  ASSERT_SYN(synStreamCreateGeneric(&other, device, 0));
  ASSERT_SYN(synEventCreate(&event, device, 0));
  ASSERT_TRUE(hpu::node::inject(index(), hpu::node::Fault::kUncorrectedEcc).ok());
  ASSERT_SYN(synMemCopyAsync(stream, buffer, 4096, address(back.data()), DRAM_TO_HOST));
  ASSERT_SYN(synEventRecord(event, stream));
  ASSERT_SYN(synStreamWaitEvent(other, event, 0));
  ASSERT_SYN(synMemsetD8Async(buffer, 0, 4096, other));
  EXPECT_SYN_ERROR(synStreamSynchronize(other), synFail, "ECC");
  EXPECT_SYN_ERROR(synStreamSynchronize(stream), synFail, "ECC");  // Each stream has its own.
  EXPECT_EQ(download(buffer, 4096), pattern(4096)) << "the memset did not run";
}

TEST_F(Failures, OfADeviceDoNotKeepItFromBeingReleased) {
  uint64_t buffer = allocate(4096);
  ASSERT_TRUE(hpu::node::inject(index(), hpu::node::Fault::kFatalEvent).ok());
  ASSERT_SYN(synMemsetD8Async(buffer, 0, 16, stream));
  testing::internal::CaptureStderr();
  EXPECT_SYN(synDeviceRelease(device));
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("the device has failed"));
  EXPECT_SYN(synDeviceAcquireByDeviceType(&device, synDeviceGaudi2));
  ASSERT_SYN(synStreamCreateGeneric(&stream, device, 0));
  buffer = allocate(4096);
  upload(buffer, pattern(4096));
  EXPECT_EQ(download(buffer, 4096), pattern(4096));
}

TEST_F(Failures, OfAWaitAreTimeouts) {
  uint64_t buffer = allocate(200 << 20);
  for (int i = 0; i < 20; ++i) ASSERT_SYN(synMemsetD8Async(buffer, 1, 200 << 20, stream));
  ASSERT_SYN(synConfigurationSet("HPU_WAIT_TIMEOUT_MS", "1"));
  EXPECT_EQ(synStreamSynchronize(stream), synTimeout);
  ASSERT_SYN(synConfigurationSet("HPU_WAIT_TIMEOUT_MS", ""));
  EXPECT_SYN(synStreamSynchronize(stream)) << "the stream is as it was";
}

/// The compiler of the tests makes a fill of it.
void launchMemset(synStreamHandle stream, uint64_t at) {
  synGraphHandle graph = nullptr;
  synTensor tensor = nullptr;
  synSectionHandle section = nullptr;
  synRecipeHandle recipe = nullptr;
  synTensorGeometry geometry = {};
  geometry.dims = 1;
  geometry.sizes[0] = 64;
  ASSERT_SYN(synGraphCreate(&graph, synDeviceGaudi2));
  ASSERT_SYN(synTensorHandleCreate(&tensor, graph, DATA_TENSOR, "y"));
  ASSERT_SYN(synTensorSetGeometry(tensor, &geometry, synGeometrySizes));
  ASSERT_SYN(synTensorSetDeviceDataType(tensor, syn_type_int32));
  ASSERT_SYN(synSectionCreate(&section, 0, graph));
  ASSERT_SYN(synTensorAssignToSection(tensor, section, 0));
  ASSERT_SYN(synNodeCreate(graph, nullptr, &tensor, 0, 1, nullptr, 0, "memset", "n", nullptr, nullptr));
  ASSERT_SYN(synGraphCompile(&recipe, graph, "r", nullptr));
  synLaunchTensorInfo info = {};
  info.tensorName = "y";
  info.pTensorAddress = at;
  ASSERT_SYN(synTensorRetrieveIds(recipe, &info.tensorName, &info.tensorId, 1));
  ASSERT_SYN(synLaunch(stream, &info, 1, 0, recipe, SYN_FLAGS_TENSOR_NAME));
}

/// Another thread that waits in synDestroy for work that does not end keeps nobody from going on.
TEST_F(Failures, DoNotMakeOtherThreadsWaitForSynDestroy) {
  ASSERT_TRUE(hpu::node::inject(index(), hpu::node::Fault::kEndlessCommand).ok());
  launchMemset(stream, allocate(4096));
  ASSERT_SYN(synConfigurationSet("HPU_WAIT_TIMEOUT_MS", "3000"));
  std::atomic<bool> returned = false;
  std::thread destroying([&] {
    EXPECT_SYN(synDestroy());
    returned = true;
  });
  uint32_t count = 0;
  while (synDeviceGetCount(&count) == synSuccess) std::this_thread::yield();
  EXPECT_SYN_ERROR(synDestroy(), synUninitialized, "destroyed already");
  EXPECT_SYN(synInitialize());
  EXPECT_SYN(synDeviceAcquireByDeviceType(&device, synDeviceGaudi2));
  ASSERT_SYN(synStreamCreateGeneric(&stream, device, 0));
  uint64_t buffer = allocate(4096);
  upload(buffer, pattern(4096));
  EXPECT_FALSE(returned) << "the calls above waited for the work";
  destroying.join();
  ASSERT_SYN(synConfigurationSet("HPU_WAIT_TIMEOUT_MS", ""));
  EXPECT_EQ(download(buffer, 4096), pattern(4096)) << "the new life is not the old one's";
}

class CheckedMemory : public SynapseTest {
 protected:
  void SetUp() override {
    ASSERT_SYN(synConfigurationSet("HPU_MEMORY_CHECK", "1"));
    SynapseTest::SetUp();
  }
  void TearDown() override {
    SynapseTest::TearDown();
    EXPECT_SYN(synConfigurationSet("HPU_MEMORY_CHECK", ""));
  }
};

TEST_F(CheckedMemory, UseAfterFreeIsAnErrorOfTheStreamWithTheHistory) {
  uint64_t buffer = allocate(4096);
  ASSERT_SYN(synDeviceFree(device, buffer, 0));
  ASSERT_SYN(synMemsetD8Async(buffer + 100, 1, 16, stream));
  EXPECT_SYN_ERROR(synStreamSynchronize(stream), synMappingNotFound, "use after free");
  uint64_t other = allocate(4096);
  ASSERT_SYN(synMemsetD8Async(other + 4090, 1, 16, stream));
  EXPECT_SYN_ERROR(synStreamSynchronize(stream), synMappingNotFound, "out of bounds");
  EXPECT_SYN(synMemsetD8Async(other, 1, 4096, stream));
  EXPECT_SYN(synStreamSynchronize(stream));
}

}  // namespace
}  // namespace synapse_test
