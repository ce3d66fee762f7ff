// SPDX-License-Identifier: Apache-2.0
// Which process gets a device, and what the others are told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <thread>
#include <vector>

#include "WorkerProcess.h"
#include "hpu/device.h"
#include "hpu/node.h"
#include "hpu/stream.h"
#include "runtime/node/Ownership.h"

namespace hpu {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::WorkerProcess;

DeviceOptions any() {
  DeviceOptions options;
  options.hbmBytes = 16 << 20;
  return options;
}
DeviceOptions at(int index) {
  DeviceOptions options = any();
  options.index = index;
  return options;
}

std::string nodeName() {
  return node::query().value().identity;
}

class Acquire : public ::testing::Test {
 protected:
  void SetUp() override { ::setenv("HPU_ACQUIRE_TIMEOUT_MS", "0", 1); }
};

TEST_F(Acquire, AnyTakesTheFirstFreeDeviceAndEachCallAnother) {
  Device first = Device::open(any()).value(), second = Device::open(any()).value();
  EXPECT_EQ(first.info().index, 0);
  EXPECT_EQ(second.info().index, 1);
  EXPECT_NE(first.state(), second.state());
  first = Device();
  EXPECT_EQ(Device::open(any())->info().index, 0);
  // The same device again when it is asked for by number.
  EXPECT_EQ(Device::open(at(1))->state(), second.state());
}

TEST_F(Acquire, ModuleIdAndPciAddressNameTheSameDeviceAsTheIndex) {
  Device device = Device::open(at(4)).value();
  DeviceOptions byModule = any(), byAddress = any();
  byModule.moduleId = static_cast<int>(device.info().moduleId);
  byAddress.pciAddress = device.info().pciAddress;
  EXPECT_EQ(Device::open(byModule)->state(), device.state());
  EXPECT_EQ(Device::open(byAddress)->state(), device.state());
}

TEST_F(Acquire, OneProcessMayHaveAllDevices) {
  std::vector<Device> devices;
  for (int i = 0; i < node::kDevices; ++i) {
    devices.push_back(Device::open(any()).value());
    EXPECT_EQ(devices.back().info().index, i);
  }
  Status status = Device::open(any()).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("0 by this process"), HasSubstr("HPU_ACQUIRE_TIMEOUT_MS")));
  devices.erase(devices.begin() + 5);
  EXPECT_EQ(Device::open(any())->info().index, 5);
}

TEST_F(Acquire, DeviceOfAnotherProcessIsRefusedWithItsName) {
  WorkerProcess worker({"--index", "2"});
  ASSERT_EQ(worker.index(), 2) << worker.hello();
  Status status = Device::open(at(2)).status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("device 2 of node '" + nodeName() + "' is in use by process " +
                                                std::to_string(worker.pid()) + " (node_worker)"),
                                      HasSubstr("HPU_NODE")));
  // And the other way round.
  Device mine = Device::open(at(3)).value();
  WorkerProcess refused({"--index", "3"});
  EXPECT_THAT(refused.hello(), AllOf(HasSubstr("error UNAVAILABLE"), HasSubstr(std::to_string(::getpid()))));
}

TEST_F(Acquire, AnyPassesOverWhatOthersHaveAndAllTakenListsThem) {
  std::vector<std::unique_ptr<WorkerProcess>> workers;
  for (int i = 0; i < node::kDevices; ++i) {
    workers.push_back(std::make_unique<WorkerProcess>());
    EXPECT_EQ(workers.back()->index(), i) << workers.back()->hello();
  }
  Status status = Device::open(any()).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  for (const auto& worker : workers)
    EXPECT_THAT(status.message(),
                HasSubstr(std::to_string(worker->index()) + " by process " + std::to_string(worker->pid())));
  EXPECT_EQ(workers[6]->quit(), 0);
  EXPECT_EQ(Device::open(any())->info().index, 6);
}

TEST_F(Acquire, KilledOwnerFreesItsDevice) {
  WorkerProcess worker({"--index", "1", "--run"});
  ASSERT_EQ(worker.index(), 1) << worker.hello();
  worker.kill();
  EXPECT_TRUE(Device::open(at(1)).ok());
}

TEST_F(Acquire, StoppedOwnerKeepsItsDevice) {
  WorkerProcess worker({"--index", "1"});
  ASSERT_EQ(worker.index(), 1) << worker.hello();
  worker.stop();
  Status status = Device::open(at(1)).status();
  EXPECT_THAT(status.message(), HasSubstr("process " + std::to_string(worker.pid())));
  worker.signal(SIGCONT);
  EXPECT_EQ(worker.ask("round"), "right");
}

TEST_F(Acquire, ForkedChildKeepsNothing) {
  WorkerProcess worker({"--index", "0"});
  ASSERT_EQ(worker.index(), 0) << worker.hello();
  std::string reply = worker.ask("fork");
  int child = 0;
  ASSERT_EQ(std::sscanf(reply.c_str(), "child %d", &child), 1) << reply;
  EXPECT_EQ(worker.ask("round"), "right") << "the parent goes on";
  worker.kill();
  EXPECT_EQ(::kill(child, 0), 0) << "the child is still there";
  // A child that was just born closes what it inherited before it does anything else.
  ::setenv("HPU_ACQUIRE_TIMEOUT_MS", "60000", 1);
  EXPECT_TRUE(Device::open(at(0)).ok());
  for (int fd = 0; fd < 64; ++fd) {
    std::error_code error;
    auto file = std::filesystem::read_symlink("/proc/" + std::to_string(child) + "/fd/" + std::to_string(fd), error);
    EXPECT_THAT(file.string(), Not(AnyOf(HasSubstr("socket:"), HasSubstr("hpu-hbm"))));
  }
  ::kill(child, SIGKILL);
}

TEST_F(Acquire, ForkedChildIsAProcessOfItsOwn) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "TSan does not let a forked child start threads";
#endif
  Device device = Device::open(at(0)).value();
  pid_t child = ::fork();
  if (child == 0) {
    // The parent's device is another process's here, and another one can be opened and used.
    Status status = Device::open(at(0)).status();
    if (status.code() != StatusCode::kUnavailable) ::_exit(1);
    if (status.message().find(std::to_string(::getppid())) == std::string::npos) ::_exit(2);
    auto other = Device::open(any());
    if (!other.ok() || other->info().index != 1) ::_exit(3);
    auto buffer = other->allocate(1000);
    auto stream = Stream::create(*other);
    if (!buffer.ok() || !stream.ok() || !stream->fill(*buffer, 3, 1000).ok()) ::_exit(4);
    if (!stream->synchronize().ok()) ::_exit(5);
    // Its copies of the parent's handles go without a trace, and without waiting for threads that
    // are not here.
    ::alarm(60);
    device = Device();
    // The child's own memory is still there, perhaps where the parent's was.
    if (!stream->fill(*buffer, 4, 1000).ok()) ::_exit(6);
    if (!stream->synchronize().ok()) ::_exit(7);
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(node::query(0).value().owner.pid, ::getpid());
  Buffer buffer = device.allocate(1000).value();
  Stream stream = Stream::create(device).value();
  EXPECT_TRUE(stream.fill(buffer, 1, 1000).ok());
  EXPECT_TRUE(stream.synchronize().ok());
}

/// In a child: opens a device and uses it. 0: done, or all devices are taken.
int useAnyDevice() {
  auto device = Device::open(any());
  if (!device.ok()) return device.status().code() == StatusCode::kResourceExhausted ? 0 : 1;
  auto buffer = device->allocate(1000);
  auto stream = Stream::create(*device);
  if (!buffer.ok() || !stream.ok() || !stream->fill(*buffer, 3, 1000).ok()) return 2;
  if (!stream->synchronize().ok() || !node::query().ok()) return 3;
  return 0;
}

TEST_F(Acquire, ChildrenOfABusyParentMayOpenDevices) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "TSan does not let a forked child start threads";
#endif
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "ASan's own allocator may be locked for ever in a child of busy threads";
#endif
  // Whatever the parent's threads hold when it forks, its child does not wait for them.
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  threads.emplace_back([&] {
    while (!stop) (void)Device::open(at(0));
  });
  threads.emplace_back([&] {
    while (!stop) (void)node::query();
  });
  // Opened before the first fork: a child, that takes any device, would come before this process.
  std::array<Device, 3> devices;
  for (int i = 1; i < 3; ++i) devices[static_cast<size_t>(i)] = Device::open(at(i)).value();
  for (int i = 1; i < 3; ++i)
    threads.emplace_back([&, i] {
      Device& device = devices[static_cast<size_t>(i)];
      Buffer buffer = device.allocate(1000).value();
      Stream stream = Stream::create(device).value();
      while (!stop) {
        EXPECT_TRUE(stream.fill(buffer, 3, 1000).ok());
        EXPECT_TRUE(stream.synchronize().ok());
      }
    });
  for (int i = 0; i < 100 && !HasFailure(); ++i) {
    pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::alarm(60);
      ::_exit(useAnyDevice());
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status)) << "fork " << i << ": signal " << WTERMSIG(status);
    EXPECT_EQ(WEXITSTATUS(status), 0) << "fork " << i;
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

TEST_F(Acquire, NodesAreApart) {
  WorkerProcess here({"--index", "0"}), there({"--index", "0"}, {"HPU_NODE=" + nodeName() + ".b"});
  EXPECT_EQ(here.index(), 0) << here.hello();
  EXPECT_EQ(there.index(), 0) << there.hello();
}

TEST_F(Acquire, NetworkNamespacesAreApart) {
  WorkerProcess here({"--index", "0"}), there({"--index", "0", "--own-network"});
  if (there.hello() == "error no network namespace") GTEST_SKIP() << "this user may not make a network namespace";
  EXPECT_EQ(here.index(), 0) << here.hello();
  EXPECT_EQ(there.index(), 0) << there.hello();
}

TEST_F(Acquire, WaitsForADeviceAsLongAsTheSettingSays) {
  auto worker = std::make_unique<WorkerProcess>(std::vector<std::string>{"--index", "5"});
  ASSERT_EQ(worker->index(), 5) << worker->hello();
  ::setenv("HPU_ACQUIRE_TIMEOUT_MS", "50", 1);
  auto before = std::chrono::steady_clock::now();
  EXPECT_EQ(Device::open(at(5)).status().code(), StatusCode::kUnavailable);
  EXPECT_GE(std::chrono::steady_clock::now() - before, std::chrono::milliseconds(50));
  ::setenv("HPU_ACQUIRE_TIMEOUT_MS", "60000", 1);
  std::thread killer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    worker->kill();
  });
  EXPECT_TRUE(Device::open(at(5)).ok());
  killer.join();
}

TEST_F(Acquire, WaitsForAnyOfEightOfThisProcessToo) {
  std::vector<Device> devices;
  for (int i = 0; i < node::kDevices; ++i) devices.push_back(Device::open(any()).value());
  ::setenv("HPU_ACQUIRE_TIMEOUT_MS", "60000", 1);
  std::thread closer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    devices[3] = Device();
  });
  EXPECT_EQ(Device::open(any())->info().index, 3);
  closer.join();
}

TEST_F(Acquire, MoreProcessesThanDevicesTakeTurns) {
  constexpr int kProcesses = 16, kTurns = 3;
  std::array<std::atomic<int>, node::kDevices> owners = {};
  std::vector<std::thread> threads;
  for (int t = 0; t < kProcesses; ++t)
    threads.emplace_back([&, t] {
      for (int turn = 0; turn < kTurns; ++turn) {
        WorkerProcess worker({}, {"HPU_ACQUIRE_TIMEOUT_MS=120000"});
        ASSERT_GE(worker.index(), 0) << worker.hello();
        auto index = static_cast<size_t>(worker.index());
        EXPECT_EQ(owners[index]++, 0) << "two processes have device " << index;
        EXPECT_EQ(worker.ask("round"), "right");
        --owners[index];
        // Some end by themselves, some do not.
        if ((t + turn) % 2)
          worker.kill();
        else
          EXPECT_EQ(worker.quit(), 0);
      }
    });
  for (auto& thread : threads) thread.join();
}

TEST_F(Acquire, ClosingAndOpeningAtATimeNeverRefuses) {
  // The second opener may come while the first one's handle is going.
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([] {
      for (int i = 0; i < 100; ++i) {
        auto device = Device::open(at(7));
        ASSERT_TRUE(device.ok()) << device.status().message();
      }
    });
  for (auto& thread : threads) thread.join();
}

TEST_F(Acquire, NodeOfOneTypeRefusesTheOthers) {
  ::setenv("HPU_NODE_TARGET", "gaudi3", 1);
  EXPECT_EQ(Device::open(any()).status().code(), StatusCode::kFailedPrecondition);
  DeviceOptions options = any();
  options.target = Target::kGaudi3;
  EXPECT_TRUE(Device::open(options).ok());
  ::unsetenv("HPU_NODE_TARGET");
}

TEST_F(Acquire, NullDevicesAreNobodys) {
  DeviceOptions options = at(0);
  options.driver = "null";
  Device null = Device::open(options).value();
  EXPECT_EQ(node::query(0).value().owner.pid, 0);
  EXPECT_TRUE(Device::open(at(0)).ok());
  options.index = kAnyDevice;
  EXPECT_EQ(Device::open(options)->info().index, 0);
}

}  // namespace
}  // namespace hpu
