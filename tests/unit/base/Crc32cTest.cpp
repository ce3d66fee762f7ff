// SPDX-License-Identifier: Apache-2.0
#include "base/Crc32c.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace hpu::base {
namespace {

/// Bit by bit, as RFC 3720 says it.
uint32_t bitByBit(const std::vector<uint8_t>& bytes) {
  uint32_t rest = 0xFFFFFFFF;
  for (uint8_t byte : bytes)
    for (int bit = 0; bit < 8; ++bit) {
      const bool out = ((rest >> 31) ^ (byte >> bit)) & 1;
      rest = rest << 1 ^ (out ? 0x1EDC6F41 : 0);
    }
  uint32_t reversed = 0;
  for (int bit = 0; bit < 32; ++bit) reversed |= (rest >> bit & 1) << (31 - bit);
  return ~reversed;
}

TEST(Crc32c, IsTheOneOfRfc3720) {
  EXPECT_EQ(crc32c(0, "123456789", 9), 0xE3069283u);  // The check value of the CRC catalogue.
  EXPECT_EQ(crc32c(0, nullptr, 0), 0u);
  const std::vector<uint8_t> zeros(32), ones(32, 0xFF);  // RFC 3720, appendix B.4.
  EXPECT_EQ(crc32c(0, zeros.data(), zeros.size()), 0x8A9136AAu);
  EXPECT_EQ(crc32c(0, ones.data(), ones.size()), 0x62A8AB43u);
}

TEST(Crc32c, IsTheSameByTheInstructionByTablesAndBitByBit) {
  std::mt19937 random(3);
  for (size_t size : {0, 1, 7, 8, 9, 63, 1000, 6143, 6144, 6145, 12288, 40001}) {
    std::vector<uint8_t> bytes(size + 1);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
    const uint32_t expected = bitByBit({bytes.begin() + 1, bytes.end()});
    EXPECT_EQ(crc32c(0, bytes.data() + 1, size), expected) << size;
    EXPECT_EQ(crc32cByTables(0, bytes.data() + 1, size), expected) << size;
    const size_t half = size / 3;
    EXPECT_EQ(crc32c(crc32c(0, bytes.data() + 1, half), bytes.data() + 1 + half, size - half), expected) << size;
  }
}

}  // namespace
}  // namespace hpu::base
