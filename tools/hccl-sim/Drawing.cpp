// SPDX-License-Identifier: Apache-2.0
#include "tools/hccl-sim/Drawing.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <tuple>

#include "base/Format.h"
#include "tools/common/Fixed.h"
#include "tools/common/Svg.h"

namespace hpu::tools {
namespace {

using base::strCat;
using collectives::PortUse;
using collectives::Program;
using collectives::ProgramStep;
using collectives::StepKind;

constexpr double kWidth = 1200, kLeft = 190, kRight = 20, kPlot = kWidth - kLeft - kRight;
constexpr double kLane = 7;
/// Steps of a rank that overlap are drawn below each other, up to so many of a kind.
constexpr size_t kMostLanes = 16;

std::string usText(int64_t ps) {
  return fixed(static_cast<double>(ps) / 1e6, 3) + " us";
}

std::string_view colourOf(const DrawnStep& step) {
  if (step.what == "send") return step.leavesNode ? "#d95f02" : "#1f78b4";
  if (step.what == "receive") return step.leavesNode ? "#fdbf6f" : "#a6cee3";
  return step.what == "reduce" ? "#33a02c" : "#888888";
}

void drawFabric(SvgCanvas& canvas, const Drawing& drawing) {
  const double top = canvas.height, leafY = top + 22, nodeY = top + 70, nodeHeight = 46;
  canvas.text(10, top + 12,
              strCat("fabric '", drawing.fabric, "': ", drawing.nodes, " nodes of ", drawing.devicesPerNode,
                     " devices in a full mesh, ", drawing.rails, " rails each; ",
                     drawing.nodesPerLeaf > 0 ? strCat("leaf switches of ", drawing.nodesPerLeaf,
                                                       " nodes, oversubscribed ", drawing.oversubscription, " to 1")
                                              : std::string("one switch")));
  const size_t count = std::max<size_t>(drawing.drawnNodes.size(), 1);
  const double pitch = (kWidth - 20) / static_cast<double>(count), width = pitch - 12;
  for (size_t i = 0; i < drawing.drawnNodes.size(); ++i) {
    const DrawnNode& node = drawing.drawnNodes[i];
    const double x = 10 + pitch * static_cast<double>(i), middle = x + width / 2;
    for (int32_t rail = 0; rail < std::min(drawing.rails, 16); ++rail) {
      const double at = x + width * (rail + 0.5) / std::min(drawing.rails, 16);
      canvas.line(at, nodeY, middle + (at - middle) * 0.4, leafY + 14, "#d95f02");
    }
    const bool isFirst = i == 0 || drawing.drawnNodes[i - 1].leaf != node.leaf;
    size_t end = i;
    while (end < drawing.drawnNodes.size() && drawing.drawnNodes[end].leaf == node.leaf) ++end;
    if (isFirst) {
      canvas.rect(x, leafY, pitch * static_cast<double>(end - i) - 12, 14, "#dddddd");
      canvas.text(x + 4, leafY + 11, drawing.nodesPerLeaf > 0 ? strCat("leaf ", node.leaf) : std::string("switch"));
    }
    canvas.rect(x, nodeY, width, nodeHeight, node.remark.empty() ? "#eef3f8" : "#fbe3e3");
    canvas.text(x + 4, nodeY + 13, strCat("node ", node.node, ", ", node.ranks, " ranks"));
    for (int32_t device = 0; device < std::min(drawing.devicesPerNode, 16); ++device)
      canvas.rect(x + 4 + (width - 8) * device / std::min(drawing.devicesPerNode, 16), nodeY + 19,
                  (width - 8) / std::min(drawing.devicesPerNode, 16) - 2, 9,
                  device < node.ranks ? "#1f78b4" : "#cccccc");
    if (!node.remark.empty()) canvas.text(x + 4, nodeY + 41, node.remark, "fill=\"#b00020\"");
  }
  canvas.height = nodeY + nodeHeight + 12;
  if (static_cast<size_t>(drawing.nodes) > drawing.drawnNodes.size()) {
    canvas.text(10, canvas.height + 4,
                strCat("and ", static_cast<size_t>(drawing.nodes) - drawing.drawnNodes.size(), " more nodes"));
    canvas.height += 16;
  }
}

double xOf(const Drawing& drawing, int64_t ps) {
  return kLeft + (drawing.timePs > 0 ? kPlot * static_cast<double>(ps) / static_cast<double>(drawing.timePs) : 0);
}

void drawAxis(SvgCanvas& canvas, const Drawing& drawing, double top, double bottom) {
  if (drawing.timePs <= 0) return;
  const double total = static_cast<double>(drawing.timePs) / 1e6;
  double tick = std::pow(10, std::floor(std::log10(total)));
  if (total / tick < 2)
    tick /= 5;
  else if (total / tick < 5)
    tick /= 2;
  const int digits = std::clamp(static_cast<int>(-std::floor(std::log10(tick))), 0, 6);
  for (int i = 0; i * tick <= total; ++i) {
    const double x = kLeft + kPlot * i * tick / total;
    canvas.line(x, top, x, bottom, "#e4e4e4");
    canvas.text(x + 2, top - 3, fixed(i * tick, digits) + (i == 0 ? " us" : ""), "fill=\"#666666\"");
  }
}

constexpr const char* kGroups[] = {"sends in node", "sends by rail", "receives in node", "receives by rail", "engine"};
size_t groupOf(const DrawnStep& step) {
  if (step.what == "send") return step.leavesNode ? 1 : 0;
  if (step.what == "receive") return step.leavesNode ? 3 : 2;
  return 4;
}

/// Rows of one rank and kind of step: the first lane that is free takes a step.
void drawRank(SvgCanvas& canvas, const Drawing& drawing, size_t begin, size_t end) {
  const double top = canvas.height;
  double y = top;
  for (size_t group = 0; group < std::size(kGroups); ++group) {
    std::vector<int64_t> freePs;
    for (size_t i = begin; i < end; ++i) {
      const DrawnStep& step = drawing.steps[i];
      if (groupOf(step) != group) continue;
      size_t lane = 0;
      while (lane < freePs.size() && freePs[lane] > step.startPs && lane + 1 < kMostLanes) ++lane;
      if (lane == freePs.size()) freePs.push_back(0);
      freePs[lane] = std::max(freePs[lane], step.endPs);
      canvas.rect(xOf(drawing, step.startPs), y + kLane * static_cast<double>(lane),
                  xOf(drawing, step.endPs) - xOf(drawing, step.startPs), kLane - 1, colourOf(step),
                  strCat("rank ", step.rank, " step ", step.step, ": ", step.what,
                         step.peer >= 0 ? strCat(step.what == "send" ? " to " : " from ", step.peer) : std::string(),
                         ", ", step.bytes, " B, ", usText(step.startPs), " to ", usText(step.endPs)));
    }
    if (freePs.empty()) continue;
    canvas.text(kLeft - 100, y + 8, kGroups[group], "fill=\"#666666\"");
    y += std::max(kLane * static_cast<double>(freePs.size()), 10.0) + 2;
  }
  canvas.text(10, top + 9, strCat("rank ", drawing.steps[begin].rank));
  canvas.height = y + 6;
  canvas.line(10, canvas.height - 4, kWidth - kRight, canvas.height - 4, "#bbbbbb");
}

void drawSteps(SvgCanvas& canvas, const Drawing& drawing) {
  canvas.height += 30;
  canvas.text(10, canvas.height - 18,
              "steps over modelled time; blue: links of the node, orange: rails, pale: receives, green: reductions, "
              "grey: copies");
  SvgCanvas rows;
  rows.height = canvas.height + 8;
  const double top = rows.height;
  for (size_t begin = 0; begin < drawing.steps.size();) {
    size_t end = begin;
    while (end < drawing.steps.size() && drawing.steps[end].rank == drawing.steps[begin].rank) ++end;
    drawRank(rows, drawing, begin, end);
    begin = end;
  }
  drawAxis(canvas, drawing, top, rows.height);
  canvas.height = rows.height;
  canvas.append(rows);
  if (drawing.stepsLeftOff > 0) {
    canvas.text(10, canvas.height + 8, strCat(drawing.stepsLeftOff, " later steps are left off"));
    canvas.height += 16;
  }
}

std::string portWords(const Drawing& drawing, const DrawnPort& port) {
  const double share =
      drawing.timePs > 0 ? 100.0 * static_cast<double>(port.busyPs) / static_cast<double>(drawing.timePs) : 0;
  return strCat(fixed(share, 1), " % busy, ", usText(port.waitedPs), " waited for it, ", port.alike, " alike");
}

void drawPorts(SvgCanvas& canvas, const Drawing& drawing) {
  if (drawing.ports.empty()) return;
  canvas.height += 24;
  canvas.text(10, canvas.height - 8,
              "busiest ports: from the first to the last message (pale), and how much of the time they work");
  for (const DrawnPort& port : drawing.ports) {
    const double y = canvas.height;
    canvas.text(10, y + 9, port.name);
    const double from = xOf(drawing, port.firstPs), to = xOf(drawing, port.lastPs);
    canvas.rect(from, y, to - from, 11, "#f2d6bf", strCat(port.name, ": ", portWords(drawing, port)));
    canvas.rect(from, y + 3, xOf(drawing, port.busyPs) - kLeft, 5, "#d95f02");
    canvas.text(kLeft + 6, y + 9, portWords(drawing, port), "fill=\"#222222\"");
    canvas.height += 14;
  }
}

}  // namespace

Drawing drawingOf(const SimResult& result, std::string title) {
  Drawing drawing;
  const auto& fabric = result.site->fabric;
  const auto& map = result.site->map;
  drawing.title = std::move(title);
  drawing.timePs = result.timePs;
  drawing.lowerBoundPs = result.lowerBoundPs;
  drawing.fabric = fabric.name;
  drawing.nodes = map.nodes();
  drawing.devicesPerNode = fabric.devicesPerNode;
  drawing.rails = fabric.rails;
  drawing.nodesPerLeaf = fabric.nodesPerLeaf;
  drawing.oversubscription = fabric.oversubscription;
  constexpr int32_t kMostNodes = 8;
  std::vector<int32_t> shown;  // Those that differ, then the first ones.
  const auto placeOf = [&](int32_t node) { return map.place(map.rankAt(node, 0)).node; };
  for (int32_t node = 0; node < map.nodes() && static_cast<int32_t>(shown.size()) < kMostNodes - 1; ++node)
    if (fabric.exceptionOf(placeOf(node))) shown.push_back(node);
  for (int32_t node = 0; node < map.nodes() && static_cast<int32_t>(shown.size()) < kMostNodes; ++node)
    if (!fabric.exceptionOf(placeOf(node))) shown.push_back(node);
  std::sort(shown.begin(), shown.end());
  for (int32_t node : shown) {
    DrawnNode drawn{placeOf(node), fabric.leafOf(placeOf(node)), static_cast<int32_t>(map.ranksOf(node).size()), ""};
    if (const auto* exception = fabric.exceptionOf(drawn.node)) {
      if (exception->rate != 1) drawn.remark = strCat("rate x ", exception->rate);
      for (int32_t rail : exception->railsDown)
        drawn.remark += strCat(drawn.remark.empty() ? "" : ", ", "rail ", rail, " down");
      if (!exception->devices.empty())
        drawn.remark += strCat(drawn.remark.empty() ? "" : ", ", exception->devices.size(), " devices");
    }
    drawing.drawnNodes.push_back(std::move(drawn));
  }

  int32_t programOf = -1;
  Program program;
  auto spans = result.timing.spans;
  std::sort(spans.begin(), spans.end(), [](const auto& a, const auto& b) {
    return std::tie(a.rank, a.startPs, a.step) < std::tie(b.rank, b.startPs, b.step);
  });
  for (const auto& span : spans) {
    if (drawing.steps.size() >= kMostDrawnSteps) {
      ++drawing.stepsLeftOff;
      continue;
    }
    if (span.rank != programOf) program = result.plan->program(programOf = span.rank);
    const ProgramStep& step = program.steps[static_cast<size_t>(span.step)];
    DrawnStep drawn;
    drawn.rank = span.rank;
    drawn.step = span.step;
    drawn.what = collectives::stepName(step.kind);
    if (step.peer >= 0) {
      drawn.peer = collectives::resolve(map, span.rank, program.peers[static_cast<size_t>(step.peer)]);
      drawn.leavesNode = map.position(drawn.peer).node != map.position(span.rank).node;
    }
    drawn.bytes = step.bytes;
    drawn.startPs = span.startPs;
    drawn.endPs = span.endPs;
    drawing.steps.push_back(std::move(drawn));
  }
  for (const PortUse& port : result.timing.ports) {
    if (drawing.ports.size() >= 24) break;
    if (port.messages == 0) continue;
    drawing.ports.push_back({collectives::portText(fabric, port), port.busyPs, port.bytes, port.firstPs, port.lastPs,
                             port.waitedPs, port.alike});
  }
  return drawing;
}

Json drawingJson(const Drawing& drawing) {
  Json json = Json::object();
  const auto number = [](int32_t value) { return Json(static_cast<int64_t>(value)); };
  json.set("schema", "openhpu-drawing-1").set("title", drawing.title).set("modelled", true);
  json.set("time_ps", drawing.timePs).set("lower_bound_ps", drawing.lowerBoundPs);
  Json nodes = Json::array();
  for (const DrawnNode& node : drawing.drawnNodes)
    nodes.append(Json::object()
                     .set("node", number(node.node))
                     .set("leaf", number(node.leaf))
                     .set("ranks", number(node.ranks))
                     .set("remark", node.remark));
  json.set("fabric", Json::object()
                         .set("name", drawing.fabric)
                         .set("nodes", number(drawing.nodes))
                         .set("devices_per_node", number(drawing.devicesPerNode))
                         .set("rails", number(drawing.rails))
                         .set("nodes_per_leaf", number(drawing.nodesPerLeaf))
                         .set("oversubscription", drawing.oversubscription)
                         .set("drawn_nodes", std::move(nodes)));
  Json steps = Json::array();
  for (const DrawnStep& step : drawing.steps)
    steps.append(Json::object()
                     .set("rank", number(step.rank))
                     .set("step", number(step.step))
                     .set("what", step.what)
                     .set("peer", number(step.peer))
                     .set("leaves_node", step.leavesNode)
                     .set("bytes", step.bytes)
                     .set("start_ps", step.startPs)
                     .set("end_ps", step.endPs));
  json.set("steps", std::move(steps)).set("steps_left_off", drawing.stepsLeftOff);
  Json ports = Json::array();
  for (const DrawnPort& port : drawing.ports)
    ports.append(Json::object()
                     .set("name", port.name)
                     .set("busy_ps", port.busyPs)
                     .set("bytes", port.bytes)
                     .set("first_ps", port.firstPs)
                     .set("last_ps", port.lastPs)
                     .set("waited_ps", port.waitedPs)
                     .set("alike", port.alike));
  json.set("ports", std::move(ports));
  return json;
}

std::string drawingSvg(const Drawing& drawing) {
  SvgCanvas canvas;
  canvas.text(10, 20, drawing.title, "font-size=\"15\" font-weight=\"bold\"");
  canvas.text(10, 38, strCat("modelled: ", usText(drawing.timePs), "; bound ", usText(drawing.lowerBoundPs)));
  canvas.height = 48;
  drawFabric(canvas, drawing);
  drawSteps(canvas, drawing);
  drawPorts(canvas, drawing);
  return canvas.document(
      kWidth, strCat("<metadata id=\"openhpu-data\">", escapedXml(drawingJson(drawing).dump(-1)), "</metadata>\n"));
}

std::string drawingHtml(const Drawing& drawing) {
  std::string rows;
  for (const DrawnPort& port : drawing.ports)
    rows += strCat("<tr><td>", escapedXml(port.name), "</td><td>", port.bytes, "</td><td>",
                   escapedXml(portWords(drawing, port)), "</td></tr>\n");
  return strCat("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>", escapedXml(drawing.title),
                "</title>\n<style>body{font-family:sans-serif;font-size:13px}td,th{padding:2px 10px;text-align:left}"
                "</style></head>\n<body>\n",
                drawingSvg(drawing), "<table><tr><th>port</th><th>bytes</th><th>use (modelled)</th></tr>\n", rows,
                "</table>\n</body></html>\n");
}

}  // namespace hpu::tools
