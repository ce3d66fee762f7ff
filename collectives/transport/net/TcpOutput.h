// SPDX-License-Identifier: Apache-2.0
// TcpOutput: what a link has taken and its socket has not: frames, which are kept, and writes, whose data stays the
// caller's.
// The one thing to know: its owner holds a lock around every call; no call waits. Bounded: a frame or write beyond
// that is to be refused (hasRoom).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "collectives/transport/net/Network.h"
#include "hpu/status.h"

namespace hpu::collectives::net::tcp {

class TcpOutput {
 public:
  bool empty() const { return queue_.empty(); }
  /// For a frame of so many bytes, or a write with it.
  bool hasRoom(size_t frameBytes, bool write) const;
  /// Much of it is free: who was refused may come again.
  bool hasPlenty() const;

  void addBytes(std::span<const std::byte> bytes);
  void addFrame(std::span<const std::byte> frame);
  void addWrite(uint64_t id, const std::byte* data, int64_t bytes, const Window& to, std::span<const std::byte> frame);

  /// As addFrame(), and tries the socket first, without a copy; when nothing is before it. Errors: the connection's.
  Status sendFrame(int fd, std::span<const std::byte> frame);
  /// Sends until the socket takes no more or about `budget` bytes; adds the ids of writes whose data went out whole.
  /// Errors: the connection's.
  Status flush(int fd, size_t budget, std::vector<uint64_t>& written);

  /// No caller's data is read any more: writes that have not begun are gone, the one that has is filled up with zeros
  /// and given up.
  void giveUpWrites();
  void clear();

 private:
  struct Piece {
    std::vector<std::byte> bytes;     ///< Before the data, then behind it.
    size_t before = 0;                ///< Of `bytes`.
    size_t sent = 0;                  ///< Of `bytes`.
    const std::byte* data = nullptr;  ///< Null with `left`: zeros.
    uint64_t left = 0;
    uint64_t id = 0;
    bool isWrite = false;
  };
  /// Takes `sent` bytes from it, as far as it has them; true when it is out.
  static bool advance(Piece& piece, size_t& sent);

  std::deque<Piece> queue_;
  size_t kept_ = 0;    ///< Bytes of them.
  size_t writes_ = 0;  ///< Of them.
};

}  // namespace hpu::collectives::net::tcp
