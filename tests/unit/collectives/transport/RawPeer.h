// SPDX-License-Identifier: Apache-2.0
// RawPeer: a socket that speaks to a TCP network byte by byte, as others may.
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/transport/net/TcpWire.h"
#include "tests/unit/collectives/transport/Links.h"

namespace hpu::collectives::net {

class RawPeer {
 public:
  explicit RawPeer(const Address& to) : fd_(::socket(to.v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_storage storage;
    const socklen_t size = toSockaddr(to, storage);
    EXPECT_EQ(::connect(fd_, reinterpret_cast<sockaddr*>(&storage), size), 0);
  }
  /// Takes over an accepted socket.
  explicit RawPeer(int fd) : fd_(fd) {}
  ~RawPeer() { end(); }
  RawPeer(const RawPeer&) = delete;
  RawPeer& operator=(const RawPeer&) = delete;

  void end() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  void reset() {
    const linger now{1, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    end();
  }
  /// False: the other end is gone.
  bool say(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }
  /// Says it, and proves that it knows `secret`; what it said, so that it can be said again.
  std::string greet(const tcp::DoorNumber& door, const std::string& hello, const Secret& secret = {}) {
    const Challenge own = randomChallenge().value();
    std::string greeting = tcp::encodeGreeting(door, own, hello);
    say(greeting);
    const std::string heard = hear(tcp::kAnswerBytes + sizeof(Challenge));
    if (heard.size() != tcp::kAnswerBytes + sizeof(Challenge)) return greeting;
    Challenge theirs;
    std::copy(heard.begin() + tcp::kAnswerBytes, heard.end(), theirs.begin());
    std::string said;
    const Meeting meeting = tcp::meetingOf(door, hello, own, theirs, said);
    const Proof proof = prove(secret, Side::kDialler, meeting);
    awaited_ = prove(secret, Side::kListener, meeting);
    const std::string text(reinterpret_cast<const char*>(proof.data()), proof.size());
    say(text);
    return greeting + text;
  }
  /// What comes when a link that was greeted is up.
  std::string welcome() const {
    const auto answer = tcp::encodeAnswer(tcp::Answer::kWelcome);
    return textOf(answer) + std::string(reinterpret_cast<const char*>(awaited_.data()), awaited_.size());
  }

  /// Up to `most` bytes; less: the end of the connection, or so long without a byte ("(silence)" behind them).
  std::string hear(size_t most, int patienceMs = 20000) {
    std::string heard;
    while (heard.size() < most) {
      pollfd entry{fd_, POLLIN, 0};
      if (::poll(&entry, 1, patienceMs) <= 0) return heard + "(silence)";
      char buffer[65536];
      const ssize_t got = ::recv(fd_, buffer, std::min(sizeof buffer, most - heard.size()), 0);
      if (got <= 0) return heard;
      heard.append(buffer, static_cast<size_t>(got));
    }
    return heard;
  }

 private:
  Proof awaited_{};
  int fd_;
};

inline std::string rawFrame(std::string_view frame) {
  std::string bytes(tcp::kHeaderBytes, '\0');
  tcp::encodeHeader({static_cast<uint16_t>(frame.size()), {}, 0}, reinterpret_cast<std::byte*>(bytes.data()));
  return bytes + std::string(frame);
}
inline std::string rawWriteHeader(const Window& to, uint64_t bytes, std::string_view frame) {
  std::string header(tcp::kHeaderBytes, '\0');
  tcp::encodeHeader({static_cast<uint16_t>(frame.size()), to, bytes}, reinterpret_cast<std::byte*>(header.data()));
  return header;
}
inline std::string rawTrailer(bool givenUp = false) {
  return givenUp ? std::string("\1\0\0\0\0\0\0\0", 8) : std::string(8, '\0');
}

/// What a peer heard, as words: "frame x", "write 5", "data 5", "given up", or the error.
inline std::vector<std::string> wordsOf(std::string_view heard) {
  std::vector<std::string> words;
  tcp::MessageReader reader;
  auto input = bytesOf(heard);
  for (uint64_t data = 0;;) {
    auto item = reader.next(input);
    if (!item.ok()) {
      words.push_back(item.status().message());
      return words;
    }
    using Kind = tcp::MessageReader::Kind;
    if (item->kind == Kind::kNothing) return words;
    if (item->kind == Kind::kData) {
      data += item->bytes.size();
      continue;
    }
    if (data > 0) words.push_back("data " + std::to_string(std::exchange(data, 0)));
    if (item->kind == Kind::kWrite) words.push_back("write " + std::to_string(reader.header().bytes));
    if (item->kind == Kind::kFrame) words.push_back("frame " + textOf(item->bytes));
    if (item->kind == Kind::kGivenUp) words.push_back("given up");
  }
}

/// A link of this process to a raw peer, which is up.
struct RawEnds {
  std::shared_ptr<Recorder> events = std::make_shared<Recorder>();
  std::unique_ptr<RawPeer> peer;
  std::shared_ptr<Link> link;

  explicit RawEnds(const std::shared_ptr<Network>& network) {
    Doorway door(network);
    const tcp::Place place = tcp::decodePlace(door.address()).value();
    peer = std::make_unique<RawPeer>(place.address);
    peer->greet(place.door, "raw");
    link = door.next();
    EXPECT_NE(link, nullptr);
    if (!link) return;
    link->start(events);
    EXPECT_EQ(peer->hear(peer->welcome().size()), peer->welcome());
  }
};

}  // namespace hpu::collectives::net
