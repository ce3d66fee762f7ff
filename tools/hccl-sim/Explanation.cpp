// SPDX-License-Identifier: Apache-2.0
#include "tools/hccl-sim/Explanation.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "base/Format.h"
#include "tools/common/Fixed.h"
#include "tools/common/Table.h"

namespace hpu::tools {
namespace {

using base::strCat;
using collectives::Fabric;
using collectives::PortUse;
using collectives::Program;
using collectives::ProgramStep;
using collectives::StepKind;

constexpr size_t kIndent = 4;  // Of tables.

std::string usText(int64_t ps) {
  return fixed(static_cast<double>(ps) / 1e6, 3) + " us";
}
std::string percent(int64_t part, int64_t whole) {
  return whole > 0 ? fixed(100.0 * static_cast<double>(part) / static_cast<double>(whole), 1) + " %" : "-";
}
double us(int64_t ps) {
  return static_cast<double>(ps) / 1e6;
}

std::vector<TimePart> accountOf(const SimResult& result, const PortUse& port) {
  const double rate = portBytesPerNs(result.site->fabric, port);
  const int64_t wirePs = std::min<int64_t>(port.busyPs, std::llround(static_cast<double>(port.bytes) / rate * 1000));
  const int64_t bound = std::min(result.lowerBoundPs, wirePs), late = std::min(port.firstPs, result.lastArrivalPs);
  return {{"bound", "the bound: the least bytes over the rates of links and rails", bound},
          {"more_bytes", "more bytes on the busiest port than the bound has", wirePs - bound},
          {"headers", "headers, acknowledgements and the issue of messages", port.busyPs - wirePs},
          {"late", "late ranks", late},
          {"before", "before its first message: the start, the first pieces on their way", port.firstPs - late},
          {"idle", "idle between messages", port.lastPs - port.firstPs - port.busyPs},
          {"after", "after its last message: latency, the last pieces on their way", result.timePs - port.lastPs}};
}

/// What the last rank did, backwards from the step that ends last: before each step is the latest of those that it
/// waits for, or, when it then still waited, the message that had its port before it.
class Chain {
 public:
  explicit Chain(const SimResult& result)
      : result_(result), program_(result.plan->program(result.lastRank)), times_(program_.steps.size(), {-1, -1}) {
    for (const auto& span : result.timing.spans)
      if (span.rank == result.lastRank && static_cast<size_t>(span.step) < times_.size())
        times_[static_cast<size_t>(span.step)] = {span.startPs, span.endPs};
    for (size_t i = 0; i < times_.size(); ++i) {
      const auto step = static_cast<int32_t>(i);
      if (isMessage(step) && end(step) >= 0) ofPort_[portOf(step)].push_back(step);
    }
    for (auto& [port, steps] : ofPort_)
      std::sort(steps.begin(), steps.end(),
                [&](int32_t x, int32_t y) { return std::pair(start(x), x) < std::pair(start(y), y); });
  }

  std::vector<TimePart> parts() const {
    std::vector<TimePart> parts = {{"mesh_messages", "messages in the node", 0},
                                   {"rail_messages", "messages between nodes", 0},
                                   {"reductions", "reductions", 0},
                                   {"copies", "copies", 0},
                                   {"waiting", "arrival, start, waiting for peers and for ports that others use", 0}};
    int64_t until = result_.timePs;
    for (int32_t step = last(); step >= 0 && end(step) >= 0;) {
      // A message has left its port when the next one takes it, though it is not there yet.
      const int64_t to = std::min(end(step), until), from = std::clamp<int64_t>(start(step), 0, to);
      parts[kWait].ps += until - to;
      parts[partOf(step)].ps += to - from;
      until = from;
      step = before(step);
    }
    parts[kWait].ps += until;
    std::stable_sort(parts.begin(), parts.end(), [](const TimePart& a, const TimePart& b) { return a.ps > b.ps; });
    return parts;
  }

 private:
  enum Part : size_t { kMesh, kRail, kReduce, kCopy, kWait };
  const ProgramStep& at(int32_t step) const { return program_.steps[static_cast<size_t>(step)]; }
  int64_t start(int32_t step) const { return times_[static_cast<size_t>(step)].first; }
  int64_t end(int32_t step) const { return times_[static_cast<size_t>(step)].second; }
  bool isMessage(int32_t step) const { return at(step).kind == StepKind::kSend || at(step).kind == StepKind::kRecv; }
  int32_t peer(int32_t step) const {
    return collectives::resolve(result_.site->map, result_.lastRank,
                                program_.peers[static_cast<size_t>(at(step).peer)]);
  }
  Part partOf(int32_t step) const {
    if (!isMessage(step)) return at(step).kind == StepKind::kCopy ? kCopy : kReduce;
    const collectives::RankMap& map = result_.site->map;
    return map.position(peer(step)).node == map.position(result_.lastRank).node ? kMesh : kRail;
  }
  /// Sending or not, and the peer of a link; all messages to other nodes take the one rail.
  std::pair<bool, int32_t> portOf(int32_t step) const {
    return {at(step).kind == StepKind::kSend, partOf(step) == kMesh ? peer(step) : -1};
  }
  int32_t last() const {
    int32_t best = -1;
    for (size_t i = 0; i < times_.size(); ++i)
      if (best < 0 || times_[i].second > end(best)) best = static_cast<int32_t>(i);
    return best;
  }
  int32_t before(int32_t step) const {
    int32_t best = -1;
    for (int32_t other : at(step).after)
      if (best < 0 || end(other) > end(best)) best = other;
    if (!isMessage(step) || (best >= 0 && end(best) >= start(step))) return best;
    const std::vector<int32_t>& queue = ofPort_.at(portOf(step));
    const auto here = std::lower_bound(queue.begin(), queue.end(), start(step),
                                       [&](int32_t other, int64_t ps) { return start(other) < ps; });
    if (here == queue.begin()) return best;
    const int32_t other = *(here - 1);
    return best < 0 || end(other) > end(best) ? other : best;
  }

  const SimResult& result_;
  const Program program_;
  std::vector<std::pair<int64_t, int64_t>> times_;  ///< Begin and end.
  std::map<std::pair<bool, int32_t>, std::vector<int32_t>> ofPort_;
};

std::string ratesText(const Fabric& fabric) {
  std::string text = strCat("fabric '", fabric.name, "': links of ", fixed(fabric.mesh.linkBytesPerNs, 3),
                            " GB/s between devices of a node, ", fabric.rails, " rails of ",
                            fixed(fabric.railBytesPerNs, 3), " GB/s a node, each way; ");
  return text + (fabric.nodesPerLeaf > 0 ? strCat("leaves of ", fabric.nodesPerLeaf, " nodes, oversubscribed ",
                                                  fabric.oversubscription, " to 1")
                                         : std::string("one switch"));
}

Json partsJson(const std::vector<TimePart>& parts) {
  Json json = Json::object();
  for (const TimePart& part : parts) json.set(part.name + "_us", us(part.ps));
  return json;
}

}  // namespace

double portBytesPerNs(const Fabric& fabric, const PortUse& port) {
  switch (port.kind) {
    case PortUse::Kind::kMeshLink:
      return fabric.mesh.linkBytesPerNs * fabric.rateOf(port.node);
    case PortUse::Kind::kRailOut:
    case PortUse::Kind::kRailIn:
      return fabric.railBytesPerNs * fabric.rateOf(port.node);
    case PortUse::Kind::kUplink:
    case PortUse::Kind::kDownlink:
      return fabric.railBytesPerNs * fabric.nodesPerLeaf / fabric.oversubscription;
    case PortUse::Kind::kEngine:
      break;
  }
  return 0;
}

Explanation explain(const SimResult& result) {
  Explanation explanation;
  const auto alike = [](const PortUse& a, const PortUse& b) {
    return a.kind == b.kind && a.busyPs == b.busyPs && a.bytes == b.bytes && a.messages == b.messages &&
           a.firstPs == b.firstPs && a.lastPs == b.lastPs && a.waitedPs == b.waitedPs;
  };
  for (const PortUse& port : result.timing.ports) {
    if (port.kind == PortUse::Kind::kEngine || port.messages == 0) continue;
    const auto known = std::find_if(explanation.ports.begin(), explanation.ports.end(),
                                    [&](const PortUse& other) { return alike(port, other); });
    if (known != explanation.ports.end())
      known->alike += port.alike;
    else if (explanation.ports.size() < 8)
      explanation.ports.push_back(port);
  }
  if (!explanation.ports.empty()) explanation.account = accountOf(result, explanation.ports[0]);
  explanation.chain = Chain(result).parts();
  return explanation;
}

std::vector<std::string> explanationText(const SimResult& result, const Explanation& explanation, int width) {
  std::vector<std::string> lines;
  lines.push_back("why: " + result.reason);
  lines.push_back(ratesText(result.site->fabric));
  if (result.candidates.size() > 1) {
    Table table({Column::name("candidate"), Column::number("chunks"), Column::number("us"), Column::word("")}, kIndent);
    for (const auto& candidate : result.candidates)
      table.row({candidate.algorithm, strCat(candidate.chunks), fixed(us(candidate.predictedPs), 3),
                 candidate.timed ? "timed" : "estimated"});
    lines.push_back(table.text(width));
  }
  if (!explanation.ports.empty()) {
    lines.push_back("busiest ports:");
    Table ports(
        {Column::text("port"), Column::number("alike"), Column::number("busy"), Column::number("of the time"),
         Column::number("bytes").leaveOut(1), Column::number("messages").leaveOut(2), Column::number("waited for it")},
        kIndent);
    for (const PortUse& port : explanation.ports)
      ports.row({collectives::portText(result.site->fabric, port), strCat(port.alike), usText(port.busyPs),
                 percent(port.busyPs, result.timePs), strCat(port.bytes), strCat(port.messages),
                 usText(port.waitedPs)});
    lines.push_back(ports.text(width));
    lines.push_back(strCat("where the ", usText(result.timePs), " go, by the account of the first of these:"));
    Table account({Column::number(""), Column::number(""), Column::text("")}, kIndent);
    for (const TimePart& part : explanation.account)
      account.row({usText(part.ps), percent(part.ps, result.timePs), part.words});
    lines.push_back(account.text(width));
  }
  if (result.timePs > 0)
    lines.push_back(strCat("critical chain of rank ", result.lastRank,
                           ", which is done last (critical phase: ", explanation.chain[0].words, "):"));
  Table chain({Column::number(""), Column::number(""), Column::text("")}, kIndent);
  for (const TimePart& part : explanation.chain)
    if (part.ps > 0) chain.row({usText(part.ps), percent(part.ps, result.timePs), part.words});
  if (!chain.empty()) lines.push_back(chain.text(width));
  lines.push_back(strCat("simulated ", result.timing.classes, " classes of ", result.site->map.ranks(), " ranks, ",
                         result.timing.events, " events, in ", fixed(result.wallMs, 1), " ms of the host"));
  return lines;
}

Json explanationJson(const SimResult& result, const Explanation& explanation) {
  Json json = Json::object();
  json.set("reason", result.reason);
  Json candidates = Json::array();
  for (const auto& candidate : result.candidates)
    candidates.append(Json::object()
                          .set("algorithm", candidate.algorithm)
                          .set("chunks", static_cast<int64_t>(candidate.chunks))
                          .set("predicted_us", us(candidate.predictedPs))
                          .set("timed", candidate.timed));
  json.set("candidates", std::move(candidates));
  Json ports = Json::array();
  for (const PortUse& port : explanation.ports)
    ports.append(Json::object()
                     .set("port", collectives::portText(result.site->fabric, port))
                     .set("alike", static_cast<int64_t>(port.alike))
                     .set("busy_us", us(port.busyPs))
                     .set("utilization", result.timePs > 0
                                             ? static_cast<double>(port.busyPs) / static_cast<double>(result.timePs)
                                             : 0.0)
                     .set("bytes", port.bytes)
                     .set("messages", port.messages)
                     .set("waited_us", us(port.waitedPs)));
  json.set("busiest_ports", std::move(ports));
  json.set("account", partsJson(explanation.account));
  json.set("critical_rank", static_cast<int64_t>(result.lastRank));
  json.set("critical_phase", result.timePs > 0 ? Json(explanation.chain[0].name) : Json());
  json.set("critical_chain", partsJson(explanation.chain));
  return json;
}

std::vector<std::string> constantsText(const Fabric& fabric, int width) {
  if (fabric.constants.empty()) return {};
  Table table(
      {Column::word("constant"), Column::number("value"), Column::number("believed in"), Column::text("source")},
      kIndent);
  for (const auto& constant : fabric.constants)
    table.row({constant.name, strCat(constant.value), strCat(constant.low, " to ", constant.high), constant.source});
  return {"modelled times rest on these constants:", table.text(width)};
}

Json constantsJson(const Fabric& fabric) {
  Json json = Json::array();
  for (const auto& constant : fabric.constants)
    json.append(Json::object()
                    .set("name", constant.name)
                    .set("value", constant.value)
                    .set("low", constant.low)
                    .set("high", constant.high)
                    .set("source", constant.source));
  return json;
}

}  // namespace hpu::tools
