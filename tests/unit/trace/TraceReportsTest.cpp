// SPDX-License-Identifier: Apache-2.0
// hpu-trace roofline, overlap, critical-path, memory and diff: sums that must agree with the timeline.
#include <cmath>
#include <nlohmann/json.hpp>

#include "arch/TargetDesc.h"
#include "tests/unit/trace/TraceCliFixture.h"

namespace hpu::trace {
namespace {

using nlohmann::json;

class TraceReports : public TraceCli {
 protected:
  json parsed(const std::string& arguments, int exit = 0) {
    Ran ran = run(arguments);
    EXPECT_EQ(ran.exit, exit) << ran.err;
    EXPECT_TRUE(json::accept(ran.out)) << ran.out;
    return json::accept(ran.out) ? json::parse(ran.out) : json();
  }
  double us(perfmodel::Picoseconds time) const { return static_cast<double>(time) / 1e6; }
  static double sum(const json& terms) {
    double total = 0;
    for (const auto& [name, value] : terms.items()) total += value.get<double>();
    return total;
  }
  /// The example's three launches and their copy, as recorded.
  double deviceUs() const { return us(5 * example_->timeline.end); }
};

TEST_F(TraceReports, RooflineTermsSumToTheTimeAndNoRowIsAboveItsRoof) {
  json report = parsed("roofline --json " + path());
  EXPECT_EQ(report["target"], "gaudi2");
  EXPECT_NEAR(report["ceilings"]["mme_bf16_tflops"].get<double>(), 432.5, 0.1);
  EXPECT_NEAR(report["ceilings"]["hbm_GBps"].get<double>(), 2457.6 * 0.85, 0.1);
  ASSERT_EQ(report["rows"].size(), 3u);
  for (const json& row : report["rows"]) {
    EXPECT_NEAR(sum(row["terms_us"]), row["time_us"].get<double>(), 1e-6) << row;
    if (row["engine"] != "h2d") {
      EXPECT_GT(row["roof_fraction"], 0.0) << row;
    }
    EXPECT_LE(row["roof_fraction"], 1.0) << row;
  }
  const json& gemm = report["rows"][0];
  EXPECT_EQ(gemm["engine"], "mme");
  perfmodel::Picoseconds ideal = 0;
  for (const perfmodel::TimedCommand& c : example_->queues[0].commands)
    ideal += 3 * c.cost.terms[static_cast<size_t>(perfmodel::Term::kIdeal)];
  EXPECT_NEAR(gemm["ideal_us"].get<double>(), us(ideal), 1e-6);
  EXPECT_EQ(parsed("roofline --json --group-by engine " + path())["rows"].size(), 3u);
  Ran text = run("roofline " + path());
  EXPECT_NE(text.out.find("why not peak"), std::string::npos);
  EXPECT_EQ(run("roofline --group-by colour " + path()).exit, 1);
}

TEST_F(TraceReports, CopiesAreBoundByTheirTransferAndNotByComputing) {
  json summary = parsed("summary --json " + path());
  EXPECT_EQ(summary["engines"]["h2d"]["bound_by"], "transfer");
  EXPECT_NE(summary["engines"]["mme"]["bound_by"], "transfer");
  int copies = 0;
  const json top = parsed("top --json --group-by engine " + path());
  for (const json& row : top["top"]) {
    EXPECT_EQ(row["bound_by"] == "transfer", row["engine"] == "h2d") << row;
    copies += row["engine"] == "h2d";
  }
  EXPECT_EQ(copies, 1);
}

TEST_F(TraceReports, OverlapSetsSumToTheDeviceTime) {
  json report = parsed("overlap --json " + path());
  EXPECT_NEAR(report["device_time_us"].get<double>(), deviceUs(), 1e-6);
  EXPECT_NEAR(sum(report["running_us"]), deviceUs(), 1e-6);
  for (const char* engine : {"mme", "tpc"}) {
    const json& e = report["engines"][engine];
    double busy = e["busy_us"].get<double>();
    EXPECT_NEAR(busy + e["not_busy_us"].get<double>(), deviceUs(), 1e-6);
    EXPECT_NEAR(sum(e["meanwhile_us"]), e["not_busy_us"].get<double>(), 1e-6) << engine;
  }
  EXPECT_NEAR(report["engines"]["mme"]["busy_us"].get<double>(), us(3 * example_->timeline.busy[0]), 1e-6);
  EXPECT_GT(report["overlap"]["mme_tpc_us"].get<double>(), 0);
  EXPECT_NE(run("overlap " + path()).out.find("meanwhile"), std::string::npos);
}

TEST_F(TraceReports, TheCriticalPathAddsUpToTheDeviceTime) {
  json report = parsed("critical-path --json --chain " + path());
  double whole = report["device_time_us"].get<double>(), path = report["gaps_us"].get<double>();
  EXPECT_NEAR(whole, deviceUs(), 1e-6);
  for (const auto& [name, engine] : report["engines"].items()) {
    path += engine["time_us"].get<double>();
    EXPECT_NEAR(sum(engine["terms_us"]), engine["time_us"].get<double>(), 1e-6) << name;
    EXPECT_EQ(engine["terms_us"]["sync"], 0.0) << "what it waited for is on the path itself";
  }
  EXPECT_NEAR(path, whole, 1e-6);
  double chain = 0, end = 0;
  for (const json& slice : report["chain"]) {
    EXPECT_GE(slice["start_us"].get<double>(), end - 1e-6);
    end = slice["start_us"].get<double>() + slice["time_us"].get<double>();
    chain += slice["time_us"].get<double>();
  }
  EXPECT_NEAR(end, whole, 1e-6) << "the last slice of the path is the last of the trace";
  EXPECT_NEAR(chain + report["gaps_us"].get<double>(), whole, 1e-6);
  double top = 0;
  for (const json& row : report["top"]) top += row["time_us"].get<double>();
  EXPECT_NEAR(top, chain, 1e-6);
}

TEST_F(TraceReports, MemoryCountsEveryByteOnce) {
  json report = parsed("memory --json --windows 7 " + path());
  ASSERT_EQ(report["devices"].size(), 1u);
  const json& device = report["devices"][0];
  int64_t bytes = 4096;  // The copy.
  for (const perfmodel::TimedQueue& queue : example_->queues)
    for (const perfmodel::TimedCommand& c : queue.commands) bytes += 3 * c.cost.bytes.hbm;
  EXPECT_EQ(device["hbm"]["bytes"], bytes);
  ASSERT_EQ(device["hbm"]["windows_GBps"].size(), 7u);
  double spread = 0, most = 0;
  for (const json& rate : device["hbm"]["windows_GBps"]) {
    spread += rate.get<double>() * device["window_us"].get<double>() * 1e3;
    most = std::max(most, rate.get<double>());
  }
  EXPECT_NEAR(spread, static_cast<double>(bytes), 1e-3 * static_cast<double>(bytes));
  EXPECT_NEAR(device["hbm"]["peak_GBps"].get<double>(), most, 1e-9);
  int64_t top = 0;
  for (const json& row : device["top"]) top += row["hbm_bytes"].get<int64_t>();
  EXPECT_EQ(top, bytes);
  EXPECT_EQ(run("memory --windows 0 " + path()).exit, 1);
}

TEST_F(TraceReports, DiffOfATraceWithItselfIsEmpty) {
  json report = parsed("diff --json --fail-above 0% " + path() + " " + path());
  EXPECT_EQ(report["changed"], 0);
  EXPECT_EQ(report["passed"], true);
  EXPECT_EQ(report["device_time"]["change"], 0.0);
  EXPECT_NE(run("diff " + path() + " " + path()).out.find("as long as before"), std::string::npos);
}

TEST_F(TraceReports, DiffMatchesNodesAndFailsAboveTheLimit) {
  std::string before = file("before.hputrace");
  ASSERT_EQ(std::rename(path().c_str(), before.c_str()), 0);
  Example larger(6);
  (void)recorded(larger);
  json report = parsed("diff --json " + before + " " + path());
  double growth = report["device_time"]["b_us"].get<double>() / report["device_time"]["a_us"].get<double>();
  EXPECT_NEAR(growth, static_cast<double>(larger.timeline.end) / static_cast<double>(example_->timeline.end), 1e-6);
  EXPECT_GT(growth, 1.1);
  bool found = false;
  for (const json& node : report["nodes"]) {
    if (node["name"] != "relu1") continue;
    found = true;
    EXPECT_EQ(node["op"], "Relu");
    EXPECT_EQ(node["units_a"], 1);
    EXPECT_GT(node["change_us"].get<double>(), 0);
  }
  EXPECT_TRUE(found);
  EXPECT_EQ(run("diff --fail-above 5% " + before + " " + path()).exit, 2);
  EXPECT_EQ(run("diff --fail-above 5% " + path() + " " + before).exit, 0) << "faster is no regression";
  EXPECT_EQ(run("diff --fail-above lots " + before + " " + path()).exit, 1);
  EXPECT_EQ(run("diff " + path() + " " + file("none")).exit, 1);
}

TEST_F(TraceReports, DiffRefusesDifferentModels) {
  std::string before = file("before.hputrace");
  ASSERT_EQ(std::rename(path().c_str(), before.c_str()), 0);
  Example other;
  other.program->name = "another model";
  other.program->sourceNodes = {{"matmul", "MatMul"}, {"gelu", "Gelu"}};
  (void)recorded(other);
  Ran ran = run("diff " + before + " " + path());
  EXPECT_EQ(ran.exit, 1);
  EXPECT_NE(ran.err.find("A ran 'example', B 'another model', which are different models"), std::string::npos)
      << ran.err;
  EXPECT_NE(ran.err.find("--force"), std::string::npos);
  json report = parsed("diff --json --force " + before + " " + path());
  EXPECT_EQ(report["same_model"], false);
  EXPECT_GT(report["changed"].get<int>(), 0);
}

// A fuses both nodes; B has a unit for each. Neither's time is divided.
TEST_F(TraceReports, DiffComparesWhatIsFusedDifferentlyInWholeUnits) {
  std::string before = file("before.hputrace");
  Example fused, apart;
  fused.program->ops[1].provenance = {0, 1};
  (void)recorded(fused);
  ASSERT_EQ(std::rename(path().c_str(), before.c_str()), 0);
  apart.program->ops[0].provenance = {0};
  (void)recorded(apart);
  json report = parsed("diff --json " + before + " " + path());
  EXPECT_EQ(report["same_model"], true);
  EXPECT_EQ(report["changed"], 0) << "the same time in one unit and in two: " << report["nodes"].dump();
  fused = Example(6);
  fused.program->ops[1].provenance = {0, 1};
  (void)recorded(fused);
  ASSERT_EQ(std::rename(path().c_str(), before.c_str()), 0);
  (void)recorded(apart);
  report = parsed("diff --json " + before + " " + path());
  ASSERT_EQ(report["nodes"].size(), 1u) << report["nodes"].dump();
  EXPECT_EQ(report["nodes"][0]["units_a"], 1);
  EXPECT_EQ(report["nodes"][0]["units_b"], 2);
  EXPECT_NE(run("diff " + before + " " + path()).out.find("1 in A, 2 in B"), std::string::npos);
}

TEST_F(TraceReports, NamesAreSafeToPrint) {
  for (const char* verb : {"roofline", "overlap", "critical-path --chain", "memory"}) {
    Ran ran = run(std::string(verb) + " " + path());
    ASSERT_EQ(ran.exit, 0) << verb << ran.err;
    for (char c : ran.out)
      ASSERT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= 0x20) << verb << ": a control character";
    EXPECT_EQ(run(std::string(verb) + " --device 9 " + path()).exit, 1) << verb;
  }
}

}  // namespace
}  // namespace hpu::trace
