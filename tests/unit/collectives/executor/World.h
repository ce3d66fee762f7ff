// SPDX-License-Identifier: Apache-2.0
// Ranks in one process for tests of the executor: memory, a transport and an executor each, and
// collectives that check themselves.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "collectives/executor/Executor.h"
#include "collectives/transport/local/LocalTransport.h"

namespace hpu::collectives::testing {

/// Where an operation's end arrives.
class Outcome {
 public:
  OperationDone done() {
    return [state = state_](OperationResult result) {
      std::lock_guard lock(state->mutex);
      state->times++;
      state->result = std::move(result);
      state->changed.notify_all();
    };
  }
  bool arrived() const {
    std::lock_guard lock(state_->mutex);
    return state_->times > 0;
  }
  /// Waits; kUnknown when nothing comes for half a minute.
  OperationResult wait() const;
  int times() const {
    std::lock_guard lock(state_->mutex);
    return state_->times;
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    int times = 0;
    OperationResult result;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

struct WorldRank {
  std::vector<std::byte> memory;
  uint64_t base = 0;
  std::shared_ptr<Transport> transport;
  std::shared_ptr<Executor> executor;
  uint64_t sequence = 0;  ///< Of its last collective.
  std::byte* at(uint64_t address) { return memory.data() + (address - base); }
};

struct Call {
  Collective collective = Collective::kAllReduce;
  int64_t count = 0;
  ElementType type = ElementType::kF32;
  ReduceOp op = ReduceOp::kSum;
  int root = 0, destination = 0;
  std::string algorithm = "mesh";
  int slices = 1;
  bool inPlace = false;
  /// Small whole numbers, so that the order of combination does not matter; else any bits.
  bool exact = true;
  bool scaled = false;
  int64_t timeoutMs = 20000;
};

class World {
 public:
  explicit World(int ranks, LocalOptions options = {}, size_t bytes = 1 << 20);
  int size() const { return static_cast<int>(ranks_.size()); }
  WorldRank& rank(int index) { return ranks_[static_cast<size_t>(index)]; }
  LocalGroup& group() { return *group_; }

  Problem problem(const Call& call) const;
  std::shared_ptr<const Schedule> schedule(const Call& call);
  /// The operation of one rank with addresses in its half of memory, and its sequence counted.
  CollectiveOperation operation(int rank, const Call& call, const Call& asScheduled);
  CollectiveOperation operation(int rank, const Call& call) { return operation(rank, call, call); }
  /// Fills the inputs, runs it on all ranks, checks all outputs, bytes around them and arrivals.
  void runAndCheck(const Call& call, std::mt19937_64& random);
  /// The same in two parts, for operations that are in flight together: at `slot` of `slots`.
  struct Expected;
  std::shared_ptr<Expected> prepare(const Call& call, std::mt19937_64& random);
  void check(const Expected& expected, std::vector<OperationResult> results);

 private:
  std::shared_ptr<LocalGroup> group_;
  std::vector<WorldRank> ranks_;
  std::vector<std::pair<Call, std::shared_ptr<const Schedule>>> schedules_;
};

std::string callText(const Call& call);

}  // namespace hpu::collectives::testing
