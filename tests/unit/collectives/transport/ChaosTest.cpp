// SPDX-License-Identifier: Apache-2.0
// Four processes exchange messages; one is killed or stopped at a random moment, creation included.
// Each survivor says so, with its number, and holds nothing more than before.
// SHM_CHAOS_ROUNDS is how often (25), SHM_CHAOS_SEED from where.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

extern char** environ;

namespace hpu {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kRanks = 4;
// Of everything a worker is asked; a failure, never a measurement.
constexpr std::chrono::seconds kPatience{60};
// What the workers wait for a rank that does not come to the meeting: longer than that one may wait
// for a stopped rank's memory, of which it tells the others when it comes.
constexpr std::chrono::milliseconds kMeeting{4500};

struct Worker {
  pid_t pid = -1;
  int socket = -1;
  bool meeting = false, done = false;  // Of the round: it waits in a gather; it has its result.
  std::string text, result;
};

int setting(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text ? std::atoi(text) : otherwise;
}

bool tell(const Worker& worker, const std::string& text) {
  return ::send(worker.socket, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
}
/// The next packet; empty when the worker is gone or silent.
std::string hear(const Worker& worker, std::chrono::milliseconds patience) {
  pollfd event{worker.socket, POLLIN, 0};
  if (::poll(&event, 1, static_cast<int>(patience.count())) <= 0) return {};
  std::string text(64 << 10, '\0');
  ssize_t bytes = ::recv(worker.socket, text.data(), text.size(), 0);
  text.resize(bytes > 0 ? static_cast<size_t>(bytes) : 0);
  return text;
}

Worker start(int rank) {
  Worker worker;
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return worker;
  int safe = ::fcntl(ends[1], F_DUPFD_CLOEXEC, 10);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, safe, 3);
  std::string number = std::to_string(rank), all = std::to_string(kRanks);
  std::string program = HPU_SHM_WORKER;
  char* argv[] = {program.data(), number.data(), all.data(), nullptr};
  if (::posix_spawn(&worker.pid, program.c_str(), &actions, nullptr, argv, environ) != 0) worker.pid = -1;
  posix_spawn_file_actions_destroy(&actions);
  ::close(safe);
  ::close(ends[1]);
  worker.socket = ends[0];
  EXPECT_EQ(hear(worker, kPatience), "ready") << "rank " << rank;
  return worker;
}
/// What a worker holds, once it is `expected` or does not get there: owners learn a moment later
/// that a peer maps their memory no more.
std::string holdings(const Worker& worker, const std::string& expected) {
  std::string held;
  for (const auto until = Clock::now() + std::chrono::seconds(20); Clock::now() < until;) {
    tell(worker, "holdings");
    held = hear(worker, kPatience);
    if (held == expected || expected.empty()) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return held;
}
void end(Worker& worker) {
  ::kill(worker.pid, SIGKILL);
  int status = 0;
  ::waitpid(worker.pid, &status, 0);
  ::close(worker.socket);
}

/// Runs the meetings of a round until each worker that is `expected` has its result; `event` is
/// called once at its time.
void referee(std::vector<Worker>& workers, const std::vector<bool>& expected, Clock::time_point eventAt,
             const std::function<void()>& event) {
  const auto until = Clock::now() + kPatience;
  auto firstCame = Clock::time_point::max();
  bool happened = false;
  while (Clock::now() < until) {
    if (!happened && Clock::now() >= eventAt) {
      happened = true;
      event();
    }
    bool all = true;
    for (size_t i = 0; i < workers.size(); ++i) all &= !expected[i] || workers[i].done;
    if (all && happened) return;
    std::vector<pollfd> events;
    for (const Worker& worker : workers)
      events.push_back({worker.meeting || worker.done ? -1 : worker.socket, POLLIN, 0});
    ::poll(events.data(), events.size(), happened ? 20 : 0);
    int present = 0, able = 0;
    for (size_t i = 0; i < workers.size(); ++i) {
      Worker& worker = workers[i];
      if (events[i].revents & POLLIN) {
        std::string text = hear(worker, std::chrono::milliseconds(0));
        if (text.rfind("gather ", 0) == 0) {
          worker.meeting = true;
          worker.text = text.substr(7);
          firstCame = std::min(firstCame, Clock::now());
        } else if (text.rfind("result ", 0) == 0) {
          worker.done = true;
          worker.result = text.substr(7);
        } else {
          worker.done = true;  // Gone.
        }
      }
      present += worker.meeting;
      able += !worker.done;
    }
    if (present == static_cast<int>(workers.size())) {
      for (const Worker& worker : workers) {
        tell(worker, "texts");
        for (const Worker& from : workers) tell(worker, "." + from.text);
      }
    } else if (present > 0 && (able < static_cast<int>(workers.size()) || Clock::now() - firstCame > kMeeting)) {
      // Somebody will not come: not waiting for him is the bootstrap's part.
      std::string missing = "gone:";
      for (size_t i = 0; i < workers.size(); ++i)
        if (!workers[i].meeting) missing += " rank " + std::to_string(i);
      for (const Worker& worker : workers)
        if (worker.meeting) tell(worker, missing);
    } else {
      continue;
    }
    firstCame = Clock::time_point::max();
    for (Worker& worker : workers) worker.meeting = false;
  }
  ADD_FAILURE() << "a worker hangs";
}

TEST(ShmChaos, SurvivorsNameWhoEnds) {
  const int rounds = setting("SHM_CHAOS_ROUNDS", 25);
  const unsigned seed =
      static_cast<unsigned>(setting("SHM_CHAOS_SEED", static_cast<int>(std::random_device{}() & 0xffffff)));
  RecordProperty("seed", std::to_string(seed));
  std::mt19937 random(seed);
  std::vector<Worker> workers;
  for (int r = 0; r < kRanks; ++r) workers.push_back(start(r));
  int killed = 0, stopped = 0, quiet = 0, early = 0;
  // All are alike, and a round leaves nothing behind.
  const std::string baseline = holdings(workers[0], "");
  for (int round = 0; round < rounds && !::testing::Test::HasFailure(); ++round) {
    enum {
      kQuiet,
      kKill,
      kStop
    } what = round < 2           ? kQuiet
             : random() % 8 == 0 ? kQuiet
             : random() % 4 == 0 ? kStop
                                 : kKill;
    const size_t victim = random() % kRanks;
    const auto delay = std::chrono::microseconds(random() % (random() % 3 ? 100000 : 3000));
    SCOPED_TRACE("seed " + std::to_string(seed) + " round " + std::to_string(round) + " victim " +
                 std::to_string(victim) + " what " + std::to_string(what) + " after " + std::to_string(delay.count()) +
                 " us");
    for (Worker& worker : workers) {
      worker.meeting = worker.done = false;
      worker.result.clear();
      // Quiet rounds end by themselves.
      tell(worker, "round " + std::to_string(random()) + (what == kQuiet ? " 30" : " 30000"));
    }
    std::vector<bool> expected(kRanks, true);
    if (what != kQuiet) expected[victim] = false;
    referee(workers, expected, Clock::now() + delay, [&] {
      if (what == kKill) ::kill(workers[victim].pid, SIGKILL);
      if (what == kStop) ::kill(workers[victim].pid, SIGSTOP);
    });
    const std::string name = "rank " + std::to_string(victim);
    for (size_t r = 0; r < workers.size(); ++r) {
      if (!expected[r]) continue;
      const std::string& result = workers[r].result;
      if (what == kQuiet) {
        EXPECT_EQ(result, "done") << "rank " << r;
      } else {
        EXPECT_TRUE(result.rfind("end ", 0) == 0 || result.rfind("create ", 0) == 0) << result;
        EXPECT_NE(result.find(name), std::string::npos) << "rank " << r << ": " << result;
        early += result.rfind("create ", 0) == 0;
      }
    }
    (what == kQuiet ? quiet : what == kKill ? killed : stopped)++;
    if (what == kKill) {
      end(workers[victim]);
      workers[victim] = start(static_cast<int>(victim));
    } else if (what == kStop) {
      // It goes on, finds that the others have left, and is as good as before.
      ::kill(workers[victim].pid, SIGCONT);
      std::vector<bool> only(kRanks, false);
      only[victim] = true;
      referee(workers, only, Clock::now(), [] {});
    }
    for (size_t r = 0; r < workers.size(); ++r)
      EXPECT_EQ(holdings(workers[r], baseline), baseline) << "rank " << r << " (descriptors, threads, segments)";
  }
  RecordProperty("killed", std::to_string(killed));
  RecordProperty("stopped", std::to_string(stopped));
  RecordProperty("quiet", std::to_string(quiet));
  RecordProperty("ended_during_creation", std::to_string(early));
  for (Worker& worker : workers) {
    tell(worker, "quit");
    int status = 0;
    if (::testing::Test::HasFailure()) ::kill(worker.pid, SIGKILL);
    ::waitpid(worker.pid, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    ::close(worker.socket);
  }
}

}  // namespace
}  // namespace hpu
