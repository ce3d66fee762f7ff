// SPDX-License-Identifier: Apache-2.0
// World: ranks of several nodes within the process, whose links can be cut, and which can be killed and frozen.
//
//   World world({0, 1, 1});
//   ASSERT_TRUE(world.start());
//   world.kill(1);
//   expectEnd(world, 1, StatusCode::kUnavailable, "is gone");
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "Threads.h"
#include "collectives/transport/local/LocalTransport.h"
#include "collectives/transport/local/MemoryNetwork.h"
#include "collectives/transport/net/NetTransport.h"

namespace hpu::collectives {

using Clock = std::chrono::steady_clock;
inline constexpr std::chrono::seconds kPatience{60};
inline constexpr int64_t kMemory = 1 << 20;

class World {
 public:
  explicit World(std::vector<int32_t> nodeOf) : nodeOf_(std::move(nodeOf)), gather_(ranks()) {
    memory_.assign(nodeOf_.size(), std::vector<std::byte>(kMemory));
    const int nodes = *std::max_element(nodeOf_.begin(), nodeOf_.end()) + 1;
    for (int node = 0; node < nodes; ++node) {
      std::vector<LocalMemory> memories;
      LocalOptions options;
      for (int rank = 0; rank < ranks(); ++rank) {
        if (nodeOf_[static_cast<size_t>(rank)] != node) continue;
        memories.push_back({memory_[static_cast<size_t>(rank)].data(), 0x1000, kMemory});
        options.names.push_back(rank);
      }
      members_.push_back(options.names);
      groups_.push_back(LocalGroup::create(memories, options));
    }
    for (int rank = 0; rank < ranks(); ++rank) networks_.push_back(wires_->join());
  }
  int ranks() const { return static_cast<int>(nodeOf_.size()); }
  MemoryWires& wires() { return *wires_; }
  net::Network& network(int rank) { return *networks_[static_cast<size_t>(rank)]; }
  int place(int rank) const {
    const auto& members = members_[static_cast<size_t>(nodeOf_[static_cast<size_t>(rank)])];
    return static_cast<int>(std::find(members.begin(), members.end(), rank) - members.begin());
  }
  LocalGroup& group(int rank) { return *groups_[static_cast<size_t>(nodeOf_[static_cast<size_t>(rank)])]; }
  std::byte* memory(int rank) { return memory_[static_cast<size_t>(rank)].data(); }
  int64_t silenceMs = 60000, timeoutMs = 60000;
  /// Ranks that take nobody for gone, as none does that is frozen: their threads go on here.
  std::vector<int> neverJudge;
  std::function<void(NetOptions&)> change;
  /// Right after a rank's creation, on its thread.
  std::function<void(int rank, Transport& transport)> then;

  /// What creation brings, by rank.
  std::vector<StatusOr<std::shared_ptr<Transport>>> create() {
    std::vector<StatusOr<std::shared_ptr<Transport>>> made(nodeOf_.size(), internalError("not made"));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks(); ++rank)
      threads.emplace_back([&, rank] {
        NetOptions options;
        options.identity = "test";
        options.rank = rank;
        options.ranks = ranks();
        options.nodeOf = nodeOf_;
        options.node = group(rank).transport(place(rank));
        options.network = networks_[static_cast<size_t>(rank)];
        options.timeoutMs = timeoutMs;
        const bool judges = std::find(neverJudge.begin(), neverJudge.end(), rank) == neverJudge.end();
        options.silenceMs = judges ? silenceMs : 0;
        options.allGather = [&, rank](const std::string&, const std::string& mine) { return gather_(rank, mine); };
        if (change) change(options);
        made[static_cast<size_t>(rank)] = createNetTransport(options);
        if (then && made[static_cast<size_t>(rank)].ok()) then(rank, **made[static_cast<size_t>(rank)]);
      });
    for (std::thread& thread : threads) thread.join();
    return made;
  }
  bool start() {
    for (auto& made : create()) {
      EXPECT_TRUE(made.ok()) << made.status().message();
      if (!made.ok()) return false;
      all.push_back(*made);
    }
    return true;
  }
  int nodeOf(int rank) const { return nodeOf_[static_cast<size_t>(rank)]; }
  /// Those ranks hear nothing and say nothing.
  void freeze(const std::vector<int>& ranks, bool frozen = true) {
    for (int rank : ranks) wires_->hold(network(rank), frozen);
  }
  void kill(int rank) {
    group(rank).kill(place(rank));
    wires_->kill(network(rank));
  }
  std::vector<std::shared_ptr<Transport>> all;

 private:
  const std::vector<int32_t> nodeOf_;
  std::shared_ptr<MemoryWires> wires_ = MemoryWires::create();
  std::vector<std::vector<std::byte>> memory_;
  std::vector<std::vector<int32_t>> members_;
  std::vector<std::shared_ptr<LocalGroup>> groups_;
  std::vector<std::shared_ptr<net::Network>> networks_;
  testing::ThreadGather gather_;
};

inline bool await(const std::function<bool()>& condition) {
  const auto until = Clock::now() + kPatience;
  while (!condition()) {
    if (Clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}
inline bool has(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "'" << text << "' does not have '" << part << "'";
  return true;
}
/// Every rank that is there sees that one's end.
inline void expectEnd(World& world, int ended, StatusCode code, const std::string& part) {
  for (const auto& rank : world.all) {
    if (!rank || rank->rank() == ended) continue;
    ASSERT_TRUE(await([&] { return !rank->peerStatus(ended).ok(); })) << rank->rank() << " does not know of " << ended;
    EXPECT_EQ(rank->peerStatus(ended).code(), code);
    has(rank->peerStatus(ended).message(), "rank " + std::to_string(ended));
    has(rank->peerStatus(ended).message(), part);
  }
}
inline CallRecord callOf(uint64_t sequence) {
  CallRecord record;
  record.sequence = sequence;
  record.count = static_cast<int64_t>(sequence) * 3;
  return record;
}

/// Nodes 1 and 2 have others below them in the tree: 5 to 8 are below 1.
inline std::vector<int32_t> nine() {
  return {0, 1, 2, 3, 4, 5, 6, 7, 8};
}

}  // namespace hpu::collectives
