// SPDX-License-Identifier: Apache-2.0
#include "collectives/roce/Icrc.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "collectives/roce/Packet.h"

namespace hpu::roce {
namespace {

/// Bit by bit, as IEEE 802.3 says it.
uint32_t crcBitByBit(const std::vector<uint8_t>& bytes) {
  uint32_t rest = 0xFFFFFFFF;
  for (uint8_t byte : bytes) {
    for (int bit = 0; bit < 8; ++bit) {
      const bool out = ((rest >> 31) ^ (byte >> bit)) & 1;
      rest = rest << 1 ^ (out ? 0x04C11DB7 : 0);
    }
  }
  uint32_t reversed = 0;
  for (int bit = 0; bit < 32; ++bit) reversed |= (rest >> bit & 1) << (31 - bit);
  return ~reversed;
}

std::vector<uint8_t> randomBytes(size_t size, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<uint8_t> bytes(size);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

TEST(Crc32, IsTheOneOfEthernet) {
  EXPECT_EQ(crc32(0, "123456789", 9), 0xCBF43926u);  // The check value of the CRC catalogue.
  EXPECT_EQ(crc32(0, nullptr, 0), 0u);
}

TEST(Crc32, OfAllLengthsAndPlacesIsThatOfItsBits) {
  const std::vector<uint8_t> bytes = randomBytes(4200, 1);
  for (size_t size = 0; size <= 1300; ++size) {
    const size_t at = size % 17;
    const std::vector<uint8_t> part(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                                    bytes.begin() + static_cast<std::ptrdiff_t>(at + size));
    const uint32_t right = crcBitByBit(part);
    ASSERT_EQ(crc32(0, bytes.data() + at, size), right) << size;
    ASSERT_EQ(crc32ByTables(0, bytes.data() + at, size), right) << size;
    std::vector<uint8_t> copy(size + 1, 0xA5);
    ASSERT_EQ(crc32Copy(0, copy.data(), bytes.data() + at, size), right) << size;
    ASSERT_TRUE(std::equal(part.begin(), part.end(), copy.begin())) << size;
    ASSERT_EQ(copy.back(), 0xA5) << size;
  }
  EXPECT_EQ(crc32(0, bytes.data(), bytes.size()), crcBitByBit(bytes));
}

TEST(Crc32, GoesOnFromThatOfTheBytesBefore) {
  const std::vector<uint8_t> bytes = randomBytes(1500, 2);
  const uint32_t whole = crc32(0, bytes.data(), bytes.size());
  for (size_t cut : {0u, 1u, 12u, 127u, 128u, 129u, 1000u, 1499u, 1500u})
    EXPECT_EQ(crc32(crc32(0, bytes.data(), cut), bytes.data() + cut, bytes.size() - cut), whole) << cut;
}

/// What the headers on the wire are, to be masked by the test and not by Icrc.cpp.
struct Wire {
  std::vector<uint8_t> ip, udp, datagram;
};
std::vector<uint8_t> masked(Wire wire, bool isV6) {
  if (isV6) {
    wire.ip[0] |= 0x0F;
    wire.ip[1] = wire.ip[2] = wire.ip[3] = wire.ip[7] = 0xFF;
  } else {
    wire.ip[1] = wire.ip[8] = wire.ip[10] = wire.ip[11] = 0xFF;
  }
  wire.udp[6] = wire.udp[7] = 0xFF;
  wire.datagram[4] = 0xFF;
  std::vector<uint8_t> all(8, 0xFF);
  for (const auto* part : {&wire.ip, &wire.udp, &wire.datagram}) all.insert(all.end(), part->begin(), part->end());
  return all;
}

TEST(Icrc, CoversWhatNoRouterChanges) {
  for (bool isV6 : {false, true}) {
    Route route;
    route.isV6 = isV6;
    route.sourcePort = 0xC123;
    route.identification = 0x4567;
    const std::vector<uint8_t> addresses = randomBytes(32, 3);
    memcpy(route.source.data(), addresses.data(), 16);
    memcpy(route.destination.data(), addresses.data() + 16, 16);
    for (size_t payload : {0u, 4u, 100u, 1024u, 4096u}) {
      Wire wire;
      wire.datagram = randomBytes(12 + payload, 4);
      const auto udpBytes = static_cast<uint16_t>(8 + wire.datagram.size() + 4);
      auto big = [](uint16_t value) {
        return std::vector<uint8_t>{static_cast<uint8_t>(value >> 8), static_cast<uint8_t>(value)};
      };
      auto put = [](std::vector<uint8_t>& to, const std::vector<uint8_t>& what) {
        to.insert(to.end(), what.begin(), what.end());
      };
      if (isV6) {
        wire.ip = {0x62, 0x34, 0x56, 0x78};
        put(wire.ip, big(udpBytes));
        put(wire.ip, {17, 63});
        put(wire.ip, addresses);
      } else {
        wire.ip = {0x45, 0x02};
        put(wire.ip, big(static_cast<uint16_t>(20 + udpBytes)));
        put(wire.ip, {0x45, 0x67, 0x40, 0x00, 61, 17, 0xAB, 0xCD});
        put(wire.ip, {addresses.begin(), addresses.begin() + 4});
        put(wire.ip, {addresses.begin() + 16, addresses.begin() + 20});
      }
      put(wire.udp, {0xC1, 0x23, 0x12, 0xB7});
      put(wire.udp, big(udpBytes));
      put(wire.udp, {0x99, 0x88});
      EXPECT_EQ(icrcOf(route, wire.datagram), crcBitByBit(masked(wire, isV6))) << isV6 << " " << payload;
    }
  }
}

TEST(Icrc, IsWrittenBehindTheDatagramAndFoundThere) {
  Route route;
  route.source[15] = 1;
  route.destination[15] = 2;
  Packet packet;
  packet.opcode = Opcode::kSendOnly;
  const std::vector<uint8_t> payload = randomBytes(1001, 5);
  packet.payload = payload;
  std::vector<uint8_t> datagram(datagramBytes(packet));
  encode(packet, datagram);
  sealIcrc(route, datagram);
  EXPECT_TRUE(checkIcrc(route, datagram));
  // A switch may mark congestion.
  datagram[4] ^= 0xC0;
  EXPECT_TRUE(checkIcrc(route, datagram));
  for (size_t at = 0; at < datagram.size(); ++at) {
    if (at == 4) continue;
    datagram[at] ^= 0x10;
    ASSERT_FALSE(checkIcrc(route, datagram)) << at;
    datagram[at] ^= 0x10;
  }
  Route other = route;
  other.source[0] = 1;
  EXPECT_FALSE(checkIcrc(other, datagram));
  EXPECT_FALSE(checkIcrc(route, std::span(datagram).first(3)));
}

TEST(Icrc, OfARouteIsThatOfEachOfItsDatagrams) {
  for (bool isV6 : {false, true}) {
    Route route;
    route.isV6 = isV6;
    route.source[0] = 10;
    route.destination[3] = 9;
    route.sourcePort = 0xC123;
    RouteIcrc many(route);
    std::mt19937 random(5);
    for (int i = 0; i < 2000; ++i) {
      std::vector<uint8_t> datagram =
          randomBytes(kIcrcBytes + random() % (i % 3 ? 30 : 4200), static_cast<uint32_t>(i));
      std::vector<uint8_t> other = datagram;
      many.seal(datagram);
      sealIcrc(route, other);
      ASSERT_EQ(datagram, other) << other.size();
      EXPECT_TRUE(many.check(datagram));
      EXPECT_EQ(datagram, other) << "unchanged";
      if (constexpr size_t kHeaders = 12; datagram.size() >= kHeaders + kIcrcBytes) {
        const size_t padding = std::min<size_t>(static_cast<size_t>(i) % 4, other.size() - kHeaders - kIcrcBytes);
        const auto begin = other.begin() + kHeaders;
        const auto end = other.end() - static_cast<std::ptrdiff_t>(kIcrcBytes + padding);
        const std::vector<uint8_t> payload(begin, end);
        std::vector<uint8_t> third = other;
        std::fill_n(third.begin() + kHeaders, payload.size(), uint8_t{0});
        many.seal(third, kHeaders, payload);
        ASSERT_EQ(third, other) << other.size();
      }
      datagram[random() % datagram.size()] ^= static_cast<uint8_t>(1 << (random() % 8));
      EXPECT_EQ(many.check(datagram), checkIcrc(route, datagram));
    }
  }
}

}  // namespace
}  // namespace hpu::roce
