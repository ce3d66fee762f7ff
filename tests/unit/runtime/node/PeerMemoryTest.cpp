// SPDX-License-Identifier: Apache-2.0
// The memory of another owner's device, as peers see it.
#include "runtime/node/PeerMemory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <thread>
#include <vector>

#include "WorkerProcess.h"
#include "hpu/device.h"
#include "hpu/node.h"
#include "hpu/stream.h"

namespace hpu {
namespace {

using node::PeerMemory;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::WorkerProcess;

constexpr int64_t kMarkedBytes = 50000 * 4;  // As NodeWorker allocates it.

/// The address of the worker's buffer, which it fills with `value`.
uint64_t mark(WorkerProcess& worker, int value) {
  std::string reply = worker.ask("mark " + std::to_string(value));
  unsigned long long address = 0;
  EXPECT_EQ(std::sscanf(reply.c_str(), "at %llu", &address), 1) << reply;
  return address;
}

/// The pids of the device's peers, once the owner has said so in time.
std::vector<int64_t> peersOf(int index, size_t expected) {
  std::vector<int64_t> pids;
  for (int i = 0; i < 300; ++i) {
    pids.clear();
    node::DeviceStatus status = node::query(index).value();
    for (const node::ProcessStatus& peer : status.peers) pids.push_back(peer.pid);
    if (pids.size() == expected) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return pids;
}

int64_t residentBytes(pid_t pid) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd")) {
    std::error_code error;
    std::string file = std::filesystem::read_symlink(entry.path(), error).string();
    struct stat info{};
    if (file.find("hpu-hbm") != std::string::npos && ::stat(entry.path().c_str(), &info) == 0)
      return static_cast<int64_t>(info.st_blocks) * 512;
  }
  return -1;
}

TEST(PeerMemory, ReadsAndWritesWhatTheOwnerHas) {
  WorkerProcess worker({"--index", "4"});
  ASSERT_EQ(worker.index(), 4) << worker.hello();
  uint64_t address = mark(worker, 1234);
  auto peer = PeerMemory::map(4);
  ASSERT_TRUE(peer.ok()) << peer.status().message();
  EXPECT_EQ((*peer)->bytes(), 64 << 20);
  EXPECT_EQ((*peer)->ownerPid(), worker.pid());
  EXPECT_EQ((*peer)->index(), 4);
  auto* words = reinterpret_cast<int32_t*>((*peer)->at(address, kMarkedBytes));
  ASSERT_NE(words, nullptr);
  EXPECT_EQ(words[0], 1234);
  EXPECT_EQ(words[49999], 1234);
  words[0] = 77;
  words[49999] = 88;
  EXPECT_EQ(worker.ask("read"), "77 88");
  mark(worker, -5);
  EXPECT_EQ(words[0], -5);
}

TEST(PeerMemory, OwnDeviceCanBeMappedToo) {
  DeviceOptions options;
  options.index = 1;
  options.hbmBytes = 1 << 20;
  Device device = Device::open(options).value();
  Buffer buffer = device.allocate(4096).value();
  Stream stream = Stream::create(device).value();
  ASSERT_TRUE(stream.fill(buffer, 9, 4096).ok());
  ASSERT_TRUE(stream.synchronize().ok());
  auto peer = PeerMemory::map(1).value();
  std::byte* bytes = peer->at(buffer.address(), 4096);
  ASSERT_NE(bytes, nullptr);
  EXPECT_EQ(bytes[4095], std::byte{9});
}

TEST(PeerMemory, AddressesOutsideOfTheMemoryAreNone) {
  WorkerProcess worker({"--index", "4"});
  auto peer = PeerMemory::map(4).value();
  uint64_t base = peer->base(), end = base + static_cast<uint64_t>(peer->bytes());
  EXPECT_NE(peer->at(base, 1), nullptr);
  EXPECT_NE(peer->at(end - 1, 1), nullptr);
  EXPECT_EQ(peer->at(end - 1, 2), nullptr);
  EXPECT_EQ(peer->at(end, 1), nullptr);
  EXPECT_EQ(peer->at(base - 1, 2), nullptr);
  EXPECT_EQ(peer->at(base, -1), nullptr);
  EXPECT_EQ(peer->at(base, INT64_MAX), nullptr);
  EXPECT_EQ(peer->at(UINT64_MAX, 1), nullptr);
}

TEST(PeerMemory, PeersAreListedWithTheDeviceUntilTheyGo) {
  WorkerProcess worker({"--index", "4"});
  EXPECT_TRUE(peersOf(4, 0).empty());
  auto peer = PeerMemory::map(4).value();
  EXPECT_THAT(peersOf(4, 1), ElementsAre(::getpid()));
  EXPECT_EQ(node::query(4).value().peers[0].name, "node_test");
  EXPECT_EQ(node::query(4).value().owner.pid, worker.pid());
  peer.reset();
  EXPECT_TRUE(peersOf(4, 0).empty());
}

TEST(PeerMemory, OwnersDeathIsSeenAndTheDeviceIsFreeAllTheSame) {
  WorkerProcess worker({"--index", "4"});
  uint64_t address = mark(worker, 3);
  auto peer = PeerMemory::map(4).value();
  EXPECT_TRUE(peer->alive());
  worker.kill();
  EXPECT_FALSE(peer->alive());
  EXPECT_EQ(*reinterpret_cast<int32_t*>(peer->at(address, 4)), 3) << "still mapped: no signal";
  WorkerProcess next({"--index", "4"});
  EXPECT_EQ(next.index(), 4) << next.hello();
  EXPECT_FALSE(peer->alive()) << "the next owner is another one";
  mark(next, 4);
  EXPECT_EQ(*reinterpret_cast<int32_t*>(peer->at(address, 4)), 3) << "with memory of its own";
}

TEST(PeerMemory, FreedMemoryGoesBackToTheHost) {
  DeviceOptions options;
  options.index = 2;
  options.hbmBytes = int64_t{1} << 30;
  Device device = Device::open(options).value();
  Stream stream = Stream::create(device).value();
  constexpr int64_t kBig = 300 << 20;  // More than a device keeps for reuse.
  Buffer buffer = device.allocate(kBig).value();
  ASSERT_TRUE(stream.fill(buffer, 1, kBig).ok());
  ASSERT_TRUE(stream.synchronize().ok());
  EXPECT_GE(residentBytes(::getpid()), kBig);
  buffer = Buffer();
  EXPECT_LT(residentBytes(::getpid()), 1 << 20);
}

TEST(PeerMemory, FreeAndUnknownDevicesHaveNone) {
  EXPECT_EQ(PeerMemory::map(8).status().code(), StatusCode::kNotFound);
  Status status = PeerMemory::map(3).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("device 3"));
}

TEST(PeerMemory, StoppedOwnerIsADeadlineNotAHang) {
  WorkerProcess worker({"--index", "4"});
  worker.stop();
  auto before = std::chrono::steady_clock::now();
  EXPECT_EQ(PeerMemory::map(4, 50).status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_GE(std::chrono::steady_clock::now() - before, std::chrono::milliseconds(50));
  worker.signal(SIGCONT);
  EXPECT_TRUE(PeerMemory::map(4).ok());
}

}  // namespace
}  // namespace hpu
