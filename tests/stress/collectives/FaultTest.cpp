// SPDX-License-Identifier: Apache-2.0
// Four ranks as processes, and something that goes wrong: every survivor returns a typed error that
// names the rank (or succeeds where it should), nothing hangs, nothing is left. Seeds
// HPU_FAULT_SEED (1) .. + HPU_FAULT_SCENARIOS (50); HPU_FAULT_ONLY=SEED runs one, and tells what
// the ranks say.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "ChildProcess.h"
#include "Resources.h"
#include "Scenario.h"
#include "UniqueIdText.h"
#include "hpu/node.h"

namespace hpu::collectives::testing {
namespace {

using Clock = ChildProcess::Clock;
using std::chrono::milliseconds;

/// A hang; nothing that ends by itself takes as long.
constexpr std::chrono::seconds kHang(120);

int64_t setting(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::atoll(text) : otherwise;
}

/// "rank 2", and "ranks 0, 2": not "rank 21".
bool namesRank(const std::string& text, int rank) {
  const std::string number = std::to_string(rank);
  for (size_t at = text.find("rank"); at != std::string::npos; at = text.find("rank", at + 1)) {
    // The numbers of a list follow each other.
    size_t next = at + 4 + (text[at + 4] == 's');
    while (next < text.size()) {
      while (next < text.size() && (text[next] == ' ' || text[next] == ',')) ++next;
      if (text.compare(next, 4, "and ") == 0) next += 4;
      size_t end = next;
      while (end < text.size() && text[end] >= '0' && text[end] <= '9') ++end;
      if (end == next) break;
      if (text.compare(next, end - next, number) == 0) return true;
      next = end;
    }
  }
  return false;
}

struct RankState {
  std::unique_ptr<ChildProcess> process;
  std::string last;  ///< Its last line.
  std::set<std::string> said;
  std::optional<std::string> result, shrunk, leaks;
  bool signalled = false;
  bool gone = false;
  std::string log;
};

class Driver {
 public:
  Driver(const Scenario& scenario, bool talks) : s_(scenario), talks_(talks) {}

  void run() {
    UniqueId id;
    if (s_.host < 0) {
      auto created = createUniqueId();
      ASSERT_TRUE(created.ok()) << created.status().message();
      id = *created;
    }
    for (int rank = 0; rank < kScenarioRanks; ++rank)
      ranks_[rank].process = std::make_unique<ChildProcess>(
          HPU_FAULT_RANK, std::vector<std::string>{std::to_string(s_.seed), std::to_string(rank)});
    if (s_.host < 0)
      for (RankState& rank : ranks_) rank.process->tell(idText(id));
    hang_ = Clock::now() + kHang;

    // To everybody's result, but that of a victim that cannot give one.
    listenUntil([&] {
      for (int rank = 0; rank < kScenarioRanks; ++rank)
        if (!ranks_[rank].result && !ranks_[rank].gone && !(rank == s_.victim && waitsForOthers())) return false;
      return true;
    });
    bool victimIsBack = s_.mishap == Mishap::kStop && ranks_[s_.victim].signalled && !s_.endsByKill;
    if (victimIsBack) victim().process->signal(SIGCONT);
    if (s_.mishap == Mishap::kStop && s_.endsByKill) victim().process->signal(SIGKILL);
    if (s_.mishap == Mishap::kMissing) victim().process->tell("go on");
    listenUntil([&] { return victim().result || victim().gone; });
    if (::testing::Test::HasFatalFailure()) return;
    checkResults();
    shrinkWithoutVictim();
    end();
  }

 private:
  RankState& victim() { return ranks_[s_.victim]; }
  bool waitsForOthers() {
    return (s_.mishap == Mishap::kStop && victim().signalled) ||
           (s_.mishap == Mishap::kMissing && victim().said.count("missing"));
  }
  bool bySignal() const {
    return s_.mishap == Mishap::kKill || s_.mishap == Mishap::kStop || s_.mishap == Mishap::kPause;
  }

  /// Everything that the ranks say, until `done`.
  void listenUntil(const std::function<bool()>& done) {
    while (!done() && !::testing::Test::HasFatalFailure()) {
      if (Clock::now() > hang_) return reportHang();
      for (int rank = 0; rank < kScenarioRanks; ++rank)
        while (auto line = ranks_[rank].process->line(Clock::now())) hear(rank, *line);
      for (RankState& rank : ranks_)
        if (!rank.gone && rank.process->ended()) rank.gone = true;
      std::this_thread::sleep_for(std::chrono::microseconds(300));
    }
  }
  void hear(int rank, const std::string& line) {
    RankState& state = ranks_[rank];
    state.last = line;
    state.said.insert(line);
    state.log += "    rank " + std::to_string(rank) + ": " + line + "\n";
    if (talks_) std::printf("    rank %d: %s\n", rank, line.c_str());
    if (line.rfind("id ", 0) == 0)
      for (int other = 0; other < kScenarioRanks; ++other)
        if (other != rank) ranks_[other].process->tell(line.substr(3));
    auto take = [&](const char* word, std::optional<std::string>& to) {
      if (line.rfind(word, 0) == 0) to = line.substr(std::string(word).size());
    };
    take("result ", state.result);
    take("shrink ", state.shrunk);
    take("leaks ", state.leaks);
    if (line.rfind("unprepared", 0) == 0) ADD_FAILURE() << "rank " << rank << " could not begin: " << line;
    if (rank == s_.victim && bySignal() && isMoment(line)) strike();
  }
  bool isMoment(const std::string& line) const {
    switch (s_.moment) {
      case Moment::kInit:
        // Before a coordinator's id is out the others have nothing whose deadline could pass.
        return s_.host == s_.victim ? line.rfind("id ", 0) == 0 : line == "at init";
      case Moment::kFinalize:
        return line == "at finalize";
      default:
        return line == "at call " + std::to_string(s_.at);
    }
  }
  void strike() {
    std::this_thread::sleep_for(std::chrono::microseconds(s_.delayUs));
    RankState& state = victim();
    state.signalled = true;
    if (s_.mishap == Mishap::kKill) return state.process->signal(SIGKILL);
    state.process->signal(SIGSTOP);
    if (s_.mishap != Mishap::kPause) return;
    std::this_thread::sleep_for(milliseconds(kPauseMs));
    state.process->signal(SIGCONT);
  }

  void reportHang() {
    std::string text;
    for (int rank = 0; rank < kScenarioRanks; ++rank) {
      text += ranks_[rank].log;
      std::string line, path = "/proc/" + std::to_string(ranks_[rank].process->pid()) + "/status";
      std::ifstream status(path);
      while (std::getline(status, line))
        if (line.rfind("State", 0) == 0) text += "    rank " + std::to_string(rank) + " " + line + "\n";
    }
    FAIL() << "a hang: " << s_.text() << "\n" << text;
  }

  std::string logs() const {
    std::string text;
    for (const RankState& rank : ranks_) text += rank.log;
    return text;
  }

  /// The codes that a survivor may return.
  std::set<std::string> codes() const {
    switch (s_.mishap) {
      case Mishap::kKill:
        // A rank that dies before it has come is only missed.
        if (s_.moment == Moment::kInit) return {"UNAVAILABLE", "ABORTED", "DEADLINE_EXCEEDED"};
        return {"UNAVAILABLE", "ABORTED"};
      case Mishap::kLeave:
        return {"UNAVAILABLE", "ABORTED"};
      case Mishap::kStop:
        return {"DEADLINE_EXCEEDED", "ABORTED"};
      case Mishap::kMissing:
        return {"DEADLINE_EXCEEDED", "ABORTED"};
      case Mishap::kAbort:
      case Mishap::kMemory:
        return {"ABORTED", "RESOURCE_EXHAUSTED"};
      case Mishap::kExtra:
        // After everybody's last call nobody makes another one.
        return {"INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "ABORTED"};
      default:
        return {"INVALID_ARGUMENT", "ABORTED"};
    }
  }

  void checkResults() {
    const bool harmless = s_.mishap == Mishap::kNone || s_.mishap == Mishap::kPause || s_.mishap == Mishap::kPointer;
    // A rank that has come as far may have done its part.
    const bool pastAll = victim().said.count("at finalize") > 0;
    for (int rank = 0; rank < kScenarioRanks; ++rank) {
      RankState& state = ranks_[rank];
      const bool isVictim = rank == s_.victim;
      if (!state.result) {
        const bool killed = isVictim && state.signalled && (s_.mishap == Mishap::kKill || s_.endsByKill);
        EXPECT_TRUE(killed) << "rank " << rank
                            << " has ended without a word: " << state.process->wait(Clock::now() + milliseconds(500))
                            << "\n"
                            << logs();
        continue;
      }
      const std::string& result = *state.result;
      const std::string code = result.substr(0, result.find(' '));
      if (code == "OK") {
        // There may have been memory enough.
        EXPECT_TRUE(harmless || pastAll) << "rank " << rank << " succeeded\n" << logs();
        continue;
      }
      ++outcomes()[std::string(mishapName(s_.mishap)) + (isVictim ? ", the victim: " : ": ") + code];
      EXPECT_FALSE(harmless) << "rank " << rank << ": " << result << "\n" << logs();
      if (harmless) continue;
      if (isVictim) {
        if (s_.mishap == Mishap::kLeave) continue;
        const std::set<std::string> typed{"INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "ABORTED", "UNAVAILABLE",
                                          "RESOURCE_EXHAUSTED"};
        EXPECT_TRUE(typed.count(code)) << "the victim: " << result << "\n" << logs();
        continue;
      }
      // A rank that waits in finalize hears of its end only.
      const bool inFinalize = result.find(" finalize of ") != std::string::npos && code == "DEADLINE_EXCEEDED";
      EXPECT_TRUE(codes().count(code) || inFinalize) << "rank " << rank << ": " << result << "\n" << logs();
      // Without its coordinator nobody knows more than that.
      const bool blind =
          s_.moment == Moment::kInit && s_.host == s_.victim && result.find("coordinator") != std::string::npos;
      EXPECT_TRUE(namesRank(result, s_.victim) || blind)
          << "rank " << rank << " does not name rank " << s_.victim << ": " << result << "\n"
          << logs();
    }
  }

  /// The survivors of a communicator that was ready go on without the victim.
  void shrinkWithoutVictim() {
    if (s_.moment != Moment::kOperation) return;
    std::vector<RankState*> survivors;
    for (int rank = 0; rank < kScenarioRanks; ++rank) {
      if (rank == s_.victim) continue;
      if (!ranks_[rank].result || ranks_[rank].result->rfind("OK", 0) == 0) return;
      survivors.push_back(&ranks_[rank]);
    }
    for (RankState* rank : survivors) rank->process->tell("shrink " + std::to_string(s_.victim));
    listenUntil([&] {
      return std::all_of(survivors.begin(), survivors.end(),
                         [](RankState* rank) { return rank->shrunk || rank->gone; });
    });
    for (RankState* rank : survivors) EXPECT_EQ(rank->shrunk.value_or("nothing"), "OK") << logs();
  }

  void end() {
    for (RankState& rank : ranks_) rank.process->tell("quit");
    listenUntil([&] {
      return std::all_of(std::begin(ranks_), std::end(ranks_), [](const RankState& rank) { return rank.gone; });
    });
    if (::testing::Test::HasFatalFailure()) return;
    for (int rank = 0; rank < kScenarioRanks; ++rank) {
      RankState& state = ranks_[rank];
      const std::string how = state.process->wait(hang_);
      // Killed, maybe after all was done.
      if (!state.result || (rank == s_.victim && state.signalled && how == "signal 9")) continue;
      EXPECT_EQ(how, "exit 0") << "rank " << rank << "\n" << logs();
      EXPECT_TRUE(state.leaks && state.leaks->empty()) << state.leaks.value_or("nothing") << "rank " << rank << "\n"
                                                       << logs();
    }
    // The kernel closes a dead process's descriptors in its own time.
    std::string owned;
    for (int i = 0; i < 3000; ++i) {
      owned.clear();
      auto node = node::query();
      ASSERT_TRUE(node.ok()) << node.status().message();
      for (const node::DeviceStatus& device : node->devices)
        if (device.owner.pid) owned += " " + std::to_string(device.index) + " by " + std::to_string(device.owner.pid);
      if (owned.empty()) break;
      std::this_thread::sleep_for(milliseconds(10));
    }
    EXPECT_EQ(owned, "") << "devices are still owned\n" << logs();
  }

 public:
  static std::map<std::string, int>& outcomes() {
    static std::map<std::string, int> counts;
    return counts;
  }

 private:
  const Scenario& s_;
  const bool talks_;
  RankState ranks_[kScenarioRanks];
  Clock::time_point hang_;
};

TEST(CollectiveFaults, EverySurvivorSaysWhoAndNothingIsLeft) {
  // A coordinator goes on for as long, to tell those who come late to what has failed.
  ::setenv("HPU_COMM_INIT_TIMEOUT_MS", std::to_string(kInitTimeoutMs).c_str(), 1);
  const bool one = std::getenv("HPU_FAULT_ONLY") != nullptr;
  const auto first = static_cast<uint64_t>(setting(one ? "HPU_FAULT_ONLY" : "HPU_FAULT_SEED", 1));
  const auto count = static_cast<uint64_t>(one ? 1 : setting("HPU_FAULT_SCENARIOS", 50));
  std::printf("seeds %llu .. %llu; HPU_FAULT_ONLY=SEED runs one again\n", static_cast<unsigned long long>(first),
              static_cast<unsigned long long>(first + count - 1));
  std::optional<Resources> before;
  int failed = 0;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const Scenario scenario = makeScenario(seed);
    if (one) std::printf("%s\n", scenario.text().c_str());
    SCOPED_TRACE(scenario.text());
    const auto* result = ::testing::UnitTest::GetInstance()->current_test_info()->result();
    const int partsBefore = result->total_part_count();
    Driver(scenario, one).run();
    if (result->total_part_count() > partsBefore) ++failed;
    if (failed >= 10) FAIL() << "ten scenarios have failed; the rest is not run";
    // The driver's own coordinators end with their communicators.
    if (!before) before = settledResources(std::nullopt);
  }
  EXPECT_EQ(difference(*before, settledResources(before)), "") << "of the driver itself";
  for (const auto& [what, times] : Driver::outcomes()) std::printf("  %5d  %s\n", times, what.c_str());
}

TEST(CollectiveFaults, TheChecksOfTheErrorsCanFail) {
  EXPECT_TRUE(namesRank("rank 2 (process 7) is gone", 2));
  EXPECT_TRUE(namesRank("waited for ranks 0, 2 and 3", 3));
  EXPECT_TRUE(namesRank("rank 1: peer rank 2 gave up", 2));
  EXPECT_FALSE(namesRank("rank 21 is gone", 2));
  EXPECT_FALSE(namesRank("rank 1 waited 2 ms", 2));
  Resources before, after;
  before.threads["worker"] = 3;
  after.threads["worker"] = 4;
  after.files["socket:[#]"] = 1;
  EXPECT_EQ(difference(before, after), "threads worker 3 -> 4; descriptors of socket:[#] 0 -> 1");
  EXPECT_EQ(difference(after, before), "");
}

}  // namespace
}  // namespace hpu::collectives::testing
