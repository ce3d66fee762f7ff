// SPDX-License-Identifier: Apache-2.0
#include "tools/hccl-sim/Arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hpu::tools::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(SimArguments, NodeCountsAreWholeNumbersThatComeOnce) {
  EXPECT_THAT(*parseNodeCounts({"2", "4", "128"}), ElementsAre(2, 4, 128));
  for (const char* wrong : {"0", "-1", "x", "", "2.5", "99999999999999999999"})
    EXPECT_THAT(parseNodeCounts({wrong}).status().message(), HasSubstr("whole number from 1")) << wrong;
  EXPECT_THAT(parseNodeCounts({"2", "2"}).status().message(), HasSubstr("twice"));
  EXPECT_THAT(parseNodeCounts({}).status().message(), HasSubstr("--nodes N"));
  EXPECT_TRUE(checkDevices(1024, 8).ok());
  EXPECT_THAT(checkDevices(1 << 20, 8).message(), HasSubstr("at most 16384"));
}

TEST(SimArguments, RanksAreAListOfNumbersAndSpans) {
  EXPECT_THAT(*parseRanks({"9", "0-2", "1"}, 16), ElementsAre(0, 1, 2, 9));
  EXPECT_THAT(*parseRanks({}, 16), IsEmpty());
  for (const char* wrong : {"16", "3-2", "0-16", "a", "-", "1-"})
    EXPECT_THAT(parseRanks({wrong}, 16).status().message(), HasSubstr("--ranks")) << wrong;
}

TEST(SimArguments, LateRanksArriveAtTheirTimeAndTheOthersAtOnce) {
  EXPECT_THAT(*parseArrivals({"1:2.5", "3:0.000001"}, 4), ElementsAre(0, 2500000, 0, 1));
  EXPECT_THAT(*parseArrivals({}, 4), IsEmpty());
  for (const char* wrong : {"4:1", "1", "1:", "1:-1", "1:nan", "1:inf", "x:1", "1:1e12"})
    EXPECT_THAT(parseArrivals({wrong}, 4).status().message(), HasSubstr("--late")) << wrong;
  EXPECT_THAT(parseArrivals({"0:1", "0:2"}, 4).status().message(), HasSubstr("--late: rank 0 comes twice"));
}

TEST(SimArguments, AWhatIfIsANameAndAValue) {
  EXPECT_EQ(parseWhatIf("slow-node=3:0.5")->name, "slow-node");
  EXPECT_EQ(parseWhatIf("slow-node=3:0.5")->value, "3:0.5");
  for (const char* wrong : {"", "a", "=1", "a="}) EXPECT_FALSE(parseWhatIf(wrong).ok()) << wrong;
  auto sweep = parseSweep("oversubscription=1,2,4");
  ASSERT_TRUE(sweep.ok());
  ASSERT_EQ(sweep->size(), 3u);
  EXPECT_EQ((*sweep)[2].text(), "oversubscription=4");
  for (const char* wrong : {"a", "=1", "a=", "a=1,,2", "a=1,1"}) EXPECT_FALSE(parseSweep(wrong).ok()) << wrong;
}

class WhatIfs : public ::testing::Test {
 protected:
  StatusOr<collectives::Fabric> with(const std::vector<std::string>& texts) {
    std::vector<WhatIf> changes;
    for (const std::string& text : texts) changes.push_back(*parseWhatIf(text));
    return changed(collectives::standardFabric(Target::kGaudi3, 4), 4, changes, notes);
  }
  std::vector<std::string> notes;
};

TEST_F(WhatIfs, ChangeWhatTheyName) {
  const collectives::Fabric before = collectives::standardFabric(Target::kGaudi3, 4);
  auto fabric = with({"rails-down=3:1", "slow-node=2:0.5", "rails-down=3:0", "message_us=10"});
  ASSERT_TRUE(fabric.ok()) << fabric.status().message();
  EXPECT_EQ(fabric->rateOf(2), 0.5);
  EXPECT_EQ(fabric->rateOf(3), 1);
  ASSERT_NE(fabric->exceptionOf(3), nullptr);
  EXPECT_THAT(fabric->exceptionOf(3)->railsDown, ElementsAre(0, 1));
  const double us = collectives::findConstant(before, "message_us")->value;
  EXPECT_EQ(fabric->mesh.messagePs, 10'000'000);
  EXPECT_NEAR(static_cast<double>(fabric->railMessagePs - before.railMessagePs), (10 - us) * 1e6, 1);
  EXPECT_EQ(collectives::findConstant(*fabric, "message_us")->value, 10);
  EXPECT_THAT(collectives::findConstant(*fabric, "message_us")->source, HasSubstr("what-if"));
  EXPECT_THAT(notes, IsEmpty());
}

TEST_F(WhatIfs, OversubscriptionOfOneSwitchMakesTwoLeavesAndSaysSo) {
  auto fabric = with({"oversubscription=2"});
  ASSERT_TRUE(fabric.ok()) << fabric.status().message();
  EXPECT_EQ(fabric->nodesPerLeaf, 2);
  EXPECT_THAT(notes, ElementsAre(HasSubstr("two leaves of 2 nodes")));
  notes.clear();
  fabric = with({"oversubscription=2", "nodes-per-leaf=1"});
  EXPECT_EQ(fabric->nodesPerLeaf, 1);
  EXPECT_THAT(notes, IsEmpty());
  EXPECT_EQ(with({"oversubscription=1"})->nodesPerLeaf, 0);
}

TEST_F(WhatIfs, ThatNameNothingAreErrors) {
  for (const auto& [text, words] : std::vector<std::pair<std::string, std::string>>{
           {"speed=2", "there is no 'speed'; there are rails-down"},
           {"rails-down=4:0", "the node '4' is not a whole number from 0 to 3"},
           {"rails-down=0:8", "the rail '8' is not a whole number from 0 to 7"},
           {"rails-down=0", "NODE:RAIL"},
           {"slow-node=0:0.001", "from 0.01 to 1"},
           {"slow-node=0:2", "from 0.01 to 1"},
           {"slow-node=9:0.5", "from 0 to 3"},
           {"oversubscription=0.5", "oversubscription"},
           {"oversubscription=x", "not a number"},
           {"nodes-per-leaf=0", "whole number"},
           {"message_us=-1", "message_us"},
           {"message_us=nan", "not a number"}})
    EXPECT_THAT(with({text}).status().message(), HasSubstr(words)) << text;
}

}  // namespace
}  // namespace hpu::tools::test
