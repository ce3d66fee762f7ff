// SPDX-License-Identifier: Apache-2.0
// Segment: the memory that the ranks of a communicator share, mapped once in a process.
// The one thing to know: it has no name in any file system; it is there as long as a process maps
// it, and a process that was forked off has no part in it.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/Deadline.h"
#include "collectives/transport/shm/Layout.h"
#include "hpu/status.h"
#include "runtime/node/Protocol.h"

namespace hpu::collectives::shm {

using SegmentId = std::array<uint8_t, 16>;

/// Any thread may call anything.
class Segment {
 public:
  /// A new one, with a random id; `file` takes what others map.
  static StatusOr<std::shared_ptr<Segment>> create(int ranks, node::Fd& file);
  /// Somebody else's. Errors: kDataLoss (not that segment).
  static StatusOr<std::shared_ptr<Segment>> map(node::Fd file, int ranks, const SegmentId& id);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  const SegmentId& id() const { return id_; }
  const Geometry& geometry() const { return geometry_; }
  int ranks() const { return static_cast<int>(geometry_.ranks); }
  Header& header() const { return *at<Header>(0); }
  RankBlock& block(int rank) const { return *at<RankBlock>(geometry_.blockAt(static_cast<uint64_t>(rank))); }
  std::byte* ring(int from, int to, Lane lane) const {
    return at<std::byte>(
        geometry_.ringAt(static_cast<uint64_t>(from), static_cast<uint64_t>(to), static_cast<uint64_t>(lane)));
  }

  /// Tells a rank that something has changed for it; urgent: however many changes it waits for.
  void ring(int rank, bool urgent = false) const { block(rank).doorbell.ring(urgent); }
  void ringAll(int except, bool urgent = false) const;
  /// A rank that is present is now in the state given; false: it has ended before.
  bool end(int rank, RankState state) const;

 private:
  Segment(std::byte* data, int ranks, const SegmentId& id);
  template <typename T>
  T* at(uint64_t offset) const {
    return reinterpret_cast<T*>(data_ + offset);
  }
  std::byte* const data_;
  const Geometry geometry_;
  const SegmentId id_;
  const uint32_t generation_;
};

/// Changes in a process that was forked off: what was mapped is not there.
uint32_t forkGeneration();

}  // namespace hpu::collectives::shm
