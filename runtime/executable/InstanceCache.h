// SPDX-License-Identifier: Apache-2.0
// InstanceCache: the instances of a recipe of free dimensions, by the shapes of a launch's inputs; of a variant of the
// recipe where it has one for them. When sizes change in equal steps, the plan of the bucket that they come to next is
// made ahead, by the device's background thread.
// The one thing to know: an instance that is dropped for others lives on while launches or captures use it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "hpu/status.h"
#include "hpu/types.h"
#include "plan/Instantiate.h"
#include "runtime/executable/Instance.h"
#include "runtime/executable/SizeForecast.h"

namespace hpu {

/// The sizes of a launch of a program of free dimensions; `inputs` here and below as recipe::launchNumbers gives them.
/// Errors: solveSizes'.
StatusOr<recipe::Sizes> launchSizes(const recipe::Program& program, const std::vector<Shape>& inputs);

/// Any thread may call anything. Instances for different sizes are made beside each other.
class InstanceCache {
 public:
  /// Instances that are kept, those used last. Sizes that come for the first time take few places among them: a
  /// sequence that grows step by step asks for each size once, and its steps run in the memory of the last few.
  static constexpr size_t kMost = 64, kMostNew = 8;
  /// Sizes that are known to have been here, of those that were dropped.
  static constexpr size_t kMostKnown = 64;
  /// Sizes planned ahead that are remembered, so that nobody asks for them again.
  static constexpr size_t kMostAhead = 8;

  /// `representative`: the recipe's own program, loaded, which no launch runs. Instances share what the driver made of
  /// its constants and kernels.
  InstanceCache(std::shared_ptr<DeviceState> device, std::shared_ptr<Instance> representative,
                std::shared_ptr<const recipe::Program> program);
  /// Waits for a plan that is being made ahead.
  ~InstanceCache();
  InstanceCache(const InstanceCache&) = delete;
  InstanceCache& operator=(const InstanceCache&) = delete;

  /// Errors: solveSizes' (kInvalidArgument), plan::instantiate's and the driver's.
  StatusOr<std::shared_ptr<Instance>> get(const std::vector<Shape>& inputs);

 private:
  struct Entry {
    uint64_t hash = 0;
    uint64_t lastUse = 0;
    bool isNew = false;  ///< It was used at one time, and its sizes were not known.
    std::vector<Shape> inputs;
    std::shared_ptr<Instance> instance;
  };
  std::shared_ptr<Instance> find(uint64_t hash, const std::vector<Shape>& inputs);
  Entry takeOldest(bool isNew);
  StatusOr<std::shared_ptr<Instance>> make(const std::vector<Shape>& inputs);
  void planAhead(const std::vector<Shape>& inputs, const recipe::Sizes& sizes);

  const std::shared_ptr<DeviceState> device_;
  const std::shared_ptr<Instance> representative_;
  const std::shared_ptr<const recipe::Program> program_;
  const bool looksAhead_;
  plan::Instances planned_;
  std::vector<std::unique_ptr<plan::Instances>> variants_;  ///< By variant; null: of one whose sizes are all fixed.
  std::mutex mutex_;                                        // Guards the rest.
  std::vector<std::shared_ptr<Instance>> first_;            ///< By variant, the one that its others are like.
  std::vector<Entry> entries_;
  std::deque<uint64_t> known_;  ///< Hashes of sizes that were dropped as new.
  uint64_t uses_ = 0;
  SizeForecast forecast_;
  std::deque<recipe::Sizes> ahead_;  ///< Those planned ahead last.
  bool isPlanning_ = false;          ///< The thread has a job of this, which has one at most.
};

}  // namespace hpu
