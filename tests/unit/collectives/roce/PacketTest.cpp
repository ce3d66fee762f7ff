// SPDX-License-Identifier: Apache-2.0
#include "collectives/roce/Packet.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace hpu::roce {
namespace {

std::vector<uint8_t> bytesOf(const Packet& packet) {
  std::vector<uint8_t> bytes(datagramBytes(packet), 0xEE);
  encode(packet, bytes);
  return bytes;
}

std::vector<Opcode> allOpcodes() {
  std::vector<Opcode> all;
  for (int code = 0; code < 256; ++code)
    if (!traitsOf(static_cast<Opcode>(code)).name.empty()) all.push_back(static_cast<Opcode>(code));
  return all;
}

TEST(Packet, AreTheOpcodesOfReliableConnectionsAndOneOfCongestion) {
  EXPECT_EQ(allOpcodes().size(), 22u);
  EXPECT_EQ(traitsOf(static_cast<Opcode>(0x0C)).name, "READ request");
  EXPECT_EQ(traitsOf(static_cast<Opcode>(0x15)).name, "");
  EXPECT_EQ(traitsOf(static_cast<Opcode>(0x81)).name, "congestion notification");
}

TEST(Packet, HasTheHeadersOfItsOpcode) {
  // Bytes, by the specification: BTH 12, RETH 16, AETH 4, ImmDt 4, AtomicETH 28, AtomicAckETH 8.
  EXPECT_EQ(headerBytes(traitsOf(Opcode::kSendMiddle)), 12u);
  EXPECT_EQ(headerBytes(traitsOf(Opcode::kSendLastImmediate)), 16u);
  EXPECT_EQ(headerBytes(traitsOf(Opcode::kWriteFirst)), 28u);
  EXPECT_EQ(headerBytes(traitsOf(Opcode::kWriteMiddle)), 12u);
  EXPECT_EQ(headerBytes(traitsOf(Opcode::kWriteLastImmediate)), 16u);
  EXPECT_EQ(headerBytes(traitsOf(Opcode::kWriteOnlyImmediate)), 32u);
  EXPECT_EQ(headerBytes(traitsOf(Opcode::kReadRequest)), 28u);
  EXPECT_EQ(headerBytes(traitsOf(Opcode::kReadResponseFirst)), 16u);
  EXPECT_EQ(headerBytes(traitsOf(Opcode::kReadResponseMiddle)), 12u);
  EXPECT_EQ(headerBytes(traitsOf(Opcode::kAcknowledge)), 16u);
  EXPECT_EQ(headerBytes(traitsOf(Opcode::kAtomicAcknowledge)), 24u);
  EXPECT_EQ(headerBytes(traitsOf(Opcode::kFetchAdd)), 40u);
  EXPECT_EQ(headerBytes(traitsOf(Opcode::kCongestionNotification)), 28u);
}

TEST(Packet, LiesOnTheWireAsTheSpecificationDraws) {
  Packet packet;
  packet.opcode = Opcode::kWriteOnlyImmediate;
  packet.solicited = true;
  packet.acknowledge = true;
  packet.congestedBackward = true;
  packet.queuePair = 0x123456;
  packet.psn = 0xABCDEF;
  packet.address = 0x0102030405060708;
  packet.key = 0x11223344;
  packet.length = 3;
  packet.immediate = 0x55667788;
  const std::vector<uint8_t> payload = {0xA1, 0xA2, 0xA3};
  packet.payload = payload;
  const std::vector<uint8_t> wire = {0x0B, 0xD0, 0xFF, 0xFF, 0x40, 0x12, 0x34, 0x56, 0x80, 0xAB, 0xCD, 0xEF, 0x01, 0x02,
                                     0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x11, 0x22, 0x33, 0x44, 0x00, 0x00, 0x00, 0x03,
                                     0x55, 0x66, 0x77, 0x88, 0xA1, 0xA2, 0xA3, 0x00, 0xEE, 0xEE, 0xEE, 0xEE};
  EXPECT_EQ(bytesOf(packet), wire);
}

TEST(Packet, IsReadAsItWasWritten) {
  std::mt19937_64 random(7);
  for (Opcode opcode : allOpcodes()) {
    for (size_t size : {0u, 1u, 2u, 3u, 4u, 255u, 4096u}) {
      const OpcodeTraits& traits = traitsOf(opcode);
      std::vector<uint8_t> payload(traits.payload ? size : 0);
      for (uint8_t& byte : payload) byte = static_cast<uint8_t>(random());
      Packet packet;
      packet.opcode = opcode;
      packet.solicited = random() & 1;
      packet.migration = random() & 1;
      packet.congestedForward = random() & 1;
      packet.congestedBackward = random() & 1;
      packet.acknowledge = random() & 1;
      packet.partition = static_cast<uint16_t>(random());
      packet.queuePair = random() & 0xFFFFFF;
      packet.psn = random() & 0xFFFFFF;
      if (traits.reth || traits.atomic) packet.address = random(), packet.key = static_cast<uint32_t>(random());
      if (traits.reth) packet.length = static_cast<uint32_t>(random());
      if (traits.aeth) packet.syndrome = static_cast<uint8_t>(random()), packet.messageNumber = random() & 0xFFFFFF;
      if (traits.immediate) packet.immediate = static_cast<uint32_t>(random());
      if (traits.atomic) packet.swapOrAdd = random(), packet.compare = random();
      if (traits.atomicResult) packet.original = random();
      packet.payload = payload;
      const std::vector<uint8_t> wire = bytesOf(packet);
      Packet read;
      ASSERT_EQ(parse(wire, read), Malformed::kNo) << text(packet);
      EXPECT_EQ(bytesOf(read), wire) << text(packet);
      EXPECT_EQ(text(read), text(packet));
      EXPECT_EQ(read.partition, packet.partition);
      EXPECT_EQ(read.migration, packet.migration);
      EXPECT_EQ(read.original, packet.original);
      EXPECT_TRUE(std::equal(payload.begin(), payload.end(), read.payload.begin(), read.payload.end()));
    }
  }
}

TEST(Packet, OfAnyCutIsNoneOrWithinItsBytes) {
  for (Opcode opcode : allOpcodes()) {
    Packet packet;
    packet.opcode = opcode;
    const std::vector<uint8_t> payload(64, 9);
    if (traitsOf(opcode).payload) packet.payload = payload;
    const std::vector<uint8_t> wire = bytesOf(packet);
    for (size_t size = 0; size < wire.size(); ++size) {
      const std::vector<uint8_t> cut(wire.begin(), wire.begin() + static_cast<std::ptrdiff_t>(size));
      Packet read;
      const Malformed malformed = parse(cut, read);
      if (size < headerBytes(traitsOf(opcode)) + kIcrcBytes) {
        EXPECT_EQ(malformed, Malformed::kTooShort) << text(packet) << " " << size;
      } else {
        EXPECT_EQ(malformed, size % 4 == 0 ? Malformed::kNo : Malformed::kPadding) << text(packet) << " " << size;
      }
    }
  }
}

TEST(Packet, SaysWhatIsWrongWithOthers) {
  Packet packet, read;
  packet.opcode = Opcode::kSendOnly;
  const std::vector<uint8_t> one = {1};
  packet.payload = one;
  const std::vector<uint8_t> right = bytesOf(packet);
  auto with = [&](size_t at, uint8_t byte) {
    std::vector<uint8_t> wire = right;
    wire[at] = byte;
    return parse(wire, read);
  };
  EXPECT_EQ(with(1, 0x31), Malformed::kVersion);
  EXPECT_EQ(with(0, 0x15), Malformed::kOpcode);
  EXPECT_EQ(with(0, 0x24), Malformed::kOpcode);  // Of an unreliable connection.
  EXPECT_EQ(with(0, 0x64), Malformed::kOpcode);  // Of datagrams.
  // Padding without a payload that it could be part of.
  packet.payload = {};
  std::vector<uint8_t> empty = bytesOf(packet);
  empty[1] |= 0x10;
  EXPECT_EQ(parse(empty, read), Malformed::kPadding);
  packet.opcode = Opcode::kAcknowledge;
  std::vector<uint8_t> longer = bytesOf(packet);
  longer.resize(longer.size() + 4);
  EXPECT_EQ(parse(longer, read), Malformed::kPayload);
  std::vector<uint8_t> large(12 + 4100 + 4, 0);
  large[0] = 0x04;
  EXPECT_EQ(parse(large, read), Malformed::kTooLong);
  for (int kind = 0; kind < kMalformedKinds; ++kind) EXPECT_FALSE(malformedName(static_cast<Malformed>(kind)).empty());
}

}  // namespace
}  // namespace hpu::roce
