// SPDX-License-Identifier: Apache-2.0
// The columns of a timeline against sums made slice by slice.
#include "tools/hpu-trace/Timeline.h"

#include <nlohmann/json.hpp>

#include "runtime/trace/ExportTracks.h"
#include "tests/unit/trace/TraceCliFixture.h"

namespace hpu::tools {
namespace {

using trace::EngineSlice;
using trace::Example;
using trace::TraceData;
using trace::TracedDevice;
using trace::Track;

class TimelineTest : public trace::TraceCli {
 protected:
  TraceData read() { return readBack("t.hputrace"); }
};

/// Busy time of an engine in [from, to), one slice after the other.
Picoseconds busyIn(const TracedDevice& device, Track track, Picoseconds from, Picoseconds to) {
  Picoseconds sum = 0;
  forEachSlice(device, [&](const EngineSlice& s) {
    if (s.track == track) sum += std::max<Picoseconds>(std::min(s.end, to) - std::max(s.start, from), 0);
  });
  return sum;
}

TEST_F(TimelineTest, EveryColumnHasTheBusyTimeOfItsSlices) {
  TraceData data = read();
  const TracedDevice& device = data.devices[0];
  TimelineWindow whole = wholeDevice(device);
  EXPECT_EQ(whole.to, 5 * example_->timeline.end);
  for (int columns : {1, 7, 100, 5000}) {
    whole.columns = columns;
    Timeline t = timelineOf(device, whole);
    ASSERT_LE(t.launches.size(), static_cast<size_t>(columns));
    ASSERT_EQ(t.lanes.size(), 4u) << "mme, tpc, dma and the copy's";
    for (const TimelineLane& lane : t.lanes) {
      Picoseconds sum = 0;
      for (size_t c = 0; c < lane.cells.size(); ++c) {
        Picoseconds from = t.window.from + static_cast<Picoseconds>(c) * t.column;
        Picoseconds to = std::min(from + t.column, t.window.to);
        ASSERT_EQ(lane.cells[c].busy, busyIn(device, lane.track, from, to)) << columns << " " << c;
        sum += lane.cells[c].busy;
      }
      EXPECT_EQ(sum, lane.busy);
    }
    EXPECT_EQ(t.lanes[0].busy, 3 * example_->timeline.busy[0]);
  }
}

TEST_F(TimelineTest, AWindowCutsWhatReachesOverItsEdges) {
  TraceData data = read();
  const TracedDevice& device = data.devices[0];
  Picoseconds end = example_->timeline.end;
  Timeline t = timelineOf(device, {end / 3, end / 2, 20});
  EXPECT_EQ(t.lanes[0].busy, busyIn(device, Track::kMme, end / 3, end / 2));
  EXPECT_GT(t.lanes[0].busy, 0);
  Picoseconds ops = 0, lanes = 0;
  for (const TimelineOp& op : t.ops) ops += op.busy;
  for (const TimelineLane& lane : t.lanes) lanes += lane.busy;
  EXPECT_EQ(ops, lanes);
}

TEST_F(TimelineTest, DrawsLettersByShareWaitingAndLaunches) {
  TracedDevice device;
  device.target = Target::kGaudi3;  // No DMA engine.
  auto span = [&](Track track, trace::StringId name, Picoseconds ready, Picoseconds start, Picoseconds end) {
    trace::SpanEvent e;
    e.track = track, e.name = name, e.ready = ready, e.start = start, e.end = end;
    device.spans.push_back(e);
  };
  // Ten columns of 10: three full, one of 4, two of waiting, the rest nothing.
  span(Track::kMme, 1, 0, 0, 34);
  span(Track::kMme, 2, 40, 60, 66);
  trace::LaunchEvent launch;
  launch.start = 0, launch.end = 80;
  device.launches = {launch};
  launch.start = 90, launch.end = 100;
  device.launches.push_back(launch);
  Timeline t = timelineOf(device, {0, 100, 10});
  ASSERT_EQ(t.lanes.size(), 2u);
  EXPECT_EQ(drawLane(t, t.lanes[0], 26), "AAAa--B. .");
  EXPECT_EQ(drawLane(t, t.lanes[0], 1), "AAAa--#. .");
  EXPECT_EQ(drawLane(t, t.lanes[1], 26), "........ .");
  EXPECT_EQ(drawLaunches(t),
            "======== ~"
            "");
}

TEST_F(TimelineTest, TheProgramsJsonAddsUpAndItsTextFitsTheWidth) {
  trace::Ran ran = run("timeline --json --width 40 --slices 5 " + path());
  ASSERT_EQ(ran.exit, 0) << ran.err;
  nlohmann::json device = nlohmann::json::parse(ran.out)["devices"][0];
  double sum = 0;
  for (double column : device["engines"]["mme"]["columns_busy_us"]) sum += column;
  EXPECT_NEAR(sum, 3 * static_cast<double>(example_->timeline.busy[0]) / 1e6, 1e-6);
  EXPECT_LE(device["engines"]["mme"]["columns_busy_us"].size(), 40u);
  EXPECT_EQ(device["launches"].size(), 3u);
  EXPECT_EQ(device["slices"].size(), 5u);
  EXPECT_EQ(device["slices_in_window"], 25);
  trace::Ran text = run("timeline --width 40 " + path());
  ASSERT_EQ(text.exit, 0) << text.err;
  size_t at = text.out.find("\nmme     ");
  ASSERT_NE(at, std::string::npos);
  EXPECT_EQ(text.out.find("  busy ", at), at + 9 + 40);
  for (char c : text.out) ASSERT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= 0x20);
}

TEST_F(TimelineTest, WindowsAreGivenByTimeOrLaunch) {
  auto device = [&](const std::string& arguments) {
    trace::Ran ran = run("timeline --json " + arguments + " " + path());
    EXPECT_EQ(ran.exit, 0) << ran.err;
    return nlohmann::json::parse(ran.out)["devices"][0];
  };
  nlohmann::json second = device("--launch 1");
  EXPECT_EQ(second["launches"].size(), 1u);
  EXPECT_EQ(second["launches"][0]["launch"], 2);
  EXPECT_DOUBLE_EQ(second["from_us"].get<double>(), 2 * static_cast<double>(example_->timeline.end) / 1e6);
  EXPECT_DOUBLE_EQ(device("--from 500ns --to 0.001ms")["to_us"].get<double>(), 1.0);
  EXPECT_EQ(run("timeline --launch 3 " + path()).exit, 1);
  EXPECT_EQ(run("timeline --launch 0 --from 1 " + path()).exit, 1);
  EXPECT_EQ(run("timeline --from 3 --to 2 " + path()).exit, 1);
  EXPECT_EQ(run("timeline --from 5s " + path()).exit, 1);
  for (const char* bad : {"--from 1x", "--from nan", "--to 1e30s", "--width 3", "--device 4"})
    EXPECT_EQ(run(std::string("timeline ") + bad + " " + path()).exit, 1) << bad;
}

}  // namespace
}  // namespace hpu::tools
