// SPDX-License-Identifier: Apache-2.0
// Host memory behind files: importHost, exportHost, and between devices and processes.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "hpu/device.h"
#include "hpu/stream.h"
#include "runtime/memory/HostPages.h"

extern char** environ;

namespace hpu {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kBytes = 64 << 10;
constexpr const char* kChildFile = "HPU_TEST_SHARED_FILE";

Device openDevice(const char* driver = "sim") {
  DeviceOptions options;
  options.driver = driver;
  options.hbmBytes = 16 << 20;
  return Device::open(options).value();
}

/// A memory file of `bytes` zeros.
class TestFile {
 public:
  explicit TestFile(int64_t bytes) : fd_(::memfd_create("hpu-test", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
    EXPECT_EQ(::ftruncate(fd_, bytes), 0);
  }
  ~TestFile() { ::close(fd_); }
  int fd() const { return fd_; }

 private:
  int fd_;
};

std::vector<int32_t> ramp(int32_t first) {
  std::vector<int32_t> data(kBytes / 4);
  std::iota(data.begin(), data.end(), first);
  return data;
}

TEST(ExportHost, TwoDevicesShareMemoryWhichOutlivesItsMaker) {
  Device one = openDevice(), two = openDevice();
  HostMemory mine = one.allocateHost(kBytes, "shared").value();
  Device::SharedFile file = one.exportHost(mine.data).value();
  EXPECT_EQ(file.offset, 0);
  EXPECT_EQ(file.bytes, kBytes);
  HostMemory theirs = two.importHost(file.fd, file.offset, file.bytes, "imported").value();
  ::close(file.fd);
  EXPECT_NE(theirs.data, mine.data);
  EXPECT_FALSE(theirs.allocated);
  EXPECT_EQ(two.findHost(theirs.data).value().label, "imported");

  // From the memory of one device to the other's, through the pages that both know.
  Stream from = Stream::create(one).value(), to = Stream::create(two).value();
  Buffer source = one.allocate(kBytes).value(), target = two.allocate(kBytes).value();
  const std::vector<int32_t> data = ramp(5);
  ASSERT_TRUE(from.copyToDevice(source, data.data(), kBytes).ok());
  ASSERT_TRUE(from.copyToHost(mine.data, source, kBytes).ok());
  ASSERT_TRUE(from.synchronize().ok());
  EXPECT_EQ(std::memcmp(theirs.data, data.data(), kBytes), 0);
  // The pages are the importer's as well.
  ASSERT_TRUE(one.freeHost(mine.data).ok());
  ASSERT_TRUE(to.copyToDevice(target, theirs.data, kBytes).ok());
  std::vector<int32_t> result(data.size());
  ASSERT_TRUE(to.copyToHost(result.data(), target, kBytes).ok());
  ASSERT_TRUE(to.synchronize().ok());
  EXPECT_EQ(result, data);
  EXPECT_EQ(two.freeHost(theirs.data).code(), StatusCode::kNotFound);
  EXPECT_TRUE(two.unmapHost(theirs.data).ok());
  EXPECT_EQ(two.unmapHost(theirs.data).code(), StatusCode::kNotFound);
}

/// The other process of the next test.
TEST(ExportHostChild, DISABLED_AddsOneToEachInt) {
  const char* fd = std::getenv(kChildFile);
  if (!fd) GTEST_SKIP() << "is run by ExportHost.TwoProcessesShareMemory";
  Device device = openDevice();
  HostMemory memory = device.importHost(std::atoi(fd), 0, kBytes).value();
  Stream stream = Stream::create(device).value();
  Buffer buffer = device.allocate(kBytes).value();
  std::vector<int32_t> data(kBytes / 4);
  ASSERT_TRUE(stream.copyToDevice(buffer, memory.data, kBytes).ok());
  ASSERT_TRUE(stream.copyToHost(data.data(), buffer, kBytes).ok());
  ASSERT_TRUE(stream.synchronize().ok());
  for (int32_t& value : data) ++value;
  ASSERT_TRUE(stream.copyToDevice(buffer, data.data(), kBytes).ok());
  ASSERT_TRUE(stream.copyToHost(memory.data, buffer, kBytes).ok());
  ASSERT_TRUE(stream.synchronize().ok());
}

TEST(ExportHost, TwoProcessesShareMemory) {
  Device device = openDevice();
  HostMemory memory = device.allocateHost(kBytes).value();
  const std::vector<int32_t> data = ramp(100);
  std::memcpy(memory.data, data.data(), kBytes);
  Device::SharedFile file = device.exportHost(memory.data).value();
  const int inherited = ::dup(file.fd);  // Without close-on-exec.
  ::close(file.fd);
  std::string program = "/proc/self/exe", filter = "--gtest_filter=ExportHostChild.DISABLED_AddsOneToEachInt",
              disabled = "--gtest_also_run_disabled_tests";
  char* arguments[] = {program.data(), filter.data(), disabled.data(), nullptr};
  ASSERT_EQ(::setenv(kChildFile, std::to_string(inherited).c_str(), 1), 0);
  pid_t child = 0;
  const int error = ::posix_spawn(&child, program.c_str(), nullptr, nullptr, arguments, environ);
  ::unsetenv(kChildFile);
  ::close(inherited);
  ASSERT_EQ(error, 0);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(std::memcmp(memory.data, ramp(101).data(), kBytes), 0);
}

TEST(ExportHost, AnAddressInsideGivesTheWholeMemory) {
  Device device = openDevice("null");
  HostMemory memory = device.allocateHost(10000).value();
  Device::SharedFile file = device.exportHost(static_cast<char*>(memory.data) + 9999).value();
  EXPECT_EQ(file.bytes, 10000);
  EXPECT_NE(::fcntl(file.fd, F_GETFD) & FD_CLOEXEC, 0);
  // Nobody takes pages away from the others.
  EXPECT_NE(::ftruncate(file.fd, 0), 0);
  ::close(file.fd);
  ASSERT_TRUE(device.freeHost(memory.data).ok());
  EXPECT_EQ(device.exportHost(memory.data).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(device.exportHost(nullptr).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(Device().exportHost(&device).status().code(), StatusCode::kFailedPrecondition);
}

TEST(ExportHost, MemoryOfTheProgramHasNoFile) {
  Device device = openDevice("null");
  std::vector<char> own(1000);
  ASSERT_TRUE(device.mapHost(own.data(), 1000, "own").ok());
  auto file = device.exportHost(own.data());
  EXPECT_EQ(file.status().code(), StatusCode::kUnimplemented);
  EXPECT_THAT(file.status().message(), HasSubstr("'own' of 1000 bytes"));
}

TEST(ExportHost, ManyBlocksDoNotTakeAllDescriptorsOfTheProcess) {
  Device device = openDevice("null");
  std::vector<HostMemory> blocks;
  for (int i = 0; i < HostPages::kMostFiles + 10; ++i) {
    blocks.push_back(device.allocateHost(100).value());
    std::memset(blocks.back().data, 1, 100);
  }
  EXPECT_EQ(device.exportHost(blocks.back().data).status().code(), StatusCode::kResourceExhausted);
  for (const HostMemory& block : blocks) ASSERT_TRUE(device.freeHost(block.data).ok());
  HostMemory later = device.allocateHost(100).value();
  auto file = device.exportHost(later.data);
  ASSERT_TRUE(file.ok()) << file.status().message();
  ::close(file->fd);
}

TEST(ImportHost, MapsThePartThatWasAskedForAndExportsItAgain) {
  Device device = openDevice();
  const int64_t page = ::sysconf(_SC_PAGESIZE);
  TestFile file(4 * page);
  const int32_t value = 4711;
  ASSERT_EQ(::pwrite(file.fd(), &value, 4, 2 * page + 8), 4);
  HostMemory memory = device.importHost(file.fd(), 2 * page, page + 100, "part").value();
  EXPECT_EQ(memory.bytes, page + 100);
  EXPECT_EQ(static_cast<int32_t*>(memory.data)[2], value);
  static_cast<int32_t*>(memory.data)[3] = 17;
  int32_t written = 0;
  ASSERT_EQ(::pread(file.fd(), &written, 4, 2 * page + 12), 4);
  EXPECT_EQ(written, 17);
  Device::SharedFile again = device.exportHost(memory.data).value();
  EXPECT_EQ(again.offset, 2 * page);
  EXPECT_EQ(again.bytes, page + 100);
  // The same part a second time is other memory.
  HostMemory twice = device.importHost(again.fd, again.offset, again.bytes).value();
  ::close(again.fd);
  EXPECT_NE(twice.data, memory.data);
  EXPECT_EQ(static_cast<int32_t*>(twice.data)[3], 17);
  // A copy past its end would touch what is not of it.
  Stream stream = Stream::create(device).value();
  Buffer buffer = device.allocate(4 * page).value();
  EXPECT_EQ(stream.copyToDevice(buffer, memory.data, page + 101).code(), StatusCode::kOutOfRange);
  EXPECT_TRUE(device.unmapHost(memory.data).ok());
  EXPECT_TRUE(device.unmapHost(twice.data).ok());
}

TEST(ImportHost, EnqueuedCopiesKeepItMapped) {
  Device device = openDevice();
  TestFile file(kBytes);
  HostMemory memory = device.importHost(file.fd(), 0, kBytes).value();
  Stream stream = Stream::create(device).value();
  Buffer buffer = device.allocate(kBytes).value();
  // The copy stands behind a function that waits until the memory was tried to unmap.
  std::atomic<bool> tried{false};
  ASSERT_TRUE(stream
                  .callHost(
                      [&] {
                        tried.wait(false);
                        return okStatus();
                      },
                      "gate")
                  .ok());
  ASSERT_TRUE(stream.copyToDevice(buffer, memory.data, kBytes).ok());
  Status early = device.unmapHost(memory.data);
  tried = true;
  tried.notify_all();
  EXPECT_EQ(early.code(), StatusCode::kFailedPrecondition);
  ASSERT_TRUE(stream.synchronize().ok());
  EXPECT_TRUE(device.unmapHost(memory.data).ok());
}

TEST(ImportHost, WhatCannotBeMappedIsRefused) {
  Device device = openDevice("null");
  const int64_t page = ::sysconf(_SC_PAGESIZE);
  TestFile file(2 * page);
  auto refused = [&](int fd, int64_t offset, int64_t bytes, StatusCode code, const char* text) {
    auto memory = device.importHost(fd, offset, bytes);
    EXPECT_EQ(memory.status().code(), code) << memory.status().message();
    EXPECT_THAT(std::string(memory.status().message()), HasSubstr(text));
  };
  constexpr StatusCode kBad = StatusCode::kInvalidArgument;
  refused(-1, 0, page, kBad, "no open descriptor");
  refused(file.fd(), 0, 0, kBad, "must be positive");
  refused(file.fd(), 0, -1, kBad, "must be positive");
  refused(file.fd(), 0, INT64_MAX, kBad, "no range of a file");
  refused(file.fd(), page, INT64_MAX - page, kBad, "no range of a file");
  refused(file.fd(), 1, page, kBad, "page size");
  refused(file.fd(), -page, page, kBad, "page size");
  refused(file.fd(), 0, 2 * page + 1, StatusCode::kOutOfRange, "go past the end of the file");
  refused(file.fd(), 2 * page, 1, StatusCode::kOutOfRange, "go past the end of the file");
  refused(file.fd(), 4 * page, 1, StatusCode::kOutOfRange, "go past the end of the file");
  const int directory = ::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  refused(directory, 0, page, kBad, "of a directory");
  ::close(directory);
  int pipe[2];
  ASSERT_EQ(::pipe2(pipe, O_CLOEXEC), 0);
  refused(pipe[0], 0, page, kBad, "of a pipe");
  ::close(pipe[0]);
  ::close(pipe[1]);
  const std::string path = "/proc/self/fd/" + std::to_string(file.fd());
  const int readOnly = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(readOnly, 0);
  refused(readOnly, 0, page, kBad, "open for reading and writing");
  ::close(readOnly);
  EXPECT_EQ(Device().importHost(file.fd(), 0, page).status().code(), StatusCode::kFailedPrecondition);
  ASSERT_EQ(::fcntl(file.fd(), F_ADD_SEALS, F_SEAL_WRITE), 0);
  refused(file.fd(), 0, page, kBad, "not sealed against writes");
}

TEST(ImportHost, AFileThatIsTruncatedLaterFailsTheCopiesOnly) {
  Device device = openDevice();
  TestFile file(kBytes);
  HostMemory memory = device.importHost(file.fd(), 0, kBytes).value();
  Stream stream = Stream::create(device).value();
  Buffer buffer = device.allocate(kBytes).value();
  ASSERT_EQ(::ftruncate(file.fd(), 0), 0);
  ASSERT_TRUE(stream.copyToDevice(buffer, memory.data, kBytes).ok());
  EXPECT_EQ(stream.synchronize().code(), StatusCode::kNotFound);
  ASSERT_TRUE(stream.fill(buffer, 1, kBytes).ok());
  ASSERT_TRUE(stream.copyToHost(memory.data, buffer, kBytes).ok());
  EXPECT_EQ(stream.synchronize().code(), StatusCode::kNotFound);
  EXPECT_TRUE(device.unmapHost(memory.data).ok());
}

}  // namespace
}  // namespace hpu
