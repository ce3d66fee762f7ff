// SPDX-License-Identifier: Apache-2.0
// Packet: what a RoCE v2 datagram says, for reliable connections.
// The one thing to know: parse() believes nothing: after it every header that the opcode has is there, the payload lies
// within the datagram, and numbers have the width of their field. What a packet may do is for the queue pair to decide.
//
//   roce::Packet packet;
//   if (roce::parse(datagram, packet) == roce::Malformed::kNo) queuePair.receive(packet, now);
//
// Layouts: InfiniBand Architecture Specification 1.3, volume 1, chapter 9, and annex A17 (RoCE v2).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace hpu::roce {

/// Of the UDP datagrams; assigned by IANA.
inline constexpr uint16_t kUdpPort = 4791;
inline constexpr size_t kIcrcBytes = 4;
/// The longest headers: BTH, AtomicETH.
inline constexpr size_t kMostHeaderBytes = 12 + 28;
inline constexpr size_t kMostPayloadBytes = 4096;  ///< The largest path MTU.
inline constexpr size_t kMostDatagramBytes = kMostHeaderBytes + kMostPayloadBytes + kIcrcBytes;

/// Of reliable connections, and the notification of congestion.
enum class Opcode : uint8_t {
  kSendFirst = 0x00,
  kSendMiddle = 0x01,
  kSendLast = 0x02,
  kSendLastImmediate = 0x03,
  kSendOnly = 0x04,
  kSendOnlyImmediate = 0x05,
  kWriteFirst = 0x06,
  kWriteMiddle = 0x07,
  kWriteLast = 0x08,
  kWriteLastImmediate = 0x09,
  kWriteOnly = 0x0A,
  kWriteOnlyImmediate = 0x0B,
  kReadRequest = 0x0C,
  kReadResponseFirst = 0x0D,
  kReadResponseMiddle = 0x0E,
  kReadResponseLast = 0x0F,
  kReadResponseOnly = 0x10,
  kAcknowledge = 0x11,
  kAtomicAcknowledge = 0x12,
  kCompareSwap = 0x13,
  kFetchAdd = 0x14,
  kCongestionNotification = 0x81,
};

/// What packets of an opcode have and mean.
struct OpcodeTraits {
  std::string_view name;  ///< "SEND first"; empty: there is no such opcode.
  bool reth = false;      ///< Address, key and length of remote memory.
  bool aeth = false;      ///< Syndrome and message number.
  bool immediate = false;
  bool atomic = false;  ///< Address, key and two operands.
  bool atomicResult = false;
  bool reserved = false;  ///< 16 bytes without a meaning.
  bool payload = false;
  bool first = false, last = false;  ///< Of its message; both: the only packet.
  bool response = false;             ///< It goes back to the requester.
};
const OpcodeTraits& traitsOf(Opcode opcode);

/// Bytes of all headers of an opcode, the BTH's among them.
size_t headerBytes(const OpcodeTraits& traits);

struct Packet {
  Opcode opcode = Opcode::kAcknowledge;
  bool solicited = false;  ///< The receiver's completion is an event.
  bool migration = true;   ///< MigReq: what peers without path migration send.
  bool congestedForward = false, congestedBackward = false;
  bool acknowledge = false;  ///< An acknowledgement is asked for.
  uint16_t partition = 0xFFFF;
  uint32_t queuePair = 0;  ///< The receiver's, 24 bits.
  uint32_t psn = 0;
  // By opcode.
  uint64_t address = 0;
  uint32_t key = 0;
  uint32_t length = 0;   ///< Of the whole message.
  uint8_t syndrome = 0;  ///< See Syndrome.h.
  uint32_t messageNumber = 0;
  uint32_t immediate = 0;
  uint64_t swapOrAdd = 0, compare = 0;
  uint64_t original = 0;             ///< What was there before the atomic operation.
  std::span<const uint8_t> payload;  ///< In the datagram; without its padding.
};

/// Why bytes are no packet.
enum class Malformed : uint8_t {
  kNo,
  kTooShort,  ///< A header that the opcode has is not there.
  kTooLong,   ///< More payload than the largest path MTU.
  kVersion,   ///< Of another transport version.
  kOpcode,    ///< Not one of reliable connections.
  kPadding,   ///< More padding than payload, or a length that is no multiple of 4.
  kPayload,   ///< Of an opcode that has none.
};
inline constexpr int kMalformedKinds = 7;
std::string_view malformedName(Malformed malformed);

/// Reads a datagram: BTH to ICRC. The ICRC is looked at elsewhere (Icrc.h). `packet` is unspecified unless kNo.
Malformed parse(std::span<const uint8_t> datagram, Packet& packet);

/// Bytes of the datagram that says this, its ICRC among them.
size_t datagramBytes(const Packet& packet);
/// Writes it to `out`, which has datagramBytes(packet); the ICRC's bytes are left as they are.
/// Of the numbers the bits that their fields have are taken.
void encode(const Packet& packet, std::span<uint8_t> out);
/// The same without the payload. The headers' bytes.
size_t encodeHeaders(const Packet& packet, std::span<uint8_t> out);

/// "SEND only to 0x11, PSN 5, 100 bytes": for errors and logs.
std::string text(const Packet& packet);

}  // namespace hpu::roce
