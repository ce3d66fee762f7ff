// SPDX-License-Identifier: Apache-2.0
// ShmTransport: the transport among ranks of one machine, in one process or in several: peers map
// each other's device memory; descriptors, small messages and calls lie in memory that all share.
// The one thing to know: it costs no copy and no thread but one a process, and nothing is left of
// it however its processes end.
//
//   ShmOptions options{"training", rank, ranks, device.info().index};
//   options.allGather = [&](const std::string& phase, const std::string& mine) {
//     return bootstrap->allGather(phase, mine, deadline);
//   };
//   HPU_ASSIGN(std::shared_ptr<Transport> transport, createShmTransport(options));
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "collectives/transport/Transport.h"

namespace hpu::collectives {

struct ShmOptions {
  std::string identity;  ///< The communicator's name, for errors.
  int rank = 0, ranks = 1;
  /// Of this rank, a device of the node that this process owns and keeps open; several ranks may
  /// have one device. -1: none (small messages and calls only).
  int deviceIndex = -1;
  /// What the ranks are called in errors, when they are a part of a communicator's; empty: by their numbers here.
  std::vector<int32_t> names;
  int64_t timeoutMs = -1;  ///< Of the creation; < 0: HPU_COMM_INIT_TIMEOUT_MS.
  /// Every rank's text, by rank; called twice, with the same phases on every rank.
  std::function<StatusOr<std::vector<std::string>>(const std::string& phase, const std::string& mine)> allGather;
};

inline constexpr int kMaxShmRanks = 256;

/// Every rank calls it. When it fails for one, it fails for all, with an error that names the rank:
/// kInvalidArgument, kFailedPrecondition (a rank of another machine, network namespace or user; a
/// device that its rank's process does not own), kDeadlineExceeded, kUnavailable (a process ended),
/// kResourceExhausted, kDataLoss (ranks of different versions), and those of allGather.
StatusOr<std::shared_ptr<Transport>> createShmTransport(const ShmOptions& options);

}  // namespace hpu::collectives
