// SPDX-License-Identifier: Apache-2.0
// LocalTransport: ranks that are threads of one process, with a lock and no tricks. What other
// transports are compared with, and what tests of their users run on: its peers can be made to die,
// stop or lag.
//
//   auto group = LocalGroup::create({{a.data(), 0x1000, size}, {b.data(), 0x1000, size}});
//   std::shared_ptr<Transport> rank0 = group->transport(0), rank1 = group->transport(1);
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "collectives/transport/Transport.h"

namespace hpu::collectives {

/// The "device memory" of a rank: the test's, at device addresses from `base`.
struct LocalMemory {
  std::byte* data = nullptr;
  uint64_t base = 0;
  int64_t bytes = 0;
};
/// Small numbers make a test meet full lanes and unretired records.
struct LocalOptions {
  int64_t smallBytes = 1024;
  uint64_t laneMessages = 16;
  uint64_t records = 8;
  /// What ranks are called in errors, when they are a part of others; empty: by their numbers here.
  std::vector<int32_t> names;
};

/// Any thread may call anything.
class LocalGroup {
 public:
  static std::shared_ptr<LocalGroup> create(std::vector<LocalMemory> memories, LocalOptions options = {});
  virtual ~LocalGroup() = default;
  /// One for each rank, once; it lives on without the group, and is a rank that has left when it is
  /// destroyed.
  virtual std::shared_ptr<Transport> transport(int rank) = 0;
  /// As if the rank's process had been killed: what it does from now on is not seen.
  virtual void kill(int rank) = 0;
  /// As if the rank's process had been stopped: its heartbeat stands still. What it does is seen.
  virtual void stop(int rank, bool stopped = true) = 0;
};

}  // namespace hpu::collectives
