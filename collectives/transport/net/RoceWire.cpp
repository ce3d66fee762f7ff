// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/net/RoceWire.h"

#include <algorithm>
#include <cstring>

#include "base/Format.h"
#include "collectives/roce/Packet.h"
#include "collectives/roce/Psn.h"

namespace hpu::collectives::net::roce_wire {
namespace {

using base::strCat;

constexpr std::string_view kMagic = "HPRL";
constexpr size_t kMostTextBytes = 1000;
// More than any buffer takes, fewer than numbers that can be told from each other.
constexpr uint32_t kMostPackets = 1u << 20, kMostReceives = 1u << 20;

template <typename Number>
void put(std::string& out, Number number) {
  for (size_t i = 0; i < sizeof number; ++i) out.push_back(static_cast<char>(number >> (8 * i)));
}

/// Takes numbers from the front; zeros when there are none left, and then not `good` any more.
struct Reader {
  std::span<const std::byte> rest;
  bool good = true;

  std::span<const std::byte> bytes(size_t count) {
    if (count > rest.size()) {
      good = false;
      count = 0;
    }
    const auto taken = rest.first(count);
    rest = rest.subspan(count);
    return taken;
  }
  template <typename Number>
  Number number() {
    Number value = 0;
    const auto from = bytes(sizeof value);
    for (size_t i = 0; i < from.size(); ++i)
      value = static_cast<Number>(value | static_cast<Number>(static_cast<Number>(from[i]) << (8 * i)));
    return value;
  }
  std::string text(size_t most) {
    const auto from = bytes(std::min(most, rest.size()));
    return {reinterpret_cast<const char*>(from.data()), from.size()};
  }
};

void putEnd(std::string& out, const End& end, uint16_t version) {
  out += kMagic;
  put(out, version);
  for (uint32_t number : {end.queuePair, end.firstPsn, end.pathMtu, end.packets, end.receives}) put(out, number);
  put(out, static_cast<uint8_t>(end.address.v6));
  for (uint8_t byte : end.address.ip) put(out, byte);
  put(out, end.address.port);
}

Status readEnd(Reader& reader, End& end) {
  const auto magic = reader.bytes(kMagic.size());
  const auto version = reader.number<uint16_t>();
  if (!reader.good || memcmp(magic.data(), kMagic.data(), kMagic.size()) != 0)
    return invalidArgument("it does not speak the protocol of RoCE links");
  if (version != kVersion)
    return {StatusCode::kUnimplemented,
            strCat("it speaks version ", version, " of RoCE links, this process version ", kVersion)};
  for (uint32_t* number : {&end.queuePair, &end.firstPsn, &end.pathMtu, &end.packets, &end.receives})
    *number = reader.number<uint32_t>();
  const auto v6 = reader.number<uint8_t>();
  for (uint8_t& byte : end.address.ip) byte = reader.number<uint8_t>();
  end.address.port = reader.number<uint16_t>();
  end.address.v6 = v6 == 1;
  const uint32_t mtu = end.pathMtu;
  if (!reader.good || end.queuePair < 2 || end.queuePair > roce::kPsnMask || end.firstPsn > roce::kPsnMask ||
      mtu < 256 || mtu > roce::kMostPayloadBytes || (mtu & (mtu - 1)) != 0 || end.packets < 1 ||
      end.packets > kMostPackets || end.receives < 2 || end.receives > kMostReceives || v6 > 1 || end.address.port == 0)
    return invalidArgument("it describes a queue pair that cannot be");
  return okStatus();
}

}  // namespace

std::string encodeOffer(const End& end, std::string_view hello, uint16_t version) {
  std::string out(1, static_cast<char>(Kind::kOffer));
  putEnd(out, end, version);
  return out.append(hello);
}

std::string encodeAnswer(const End& end) {
  std::string out(1, static_cast<char>(Kind::kAnswer));
  putEnd(out, end, kVersion);
  return out;
}

std::string encodeReady() {
  return std::string(1, static_cast<char>(Kind::kReady));
}

std::string encodeLate(uint64_t number, bool more, std::span<const std::byte> bytes) {
  std::string out(1, static_cast<char>(Kind::kLate));
  put(out, static_cast<uint8_t>(more));
  put(out, number);
  return out.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

std::string encodeEnd(const Status& why) {
  std::string out(1, static_cast<char>(Kind::kEnd));
  put(out, static_cast<uint8_t>(why.code()));
  return out.append(why.message().substr(0, kMostTextBytes));
}

StatusOr<Message> parse(std::span<const std::byte> bytes) {
  Reader reader{bytes};
  Message message;
  message.kind = static_cast<Kind>(reader.number<uint8_t>());
  switch (message.kind) {
    case Kind::kOffer:
    case Kind::kAnswer:
      if (Status status = readEnd(reader, message.end); !status.ok()) return status;
      if (message.kind == Kind::kOffer) message.hello = reader.text(kMostHelloBytes);
      break;
    case Kind::kReady:
      break;
    case Kind::kLate: {
      const auto more = reader.number<uint8_t>();
      message.more = more == 1;
      message.number = reader.number<uint64_t>();
      message.bytes = reader.bytes(reader.rest.size());
      if (more > 1) reader.good = false;
      break;
    }
    case Kind::kEnd: {
      const auto code = static_cast<StatusCode>(reader.number<uint8_t>());
      const bool known =
          code == StatusCode::kAborted || code == StatusCode::kInvalidArgument || code == StatusCode::kUnimplemented;
      // What else a peer says of itself is that it is gone.
      message.why = Status(known ? code : StatusCode::kUnavailable, reader.text(kMostTextBytes));
      break;
    }
    default:
      reader.good = false;
  }
  if (!reader.good || !reader.rest.empty())
    return invalidArgument(strCat("a message of ", bytes.size(), " bytes that no RoCE link sends"));
  return message;
}

void encodeHead(const Head& head, std::byte* out) {
  size_t at = 0;
  for (uint32_t number : {head.taken, head.window, static_cast<uint32_t>(head.kind)})
    for (int i = 0; i < 4; ++i) out[at++] = static_cast<std::byte>(number >> (8 * i));
}

StatusOr<Head> parseHead(std::span<const std::byte> bytes) {
  Reader reader{bytes};
  Head head;
  head.taken = reader.number<uint32_t>();
  head.window = reader.number<uint32_t>();
  const auto kind = reader.number<uint32_t>();
  head.kind = static_cast<Head::Kind>(kind);
  const bool isCredit = head.kind == Head::Kind::kCredit;
  if (!reader.good || (head.kind != Head::Kind::kFrame && !isCredit) || reader.rest.size() > kMostFrameBytes ||
      (isCredit && (head.window != 0 || !reader.rest.empty())))
    return invalidArgument(strCat("a frame of ", bytes.size(), " bytes that no RoCE link sends"));
  return head;
}

}  // namespace hpu::collectives::net::roce_wire
