// SPDX-License-Identifier: Apache-2.0
#include "tools/common/Table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <sstream>

#include "tools/common/Terminal.h"

namespace hpu::tools {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::vector<std::string> linesOf(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

size_t widestLine(const std::string& text) {
  size_t widest = 0;
  for (const std::string& line : linesOf(text)) widest = std::max(widest, displayWidth(line));
  return widest;
}

/// As `hpu-trace roofline` has it.
Table roofline() {
  Table table({Column::number("time"), Column::number("waiting").leaveOut(2), Column::word("engine"),
               Column::number("of roof"), Column::word("roof"), Column::number("HBM GB/s").leaveOut(3),
               Column::number("SRAM GB/s").leaveOut(4), Column::text("why not peak"), Column::name("name")});
  table.row({"1234.5 us", "123.4 us", "mme", "71.4 %", "hbm", "2012", "13004",
             "overhead 98.2 %, memory 1.2 %, ports 0.6 %", "/encoder/layer.11/attention/self/query/MatMul"});
  table.row({"12.25 us", "0 ps", "tpc", "100.0 %", "tpc", "1", "2", "-", "Relu"});
  return table;
}

TEST(Table, AlignsColumnsWithoutTrailingBlanks) {
  Table table = Table::ofWords({"a", "long", "x"});
  table.row({"bbb", "c", "y"});
  table.row({"b"});
  EXPECT_EQ(table.text(0), "a    long  x\nbbb  c     y\nb");
}

TEST(Table, IsWholeOnAPipe) {
  Table table({Column::name("name"), Column::number("ms"), Column::text("why")});
  const std::string name(300, 'n'), why(1000, 'w');
  table.row({name, "1234567.125", why});
  table.row({"x", "1", "y"});
  EXPECT_THAT(table.text(0), HasSubstr(name + "  1234567.125  " + why));
  // One very long name does not make all rows as long.
  EXPECT_LT(linesOf(table.text(0))[2].size(), 300u);
}

TEST(Table, NamesKeepWhatTheyAskForWhileOtherColumnsCanGoForIt) {
  const std::string first = "/encoder/layer.10/attention/MatMul", second = "/encoder/layer.11/attention/MatMul";
  Table table({Column::number("time"), Column::name("name").least(24), Column::name("nodes").leaveOut(1)});
  table.row({"1234.5 us", first, first});
  table.row({"1234.5 us", second, second});
  EXPECT_THAT(table.text(80), HasSubstr("nodes"));
  const std::string narrow = table.text(45);
  EXPECT_THAT(narrow, HasSubstr(second));
  EXPECT_THAT(narrow, HasSubstr("(no room for nodes: a terminal of 51"));
  EXPECT_THAT(table.text(51), Not(HasSubstr("no room")));
  // Where nothing is left to go, they give way.
  EXPECT_LE(widestLine(table.text(30)), 30u);
  EXPECT_THAT(table.text(30), HasSubstr("…"));
}

TEST(Table, NumbersAreWholeAtEveryWidth) {
  const Table table = roofline();
  for (int width : {24, 30, 40, 60, 72, 80, 81, 100, 120, 200}) {
    const std::string text = table.text(width);
    for (const char* number : {"1234.5 us", "71.4 %", "12.25 us", "100.0 %", "98.2 %", "1.2 %", "0.6 %"})
      EXPECT_THAT(text, HasSubstr(number)) << width << "\n" << text;
    // A key and a text beside it need 31 columns.
    EXPECT_LE(widestLine(text), static_cast<size_t>(std::max(width, 31))) << width << "\n" << text;
  }
}

TEST(Table, NamesGiveWayBeforeColumnsDo) {
  Table table({Column::number("time"), Column::number("count").leaveOut(1), Column::name("name")});
  table.row({"1.5 us", "12", "/encoder/layer.11/attention/self/query/MatMul"});
  EXPECT_EQ(table.text(40), "time    count  name\n1.5 us  12     /encoder/lay…query/MatMul");
}

TEST(Table, WhatIsLeftOutIsNamedAndHowToSeeIt) {
  const std::string text = roofline().text(80);
  const std::vector<std::string> lines = linesOf(text);
  EXPECT_THAT(lines[0], Not(HasSubstr("SRAM")));
  EXPECT_THAT(text, HasSubstr("(no room for "));
  EXPECT_THAT(text, HasSubstr("SRAM GB/s"));
  EXPECT_THAT(text, HasSubstr("COLUMNS="));
  EXPECT_THAT(text, HasSubstr("--json"));
  // It says the truth: at that width nothing is left out.
  const int needed = std::stoi(text.substr(text.find("COLUMNS=") + 8));
  EXPECT_THAT(roofline().text(needed), Not(HasSubstr("no room")));
  EXPECT_THAT(roofline().text(needed - 1), HasSubstr("no room"));
}

TEST(Table, TheHighestOrderGoesFirst) {
  Table table({Column::word("first"), Column::word("second").leaveOut(1), Column::word("third").leaveOut(2)});
  table.row({"aaaaaaaaaa", "bbbbbbbbbb", "cccccccccc"});
  EXPECT_EQ(linesOf(table.text(24))[1], "aaaaaaaaaa  bbbbbbbbbb");
  EXPECT_THAT(table.text(24), HasSubstr("third"));
}

TEST(Table, WhatMayNotBeLeftOutGoesOnBelowWithTheKeys) {
  Table table({Column::number("size (B)").key(), Column::word("ring").unit("us").group(1),
               Column::number("").unit("ratio").group(1), Column::word("tree").unit("us").group(2),
               Column::number("").unit("ratio").group(2)});
  table.row({"1024", "123456.789", "1.000", "234567.891", "1.900"});
  const std::string text = table.text(34);
  EXPECT_LE(widestLine(text), 34u) << text;
  const std::vector<std::string> lines = linesOf(text);
  ASSERT_GE(lines.size(), 7u);
  EXPECT_EQ(lines[0], "size (B)  ring");
  EXPECT_EQ(lines[1], "          us          ratio");
  EXPECT_EQ(lines[2], "1024      123456.789  1.000");
  EXPECT_EQ(lines[3], "");
  EXPECT_EQ(lines[6], "1024      234567.891  1.900");
  EXPECT_THAT(text, HasSubstr("in parts"));
  EXPECT_EQ(linesOf(table.text(0)).size(), 3u);
}

TEST(Table, WithoutTitlesThereIsNoHead) {
  Table table({Column::number(""), Column::text("")}, 4);
  table.row({"1.5 us", "headers and the issue of messages"});
  EXPECT_EQ(table.text(0), "    1.5 us  headers and the issue of messages");
  EXPECT_EQ(table.text(34), "    1.5 us  headers and the issue\n            of messages");
}

/// Whatever it holds and whatever the width is: no line is longer than what cannot be divided, no number is torn.
TEST(Table, FitsWhateverItHolds) {
  std::mt19937 random(7);
  auto pick = [&](int least, int most) { return std::uniform_int_distribution<int>(least, most)(random); };
  for (int round = 0; round < 300; ++round) {
    std::vector<Column> columns;
    std::vector<int> kinds;
    const int count = pick(1, 7);
    for (int c = 0; c < count; ++c) {
      kinds.push_back(pick(0, 2));
      Column column = kinds[c] == 0 ? Column::number("n") : kinds[c] == 1 ? Column::name("m") : Column::text("t");
      columns.push_back(pick(0, 2) == 0 ? column.leaveOut(pick(1, 3)) : column);
    }
    Table table(columns);
    std::vector<std::string> numbers;
    for (int r = pick(0, 4); r > 0; --r) {
      std::vector<std::string> row;
      for (int kind : kinds) {
        if (kind == 0) row.push_back(std::to_string(pick(0, 99999)) + " %");
        if (kind == 1) row.push_back(std::string(static_cast<size_t>(pick(0, 90)), 'x'));
        if (kind == 2) row.push_back("word " + std::to_string(pick(1000, 9999)) + " us and more words of a sentence");
      }
      table.row(row);
    }
    const int width = pick(44, 120);
    EXPECT_LE(widestLine(table.text(width)), static_cast<size_t>(width)) << table.text(width);
  }
}

TEST(TableLines, PrintsRowsAsTheyComeAndLeavesColumnsOut) {
  const std::vector<Column> columns = {Column::number("#   size").unit("#    (B)").width(8, true),
                                       Column::word("type").width(6, true).gap(1).leaveOut(2),
                                       Column::number("time").unit("(us)").width(9, true).gap(1)};
  const TableLines whole(columns, 0);
  EXPECT_EQ(whole.head(), "#   size   type      time\n#    (B)             (us)");
  EXPECT_EQ(whole.line({"1024", "float", "12.50"}), "    1024  float     12.50");
  EXPECT_EQ(whole.line({"123456789", "float", "12.50"}), "123456789  float     12.50") << "what is longer is whole";
  EXPECT_EQ(whole.note(), "");
  const TableLines narrow(columns, 20);
  EXPECT_EQ(narrow.line({"1024", "float", "12.50"}), "    1024     12.50");
  EXPECT_THAT(narrow.note(), StartsWith("(no room for type"));
}

}  // namespace
}  // namespace hpu::tools
