// SPDX-License-Identifier: Apache-2.0
// What others can do to the owner of a device: another user who squats on its names or calls without end, and a
// process of the same user that talks nonsense or asks for what it was not given. Tests with two users need root.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "WorkerProcess.h"
#include "hpu/device.h"
#include "hpu/node.h"
#include "runtime/node/Client.h"
#include "runtime/node/Inventory.h"
#include "runtime/node/PeerMemory.h"
#include "runtime/node/Protocol.h"
#include "tests/unit/base/ForkOften.h"

namespace hpu {
namespace {

using ::testing::HasSubstr;
using testing::WorkerProcess;

constexpr uid_t kOwner = 61001, kStranger = 61002;

/// A forked child, of another user when one is given; killed at the end.
class Child {
 public:
  Child(uid_t user, const std::function<int()>& body) {
    pid_ = ::fork();
    if (pid_ != 0) return;
    ::alarm(300);  // Nothing of a test stays for longer.
    if (user != 0 && (::setresgid(user, user, user) != 0 || ::setresuid(user, user, user) != 0)) ::_exit(99);
    ::_exit(body());
  }
  ~Child() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  /// Its exit code; -1 when it has not ended in time.
  int wait(std::chrono::seconds most) {
    const auto until = std::chrono::steady_clock::now() + most;
    while (std::chrono::steady_clock::now() < until) {
      int status = 0;
      if (::waitpid(pid_, &status, WNOHANG) == pid_) {
        pid_ = -1;
        return WIFEXITED(status) ? WEXITSTATUS(status) : 200 + WTERMSIG(status);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return -1;
  }

 private:
  pid_t pid_ = -1;
};

std::string identity() {
  return node::identity().value();
}

/// As socketName() has it, of another user.
std::string nameOf(uid_t user, int index, int name) {
  std::string text = "openhpu/node/" + std::to_string(user) + "/" + identity() + "/" + std::to_string(index);
  return name == 0 ? text : text + "/" + std::to_string(name);
}

int socketAt(const std::string& name, bool bind) {
  int socket = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_un address;
  const uint32_t bytes = node::socketAddress(name, address);
  auto* at = reinterpret_cast<sockaddr*>(&address);
  if (socket >= 0 && (bind ? ::bind(socket, at, bytes) : ::connect(socket, at, bytes)) == 0) return socket;
  if (socket >= 0) ::close(socket);
  return -1;
}

DeviceOptions small(int index) {
  DeviceOptions options;
  options.index = index;
  options.hbmBytes = 1 << 20;
  options.threads = 1;
  return options;
}

class TwoUsers : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!base::kMayForkWhenBusy) GTEST_SKIP() << "not under a sanitizer: the forked user starts threads";
    if (::geteuid() != 0) GTEST_SKIP() << "two users on one machine: needs root, to be two of them";
    ::setenv("HPU_ACQUIRE_TIMEOUT_MS", "0", 1);
  }
};

TEST_F(TwoUsers, WhoSquatsOnTheNamesOfDevicesKeepsNobodyFromThem) {
  int ready[2], letGo[2];
  ASSERT_EQ(::pipe2(ready, O_CLOEXEC), 0);
  ASSERT_EQ(::pipe2(letGo, O_CLOEXEC), 0);
  Child squatter(kStranger, [&] {
    std::vector<int> held;
    for (int index = 0; index < node::kDevices; ++index) {
      // Some listen and never answer, some do not listen, and one has no room for callers.
      int socket = socketAt(nameOf(kOwner, index, 0), true);
      if (socket < 0) return 1;
      if (index % 3 != 1) ::listen(socket, index % 3 == 0 ? 128 : 0);
      if (index % 3 == 2)
        while (socketAt(nameOf(kOwner, index, 0), false) >= 0) {
        }
      held.push_back(socket);
    }
    char byte = 'r';
    if (::write(ready[1], &byte, 1) != 1) return 2;
    if (::read(letGo[0], &byte, 1) != 1) return 3;
    for (int socket : held) ::close(socket);
    if (::write(ready[1], &byte, 1) != 1) return 4;
    ::pause();
    return 0;
  });
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);

  int owned[2], end[2];
  ASSERT_EQ(::pipe2(owned, O_CLOEXEC), 0);
  ASSERT_EQ(::pipe2(end, O_CLOEXEC), 0);
  Child owner(kOwner, [&] {
    std::vector<Device> devices;
    for (int index = 0; index < node::kDevices; ++index) {
      auto device = Device::open(small(index));
      if (!device.ok()) {
        std::fprintf(stderr, "%s\n", device.status().message().c_str());
        return 10 + index;
      }
      devices.push_back(*device);
    }
    char one = 'o';
    if (::write(owned[1], &one, 1) != 1) return 2;
    return ::read(end[0], &one, 1) == 1 ? 0 : 3;
  });
  pollfd event{owned[0], POLLIN, 0};
  ASSERT_EQ(::poll(&event, 1, 60000), 1);
  ASSERT_EQ(::read(owned[0], &byte, 1), 1);
  // Another process of the owner sees which process has them, and gets none, also when the squatter has let go of the
  // names.
  auto another = [&] {
    return Child(kOwner,
                 [&] {
                   for (int index = 0; index < node::kDevices; ++index) {
                     if (Device::open(small(index)).status().code() != StatusCode::kUnavailable) return 10 + index;
                     if (node::query(index).value().owner.pid <= 0) return 20 + index;
                   }
                   return 0;
                 })
        .wait(std::chrono::seconds(60));
  };
  EXPECT_EQ(another(), 0);
  ASSERT_EQ(::write(letGo[1], &byte, 1), 1);
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_EQ(another(), 0);
  ASSERT_EQ(::write(end[1], &byte, 1), 1);
  EXPECT_EQ(owner.wait(std::chrono::seconds(60)), 0);
}

TEST_F(TwoUsers, WhoHoldsAllNamesIsNamed) {
  int ready[2];
  ASSERT_EQ(::pipe2(ready, O_CLOEXEC), 0);
  Child squatter(kStranger, [&] {
    for (int name = 0; name < node::kNames; ++name)
      if (socketAt(nameOf(kOwner, 0, name), true) < 0) return 1;
    char byte = 'r';
    if (::write(ready[1], &byte, 1) != 1) return 2;
    ::pause();
    return 0;
  });
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  Child owner(kOwner, [] {
    Status status = Device::open(small(0)).status();
    if (status.code() != StatusCode::kPermissionDenied ||
        status.message().find(std::to_string(kStranger)) == std::string::npos)
      return 1;
    DeviceOptions any = small(0);
    any.index = kAnyDevice;
    auto next = Device::open(any);
    return next.ok() && next->info().index == 1 ? 0 : 2;
  });
  EXPECT_EQ(owner.wait(std::chrono::seconds(60)), 0);
}

TEST_F(TwoUsers, WhoCallsWithoutEndStallsNobody) {
  int owned[2];
  ASSERT_EQ(::pipe2(owned, O_CLOEXEC), 0);
  Child owner(kOwner, [&] {
    Device first = Device::open(small(0)).value();
    char byte = 'o';
    if (::write(owned[1], &byte, 1) != 1) return 1;
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    for (int i = 0; i < 40; ++i) {
      auto second = Device::open(small(1));
      if (!second.ok()) return 2;
      pid_t child = ::fork();
      if (child == 0) ::_exit(0);
      if (::waitpid(child, nullptr, 0) != child) return 3;
      if (!node::query(0).ok()) return 4;
    }
    return 0;
  });
  char byte = 0;
  ASSERT_EQ(::read(owned[0], &byte, 1), 1);
  auto call = [] {
    while (true) {
      for (int index : {0, 1})
        if (int socket = socketAt(nameOf(kOwner, index, 0), false); socket >= 0) ::close(socket);
    }
    return 0;
  };
  Child a(kStranger, call), b(kStranger, call), c(kStranger, call);
  EXPECT_EQ(owner.wait(std::chrono::seconds(120)), 0);
}

TEST(Strangers, NonsenseFromAPeerCrashesNoOwner) {
  Device device = Device::open(small(6)).value();
  std::mt19937 random(5);
  const std::string name = node::socketName(identity(), 6);
  // However long the owner, which a busy machine keeps from its work, takes to accept them.
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(100);
  int sent = 0;
  while (sent < 10000 && std::chrono::steady_clock::now() < until) {
    int socket = socketAt(name, false);
    if (socket < 0) {  // Too many at a time.
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      continue;
    }
    // From any bytes to a request that is right but for some of them.
    node::Request request = node::makeRequest(static_cast<node::Operation>(random() % 5));
    std::string packet(reinterpret_cast<const char*>(&request), sizeof request);
    if (random() % 2) packet.resize(random() % 400);
    for (uint32_t k = random() % 8; k > 0 && !packet.empty(); --k)
      packet[random() % packet.size()] = static_cast<char>(random());
    int pipe[2] = {-1, -1};
    if (random() % 16 == 0 && ::pipe2(pipe, O_CLOEXEC) != 0) pipe[0] = -1;
    sent += node::sendPacket(socket, packet.data(), packet.size(), pipe[0]).ok();
    for (int end : pipe)
      if (end >= 0) ::close(end);
    ::close(socket);
  }
  EXPECT_EQ(sent, 10000);
  auto status = node::query(6);
  ASSERT_TRUE(status.ok());
  EXPECT_EQ(status->owner.pid, ::getpid());
  EXPECT_FALSE(status->lost);
}

TEST(Consent, MemoryAndFaultsNeedIt) {
  WorkerProcess worker({"--index", "4"}, {"HPU_NODE_CONSENT=none"});
  ASSERT_EQ(worker.index(), 4) << worker.hello();
  Status mapped = node::PeerMemory::map(4).status();
  EXPECT_EQ(mapped.code(), StatusCode::kPermissionDenied) << mapped.toString();
  EXPECT_THAT(mapped.message(), HasSubstr("HPU_NODE_CONSENT=memory"));
  node::MemoryToken guess = {};
  guess[3] = 7;
  EXPECT_EQ(node::PeerMemory::map(4, 10000, guess).status().code(), StatusCode::kPermissionDenied);
  Status injected = node::inject(4, node::Fault::kFatalEvent);
  EXPECT_EQ(injected.code(), StatusCode::kPermissionDenied) << injected.toString();
  EXPECT_THAT(injected.message(), HasSubstr("HPU_NODE_CONSENT=faults"));
  EXPECT_FALSE(node::query(4).value().lost);
  worker.quit();
  for (const std::string consent : {"memory", "faults"}) {
    WorkerProcess one({"--index", "4"}, {"HPU_NODE_CONSENT=" + consent});
    EXPECT_EQ(node::PeerMemory::map(4).ok(), consent == "memory");
    EXPECT_EQ(node::inject(4, node::Fault::kThermal).ok(), consent == "faults");
  }
  // A process that has not the device has nothing to grant.
  EXPECT_EQ(node::MemoryGrant::create(4).status().code(), StatusCode::kFailedPrecondition);
}

TEST(Consent, MemoryThatCanBeCutOffIsNotMapped) {
  // An owner that is none of ours: it answers a request for memory with a file that it may shrink.
  for (bool sealed : {false, true}) {
    int listener = socketAt(node::socketName(identity(), 3), true);
    ASSERT_GE(listener, 0);
    ASSERT_EQ(::listen(listener, 8), 0);
    std::thread owner([&] {
      pollfd event{listener, POLLIN, 0};
      for (int callers = 0; callers < 1 && ::poll(&event, 1, 30000) == 1;) {
        int caller = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
        std::string packet;
        pollfd asked{caller, POLLIN, 0};
        if (::poll(&asked, 1, 30000) != 1) break;
        auto arrived = node::receivePacket(caller, packet);
        if (arrived.ok() && *arrived && packet.size() == sizeof(node::Request)) {
          int file = ::memfd_create("any", MFD_CLOEXEC | MFD_ALLOW_SEALING);
          EXPECT_EQ(::ftruncate(file, 1 << 20), 0);
          if (sealed) ::fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK);
          std::string reply = node::encodeMemory({4096, 1 << 20});
          EXPECT_TRUE(node::sendPacket(caller, reply.data(), reply.size(), file).ok());
          ::close(file);
          ++callers;
        }
        ::close(caller);
      }
    });
    auto peer = node::PeerMemory::map(3);
    EXPECT_EQ(peer.ok(), sealed) << peer.status().toString();
    if (!sealed) {
      EXPECT_THAT(peer.status().message(), HasSubstr("not sealed"));
    }
    owner.join();
    ::close(listener);
  }
}

}  // namespace
}  // namespace hpu
