// SPDX-License-Identifier: Apache-2.0
#include "base/Format.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace hpu::base {
namespace {

TEST(Format, BytesHaveThreeSignificantDigitsAndBinaryUnits) {
  EXPECT_EQ(formatBytes(0), "0 B");
  EXPECT_EQ(formatBytes(1023), "1023 B");
  EXPECT_EQ(formatBytes(1024), "1 KiB");
  EXPECT_EQ(formatBytes(1536), "1.5 KiB");
  EXPECT_EQ(formatBytes(197LL << 20), "197 MiB");
  EXPECT_EQ(formatBytes((12LL << 20) + (3 << 20) / 10), "12.3 MiB");
  EXPECT_EQ(formatBytes(96LL << 30), "96 GiB");
  EXPECT_EQ(formatBytes((1LL << 20) - 1), "1 MiB");
  EXPECT_EQ(formatBytes(-2048), "-2 KiB");
}

TEST(Format, NanosecondsPickTheirUnit) {
  EXPECT_EQ(formatNs(950), "950 ns");
  EXPECT_EQ(formatNs(1250), "1.25 us");
  EXPECT_EQ(formatNs(3400000), "3.4 ms");
  EXPECT_EQ(formatNs(2000000000), "2 s");
}

TEST(Format, StrCatTakesStringsNumbersAndBools) {
  EXPECT_EQ(strCat("a", std::string("b"), std::string_view("c"), 'd', 5, -6LL, 0.5, true, uint8_t{7}),
            "abcd5-60.5true7");
}

TEST(Format, ParsesBytesWithSuffixes) {
  EXPECT_EQ(parseBytes("4096").value(), 4096);
  EXPECT_EQ(parseBytes("512M").value(), 512LL << 20);
  EXPECT_EQ(parseBytes("2g").value(), 2LL << 30);
  EXPECT_EQ(parseBytes("3KiB").value(), 3072);
  EXPECT_EQ(parseBytes("1TB").value(), 1LL << 40);
  EXPECT_EQ(parseBytes("8B").value(), 8);
}

TEST(Format, RefusesWhatIsNotANumberOfBytes) {
  for (const char* text : {"", "K", "-1", "1.5G", "12X", "1 K", "1KK", "ib", "1i"})
    EXPECT_EQ(parseBytes(text).status().code(), StatusCode::kInvalidArgument) << text;
  EXPECT_EQ(parseBytes("9223372036854775808").status().code(), StatusCode::kOutOfRange);
  EXPECT_EQ(parseBytes("8388608T").status().code(), StatusCode::kOutOfRange);
  EXPECT_EQ(parseBytes("8388607T").value(), 8388607LL << 40);
}

TEST(Format, ParsesWholeNumbersOnly) {
  EXPECT_EQ(parseInt("-12").value(), -12);
  for (const char* text : {"", "1x", " 1", "1 ", "0x10", "99999999999999999999"})
    EXPECT_FALSE(parseInt(text).ok()) << text;
}

TEST(Format, HexAndErrno) {
  EXPECT_EQ(formatHex(0xbeef), "0xbeef");
  EXPECT_EQ(errnoText(ENOENT), "No such file or directory");
  std::string parts[] = {"a", "b", "c"};
  EXPECT_EQ(join(parts), "a, b, c");
}

}  // namespace
}  // namespace hpu::base
