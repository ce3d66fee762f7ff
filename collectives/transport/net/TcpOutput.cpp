// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/net/TcpOutput.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <iterator>

#include "base/Format.h"
#include "collectives/transport/net/TcpWire.h"

namespace hpu::collectives::net::tcp {
namespace {

constexpr size_t kMostKept = size_t{512} << 10;  ///< Bytes of frames and headers.
constexpr size_t kMostWrites = 64;
constexpr size_t kMostJoined = size_t{64} << 10;  ///< Of frames that are one piece.
/// Of one call of the system, so that who waits for the lock waits for less than a millisecond.
constexpr size_t kMostAtOnce = size_t{1} << 20;
constexpr std::array<std::byte, size_t{64} << 10> kZeros{};

/// What the socket took of the pieces; 0: nothing now. Errors: the connection's.
StatusOr<size_t> sendPieces(int fd, std::span<iovec> pieces) {
  msghdr message{};
  message.msg_iov = pieces.data();
  message.msg_iovlen = pieces.size();
  for (;;) {
    const ssize_t sent = ::sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) return static_cast<size_t>(sent);
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS || errno == ENOMEM) return size_t{0};
    return unavailable("the connection broke: " + base::errnoText(errno));
  }
}

iovec part(const void* bytes, size_t size) {
  return {const_cast<void*>(bytes), size};
}

void append(std::vector<std::byte>& out, std::span<const std::byte> bytes) {
  out.insert(out.end(), bytes.begin(), bytes.end());
}

std::array<std::byte, kHeaderBytes> frameHeader(std::span<const std::byte> frame) {
  std::array<std::byte, kHeaderBytes> header;
  encodeHeader({static_cast<uint16_t>(frame.size()), {}, 0}, header.data());
  return header;
}

}  // namespace

bool TcpOutput::hasRoom(size_t frameBytes, bool write) const {
  return kept_ + kHeaderBytes + kTrailerBytes + frameBytes <= kMostKept && (!write || writes_ < kMostWrites);
}

bool TcpOutput::hasPlenty() const {
  return kept_ <= kMostKept / 2 && writes_ <= kMostWrites / 2;
}

void TcpOutput::addBytes(std::span<const std::byte> bytes) {
  if (queue_.empty() || queue_.back().isWrite || queue_.back().bytes.size() + bytes.size() > kMostJoined)
    queue_.emplace_back();
  Piece& piece = queue_.back();
  append(piece.bytes, bytes);
  piece.before = piece.bytes.size();
  kept_ += bytes.size();
}

void TcpOutput::addFrame(std::span<const std::byte> frame) {
  addBytes(frameHeader(frame));
  addBytes(frame);
}

void TcpOutput::addWrite(uint64_t id, const std::byte* data, int64_t bytes, const Window& to,
                         std::span<const std::byte> frame) {
  Piece& piece = queue_.emplace_back();
  piece.bytes.resize(kHeaderBytes + kTrailerBytes);
  encodeHeader({static_cast<uint16_t>(frame.size()), to, static_cast<uint64_t>(bytes)}, piece.bytes.data());
  encodeTrailer(false, &piece.bytes[kHeaderBytes]);
  append(piece.bytes, frame);
  piece.before = kHeaderBytes;
  piece.data = data;
  piece.left = static_cast<uint64_t>(bytes);
  piece.id = id;
  piece.isWrite = true;
  kept_ += piece.bytes.size();
  ++writes_;
}

Status TcpOutput::sendFrame(int fd, std::span<const std::byte> frame) {
  const auto header = frameHeader(frame);
  std::array<iovec, 2> parts = {part(header.data(), header.size()), part(frame.data(), frame.size())};
  auto sent = sendPieces(fd, parts);
  if (!sent.ok()) return sent.status();
  if (*sent < header.size()) addBytes(std::span(header).subspan(*sent));
  if (*sent < header.size() + frame.size()) addBytes(frame.subspan(*sent - std::min(*sent, header.size())));
  return okStatus();
}

bool TcpOutput::advance(Piece& piece, size_t& sent) {
  auto take = [&](size_t most) {
    const size_t taken = std::min(sent, most);
    sent -= taken;
    return taken;
  };
  if (piece.sent < piece.before) piece.sent += take(piece.before - piece.sent);
  if (piece.sent < piece.before) return false;
  const size_t data = take(static_cast<size_t>(std::min<uint64_t>(piece.left, SIZE_MAX)));
  if (piece.data) piece.data += data;
  piece.left -= data;
  if (piece.left > 0) return false;
  piece.sent += take(piece.bytes.size() - piece.sent);
  return piece.sent == piece.bytes.size();
}

Status TcpOutput::flush(int fd, size_t budget, std::vector<uint64_t>& written) {
  while (!queue_.empty() && budget > 0) {
    std::array<iovec, 48> parts;
    size_t count = 0, total = 0;
    auto add = [&](const void* bytes, size_t size) {
      if (size > 0) parts[count++] = part(bytes, size);
      total += size;
    };
    for (const Piece& piece : queue_) {
      if (count + 3 > parts.size() || total >= kMostAtOnce) break;
      if (piece.sent < piece.before) add(&piece.bytes[piece.sent], piece.before - piece.sent);
      const auto data = static_cast<size_t>(
          std::min<uint64_t>(piece.left, piece.data ? kMostAtOnce - std::min(total, kMostAtOnce) : kZeros.size()));
      add(piece.data ? piece.data : kZeros.data(), data);
      if (data < piece.left) break;
      const size_t behind = std::max(piece.sent, piece.before);
      if (behind < piece.bytes.size()) add(&piece.bytes[behind], piece.bytes.size() - behind);
    }
    auto sent = sendPieces(fd, std::span(parts).first(count));
    if (!sent.ok()) return sent.status();
    budget -= std::min(budget, *sent);
    for (size_t left = *sent; !queue_.empty();) {
      Piece& piece = queue_.front();
      const bool had = piece.left > 0 && piece.data;
      const bool out = advance(piece, left);
      if (had && piece.left == 0) written.push_back(piece.id);
      if (!out) break;
      kept_ -= piece.bytes.size();
      if (piece.isWrite) --writes_;
      queue_.pop_front();
    }
    if (*sent < total) break;  // The socket is full.
  }
  return okStatus();
}

void TcpOutput::giveUpWrites() {
  std::erase_if(queue_, [&](Piece& piece) {
    if (!piece.isWrite || (piece.sent > 0 && piece.left == 0)) return false;
    if (piece.sent == 0) {
      kept_ -= piece.bytes.size();
      --writes_;
      return true;
    }
    piece.data = nullptr;
    kept_ -= piece.bytes.size() - (piece.before + kTrailerBytes);
    piece.bytes.resize(piece.before + kTrailerBytes);
    encodeTrailer(true, &piece.bytes[piece.before]);
    return false;
  });
}

void TcpOutput::clear() {
  queue_.clear();
  kept_ = writes_ = 0;
}

}  // namespace hpu::collectives::net::tcp
