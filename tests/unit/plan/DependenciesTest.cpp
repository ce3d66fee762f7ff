// SPDX-License-Identifier: Apache-2.0
// Random programs over three queues: the waits that are placed for the conflicts that are found are compared with a
// happens-before relation that is worked out by brute force from all commands.
#include "plan/Dependencies.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

namespace hpu::plan {
namespace {

constexpr unsigned kQueues = 3;

/// Bytes of a section, all of them.
struct Bytes {
  uint32_t section = 0;
  int64_t from = 0, to = 0;
  bool write = false;
};

/// Conflicts found and waits placed for commands in program order.
class Tracker {
 public:
  std::vector<recipe::Wait> issue(unsigned queue, const std::vector<Bytes>& bytes) {
    std::vector<recipe::Access> accesses;
    for (const Bytes& b : bytes)
      accesses.push_back({recipe::denseBox(b.section, b.from, b.to - b.from), b.write, false});
    Clock needed(kQueues, 0);
    for (uint32_t other : conflicts_.add(static_cast<uint32_t>(places_.size()), accesses))
      needed[places_[other].first] = std::max(needed[places_[other].first], places_[other].second + 1);
    places_.push_back({queue, waits_.commands(queue)});
    return waits_.issue(queue, needed);
  }
  uint32_t commands(unsigned queue) const { return waits_.commands(queue); }

 private:
  ConflictFinder conflicts_;
  WaitPlacer waits_{kQueues};
  std::vector<std::pair<unsigned, uint32_t>> places_;  ///< Queue and position of each command.
};

struct Command {
  unsigned queue = 0;
  uint32_t index = 0;  ///< In its queue.
  std::vector<Bytes> accesses;
  std::vector<recipe::Wait> waits;
};

bool conflict(const Command& a, const Command& b) {
  for (const Bytes& x : a.accesses)
    for (const Bytes& y : b.accesses)
      if (x.section == y.section && (x.write || y.write) && x.from < y.to && y.from < x.to) return true;
  return false;
}

std::vector<Bytes> randomAccesses(std::mt19937& random) {
  auto between = [&](int64_t lo, int64_t hi) { return std::uniform_int_distribution<int64_t>(lo, hi)(random); };
  std::vector<Bytes> accesses;
  for (int64_t i = between(1, 4); i > 0; --i) {
    // Tiles of a grid meet exactly, the rest overlaps in part.
    int64_t from = between(0, 1) ? between(0, 7) * 16 : between(0, 120), length = between(0, 1) ? 16 : between(1, 60);
    accesses.push_back({static_cast<uint32_t>(between(0, 2)), from, from + length, between(0, 2) == 0});
  }
  return accesses;
}

std::vector<Command> randomProgram(unsigned seed) {
  std::mt19937 random(seed);
  Tracker tracker;
  std::vector<Command> commands;
  int count = std::uniform_int_distribution<int>(2, 50)(random);
  for (int i = 0; i < count; ++i) {
    Command command;
    command.queue = std::uniform_int_distribution<unsigned>(0, kQueues - 1)(random);
    command.index = tracker.commands(command.queue);
    command.accesses = randomAccesses(random);
    command.waits = tracker.issue(command.queue, command.accesses);
    commands.push_back(std::move(command));
  }
  return commands;
}

/// before[a][b]: command a is surely done when b starts. `without` leaves out one wait of one command.
std::vector<std::vector<bool>> happensBefore(const std::vector<Command>& commands, size_t skipCommand = SIZE_MAX,
                                             size_t skipWait = SIZE_MAX) {
  size_t n = commands.size();
  std::vector<std::vector<bool>> before(n, std::vector<bool>(n, false));
  for (size_t b = 0; b < n; ++b) {
    auto behind = [&](size_t a) {
      before[a][b] = true;
      for (size_t c = 0; c < n; ++c)
        if (before[c][a]) before[c][b] = true;
    };
    for (size_t a = 0; a < b; ++a) {
      bool ordered = commands[a].queue == commands[b].queue;
      for (size_t w = 0; w < commands[b].waits.size(); ++w)
        if (!(b == skipCommand && w == skipWait))
          ordered |=
              commands[b].waits[w].signal == commands[a].queue && commands[b].waits[w].value >= commands[a].index + 1;
      if (ordered) behind(a);
    }
  }
  return before;
}

bool allConflictsOrdered(const std::vector<Command>& commands, const std::vector<std::vector<bool>>& before) {
  for (size_t b = 0; b < commands.size(); ++b)
    for (size_t a = 0; a < b; ++a)
      if (conflict(commands[a], commands[b]) && !before[a][b]) return false;
  return true;
}

void forRandomPrograms(const std::function<void(const std::vector<Command>&)>& check) {
  for (unsigned seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    check(randomProgram(seed));
    if (testing::Test::HasFailure()) return;
  }
}

TEST(Dependencies, OrderEveryPairOfConflictingCommands) {
  int64_t conflicts = 0;
  forRandomPrograms([&](const std::vector<Command>& commands) {
    auto before = happensBefore(commands);
    for (size_t b = 0; b < commands.size(); ++b)
      for (size_t a = 0; a < b; ++a) {
        if (!conflict(commands[a], commands[b])) continue;
        conflicts += commands[a].queue != commands[b].queue;
        ASSERT_TRUE(before[a][b]) << "commands " << a << " and " << b;
      }
  });
  EXPECT_GT(conflicts, 10000);
}

TEST(Dependencies, HaveNoWaitThatCouldBeLeftOut) {
  int64_t waits = 0;
  forRandomPrograms([&](const std::vector<Command>& commands) {
    for (size_t c = 0; c < commands.size(); ++c)
      for (size_t w = 0; w < commands[c].waits.size(); ++w) {
        ++waits;
        // Without it, something in front of this command is unordered that was needed here.
        std::vector<Command> prefix(commands.begin(), commands.begin() + c + 1);
        ASSERT_FALSE(allConflictsOrdered(prefix, happensBefore(prefix, c, w)))
            << "command " << c << " needs no wait for signal " << commands[c].waits[w].signal;
      }
  });
  EXPECT_GT(waits, 2000);
}

TEST(Dependencies, WaitOnlyForEarlierCommandsOfOtherQueues) {
  forRandomPrograms([](const std::vector<Command>& commands) {
    uint32_t issued[kQueues] = {};
    for (const Command& command : commands) {
      uint32_t mentioned = 0;
      for (const recipe::Wait& wait : command.waits) {
        ASSERT_LT(wait.signal, kQueues);
        ASSERT_NE(wait.signal, command.queue);
        ASSERT_GE(wait.value, 1u);
        ASSERT_LE(wait.value, issued[wait.signal]) << "a wait for a command that is not issued yet";
        ASSERT_FALSE(mentioned & (1u << wait.signal)) << "two waits for one signal";
        mentioned |= 1u << wait.signal;
      }
      ++issued[command.queue];
    }
  });
}

TEST(Dependencies, LetReadersOfTheSameBytesRunSideBySide) {
  Tracker tracker;
  tracker.issue(0, {{0, 0, 64, true}});
  EXPECT_EQ(tracker.issue(1, {{0, 0, 64, false}}).size(), 1u);
  EXPECT_EQ(tracker.issue(2, {{0, 0, 64, false}}).size(), 1u);
  EXPECT_TRUE(tracker.issue(1, {{0, 16, 32, false}}).empty());
  // The next writer waits for both readers, and through them for the first writer.
  std::vector<recipe::Wait> waits = tracker.issue(0, {{0, 0, 64, true}});
  ASSERT_EQ(waits.size(), 2u);
  EXPECT_EQ(waits[0].signal, 1u);
  EXPECT_EQ(waits[0].value, 2u);
  EXPECT_EQ(waits[1].signal, 2u);
  EXPECT_EQ(waits[1].value, 1u);
}

TEST(Dependencies, LeaveDisjointBytesAndOtherSectionsAlone) {
  Tracker tracker;
  tracker.issue(0, {{1, 0, 64, true}});
  EXPECT_TRUE(tracker.issue(1, {{1, 64, 128, true}}).empty());
  EXPECT_TRUE(tracker.issue(2, {{0, 0, 64, true}}).empty());
}

TEST(Dependencies, OverlapTwoStagesOfADoubleBufferedPipeline) {
  // Queue 0 fills slot i % 2, queue 1 empties it: the producer runs at most two slices ahead.
  Tracker tracker;
  for (int64_t i = 0; i < 6; ++i) {
    int64_t slot = i % 2 * 64;
    std::vector<recipe::Wait> fill = tracker.issue(0, {{0, slot, slot + 64, true}});
    if (i < 2) {
      EXPECT_TRUE(fill.empty()) << "slice " << i;
    } else {
      ASSERT_EQ(fill.size(), 1u) << "slice " << i;
      EXPECT_EQ(fill[0].signal, 1u);
      EXPECT_EQ(fill[0].value, static_cast<uint32_t>(i - 1));
    }
    std::vector<recipe::Wait> drain = tracker.issue(1, {{0, slot, slot + 64, false}});
    ASSERT_EQ(drain.size(), 1u);
    EXPECT_EQ(drain[0].signal, 0u);
    EXPECT_EQ(drain[0].value, static_cast<uint32_t>(i + 1));
  }
}

}  // namespace
}  // namespace hpu::plan
