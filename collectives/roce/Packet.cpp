// SPDX-License-Identifier: Apache-2.0
#include "collectives/roce/Packet.h"

#include <array>
#include <cstring>

#include "base/Format.h"

namespace hpu::roce {
namespace {

constexpr size_t kBthBytes = 12, kRethBytes = 16, kAethBytes = 4, kImmediateBytes = 4, kAtomicBytes = 28;
constexpr size_t kAtomicResultBytes = 8, kReservedBytes = 16;
constexpr uint32_t k24Bits = 0xFFFFFF;

constexpr OpcodeTraits send(std::string_view name, bool first, bool last, bool immediate = false) {
  return {.name = name, .immediate = immediate, .payload = true, .first = first, .last = last};
}
constexpr OpcodeTraits write(std::string_view name, bool first, bool last, bool immediate = false) {
  return {.name = name, .reth = first, .immediate = immediate, .payload = true, .first = first, .last = last};
}
constexpr OpcodeTraits readResponse(std::string_view name, bool first, bool last) {
  return {.name = name, .aeth = first || last, .payload = true, .first = first, .last = last, .response = true};
}
constexpr OpcodeTraits atomic(std::string_view name) {
  return {.name = name, .atomic = true, .first = true, .last = true};
}

constexpr auto kReliable = [] {
  std::array<OpcodeTraits, 0x15> table;
  auto at = [&](Opcode opcode) -> OpcodeTraits& { return table[static_cast<size_t>(opcode)]; };
  at(Opcode::kSendFirst) = send("SEND first", true, false);
  at(Opcode::kSendMiddle) = send("SEND middle", false, false);
  at(Opcode::kSendLast) = send("SEND last", false, true);
  at(Opcode::kSendLastImmediate) = send("SEND last with immediate", false, true, true);
  at(Opcode::kSendOnly) = send("SEND only", true, true);
  at(Opcode::kSendOnlyImmediate) = send("SEND only with immediate", true, true, true);
  at(Opcode::kWriteFirst) = write("WRITE first", true, false);
  at(Opcode::kWriteMiddle) = write("WRITE middle", false, false);
  at(Opcode::kWriteLast) = write("WRITE last", false, true);
  at(Opcode::kWriteLastImmediate) = write("WRITE last with immediate", false, true, true);
  at(Opcode::kWriteOnly) = write("WRITE only", true, true);
  at(Opcode::kWriteOnlyImmediate) = write("WRITE only with immediate", true, true, true);
  at(Opcode::kReadRequest) = {.name = "READ request", .reth = true, .first = true, .last = true};
  at(Opcode::kReadResponseFirst) = readResponse("READ response first", true, false);
  at(Opcode::kReadResponseMiddle) = readResponse("READ response middle", false, false);
  at(Opcode::kReadResponseLast) = readResponse("READ response last", false, true);
  at(Opcode::kReadResponseOnly) = readResponse("READ response only", true, true);
  at(Opcode::kAcknowledge) = {.name = "acknowledge", .aeth = true, .first = true, .last = true, .response = true};
  at(Opcode::kAtomicAcknowledge) = {
      .name = "ATOMIC acknowledge", .aeth = true, .atomicResult = true, .first = true, .last = true, .response = true};
  at(Opcode::kCompareSwap) = atomic("COMPARE and SWAP");
  at(Opcode::kFetchAdd) = atomic("FETCH and ADD");
  return table;
}();
constexpr OpcodeTraits kCongestion = {.name = "congestion notification", .reserved = true, .first = true, .last = true};
constexpr OpcodeTraits kNone;

/// Big-endian numbers one after the other; the caller has looked whether they are there.
class In {
 public:
  explicit In(const uint8_t* at) : at_(at) {}
  template <typename T>
  T take() {
    T value = 0;
    for (size_t i = 0; i < sizeof(T); ++i) value = static_cast<T>(uint64_t{value} << 8 | *at_++);
    return value;
  }

 private:
  const uint8_t* at_;
};

class Out {
 public:
  explicit Out(uint8_t* at) : at_(at) {}
  template <typename T>
  void put(T value) {
    for (size_t i = sizeof(T); i-- > 0;) *at_++ = static_cast<uint8_t>(uint64_t{value} >> (8 * i));
  }
  void zeros(size_t bytes) {
    memset(at_, 0, bytes);
    at_ += bytes;
  }
  uint8_t* at() const { return at_; }

 private:
  uint8_t* at_;
};

}  // namespace

const OpcodeTraits& traitsOf(Opcode opcode) {
  if (opcode == Opcode::kCongestionNotification) return kCongestion;
  const auto index = static_cast<size_t>(opcode);
  return index < kReliable.size() ? kReliable[index] : kNone;
}

size_t headerBytes(const OpcodeTraits& traits) {
  return kBthBytes + traits.reth * kRethBytes + traits.aeth * kAethBytes + traits.immediate * kImmediateBytes +
         traits.atomic * kAtomicBytes + traits.atomicResult * kAtomicResultBytes + traits.reserved * kReservedBytes;
}

std::string_view malformedName(Malformed malformed) {
  switch (malformed) {
    case Malformed::kNo:
      return "well-formed";
    case Malformed::kTooShort:
      return "shorter than its headers";
    case Malformed::kTooLong:
      return "longer than the largest path MTU";
    case Malformed::kVersion:
      return "of another transport version";
    case Malformed::kOpcode:
      return "with an opcode that is not one of reliable connections";
    case Malformed::kPadding:
      return "with wrong padding";
    case Malformed::kPayload:
      return "with a payload that its opcode has not";
  }
  return "malformed";
}

Malformed parse(std::span<const uint8_t> datagram, Packet& packet) {
  if (datagram.size() < kBthBytes + kIcrcBytes) return Malformed::kTooShort;
  packet = {};
  In in(datagram.data());
  packet.opcode = static_cast<Opcode>(in.take<uint8_t>());
  const auto flags = in.take<uint8_t>();
  packet.solicited = flags & 0x80;
  packet.migration = flags & 0x40;
  const size_t padding = flags >> 4 & 3;
  if ((flags & 0x0F) != 0) return Malformed::kVersion;
  packet.partition = in.take<uint16_t>();
  const auto destination = in.take<uint32_t>();
  packet.congestedForward = destination >> 31 & 1;
  packet.congestedBackward = destination >> 30 & 1;
  packet.queuePair = destination & k24Bits;
  const auto sequence = in.take<uint32_t>();
  packet.acknowledge = sequence >> 31 & 1;
  packet.psn = sequence & k24Bits;
  const OpcodeTraits& traits = traitsOf(packet.opcode);
  if (traits.name.empty()) return Malformed::kOpcode;
  const size_t headers = headerBytes(traits);
  if (datagram.size() < headers + kIcrcBytes) return Malformed::kTooShort;
  if (traits.reth) {
    packet.address = in.take<uint64_t>();
    packet.key = in.take<uint32_t>();
    packet.length = in.take<uint32_t>();
  }
  if (traits.aeth) {
    const auto both = in.take<uint32_t>();
    packet.syndrome = static_cast<uint8_t>(both >> 24);
    packet.messageNumber = both & k24Bits;
  }
  if (traits.atomic) {
    packet.address = in.take<uint64_t>();
    packet.key = in.take<uint32_t>();
    packet.swapOrAdd = in.take<uint64_t>();
    packet.compare = in.take<uint64_t>();
  }
  if (traits.atomicResult) packet.original = in.take<uint64_t>();
  if (traits.immediate) packet.immediate = in.take<uint32_t>();
  const size_t rest = datagram.size() - headers - kIcrcBytes;
  if (rest % 4 != 0 || padding > rest) return Malformed::kPadding;
  if (!traits.payload && rest > 0) return Malformed::kPayload;
  if (rest > kMostPayloadBytes) return Malformed::kTooLong;
  packet.payload = datagram.subspan(headers, rest - padding);
  return Malformed::kNo;
}

size_t datagramBytes(const Packet& packet) {
  const OpcodeTraits& traits = traitsOf(packet.opcode);
  const size_t payload = traits.payload ? packet.payload.size() : 0;
  return headerBytes(traits) + (payload + 3) / 4 * 4 + kIcrcBytes;
}

void encode(const Packet& packet, std::span<uint8_t> datagram) {
  const size_t headers = encodeHeaders(packet, datagram);
  if (traitsOf(packet.opcode).payload && !packet.payload.empty())
    memcpy(&datagram[headers], packet.payload.data(), packet.payload.size());
}

size_t encodeHeaders(const Packet& packet, std::span<uint8_t> datagram) {
  const OpcodeTraits& traits = traitsOf(packet.opcode);
  const size_t payload = traits.payload ? packet.payload.size() : 0, padding = (4 - payload % 4) % 4;
  Out out(datagram.data());
  out.put(static_cast<uint8_t>(packet.opcode));
  out.put(static_cast<uint8_t>(packet.solicited << 7 | packet.migration << 6 | padding << 4));
  out.put(packet.partition);
  out.put(uint32_t{packet.congestedForward} << 31 | uint32_t{packet.congestedBackward} << 30 |
          (packet.queuePair & k24Bits));
  out.put(uint32_t{packet.acknowledge} << 31 | (packet.psn & k24Bits));
  if (traits.reth) {
    out.put(packet.address);
    out.put(packet.key);
    out.put(packet.length);
  }
  if (traits.aeth) out.put(uint32_t{packet.syndrome} << 24 | (packet.messageNumber & k24Bits));
  if (traits.atomic) {
    out.put(packet.address);
    out.put(packet.key);
    out.put(packet.swapOrAdd);
    out.put(packet.compare);
  }
  if (traits.atomicResult) out.put(packet.original);
  if (traits.immediate) out.put(packet.immediate);
  if (traits.reserved) out.zeros(kReservedBytes);
  if (padding > 0) memset(out.at() + payload, 0, padding);
  return static_cast<size_t>(out.at() - datagram.data());
}

std::string text(const Packet& packet) {
  const OpcodeTraits& traits = traitsOf(packet.opcode);
  std::string result = base::strCat(traits.name, " to ", base::formatHex(packet.queuePair), ", PSN ", packet.psn);
  if (traits.payload) result += base::strCat(", ", packet.payload.size(), " bytes");
  if (traits.reth || traits.atomic) result += base::strCat(", address ", base::formatHex(packet.address));
  if (traits.aeth) result += base::strCat(", syndrome ", base::formatHex(packet.syndrome));
  return result;
}

}  // namespace hpu::roce
