// SPDX-License-Identifier: Apache-2.0
#include "tools/common/Json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace {

using hpu::tools::Json;

TEST(Json, KeepsTheOrderInWhichKeysWereSet) {
  Json value;
  value.set("z", 1).set("a", true).set("z", 2);
  EXPECT_EQ(value.dump(-1), R"({"z": 2, "a": true})");
}

TEST(Json, EscapesControlCharactersQuotesAndInvalidUtf8) {
  EXPECT_EQ(hpu::tools::quoteJson("a\"b\\c\n\x01"), R"("a\"b\\c\n\u0001")");
  EXPECT_EQ(hpu::tools::quoteJson("\xC3\xA9"), "\"\xC3\xA9\"");
  EXPECT_EQ(hpu::tools::quoteJson("\xC3("), R"("\ufffd(")");
  EXPECT_EQ(hpu::tools::quoteJson("\xC0\x80"), R"("\ufffd\ufffd")") << "overlong forms are invalid";
}

TEST(Json, PrintsNumbersThatReadBackEqualAndNullForNan) {
  EXPECT_EQ(Json(0.1).dump(), "0.1");
  EXPECT_EQ(Json(3.0).dump(), "3.0");
  EXPECT_EQ(Json(std::numeric_limits<int64_t>::min()).dump(), "-9223372036854775808");
  EXPECT_EQ(Json(std::nan("")).dump(), "null");
  EXPECT_EQ(Json(HUGE_VAL).dump(), "null");
}

TEST(Json, IndentsNestedValuesAndPrintsEmptyOnesShort) {
  Json value;
  value["list"].append(1);
  value.set("none", Json::array()).set("empty", Json::object());
  EXPECT_EQ(value.dump(1), "{\n \"list\": [\n  1\n ],\n \"none\": [],\n \"empty\": {}\n}");
}

}  // namespace
