// SPDX-License-Identifier: Apache-2.0
// A rank, or who pretends to be one, as bytes on a socket: says what the test wants, in the order that it wants.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "collectives/bootstrap/Reactor.h"
#include "collectives/bootstrap/Wire.h"

namespace hpu::collectives {

class RawRank {
 public:
  explicit RawRank(const CoordinatorId& id)
      : fd_(connectTo(id.address, base::Deadline::afterMs(20000)).value()), secret_(id.secret) {
    parser_.setLimit(wire::kMaxAnswerBytes);
  }
  /// The other end of a connection that came.
  explicit RawRank(int fd, const Secret& secret) : fd_(fd), secret_(secret) {}
  ~RawRank() { ::close(fd_); }
  RawRank(const RawRank&) = delete;
  RawRank& operator=(const RawRank&) = delete;

  void say(std::string_view bytes) {
    said_ += bytes;
    (void)!::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  void say(wire::MessageType type, std::string_view payload) { say(wire::encodeFrame(type, 0, payload)); }
  /// All that this end has said.
  const std::string& said() const { return said_; }

  /// What came until the other side closed, or nothing came for a while.
  std::string hear(int patienceMs = 5000) {
    std::string heard;
    for (;;) {
      const auto piece = receive(patienceMs);
      if (!piece) return heard + " (silence)";
      if (piece->empty()) return heard;
      heard += *piece;
    }
  }
  /// The next message; nothing: the end, or silence.
  std::optional<wire::Frame> hearFrame(int patienceMs = 5000) {
    for (;;) {
      auto frame = parser_.next();
      if (!frame.ok()) return std::nullopt;
      if (frame->has_value()) return std::move(**frame);
      const auto piece = receive(patienceMs);
      if (!piece || piece->empty()) return std::nullopt;
      parser_.append(piece->data(), piece->size());
    }
  }

  /// Greets and proves itself. Whether the coordinator has proven itself, too.
  bool join(wire::Hello hello) {
    hello.challenge = own_;
    return greet(wire::MessageType::kHello, wire::encodeHello(hello));
  }
  bool greet(wire::MessageType type, const std::string& greeting) {
    say(type, greeting);
    const auto challenge = hearFrame();
    if (!challenge || challenge->type != wire::MessageType::kChallenge) return false;
    const Challenge theirs = wire::decode32(challenge->payload).value();
    const Meeting meeting = wire::meetingOf(type, greeting, own_, theirs);
    say(wire::MessageType::kProof, wire::encode32(prove(secret_, Side::kDialler, meeting)));
    const auto proven = hearFrame();
    return proven && proven->type == wire::MessageType::kProven &&
           isProof(wire::decode32(proven->payload).value(), secret_, Side::kListener, meeting);
  }
  const Challenge& challenge() const { return own_; }

 private:
  /// Empty: the end. Nothing: silence.
  std::optional<std::string> receive(int patienceMs) {
    pollfd entry{fd_, POLLIN, 0};
    if (::poll(&entry, 1, patienceMs) <= 0) return std::nullopt;
    char buffer[4096];
    const ssize_t got = ::recv(fd_, buffer, sizeof buffer, 0);
    return std::string(buffer, got > 0 ? static_cast<size_t>(got) : 0);
  }

  const int fd_;
  const Secret secret_;
  const Challenge own_ = randomChallenge().value();
  wire::Parser parser_;
  std::string said_;
};

}  // namespace hpu::collectives
