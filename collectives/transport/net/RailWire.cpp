// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/net/RailWire.h"

#include <algorithm>
#include <utility>

#include "base/Format.h"

namespace hpu::collectives::net::rails {
namespace {

constexpr uint8_t kHelloMark = 'r', kDoorsMark = 'R';
constexpr size_t kMostDoorBytes = 128;
constexpr uint64_t kMostBytes = uint64_t{1} << 48;

class Out {
 public:
  void number(uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) bytes_.push_back(static_cast<std::byte>(value >> (8 * i)));
  }
  void raw(std::span<const std::byte> data) { bytes_.insert(bytes_.end(), data.begin(), data.end()); }
  void text(std::string_view text) {
    number(text.size(), 1);
    raw(std::as_bytes(std::span(text)));
  }
  std::vector<std::byte> take() { return std::move(bytes_); }
  std::string takeText() const { return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()}; }

 private:
  std::vector<std::byte> bytes_;
};

/// After a failure all reads give zero.
class In {
 public:
  explicit In(std::span<const std::byte> bytes) : bytes_(bytes) {}
  uint64_t number(size_t count) {
    uint64_t value = 0;
    const auto data = raw(count);
    for (size_t i = 0; i < data.size(); ++i) value |= std::to_integer<uint64_t>(data[i]) << (8 * i);
    return value;
  }
  /// Up to `most`.
  uint64_t size(uint64_t most) {
    const uint64_t value = number(8);
    if (value > most) fail();
    return ok_ ? value : 0;
  }
  std::span<const std::byte> raw(size_t count) {
    if (bytes_.size() < count) fail();
    if (!ok_) return {};
    const auto result = bytes_.first(count);
    bytes_ = bytes_.subspan(count);
    return result;
  }
  std::string text() {
    const auto data = raw(number(1));
    if (data.size() > kMostDoorBytes) fail();
    return {reinterpret_cast<const char*>(data.data()), data.size()};
  }
  void fail() {
    ok_ = false;
    bytes_ = {};
  }
  bool ok() const { return ok_; }
  std::span<const std::byte> rest() { return std::exchange(bytes_, {}); }
  bool atEnd() const { return ok_ && bytes_.empty(); }

 private:
  std::span<const std::byte> bytes_;
  bool ok_ = true;
};

}  // namespace

std::vector<std::byte> encode(const Frame& frame) {
  using enum Frame::Kind;
  Out out;
  out.number(static_cast<uint64_t>(frame.kind), 1), out.number(frame.wantsAck, 1), out.number(frame.ack, 8);
  if (isSequenced(frame.kind) || frame.kind == kAt) out.number(frame.sequence, 8);
  if (frame.kind == kSwitch || frame.kind == kAt) out.number(frame.turn, 8);
  switch (frame.kind) {
    case kHere:
      out.number(frame.doors.size(), 1);
      for (const std::string& door : frame.doors) out.text(door);
      break;
    case kAt:
    case kUnmap:
      out.number(frame.window, 4);
      break;
    case kMap:
      out.number(frame.window, 4), out.number(frame.bytes, 8), out.number(frame.offset, 8);
      out.number(frame.windows.size(), 1);
      for (const Window& window : frame.windows) out.number(window.address, 8), out.number(window.key, 4);
      break;
    case kPiece:
    case kData:
      out.number(frame.window, 4), out.number(frame.offset, 8), out.number(frame.bytes, 8);
      if (frame.kind == kData) out.number(frame.total, 8);
      break;
    case kBeat:
    case kSwitch:
    case kPart:
    case kFrame:
    case kSkip:
    case kBye:
      break;
  }
  out.raw(frame.body);
  return out.take();
}

StatusOr<Frame> decode(std::span<const std::byte> bytes) {
  using enum Frame::Kind;
  In in(bytes);
  Frame frame;
  const uint64_t kind = in.number(1), flags = in.number(1);
  if (kind > static_cast<uint64_t>(kBye) || flags > 1) in.fail();
  frame.kind = static_cast<Frame::Kind>(kind);
  frame.wantsAck = flags != 0;
  frame.ack = in.number(8);
  if (isSequenced(frame.kind) || frame.kind == kAt) frame.sequence = in.number(8);
  if (frame.kind == kSwitch || frame.kind == kAt) frame.turn = in.number(8);
  if (in.ok()) {
    switch (frame.kind) {
      case kHere: {
        const uint64_t count = in.number(1);
        if (count > kMostRails) in.fail();
        for (uint64_t i = 0; i < count && in.ok(); ++i) frame.doors.push_back(in.text());
        break;
      }
      case kAt:
      case kUnmap:
        frame.window = static_cast<uint32_t>(in.number(4));
        break;
      case kMap: {
        frame.window = static_cast<uint32_t>(in.number(4));
        frame.bytes = in.size(kMostBytes), frame.offset = in.size(kMostBytes);
        const uint64_t count = in.number(1);
        if (frame.bytes == 0 || frame.offset == 0 || count > kMostParts ||
            count != (frame.bytes + frame.offset - 1) / frame.offset)
          in.fail();
        for (uint64_t i = 0; i < count && in.ok(); ++i) {
          Window window;
          window.address = in.number(8), window.key = static_cast<uint32_t>(in.number(4));
          frame.windows.push_back(window);
        }
        break;
      }
      case kPiece:
      case kData:
        frame.window = static_cast<uint32_t>(in.number(4));
        frame.offset = in.size(kMostBytes), frame.bytes = in.size(kMostBytes);
        if (frame.kind == kData) frame.total = in.size(kMostBytes), frame.body = in.rest();
        break;
      case kPart:
      case kFrame:
        frame.body = in.rest();
        break;
      case kBeat:
      case kSwitch:
      case kSkip:
      case kBye:
        break;
    }
  }
  if (!in.atEnd()) return invalidArgument(base::strCat("a frame of kind ", kind, " that is not well-formed"));
  return frame;
}

std::string encodeHello(const Hello& hello) {
  Out out;
  out.number(kHelloMark, 1), out.number(kVersion, 1), out.number(hello.first + 2 * hello.dialler, 1);
  out.raw(hello.session), out.raw(std::as_bytes(std::span(hello.owner)));
  return out.takeText();
}

StatusOr<Hello> decodeHello(std::string_view text) {
  In in(std::as_bytes(std::span(text)));
  if (in.number(1) != kHelloMark) return invalidArgument("it is not a link over several rails");
  if (const uint64_t version = in.number(1); in.ok() && version != kVersion)
    return unimplemented(base::strCat("it speaks version ", version, " of links over several rails, and this one ",
                                      int{kVersion}, ": use one version of OpenHPU"));
  Hello hello;
  const uint64_t flags = in.number(1);
  const auto session = in.raw(hello.session.size());
  const auto owner = in.rest();
  if (!in.ok() || flags > 3 || owner.size() > kMostOwnerHello)
    return invalidArgument("it is not a link over several rails");
  hello.first = flags & 1;
  hello.dialler = flags & 2;
  std::copy(session.begin(), session.end(), hello.session.begin());
  hello.owner.assign(reinterpret_cast<const char*>(owner.data()), owner.size());
  return hello;
}

std::string encodeDoors(const std::vector<std::string>& doors) {
  Out out;
  out.number(kDoorsMark, 1), out.number(doors.size(), 1);
  for (const std::string& door : doors) out.text(door);
  return out.takeText();
}

StatusOr<std::vector<std::string>> decodeDoors(std::string_view text) {
  In in(std::as_bytes(std::span(text)));
  const uint64_t mark = in.number(1), count = in.number(1);
  std::vector<std::string> doors;
  if (mark != kDoorsMark || count == 0 || count > kMostRails) in.fail();
  for (uint64_t i = 0; i < count && in.ok(); ++i) doors.push_back(in.text());
  if (!in.atEnd()) return invalidArgument("the address is not that of a door of several rails");
  return doors;
}

}  // namespace hpu::collectives::net::rails
