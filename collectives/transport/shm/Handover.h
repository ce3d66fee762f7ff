// SPDX-License-Identifier: Apache-2.0
// Handover: how the ranks of a communicator come by the one segment: rank 0 has made it; ranks of
// its process find it, others get its file over a socket, one for each process.
// The one thing to know: the socket's name is abstract and is gone when all have the file.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/Deadline.h"
#include "collectives/transport/shm/Process.h"
#include "collectives/transport/shm/Segment.h"

namespace hpu::collectives::shm {

/// What a rank tells all others first. Plain bytes.
struct RankCard {
  uint64_t magic = kMagic;
  uint32_t version = kVersion;
  int32_t deviceIndex = -1;
  int64_t memoryBytes = 0;
  ProcessCard process;
  uint8_t segment[16] = {};      ///< Rank 0's.
  node::MemoryToken grant = {};  ///< With it the others may map the device's memory, while the communicator is made.
};

/// Rank 0's part before the cards go round: the segment, and its socket.
class Giver {
 public:
  static StatusOr<std::unique_ptr<Giver>> create(int ranks);
  ~Giver();
  const std::shared_ptr<Segment>& segment() const { return segment_; }
  /// Gives the file to every other process of the cards. Errors: kDeadlineExceeded and kUnavailable
  /// (a process has ended), naming the ranks; kResourceExhausted (no descriptors).
  Status give(const std::vector<RankCard>& cards, const base::Deadline& deadline);

 private:
  Giver() = default;
  Status giveAll(const std::vector<RankCard>& cards, const base::Deadline& deadline);
  std::shared_ptr<Segment> segment_;
  node::Fd file_, listener_;
};

/// The other ranks' part, with rank 0's card. Errors: kDeadlineExceeded, kUnavailable (rank 0 has
/// ended), kResourceExhausted (no descriptors, no memory), kDataLoss.
StatusOr<std::shared_ptr<Segment>> takeSegment(const RankCard& giver, int ranks, const base::Deadline& deadline);

}  // namespace hpu::collectives::shm
