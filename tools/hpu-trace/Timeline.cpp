// SPDX-License-Identifier: Apache-2.0
#include "tools/hpu-trace/Timeline.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "arch/TargetDesc.h"
#include "runtime/trace/ExportTracks.h"

namespace hpu::tools {
namespace {

using trace::EngineSlice;
using trace::Track;

/// Calls visit(column, time) for each column that [start, end) reaches, with the time in it.
template <typename Visit>
void spread(const Timeline& t, Picoseconds start, Picoseconds end, Visit&& visit) {
  start = std::max(start, t.window.from);
  end = std::min(end, t.window.to);
  while (start < end) {
    auto column = static_cast<size_t>((start - t.window.from) / t.column);
    // By length and not by edge: the last edge may lie beyond what a number holds.
    Picoseconds here = std::min(end - start, t.column - (start - t.window.from) % t.column);
    visit(column, here);
    start += here;
  }
}

}  // namespace

TimelineWindow wholeDevice(const trace::TracedDevice& device) {
  TimelineWindow window{INT64_MAX, INT64_MIN, 0};
  auto extend = [&](Picoseconds start, Picoseconds end) {
    window.from = std::min(window.from, start);
    window.to = std::max(window.to, end);
  };
  for (const trace::CommandEvent& e : device.commands) extend(e.start, e.end);
  for (const trace::SpanEvent& e : device.spans) extend(e.start, e.end);
  for (const trace::LaunchEvent& e : device.launches) extend(e.start, e.end);
  if (window.from >= window.to) window.from = window.to = 0;
  return window;
}

Timeline timelineOf(const trace::TracedDevice& device, const TimelineWindow& window) {
  Timeline t;
  t.window = window;
  Picoseconds span = window.to - window.from;
  auto most = static_cast<Picoseconds>(std::max(window.columns, 1));
  t.column = span / most + (span % most != 0);
  auto columns = static_cast<size_t>(span / t.column + (span % t.column != 0));

  std::map<Track, size_t> laneOf;
  auto addLane = [&](Track track) {
    if (laneOf.try_emplace(track, 0).second) t.lanes.push_back({track, {}, 0, 0, 0});
  };
  addLane(Track::kMme);
  addLane(Track::kTpc);
  if (arch::targetDesc(device.target).numDmas > 0) addLane(Track::kDma);
  for (const trace::SpanEvent& e : device.spans) addLane(e.track);
  for (const trace::TracedProgram& p : device.programs)
    for (uint8_t engine : p.queueEngines) addLane(static_cast<Track>(engine));
  std::sort(t.lanes.begin(), t.lanes.end(),
            [](const TimelineLane& a, const TimelineLane& b) { return a.track < b.track; });
  for (size_t i = 0; i < t.lanes.size(); ++i) {
    laneOf[t.lanes[i].track] = i;
    t.lanes[i].cells.resize(columns);
  }

  // Operations in the window first, since a cell names the one with most of its time.
  std::map<std::pair<Track, trace::StringId>, size_t> opOf;
  struct Share {
    size_t lane, column, op;
    Picoseconds time;
  };
  std::vector<Share> parts;
  forEachSlice(device, [&](const EngineSlice& s) {
    TimelineLane& lane = t.lanes[laneOf[s.track]];
    spread(t, s.ready, s.start, [&](size_t column, Picoseconds time) {
      lane.cells[column].waiting += time;
      lane.waiting += time;
    });
    if (s.start >= window.to || s.end <= window.from) return;
    auto [entry, isNew] = opOf.try_emplace({s.track, s.name}, t.ops.size());
    if (isNew) t.ops.push_back({s.name, s.track, s.nodes, 0, 0});
    TimelineOp& op = t.ops[entry->second];
    ++op.slices;
    ++lane.slices;
    spread(t, s.start, s.end, [&](size_t column, Picoseconds time) {
      lane.cells[column].busy += time;
      lane.busy += time;
      op.busy += time;
      parts.push_back({laneOf[s.track], column, entry->second, time});
    });
  });

  std::sort(parts.begin(), parts.end(), [](const Share& a, const Share& b) {
    return std::tie(a.lane, a.column, a.op) < std::tie(b.lane, b.column, b.op);
  });
  std::vector<size_t> order(t.ops.size()), place(t.ops.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return t.ops[a].busy > t.ops[b].busy; });
  for (size_t i = 0; i < order.size(); ++i) place[order[i]] = i;
  for (size_t i = 0; i < parts.size();) {
    const Share& first = parts[i];
    size_t best = first.op;
    Picoseconds bestTime = -1;
    size_t end = i;
    while (end < parts.size() && parts[end].lane == first.lane && parts[end].column == first.column) {
      size_t op = parts[end].op;
      Picoseconds time = 0;
      for (; end < parts.size() && parts[end].lane == first.lane && parts[end].column == first.column &&
             parts[end].op == op;
           ++end)
        time += parts[end].time;
      if (time > bestTime) best = op, bestTime = time;
    }
    t.lanes[first.lane].cells[first.column].op = static_cast<int>(place[best]);
    i = end;
  }
  std::vector<TimelineOp> sorted;
  for (size_t i : order) sorted.push_back(t.ops[i]);
  t.ops = std::move(sorted);

  t.launches.resize(columns);
  std::vector<Picoseconds> begun(columns, INT64_MIN);
  for (uint32_t l = 0; l < device.launches.size(); ++l)
    spread(t, device.launches[l].start, device.launches[l].end, [&](size_t column, Picoseconds) {
      if (t.launches[column] && begun[column] > device.launches[l].start) return;
      begun[column] = device.launches[l].start;
      t.launches[column] = l + 1;
    });
  return t;
}

std::string drawLane(const Timeline& timeline, const TimelineLane& lane, int letters) {
  std::string out;
  Picoseconds left = timeline.window.to - timeline.window.from;
  for (size_t c = 0; c < lane.cells.size(); ++c, left -= timeline.column) {
    const TimelineCell& cell = lane.cells[c];
    Picoseconds length = std::min(timeline.column, left);
    bool most = cell.busy >= length - cell.busy;
    if (cell.busy > 0 && cell.op >= 0 && cell.op < std::min(letters, 26))
      out += static_cast<char>((most ? 'A' : 'a') + cell.op);
    else if (cell.busy > 0)
      out += most ? '#' : '+';
    else if (cell.waiting > 0)
      out += '-';
    else
      out += timeline.launches[c] ? '.' : ' ';
  }
  return out;
}

std::string drawLaunches(const Timeline& timeline) {
  std::string out;
  for (uint32_t launch : timeline.launches) out += !launch ? ' ' : launch % 2 ? '=' : '~';
  return out;
}

}  // namespace hpu::tools
