// SPDX-License-Identifier: Apache-2.0
#include "collectives/congestion/Congestion.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "collectives/fabric/FabricFile.h"

namespace hpu::collectives {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20, kUs = 1'000'000;

CongestionResult run(const CongestionProblem& problem, const CongestionOptions& options) {
  auto result = simulateCongestion(problem, options);
  EXPECT_TRUE(result.ok()) << result.status().message();
  return result.ok() ? std::move(*result) : CongestionResult();
}

CongestionProblem incastOf(const Fabric& fabric, int32_t senders, int64_t bytes) {
  auto problem = incast(fabric, senders, bytes);
  EXPECT_TRUE(problem.ok()) << problem.status().message();
  return problem.ok() ? *problem : CongestionProblem();
}

/// Of flows that start at 0: payload of all over the time of all.
double meanGoodput(const CongestionProblem& problem, const CongestionResult& result) {
  double bytes = 0;
  int64_t end = 0;
  for (const CongestionFlow& f : problem.flows) bytes += static_cast<double>(f.bytes);
  for (const auto& f : result.flows) end = std::max(end, f.finishPs);
  return bytes / static_cast<double>(end) * 1000 / static_cast<double>(problem.flows.size());
}

TEST(Congestion, OfOneFlowIsItsPacketsBehindEachOther) {
  for (double port : {75.0, 50.0, 100.0}) {
    CongestionOptions o;
    o.control = false;
    const int64_t packets = 1000;
    const CongestionProblem problem{{{"port", port}}, {{5 * kUs, packets * o.payloadBytes, 75, {0}}}};
    const CongestionResult r = run(problem, o);
    const int64_t send = static_cast<int64_t>(std::ceil(8360 / 75.0 * 1000));
    const int64_t pass = static_cast<int64_t>(std::ceil(8360 / port * 1000));
    // The slower of the two has all packets, the other one one more; two links' latency.
    EXPECT_EQ(r.flows[0].finishPs, 5 * kUs + packets * std::max(send, pass) + std::min(send, pass) + 2 * o.hopPs);
    EXPECT_EQ(r.ports[0].wireBytes, packets * 8360);
    EXPECT_EQ(r.ports[0].busyPs, packets * pass);
    EXPECT_EQ(r.fairness, 1);
  }
}

TEST(Congestion, OfEightToOneOnGaudi3GivesEachThePublishedNineGigabytesASecond) {
  const Fabric fabric = standardFabric(Target::kGaudi3, 9);
  for (int64_t mib : {8, 64, 256}) {
    const CongestionResult r = run(incastOf(fabric, 8, mib * kMiB), congestionOptions(fabric));
    for (const auto& flow : r.flows) {
      EXPECT_GE(flow.goodputBytesPerNs, 9.0) << mib;
      EXPECT_LE(flow.goodputBytesPerNs, 9.2) << mib;
    }
    EXPECT_GT(r.fairness, 0.99999);
    EXPECT_EQ(r.ports[0].drops, 0);
    EXPECT_LE(r.ports[0].mostQueuedBytes, int64_t{8} * 32 * 8360);
  }
}

TEST(Congestion, OfLongFlowsUnderControlFillsThePortAndSharesIt) {
  const Fabric fabric = standardFabric(Target::kGaudi3, 9);
  const CongestionProblem problem = incastOf(fabric, 8, 1024 * kMiB);
  CongestionOptions o = congestionOptions(fabric);
  o.control = true;
  o.windowPackets = 0;
  const CongestionResult r = run(problem, o);
  EXPECT_GE(meanGoodput(problem, r), 9.0);
  EXPECT_LE(meanGoodput(problem, r), 9.2);
  EXPECT_GT(r.fairness, 0.998);
  int64_t notifications = 0;
  for (const auto& flow : r.flows) {
    notifications += flow.notifications;
    EXPECT_LT(flow.leastRate, 10);
    // A receiver notifies at most every 50 us.
    EXPECT_LE(flow.notifications, flow.finishPs / o.cnpIntervalPs + 1);
  }
  EXPECT_GT(notifications, 100);
  EXPECT_GT(r.ports[0].marks, 100);
  // Pauses only while the senders began at the line's rate.
  EXPECT_LT(r.ports[0].pausedPs, 500 * kUs);
  EXPECT_EQ(r.ports[0].drops, 0);
}

TEST(Congestion, OfShortFlowsUnderControlIsSlowBecauseAllAreCutAtOnce) {
  const Fabric fabric = standardFabric(Target::kGaudi3, 9);
  const CongestionProblem problem = incastOf(fabric, 8, 64 * kMiB);
  const CongestionResult r = run(problem, CongestionOptions());
  EXPECT_NEAR(meanGoodput(problem, r), 7.4, 0.1);  // docs/fabric.md says so.
  for (const auto& flow : r.flows) EXPECT_LT(flow.leastRate, 75.0 / 16);
}

TEST(Congestion, NeverPutsMoreOnAPortThanItsRate) {
  for (const bool control : {false, true})
    for (const int32_t window : {0, 32}) {
      const Fabric fabric = standardFabric(Target::kGaudi2, 6);
      CongestionProblem problem = incastOf(fabric, 5, 20 * kMiB);
      problem.flows[2].startPs = 300 * kUs;
      problem.flows[4].bytes = 3 * kMiB + 17;
      CongestionOptions o = congestionOptions(fabric);
      o.control = control;
      o.windowPackets = window;
      o.sampleEveryPs = 10 * kUs;
      const CongestionResult r = run(problem, o);
      for (size_t p = 0; p < problem.ports.size(); ++p) {
        const double most = problem.ports[p].bytesPerNs * 10'000 + 8360;
        for (int64_t bytes : r.ports[p].samples) EXPECT_LE(static_cast<double>(bytes), most);
        const auto& samples = r.ports[p].samples;
        EXPECT_EQ(std::accumulate(samples.begin(), samples.end(), int64_t{0}), r.ports[p].wireBytes);
      }
      for (size_t f = 0; f < problem.flows.size(); ++f) {
        const auto& samples = r.flows[f].samples;
        EXPECT_EQ(std::accumulate(samples.begin(), samples.end(), int64_t{0}), problem.flows[f].bytes);
        EXPECT_GT(r.flows[f].finishPs, problem.flows[f].startPs);
      }
    }
}

TEST(Congestion, GivesTheRateBackAfterAFlowEnds) {
  CongestionOptions o;
  o.sampleEveryPs = 500 * kUs;
  const CongestionProblem problem{{{"port", 75}}, {{0, 1024 * kMiB, 75, {0}, 0}, {0, 64 * kMiB, 75, {0}, 1}}};
  const CongestionResult r = run(problem, o);
  const auto& samples = r.flows[0].samples;
  const auto rate = [&](size_t i) { return static_cast<double>(samples[i]) / 500'000; };
  const auto ended = static_cast<size_t>(r.flows[1].finishPs / o.sampleEveryPs);
  ASSERT_GT(samples.size(), ended + 12);
  EXPECT_LT(rate(ended / 2), 60);
  // Fast recovery, then by larger and larger steps: the line's rate within 6 ms.
  EXPECT_GT(rate(ended + 12), 0.97 * 75 * 8192 / 8360);
  EXPECT_LE(rate(ended + 12), 75.0 * 8192 / 8360 + 0.1);
}

TEST(Congestion, GivesHalfTheRailsRateOverUplinksOfTwoToOne) {
  const auto fabric = namedFabric("leaf-spine", 32);
  ASSERT_TRUE(fabric.ok());
  std::vector<FabricFlow> flows;
  for (int32_t node = 0; node < 16; ++node) flows.push_back({{node, 0}, {16 + node, 0}, 64 * kMiB, 0});
  const auto problem = fabricFlows(*fabric, flows);
  ASSERT_TRUE(problem.ok());
  EXPECT_EQ(problem->ports.size(), 2u + 16);
  const CongestionResult r = run(*problem, congestionOptions(*fabric));
  for (const auto& flow : r.flows) EXPECT_NEAR(flow.goodputBytesPerNs, 37.5 * 8192 / 8360, 0.3);
  // Within a leaf nothing is shared.
  flows.clear();
  for (int32_t node = 0; node < 8; ++node) flows.push_back({{node, 0}, {8 + node, 0}, 64 * kMiB, 0});
  const CongestionResult alone = run(*fabricFlows(*fabric, flows), congestionOptions(*fabric));
  for (const auto& flow : alone.flows) EXPECT_GT(flow.goodputBytesPerNs, 0.98 * 75 * 8192 / 8360);
}

TEST(Congestion, OfPausesHoldsUpFlowsThatGoElsewhere) {
  const auto fabric = namedFabric("leaf-spine", 32);
  ASSERT_TRUE(fabric.ok());
  // Eight nodes send to one of the other leaf; a ninth to its neighbour, over the same uplink.
  std::vector<FabricFlow> flows;
  for (int32_t node = 0; node < 8; ++node) flows.push_back({{node, 0}, {16, 0}, 64 * kMiB, 0});
  flows.push_back({{8, 0}, {17, 0}, 64 * kMiB, 0});
  const auto problem = fabricFlows(*fabric, flows);
  CongestionOptions o = congestionOptions(*fabric);
  o.windowPackets = 0;
  const double paused = run(*problem, o).flows[8].goodputBytesPerNs;
  o.windowPackets = 32;
  const double windowed = run(*problem, o).flows[8].goodputBytesPerNs;
  EXPECT_LT(paused, 20);
  // Its window every 4.8 us, the way there and back; not an eighth.
  EXPECT_GT(windowed, 45);
}

TEST(Congestion, SharesASourcesLinkAmongItsFlows) {
  const Fabric fabric = *namedFabric("dl1", 4);
  // Devices 0 and 1 share a rail, device 2 has the next one's half.
  const std::vector<FabricFlow> flows = {
      {{0, 0}, {1, 0}, 16 * kMiB, 0}, {{0, 1}, {2, 0}, 16 * kMiB, 0}, {{0, 2}, {3, 0}, 16 * kMiB, 0}};
  const CongestionResult r = run(*fabricFlows(fabric, flows), congestionOptions(fabric));
  const double rail = 12.5 * 8192 / 8360;
  EXPECT_NEAR(r.flows[0].goodputBytesPerNs, rail / 2, 0.1);
  EXPECT_NEAR(r.flows[1].goodputBytesPerNs, rail / 2, 0.1);
  EXPECT_NEAR(r.flows[2].goodputBytesPerNs, rail, 0.1);
}

TEST(Congestion, SendsAgainWhatAFullQueueDropped) {
  const Fabric fabric = standardFabric(Target::kGaudi3, 9);
  const CongestionProblem problem = incastOf(fabric, 8, 4 * kMiB + 5);
  CongestionOptions o;
  o.pause = false;
  o.queueBytes = 200'000;
  o.xoffBytes = o.xonBytes = 0;
  o.sampleEveryPs = kUs;
  for (const bool control : {false, true}) {
    o.control = control;
    const CongestionResult r = run(problem, o);
    int64_t resent = 0;
    for (const auto& flow : r.flows) {
      resent += flow.resent;
      EXPECT_EQ(std::accumulate(flow.samples.begin(), flow.samples.end(), int64_t{0}), 4 * kMiB + 5);
    }
    EXPECT_GT(resent, 0);
    EXPECT_EQ(resent, r.ports[0].drops);
    EXPECT_LE(r.ports[0].mostQueuedBytes, 200'000);
    EXPECT_EQ(r.ports[0].pauses, 0);
  }
}

TEST(Congestion, IsTheSameInEveryRunOfASeed) {
  const Fabric fabric = standardFabric(Target::kGaudi3, 9);
  const CongestionProblem problem = incastOf(fabric, 8, 32 * kMiB);
  CongestionOptions o;
  const auto ends = [&](uint64_t seed) {
    o.seed = seed;
    std::vector<int64_t> ps;
    for (const auto& flow : run(problem, o).flows) ps.push_back(flow.finishPs);
    return ps;
  };
  EXPECT_EQ(ends(1), ends(1));
  EXPECT_NE(ends(1), ends(2));
}

TEST(Congestion, EndsWithAnErrorWhereNothingMovesOrAllIsDropped) {
  // Three ports in a ring, each fed by its own senders and the port before it.
  CongestionProblem problem;
  for (const char* name : {"a", "b", "c"}) problem.ports.push_back({name, 10});
  for (int32_t p = 0; p < 3; ++p)
    for (int32_t i = 0; i < 4; ++i) problem.flows.push_back({0, 32 * kMiB, 40, {p, (p + 1) % 3}});
  CongestionOptions o;
  o.xoffBytes = 100'000, o.xonBytes = 50'000;
  for (const bool control : {false, true}) {
    o.control = control;
    const auto stuck = simulateCongestion(problem, o);
    ASSERT_FALSE(stuck.ok());
    EXPECT_EQ(stuck.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(stuck.status().message().find("'a'"), std::string::npos) << stuck.status().message();
  }
  // No ring, no end of it; and neither pauses nor anything else that slows the senders.
  for (CongestionFlow& flow : problem.flows) flow.path.resize(1);
  EXPECT_TRUE(simulateCongestion(problem, o).ok());
  o.control = o.pause = false;
  o.queueBytes = 100'000;
  for (CongestionFlow& flow : problem.flows) flow.lineBytesPerNs = 10'000, flow.bytes = kMiB;
  const auto collapsed = simulateCongestion(problem, o);
  ASSERT_FALSE(collapsed.ok());
  EXPECT_NE(collapsed.status().message().find("need control, pauses or a window"), std::string::npos);
}

TEST(Congestion, RefusesWhatItCannotSimulateByName) {
  const CongestionProblem good{{{"p", 75}}, {{0, 1000, 75, {0}, 0}, {0, 1000, 75, {0}, 0}}};
  const auto error = [&](auto change) {
    CongestionProblem problem = good;
    CongestionOptions options;
    change(problem, options);
    const auto result = simulateCongestion(problem, options);
    EXPECT_TRUE(result.ok() || result.status().code() == StatusCode::kInvalidArgument);
    return result.ok() ? std::string() : std::string(result.status().message());
  };
  using Problem = CongestionProblem;
  using Options = CongestionOptions;
  EXPECT_EQ(error([](Problem&, Options&) {}), "");
  EXPECT_EQ(error([](Problem& p, Options&) { p.flows.clear(); }), "");
  EXPECT_EQ(error([](Problem& p, Options&) { p.flows[1].path = {1}; }), "flow 1: there is no port 1");
  EXPECT_EQ(error([](Problem& p, Options&) { p.flows[0].path = {0, 0}; }), "flow 0: port 0 is in its path twice");
  EXPECT_NE(error([](Problem& p, Options&) { p.flows[0].path.clear(); }), "");
  EXPECT_NE(error([](Problem& p, Options&) { p.flows[0].bytes = 0; }), "");
  EXPECT_NE(error([](Problem& p, Options&) { p.flows[0].bytes = INT64_MAX; }), "");
  EXPECT_NE(error([](Problem& p, Options&) { p.flows[0].startPs = -1; }), "");
  EXPECT_NE(error([](Problem& p, Options&) { p.flows[0].lineBytesPerNs = 0; }), "");
  EXPECT_NE(error([](Problem& p, Options&) { p.flows[0].lineBytesPerNs = 50; }).find("of its source"),
            std::string::npos);
  EXPECT_NE(error([](Problem& p, Options&) { p.flows[0].source = 2; }), "");
  EXPECT_NE(error([](Problem& p, Options&) { p.ports[0].bytesPerNs = std::nan(""); }).find("'p'"), std::string::npos);
  EXPECT_NE(error([](Problem&, Options& o) { o.kmaxBytes = 1; }), "");
  EXPECT_NE(error([](Problem&, Options& o) { o.xoffBytes = 1; }), "");
  EXPECT_NE(error([](Problem&, Options& o) { o.rateTimerPs = 0; }), "");
  EXPECT_NE(error([](Problem&, Options& o) { o.sampleEveryPs = 1; }).find("sampleEveryPs"), std::string::npos);

  const Fabric fabric = standardFabric(Target::kGaudi3, 4);
  EXPECT_NE(incast(fabric, 4, 1).status().message().find("node 4"), std::string::npos);
  const FabricFlow same{{1, 0}, {1, 3}, 1, 0};
  EXPECT_NE(fabricFlows(fabric, {&same, 1}).status().message().find("both ends are on node 1"), std::string::npos);
}

TEST(Congestion, NamesAnIntervalAndASourceForEveryConstant) {
  for (const ModelConstant& c : congestionConstants()) {
    EXPECT_LE(c.low, c.value) << c.name;
    EXPECT_LE(c.value, c.high) << c.name;
    EXPECT_FALSE(c.source.empty()) << c.name;
  }
}

}  // namespace
}  // namespace hpu::collectives
