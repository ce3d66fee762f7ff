// SPDX-License-Identifier: Apache-2.0
#include "tools/hpu-trace/TimelineDrawing.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/Format.h"
#include "runtime/trace/ExportTracks.h"
#include "tools/common/Svg.h"
#include "tools/hpu-trace/Report.h"

namespace hpu::tools {
namespace {

using base::strCat;
using trace::EngineSlice;

constexpr double kWidth = 960, kLeft = 56, kRight = 96, kPlot = kWidth - kLeft - kRight;
constexpr double kRow = 22, kLegendRow = 14;
constexpr const char* kColours[] = {"#1f78b4", "#d95f02", "#33a02c", "#6a3d9a", "#e31a1c", "#b15928",
                                    "#17a2b8", "#e6ab02", "#a6cee3", "#fb9a99", "#b2df8a", "#cab2d6"};
constexpr const char* kOther = "#9a9a9a";

double xOf(const Timeline& t, Picoseconds time) {
  const double span = static_cast<double>(t.window.to - t.window.from);
  return kLeft + kPlot * static_cast<double>(std::clamp(time, t.window.from, t.window.to) - t.window.from) / span;
}

/// Lines at 4 to 10 round times since the window's begin.
void drawAxis(SvgCanvas& canvas, const Timeline& t, double top, double bottom) {
  const double total = static_cast<double>(t.window.to - t.window.from) / 1e6;
  double tick = std::pow(10, std::floor(std::log10(total)));
  if (total / tick < 2)
    tick /= 5;
  else if (total / tick < 5)
    tick /= 2;
  const int digits = std::clamp(static_cast<int>(-std::floor(std::log10(tick) + 1e-9)), 0, 6);
  for (int i = 0; i * tick <= total; ++i) {
    const double x = kLeft + kPlot * i * tick / total;
    canvas.line(x, top, x, bottom, "#e4e4e4");
    canvas.text(x + 2, top - 3, fixed(i * tick, digits) + (i == 0 ? " us" : ""), "fill=\"#666666\"");
  }
}

constexpr size_t kNone = std::size(kColours);

/// Of each operation of the timeline. What two engines do for one operation (a product and its epilogue) has one
/// colour; when there are no more, kNone.
std::vector<size_t> coloursOf(const trace::TraceData& trace, const Timeline& t, size_t limit) {
  std::vector<size_t> colours;
  size_t next = 0;
  for (size_t i = 0; i < t.ops.size(); ++i) {
    size_t same = 0;
    while (same < i && trace.text(t.ops[same].name) != trace.text(t.ops[i].name)) ++same;
    colours.push_back(same < i ? colours[same] : next < std::min(limit, kNone) ? next++ : kNone);
  }
  return colours;
}

const char* colourOf(const Timeline& t, const std::vector<size_t>& colours, const EngineSlice& slice) {
  for (size_t i = 0; i < t.ops.size(); ++i)
    if (t.ops[i].name == slice.name && t.ops[i].track == slice.track)
      return colours[i] < kNone ? kColours[colours[i]] : kOther;
  return kOther;
}

/// Cut where the picture ends, between characters.
std::string legendOf(std::string name) {
  constexpr size_t kMost = 130;
  if (name.size() <= kMost) return name;
  size_t end = kMost;
  while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xC0) == 0x80) --end;
  return name.substr(0, end) + "...";
}

void drawDevice(SvgCanvas& canvas, const trace::TraceData& trace, const DeviceTimeline& drawn, size_t limit) {
  const Timeline& t = drawn.timeline;
  const Picoseconds span = t.window.to - t.window.from;
  std::vector<const TimelineLane*> lanes;
  for (const TimelineLane& lane : t.lanes)
    if (lane.slices > 0) lanes.push_back(&lane);
  canvas.text(
      10, canvas.height + 18,
      strCat(printable(trace::deviceTitle(trace, *drawn.device)), ": ", formatTime(span), " of device time (modelled)"),
      "font-size=\"13\" font-weight=\"bold\"");
  const double top = canvas.height + 42, bottom = top + kRow * static_cast<double>(lanes.size());
  drawAxis(canvas, t, top, bottom);
  const std::vector<size_t> colours = coloursOf(trace, t, limit);
  for (size_t i = 0; i < lanes.size(); ++i) {
    const double y = top + kRow * static_cast<double>(i);
    canvas.text(10, y + 14, trackName(lanes[i]->track), "font-size=\"12\"");
    canvas.text(kWidth - kRight + 6, y + 14, "busy " + formatShare(lanes[i]->busy, span), "font-size=\"11\"");
    forEachSlice(*drawn.device, [&](const EngineSlice& s) {
      if (s.track != lanes[i]->track || s.start >= t.window.to || s.end <= t.window.from) return;
      canvas.rect(xOf(t, s.start), y + 2, xOf(t, s.end) - xOf(t, s.start), kRow - 4, colourOf(t, colours, s),
                  strCat(printable(trace.text(s.name)), ", slice ", s.slice, ": ", formatTime(s.end - s.start),
                         s.start > s.ready ? strCat(", waited ", formatTime(s.start - s.ready)) : std::string()));
    });
    canvas.line(kLeft, y + kRow, kWidth - kRight, y + kRow, "#dddddd");
  }
  canvas.height = bottom + 10;
  size_t shown = 0, others = 0;  // Colours come into use one after the other.
  const auto legend = [&](const char* colour, const std::string& words) {
    canvas.rect(kLeft, canvas.height + 2, 10, 10, colour);
    canvas.text(kLeft + 16, canvas.height + 11, words);
    canvas.height += kLegendRow;
  };
  for (size_t i = 0; i < t.ops.size(); ++i) {
    others += colours[i] == kNone;
    if (colours[i] != shown || shown == kNone) continue;
    ++shown;
    legend(kColours[colours[i]], legendOf(printable(trace.text(t.ops[i].name))));
  }
  if (others > 0) legend(kOther, strCat("other operations (", others, ")"));
}

}  // namespace

std::string timelineSvg(const trace::TraceData& trace, const std::vector<DeviceTimeline>& devices, int64_t limit) {
  SvgCanvas canvas;
  for (const DeviceTimeline& drawn : devices) {
    drawDevice(canvas, trace, drawn, static_cast<size_t>(std::max<int64_t>(limit, 0)));
    canvas.height += 6;
  }
  return canvas.document(kWidth);
}

}  // namespace hpu::tools
