// SPDX-License-Identifier: Apache-2.0
// Sums and sweeps over a trace's events.
#include "tools/hpu-trace/Analysis.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "arch/TargetDesc.h"

namespace hpu::tools {
namespace {

using perfmodel::Term;
using trace::CommandEvent;
using trace::HostEvent;
using trace::LaunchEvent;
using trace::SpanEvent;
using trace::StringId;
using trace::TracedDevice;
using trace::TracedNode;
using trace::TracedOp;
using trace::Track;

Picoseconds term(const Terms& terms, Term t) {
  return terms[static_cast<size_t>(t)];
}

/// Running time of a slice: all of it but the waiting.
Picoseconds busyOf(const Terms& terms) {
  Picoseconds sum = 0;
  for (Picoseconds t : terms) sum += t;
  return sum - term(terms, Term::kSync);
}

/// A slice that comes from a node of the model, or has a named cause.
bool isAttributed(const std::vector<TracedNode>* nodes, StringId category) {
  if (category) return true;
  if (!nodes) return false;
  return std::any_of(nodes->begin(), nodes->end(), [](const TracedNode& n) { return n.name || n.op; });
}

/// Calls visit(track, start, end, terms, bytes, op or null, category, name, bundle name).
template <typename Visit>
void forEachWork(const TracedDevice& device, Visit&& visit) {
  for (const CommandEvent& e : device.commands) {
    const trace::TracedCommand& c = device.commandOf(e);
    StringId bundle = c.bundle ? device.programOf(e).bundles[c.bundle - 1] : 0;
    visit(device.trackOf(e), e.start, e.end, device.termsOf(e), c.bytes, &device.opOf(e), StringId{0},
          device.opOf(e).name, bundle);
  }
  for (const SpanEvent& e : device.spans) {
    const TracedOp* op = e.program ? &device.programs[e.program - 1].ops[e.op] : nullptr;
    visit(e.track, e.start, e.end, e.terms, e.bytes, op, e.category, e.name, StringId{0});
  }
}

/// One sweep over starts and ends: how long which engines ran together, and why none did.
void sweep(const TracedDevice& device, Analysis& out) {
  struct Edge {
    Picoseconds time;
    int8_t step;
    uint8_t bit;
    bool operator<(const Edge& other) const { return time < other.time; }
  };
  constexpr uint8_t kLaunchBit = kNumTracks;
  std::vector<Edge> edges;
  edges.reserve(2 * (device.commands.size() + device.spans.size() + device.launches.size()));
  auto add = [&](uint8_t bit, Picoseconds start, Picoseconds end) {
    if (end <= start) return;
    edges.push_back({start, 1, bit});
    edges.push_back({end, -1, bit});
  };
  for (const CommandEvent& e : device.commands) add(static_cast<uint8_t>(device.trackOf(e)), e.start, e.end);
  for (const SpanEvent& e : device.spans) add(static_cast<uint8_t>(e.track), e.start, e.end);
  for (const LaunchEvent& e : device.launches) add(kLaunchBit, e.start, e.end);
  if (edges.empty()) return;
  std::sort(edges.begin(), edges.end());
  int64_t running[kNumTracks + 1] = {};
  size_t mask = 0;
  Picoseconds last = edges.front().time;
  for (const Edge& e : edges) {
    Picoseconds passed = e.time - last;
    out.together[mask] += passed;
    if (mask == 0) (running[kLaunchBit] > 0 ? out.idleInLaunch : out.idleOutside) += passed;
    last = e.time;
    running[e.bit] += e.step;
    if (e.bit == kLaunchBit) continue;
    size_t bit = size_t{1} << e.bit;
    mask = running[e.bit] > 0 ? mask | bit : mask & ~bit;
  }
  Picoseconds span = last - edges.front().time;
  out.deviceTime = std::max(out.deviceTime, span);
  out.deviceTimeSum += span;
}

void analyseHost(const TraceData& trace, Analysis& out) {
  std::map<std::pair<StringId, StringId>, HostRow> rows;
  int64_t first = INT64_MAX, last = INT64_MIN;
  for (const trace::HostThread& thread : trace.threads) {
    if (!thread.events.empty()) ++out.hostThreads;
    // Calls of a thread nest: what a call does itself is its time without its children's.
    std::vector<uint32_t> order(thread.events.size());
    for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      const HostEvent &x = thread.events[a], &y = thread.events[b];
      return x.start != y.start ? x.start < y.start : x.end != y.end ? x.end > y.end : a > b;
    });
    std::vector<std::pair<int64_t, HostRow*>> open;
    for (uint32_t i : order) {
      const HostEvent& e = thread.events[i];
      first = std::min(first, e.start);
      last = std::max(last, e.end);
      while (!open.empty() && open.back().first <= e.start) open.pop_back();
      int64_t inside = open.empty() ? 0 : std::min(e.end, open.back().first) - e.start;
      if (!open.empty()) open.back().second->selfNs -= inside;
      HostRow& row = rows[{e.name, e.category}];
      ++row.count;
      row.totalNs += e.end - e.start;
      row.selfNs += e.end - e.start;
      open.push_back({e.end, &row});
    }
  }
  if (last > first) out.hostNs = last - first;
  for (auto& [key, row] : rows) {
    row.name = trace.text(key.first);
    row.category = trace.text(key.second);
    out.host.push_back(std::move(row));
  }
  std::stable_sort(out.host.begin(), out.host.end(),
                   [](const HostRow& a, const HostRow& b) { return a.selfNs > b.selfNs; });
}

}  // namespace

void WorkSum::add(Track track, Picoseconds busyTime, const Terms& more, const perfmodel::Bytes& bytes) {
  shortest = count ? std::min(shortest, busyTime) : busyTime;
  longest = std::max(longest, busyTime);
  ++count;
  busy += busyTime;
  if (track != Track::kMme && track != Track::kTpc && track != Track::kDma)
    moved += busyTime - term(more, Term::kMemory) - term(more, Term::kOverhead);
  sync += term(more, Term::kSync);
  for (size_t t = 0; t < terms.size(); ++t) terms[t] += more[t];
  hbmBytes += static_cast<uint64_t>(bytes.hbm);
  sramBytes += static_cast<uint64_t>(bytes.sram);
}

void WorkSum::add(const WorkSum& other) {
  if (!other.count) return;
  shortest = count ? std::min(shortest, other.shortest) : other.shortest;
  longest = std::max(longest, other.longest);
  count += other.count;
  busy += other.busy;
  moved += other.moved;
  sync += other.sync;
  for (size_t t = 0; t < terms.size(); ++t) terms[t] += other.terms[t];
  hbmBytes += other.hbmBytes;
  sramBytes += other.sramBytes;
}

std::string_view WorkSum::boundBy() const {
  Picoseconds memory = term(terms, Term::kMemory), overhead = term(terms, Term::kOverhead);
  Picoseconds compute = busy - memory - overhead - moved;
  Picoseconds most = std::max({compute, moved, memory, overhead, sync});
  if (moved > 0 && most == moved) return "transfer";
  if (most == compute) return "compute";
  if (most == memory) return "memory";
  return most == overhead ? "overhead" : "sync";
}

Term WorkSum::mainLoss() const {
  Term best = Term::kIdeal;
  Picoseconds most = 0;
  for (size_t t = 1; t < terms.size(); ++t)
    if (terms[t] > most) {
      most = terms[t];
      best = static_cast<Term>(t);
    }
  return best;
}

Picoseconds Analysis::overlap(Track a, Track b) const {
  size_t both = size_t{1} << static_cast<size_t>(a) | size_t{1} << static_cast<size_t>(b);
  Picoseconds sum = 0;
  for (size_t mask = 0; mask < together.size(); ++mask)
    if ((mask & both) == both) sum += together[mask];
  return sum;
}

double Analysis::attributedFraction() const {
  return all.busy > 0 ? static_cast<double>(attributed) / static_cast<double>(all.busy) : 1.0;
}

Status checkDevice(const TraceData& trace, int64_t device) {
  if (device < 0) return okStatus();
  std::string known;
  for (const TracedDevice& d : trace.devices) {
    if (d.index == static_cast<uint64_t>(device)) return okStatus();
    known += (known.empty() ? "" : ", ") + std::to_string(d.index);
  }
  return invalidArgument("the trace has no device " + std::to_string(device) +
                         (known.empty() ? "; it has none at all" : "; it has " + known));
}

const std::vector<std::string>& groupByNames() {
  static const std::vector<std::string> names = {"operation", "node", "kind", "engine", "bundle"};
  return names;
}

GroupBy parseGroupBy(const std::string& name) {
  const std::vector<std::string>& names = groupByNames();
  auto at = std::find(names.begin(), names.end(), name);
  return at == names.end() ? GroupBy::kOperation : static_cast<GroupBy>(at - names.begin());
}

Analysis analyse(const TraceData& trace, int64_t device) {
  Analysis out;
  analyseHost(trace, out);
  out.notRecorded = workNotRecorded(trace, device);
  for (const TracedDevice& d : trace.devices) {
    if (device >= 0 && d.index != static_cast<uint64_t>(device)) continue;
    ++out.devices;
    out.launches += static_cast<int64_t>(d.launches.size());
    out.present[static_cast<size_t>(Track::kMme)] = out.present[static_cast<size_t>(Track::kTpc)] = true;
    if (arch::targetDesc(d.target).numDmas > 0) out.present[static_cast<size_t>(Track::kDma)] = true;
    forEachWork(d, [&](Track track, Picoseconds, Picoseconds, const Terms& terms, const perfmodel::Bytes& bytes,
                       const TracedOp* op, StringId category, StringId, StringId) {
      Picoseconds busy = busyOf(terms);
      out.present[static_cast<size_t>(track)] = true;
      out.engines[static_cast<size_t>(track)].add(track, busy, terms, bytes);
      if (isAttributed(op ? &op->nodes : nullptr, category)) out.attributed += busy;
    });
    sweep(d, out);
  }
  for (const WorkSum& engine : out.engines) out.all.add(engine);
  return out;
}

std::string workNotRecorded(const TraceData& trace, int64_t device) {
  for (const TracedDevice& d : trace.devices) {
    if (device >= 0 && d.index != static_cast<uint64_t>(device)) continue;
    if (trace.processes[d.process].level != trace::Level::kApi) continue;
    if (std::any_of(d.launches.begin(), d.launches.end(), [](const LaunchEvent& e) { return e.program != 0; }))
      return "recorded at level api: launches and copies, not what the engines did in a launch";
  }
  return "";
}

Status requireWork(const TraceData& trace, int64_t device) {
  std::string why = workNotRecorded(trace, device);
  if (why.empty()) return okStatus();
  return failedPrecondition("the trace was " + why + "; record with --level node or slice (HPU_TRACE_LEVEL)");
}

std::string unitName(const TraceData& trace, const std::vector<TracedNode>& nodes) {
  std::string text;
  for (const TracedNode& node : nodes) text += (text.empty() ? "" : "+") + std::string(trace.text(node.name));
  return text;
}

std::string unitKind(const TraceData& trace, const std::vector<TracedNode>& nodes) {
  std::string text;
  for (size_t i = 0; i < nodes.size(); ++i) {
    bool before = std::any_of(nodes.begin(), nodes.begin() + static_cast<std::ptrdiff_t>(i),
                              [&](const TracedNode& n) { return n.op == nodes[i].op; });
    if (!before) text += (text.empty() ? "" : "+") + std::string(trace.text(nodes[i].op));
  }
  return text;
}

std::vector<TopRow> topRows(const TraceData& trace, GroupBy groupBy, int64_t device) {
  // Names of units by number: two programs, or two operations, may have the same unit.
  std::unordered_map<std::string, uint32_t> numbers;
  std::vector<std::string_view> units;
  std::unordered_map<const TracedOp*, uint32_t> unitOf;
  auto numberOf = [&](const TracedOp& op) {
    auto [known, isNew] = unitOf.try_emplace(&op, 0);
    if (!isNew) return known->second;
    auto [entry, isFirst] =
        numbers.try_emplace(groupBy == GroupBy::kNode ? unitName(trace, op.nodes) : unitKind(trace, op.nodes),
                            static_cast<uint32_t>(units.size()));
    if (isFirst) units.push_back(entry->first);
    return known->second = entry->second;
  };
  constexpr uint8_t kUnit = 0xff;
  struct Key {
    uint32_t name, second;
    uint8_t track;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    size_t operator()(const Key& k) const {
      return (uint64_t{k.name} << 32 ^ uint64_t{k.second} << 8 ^ k.track) * 0x9e3779b97f4a7c15ull >> 7;
    }
  };
  struct Group {
    WorkSum work;
    std::vector<const TracedOp*> ops;  ///< Each once.
    std::unordered_set<const TracedOp*> known;
    std::string_view name;
    bool on[kNumTracks] = {};
  };
  std::unordered_map<Key, Group, Hash> groups;
  for (const TracedDevice& d : trace.devices) {
    if (device >= 0 && d.index != static_cast<uint64_t>(device)) continue;
    forEachWork(d, [&](Track track, Picoseconds, Picoseconds, const Terms& terms, const perfmodel::Bytes& bytes,
                       const TracedOp* op, StringId category, StringId name, StringId bundle) {
      Key key{name, category, static_cast<uint8_t>(track)};
      std::string_view title = trace.text(name);
      const TracedOp* unit = op && !op->nodes.empty() ? op : nullptr;
      switch (groupBy) {
        case GroupBy::kOperation:
          break;
        case GroupBy::kNode:
        case GroupBy::kKind:
          if (unit) {
            key = {numberOf(*unit), 0, kUnit};
            title = units[key.name];
          } else if (groupBy == GroupBy::kNode) {
            key = {name, category, 0};
          } else {
            key = {0, category, 0};
            title = trace.text(category);
          }
          break;
        case GroupBy::kEngine:
          key = {0, 0, static_cast<uint8_t>(track)};
          title = trackName(track);
          break;
        case GroupBy::kBundle:
          key = {bundle, bundle ? 0 : name, 0};
          title = bundle ? trace.text(bundle) : trace.text(name);
          break;
      }
      Group& group = groups[key];
      group.name = title;
      group.on[static_cast<size_t>(track)] = true;
      if (unit && groupBy != GroupBy::kEngine && (group.ops.empty() || group.ops.back() != unit) &&
          group.known.insert(unit).second)
        group.ops.push_back(unit);
      group.work.add(track, busyOf(terms), terms, bytes);
    });
  }
  std::vector<TopRow> rows;
  rows.reserve(groups.size());
  for (auto& [key, group] : groups) {
    TopRow& row = rows.emplace_back();
    row.name = group.name.empty() ? "(no name)" : std::string(group.name);
    for (int t = 0; t < kNumTracks; ++t)
      if (group.on[t]) row.engine += (row.engine.empty() ? "" : "+") + std::string(trackName(static_cast<Track>(t)));
    row.work = group.work;
    if (groupBy == GroupBy::kEngine || group.ops.empty()) continue;
    const std::vector<TracedNode>& first = group.ops.front()->nodes;
    for (const TracedNode& node : first)
      row.nodeOp += (row.nodeOp.empty() ? "" : "+") + std::string(trace.text(node.op));
    std::unordered_set<StringId> seen;
    for (const TracedOp* op : group.ops) {
      row.fused |=
          groupBy == GroupBy::kKind ? key.track == kUnit && row.name.find('+') != row.name.npos : op->nodes.size() > 1;
      for (const TracedNode& node : op->nodes)
        if (seen.insert(node.name).second)
          row.node += (row.node.empty() ? "" : ", ") + std::string(trace.text(node.name));
    }
  }
  std::sort(rows.begin(), rows.end(), [](const TopRow& a, const TopRow& b) {
    if (a.work.busy != b.work.busy) return a.work.busy > b.work.busy;
    return std::tie(a.name, a.engine) < std::tie(b.name, b.engine);
  });
  return rows;
}

}  // namespace hpu::tools
