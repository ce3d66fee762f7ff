// SPDX-License-Identifier: Apache-2.0
// What has a header of a few lines.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "base/CheckEnum.h"
#include "base/CopyText.h"
#include "base/HostMemory.h"
#include "base/Math.h"
#include "base/PciAddress.h"

namespace hpu::base {
namespace {

TEST(Math, CeilDivRoundsUpAndDoesNotOverflow) {
  for (int64_t a = -9; a <= 9; ++a)
    for (int64_t b = 1; b <= 4; ++b) {
      const int64_t q = ceilDiv(a, b);
      EXPECT_TRUE(q * b >= a && (q - 1) * b < a) << a << " / " << b;
    }
  EXPECT_EQ(ceilDiv(INT64_MAX, 2), INT64_MAX / 2 + 1);
  EXPECT_EQ(ceilDiv(INT64_MAX, INT64_MAX), 1);
}

TEST(CopyText, CopiesAllOrNothing) {
  char out[4] = "abc";
  EXPECT_FALSE(copyText("wxyz", out, sizeof out));
  EXPECT_STREQ(out, "abc");
  EXPECT_FALSE(copyText("", out, 0));
  EXPECT_TRUE(copyText("xyz", out, sizeof out));
  EXPECT_STREQ(out, "xyz");
}

enum class Colour : uint8_t { kRed = 1, kBlue = 4 };

TEST(CheckEnum, NamesTheOptionItsValueAndTheOthers) {
  const auto check = [](int value) {
    return checkEnum("Paint::colour", static_cast<Colour>(value), {Colour::kRed, Colour::kBlue},
                     [](Colour colour) { return colour == Colour::kRed ? "red" : "blue"; });
  };
  EXPECT_TRUE(check(1).ok());
  EXPECT_TRUE(check(4).ok());
  EXPECT_EQ(check(3).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(check(3).message(), "Paint::colour is 3, which is none of its values; they are 1 (red), 4 (blue)");
}

TEST(PciAddress, MayBeWrittenWithoutItsDomainAndInCapitals) {
  constexpr const char* kAddress = "0000:9a:00.0";
  for (const char* same : {"0000:9a:00.0", "9a:00.0", "9A:00.0", "0000:9A:00.0"})
    EXPECT_TRUE(samePciAddress(same, kAddress)) << same;
  for (const char* other : {"", "0000:", "9a:00.1", "0001:9a:00.0", "a:00.0", "0000:9a:00.00", "0000:0000:9a:00.0"})
    EXPECT_FALSE(samePciAddress(other, kAddress)) << other;
  EXPECT_FALSE(samePciAddress("9a:00.0", "0001:9a:00.0"));
}

TEST(HostMemory, AddressesArePointersAsNumbers) {
  int x = 0;
  EXPECT_EQ(hostPointer(hostAddress(&x)), &x);
  EXPECT_EQ(pageBytes() & (pageBytes() - 1), 0);
}

}  // namespace
}  // namespace hpu::base
