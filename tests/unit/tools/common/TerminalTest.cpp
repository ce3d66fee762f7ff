// SPDX-License-Identifier: Apache-2.0
#include "tools/common/Terminal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hpu::tools {
namespace {

using ::testing::ElementsAre;

TEST(Terminal, ColumnsAreThoseOfCharactersNotOfBytes) {
  EXPECT_EQ(displayWidth(""), 0u);
  EXPECT_EQ(displayWidth("abc"), 3u);
  EXPECT_EQ(displayWidth("…"), 1u);
  EXPECT_EQ(displayWidth("Größe"), 5u);
  EXPECT_EQ(displayWidth("行列"), 4u);              // Wide.
  EXPECT_EQ(displayWidth("e\xcc\x81"), 1u);         // A combining accent.
  EXPECT_EQ(displayWidth("\xff\xc3"), 2u);          // No UTF-8.
  EXPECT_EQ(displayWidth("\xf0\x9f\x98\x80"), 2u);  // Beyond the basic plane.
  EXPECT_EQ(displayWidth("\xe2\x82 x"), 4u);        // Cut short: byte by byte.
}

TEST(Terminal, NamesAreCutInTheMiddleOnly) {
  EXPECT_EQ(shortenedName("short", 5), "short");
  EXPECT_EQ(shortenedName("/encoder/layer.11/MatMul", 13), "/encod…MatMul");
  EXPECT_EQ(shortenedName("abcdef", 3), "a…f");
  for (size_t width = 3; width < 12; ++width) {
    EXPECT_LE(displayWidth(shortenedName("行列行列行列行列", width)), width);
    EXPECT_LE(displayWidth(shortenedName("aé行b\xff"
                                         "cdefghij",
                                         width)),
              width);
  }
}

TEST(Terminal, LinesEndBetweenWords) {
  EXPECT_THAT(filled("one two three", 7), ElementsAre("one two", "three"));
  EXPECT_THAT(filled("", 7), ElementsAre(""));
  EXPECT_THAT(filled("a  b", 10), ElementsAre("a  b")) << "what stands in columns does so still";
  EXPECT_THAT(filled("sum|prod|min", 9), ElementsAre("sum|prod|", "min"));
}

TEST(Terminal, NumbersAndTheirUnitsStayTogether) {
  EXPECT_THAT(filled("overhead 98.2 %, memory 1.2 %", 14), ElementsAre("overhead", "98.2 %, memory", "1.2 %"));
  EXPECT_THAT(filled("moved 1234567.125 GB/s", 18), ElementsAre("moved", "1234567.125 GB/s"));
  EXPECT_THAT(filled("took 1e+05 and 2.5e-06 s", 12), ElementsAre("took 1e+05", "and", "2.5e-06 s"));
  // A word behind a number that is no unit is a word.
  EXPECT_THAT(filled("of 8 devices", 7), ElementsAre("of 8", "devices"));
}

TEST(Terminal, AWordThatIsTooLongIsDividedBehindASign) {
  EXPECT_THAT(filled("/models/encoder/layer_11.onnx", 17), ElementsAre("/models/encoder/", "layer_11.onnx"));
  EXPECT_THAT(filled("abcdefghij", 4), ElementsAre("abcd", "efgh", "ij"));
  EXPECT_THAT(filled("行列行列", 5), ElementsAre("行列", "行列"));
  EXPECT_THAT(filled("行列", 1), ElementsAre("行", "列")) << "ends, though nothing fits";
}

TEST(Terminal, LongLinesGoOnUnderTheirText) {
  EXPECT_EQ(wrapped("device  12.3 us (modelled), copy in 1.5 us, copy out 2.5 us", 40),
            "device  12.3 us (modelled), copy in\n        1.5 us, copy out 2.5 us");
  EXPECT_EQ(wrapped("    kept /conv: its input is read by two units of other bundles", 40),
            "    kept /conv: its input is read by two\n        units of other bundles");
  EXPECT_EQ(wrapped("advice: use a larger batch to reuse weights that are read", 40),
            "advice: use a larger batch to reuse\nweights that are read");
  EXPECT_EQ(wrapped("short\n\nlines\n", 40), "short\n\nlines\n");
  const std::string longLine(500, 'x');
  EXPECT_EQ(wrapped(longLine, 0), longLine) << "nothing is changed on a pipe";
}

TEST(Terminal, ProgressIsOneLine) {
  EXPECT_EQ(shortenedLine("pricing 3 of 8", 20), "pricing 3 of 8");
  EXPECT_EQ(shortenedLine("pricing 1234567 of 12345678", 12), "pricing …") << "no number is cut";
  EXPECT_LE(displayWidth(shortenedLine(std::string(300, 'x'), 79)), 79u);
}

TEST(Terminal, TheWidthIsThatOfColumnsWhereItIsSet) {
  ::setenv("COLUMNS", "93", 1);
  EXPECT_EQ(outputWidth(), 93);
  ::setenv("COLUMNS", "3", 1);
  EXPECT_EQ(outputWidth(), 20) << "less can hold nothing";
  for (const char* wrong : {"", "0", "-4", "wide", "99999999999999999999"}) {
    ::setenv("COLUMNS", wrong, 1);
    EXPECT_GE(outputWidth(), 0) << wrong;
  }
  ::unsetenv("COLUMNS");
}

}  // namespace
}  // namespace hpu::tools
