// SPDX-License-Identifier: Apache-2.0
// TcpWindows: what the peer of a link may write, and where the write that comes in now goes.
// The one thing to know: its owner holds a lock around every call, and around each use of target().
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <unordered_map>

#include "collectives/transport/net/TcpWire.h"

namespace hpu::collectives::net::tcp {

class TcpWindows {
 public:
  /// Fills in numbers that nobody can guess.
  using KeySource = void (*)(std::span<uint32_t> keys);
  static void randomKeys(std::span<uint32_t> keys);
  /// `keys`: another one in tests.
  explicit TcpWindows(KeySource keys = randomKeys) : keySource_(keys) {}

  Window open(std::byte* data, int64_t bytes);
  /// Of the write that comes in: the rest is dropped.
  void close(const Window& window);
  void closeAll();

  /// A write begins; one into a window that was closed is dropped. Errors: kInvalidArgument (no such window, another
  /// key, more bytes than it has).
  Status begin(const Header& header);
  /// Where the next byte of the write goes; null: nowhere.
  std::byte* target() const { return target_; }
  void took(size_t bytes) {
    if (target_) target_ += bytes;
  }
  /// It has come, or was given up.
  void end();

 private:
  struct Open {
    std::byte* data = nullptr;  ///< Null: it was closed.
    uint64_t bytes = 0;
    uint32_t key = 0;
  };
  uint32_t newKey();

  const KeySource keySource_;
  uint64_t next_ = 1, current_ = 0;
  std::byte* target_ = nullptr;
  std::unordered_map<uint64_t, Open> windows_;
  std::deque<uint64_t> closed_;  ///< Of windows_, the oldest first.
  std::array<uint32_t, 32> keys_{};
  size_t keysLeft_ = 0;
};

}  // namespace hpu::collectives::net::tcp
