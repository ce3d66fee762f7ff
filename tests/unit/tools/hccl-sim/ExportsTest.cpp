// SPDX-License-Identifier: Apache-2.0
#include "tools/hccl-sim/Exports.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>

#include "collectives/schedule/Export.h"
#include "tools/hccl-sim/Drawing.h"

namespace hpu::tools::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

SimResult priced(const std::string& op, std::vector<int32_t> spansOf, const std::string& algorithm = "") {
  WorkOptions options;
  options.op = *parseSimOp(op);
  collectives::Fabric fabric = collectives::standardFabric(Target::kGaudi3, 2);
  fabric.name = "a <b> & \"c\"";
  auto site = *siteOf(std::move(fabric), 2, 0, "");
  SimOptions sim;
  sim.spansOf = std::move(spansOf);
  sim.wantPorts = true;
  sim.algorithm = algorithm;
  auto result = simulate(site, *workOf(options, site->map, 1 << 20), sim);
  EXPECT_TRUE(result.ok()) << result.status().message();
  return result.ok() ? std::move(*result) : SimResult();
}

std::vector<int32_t> allRanks(const SimResult& result) {
  std::vector<int32_t> ranks(static_cast<size_t>(result.site->map.ranks()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

TEST(SimExports, ChakraDocumentsReadBackAreThePlansSchedule) {
  for (const char* op : {"all_reduce", "broadcast", "send_recv", "incast"}) {
    const SimResult result = priced(op, {});
    auto documents = chakraDocuments(result, allRanks(result));
    ASSERT_TRUE(documents.ok()) << documents.status().message();
    auto read = collectives::importChakra(*documents);
    ASSERT_TRUE(read.ok()) << read.status().message();
    const collectives::Schedule schedule = collectives::assemble(*result.plan);
    EXPECT_EQ(read->problem, schedule.problem);
    EXPECT_EQ(read->algorithm, schedule.algorithm);
    EXPECT_EQ(read->slices, schedule.slices);
    ASSERT_EQ(read->steps.size(), schedule.steps.size());
    for (size_t i = 0; i < schedule.steps.size(); ++i) {
      const auto &a = schedule.steps[i], &b = read->steps[i];
      EXPECT_TRUE(a.kind == b.kind && a.rank == b.rank && a.peer == b.peer && a.sources == b.sources &&
                  a.after == b.after && (a.kind == collectives::StepKind::kSend || a.dst == b.dst))
          << op << " " << collectives::stepText(schedule, static_cast<int32_t>(i));
    }
    // Some ranks' documents are the same ones.
    auto some = chakraDocuments(result, {3, 9});
    ASSERT_TRUE(some.ok());
    EXPECT_THAT(*some, ::testing::ElementsAre((*documents)[3], (*documents)[9]));
  }
}

TEST(SimExports, ManyRanksAreNamedOrRefused) {
  EXPECT_EQ(exportedRanks("--draw", {}, 64)->size(), 64u);
  EXPECT_THAT(exportedRanks("--draw", {}, 65).status().message(), HasSubstr("--ranks"));
  EXPECT_EQ(exportedRanks("--draw", {5}, 8192)->size(), 1u);
  EXPECT_FALSE(exportedRanks("--draw", std::vector<int32_t>(65, 1), 8192).ok());
}

TEST(SimExports, AScheduleReadBackHasTheStepsAndTheirTimes) {
  const SimResult result = priced("all_reduce", {0, 9});
  std::istringstream text(scheduleText(result, {0, 9}));
  std::map<std::pair<int32_t, int32_t>, std::pair<int64_t, int64_t>> read, expected;
  std::map<std::pair<int32_t, int32_t>, int64_t> bytes;
  for (std::string line; std::getline(text, line);) {
    if (line.empty() || line[0] == '#' || line.starts_with("rank")) continue;
    // Cells stand two or more spaces apart; those of "from" and "to" may be empty, so from both ends.
    std::istringstream words(line);
    std::vector<std::string> cells;
    for (std::string word; words >> word;) cells.push_back(word);
    ASSERT_GE(cells.size(), 6u) << line;
    const auto ps = [](const std::string& us) {
      const size_t dot = us.find('.');
      return std::stoll(us.substr(0, dot)) * 1'000'000 + std::stoll(us.substr(dot + 1));
    };
    const std::pair<int32_t, int32_t> key{std::stoi(cells[0]), std::stoi(cells[1])};
    read[key] = {ps(cells[cells.size() - 2]), ps(cells.back())};
    bytes[key] = std::stoll(cells[cells.size() - 4]);
  }
  for (const auto& span : result.timing.spans) expected[{span.rank, span.step}] = {span.startPs, span.endPs};
  EXPECT_FALSE(expected.empty());
  EXPECT_EQ(read, expected);
  for (int32_t rank : {0, 9}) {
    const auto program = result.plan->program(rank);
    for (size_t i = 0; i < program.steps.size(); ++i)
      EXPECT_EQ((bytes[{rank, static_cast<int32_t>(i)}]), program.steps[i].bytes);
  }
}

std::string unescaped(std::string text) {
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"&lt;", "<"}, {"&gt;", ">"}, {"&quot;", "\""}, {"&#39;", "'"}, {"&amp;", "&"}})
    for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
      text.replace(at, from.size(), to);
  return text;
}

TEST(SimExports, ADrawingHoldsItsNumbersAndNothingFromOutside) {
  const SimResult result = priced("all_reduce", {0, 1});
  const Drawing drawing = drawingOf(result, "</metadata><script>alert(1)</script>");
  for (const std::string& picture : {drawingSvg(drawing), drawingHtml(drawing)}) {
    EXPECT_THAT(picture, Not(HasSubstr("<script")));
    EXPECT_THAT(picture, Not(HasSubstr("href")));
    EXPECT_THAT(picture, Not(HasSubstr("src=")));
    EXPECT_THAT(picture, Not(HasSubstr("a <b>")));
    const std::string begin = "<metadata id=\"openhpu-data\">";
    const size_t from = picture.find(begin) + begin.size();
    const auto data = nlohmann::json::parse(unescaped(picture.substr(from, picture.find("</metadata>") - from)));
    EXPECT_EQ(data["title"], drawing.title);
    EXPECT_EQ(data["fabric"]["name"], "a <b> & \"c\"");
    EXPECT_EQ(data["fabric"]["nodes"], 2);
    EXPECT_EQ(data["time_ps"], result.timePs);
    ASSERT_EQ(data["steps"].size(), result.timing.spans.size());
    std::map<std::pair<int32_t, int32_t>, std::pair<int64_t, int64_t>> read, expected;
    for (const auto& step : data["steps"])
      read[{step["rank"].get<int32_t>(), step["step"].get<int32_t>()}] = {step["start_ps"].get<int64_t>(),
                                                                          step["end_ps"].get<int64_t>()};
    for (const auto& span : result.timing.spans) expected[{span.rank, span.step}] = {span.startPs, span.endPs};
    EXPECT_EQ(read, expected);
    ASSERT_FALSE(data["ports"].empty());
    EXPECT_EQ(data["ports"][0]["busy_ps"], result.timing.ports[0].busyPs);
    EXPECT_EQ(data["ports"][0]["bytes"], result.timing.ports[0].bytes);
  }
}

}  // namespace
}  // namespace hpu::tools::test
