// SPDX-License-Identifier: Apache-2.0
// Icrc: the checksum over what no router changes, at the end of each RoCE v2 datagram.
// The one thing to know: it covers the IP addresses, the UDP ports and, of IPv4, identification and flags, which the
// payload of a socket does not show. So an IPv4 sender has to know the identification that its system writes (0 of a
// socket that is not connected and may not fragment), and an IPv4 receiver on a plain socket can check only peers that
// do the same; IPv6 has none.
//
// CRC-32 of Ethernet over eight bytes of ones, the IP, UDP and BTH headers with the changing fields all ones, and the
// rest: InfiniBand Architecture Specification 1.3, annex A17.3.3.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace hpu::roce {

/// What a datagram's ICRC covers besides its bytes.
struct Route {
  bool isV6 = true;
  std::array<uint8_t, 16> source{}, destination{};  ///< In network order; of IPv4 the first four bytes.
  uint16_t sourcePort = 0;
  uint16_t destinationPort = 4791;  ///< kUdpPort, but for peers that agreed upon another one.
  uint16_t identification = 0;      ///< Of IPv4.
  bool mayFragment = false;         ///< Of IPv4.
};

/// Of a datagram from its BTH up to its ICRC, which is not part of it. The value as it is written: little-endian.
uint32_t icrcOf(const Route& route, std::span<const uint8_t> bytes);

/// Writes it into the last four bytes of a whole datagram.
void sealIcrc(const Route& route, std::span<uint8_t> datagram);
/// Whether the last four bytes of a whole datagram are it.
bool checkIcrc(const Route& route, std::span<const uint8_t> datagram);

/// The same for many datagrams of one route: what IP and UDP add is remembered by length. Not thread-safe.
class RouteIcrc {
 public:
  RouteIcrc() = default;
  explicit RouteIcrc(const Route& route) : route_(route) {}
  const Route& route() const { return route_; }
  void seal(std::span<uint8_t> datagram);
  /// Of one whose headers (the BTH at least) and padding are written: puts the payload behind the headers on its way.
  void seal(std::span<uint8_t> datagram, size_t headerBytes, std::span<const uint8_t> payload);
  /// `datagram` is changed for a moment.
  bool check(std::span<uint8_t> datagram);

 private:
  uint32_t crcBefore(size_t datagramBytes);
  uint32_t icrc(std::span<uint8_t> datagram);
  struct Head {
    size_t bytes = 0;  ///< Of the datagram; 0: none.
    uint32_t crc = 0;
  };
  Route route_;
  std::array<Head, 4> heads_;  // Full packets, the first and the last of a message, acknowledgements.
  size_t oldest_ = 0;
};

/// CRC-32 as Ethernet's and zlib's: `crc` is that of the bytes before, 0 of none. Carry-less multiplication where the
/// processor has it.
uint32_t crc32(uint32_t crc, const void* data, size_t bytes);
/// The same, and the bytes are copied.
uint32_t crc32Copy(uint32_t crc, void* to, const void* from, size_t bytes);
/// The same by tables, on every processor.
uint32_t crc32ByTables(uint32_t crc, const void* data, size_t bytes);

}  // namespace hpu::roce
