// SPDX-License-Identifier: Apache-2.0
// SharedWork: what ranks need to work on a collective together where each of them can read and
// write the device memory of all.
// The one thing to know: an operation's work is cut into shares, one a rank, and each share into
// parts; whoever has time takes the next part of any share, so nobody waits for a rank that has
// none. Parts may be taken once all ranks have published the operation, until this rank retires it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace hpu::collectives {

/// Any thread may call; sequences are those of published calls.
class SharedWork {
 public:
  virtual ~SharedWork() = default;
  /// Host address of device memory of `rank`, to read and write; null when it is not all there.
  virtual std::byte* memory(int rank, uint64_t deviceAddress, int64_t bytes) const = 0;
  /// `data` of `rank`, as memory() gives it, is about to be read or written, all of it.
  virtual void prepare(int rank, const std::byte* data, int64_t bytes) const = 0;
  /// How many CPUs the ranks have together: so many of them can work at a time. Once all ranks are
  /// there.
  virtual int cpus() const = 0;
  /// Takes a part of the share of `rank`: its number, from 0. Beyond the last part: nothing is left
  /// of the share. Until `finish`, this rank is seen to work on the operation.
  virtual uint32_t take(int rank, uint64_t sequence) = 0;
  /// The part that this rank has taken last is done, or (`done` false) was none.
  virtual void finish(int rank, uint64_t sequence, bool done) = 0;
  /// How many parts of the share are done; what was written for them is seen.
  virtual uint32_t finished(int rank, uint64_t sequence) const = 0;
  /// Whether `rank` is within a part of the operation.
  virtual bool works(int rank, uint64_t sequence) const = 0;
  /// All ranks are there: none has given up, left or died.
  virtual bool allPresent() const = 0;
  /// A change for the `count` first ranks, but for this one.
  virtual void ringFirst(int count) = 0;
  /// Lets go of `memory` when no other rank works on the operation any more, or none is there to do
  /// so: a rank that was stopped within a part may yet write into it.
  virtual void keepWhileWorking(uint64_t sequence, std::shared_ptr<const void> memory) = 0;
};

}  // namespace hpu::collectives
