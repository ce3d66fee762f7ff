// SPDX-License-Identifier: Apache-2.0
#include "tools/hpu-trace/Analysis.h"

#include <algorithm>

#include "tests/unit/trace/TraceFixture.h"

namespace hpu::tools {
namespace {

using perfmodel::Term;
using trace::Example;
using trace::SpanRecord;
using trace::Track;

class AnalysisTest : public trace::TraceTest {
 protected:
  /// A trace of spans [start, end) on tracks, ready at their start.
  TraceData spans(const std::vector<std::tuple<Track, int64_t, int64_t>>& list, Target target = Target::kGaudi2) {
    EXPECT_TRUE(trace::start().ok());
    trace::recordDevice(0, target, "d", "");
    for (auto [track, start, end] : list) {
      SpanRecord s;
      s.track = track;
      s.name = "work";
      s.ready = s.start = start;
      s.end = end;
      trace::recordSpan(s);
    }
    EXPECT_TRUE(trace::stop(file("s.hputrace")).ok());
    return readBack("s.hputrace");
  }
};

TEST_F(AnalysisTest, OverlapExposedAndIdleTimeAddUpToTheWhole) {
  // mme 0-100, tpc 50-150, dma 140-160 and 200-210.
  TraceData t =
      spans({{Track::kMme, 0, 100}, {Track::kTpc, 50, 150}, {Track::kDma, 140, 160}, {Track::kDma, 200, 210}});
  Analysis a = analyse(t);
  EXPECT_EQ(a.deviceTime, 210);
  EXPECT_EQ(a.overlap(Track::kMme, Track::kTpc), 50);
  EXPECT_EQ(a.overlap(Track::kTpc, Track::kDma), 10);
  EXPECT_EQ(a.overlap(Track::kMme, Track::kDma), 0);
  EXPECT_EQ(a.exposed(Track::kMme), 50);
  EXPECT_EQ(a.exposed(Track::kTpc), 40);
  EXPECT_EQ(a.exposed(Track::kDma), 20);
  EXPECT_EQ(a.together[0], 40);
  EXPECT_EQ(a.idleOutside, 40);
  Picoseconds sum = 0;
  for (Picoseconds time : a.together) sum += time;
  EXPECT_EQ(sum, a.deviceTime);
}

TEST_F(AnalysisTest, IdleTimeWithinALaunchIsWaitingAndOutsideNothingLaunched) {
  Example example;
  EXPECT_TRUE(trace::start().ok());
  trace::recordDevice(0, Target::kGaudi2, "d", "");
  trace::LaunchRecord first = example.launch(1), second = example.launch(2, 3 * example.timeline.end);
  first.start -= 1000;  // As if its first command had waited.
  trace::recordLaunch(first);
  trace::recordLaunch(second);
  EXPECT_TRUE(trace::stop(file("i.hputrace")).ok());
  Analysis a = analyse(readBack("i.hputrace"));
  EXPECT_EQ(a.idleInLaunch, 1000);
  EXPECT_EQ(a.idleOutside, 2 * example.timeline.end);
  EXPECT_EQ(a.launches, 2);
}

TEST_F(AnalysisTest, EngineBusyTimeIsThatOfTheSimulationExactly) {
  Example example;
  TraceData t = recorded(example);
  Analysis a = analyse(t);
  EXPECT_EQ(a.engines[0].busy, 3 * example.timeline.busy[0]);
  EXPECT_EQ(a.engines[1].busy, 3 * example.timeline.busy[1]);
  Picoseconds terms = 0;
  for (Picoseconds time : a.all.terms) terms += time;
  EXPECT_EQ(terms, a.all.busy + a.all.sync);
  EXPECT_DOUBLE_EQ(a.attributedFraction(), 1.0);
}

TEST_F(AnalysisTest, WorkWithoutANodeOrACauseIsNotAttributed) {
  Analysis a = analyse(spans({{Track::kMme, 0, 100}}));
  EXPECT_DOUBLE_EQ(a.attributedFraction(), 0.0);
}

TEST_F(AnalysisTest, AnEngineThatTheTargetLacksIsNotPresent) {
  Analysis g3 = analyse(spans({{Track::kMme, 0, 100}}, Target::kGaudi3));
  EXPECT_FALSE(g3.present[static_cast<size_t>(Track::kDma)]);
  Analysis g2 = analyse(spans({{Track::kMme, 0, 100}}));
  EXPECT_TRUE(g2.present[static_cast<size_t>(Track::kDma)]);
}

TEST_F(AnalysisTest, RowsAreGroupedSortedAndComplete) {
  Example example;
  TraceData t = recorded(example);
  Analysis a = analyse(t);
  for (GroupBy groupBy : {GroupBy::kOperation, GroupBy::kNode, GroupBy::kKind, GroupBy::kEngine, GroupBy::kBundle}) {
    std::vector<TopRow> rows = topRows(t, groupBy);
    Picoseconds busy = 0;
    int64_t count = 0;
    for (const TopRow& row : rows) busy += row.work.busy, count += row.work.count;
    EXPECT_EQ(busy, a.all.busy);
    EXPECT_EQ(count, 3 * 8 + 1);
    EXPECT_TRUE(std::is_sorted(rows.begin(), rows.end(),
                               [](const TopRow& x, const TopRow& y) { return x.work.busy > y.work.busy; }));
  }
  std::vector<TopRow> operations = topRows(t, GroupBy::kOperation);
  ASSERT_EQ(operations.size(), 3u);
  auto gemm = std::find_if(operations.begin(), operations.end(), [](const TopRow& r) { return r.engine == "mme"; });
  ASSERT_NE(gemm, operations.end());
  EXPECT_EQ(gemm->nodeOp, "Conv+Relu");
  EXPECT_EQ(gemm->work.count, 12);
  EXPECT_LE(gemm->work.shortest, gemm->work.longest);
  EXPECT_EQ(topRows(t, GroupBy::kBundle).size(), 2u) << "the bundle, and the copy";
}

TEST_F(AnalysisTest, AFusedUnitIsARowWithAllOfItsNodesAndKinds) {
  Example example;
  TraceData t = recorded(example);
  auto row = [&](GroupBy groupBy, std::string_view name) {
    for (const TopRow& r : topRows(t, groupBy))
      if (r.name == name) return r;
    ADD_FAILURE() << "no row " << name;
    return TopRow{};
  };
  TopRow conv = row(GroupBy::kKind, "Conv+Relu");
  EXPECT_TRUE(conv.fused);
  EXPECT_EQ(conv.engine, "mme");
  EXPECT_EQ(conv.work.busy, analyse(t).engines[static_cast<size_t>(Track::kMme)].busy);
  EXPECT_FALSE(row(GroupBy::kKind, "Relu").fused);
  EXPECT_TRUE(row(GroupBy::kNode, trace::kNastyName + "+relu1").fused);
  EXPECT_FALSE(row(GroupBy::kNode, "relu1").fused);
}

TEST_F(AnalysisTest, WhatTheLevelLeavesOutIsNotSaidToBeZero) {
  Example example;
  EXPECT_EQ(workNotRecorded(recorded(example)), "");
  trace::Options options;
  options.level = trace::Level::kNode;
  EXPECT_EQ(workNotRecorded(recorded(example, options)), "");
  options.level = trace::Level::kApi;
  TraceData t = recorded(example, options);
  EXPECT_NE(workNotRecorded(t).find("level api"), std::string::npos);
  EXPECT_FALSE(requireWork(t, -1).ok());
  EXPECT_EQ(workNotRecorded(t, 5), "") << "another device";
  for (const std::string& advice : advise(t, analyse(t))) ADD_FAILURE() << "of what was not recorded: " << advice;
}

TEST_F(AnalysisTest, HostSelfTimeExcludesNestedCalls) {
  EXPECT_TRUE(trace::start().ok());
  int64_t base = trace::hostNowNs();
  trace::recordHost("inner", "api", base + 100, base + 400);
  trace::recordHost("inner", "api", base + 500, base + 600);
  trace::recordHost("outer", "api", base, base + 1000);
  EXPECT_TRUE(trace::stop(file("h.hputrace")).ok());
  Analysis a = analyse(readBack("h.hputrace"));
  EXPECT_EQ(a.hostNs, 1000);
  ASSERT_EQ(a.host.size(), 2u);
  EXPECT_EQ(a.host[0].name, "outer");
  EXPECT_EQ(a.host[0].selfNs, 600);
  EXPECT_EQ(a.host[1].selfNs, 400);
  EXPECT_EQ(a.host[1].count, 2);
}

TEST_F(AnalysisTest, AdviceSpeaksOfWhatIsWrongAndOnlyThen) {
  auto says = [](const std::vector<std::string>& advice, std::string_view what) {
    return std::any_of(advice.begin(), advice.end(),
                       [&](const std::string& s) { return s.find(what) != std::string::npos; });
  };
  TraceData gap = spans({{Track::kMme, 0, 100}, {Track::kMme, 900, 1000}});
  EXPECT_TRUE(says(advise(gap, analyse(gap)), "nothing to do 80 %"));
  TraceData full = spans({{Track::kMme, 0, 1000}});
  EXPECT_TRUE(advise(full, analyse(full)).empty());
  TraceData network = spans({{Track::kMme, 0, 500}, {Track::kNic, 400, 1000}});
  EXPECT_EQ(analyse(network).overlap(Track::kMme, Track::kNic), 100);
  EXPECT_TRUE(says(advise(network, analyse(network)), "the network is exposed 50 %"));
  TraceData hidden = spans({{Track::kMme, 0, 1000}, {Track::kNic, 400, 1000}});
  EXPECT_FALSE(says(advise(hidden, analyse(hidden)), "network"));
  TraceData serial = spans({{Track::kMme, 0, 500}, {Track::kTpc, 500, 1000}});
  EXPECT_TRUE(says(advise(serial, analyse(serial)), "MME and TPC could run together"));
  TraceData parallel = spans({{Track::kMme, 0, 1000}, {Track::kTpc, 0, 1000}});
  EXPECT_FALSE(says(advise(parallel, analyse(parallel)), "MME and TPC could run together"));
  full.dropped = 5;
  EXPECT_TRUE(says(advise(full, analyse(full)), "5 events were dropped: raise --max-events"));
  // In the words of who reads it.
  EXPECT_TRUE(says(advise(serial, analyse(serial)), "(hpu-compile MODEL --report fusion)"));
  serial.dropped = 5;
  const std::vector<std::string> python = advise(serial, analyse(serial), base::Reader::kPython);
  EXPECT_TRUE(says(python, "(openhpu.compile(MODEL, reports=\"fusion\"))"));
  EXPECT_TRUE(says(python, "5 events were dropped"));
  EXPECT_FALSE(says(python, "--"));
}

}  // namespace
}  // namespace hpu::tools
