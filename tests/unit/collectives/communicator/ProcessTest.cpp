// SPDX-License-Identifier: Apache-2.0
// Ranks as processes: they work, and whatever one of them does, the others are told which and why.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

extern char** environ;

namespace hpu::collectives {
namespace {

using testing::HasSubstr;

// How long ranks wait for one that stands still: longer than a busy machine keeps any of them from
// running.
constexpr int kPatienceMs = 4000;

/// A port of this machine that no other program is given while this lives. A socket that may share
/// addresses, as the coordinator's listener does, can take it.
class ReservedPort {
 public:
  ReservedPort() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int yes = 1;
    ::setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    socklen_t size = sizeof address;
    ::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size);
    number_ = ntohs(address.sin_port);
  }
  ~ReservedPort() { ::close(fd_); }
  int number() const { return number_; }

 private:
  const int fd_;
  int number_ = 0;
};

struct Process {
  pid_t pid = -1;
  int out = -1;
  std::string said;
};

/// Runs the scenario; what each rank said, "(nothing)" for one that was killed. The victim is
/// killed when all others are done.
std::vector<std::string> runRanks(int ranks, const std::string& scenario, int victim, int timeoutMs) {
  std::vector<Process> processes(static_cast<size_t>(ranks));
  const ReservedPort port;
  std::string id = "HCCL_COMM_ID=127.0.0.1:" + std::to_string(port.number());
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<std::string> variables = {
        id,
        "RANK=" + std::to_string(rank),
        "LOCAL_RANK=" + std::to_string(rank),
        "WORLD_SIZE=" + std::to_string(ranks),
        "HPU_COMM_TIMEOUT_MS=" + std::to_string(timeoutMs),
        "HPU_COMM_INIT_TIMEOUT_MS=" + std::string(scenario == "kill-before-create" ? "2000" : "60000")};
    std::vector<char*> environment;
    for (char** entry = environ; *entry; ++entry)
      if (std::string(*entry).rfind("HCCL_COMM_ID=", 0)) environment.push_back(*entry);
    for (std::string& variable : variables) environment.push_back(variable.data());
    environment.push_back(nullptr);
    std::string program = RANK_PROGRAM, number = std::to_string(victim), name = scenario;
    char* arguments[] = {program.data(), name.data(), number.data(), nullptr};
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    Process& process = processes[static_cast<size_t>(rank)];
    EXPECT_EQ(::posix_spawn(&process.pid, program.c_str(), &actions, nullptr, arguments, environment.data()), 0);
    posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    process.out = ends[0];
  }
  auto until = std::chrono::steady_clock::now() + std::chrono::seconds(100);
  auto drain = [&](Process& process) {
    for (;;) {
      auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
      pollfd entry{process.out, POLLIN, 0};
      if (left.count() <= 0 || ::poll(&entry, 1, static_cast<int>(left.count())) <= 0) break;
      char buffer[4096];
      ssize_t got = ::read(process.out, buffer, sizeof buffer);
      if (got <= 0) break;
      process.said.append(buffer, static_cast<size_t>(got));
    }
    ::kill(process.pid, SIGKILL);
    int ended = 0;
    ::waitpid(process.pid, &ended, 0);
    ::close(process.out);
    // 1 is a rank that has said why; more is what a sanitizer found, for one.
    if (WIFEXITED(ended) && WEXITSTATUS(ended) > 1)
      process.said += "(exit code " + std::to_string(WEXITSTATUS(ended)) + ")";
  };
  for (int rank = 0; rank < ranks; ++rank)
    if (rank != victim || scenario == "mismatch") drain(processes[static_cast<size_t>(rank)]);
  if (victim >= 0 && scenario != "mismatch") {
    Process& process = processes[static_cast<size_t>(victim)];
    ::kill(process.pid, SIGKILL);
    drain(process);
  }
  EXPECT_LT(std::chrono::steady_clock::now(), until) << "a rank did not end";
  std::vector<std::string> said;
  for (Process& process : processes) said.push_back(process.said.empty() ? "(nothing)" : process.said);
  return said;
}

TEST(Processes, Work) {
  for (int ranks : {1, 2, 4, 8})
    for (const std::string& said : runRanks(ranks, "work", -1, 30000)) EXPECT_EQ(said, "ok\n");
}

/// All but the victim failed with a message that names it and says `what`.
void expectBlame(const std::vector<std::string>& said, int victim, const std::string& what) {
  for (size_t rank = 0; rank < said.size(); ++rank) {
    if (static_cast<int>(rank) == victim) continue;
    EXPECT_THAT(said[rank], HasSubstr("rank " + std::to_string(victim))) << "rank " << rank;
    EXPECT_THAT(said[rank], HasSubstr(what)) << "rank " << rank;
  }
}

TEST(Processes, AKilledRankIsNamed) {
  for (int victim : {0, 2}) {
    auto said = runRanks(3, "kill", victim, 60000);
    expectBlame(said, victim, "UNAVAILABLE");
  }
}

TEST(Processes, ARankKilledInFlightIsNamed) {
  expectBlame(runRanks(4, "kill-in-flight", 1, 60000), 1, "UNAVAILABLE");
}

TEST(Processes, ARankKilledBeforeItJoinsIsNamed) {
  // No rank can know it: the deadline of the creation decides.
  std::vector<std::string> said = runRanks(2, "kill-before-create", 1, 60000);
  EXPECT_THAT(said[0], HasSubstr("rank 1 has not come"));
}

TEST(Processes, ShrinkAfterTheDeathOfTheFirstRanks) {
  auto said = runRanks(5, "shrink", 0, 60000);
  for (size_t rank : {2, 4}) EXPECT_EQ(said[rank], "ok\n") << "rank " << rank;
  for (size_t rank : {0, 1, 3}) EXPECT_EQ(said[rank], "(nothing)") << "rank " << rank;
}

TEST(Processes, AStoppedRankIsNamed) {
  expectBlame(runRanks(3, "stop", 1, kPatienceMs), 1, "stopped) has not entered all-reduce #6");
}

TEST(Processes, FinalizeWaitsForNoStoppedRank) {
  for (int victim : {0, 2}) {  // The coordinator's process, and another one.
    auto begin = std::chrono::steady_clock::now();
    auto said = runRanks(3, "stop-before-finalize", victim, kPatienceMs);
    expectBlame(said, victim, "waited " + std::to_string(kPatienceMs) + " ms without progress of");
    expectBlame(said, victim, "stopped)");
    expectBlame(said, victim, "DEADLINE_EXCEEDED");
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(40));
  }
}

TEST(Processes, AnIdleRankIsToldOfADeadOne) {
  for (int victim : {0, 1}) {
    auto said = runRanks(3, "kill-idle", victim, 60000);
    expectBlame(said, victim, "UNAVAILABLE");
    expectBlame(said, victim, "ended without leaving");
  }
}

TEST(Processes, ASilentRankIsNamed) {
  expectBlame(runRanks(3, "silent", 2, kPatienceMs), 2,
              "has not entered all-reduce #6; its last call was all-reduce #5");
}

TEST(Processes, ADifferentCallIsToldToAll) {
  auto said = runRanks(3, "mismatch", 1, 10000);
  for (const std::string& one : said) {
    EXPECT_THAT(one, HasSubstr("INVALID_ARGUMENT"));
    EXPECT_THAT(one, HasSubstr("all-gather"));
  }
  expectBlame(said, 1, "");
}

}  // namespace
}  // namespace hpu::collectives
