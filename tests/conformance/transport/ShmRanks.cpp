// SPDX-License-Identifier: Apache-2.0
#include "ShmRanks.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "Threads.h"
#include "base/StatusMacros.h"
#include "collectives/transport/shm/ShmTransport.h"
#include "hpu/device.h"

extern char** environ;

namespace hpu::testing {
namespace {
using namespace collectives;

constexpr int64_t kHbmBytes = 16 << 20;
constexpr int kRankSocket = 3;

StatusOr<Device> openDevice(int index) {
  DeviceOptions options;
  options.index = index;
  options.hbmBytes = kHbmBytes;
  return Device::open(options);
}

using Gather = std::function<StatusOr<std::vector<std::string>>(const std::string& mine)>;

ShmOptions shmOptions(const Case& which, const Device& device) {
  ShmOptions options;
  options.identity = which.name;
  options.deviceIndex = device.info().index;
  options.timeoutMs = std::chrono::milliseconds(kPatience).count();
  return options;
}

StatusOr<std::shared_ptr<Transport>> shmTransport(const Case& which, int rank, const Device& device,
                                                  const Gather& gather) {
  ShmOptions options = shmOptions(which, device);
  options.rank = rank;
  options.ranks = which.ranks;
  options.allGather = [&](const std::string&, const std::string& mine) { return gather(mine); };
  return createShmTransport(options);
}

/// TCP between the nodes and shared memory within.
StatusOr<std::shared_ptr<Transport>> netTransport(const Case& which, Layout layout, Wire wire, int rank,
                                                  const Device& device, const Gather& gather) {
  NetOptions options;
  options.identity = which.name;
  options.rank = rank;
  options.ranks = which.ranks;
  options.nodeOf = nodesOf(which.ranks, layout);
  options.timeoutMs = std::chrono::milliseconds(kPatience).count();
  options.silenceMs = options.timeoutMs;
  options.allGather = [&](const std::string&, const std::string& mine) { return gather(mine); };
  ShmOptions within = shmOptions(which, device);
  within.ranks = 0;
  for (int other = 0; other < which.ranks; ++other) {
    if (options.nodeOf[static_cast<size_t>(other)] != options.nodeOf[static_cast<size_t>(rank)]) continue;
    if (other == rank) within.rank = within.ranks;
    ++within.ranks;
    within.names.push_back(other);
  }
  within.allGather = [&](const std::string&, const std::string& mine) -> StatusOr<std::vector<std::string>> {
    HPU_ASSIGN(auto all, gather(mine));
    std::vector<std::string> texts;
    for (int32_t other : within.names) texts.push_back(all[static_cast<size_t>(other)]);
    return texts;
  };
  HPU_ASSIGN(options.node, createShmTransport(within));
  HPU_ASSIGN(options.network, loopback(wire));
  return createNetTransport(options);
}

/// One rank, on whatever it runs.
void runRank(const Case& which, StatusOr<std::shared_ptr<Transport>> transport, const Gather& gather,
             const std::function<void(Rank&)>& prepare) {
  ASSERT_TRUE(transport.ok()) << transport.status().message();
  Rank mine;
  mine.transport = std::move(*transport);
  mine.address = kHbmBase;
  mine.bytes = kHbmBytes;
  mine.gather = [&](const std::string& text) {
    auto texts = gather(text);
    EXPECT_TRUE(texts.ok()) << texts.status().message();
    return texts.ok() ? *texts : std::vector<std::string>(static_cast<size_t>(which.ranks));
  };
  prepare(mine);
  which.run(mine);
}

bool writeAll(int socket, const std::string& text) {
  return ::send(socket, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
}
/// A packet; false when the other end is gone.
bool readOne(int socket, std::string& text) {
  text.resize(64 << 10);
  ssize_t bytes = ::recv(socket, text.data(), text.size(), 0);
  if (bytes <= 0) return false;
  text.resize(static_cast<size_t>(bytes));
  return true;
}

/// Packets have a byte in front, so that none is empty.
StatusOr<std::vector<std::string>> gatherAtParent(int ranks, const std::string& mine) {
  if (!writeAll(kRankSocket, "." + mine)) return unavailable("the test is gone");
  std::vector<std::string> texts(static_cast<size_t>(ranks));
  for (std::string& text : texts) {
    if (!readOne(kRankSocket, text)) return unavailable("the test is gone");
    text.erase(0, 1);
  }
  return texts;
}

struct Child {
  pid_t pid = -1;
  int socket = -1;
  bool said = false;
  std::string text;
};

constexpr const char* kShm = "shm";

Child start(const Case& which, int rank, const std::string& kind) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return {};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  // dup2 of a number onto itself would leave it close-on-exec.
  int safe = ::fcntl(ends[1], F_DUPFD_CLOEXEC, kRankSocket + 1);
  posix_spawn_file_actions_adddup2(&actions, safe, kRankSocket);
  std::vector<std::string> words = {"/proc/self/exe", "--rank-of", which.name, std::to_string(rank), kind};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  Child child;
  if (::posix_spawn(&child.pid, "/proc/self/exe", &actions, nullptr, argv.data(), environ) != 0) child.pid = -1;
  posix_spawn_file_actions_destroy(&actions);
  ::close(safe);
  ::close(ends[1]);
  child.socket = ends[0];
  return child;
}

}  // namespace

void runShmThreads(const Case& which) {
  std::vector<Device> devices;
  for (int r = 0; r < which.ranks; ++r) {
    auto device = openDevice(r);
    ASSERT_TRUE(device.ok()) << device.status().message();
    devices.push_back(*device);
  }
  ThreadGather gather(which.ranks);
  std::vector<std::thread> threads;
  for (int r = 0; r < which.ranks; ++r)
    threads.emplace_back([&, r] {
      const Gather mine = [&, r](const std::string& text) { return gather(r, text); };
      runRank(which, shmTransport(which, r, devices[static_cast<size_t>(r)], mine), mine,
              [](Rank& rank) { rank.die = [&rank] { rank.transport.reset(); }; });
    });
  for (std::thread& thread : threads) thread.join();
}

namespace {

void runProcesses(const Case& which, const std::string& kind) {
  std::vector<Child> children;
  for (int r = 0; r < which.ranks; ++r) {
    children.push_back(start(which, r, kind));
    ASSERT_GT(children.back().pid, 0) << "cannot start a process";
  }
  // Children that are gone are not waited for.
  const auto until = std::chrono::steady_clock::now() + 2 * kPatience;
  size_t alive = children.size();
  while (alive > 0) {
    std::vector<pollfd> events;
    for (const Child& child : children) events.push_back({child.said ? -1 : child.socket, POLLIN, 0});
    int ready = ::poll(events.data(), events.size(), 1000);
    if (std::chrono::steady_clock::now() > until) {
      ADD_FAILURE() << "the ranks do not end";
      for (const Child& child : children) ::kill(child.pid, SIGKILL);
    }
    if (ready <= 0) continue;
    for (size_t i = 0; i < children.size(); ++i) {
      Child& child = children[i];
      if (!events[i].revents) continue;
      child.said = true;
      if (readOne(child.socket, child.text)) continue;
      ::close(child.socket);
      child.socket = -1;
      --alive;
    }
    bool all = alive > 0;
    for (const Child& child : children) all &= child.socket < 0 || child.said;
    if (!all) continue;
    for (Child& child : children) {
      if (child.socket < 0) continue;
      for (const Child& from : children) writeAll(child.socket, from.socket < 0 ? "." : from.text);
    }
    for (Child& child : children) child.said = child.socket < 0;
  }
  for (size_t r = 0; r < children.size(); ++r) {
    int status = 0;
    ::waitpid(children[r].pid, &status, 0);
    bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    bool done = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    EXPECT_TRUE(done || (which.endsRanks && r == 1 && killed))
        << "rank " << r << (WIFEXITED(status) ? " ended with " : " was ended by signal ")
        << (WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
  }
}

}  // namespace

void runShmProcesses(const Case& which) {
  runProcesses(which, kShm);
}
void runNetProcesses(const Case& which, Layout layout, Wire wire) {
  runProcesses(which, std::to_string(static_cast<int>(layout)) + std::to_string(static_cast<int>(wire)));
}

int runAsRank(int argc, char** argv) {
  if (argc != 5 || std::strcmp(argv[1], "--rank-of") != 0) return -1;
  // The test's end is ours.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int rank = std::atoi(argv[3]);
  for (const Case& which : allCases()) {
    if (which.name != argv[2]) continue;
    auto device = openDevice(rank);
    EXPECT_TRUE(device.ok()) << device.status().message();
    if (!device.ok()) return 1;
    std::vector<pid_t> pids;
    const Gather gather = [&](const std::string& mine) { return gatherAtParent(which.ranks, mine); };
    auto transport = std::strcmp(argv[4], kShm) == 0
                         ? shmTransport(which, rank, *device, gather)
                         : netTransport(which, static_cast<Layout>(argv[4][0] - '0'),
                                        static_cast<Wire>(argv[4][1] - '0'), rank, *device, gather);
    runRank(which, std::move(transport), gather, [&](Rank& mine) {
      mine.ownProcess = true;
      for (const std::string& text : mine.gather(std::to_string(::getpid())))
        pids.push_back(static_cast<pid_t>(std::atoi(text.c_str())));
      mine.die = [] { ::kill(::getpid(), SIGKILL); };
      mine.stop = [&](int peer, bool stopped) { ::kill(pids[static_cast<size_t>(peer)], stopped ? SIGSTOP : SIGCONT); };
    });
    return ::testing::UnitTest::GetInstance()->ad_hoc_test_result().Failed() ? 1 : 0;
  }
  std::fprintf(stderr, "there is no case '%s'\n", argv[2]);
  return 2;
}

}  // namespace hpu::testing
