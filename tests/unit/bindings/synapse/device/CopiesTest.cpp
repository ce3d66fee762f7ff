// SPDX-License-Identifier: Apache-2.0
// Copies and memsets against the same done by the host.
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <random>

#include "tests/unit/bindings/synapse/DeviceFixture.h"

namespace synapse_test {
namespace {

using Copies = SynapseTest;

TEST_F(Copies, GoThereAndBack) {
  std::vector<uint8_t> data = pattern(100003);
  uint64_t a = allocate(data.size()), b = allocate(data.size());
  std::vector<uint8_t> back(data.size());
  // All enqueued before the first is waited for: a stream is in order.
  ASSERT_SYN(synMemCopyAsync(stream, address(data.data()), data.size(), a, HOST_TO_DRAM));
  ASSERT_SYN(synMemCopyAsync(stream, a, data.size(), b, DRAM_TO_DRAM));
  ASSERT_SYN(synMemCopyAsync(stream, b, data.size(), address(back.data()), DRAM_TO_HOST));
  ASSERT_SYN(synStreamSynchronize(stream));
  EXPECT_EQ(back, data);
}

TEST_F(Copies, TakeAddressesInsideAllocations) {
  uint64_t buffer = allocate(10000);
  std::vector<uint8_t> expected = pattern(10000), piece = pattern(777, 5);
  upload(buffer, expected);
  ASSERT_SYN(synMemCopyAsync(stream, address(piece.data()), piece.size(), buffer + 1234, HOST_TO_DRAM));
  std::copy(piece.begin(), piece.end(), expected.begin() + 1234);
  ASSERT_SYN(synMemCopyAsync(stream, buffer + 1300, 50, buffer + 9001, DRAM_TO_DRAM));
  std::copy_n(expected.begin() + 1300, 50, expected.begin() + 9001);
  ASSERT_SYN(synStreamSynchronize(stream));
  EXPECT_EQ(download(buffer, 10000), expected);
  EXPECT_EQ(download(buffer + 9990, 10), std::vector<uint8_t>(expected.end() - 10, expected.end()));
  EXPECT_SYN(synMemCopyAsync(stream, 0, 0, buffer, HOST_TO_DRAM)) << "nothing is copied from nowhere";
}

TEST_F(Copies, OfManyRangesAreOneWork) {
  constexpr uint64_t kCount = 50, kBytes = 300;
  uint64_t device0 = allocate(kCount * 512), device1 = allocate(kCount * 512);
  std::vector<uint8_t> data = pattern(kCount * kBytes), back(kCount * kBytes);
  std::vector<uint64_t> host(kCount), there(kCount), away(kCount), size(kCount), home(kCount);
  for (uint64_t i = 0; i < kCount; ++i) {
    host[i] = address(data.data() + i * kBytes);
    home[i] = address(back.data() + i * kBytes);
    there[i] = device0 + (kCount - 1 - i) * 512;
    away[i] = device1 + i * 512;
    size[i] = i == 7 ? 0 : kBytes;
  }
  ASSERT_SYN(synMemCopyAsyncMultiple(stream, host.data(), size.data(), there.data(), HOST_TO_DRAM, kCount));
  ASSERT_SYN(synMemCopyAsyncMultiple(stream, there.data(), size.data(), away.data(), DRAM_TO_DRAM, kCount));
  ASSERT_SYN(synMemCopyAsyncMultiple(stream, away.data(), size.data(), home.data(), DRAM_TO_HOST, kCount));
  ASSERT_SYN(synStreamSynchronize(stream));
  std::fill_n(data.begin() + 7 * kBytes, kBytes, uint8_t{0});
  EXPECT_EQ(back, data);
}

TEST_F(Copies, WrongArgumentsAreErrorsAndNothingIsEnqueued) {
  uint64_t buffer = allocate(4096);
  std::vector<uint8_t> data = pattern(4096), expected(4096, 0);
  upload(buffer, expected);
  const uint64_t host = address(data.data());
  EXPECT_SYN_ERROR(synMemCopyAsync(nullptr, host, 16, buffer, HOST_TO_DRAM), synInvalidArgument, "handle is null");
  EXPECT_SYN_ERROR(synMemCopyAsync(stream, host, 16, buffer, DIRECTION_ENUM_MAX), synInvalidArgument, "direction 3");
  EXPECT_EQ(synMemCopyAsync(stream, host, 4097, buffer, HOST_TO_DRAM), synInvalidArgument) << "beyond the end";
  EXPECT_EQ(synMemCopyAsync(stream, host, 16, buffer + 4096, HOST_TO_DRAM), synMappingNotFound);
  EXPECT_EQ(synMemCopyAsync(stream, host, UINT64_MAX, buffer, HOST_TO_DRAM), synInvalidArgument);
  EXPECT_EQ(synMemCopyAsync(stream, 0, 16, buffer, HOST_TO_DRAM), synInvalidArgument) << "null";
  // The wrong direction: a host address as a device's, and a device address as the host's.
  EXPECT_EQ(synMemCopyAsync(stream, host, 16, buffer, DRAM_TO_DRAM), synMappingNotFound) << hpuSynLastError();
  // (Which of the two is said depends on what lies at that address in the process: ASan's memory does.)
  EXPECT_EQ(synMemCopyAsync(stream, buffer, 16, host, HOST_TO_DRAM), synMappingNotFound) << hpuSynLastError();
  EXPECT_EQ(synMemCopyAsync(stream, host, 16, buffer, DRAM_TO_HOST), synMappingNotFound) << hpuSynLastError();
  EXPECT_SYN(synStreamSynchronize(stream)) << "no work was enqueued that could fail";
  EXPECT_EQ(download(buffer, 4096), expected);
}

/// Another thread of the process may map memory into the hole: then the case is tried again with another one.
TEST_F(Copies, HostMemoryThatEndsIsAnErrorAndNoCrash) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  uint64_t buffer = allocate(2 * page);
  bool wasHole = false;
  for (int i = 0; i < 100 && !wasHole; ++i) {
    void* pages = mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(pages, MAP_FAILED);
    char* hole = static_cast<char*>(pages) + page;
    ASSERT_EQ(munmap(hole, page), 0);
    EXPECT_SYN(synMemCopyAsync(stream, address(pages), page, buffer, HOST_TO_DRAM));
    const synStatus status = synMemCopyAsync(stream, address(pages), page + 1, buffer, HOST_TO_DRAM);
    unsigned char isThere = 0;
    wasHole = status != synSuccess || (mincore(hole, page, &isThere) != 0 && errno == ENOMEM);
    EXPECT_TRUE(!wasHole || status == synMappingNotFound) << status;
    EXPECT_SYN(synStreamSynchronize(stream));
    munmap(pages, page);
  }
  EXPECT_TRUE(wasHole);
}

/// Small ranges and large ones are looked at by other means.
TEST_F(Copies, HostMemoryThatMayNotBeTouchedIsAnErrorOfTheStream) {
  uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  for (uint64_t bytes : {3 * page, uint64_t{24} << 20}) {
    uint64_t buffer = allocate(bytes);
    auto* memory =
        static_cast<uint8_t*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(memory, MAP_FAILED);
    ASSERT_EQ(mprotect(memory + page, page, PROT_READ), 0);
    uint64_t host = address(memory);
    EXPECT_SYN(synMemCopyAsync(stream, host, bytes, buffer, HOST_TO_DRAM));
    EXPECT_SYN(synStreamSynchronize(stream));
    ASSERT_SYN(synMemCopyAsync(stream, buffer, bytes, host, DRAM_TO_HOST));
    EXPECT_SYN_ERROR(synStreamSynchronize(stream), synMappingNotFound, "not writable");
    uint64_t size = page;
    uint64_t inside = host + page;
    ASSERT_SYN(synMemCopyAsyncMultiple(stream, &buffer, &size, &inside, DRAM_TO_HOST, 1));
    EXPECT_SYN_ERROR(synStreamSynchronize(stream), synMappingNotFound, "not writable");
    ASSERT_SYN(synHostMap(device, bytes, memory));
    ASSERT_SYN(synMemCopyAsync(stream, buffer, bytes, host, DRAM_TO_HOST));
    EXPECT_SYN_ERROR(synStreamSynchronize(stream), synMappingNotFound, "not writable");
    ASSERT_SYN(synHostUnmap(device, memory));
    ASSERT_EQ(mprotect(memory + page, page, PROT_NONE), 0);
    ASSERT_SYN(synMemCopyAsync(stream, host, bytes, buffer, HOST_TO_DRAM));
    EXPECT_SYN_ERROR(synStreamSynchronize(stream), synMappingNotFound, "not readable");
    EXPECT_SYN(synMemCopyAsync(stream, buffer, page, host, DRAM_TO_HOST)) << "the stream is as before";
    EXPECT_SYN(synStreamSynchronize(stream));
    munmap(memory, bytes);
    ASSERT_SYN(synDeviceFree(device, buffer, 0));
  }
}

TEST_F(Copies, MappedFilesThatWereTruncatedAreErrorsOfTheStream) {
  int file = memfd_create("copies", MFD_CLOEXEC);
  ASSERT_GE(file, 0);
  for (int64_t bytes : {1 << 20, 24 << 20}) {
    uint64_t buffer = allocate(static_cast<uint64_t>(bytes));
    ASSERT_EQ(ftruncate(file, bytes), 0);
    void* memory = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ASSERT_NE(memory, MAP_FAILED);
    ASSERT_SYN(synMemCopyAsync(stream, address(memory), static_cast<uint64_t>(bytes), buffer, HOST_TO_DRAM));
    EXPECT_SYN(synStreamSynchronize(stream));
    ASSERT_EQ(ftruncate(file, bytes / 2), 0);
    ASSERT_SYN(synMemCopyAsync(stream, address(memory), static_cast<uint64_t>(bytes), buffer, HOST_TO_DRAM));
    EXPECT_SYN_ERROR(synStreamSynchronize(stream), synMappingNotFound, "not readable");
    ASSERT_SYN(synMemCopyAsync(stream, buffer, static_cast<uint64_t>(bytes), address(memory), DRAM_TO_HOST));
    EXPECT_SYN_ERROR(synStreamSynchronize(stream), synMappingNotFound, "not writable");
    EXPECT_SYN(synMemCopyAsync(stream, address(memory), static_cast<uint64_t>(bytes) / 2, buffer, HOST_TO_DRAM));
    EXPECT_SYN(synStreamSynchronize(stream));
    munmap(memory, static_cast<size_t>(bytes));
    ASSERT_SYN(synDeviceFree(device, buffer, 0));
  }
  close(file);
}

TEST_F(Copies, OfFreedMemoryAreErrors) {
  uint64_t buffer = allocate(4096);
  std::vector<uint8_t> data(4096);
  ASSERT_SYN(synDeviceFree(device, buffer, 0));
  EXPECT_EQ(synMemCopyAsync(stream, address(data.data()), 4096, buffer, HOST_TO_DRAM), synMappingNotFound);
  EXPECT_EQ(synMemsetD8Async(buffer, 1, 16, stream), synMappingNotFound);
}

TEST_F(Copies, OfManyRangesNameTheWrongOne) {
  uint64_t buffer = allocate(4096);
  std::vector<uint8_t> data(4096);
  uint64_t src[2] = {address(data.data()), address(data.data())}, dst[2] = {buffer, buffer + 4000};
  uint64_t size[2] = {100, 100};
  EXPECT_SYN_ERROR(synMemCopyAsyncMultiple(stream, src, size, dst, HOST_TO_DRAM, 2), synInvalidArgument, "copy 1");
  src[1] = 16;
  EXPECT_SYN_ERROR(synMemCopyAsyncMultiple(stream, src, size, dst, HOST_TO_DRAM, 2), synMappingNotFound, "copy 1");
  EXPECT_SYN_ERROR(synMemCopyAsyncMultiple(stream, nullptr, size, dst, HOST_TO_DRAM, 1), synInvalidArgument, "null");
  EXPECT_SYN_ERROR(synMemCopyAsyncMultiple(stream, src, nullptr, dst, HOST_TO_DRAM, 1), synInvalidArgument, "null");
  EXPECT_SYN_ERROR(synMemCopyAsyncMultiple(stream, src, size, nullptr, HOST_TO_DRAM, 1), synInvalidArgument, "null");
  EXPECT_SYN_ERROR(synMemCopyAsyncMultiple(stream, src, size, dst, static_cast<synDmaDir>(9), 1), synInvalidArgument,
                   "direction 9");
}

TEST_F(Copies, OfNothingAreDone) {
  uint64_t buffer = allocate(4096), none = 0, zero = 0;
  for (synDmaDir way : {HOST_TO_DRAM, DRAM_TO_HOST, DRAM_TO_DRAM}) {
    SCOPED_TRACE(way);
    EXPECT_SYN(synMemCopyAsyncMultiple(stream, nullptr, nullptr, nullptr, way, 0));
    EXPECT_SYN(synMemCopyAsyncMultiple(stream, &none, &zero, &none, way, 1));
    EXPECT_SYN(synMemCopyAsync(stream, 0, 0, 0, way));
    EXPECT_SYN(synMemCopyAsync(stream, buffer, 0, buffer, way));
    EXPECT_SYN_ERROR(synMemCopyAsyncMultiple(nullptr, nullptr, nullptr, nullptr, way, 0), synInvalidArgument, "null");
  }
  EXPECT_SYN(synMemsetD8Async(0, 1, 0, stream));
  EXPECT_SYN(synMemsetD16Async(buffer, 1, 0, stream));
  EXPECT_SYN(synMemsetD32Async(buffer + 4096, 1, 0, stream));
  EXPECT_SYN(synStreamSynchronize(stream));
}

TEST_F(Copies, MemsetsRepeatTheirElement) {
  uint64_t buffer = allocate(4096);
  std::vector<uint8_t> expected(4096, 0);
  upload(buffer, expected);
  ASSERT_SYN(synMemsetD8Async(buffer + 3, 0xAB, 101, stream));
  ASSERT_SYN(synMemsetD16Async(buffer + 1000, 0x1234, 33, stream));
  ASSERT_SYN(synMemsetD32Async(buffer + 2000, 0xDEADBEEF, 17, stream));
  std::fill_n(expected.begin() + 3, 101, uint8_t{0xAB});
  for (int i = 0; i < 33; ++i) expected[1000 + 2 * i] = 0x34, expected[1001 + 2 * i] = 0x12;
  for (int i = 0; i < 17; ++i) {
    const uint8_t word[4] = {0xEF, 0xBE, 0xAD, 0xDE};
    std::copy_n(word, 4, expected.begin() + 2000 + 4 * i);
  }
  ASSERT_SYN(synStreamSynchronize(stream));
  EXPECT_EQ(download(buffer, 4096), expected);
}

TEST_F(Copies, WrongMemsetsAreErrors) {
  uint64_t buffer = allocate(4096);
  EXPECT_EQ(synMemsetD8Async(buffer, 1, 4097, stream), synInvalidArgument) << "beyond the end";
  EXPECT_EQ(synMemsetD16Async(buffer, 1, 2049, stream), synInvalidArgument);
  EXPECT_EQ(synMemsetD32Async(buffer, 1, 1025, stream), synInvalidArgument);
  EXPECT_EQ(synMemsetD32Async(buffer, 1, uint64_t{1} << 62, stream), synInvalidArgument);
  EXPECT_EQ(synMemsetD32Async(buffer, 1, UINT64_MAX, stream), synInvalidArgument);
  EXPECT_EQ(synMemsetD8Async(16, 1, 1, stream), synMappingNotFound);
  EXPECT_EQ(synMemsetD16Async(16, 1, 1, stream), synMappingNotFound);
  EXPECT_SYN_ERROR(synMemsetD8Async(buffer, 1, 1, nullptr), synInvalidArgument, "null");
  EXPECT_SYN(synMemsetD8Async(buffer, 1, 4096, stream));
  EXPECT_SYN(synStreamSynchronize(stream));
}

}  // namespace
}  // namespace synapse_test
