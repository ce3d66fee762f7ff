// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/Wire.h"

#include <algorithm>
#include <utility>

#include "base/Format.h"

namespace hpu::collectives::wire {
namespace {

constexpr std::string_view kMagic = "HPUB";
constexpr size_t kMaxIntroductionBytes = 8192;  ///< Of what another version says.

uint64_t littleEndian(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes.size(); ++i) value |= uint64_t{static_cast<uint8_t>(bytes[i])} << (8 * i);
  return value;
}

Challenge challengeOf(Reader& in) {
  Challenge challenge{};
  const std::string_view bytes = in.raw(challenge.size());
  std::copy(bytes.begin(), bytes.end(), challenge.begin());
  return challenge;
}

/// It ends up in errors and logs.
std::string printable(std::string text) {
  for (char& c : text)
    if (c < ' ' || c > '~') c = '?';
  return text;
}

}  // namespace

std::string encodeFrame(MessageType type, uint64_t id, std::string_view payload, uint8_t version) {
  Writer out;
  out.raw(kMagic);
  out.u8(version);
  out.u8(static_cast<uint8_t>(type));
  out.u8(0);
  out.u8(0);
  out.u64(id);
  out.u32(static_cast<uint32_t>(payload.size()));
  out.raw(payload);
  return out.take();
}

void Parser::dropTaken() {
  pending_.erase(0, std::exchange(taken_, 0));
  constexpr size_t kKept = size_t{1} << 20;
  if (pending_.empty() && pending_.capacity() > kKept) pending_.shrink_to_fit();
}

StatusOr<std::optional<Frame>> Parser::next() {
  std::string_view bytes = std::string_view(pending_).substr(taken_);
  // Strangers are known by their first bytes, not when a header's worth has come.
  std::string_view magic = bytes.substr(0, kMagic.size());
  if (magic != kMagic.substr(0, magic.size())) return invalidArgument("not a message of a communicator's bootstrap");
  if (bytes.size() < kHeaderBytes) {
    dropTaken();
    return std::optional<Frame>();
  }
  auto version = static_cast<uint8_t>(bytes[4]);
  const auto first = static_cast<MessageType>(bytes[5]);
  const bool lasting = first == MessageType::kHello || first == MessageType::kDecline || first == MessageType::kError;
  if (version != kVersion && (!lasting || littleEndian(bytes.substr(16, 4)) > kMaxIntroductionBytes))
    return unimplemented(base::strCat("the other side speaks version ", version,
                                      " of the bootstrap and this one version ", kVersion,
                                      "; use the same release everywhere"));
  auto type = static_cast<uint8_t>(bytes[5]);
  if (type == 0 || type >= kNumMessageTypes || bytes[6] != 0 || bytes[7] != 0)
    return invalidArgument(base::strCat("a message of unknown type ", type));
  size_t length = littleEndian(bytes.substr(16, 4));
  if (length > limit_)
    return invalidArgument(base::strCat("a message of ", length, " bytes where ", limit_, " are the most"));
  if (bytes.size() < kHeaderBytes + length) {
    dropTaken();
    return std::optional<Frame>();
  }
  Frame frame;
  frame.version = version;
  frame.type = static_cast<MessageType>(type);
  frame.id = littleEndian(bytes.substr(8, 8));
  frame.payload = bytes.substr(kHeaderBytes, length);
  taken_ += kHeaderBytes + length;
  return std::optional<Frame>(std::move(frame));
}

uint64_t Reader::number(size_t bytes) {
  if (!ok_ || bytes_.size() < bytes) {
    ok_ = false;
    return 0;
  }
  uint64_t value = littleEndian(bytes_.substr(0, bytes));
  bytes_.remove_prefix(bytes);
  return value;
}

uint64_t Reader::varint() {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const uint8_t byte = u8();
    value |= uint64_t{byte & 127u} << shift;
    if (byte < 128) return value;
  }
  ok_ = false;
  return 0;
}

std::string_view Reader::raw(uint64_t bytes) {
  if (!ok_ || bytes > bytes_.size()) {
    ok_ = false;
    return {};
  }
  const std::string_view value = bytes_.substr(0, bytes);
  bytes_.remove_prefix(bytes);
  return value;
}

std::string Reader::text(size_t limit) {
  size_t size = u32();
  if (!ok_ || size > limit || size > bytes_.size()) {
    ok_ = false;
    return {};
  }
  std::string value(bytes_.substr(0, size));
  bytes_.remove_prefix(size);
  return value;
}

Status Reader::status() {
  uint8_t code = u8();
  std::string message = text(8192);
  if (!ok_) return invalidArgument("a malformed message of the bootstrap");
  // One line in errors and logs, and nothing that a terminal would obey.
  for (char& c : message)
    if ((c >= 0 && c < ' ') || c == 127) c = '?';
  if (code > static_cast<uint8_t>(StatusCode::kDataLoss)) code = static_cast<uint8_t>(StatusCode::kUnknown);
  return {static_cast<StatusCode>(code), std::move(message)};
}

std::string encodeHello(const Hello& hello) {
  Writer out;
  out.u64(hello.nonce);
  out.i32(hello.rank);
  out.i32(hello.ranks);
  out.u64(static_cast<uint64_t>(hello.pid));
  out.text(std::string_view(hello.host).substr(0, 255));
  out.u64(hello.hall);
  out.u64(hello.process);
  out.text(std::string_view(hello.node).substr(0, 255));
  out.raw(encode32(hello.challenge));
  return out.take();
}

StatusOr<Hello> decodeHello(std::string_view payload) {
  Reader in(payload);
  Hello hello;
  hello.nonce = in.u64();
  hello.rank = in.i32();
  hello.ranks = in.i32();
  hello.pid = static_cast<int64_t>(in.u64());
  hello.host = printable(in.text(255));
  hello.hall = in.u64();
  hello.process = in.u64();
  hello.node = printable(in.text(255));
  hello.challenge = challengeOf(in);
  if (!in.done()) return invalidArgument("a malformed greeting");
  if (hello.ranks < 1 || hello.ranks > kMaxRanks)
    return invalidArgument(base::strCat(hello.ranks, " ranks: a communicator has 1 to ", kMaxRanks));
  if (hello.rank < 0 || hello.rank >= hello.ranks)
    return invalidArgument(base::strCat("rank ", hello.rank, " of ", hello.ranks, ": ranks count from 0"));
  return hello;
}

std::string encodeDecline(const Decline& decline) {
  constexpr size_t kMostReason = 512;
  Writer out;
  out.u64(decline.nonce);
  out.u64(decline.hall);
  out.u64(static_cast<uint64_t>(decline.pid));
  out.text(std::string_view(decline.host).substr(0, 255));
  out.status(Status(decline.why.code(), decline.why.message().substr(0, kMostReason)));
  out.raw(encode32(decline.challenge));
  return out.take();
}

StatusOr<Decline> decodeDecline(std::string_view payload) {
  Reader in(payload);
  Decline decline;
  decline.nonce = in.u64();
  decline.hall = in.u64();
  decline.pid = static_cast<int64_t>(in.u64());
  decline.host = printable(in.text(255));
  decline.why = in.status();
  decline.challenge = challengeOf(in);
  if (!in.done() || decline.why.ok()) return invalidArgument("a malformed refusal to take part");
  return decline;
}

StatusOr<Introduction> decodeIntroduction(const Frame& frame) {
  if (frame.type != MessageType::kHello && frame.type != MessageType::kDecline)
    return invalidArgument("not a greeting");
  Reader in(frame.payload);
  Introduction result;
  result.nonce = in.u64();
  if (frame.type == MessageType::kHello) {
    result.rank = in.i32();
    in.i32();  // Ranks.
  } else {
    in.u64();  // Hall.
  }
  result.pid = static_cast<int64_t>(in.u64());
  result.host = printable(in.text(255));
  if (!in.ok()) return invalidArgument("a malformed greeting");
  return result;
}

std::string encodePeerHello(const PeerHello& hello) {
  Writer out;
  out.u64(hello.nonce);
  out.u64(hello.group);
  out.i32(hello.place);
  out.raw(encode32(hello.challenge));
  return out.take();
}

StatusOr<PeerHello> decodePeerHello(std::string_view payload) {
  Reader in(payload);
  PeerHello hello{.nonce = in.u64(), .group = in.u64(), .place = in.i32()};
  hello.challenge = challengeOf(in);
  if (!in.done()) return invalidArgument("a malformed greeting");
  return hello;
}

std::string encodeStatus(const Status& status) {
  Writer out;
  out.status(status);
  return out.take();
}

std::string encode32(const std::array<uint8_t, 32>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

StatusOr<std::array<uint8_t, 32>> decode32(std::string_view payload) {
  std::array<uint8_t, 32> bytes;
  if (payload.size() != bytes.size()) return invalidArgument("a malformed challenge or proof");
  std::copy(payload.begin(), payload.end(), bytes.begin());
  return bytes;
}

Meeting meetingOf(MessageType type, std::string_view greeting, const Challenge& dialler, const Challenge& listener) {
  std::string_view protocol = "bootstrap, rank to coordinator";
  if (type == MessageType::kDecline) protocol = "bootstrap, refusal to coordinator";
  if (type == MessageType::kPeerHello) protocol = "bootstrap, rank to rank";
  return {protocol, kVersion, greeting, dialler, listener};
}

}  // namespace hpu::collectives::wire
