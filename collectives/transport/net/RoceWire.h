// SPDX-License-Identifier: Apache-2.0
// RoceWire: what both ends of a RoCE link tell each other over TCP while they meet and part, and what stands before a
// frame on the queue pair.
// The one thing to know: parsing believes nothing; after it every number is in its range. All are little-endian.
//
//   over TCP: kind u8, and
//     kOffer, kAnswer: "HPRL", version u16, queue pair u32, first PSN u32, path MTU u32, packets u32, receives u32,
//                      1 u8 of IPv6, address 16 bytes, port u16; kOffer: the hello
//     kReady:          nothing
//     kLate:           1 u8 when there is more of it, number u64 of the frame, the frame with its head
//     kEnd:            status code u8, text
//   on the queue pair, a SEND: taken u32, window u32, kind u32, the frame
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "collectives/bootstrap/Address.h"
#include "collectives/transport/net/Network.h"
#include "hpu/status.h"

namespace hpu::collectives::net::roce_wire {

inline constexpr uint16_t kVersion = 1;
/// Hello of the TCP connection of that network's links.
inline std::string tcpHello(std::string_view network) {
  return "hpu " + std::string(network);
}

enum class Kind : uint8_t {
  kOffer = 1,  ///< From who dialled.
  kAnswer,     ///< The other end is started.
  kReady,      ///< So is the one that dialled: its queue pair is there.
  kLate,       ///< A frame that had not been acknowledged when the queue pair was given up.
  kEnd,        ///< The link ends, and why; nothing after it.
};

/// One end of a queue pair.
struct End {
  uint32_t queuePair = 0, firstPsn = 0;
  uint32_t pathMtu = 0;   ///< The largest that it takes.
  uint32_t packets = 0;   ///< On their way to it at most.
  uint32_t receives = 0;  ///< Frames that it has room for.
  Address address;        ///< Of its UDP socket.
};
std::string encodeOffer(const End& end, std::string_view hello, uint16_t version = kVersion);
std::string encodeAnswer(const End& end);
std::string encodeReady();
std::string encodeLate(uint64_t number, bool more, std::span<const std::byte> bytes);
std::string encodeEnd(const Status& why);

struct Message {
  Kind kind = Kind::kReady;
  End end;            ///< Of kOffer and kAnswer.
  std::string hello;  ///< Of kOffer.
  bool more = false;  ///< Of kLate, as the following.
  uint64_t number = 0;
  std::span<const std::byte> bytes;  ///< Of the message.
  Status why;                        ///< Of kEnd; not ok.
};
/// Errors: kInvalidArgument (nonsense), kUnimplemented (an offer of another version; names both).
StatusOr<Message> parse(std::span<const std::byte> bytes);

/// Before a frame.
struct Head {
  enum class Kind : uint32_t {
    kFrame = 1,
    kCredit,  ///< Nothing follows it.
  };
  uint32_t taken = 0;   ///< Frames of the other end that this end has taken in since the beginning; wraps around.
  uint32_t window = 0;  ///< Key of the window that has been written; 0: none.
  Kind kind = Kind::kFrame;
};
inline constexpr size_t kHeadBytes = 12;
void encodeHead(const Head& head, std::byte* out);
/// Of a whole SEND. Errors: kInvalidArgument.
StatusOr<Head> parseHead(std::span<const std::byte> bytes);

}  // namespace hpu::collectives::net::roce_wire
