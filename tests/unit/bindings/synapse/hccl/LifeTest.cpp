// SPDX-License-Identifier: Apache-2.0
// Communicators of HCCL's C API: how they begin, what they know, how they end.
#include <sys/mman.h>
#include <unistd.h>

#include <thread>

#include "HcclFixture.h"

namespace synapse_test {
namespace {

class HcclLife : public HcclTest {};

TEST_F(HcclLife, SaysWhatItsVersionIs) {
  int version = 0;
  ASSERT_HCCL(hcclGetVersion(&version));
  EXPECT_EQ(version, 2604);
  EXPECT_HCCL_ERROR(hcclGetVersion(nullptr), hcclInvalidArgument, "version is null");
}

TEST_F(HcclLife, RanksOfThreadsMeetByAnId) {
  hcclUniqueId id;
  ASSERT_HCCL(hcclGetUniqueId(&id));
  EXPECT_GT(id.length, 0u);
  constexpr int kRanks = 3;
  hcclComm_t made[kRanks] = {};
  synDeviceId acquired[kRanks] = {};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank)
    threads.emplace_back([&, rank] {
      EXPECT_SYN(synDeviceAcquireByDeviceType(&acquired[rank], synDeviceGaudi2));
      EXPECT_HCCL(hcclCommInitRank(&made[rank], kRanks, id, rank));
    });
  for (std::thread& thread : threads) thread.join();
  for (int rank = 0; rank < kRanks; ++rank) {
    int count = 0, self = -1, device = -1;
    ASSERT_HCCL(hcclCommCount(made[rank], &count));
    ASSERT_HCCL(hcclCommUserRank(made[rank], &self));
    ASSERT_HCCL(hcclCommSynDevice(made[rank], &device));
    EXPECT_EQ(count, kRanks);
    EXPECT_EQ(self, rank);
    EXPECT_EQ(device, static_cast<int>(acquired[rank])) << "the device that the thread acquired";
    ASSERT_HCCL(hcclCommDestroy(made[rank]));
  }
}

TEST_F(HcclLife, RefusesWrongWaysToBegin) {
  hcclUniqueId id = {};
  hcclComm_t comm = this;
  EXPECT_HCCL_ERROR(hcclGetUniqueId(nullptr), hcclInvalidArgument, "uniqueId is null");
  EXPECT_HCCL_ERROR(hcclCommInitRank(&comm, 1, id, 0), hcclNoDeviceFound, "synDeviceAcquire");
  EXPECT_EQ(comm, nullptr);
  EXPECT_HCCL_ERROR(hcclDeviceInit(nullptr, nullptr), hcclNoDeviceFound, "synDeviceAcquire");
  acquire(1);
  ASSERT_HCCL(hcclDeviceInit(nullptr, nullptr));
  EXPECT_HCCL_ERROR(hcclCommInitRank(nullptr, 1, id, 0), hcclInvalidArgument, "comm is null");
  EXPECT_HCCL_ERROR(hcclCommInitRank(&comm, 1, id, 0), hcclInvalidUsage, "HCCL_COMM_ID");
  ASSERT_HCCL(hcclGetUniqueId(&id));
  EXPECT_HCCL_ERROR(hcclCommInitRank(&comm, 0, id, 0), hcclInvalidArgument, "");
  EXPECT_HCCL_ERROR(hcclCommInitRank(&comm, 2, id, 2), hcclInvalidArgument, "");
  std::memset(id.internal, 0x33, sizeof(id.internal));
  EXPECT_HCCL_ERROR(hcclCommInitRank(&comm, 1, id, 0), hcclInvalidArgument, "");
  id.length = 77;
  EXPECT_HCCL_ERROR(hcclCommInitRank(&comm, 1, id, 0), hcclInvalidArgument, "hcclGetUniqueId");
}

TEST_F(HcclLife, InitAllTakesTheDevicesOfTheProcess) {
  acquire(2);
  hcclComm_t made[2];
  int ids[2] = {static_cast<int>(devices[1]), static_cast<int>(devices[0])};
  ASSERT_HCCL(hcclCommInitAll(made, 2, ids));
  int device = -1;
  ASSERT_HCCL(hcclCommSynDevice(made[0], &device));
  EXPECT_EQ(device, ids[0]);
  EXPECT_HCCL_ERROR(hcclCommInitAll(made, 0, ids), hcclInvalidArgument, "ndev is 0");
  ids[1] = ids[0];
  EXPECT_HCCL_ERROR(hcclCommInitAll(made, 2, ids), hcclInvalidArgument, "listed twice");
  ids[1] = -1;
  EXPECT_HCCL_ERROR(hcclCommInitAll(made, 2, ids), hcclInvalidArgument, "devlist[1] is -1");
  ids[1] = 77;
  EXPECT_HCCL_ERROR(hcclCommInitAll(made, 2, ids), hcclNoDeviceFound, "has not acquired a device 77");
  EXPECT_EQ(made[0], nullptr);
  EXPECT_EQ(made[1], nullptr);
}

TEST_F(HcclLife, InitAllOfOneDeviceTakesAnyId) {
  acquire(1);
  hcclComm_t made[2] = {};
  int ids[2] = {5, 6};
  ASSERT_HCCL(hcclCommInitAll(made, 1, ids));
  int device = -1;
  ASSERT_HCCL(hcclCommSynDevice(made[0], &device));
  EXPECT_EQ(device, static_cast<int>(devices[0]));
  EXPECT_HCCL_ERROR(hcclCommInitAll(made, 2, ids), hcclNoDeviceFound, "has not acquired a device 6");
}

TEST_F(HcclLife, HandlesThatAreNotLiveAreErrors) {
  ranks(2);
  int value = 0;
  hcclResult_t result;
  hcclComm_t foreign = streams[0];
  EXPECT_HCCL_ERROR(hcclCommCount(foreign, &value), hcclInvalidArgument, "one of a stream");
  EXPECT_HCCL_ERROR(hcclCommCount(comms[0], nullptr), hcclInvalidArgument, "count is null");
  EXPECT_HCCL_ERROR(hcclCommUserRank(nullptr, &value), hcclInvalidArgument, "null");
  EXPECT_HCCL_ERROR(hcclCommSynDevice(this, &value), hcclInvalidArgument, "not one that this library gave");
  EXPECT_HCCL_ERROR(hcclCommGetAsyncError(foreign, &result), hcclInvalidArgument, "stream");
  EXPECT_HCCL_ERROR(hcclCommFinalize(foreign), hcclInvalidArgument, "stream");
  EXPECT_HCCL_ERROR(hcclCommDestroy(foreign), hcclInvalidArgument, "stream");
  EXPECT_HCCL_ERROR(hcclCommAbort(foreign), hcclInvalidArgument, "stream");
  EXPECT_EQ(hcclCommGetAsyncErrorMessage(foreign), nullptr);
  ASSERT_HCCL(hcclCommDestroy(comms[0]));
  EXPECT_HCCL_ERROR(hcclCommCount(comms[0], &value), hcclInvalidArgument, "stale");
}

TEST_F(HcclLife, FinalizeWaitsForAllRanks) {
  ranks(2);
  std::thread other([&] { EXPECT_HCCL(hcclCommFinalize(comms[1])); });
  ASSERT_HCCL(hcclCommFinalize(comms[0]));
  other.join();
  ASSERT_HCCL(hcclCommDestroy(comms[0]));
  ASSERT_HCCL(hcclCommDestroy(comms[1]));
}

TEST_F(HcclLife, AbortEndsWhatIsInProgressAndNamesItself) {
  ranks(2);
  uint64_t memory = upload<float>(1, std::vector<float>(64, 1));
  ASSERT_HCCL(hcclAllReduce(pointer(memory), pointer(memory), 64, hcclFloat32, hcclSum, comms[1], streams[1]));
  hcclResult_t error = hcclInternalError;
  ASSERT_HCCL(hcclCommGetAsyncError(comms[1], &error));
  EXPECT_EQ(error, hcclSuccess);
  EXPECT_EQ(hcclCommGetAsyncErrorMessage(comms[1]), nullptr);
  ASSERT_HCCL(hcclCommAbort(comms[0]));
  EXPECT_NE(synStreamSynchronize(streams[1]), synSuccess);
  EXPECT_THAT(hpuSynLastError(), testing::HasSubstr("rank 0"));
  ASSERT_HCCL(hcclCommGetAsyncError(comms[1], &error));
  EXPECT_EQ(error, hcclSystemError);
  ASSERT_NE(hcclCommGetAsyncErrorMessage(comms[1]), nullptr);
  EXPECT_THAT(hcclCommGetAsyncErrorMessage(nullptr), testing::HasSubstr("rank 0")) << "of any communicator";
}

TEST_F(HcclLife, DestroyReturnsAtOnceAndWhatIsEnqueuedGoesOn) {
  ranks(2);
  uint64_t memory[2] = {upload<float>(0, std::vector<float>(64, 1)), upload<float>(1, std::vector<float>(64, 2))};
  ASSERT_HCCL(hcclAllReduce(pointer(memory[0]), pointer(memory[0]), 64, hcclFloat32, hcclSum, comms[0], streams[0]));
  ASSERT_HCCL(hcclCommDestroy(comms[0]));
  EXPECT_EQ(synStreamQuery(streams[0]), synBusy);
  ASSERT_HCCL(hcclAllReduce(pointer(memory[1]), pointer(memory[1]), 64, hcclFloat32, hcclSum, comms[1], streams[1]));
  ASSERT_HCCL(hcclCommDestroy(comms[1]));
  EXPECT_EQ(download<float>(0, memory[0], 64), std::vector<float>(64, 3));
  EXPECT_EQ(download<float>(1, memory[1], 64), std::vector<float>(64, 3));
}

TEST_F(HcclLife, AReleasedDeviceEndsItsCommunicators) {
  ranks(1);
  ASSERT_SYN(synDeviceRelease(devices[0]));
  int value = 0;
  EXPECT_HCCL_ERROR(hcclCommCount(comms[0], &value), hcclInvalidArgument, "stale");
}

TEST_F(HcclLife, GivesDeviceMemoryAsAFile) {
  acquire(1);
  std::vector<uint8_t> bytes(4096, 0x42);
  uint64_t memory = upload(0, bytes);
  int fd = -1;
  ASSERT_EQ(hcclLookupDMABuff(memory, 4096, &fd), 0) << hcclWords();
  uint64_t base = 0;
  synDeviceInfo info;
  ASSERT_SYN(synDeviceGetInfo(devices[0], &info));
  base = info.dramBaseAddress;
  uint8_t seen = 0;
  ASSERT_EQ(::pread(fd, &seen, 1, static_cast<off_t>(memory - base)), 1);
  EXPECT_EQ(seen, 0x42);
  ::close(fd);
  EXPECT_EQ(hcclLookupDMABuff(memory, 1 << 20, &fd), -1);
  EXPECT_THAT(hcclWords(), testing::HasSubstr("4096"));
  EXPECT_EQ(fd, -1);
  EXPECT_EQ(hcclLookupDMABuff(memory, 1, nullptr), -1);
}

TEST(Hccl, EveryResultHasWords) {
  for (int result = hcclUninitialized; result <= hcclPortDown; ++result)
    EXPECT_STRNE(hcclGetErrorString(static_cast<hcclResult_t>(result)), "") << result;
  EXPECT_STREQ(hcclGetErrorString(static_cast<hcclResult_t>(30)), "not a result of this library");
}

TEST(Hccl, NeedsTheLibraryUp) {
  int value = 0;
  EXPECT_HCCL_ERROR(hcclCommCount(nullptr, &value), hcclUninitialized, "synInitialize");
  EXPECT_HCCL_ERROR(hcclGroupStart(), hcclUninitialized, "synInitialize");
  EXPECT_HCCL_ERROR(hcclGroupEnd(), hcclUninitialized, "synInitialize");
}

}  // namespace
}  // namespace synapse_test
