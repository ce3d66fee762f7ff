// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "Suite.h"

namespace hpu::testing {
namespace {
using namespace collectives;
using Clock = std::chrono::steady_clock;

/// Sleeps on the transport until the peer's status is not ok.
Status awaitEnd(const Rank& rank, int peer) {
  Status status;
  rank.await("a peer's end", [&] {
    status = rank.t().peerStatus(peer);
    return !status.ok();
  });
  return status;
}
void expectNames(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "'" << text << "' does not have '" << part << "'";
}

void aborts(Rank& rank) {
  for (int peer = 0; peer < rank.ranks(); ++peer)
    EXPECT_TRUE(rank.t().peerStatus(peer).ok()) << rank.t().peerStatus(peer).message();
  rank.barrier();
  if (rank.rank() == 1) {
    rank.t().abort(dataLoss("the disk is on fire"));
    rank.t().abort(internalError("a later reason"));
  } else {
    Status status = awaitEnd(rank, 1);
    EXPECT_EQ(status.code(), StatusCode::kAborted);
    expectNames(status.message(), "rank 1");
    expectNames(status.message(), "the disk is on fire");
    std::byte byte{};
    EXPECT_EQ(rank.t().offer(1, Lane::kCollective, &byte, 1, {}).status().code(), StatusCode::kAborted);
    EXPECT_TRUE(rank.t().peerStatus(0).ok());
    EXPECT_TRUE(rank.t().peerStatus(2).ok());
  }
  rank.barrier();
}

void longReason(Rank& rank) {
  if (rank.rank() == 1) {
    rank.t().abort(internalError("begin " + std::string(100000, 'x')));
  } else {
    expectNames(awaitEnd(rank, 1).message(), "begin xxx");
  }
  rank.barrier();
}

void leaves(Rank& rank) {
  // What a rank has said stays there when it goes.
  const int64_t large = rank.t().smallBytes() + 1;
  if (rank.rank() == 1) {
    fillPattern(rank.memory(0, large), large, 5);
    EXPECT_TRUE(rank.t().offer(0, Lane::kCollective, rank.memory(0, large), 100, {}).ok());
    EXPECT_TRUE(rank.t().offer(0, Lane::kCollective, rank.memory(0, large), large, {}).ok());
    CallRecord record;
    record.sequence = 1;
    record.count = 77;
    EXPECT_TRUE(rank.t().publish(record));
    rank.transport.reset();
  } else {
    Status status = awaitEnd(rank, 1);
    EXPECT_EQ(status.code(), StatusCode::kUnavailable);
    expectNames(status.message(), "rank 1");
    auto small = rank.t().arrived(1, Lane::kCollective, 0);
    ASSERT_TRUE(small.has_value());
    EXPECT_TRUE(hasPattern(small->data, 100, 5));
    auto shared = rank.t().arrived(1, Lane::kCollective, 1);
    ASSERT_TRUE(shared.has_value());
    EXPECT_TRUE(hasPattern(shared->data, large, 5));
    rank.t().release(1, Lane::kCollective);
    rank.t().release(1, Lane::kCollective);
    EXPECT_EQ(rank.t().record(1, 1).value_or(CallRecord{}).count, 77);
    std::byte byte{};
    EXPECT_EQ(rank.t().offer(1, Lane::kCollective, &byte, 1, {}).status().code(), StatusCode::kUnavailable);
  }
  rank.barrier();
}

void dies(Rank& rank) {
  // Everybody sleeps; the death of one wakes them all.
  if (rank.rank() == 1) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    rank.die();
    return;
  }
  Status status = awaitEnd(rank, 1);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  expectNames(status.message(), "rank 1");
  expectNames(rank.t().describe(1), "rank 1");
  std::byte byte{};
  EXPECT_EQ(rank.t().offer(1, Lane::kCollective, &byte, 1, {}).status().code(), StatusCode::kUnavailable);
  // The survivors still reach each other.
  if (rank.ranks() < 3) return;
  const int other = 2 - rank.rank();
  EXPECT_TRUE(rank.t().offer(other, Lane::kPointToPoint, &byte, 1, {}).ok());
  rank.await("a survivor's message", [&] { return rank.t().arrived(other, Lane::kPointToPoint, 0).has_value(); });
  rank.t().abort(internalError("enough"));
  expectNames(awaitEnd(rank, other).message(), "enough");
}

/// Looks at a peer's heartbeat for a while: does it change?
bool beats(const Rank& rank, int peer, std::chrono::milliseconds patience) {
  uint64_t before = rank.t().heartbeat(peer);
  auto until = Clock::now() + patience;
  while (Clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (rank.t().heartbeat(peer) != before) return true;
  }
  return false;
}

void heartbeats(Rank& rank) {
  std::atomic<uint64_t> progress{1};
  rank.t().setProgressSource([&] { return progress.load(); });
  // What it was before was noticed by now, or never will be.
  std::this_thread::sleep_for(std::chrono::milliseconds(250));
  rank.barrier();
  const int peer = 1 - rank.rank();
  // A peer that lives and does nothing has no heartbeat.
  EXPECT_FALSE(beats(rank, peer, std::chrono::milliseconds(250)));
  rank.barrier();
  // One whose device advances has, though it says nothing.
  std::atomic<bool> end{false};
  std::thread device([&] {
    while (!end) {
      ++progress;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  EXPECT_TRUE(beats(rank, peer, kPatience));
  EXPECT_TRUE(beats(rank, peer, kPatience));
  rank.barrier();
  end = true;
  device.join();
  rank.t().setProgressSource({});
  // Work on the communicator is one too.
  rank.barrier();
  uint64_t before = rank.t().heartbeat(peer);
  rank.barrier();
  std::byte byte{};
  EXPECT_TRUE(rank.t().offer(peer, Lane::kReply, &byte, 1, {}).ok());
  const auto until = Clock::now() + kPatience;
  while (rank.t().heartbeat(peer) == before && Clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_NE(rank.t().heartbeat(peer), before);
  rank.barrier();
}

void stops(Rank& rank) {
  std::atomic<uint64_t> progress{0};
  rank.t().setProgressSource([&] { return ++progress; });
  rank.barrier();
  if (rank.rank() == 0) {
    EXPECT_TRUE(beats(rank, 1, kPatience));
    rank.stop(1, true);
    // What was under way when it stopped.
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_FALSE(beats(rank, 1, std::chrono::milliseconds(250)));
    expectNames(rank.t().describe(1), "stopped");
    EXPECT_TRUE(rank.t().peerStatus(1).ok());
    rank.stop(1, false);
    EXPECT_TRUE(beats(rank, 1, kPatience));
    EXPECT_EQ(rank.t().describe(1).find("stopped"), std::string::npos);
  }
  rank.barrier();
  rank.t().setProgressSource({});
}

}  // namespace

const std::vector<Case>& faultCases() {
  static const std::vector<Case> cases = {
      {"aborts", 3, aborts},
      {"longReason", 2, longReason},
      {"leaves", 2, leaves},
      {"dies", 2, dies, true},
      {"diesOf3", 3, dies, true},
      {"heartbeats", 2, heartbeats},
      {"stops", 2, stops, false, true},
  };
  return cases;
}

}  // namespace hpu::testing
