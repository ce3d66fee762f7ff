// SPDX-License-Identifier: Apache-2.0
// Device and host memory.
#include <sys/mman.h>

#include <set>

#include "tests/unit/bindings/synapse/DeviceFixture.h"

namespace synapse_test {
namespace {

using Memory = SynapseTest;

TEST_F(Memory, AllocationsAreAlignedApartAndCounted) {
  uint64_t free = 0, total = 0, before = 0;
  ASSERT_SYN(synDeviceGetMemoryInfo(device, &before, &total));
  EXPECT_EQ(total, kHbmBytes);
  EXPECT_EQ(before, kHbmBytes);
  uint64_t a = allocate(1000), b = allocate(1000);
  EXPECT_EQ(a % 256, 0u);
  EXPECT_EQ(b % 256, 0u);
  EXPECT_TRUE(a + 1000 <= b || b + 1000 <= a);
  ASSERT_SYN(synDeviceGetMemoryInfo(device, &free, &total));
  EXPECT_EQ(before - free, 2 * 1024u) << "rounded up to 256 bytes";
  hpuSynMemoryStatistics statistics;
  ASSERT_SYN(hpuSynDeviceGetMemoryStatistics(device, &statistics));
  EXPECT_EQ(statistics.totalBytes, kHbmBytes);
  EXPECT_EQ(statistics.usedBytes, 2048u);
  EXPECT_EQ(statistics.allocations, 2u);
  ASSERT_SYN(synDeviceFree(device, a, 0));
  ASSERT_SYN(synDeviceFree(device, b, 0));
  ASSERT_SYN(hpuSynDeviceGetMemoryStatistics(device, &statistics));
  EXPECT_EQ(statistics.usedBytes, 0u);
  EXPECT_EQ(statistics.peakBytes, 2048u);
  EXPECT_EQ(statistics.largestFreeBytes, kHbmBytes);
}

TEST_F(Memory, ARequestedAddressIsGivenOrRefused) {
  uint64_t first = allocate(4096), wanted = first + (16 << 20), got = 0;
  ASSERT_SYN(synDeviceMalloc(device, 8192, wanted, 0, &got));
  EXPECT_EQ(got, wanted);
  got = 7;
  EXPECT_EQ(synDeviceMalloc(device, 256, wanted + 4096, 0, &got), synFailedToAllocateDeviceMemory);
  EXPECT_EQ(synDeviceMalloc(device, 256, wanted + 1, 0, &got), synInvalidArgument) << "not aligned";
  EXPECT_EQ(synDeviceMalloc(device, 256, 4096, 0, &got), synInvalidArgument) << "not the device's memory";
  EXPECT_EQ(got, 0u);
  ASSERT_SYN(synDeviceFree(device, wanted, 0));
  ASSERT_SYN(synDeviceMalloc(device, 256, wanted + 4096, 0, &got));
  EXPECT_EQ(got, wanted + 4096);
}

TEST_F(Memory, OutOfMemoryNamesTheLargestHolders) {
  allocate(200 << 20);
  uint64_t buffer = 7;
  EXPECT_SYN_ERROR(synDeviceMalloc(device, 100 << 20, 0, 0, &buffer), synOutOfDeviceMemory, "200 MiB");
  EXPECT_THAT(hpuSynLastError(), testing::HasSubstr("synDeviceMalloc"));
  EXPECT_EQ(buffer, 0u);
  EXPECT_EQ(allocate(50 << 20) % 256, 0u) << "the device goes on";
}

TEST_F(Memory, WrongAllocationsAreErrors) {
  uint64_t buffer = 0;
  EXPECT_SYN_ERROR(synDeviceMalloc(device, UINT64_MAX, 0, 0, &buffer), synInvalidArgument, "more than there can be");
  EXPECT_SYN_ERROR(synDeviceMalloc(device, 256, 0, 0, nullptr), synInvalidArgument, "buffer is null");
  EXPECT_SYN_ERROR(synDeviceMalloc(device, 256, 0, 0x80, &buffer), synInvalidArgument, "flags 0x80");
  synDeviceId second = 0;
  ASSERT_SYN(synDeviceAcquire(&second, nullptr)) << "with one device every id is its id";
  EXPECT_SYN_ERROR(synDeviceMalloc(9, 256, 0, 0, &buffer), synInvalidArgument, "device 9");
  uint64_t free = 0;
  EXPECT_SYN_ERROR(synDeviceGetMemoryInfo(device, &free, nullptr), synInvalidArgument, "null");
  EXPECT_SYN_ERROR(synDeviceGetMemoryInfo(device, nullptr, &free), synInvalidArgument, "null");
  EXPECT_SYN_ERROR(synDeviceGetMemoryInfo(4, &free, &free), synInvalidArgument, "device 4");
  EXPECT_SYN_ERROR(hpuSynDeviceGetMemoryStatistics(device, nullptr), synInvalidArgument, "null");
}

TEST_F(Memory, OnlyTheStartOfALiveAllocationIsFreed) {
  uint64_t buffer = allocate(4096);
  EXPECT_SYN_ERROR(synDeviceFree(device, buffer + 256, 0), synInvalidArgument, "256 bytes inside the allocation at");
  EXPECT_SYN_ERROR(synDeviceFree(device, buffer + 4096, 0), synInvalidArgument, "not allocated");
  EXPECT_SYN_ERROR(synDeviceFree(device, 0, 0), synInvalidArgument, "not allocated");
  EXPECT_SYN_ERROR(synDeviceFree(device, buffer, 4), synInvalidArgument, "flags");
  ASSERT_SYN(synDeviceFree(device, buffer, 0));
  EXPECT_SYN_ERROR(synDeviceFree(device, buffer, 0), synInvalidArgument, "not allocated");
  synDeviceId other = 0;
  ASSERT_SYN(synDeviceAcquire(&other, nullptr));
  buffer = allocate(4096);
  EXPECT_SYN_ERROR(synDeviceFree(other, buffer, 0), synInvalidArgument, "not allocated");
}

TEST_F(Memory, FreedMemoryStaysUntilTheWorkBeforeIsDone) {
  uint64_t buffer = allocate(1 << 20);
  std::vector<uint8_t> data = pattern(1 << 20), back(1 << 20);
  ASSERT_SYN(synMemCopyAsync(stream, address(data.data()), data.size(), buffer, HOST_TO_DRAM));
  ASSERT_SYN(synMemCopyAsync(stream, buffer, back.size(), address(back.data()), DRAM_TO_HOST));
  ASSERT_SYN(synDeviceFree(device, buffer, 0));
  uint64_t next = allocate(1 << 20);
  ASSERT_SYN(synMemsetD8Async(next, 0xFF, 1 << 20, stream));
  ASSERT_SYN(synStreamSynchronize(stream));
  EXPECT_EQ(back, data);
}

TEST_F(Memory, HostMemoryIsAllocatedUsedAndFreed) {
  void* host = nullptr;
  ASSERT_SYN(synHostMalloc(device, 100000, 0, &host));
  ASSERT_NE(host, nullptr);
  std::memset(host, 0x5A, 100000);
  uint64_t buffer = allocate(100000);
  ASSERT_SYN(synMemCopyAsync(stream, address(host), 100000, buffer, HOST_TO_DRAM));
  ASSERT_SYN(synHostFree(device, host, 0)) << "in order with the copy";
  EXPECT_EQ(download(buffer, 100000), std::vector<uint8_t>(100000, 0x5A));
  EXPECT_EQ(synHostFree(device, host, 0), synInvalidArgument);
}

TEST_F(Memory, WrongHostMemoryIsAnError) {
  void* host = nullptr;
  EXPECT_SYN_ERROR(synHostMalloc(device, 4096, 0, nullptr), synInvalidArgument, "null");
  EXPECT_SYN_ERROR(synHostMalloc(device, 4096, 0x10, &host), synInvalidArgument, "flags");
  synDeviceId second = 0;
  ASSERT_SYN(synDeviceAcquire(&second, nullptr)) << "with one device every id is its id";
  EXPECT_SYN_ERROR(synHostMalloc(7, 4096, 0, &host), synInvalidArgument, "device 7");
  EXPECT_EQ(synHostMalloc(device, uint64_t{1} << 60, 0, &host), synOutOfHostMemory) << hpuSynLastError();
  int local = 0;
  EXPECT_EQ(synHostFree(device, &local, 0), synInvalidArgument);
  EXPECT_SYN_ERROR(synHostFree(device, nullptr, 0), synInvalidArgument, "null");
  ASSERT_SYN(synHostMalloc(device, 4096, 0, &host));
  EXPECT_EQ(synHostFree(device, static_cast<char*>(host) + 64, 0), synInvalidArgument) << "not its start";
  EXPECT_SYN_ERROR(synHostFree(device, host, 0x10), synInvalidArgument, "flags");
  EXPECT_SYN(synHostUnmap(device, host)) << "allocated memory is freed, not unmapped";
  EXPECT_SYN(synHostFree(device, host, 0));
}

TEST_F(Memory, WhatIsNotTheProgramsIsNotMapped) {
  EXPECT_SYN_ERROR(synHostMap(device, uint64_t{1} << 40, reinterpret_cast<void*>(0x1000)), synMappingNotFound,
                   "not memory of this process");
  EXPECT_SYN_ERROR(synHostMap(device, uint64_t{1} << 62, reinterpret_cast<void*>(UINTPTR_MAX - 4096)),
                   synInvalidArgument, "address space");
}

TEST_F(Memory, TheProgramsOwnMemoryIsMapped) {
  std::vector<uint8_t> data = pattern(64 << 10);
  ASSERT_SYN(synHostMap(device, data.size(), data.data()));
  uint64_t buffer = allocate(data.size());
  ASSERT_SYN(synMemCopyAsync(stream, address(data.data()), data.size(), buffer, HOST_TO_DRAM));
  ASSERT_SYN(synStreamSynchronize(stream));
  ASSERT_SYN(synHostUnmap(device, data.data()));
  EXPECT_EQ(download(buffer, data.size()), data) << "memory that is not mapped is copied too";
  EXPECT_SYN_ERROR(synHostMap(device, 16, nullptr), synInvalidArgument, "null");
  synDeviceId second = 0;
  ASSERT_SYN(synDeviceAcquire(&second, nullptr)) << "with one device every id is its id";
  EXPECT_SYN_ERROR(synHostMap(3, 16, data.data()), synInvalidArgument, "device 3");
  EXPECT_SYN_ERROR(synHostUnmap(device, nullptr), synInvalidArgument, "null");
  EXPECT_SYN_ERROR(synHostUnmap(3, data.data()), synInvalidArgument, "device 3");
}

/// What has no bytes is there, has an address of its own, and ends as the rest does.
TEST_F(Memory, AllocationsOfNothingAreAllocations) {
  uint64_t first = 0, second = 0;
  ASSERT_SYN(synDeviceMalloc(device, 0, 0, 0, &first));
  ASSERT_SYN(synDeviceMalloc(device, 0, 0, synMemDevice, &second));
  EXPECT_NE(first, 0u);
  EXPECT_NE(first, second);
  EXPECT_SYN(synMemCopyAsync(stream, first, 0, second, DRAM_TO_DRAM));
  EXPECT_SYN(synMemsetD32Async(first, 5, 0, stream));
  EXPECT_SYN(synStreamSynchronize(stream));
  EXPECT_SYN(synDeviceFree(device, first, 0));
  EXPECT_SYN_ERROR(synDeviceFree(device, first, 0), synInvalidArgument, "not allocated");
  EXPECT_SYN(synDeviceFree(device, second, 0));
  void *host = nullptr, *other = nullptr;
  ASSERT_SYN(synHostMalloc(device, 0, 0, &host));
  ASSERT_SYN(synHostMalloc(device, 0, 0, &other));
  EXPECT_NE(host, nullptr);
  EXPECT_NE(host, other);
  EXPECT_SYN(synMemCopyAsync(stream, address(host), 0, 0, HOST_TO_DRAM));
  EXPECT_SYN(synStreamSynchronize(stream));
  EXPECT_SYN(synHostFree(device, host, 0));
  EXPECT_SYN(synHostFree(device, other, 0));
}

TEST_F(Memory, ARangeIsMappedAsOftenAsAProgramLikes) {
  std::vector<uint8_t> data = pattern(1 << 16);
  for (int i = 0; i < 3; ++i) ASSERT_SYN(synHostMap(device, data.size(), data.data())) << i;
  ASSERT_SYN(synHostMap(device, 16, data.data() + 100)) << "inside";
  uint64_t buffer = allocate(data.size());
  upload(buffer, data);
  for (int i = 0; i < 3; ++i) ASSERT_SYN(synHostUnmap(device, data.data())) << i;
  EXPECT_EQ(download(buffer, data.size()), data);
  EXPECT_SYN(synHostUnmap(device, data.data() + 100));
}

TEST_F(Memory, MappedRangesMayOverlap) {
  std::vector<uint8_t> data = pattern(1 << 16), back(1 << 16);
  ASSERT_SYN(synHostMap(device, 1 << 14, data.data() + (1 << 14)));
  ASSERT_SYN(synHostMap(device, data.size(), data.data())) << "around it";
  ASSERT_SYN(synHostMap(device, 1 << 15, data.data() + (3 << 13))) << "over its end";
  uint64_t buffer = allocate(data.size());
  upload(buffer, data);
  ASSERT_SYN(synHostUnmap(device, data.data() + (1 << 14)));
  ASSERT_SYN(synHostUnmap(device, data.data()));
  ASSERT_SYN(synMemCopyAsync(stream, buffer, data.size(), address(back.data()), DRAM_TO_HOST));
  ASSERT_SYN(synStreamSynchronize(stream));
  EXPECT_EQ(back, data);
  ASSERT_SYN(synHostUnmap(device, data.data() + (3 << 13)));
}

TEST_F(Memory, MappingAndUnmappingNothingIsDone) {
  std::vector<uint8_t> data(4096);
  void* host = nullptr;
  ASSERT_SYN(synHostMalloc(device, 4096, 0, &host));
  EXPECT_SYN(synHostUnmap(device, data.data()));
  EXPECT_SYN(synHostMap(device, 0, data.data()));
  EXPECT_SYN(synHostUnmap(device, data.data()));
  EXPECT_SYN(synHostMap(device, 4096, data.data()));
  EXPECT_SYN(synHostUnmap(device, data.data() + 64)) << "not its start";
  EXPECT_SYN(synHostUnmap(device, data.data()));
  EXPECT_SYN(synHostUnmap(device, data.data())) << "a second time";
  EXPECT_SYN(synHostMap(device, 4096, host)) << "what was allocated for the device is mapped";
  EXPECT_SYN(synHostUnmap(device, host));
  std::memset(host, 1, 4096);
  EXPECT_SYN(synHostFree(device, host, 0)) << "and freed as before";
}

}  // namespace
}  // namespace synapse_test
