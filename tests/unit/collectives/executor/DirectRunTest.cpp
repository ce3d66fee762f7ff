// SPDX-License-Identifier: Apache-2.0
// Whose parts a rank takes when: rank 2 of 4 where there are two CPUs, so that 0 and 1 have shares.
#include "collectives/executor/DirectRun.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <thread>
#include <utility>

#include "collectives/executor/Calls.h"
#include "collectives/transport/local/LocalTransport.h"

namespace hpu::collectives {
namespace {

constexpr int kRanks = 4, kMe = 2;
constexpr int64_t kCount = 256 << 10, kBytes = 2 << 20;
constexpr uint64_t kInput = 0x10000, kOutput = kInput + (1 << 20);

using Memories = std::array<std::vector<std::byte>, kRanks>;

/// The shares as one process has them; what it takes for others is set by hand.
class Shares final : public SharedWork {
 public:
  explicit Shares(Memories& memories) : memories_(memories) {}
  std::byte* memory(int rank, uint64_t deviceAddress, int64_t) const override {
    return memories_[static_cast<size_t>(rank)].data() + (deviceAddress - kInput);
  }
  void prepare(int, const std::byte*, int64_t) const override {}
  int cpus() const override { return 2; }
  uint32_t take(int rank, uint64_t) override { return taken[static_cast<size_t>(rank)]++; }
  void finish(int rank, uint64_t, bool done) override {
    if (done) ++done_[static_cast<size_t>(rank)];
  }
  uint32_t finished(int rank, uint64_t) const override { return done_[static_cast<size_t>(rank)]; }
  bool works(int, uint64_t) const override { return false; }
  bool allPresent() const override { return true; }
  void ringFirst(int) override {}
  void keepWhileWorking(uint64_t, std::shared_ptr<const void>) override {}

  uint32_t allTaken() const { return taken[0] + taken[1] + taken[2] + taken[3]; }
  std::array<uint32_t, kRanks> taken{};

 private:
  Memories& memories_;
  std::array<uint32_t, kRanks> done_{};
};

/// A local transport whose ranks share work.
class Sharing final : public Transport {
 public:
  Sharing(std::shared_ptr<Transport> base, SharedWork& work) : base_(std::move(base)), work_(work) {}
  SharedWork* sharedWork() override { return &work_; }

  std::string_view name() const override { return base_->name(); }
  int rank() const override { return base_->rank(); }
  int ranks() const override { return base_->ranks(); }
  std::byte* local(uint64_t address, int64_t bytes) const override { return base_->local(address, bytes); }
  bool holds(const std::byte* data, int64_t bytes) const override { return base_->holds(data, bytes); }
  StatusOr<Offered> offer(int peer, Lane lane, const std::byte* data, int64_t bytes, const MessageTag& tag) override {
    return base_->offer(peer, lane, data, bytes, tag);
  }
  int64_t smallBytes() const override { return base_->smallBytes(); }
  uint64_t released(int peer, Lane lane) const override { return base_->released(peer, lane); }
  std::optional<Arrived> arrived(int peer, Lane lane, uint64_t index) override {
    return base_->arrived(peer, lane, index);
  }
  void release(int peer, Lane lane) override { base_->release(peer, lane); }
  bool publish(const CallRecord& record) override { return base_->publish(record); }
  std::optional<CallRecord> record(int peer, uint64_t sequence) const override { return base_->record(peer, sequence); }
  uint64_t lastSequence(int peer) const override { return base_->lastSequence(peer); }
  void retire(uint64_t sequence) override { base_->retire(sequence); }
  uint32_t changes() const override { return base_->changes(); }
  void waitForChange(uint32_t seen, Clock::time_point until, uint32_t atLeast) override {
    base_->waitForChange(seen, until, atLeast);
  }
  void wake() override { base_->wake(); }
  Status peerStatus(int peer) const override { return base_->peerStatus(peer); }
  bool gone(int peer) const override { return base_->gone(peer); }
  Status abortReason(int peer) const override { return base_->abortReason(peer); }
  uint64_t heartbeat(int peer) const override { return base_->heartbeat(peer); }
  void setProgressSource(std::function<uint64_t()> source) override { base_->setProgressSource(std::move(source)); }
  std::string describe(int peer) const override { return base_->describe(peer); }
  void abort(const Status& why) override { base_->abort(why); }

 private:
  const std::shared_ptr<Transport> base_;
  SharedWork& work_;
};

struct NoPause : Pace {
  bool pause() override { return false; }
};

CollectiveOperation allGather() {
  auto schedule = std::make_shared<Schedule>();
  schedule->problem.collective = Collective::kAllGather;
  schedule->problem.ranks = kRanks;
  schedule->problem.count = kCount;
  schedule->problem.elementBytes = 1;
  CollectiveOperation operation;
  operation.type = ElementType::kI8;
  operation.direct = true;
  operation.sequence = 1;
  operation.schedule = std::move(schedule);
  operation.input = kInput;
  operation.output = kOutput;
  return operation;
}

TEST(DirectRun, LeavesTheWorkToRanksWithSharesAsLongAsTheyGetOnWithIt) {
  Memories memories;
  std::vector<LocalMemory> local;
  for (int rank = 0; rank < kRanks; ++rank) {
    auto& memory = memories[static_cast<size_t>(rank)];
    memory.assign(kBytes, std::byte(rank + 1));
    local.push_back({memory.data(), kInput, kBytes});
  }
  auto group = LocalGroup::create(local);
  std::vector<std::shared_ptr<Transport>> others;
  for (int rank = 0; rank < kRanks; ++rank) {
    if (rank == kMe) continue;
    others.push_back(group->transport(rank));
    ASSERT_TRUE(others.back()->publish(recordOf(allGather(), true)));
  }
  Shares shares(memories);
  Sharing transport(group->transport(kMe), shares);
  Peers peers(transport);
  CollectiveOperation operation = allGather();
  auto plan = std::make_shared<const DirectPlan>(directPlan(operation.schedule->problem));
  ASSERT_GE(plan->firstPart(1), 2);
  DirectRun run(peers, operation);
  run.prepare(plan);
  ASSERT_TRUE(run.start().ok());

  NoPause pace;
  auto push = [&] {
    bool moved = false, paused = false;
    EXPECT_TRUE(run.push(pace, moved, paused).ok());
  };
  push();
  EXPECT_EQ(shares.allTaken(), 0u);
  EXPECT_FALSE(run.allTaken());
  EXPECT_GT(run.changesNeeded().patience.count(), 0);
  // They get on: however long that took.
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  shares.take(0, 1);
  shares.finish(0, 1, true);
  push();
  EXPECT_EQ(shares.allTaken(), 1u);
  EXPECT_FALSE(run.done());
  // They do not.
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  push();
  EXPECT_TRUE(run.done());
  EXPECT_TRUE(run.endedHere());
  EXPECT_EQ(run.changesNeeded().patience.count(), 0);
  // The first part was another rank's; all others are done, and once.
  const DirectPlan::Part first = plan->part(0);
  for (const auto& memory : memories) {
    for (int64_t i = first.count; i < kRanks * kCount; ++i) {
      const auto at = static_cast<size_t>(kOutput - kInput) + static_cast<size_t>(i);
      ASSERT_EQ(memory[at], std::byte(i / kCount + 1)) << i;
    }
  }
  run.finish();
}

}  // namespace
}  // namespace hpu::collectives
