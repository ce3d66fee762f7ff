// SPDX-License-Identifier: Apache-2.0
#include "collectives/schedule/Export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "Schedules.h"
#include "collectives/schedule/Check.h"

namespace hpu::collectives::test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

bool same(const Step& a, const Step& b) {
  return a.kind == b.kind && a.rank == b.rank && a.peer == b.peer && a.dst == b.dst && a.sources == b.sources &&
         a.after == b.after;
}

Schedule barrierWithNames() {
  Schedule s = meshBarrier(3);
  s.algorithm = "with \"quotes\" and \\";
  return s;
}

TEST(Export, TextIsATableOfSteps) {
  Schedule s = meshAllReduce(2, 8, 1);
  std::string all = exportText(s);
  EXPECT_THAT(all, StartsWith("all-reduce of 8 elements of 4 bytes among 2 ranks\n"
                              "algorithm mesh, 1 slice, 10 steps, scratch 40 B\n\n"
                              "step  rank  what "));
  EXPECT_THAT(all, HasSubstr("\n0     0     send     input[4, 8)"));
  EXPECT_THAT(all, HasSubstr("input[0, 4) + scratch[5, 9)  output[0, 4)   16     2\n"));
  std::string one = exportText(s, {1, nullptr});
  EXPECT_THAT(one, HasSubstr("\n1     1     send     input[0, 4)"));
  EXPECT_EQ(one.find("\n0     0"), one.npos);
  std::string timed = exportText(s, {-1, &linkModel(Target::kGaudi2)});
  EXPECT_THAT(timed, HasSubstr("modelled on gaudi2: "));
  EXPECT_THAT(timed, HasSubstr("start us  end us\n"));
  EXPECT_THAT(timed, HasSubstr("  0.500     2.0"));  // The first send: start, and one latency.
}

TEST(Export, ChakraHasTheFieldsOfItsFeeder) {
  Schedule s = meshAllReduce(3, 12, 2);
  std::vector<std::string> documents = exportChakra(s, linkModel(Target::kGaudi3));
  ASSERT_EQ(documents.size(), 3u);
  size_t nodes = 0;
  for (int rank = 0; rank < 3; ++rank) {
    nlohmann::json graph = nlohmann::json::parse(documents[rank])["workload_graph"];
    for (const auto& node : graph) {
      ++nodes;
      const Step& step = s.steps[node["Id"].get<int>()];
      EXPECT_EQ(step.rank, rank);
      EXPECT_TRUE(node["Name"].is_string());
      EXPECT_FALSE(node["is_cpu_op"].get<bool>());
      EXPECT_EQ(node["data_deps"].get<std::vector<int32_t>>(), step.after);
      int type = node["NodeType"];
      if (step.kind == StepKind::kSend) {
        EXPECT_EQ(type, 5);
        EXPECT_EQ(node["comm_src"], rank);
        EXPECT_EQ(node["comm_dst"], step.peer);
        EXPECT_EQ(node["comm_size"], step.sources[0].count * 4);
      } else if (step.kind == StepKind::kRecv) {
        EXPECT_EQ(type, 6);
        EXPECT_EQ(node["comm_src"], step.peer);
        EXPECT_EQ(node["comm_dst"], rank);
      } else {
        EXPECT_EQ(type, 4);
        EXPECT_GE(node["runtime"].get<int>(), 1);
      }
    }
  }
  EXPECT_EQ(nodes, s.steps.size());
}

TEST(Export, SomeRanksDocumentsAreThoseOfAll) {
  Schedule s = meshAllReduce(5, 101, 3);
  const LinkModel& links = linkModel(Target::kGaudi2);
  std::vector<std::string> all = exportChakra(s, links);
  const std::vector<int32_t> ranks{4, 1};
  EXPECT_THAT(exportChakra(s, links, ranks), ::testing::ElementsAre(all[4], all[1]));
}

TEST(Export, ChakraRoundTripsExactly) {
  std::vector<Schedule> all{meshAllReduce(5, 101, 3), meshAllGather(4, 9, 2), ringReduceScatter(3, 2),
                            ringReduceScatter(1, 2), barrierWithNames()};
  for (Schedule& s : all) {
    s.problem.destination = s.problem.ranks - 1;
    s.problem.elementBytes = 2;
    std::vector<std::string> documents = exportChakra(s, linkModel(Target::kGaudi1));
    std::reverse(documents.begin(), documents.end());
    StatusOr<Schedule> back = importChakra(documents);
    ASSERT_TRUE(back.ok()) << back.status().toString();
    EXPECT_EQ(back->problem, s.problem);
    EXPECT_EQ(back->algorithm, s.algorithm);
    EXPECT_EQ(back->slices, s.slices);
    EXPECT_EQ(back->scratchElements, s.scratchElements);
    EXPECT_EQ(back->partialElements, s.partialElements);
    EXPECT_EQ(back->ofRank, s.ofRank);
    ASSERT_EQ(back->steps.size(), s.steps.size());
    for (size_t i = 0; i < s.steps.size(); ++i) EXPECT_TRUE(same(back->steps[i], s.steps[i])) << stepText(s, i);
    EXPECT_EQ(checkSchedule(*back).message(), "");
  }
}

std::string importError(std::vector<std::string> documents) {
  StatusOr<Schedule> schedule = importChakra(documents);
  if (schedule.ok()) return "";
  EXPECT_EQ(schedule.status().code(), StatusCode::kInvalidArgument);
  return schedule.status().message();
}

TEST(Export, ImportNamesWhatIsWrong) {
  std::vector<std::string> good = exportChakra(meshAllReduce(2, 8, 1), linkModel(Target::kGaudi2));
  auto replaced = [&](const std::string& what, const std::string& with) {
    std::vector<std::string> documents = good;
    size_t at = documents[0].find(what);
    EXPECT_NE(at, std::string::npos) << what;
    documents[0].replace(at, what.size(), with);
    return importError(documents);
  };
  EXPECT_EQ(importError({}), "there are no documents");
  EXPECT_EQ(importError({good[0], "{"}), "document 1 is not JSON");
  EXPECT_EQ(importError({good[0]}), "document 0: it is one of 2 ranks; there are 1 documents");
  EXPECT_EQ(importError({good[0], good[0]}), "document 1: rank 0 comes twice");
  EXPECT_EQ(importError({"{\"workload_graph\": []}", good[1]}), "document 0: it has no 'openhpu'");
  EXPECT_EQ(importError({"[]", good[1]}), "document 0: it has no 'openhpu'");
  EXPECT_EQ(replaced("\"ranks\": 2", "\"ranks\": 0"), "document 0: 'ranks' is 0, not from 1 to 65536");
  EXPECT_EQ(replaced("\"count\": 8", "\"count\": 9"), "document 1: it is of another schedule than document 0");
  EXPECT_EQ(replaced("\"count\": 8", "\"count\": 18446744073709551615"), "document 0: 'count' is not a whole number");
  EXPECT_EQ(replaced("\"steps\": 10", "\"steps\": 9999999"),
            "document 0: 'steps' is 9999999, which the documents have no room for");
  EXPECT_EQ(replaced("all-reduce", "all-reduced"), "document 0: there is no collective 'all-reduced'");
  EXPECT_EQ(replaced("\"kind\": \"send\"", "\"kind\": \"sent\""),
            "document 0, node 0: there is no kind of step 'sent'");
  EXPECT_EQ(replaced("\"NodeType\": 5", "\"NodeType\": 6"),
            "document 0, node 0: its NodeType is not 5, which a send has");
  EXPECT_EQ(replaced("\"input\"", "\"inputs\""), "document 0, node 0: there is no buffer 'inputs'");
  EXPECT_EQ(replaced("\"Id\": 0", "\"Id\": 99"), "document 0, node 0: 'Id' is 99, not from 0 to 9");
  EXPECT_EQ(replaced("\"Id\": 0", "\"Id\": 1"), "document 1, node 0: Id 1 comes twice");
}

// Whatever is cut out of a document, or changed in it, the answer is an error or a schedule.
TEST(Export, ImportSurvivesDamage) {
  std::vector<std::string> good = exportChakra(meshAllReduce(2, 8, 1), linkModel(Target::kGaudi2));
  std::mt19937 random(5);
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::string> documents = good;
    std::string& text = documents[random() % 2];
    size_t at = random() % text.size();
    switch (random() % 3) {
      case 0:
        text.erase(at, 1 + random() % 40);
        break;
      case 1:
        text[at] = static_cast<char>(32 + random() % 95);
        break;
      default:
        text.insert(at, text.substr(random() % text.size(), random() % 40));
        break;
    }
    StatusOr<Schedule> schedule = importChakra(documents);
    if (schedule.ok()) checkSchedule(*schedule).ignore();
  }
}

}  // namespace
}  // namespace hpu::collectives::test
