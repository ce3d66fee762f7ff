// SPDX-License-Identifier: Apache-2.0
// SectionMemory: what tensors that share bytes of a section read from one another.
// The one thing to know: a read gives the newest bytes: the tensor's own value before the graph, with every later
// write to its range, through whatever tensor, laid over it.
#pragma once

#include <vector>

#include "bindings/synapse/graph/GraphDescription.h"
#include "compose/Emitter.h"
#include "hpu/graph.h"

namespace hpu::synapse {

using compose::Emitter;

/// Where a tensor's bytes are.
struct SectionRange {
  uint32_t section = kNoSection;
  uint64_t begin = 0, end = 0;
  bool overlaps(const SectionRange& other) const {
    return section == other.section && section != kNoSection && begin < other.end && other.begin < end;
  }
  bool operator==(const SectionRange&) const = default;
};

class SectionMemory {
 public:
  void write(const SectionRange& range, Value value) { writes_.push_back({range, value}); }
  /// Whether a write covers a part of the range, of those from number `first` on.
  bool isWritten(const SectionRange& range, size_t first = 0) const;
  /// Whether reading needs no value from before: the range is covered by one write.
  bool isCovered(const SectionRange& range) const;
  /// The number of the last write that covers the whole range, from 0; numWrites() when there is none.
  size_t lastCover(const SectionRange& range) const;
  size_t numWrites() const { return writes_.size(); }
  /// The bytes of `range` as a `type`. `before` (of that type) is what was there before any write; null when
  /// isCovered. Errors go to `e`.
  Value read(Emitter& e, const SectionRange& range, const TensorType& type, Value before) const;

 private:
  struct Write {
    SectionRange range;
    Value value;
  };
  std::vector<Write> writes_;
};

}  // namespace hpu::synapse
