// SPDX-License-Identifier: Apache-2.0
#include "tools/hccl-sim/Report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tools/hccl-sim/Explanation.h"

namespace hpu::tools::test {
namespace {

using ::testing::HasSubstr;

/// A result of made-up times.
SimResult made(SimOp op, int32_t nodes, int64_t bytes, int64_t timePs, const std::string& label = "") {
  WorkOptions options;
  options.op = op;
  SimResult result;
  result.site = *siteOf(collectives::standardFabric(Target::kGaudi3, nodes), nodes, 0, label);
  result.work = *workOf(options, result.site->map, bytes);
  WorkOptions ring;
  ring.op = SimOp::kSendRecv;
  result.plan = messagePlan(*workOf(ring, result.site->map, bytes), result.site->map);
  result.algorithm = "made";
  result.timePs = timePs;
  result.lowerBoundPs = timePs / 2;
  result.timing.events = 17;
  result.timing.classes = 2;
  result.wallMs = 1.5;
  return result;
}

TEST(SimReport, BandwidthsAreThoseOfNcclTests) {
  // 1 GiB in 10 ms among 16 ranks, by hand.
  const SimResult result = made(SimOp::kAllReduce, 2, int64_t{1} << 30, 10'000'000'000);
  EXPECT_DOUBLE_EQ(result.timeUs(), 10000);
  EXPECT_NEAR(result.algbwGBps(), 107.3741824, 1e-9);
  EXPECT_NEAR(result.busbwGBps(), 201.326592, 1e-9);
  EXPECT_DOUBLE_EQ(result.shareOfBound(), 0.5);
  const SimResult gather = made(SimOp::kAllGather, 2, int64_t{1} << 30, 10'000'000'000);
  EXPECT_NEAR(gather.busbwGBps(), 107.3741824 * 15 / 16, 1e-9);
}

TEST(SimReport, JsonHasTheKeysThatOthersRead) {
  const auto json = nlohmann::json::parse(resultJson(made(SimOp::kAllReduce, 2, 1 << 20, 50'000'000)).dump());
  EXPECT_EQ(json["devices"], 16);
  EXPECT_EQ(json["nodes"], 2);
  EXPECT_EQ(json["bytes"], 1 << 20);
  EXPECT_EQ(json["time_us"], 50.0);
  EXPECT_NEAR(json["algbw_GBps"].get<double>(), 20.97152, 1e-9);
  EXPECT_NEAR(json["busbw_GBps"].get<double>(), 20.97152 * 30 / 16, 1e-9);
  EXPECT_EQ(json["events"], 17);
  EXPECT_EQ(json["wall_ms"], 1.5);
  EXPECT_EQ(json["modelled"], true);
  EXPECT_TRUE(json["root"].is_null());
  SimResult none = made(SimOp::kAllReduce, 2, 1 << 20, 0);
  none.plan = nullptr;
  EXPECT_TRUE(nlohmann::json::parse(resultJson(none).dump())["time_us"].is_null());
}

TEST(SimReport, TablesSayWhatIsModelledAndShowEachResult) {
  const std::vector<SimResult> results = {made(SimOp::kAllReduce, 2, 1024, 5'000'000),
                                          made(SimOp::kAllReduce, 2, 2048, 6'000'000)};
  EXPECT_THAT(headText(results), HasSubstr("all_reduce of float, 2 nodes, 16 devices"));
  EXPECT_THAT(headText(results), HasSubstr("modelled"));
  const std::string table = resultsTable(results).text(0);
  EXPECT_THAT(table, HasSubstr("5.000"));
  EXPECT_THAT(table, HasSubstr("2048"));
  EXPECT_THAT(table, HasSubstr("50.0 %"));
}

TEST(SimReport, ColumnsStandSideBySideWithTheRatioToTheFirst) {
  const std::string nodes =
      sideBySide({made(SimOp::kAllReduce, 2, 1024, 5'000'000), made(SimOp::kAllReduce, 4, 1024, 10'000'000)},
                 Side::kNodes)
          .text(0);
  EXPECT_THAT(nodes, HasSubstr("2 x 8 nodes"));
  EXPECT_THAT(nodes, HasSubstr("2.000"));
  const std::string fabrics = sideBySide({made(SimOp::kAllReduce, 2, 1024, 5'000'000, "before"),
                                          made(SimOp::kAllReduce, 2, 1024, 6'250'000, "slow-node=1:0.5")},
                                         Side::kFabrics)
                                  .text(0);
  EXPECT_THAT(fabrics, HasSubstr("slow-node=1:0.5"));
  EXPECT_THAT(fabrics, HasSubstr("1.250"));
  // Algorithms: the ratio is to the fastest; one that does not do the operation has none.
  std::vector<SimResult> results(3, made(SimOp::kAllReduce, 2, 1024, 5'000'000));
  results[0].algorithm = "a";
  results[0].timePs = 10'000'000;
  results[1].algorithm = "b";
  results[2].algorithm = "c";
  results[2].plan = nullptr;
  const std::string algorithms = sideBySide(results, Side::kAlgorithms).text(0);
  EXPECT_THAT(algorithms, ::testing::ContainsRegex("1024 +10.000 .* 2.000 +5.000 .* 1.000 +- +- +-"));
}

TEST(SimExplanation, TheAccountOfThePortAddsUpToTheTime) {
  SimResult result = made(SimOp::kSendRecv, 2, 75'000'000, 1'100'000'000);
  result.lowerBoundPs = 1'000'000'000;
  collectives::PortUse port;
  port.kind = collectives::PortUse::Kind::kRailOut;
  port.bytes = 75'000'000;
  port.busyPs = 1'020'000'000;
  port.firstPs = 5'000'000;
  port.lastPs = 1'030'000'000;
  port.messages = 1;
  result.timing.ports = {port};
  result.timing.spans = {{0, 0, 5'000'000, 1'100'000'000}, {0, 1, 5'000'000, 1'090'000'000}};
  const Explanation explanation = explain(result);
  std::map<std::string, int64_t> parts;
  int64_t sum = 0, chain = 0;
  for (const TimePart& part : explanation.account) parts[part.name] = part.ps, sum += part.ps;
  for (const TimePart& part : explanation.chain) chain += part.ps;
  EXPECT_EQ(sum, result.timePs);
  EXPECT_EQ(chain, result.timePs);
  EXPECT_EQ(parts["bound"], 1'000'000'000);
  EXPECT_EQ(parts["headers"], 20'000'000);
  EXPECT_EQ(parts["before"], 5'000'000);
  EXPECT_EQ(parts["idle"], 5'000'000);
  EXPECT_EQ(parts["after"], 70'000'000);
  EXPECT_EQ(explanation.chain[0].name, "mesh_messages");
  EXPECT_EQ(explanation.chain[0].ps, 1'095'000'000);
}

}  // namespace
}  // namespace hpu::tools::test
