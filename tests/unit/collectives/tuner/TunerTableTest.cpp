// SPDX-License-Identifier: Apache-2.0
#include "collectives/tuner/TunerTable.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

namespace hpu::collectives {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TunerTable parsed(const std::string& text) {
  StatusOr<TunerTable> table = TunerTable::parse(text, "t");
  EXPECT_TRUE(table.ok()) << table.status().toString();
  return table.ok() ? *table : TunerTable();
}
std::string error(const std::string& text) {
  StatusOr<TunerTable> table = TunerTable::parse(text, "a.table");
  EXPECT_FALSE(table.ok());
  EXPECT_EQ(table.status().code(), StatusCode::kInvalidArgument);
  return table.status().message();
}
Problem allReduce(int32_t ranks, int64_t bytes, int32_t elementBytes = 4) {
  Problem p{Collective::kAllReduce, ranks, bytes / elementBytes};
  p.elementBytes = elementBytes;
  return p;
}

TEST(TunerTable, TheFirstRuleThatMatchesWins) {
  TunerTable t = parsed(
      "# a comment\n"
      "\n"
      "all-reduce 8 2 0 64K mesh-one-shot 1 # small\n"
      "all-reduce\t8 * 0 64K\tring 2\r\n"
      "*          * * 1M 2M mesh *");
  ASSERT_EQ(t.rules().size(), 3u);
  EXPECT_EQ(t.match(allReduce(8, 64 << 10, 2)), &t.rules()[0]);
  EXPECT_EQ(t.match(allReduce(8, 64 << 10, 4)), &t.rules()[1]);
  EXPECT_EQ(t.match(allReduce(8, (64 << 10) + 4)), nullptr);
  EXPECT_EQ(t.match(allReduce(4, 1024)), nullptr);
  EXPECT_EQ(t.match(allReduce(4, 1 << 20)), &t.rules()[2]);
  EXPECT_EQ(t.match(allReduce(4, 2 << 20)), &t.rules()[2]);
  EXPECT_EQ(t.rules()[0].line, 3);
  EXPECT_EQ(t.rules()[1].slices, 2);
  EXPECT_EQ(t.rules()[2].slices, 0);
  EXPECT_EQ(t.rules()[2].collective, -1);
}

TEST(TunerTable, SizesAreOfAllRanksWhereTheyHaveParts) {
  TunerTable t = parsed("all-gather * * 8K 8K mesh 1\n");
  EXPECT_NE(t.match({Collective::kAllGather, 8, 256}), nullptr);
  EXPECT_EQ(t.match({Collective::kAllGather, 8, 2048}), nullptr);
}

TEST(TunerTable, TheHashIsOfTheRulesAlone) {
  EXPECT_EQ(parsed("").hash(), 0u);
  EXPECT_EQ(parsed("# nothing\n").hash(), 0u);
  uint64_t hash = parsed("all-reduce 8 * 0 64K ring 2\n").hash();
  EXPECT_NE(hash, 0u);
  EXPECT_EQ(parsed("# c\n\n all-reduce  8 * 0 65536 ring 2 # d").hash(), hash);
  EXPECT_NE(parsed("all-reduce 8 * 0 64K ring 3\n").hash(), hash);
  EXPECT_NE(parsed("all-reduce 8 * 0 64K mesh 2\n").hash(), hash);
  EXPECT_NE(parsed("all-reduce 8 * 0 63K ring 2\n").hash(), hash);
}

TEST(TunerTable, ErrorsNameTheFileAndTheLine) {
  EXPECT_EQ(error("\n# x\nall-reduce 8 *\n"),
            "a.table:3: a rule has 7 fields (collective ranks element-bytes min-bytes max-bytes "
            "algorithm slices); this line has 3");
  EXPECT_THAT(error("allreduce 8 * 0 * ring 1"),
              StartsWith("a.table:1: unknown collective 'allreduce'; there are all-reduce, "));
  EXPECT_THAT(error("* 8 * 0 * rings 1"), HasSubstr("unknown algorithm 'rings'; there are mesh, "));
  EXPECT_THAT(error("* 0 * 0 * ring 1"), HasSubstr("ranks '0' is neither '*' nor from 1 to"));
  EXPECT_THAT(error("* x * 0 * ring 1"), HasSubstr("ranks 'x'"));
  EXPECT_THAT(error("* * 9 0 * ring 1"), HasSubstr("element-bytes '9'"));
  EXPECT_THAT(error("* * * -1 * ring 1"), HasSubstr("min-bytes '-1'"));
  EXPECT_THAT(error("* * * 2M 1M ring 1"), HasSubstr("min-bytes 2M is more than max-bytes 1M"));
  EXPECT_THAT(error("* * * 0 * ring 0"), HasSubstr("slices '0'"));
  EXPECT_THAT(error("* * * 0 99999999999999999999 ring 1"), HasSubstr("max-bytes '9999"));
  EXPECT_THAT(error("* * * 0 * ring 1 2"), HasSubstr("this line has 8"));
}

TEST(TunerTable, LoadsAFile) {
  std::string path = ::testing::TempDir() + "tuner_table_test";
  std::ofstream(path) << "* * * 0 * ring 1\nbad\n";
  StatusOr<TunerTable> table = TunerTable::load(path);
  ASSERT_FALSE(table.ok());
  EXPECT_THAT(table.status().message(), StartsWith(path + ":2: "));
  std::ofstream(path) << "* * * 0 * ring 1\n";
  EXPECT_TRUE(TunerTable::load(path).ok());
  std::remove(path.c_str());
  EXPECT_EQ(TunerTable::load(path).status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace hpu::collectives
