// SPDX-License-Identifier: Apache-2.0
// The device-memory checker, on a device that is opened with it.
#include "runtime/memory/MemoryCheck.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <vector>

#include "../TinyProgram.h"
#include "hpu/device.h"
#include "hpu/event.h"
#include "hpu/executable.h"
#include "hpu/stream.h"

namespace hpu {
namespace {

using ::testing::AllOf;
using testing::copyProgram;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::toRecipe;

constexpr int64_t kMiB = 1 << 20;

class MemoryCheckTest : public ::testing::Test {
 protected:
  void SetUp() override {
    setenv("HPU_MEMORY_CHECK", "1", 1);
    setenv("HPU_MEMORY_QUARANTINE", "8M", 1);
    DeviceOptions options;
    options.hbmBytes = 16 * kMiB;
    device = Device::open(options).value();
    unsetenv("HPU_MEMORY_CHECK");
    unsetenv("HPU_MEMORY_QUARANTINE");
    stream = Stream::create(device, {"compute", 0}).value();
  }
  Device device;
  Stream stream;
  std::vector<char> host = std::vector<char>(8192, 5);
};

TEST_F(MemoryCheckTest, UseAfterFreeOfAPoolsBufferIsAnErrorWithTheHistory) {
  Buffer scratch = stream.allocate(4000).value();
  const uint64_t address = scratch.address();
  ASSERT_TRUE(stream.copyToDevice(address, host.data(), 4000).ok());
  ASSERT_TRUE(stream.free(scratch).ok());
  scratch = Buffer();
  ASSERT_TRUE(stream.copyToHost(host.data(), address + 100, 200).ok());
  Status status = stream.synchronize();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("use after free: copyToHost: 200 bytes"),
                                      HasSubstr("100 bytes into allocation 1 'default pool' of 4000 bytes")));
  // It is in nobody's use now, and was overwritten.
  std::vector<unsigned char> seen(4000);
  Buffer again = stream.allocate(4000).value();
  ASSERT_EQ(again.address(), address);
  ASSERT_TRUE(stream.copyToHost(seen.data(), again, 4000).ok());
  ASSERT_TRUE(stream.synchronize().ok());
  EXPECT_EQ(seen, std::vector<unsigned char>(4000, 0xff));
}

TEST_F(MemoryCheckTest, UseAfterFreeIsAnErrorOfTheStreamWithTheHistory) {
  Buffer weights = device.allocate(4000, "weights").value();
  uint64_t address = weights.address();
  ASSERT_TRUE(stream.copyToDevice(address, host.data(), 4000).ok());
  weights = Buffer();
  ASSERT_TRUE(stream.copyToHost(host.data(), address + 100, 200).ok());
  Status status = stream.synchronize();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("on queue 'compute'"), HasSubstr("use after free: copyToHost: 200 bytes"),
                    HasSubstr("100 bytes into allocation 1 'weights' of 4000 bytes"), HasSubstr(", allocated at "),
                    HasSubstr("freed at "), HasSubstr("by thread ")));
  EXPECT_TRUE(stream.synchronize().ok());
  EXPECT_EQ(host, std::vector<char>(8192, 5));  // Nothing was copied.
}

TEST_F(MemoryCheckTest, OutOfBoundsIsAnErrorOfTheStreamWithTheHistory) {
  Buffer small = device.allocate(1000, "small").value();
  ASSERT_TRUE(stream.fill(small.address() + 4, 1, 1, 997).ok());
  EXPECT_THAT(stream.synchronize().message(),
              AllOf(HasSubstr("out of bounds: fill: 997 bytes"), HasSubstr("pass the end of "), HasSubstr("'small'"),
                    HasSubstr("by 1 bytes")));
  // In what the allocator rounds up, and a little behind it.
  ASSERT_TRUE(stream.copyToDevice(small.address() + 1000, host.data(), 1).ok());
  EXPECT_THAT(stream.synchronize().message(), HasSubstr("begin 0 bytes behind the end of"));
  ASSERT_TRUE(stream.copyToDevice(small.address() + 1500, host.data(), 1).ok());
  EXPECT_THAT(stream.synchronize().message(), HasSubstr("begin 500 bytes behind the end of"));
  ASSERT_TRUE(stream.copyToDevice(small.address() + kMiB, host.data(), 1).ok());
  EXPECT_THAT(stream.synchronize().message(), HasSubstr("wild address"));
  ASSERT_TRUE(stream.copyOnDevice(small.address(), 8, 8).ok());
  EXPECT_THAT(stream.synchronize().message(), HasSubstr("copyOnDevice, source: 8 bytes at 0x8"));
}

TEST_F(MemoryCheckTest, ManyCopiesNameTheOneThatIsWrong) {
  Buffer buffer = device.allocate(1000).value();
  uint64_t from = reinterpret_cast<uintptr_t>(host.data());
  ASSERT_TRUE(
      stream.copyMany(CopyDirection::kToDevice, {{buffer.address(), from, 8}, {buffer.address() + 996, from, 8}}).ok());
  EXPECT_THAT(stream.synchronize().message(), HasSubstr("copy 1: out of bounds"));
}

TEST_F(MemoryCheckTest, LaunchesNameTensorNodeAndEngine) {
  Executable copy = Executable::load(device, toRecipe(copyProgram(1000))).value();
  Buffer in = device.allocate(4000, "batch").value(), out = device.allocate(4000).value();
  LaunchArguments arguments{{in.address()}, {out.address()}, 0, {{0, Event()}}};
  ASSERT_TRUE(copy.launch(stream, arguments).ok());
  ASSERT_TRUE(stream.synchronize().ok());
  in = Buffer();
  ASSERT_TRUE(copy.launch(stream, arguments).ok());
  EXPECT_TRUE(Stream::create(device).value().wait(arguments.events[0].event).ok());
  Status status = stream.synchronize();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("'copy' on queue 'compute'"), HasSubstr("input 0: 'in0', 1000xi32"),
                                      HasSubstr("used by node 'load' (Copy) on the dma"),
                                      HasSubstr("use after free: launch: 4000 bytes"), HasSubstr("'batch'")));
}

TEST_F(MemoryCheckTest, FreedMemoryIsPoisonedAndKeptFromUse) {
  Buffer a = device.allocate(kMiB).value();
  uint64_t address = a.address();
  ASSERT_TRUE(stream.fill(address, 3, 1, kMiB).ok());
  ASSERT_TRUE(stream.synchronize().ok());
  a = Buffer();
  EXPECT_EQ(device.memoryInfo().quarantinedBytes, kMiB);
  Buffer b = device.allocate(kMiB).value();
  EXPECT_NE(b.address(), address);
  // With 8 MiB behind it the first block is used again, and still shows that it was freed.
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(device.allocate(kMiB).ok());
  Buffer again = device.allocate(kMiB, AllocateOptions{"again", address}).value();
  uint32_t word = 0;
  ASSERT_TRUE(stream.copyToHost(&word, address, 4).ok());
  ASSERT_TRUE(stream.synchronize().ok());
  EXPECT_EQ(word, 0xffffffffu);
}

TEST_F(MemoryCheckTest, QuarantineGivesWayBeforeMemoryRunsOut) {
  for (int i = 0; i < 100; ++i) {
    auto buffer = device.allocate(5 * kMiB);
    ASSERT_TRUE(buffer.ok()) << i << ": " << buffer.status().message();
  }
  Buffer most = device.allocate(15 * kMiB).value();
  EXPECT_EQ(device.memoryInfo().quarantinedBytes, 0);
}

TEST_F(MemoryCheckTest, HandlesThatLiveAreNeverWrong) {
  Buffer a = device.allocate(4096).value(), b = device.allocate(4096).value();
  for (int i = 0; i < 200; ++i) {
    Buffer temporary = device.allocate(4096).value();
    ASSERT_TRUE(stream.copyToDevice(temporary.address(), host.data(), 4096).ok());
    ASSERT_TRUE(stream.copyOnDevice(a.address(), temporary.address(), 4096).ok());
    temporary = Buffer();  // Free in order: both copies still see it.
  }
  ASSERT_TRUE(stream.copyToHost(host.data(), a.address(), 4096).ok());
  EXPECT_TRUE(stream.synchronize().ok());
  EXPECT_EQ(host, std::vector<char>(8192, 5));
}

TEST(MemoryCheck, IsOffUnlessAskedFor) {
  DeviceOptions options;
  options.hbmBytes = 16 * kMiB;
  Device device = Device::open(options).value();
  Stream stream = Stream::create(device).value();
  EXPECT_EQ(stream.fill(0x1234, 0, 1, 1).code(), StatusCode::kNotFound);
  EXPECT_TRUE(stream.synchronize().ok());
  Buffer buffer = device.allocate(kMiB).value();
  buffer = Buffer();
  EXPECT_EQ(device.memoryInfo().usedBytes, 0);
}

TEST(MemoryCheck, RemembersTheLatestOwnerOfAnAddress) {
  MemoryCheck check(0);
  check.allocated(0x1000, 256, "first");
  check.freed(0x1000);
  check.allocated(0x1000, 512, "second");
  check.freed(0x1000);
  EXPECT_THAT(check.explain(0x1010, 4, "copy").message(),
              AllOf(HasSubstr("allocation 2 'second' of 512 bytes"), Not(HasSubstr("first"))));
  for (size_t i = 0; i < MemoryCheck::kHistory; ++i) {
    check.allocated(0x100000, 1, "");
    check.freed(0x100000);
  }
  EXPECT_THAT(check.explain(0x1010, 4, "copy").message(), HasSubstr("wild address"));
}

TEST(MemoryCheck, QuarantineIsFirstInFirstOutWithinItsLimit) {
  using Block = MemoryCheck::Block;
  MemoryCheck check(1000);
  EXPECT_TRUE(check.quarantine({1, 400}).empty());
  EXPECT_TRUE(check.quarantine({2, 600}).empty());
  EXPECT_EQ(check.quarantine({3, 1}), (std::vector<Block>{{1, 400}}));
  EXPECT_EQ(check.quarantine({4, 5000}), (std::vector<Block>{{2, 600}, {3, 1}, {4, 5000}}));
  EXPECT_TRUE(check.quarantine({5, 10}).empty());
  EXPECT_EQ(check.quarantinedBytes(), 10);
  EXPECT_EQ(check.release(), (std::vector<Block>{{5, 10}}));
  EXPECT_EQ(check.quarantinedBytes(), 0);
}

}  // namespace
}  // namespace hpu
