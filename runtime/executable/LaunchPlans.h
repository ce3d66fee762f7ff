// SPDX-License-Identifier: Apache-2.0
// LaunchPlans: how launches with certain addresses are done, found out once.
// The one thing to know: a plan holds as long as the program has the buffers that the addresses were found in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "hpu/executable.h"
#include "runtime/driver/Driver.h"
#include "runtime/executable/LaunchBindings.h"

namespace hpu {

class BufferState;

struct LaunchPlan {
  std::vector<uint64_t> inputs, outputs;
  uint64_t workspace = 0;
  driver::Addresses sections;  ///< Without staging.
  std::vector<std::weak_ptr<BufferState>> buffers;
  std::vector<BoundMemory> host;  ///< Tensors in host memory, without owners: these are found each time.
  std::vector<size_t> inPlace;    ///< Outputs that lie over inputs.
  bool shared = true;             ///< Uses memory that other launches use too.
  bool growing = false;           ///< Its workspace is the executable's own, which grows.

  bool isFor(const LaunchArguments& arguments) const;
};

/// The plans of one program. Any thread may call anything.
class LaunchPlans {
 public:
  static constexpr size_t kMost = 8;  ///< Of the buffers that a program takes in turns.

  /// Null: there is none.
  std::shared_ptr<const LaunchPlan> find(const LaunchArguments& arguments) const;
  /// In the place of one for the same addresses, which does not hold any more, or of the oldest.
  void keep(std::shared_ptr<const LaunchPlan> plan, const LaunchArguments& arguments);

 private:
  mutable std::mutex mutex_;  // Guards the next two.
  std::vector<std::shared_ptr<const LaunchPlan>> plans_;
  size_t next_ = 0;
};

}  // namespace hpu
