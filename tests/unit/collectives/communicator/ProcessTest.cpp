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
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <ostream>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

extern char** environ;

namespace hpu::collectives {
namespace {

using testing::HasSubstr;

// How long ranks wait for one that stands still: longer than a busy machine keeps any of them from
// running.
constexpr int kPatienceMs = 4000;
/// Silence is no reason to give anybody up.
constexpr char kEndless[] = "HPU_COMM_SILENCE_MS=0";

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

/// How ranks are spread: so many on each node, and what is between.
struct Layout {
  const char* name;
  int perNode;
  const char* network;
};
void PrintTo(const Layout& layout, std::ostream* out) {
  *out << layout.name;
}

struct Process {
  pid_t pid = -1;
  int out = -1;
  std::string said;
};

/// Ranks of a scenario, from when they are started until they have ended.
class Ranks {
 public:
  /// `victims` as the program takes them.
  Ranks(const Layout& layout, int ranks, const std::string& scenario, const std::string& victims, int timeoutMs,
        const std::vector<std::string>& more = {})
      : processes_(static_cast<size_t>(ranks)) {
    const std::string id = "HCCL_COMM_ID=127.0.0.1:" + std::to_string(port_.number());
    const char* own = std::getenv("HPU_NODE");
    for (int rank = 0; rank < ranks; ++rank) {
      std::vector<std::string> variables = {
          id,
          "RANK=" + std::to_string(rank),
          "LOCAL_RANK=" + std::to_string(rank % layout.perNode),
          "WORLD_SIZE=" + std::to_string(ranks),
          std::string("HPU_COMM_NETWORK=") + layout.network,
          "HPU_COMM_TIMEOUT_MS=" + std::to_string(timeoutMs),
          "HPU_COMM_DEADLINE_MS=" + std::string(scenario == "busy" ? "3000" : "1800000"),
          "HPU_COMM_INIT_TIMEOUT_MS=" + std::string(scenario == "kill-before-create" ? "2000" : "60000")};
      variables.insert(variables.end(), more.begin(), more.end());
      if (ranks > layout.perNode)
        variables.push_back(std::string("HPU_NODE=") + (own ? own : "process") + "." +
                            std::to_string(rank / layout.perNode));
      std::vector<char*> environment;
      for (char** entry = environ; *entry; ++entry) {
        const std::string text = *entry, key = text.substr(0, text.find('=') + 1);
        if (std::none_of(variables.begin(), variables.end(), [&](const auto& one) { return one.rfind(key, 0) == 0; }))
          environment.push_back(*entry);
      }
      for (std::string& variable : variables) environment.push_back(variable.data());
      environment.push_back(nullptr);
      std::string program = RANK_PROGRAM, list = victims, name = scenario;
      char* arguments[] = {program.data(), name.data(), list.data(), nullptr};
      int ends[2];
      EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
      posix_spawn_file_actions_t actions;
      posix_spawn_file_actions_init(&actions);
      posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
      Process& process = processes_[static_cast<size_t>(rank)];
      EXPECT_EQ(::posix_spawn(&process.pid, program.c_str(), &actions, nullptr, arguments, environment.data()), 0);
      posix_spawn_file_actions_destroy(&actions);
      ::close(ends[1]);
      process.out = ends[0];
    }
  }
  ~Ranks() {
    for (size_t rank = 0; rank < processes_.size(); ++rank) {
      kill(rank);
      drain(rank);
    }
  }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  void kill(size_t rank) {
    if (processes_[rank].pid > 0) ::kill(processes_[rank].pid, SIGKILL);
  }
  /// Reads what the rank says until it has said `text`; false: it has ended, or it is too late.
  bool await(size_t rank, const std::string& text) {
    Process& process = processes_[rank];
    while (process.said.find(text) == std::string::npos)
      if (process.out < 0 || !readSome(process)) return false;
    return true;
  }
  /// Reads the rest of what the rank says, and ends it when that takes too long.
  const std::string& drain(size_t rank) {
    Process& process = processes_[rank];
    if (process.pid <= 0) return process.said;
    while (readSome(process)) {
    }
    kill(rank);
    int ended = 0;
    ::waitpid(process.pid, &ended, 0);
    ::close(process.out);
    process.pid = process.out = -1;
    // 1 is a rank that has said why; more is what a sanitizer found, for one.
    if (WIFEXITED(ended) && WEXITSTATUS(ended) > 1)
      process.said += "(exit code " + std::to_string(WEXITSTATUS(ended)) + ")";
    return process.said;
  }
  std::string said(size_t rank) const { return processes_[rank].said.empty() ? "(nothing)" : processes_[rank].said; }
  size_t size() const { return processes_.size(); }
  bool late() const { return std::chrono::steady_clock::now() >= until_; }

 private:
  bool readSome(Process& process) const {
    auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until_ - std::chrono::steady_clock::now());
    pollfd entry{process.out, POLLIN, 0};
    if (left.count() <= 0 || ::poll(&entry, 1, static_cast<int>(left.count())) <= 0) return false;
    char buffer[4096];
    ssize_t got = ::read(process.out, buffer, sizeof buffer);
    if (got > 0) process.said.append(buffer, static_cast<size_t>(got));
    return got > 0;
  }

  const ReservedPort port_;
  std::vector<Process> processes_;
  const std::chrono::steady_clock::time_point until_ = std::chrono::steady_clock::now() + std::chrono::seconds(100);
};

class Processes : public ::testing::TestWithParam<Layout> {
 protected:
  /// Runs the scenario; what each rank said, "(nothing)" for one that was killed. The victim is
  /// killed when all others are done.
  std::vector<std::string> runRanks(int number, const std::string& scenario, int victim, int timeoutMs,
                                    const std::vector<std::string>& more = {}) const {
    Ranks ranks(GetParam(), number, scenario, std::to_string(victim), timeoutMs, more);
    const bool ends = scenario == "mismatch" || scenario == "end-at-once";  // The victim, by itself.
    for (size_t rank = 0; rank < ranks.size(); ++rank)
      if (static_cast<int>(rank) != victim || ends) ranks.drain(rank);
    if (victim >= 0 && !ends) {
      ranks.kill(static_cast<size_t>(victim));
      ranks.drain(static_cast<size_t>(victim));
    }
    EXPECT_FALSE(ranks.late()) << "a rank did not end";
    std::vector<std::string> said;
    for (size_t rank = 0; rank < ranks.size(); ++rank) said.push_back(ranks.said(rank));
    return said;
  }
};

/// Those that take as long as ranks wait for each other.
class Waits : public Processes {};

TEST_P(Processes, Work) {
  for (int ranks : {1, 2, 4, 8})
    for (const std::string& said : runRanks(ranks, "work", -1, 30000)) EXPECT_EQ(said, "ok\n");
}

/// All but the victim failed with a message that names it and says `what`, or, of another node, what is known there.
void expectBlame(const std::vector<std::string>& said, int victim, const std::string& what,
                 const std::string& orElsewhere = "\n\n") {
  for (size_t rank = 0; rank < said.size(); ++rank) {
    if (static_cast<int>(rank) == victim) continue;
    EXPECT_THAT(said[rank], HasSubstr("rank " + std::to_string(victim))) << "rank " << rank;
    EXPECT_THAT(said[rank], testing::AnyOf(HasSubstr(what), HasSubstr(orElsewhere))) << "rank " << rank;
  }
}

TEST_P(Processes, AKilledRankIsNamed) {
  for (int victim : {0, 2}) {
    auto said = runRanks(3, "kill", victim, 60000);
    expectBlame(said, victim, "UNAVAILABLE");
  }
}

TEST_P(Processes, ARankMayEndAsSoonAsItsOwnPartIsDone) {
  for (int i = 0; i < 8; ++i)
    for (const std::string& said : runRanks(3, "end-at-once", i % 2 * 2, 60000)) EXPECT_EQ(said, "ok\n");
}

TEST_P(Processes, ARankKilledInFlightIsNamed) {
  expectBlame(runRanks(4, "kill-in-flight", 1, 60000), 1, "UNAVAILABLE");
}

TEST_P(Processes, ARankKilledBeforeItJoinsIsNamed) {
  // No rank can know it: the deadline of the creation decides.
  std::vector<std::string> said = runRanks(2, "kill-before-create", 1, 60000);
  EXPECT_THAT(said[0], HasSubstr("rank 1 has not come"));
}

TEST_P(Processes, ShrinkAfterTheDeathOfTheFirstRanks) {
  auto said = runRanks(5, "shrink", 0, 60000);
  for (size_t rank : {2, 4}) EXPECT_EQ(said[rank], "ok\n") << "rank " << rank;
  for (size_t rank : {0, 1, 3}) EXPECT_EQ(said[rank], "(nothing)") << "rank " << rank;
}

TEST_P(Waits, AStoppedRankIsNamed) {
  expectBlame(runRanks(3, "stop", 1, kPatienceMs, {kEndless}), 1, "stopped) has not entered all-reduce #6");
}

TEST_P(Waits, FinalizeWaitsForNoStoppedRank) {
  for (int victim : {0, 2}) {  // The coordinator's process, and another one.
    auto begin = std::chrono::steady_clock::now();
    auto said = runRanks(3, "stop-before-finalize", victim, kPatienceMs, {kEndless});
    expectBlame(said, victim, "waited " + std::to_string(kPatienceMs) + " ms without progress of");
    // Without the coordinator ranks do not know who has come: then they may blame one that has, and say so.
    for (size_t rank = 0; rank < said.size(); ++rank) {
      if (static_cast<int>(rank) == victim) continue;
      EXPECT_THAT(said[rank], testing::AnyOf(HasSubstr("stopped)"),
                                             HasSubstr("node " + std::to_string(victim / GetParam().perNode) + ", "),
                                             HasSubstr(victim == 0 ? "does not answer" : "stopped)")))
          << "rank " << rank;
    }
    expectBlame(said, victim, "DEADLINE_EXCEEDED");
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(40));
  }
}

TEST_P(Processes, AnIdleRankIsToldOfADeadOne) {
  for (int victim : {0, 1}) {
    auto said = runRanks(3, "kill-idle", victim, 60000);
    expectBlame(said, victim, "UNAVAILABLE");
    expectBlame(said, victim, "ended without leaving", "is gone: its process ended, or cannot be reached");
  }
}

TEST_P(Waits, ASilentRankIsNamed) {
  expectBlame(runRanks(3, "silent", 2, kPatienceMs), 2,
              "has not entered all-reduce #6; its last call was all-reduce #5");
}

TEST_P(Waits, ARankThatIsBusyForEverEndsByTheDeadline) {
  const std::vector<std::string> said = runRanks(3, "busy", 2, kPatienceMs);
  expectBlame(said, 2, "DEADLINE_EXCEEDED");
  expectBlame(said, 2, "not done 3000 ms after its turn had come");
}

TEST_P(Processes, ADifferentCallIsToldToAll) {
  auto said = runRanks(3, "mismatch", 1, 10000);
  for (const std::string& one : said) {
    // On another node somebody's word of it may come before the call itself.
    EXPECT_THAT(one, HasSubstr("INVALID_ARGUMENT"));
    EXPECT_THAT(one, HasSubstr("they differ in"));
    EXPECT_THAT(one, testing::Not(HasSubstr("this rank called")));
    EXPECT_THAT(one, HasSubstr("all-gather"));
  }
  expectBlame(said, 1, "");
}

/// What a rank's device has said with RankProgram's "count".
struct Counted {
  struct Traffic {
    int64_t messages = 0, packets = 0, payload = 0, bytes = 0, busyPs = 0;
    bool operator==(const Traffic&) const = default;
  };
  std::map<std::pair<std::string, int>, Traffic> links;  // "tx" or "rx", and the link.
  std::map<std::string, int64_t> network;
  int railUsers = -1;
};
Counted countedOf(const std::string& said, const std::string& what) {
  Counted counted;
  std::istringstream lines(said);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string which, kind, name;
    words >> which >> kind;
    if (which != what) continue;
    if (kind == "rail") {
      words >> counted.railUsers;
    } else if (kind == "network") {
      words >> name >> counted.network[name];
    } else {
      int link = 0;
      words >> link;
      Counted::Traffic& t = counted.links[{kind, link}];
      words >> t.messages >> t.packets >> t.payload >> t.bytes >> t.busyPs;
    }
  }
  return counted;
}

TEST_P(Processes, CountWhatTheirLinksCarry) {
  constexpr int kRanks = 4, kRail = 8;
  const bool oneNode = GetParam().perNode >= kRanks, roce = std::string(GetParam().network) == "roce";
  if (roce) ::setenv("HPU_COMM_ROCE_FAULTS", "drop=0.05,corrupt=0.05,seed=3", 1);
  const auto said = runRanks(kRanks, "count", -1, 60000);
  ::unsetenv("HPU_COMM_ROCE_FAULTS");
  Counted::Traffic sent, received;  // Between nodes, by all.
  int64_t came = 0, again = 0, bad = 0;
  for (int rank = 0; rank < kRanks; ++rank) {
    ASSERT_THAT(said[static_cast<size_t>(rank)], testing::EndsWith("ok\n")) << "rank " << rank;
    const Counted first = countedOf(said[static_cast<size_t>(rank)], "send");
    // 200,001 bytes are 25 packets of up to 8 KiB, each with 168 bytes of headers and acknowledgement, and 16 more.
    const int link = oneNode ? (rank + 2) % kRanks : kRail;
    for (const char* way : {"tx", "rx"}) {
      ASSERT_EQ(first.links.count({way, link}), 1u) << "rank " << rank;
      const Counted::Traffic& one = first.links.at({way, link});
      EXPECT_EQ(one.messages, 1);
      EXPECT_EQ(one.packets, 25);
      EXPECT_EQ(one.payload, 200001);
      EXPECT_EQ(one.bytes, 200001 + 25 * 168 + 16);
    }
    EXPECT_EQ(first.links.size(), 2u) << "rank " << rank << " has used no other link";
    EXPECT_EQ(first.railUsers, oneNode ? 0 : 1);

    const Counted all = countedOf(said[static_cast<size_t>(rank)], "all");
    int64_t total = 0;
    for (const auto& [key, traffic] : all.links) {
      if (key.first == "rx") total += traffic.payload;
      if (key.second == kRail) {
        Counted::Traffic& sum = key.first == "tx" ? sent : received;
        sum.messages += traffic.messages;
        sum.packets += traffic.packets;
        sum.payload += traffic.payload;
        sum.bytes += traffic.bytes;
        sum.busyPs += traffic.busyPs;
        continue;
      }
      // Its other end says the same. Ranks of a node are its devices.
      const int peer = rank / GetParam().perNode * GetParam().perNode + key.second;
      const Counted other = countedOf(said[static_cast<size_t>(peer)], "all");
      const auto there = other.links.find({key.first == "tx" ? "rx" : "tx", rank % GetParam().perNode});
      ASSERT_NE(there, other.links.end());
      EXPECT_TRUE(there->second == traffic) << rank << " and " << peer;
    }
    EXPECT_EQ(total, 200001 + 3 * 3 * 200000) << "rank " << rank;
    came += all.network.at("rx_datagrams");
    again += all.network.at("retransmitted");
    bad += all.network.at("bad_icrc");
  }
  EXPECT_TRUE(sent == received);
  EXPECT_EQ(sent.messages > 0, !oneNode);
  // What the network has met is RoCE's.
  EXPECT_EQ(came > 0, roce);
  EXPECT_EQ(again > 0, roce);
  EXPECT_EQ(bad > 0, roce);
}

INSTANTIATE_TEST_SUITE_P(All, Processes,
                         ::testing::Values(Layout{"oneNode", 8, "tcp"}, Layout{"twoANodeTcp", 2, "tcp"},
                                           Layout{"twoANodeRoce", 2, "roce"}),
                         [](const auto& info) { return std::string(info.param.name); });

INSTANTIATE_TEST_SUITE_P(All, Waits, ::testing::Values(Layout{"oneNode", 8, "tcp"}, Layout{"twoANodeTcp", 2, "tcp"}),
                         [](const auto& info) { return std::string(info.param.name); });

/// Two nodes of two: whoever is stopped, all others are told, whatever they wait for.
class Stops : public Processes {};
TEST_P(Stops, ARankThatIsStoppedIsGivenUpOnItsOwnNodeToo) {
  for (int victim : {0, 3}) {  // One that the others hear of each other through, and one at the tree's end.
    SCOPED_TRACE(victim);
    const auto said = runRanks(4, "stop", victim, 0, {"HPU_COMM_SILENCE_MS=" + std::to_string(kPatienceMs)});
    expectBlame(said, victim, "is gone: nothing was heard from it for ");
    expectBlame(said, victim, "UNAVAILABLE");
  }
}
INSTANTIATE_TEST_SUITE_P(TwoNodesOfTwo, Stops, ::testing::Values(Layout{"tcp", 2, "tcp"}, Layout{"roce", 2, "roce"}),
                         [](const auto& info) { return std::string(info.param.name); });

class Deaf : public Processes {};
TEST_P(Deaf, ThatNoPacketOfRoceHasEverComeIsSaid) {
  const auto said = runRanks(2, "work", -1, 0, {"HPU_COMM_SILENCE_MS=3000", "HPU_COMM_ROCE_FAULTS=drop=1"});
  for (const auto& one : said) EXPECT_THAT(one, HasSubstr("UNAVAILABLE"));
  // Who gives up first tells the other one by TCP.
  EXPECT_THAT(said,
              testing::Contains(HasSubstr("none of its packets of RoCE (UDP) has ever come over the network 'roce'")));
}
INSTANTIATE_TEST_SUITE_P(TwoNodesOfOne, Deaf, ::testing::Values(Layout{"roce", 1, "roce"}),
                         [](const auto& info) { return std::string(info.param.name); });

/// Three nodes of two: somebody is killed, at any time, or a node; all others hear within what they may take, of the
/// right one, and go on without it.
class Kills : public ::testing::TestWithParam<Layout> {};
TEST_P(Kills, AreToldToAllAndSurvived) {
  // HPU_KILLS: more of them by hand, fewer under a sanitizer.
  const char* wanted = std::getenv("HPU_KILLS");
  const int kills = wanted ? std::atoi(wanted) : 10;
  // 5 s to find out and 2 for a busy machine.
  constexpr int64_t kDeadlineMs = 7000;
  std::mt19937 random(7);
  for (int i = 0; i < kills; ++i) {
    const bool node = i % 4 == 3;
    const auto victim = static_cast<size_t>(node ? random() % 3 * 2 : random() % 6);
    const size_t last = node ? victim + 1 : victim;
    const std::string victims = node ? std::to_string(victim) + "," + std::to_string(last) : std::to_string(victim);
    SCOPED_TRACE("kill " + std::to_string(i) + " of " + victims);
    Ranks ranks(GetParam(), 6, "survive", victims, 60000);
    for (size_t rank = 0; rank < ranks.size(); ++rank)
      ASSERT_TRUE(ranks.await(rank, "ready\n")) << "rank " << rank << ": " << ranks.said(rank);
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 60));
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    for (size_t rank = victim; rank <= last; ++rank) ranks.kill(rank);
    const int64_t killedMs = now.tv_sec * 1000 + now.tv_nsec / 1000000;
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      if (rank >= victim && rank <= last) continue;
      const std::string said = ranks.drain(rank);
      const size_t heard = said.find("heard ");
      ASSERT_NE(heard, std::string::npos) << "rank " << rank << ": " << said;
      EXPECT_LT(std::atoll(said.c_str() + heard + 6) - killedMs, kDeadlineMs) << "rank " << rank << ": " << said;
      const std::string line = said.substr(heard, said.find('\n', heard) - heard);
      EXPECT_THAT(line, testing::AnyOf(HasSubstr("rank " + std::to_string(victim) + " "),
                                       HasSubstr("rank " + std::to_string(last) + " ")))
          << "rank " << rank;
      EXPECT_TRUE(said.ends_with("\nok\n")) << "rank " << rank << ": " << said;
    }
    EXPECT_FALSE(ranks.late());
  }
}
INSTANTIATE_TEST_SUITE_P(ThreeNodesOfTwo, Kills, ::testing::Values(Layout{"tcp", 2, "tcp"}, Layout{"roce", 2, "roce"}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace hpu::collectives
