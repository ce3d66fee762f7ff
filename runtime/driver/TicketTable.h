// SPDX-License-Identifier: Apache-2.0
// TicketTable: what is known about the tickets that are not done.
// The one thing to know: tickets are numbered without gaps, so they are found by their number, and a long backlog never
// has to be moved to a larger table while a program enqueues.
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <memory>
#include <utility>

#include "runtime/driver/Driver.h"

namespace hpu::driver {

/// Of an Entry that can be made without arguments. Not for several threads at a time.
template <typename Entry>
class TicketTable {
 public:
  /// Null when there is none.
  Entry* find(Ticket ticket) {
    Chunk* chunk = chunkOf(ticket);
    if (!chunk || !chunk->known[ticket % kChunk]) return nullptr;
    return &chunk->entries[ticket % kChunk];
  }
  bool contains(Ticket ticket) const { return const_cast<TicketTable*>(this)->find(ticket) != nullptr; }
  size_t size() const { return size_; }

  /// A new entry of a ticket that is no earlier than any that is there. Throws std::bad_alloc; nothing has changed
  /// then.
  Entry& add(Ticket ticket) {
    if (chunks_.empty()) first_ = ticket / kChunk;
    while (first_ + chunks_.size() <= ticket / kChunk) chunks_.emplace_back();
    std::unique_ptr<Chunk>& chunk = chunks_[ticket / kChunk - first_];
    if (!chunk) chunk = spare_ ? std::move(spare_) : std::make_unique<Chunk>();
    chunk->known[ticket % kChunk] = true;
    ++chunk->count;
    ++size_;
    return chunk->entries[ticket % kChunk];
  }
  void erase(Ticket ticket) {
    if (!find(ticket)) return;
    std::unique_ptr<Chunk>& chunk = chunks_[ticket / kChunk - first_];
    chunk->entries[ticket % kChunk] = Entry();
    chunk->known[ticket % kChunk] = false;
    --size_;
    if (--chunk->count > 0) return;
    spare_ = std::move(chunk);
    while (!chunks_.empty() && !chunks_.front()) {
      chunks_.pop_front();
      ++first_;
    }
  }

 private:
  static constexpr Ticket kChunk = 256;
  struct Chunk {
    std::array<Entry, kChunk> entries{};
    std::array<bool, kChunk> known{};
    size_t count = 0;
  };
  Chunk* chunkOf(Ticket ticket) {
    const Ticket chunk = ticket / kChunk;
    return chunk < first_ || chunk - first_ >= chunks_.size() ? nullptr : chunks_[chunk - first_].get();
  }
  std::deque<std::unique_ptr<Chunk>> chunks_;  ///< From first_ on; null: all of its tickets are done, or none came yet.
  std::unique_ptr<Chunk> spare_;
  Ticket first_ = 0;
  size_t size_ = 0;
};

}  // namespace hpu::driver
