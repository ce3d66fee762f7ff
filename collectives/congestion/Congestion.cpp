// SPDX-License-Identifier: Apache-2.0
// One heap of events. A packet: sent by its source (paced by its flow's rate), queued at each port of its path, taken
// by the port's link whole (store and forward), delivered. What goes back (acknowledgements, notifications, news of
// losses) takes the links' latency and no bandwidth.
#include "collectives/congestion/Congestion.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <queue>

#include "base/Format.h"
#include "base/StatusMacros.h"

namespace hpu::collectives {
namespace {

using base::strCat;

constexpr int64_t kMostPackets = int64_t{1} << 26, kMostSamples = 1 << 20, kMostResends = 100,
                  kMostPs = int64_t{1} << 60;
constexpr size_t kMostHops = 16;

int64_t ceilPs(double bytes, double bytesPerNs) {
  return static_cast<int64_t>(std::ceil(bytes / bytesPerNs * 1000));
}

// --- Checks ---

bool isRate(double rate) {
  return rate >= 1e-3 && rate <= 1e6;
}

Status checkOptions(const CongestionOptions& o) {
  const auto bad = [](std::string_view what) { return invalidArgument(strCat("congestion options: ", what)); };
  if (o.payloadBytes < 1 || o.payloadBytes > 1 << 24) return bad("'payloadBytes' is not from 1 to 2^24");
  if (o.overheadBytes < 0 || o.overheadBytes > 1 << 20) return bad("'overheadBytes' is not from 0 to 2^20");
  if (o.windowPackets < 0) return bad("'windowPackets' is below 0");
  if (o.hopPs < 0 || o.hopPs > 1'000'000'000'000) return bad("'hopPs' is not from 0 to 1 s");
  if (o.kminBytes < 0 || o.kmaxBytes < o.kminBytes) return bad("it is not 0 <= kminBytes <= kmaxBytes");
  if (!(o.pmax >= 0 && o.pmax <= 1)) return bad("'pmax' is not from 0 to 1");
  if (!(o.g > 0 && o.g <= 1)) return bad("'g' is not above 0, to 1");
  for (int64_t ps : {o.cnpIntervalPs, o.alphaTimerPs, o.rateTimerPs})
    if (ps < 1000 || ps > 1'000'000'000'000) return bad("an interval of control is not from 1 ns to 1 s");
  if (o.byteCounter < 1) return bad("'byteCounter' is below 1");
  if (o.fastRecovery < 0) return bad("'fastRecovery' is below 0");
  for (double share : {o.additiveShare, o.hyperShare, o.leastShare})
    if (!(share >= 1e-6 && share <= 1)) return bad("a share of the line's rate is not from 1e-6 to 1");
  if (o.xonBytes < 0 || o.xoffBytes < o.xonBytes || o.queueBytes < o.xoffBytes)
    return bad("it is not 0 <= xonBytes <= xoffBytes <= queueBytes");
  if (o.queueBytes < o.payloadBytes + o.overheadBytes) return bad("'queueBytes' does not hold one packet");
  if (o.sampleEveryPs < 0) return bad("'sampleEveryPs' is below 0");
  return {};
}

Status checkProblem(const CongestionProblem& problem, const CongestionOptions& o) {
  const auto size = static_cast<int32_t>(problem.ports.size());
  for (int32_t p = 0; p < size; ++p)
    if (!isRate(problem.ports[p].bytesPerNs))
      return invalidArgument(strCat("port ", p, " ('", problem.ports[p].name, "'): its rate is not from 0.001 to 1e6"));
  int64_t packets = 0;
  std::vector<double> lines(problem.flows.size());  // Of sources.
  for (size_t i = 0; i < problem.flows.size(); ++i) {
    const CongestionFlow& f = problem.flows[i];
    const auto bad = [&](std::string_view what) { return invalidArgument(strCat("flow ", i, ": ", what)); };
    if (f.startPs < 0 || f.startPs > kMostPs / 4) return bad("its start is not from 0 to 2^58 ps");
    if (f.bytes < 1 || f.bytes > kMostPackets * o.payloadBytes) return bad("its bytes are not from 1 to 2^26 packets'");
    if (!isRate(f.lineBytesPerNs)) return bad("its line's rate is not from 0.001 to 1e6");
    if (f.source >= static_cast<int32_t>(problem.flows.size()))
      return bad("its source is not below the number of flows");
    if (f.source >= 0) {
      double& rate = lines[static_cast<size_t>(f.source)];
      if (rate != 0 && rate != f.lineBytesPerNs)
        return bad("its line's rate differs from another flow's of its source");
      rate = f.lineBytesPerNs;
    }
    if (f.path.empty() || f.path.size() > kMostHops)
      return bad(strCat("its path is not of 1 to ", kMostHops, " ports"));
    for (size_t h = 0; h < f.path.size(); ++h) {
      if (f.path[h] < 0 || f.path[h] >= size) return bad(strCat("there is no port ", f.path[h]));
      if (std::find(f.path.begin(), f.path.begin() + static_cast<int64_t>(h), f.path[h]) !=
          f.path.begin() + static_cast<int64_t>(h))
        return bad(strCat("port ", f.path[h], " is in its path twice"));
    }
    packets += (f.bytes + o.payloadBytes - 1) / o.payloadBytes;
    if (packets > kMostPackets)
      return bad(strCat("up to it there are more than ", kMostPackets, " packets; simulate fewer bytes"));
  }
  return {};
}

// --- The machine ---

struct Packet {
  int32_t flow = 0, hop = 0;
  int64_t payload = 0, wire = 0;
  bool marked = false;
};

enum class Kind : uint8_t {
  kSend,    // Of a flow: its pace lets it send again.
  kFree,    // Of a source: its link is free.
  kArrive,  // Of a packet, at the port of its hop, or behind the last one.
  kDepart,  // Of a port: its link is free, its first packet has gone.
  kPause,   // Of a port: what feeds it hears of a pause ...
  kResume,  // ... or its end.
  kAck,     // Of a flow: one packet less is on its way.
  kLost,    // Of a packet, at its sender.
  kNotify,  // Of a flow: a CNP at its sender.
  kAlpha,   // Of a flow: its timers.
  kRise,
};

struct Event {
  int64_t ps = 0, number = 0;
  Kind kind = Kind::kSend;
  int32_t index = 0;
  int64_t generation = 0;
  bool operator>(const Event& other) const { return ps != other.ps ? ps > other.ps : number > other.number; }
};

struct Source {
  double bytesPerNs = 0;
  int32_t paused = 0;  // By so many ports.
  bool busy = false;
  std::deque<int32_t> waiting;  // Flows that want to send.
};

struct Flow {
  int32_t source = 0;
  int64_t left = 0, delivered = 0, inFlight = 0;  // Payload to be sent; packets.
  int64_t earliestPs = 0;                         // By its pace.
  bool queued = false;                            // At its source, or its pace's event is on the way.
  // DCQCN.
  double line = 0, rate = 0, target = 0, alpha = 1;
  bool limited = false;
  int64_t sinceRise = 0, generation = 0;
  int32_t timerRises = 0, byteRises = 0;
  int64_t notifiedPs = -1;  // When its receiver last did.
};

struct Port {
  double bytesPerNs = 0;
  std::deque<int32_t> queue;  // Packets.
  int64_t bytes = 0;
  int32_t paused = 0;
  bool busy = false, pausing = false;
  int64_t pausingSincePs = 0;
  std::vector<int32_t> fedByPorts, fedBySources;
};

class Machine {
 public:
  Machine(const CongestionProblem& problem, const CongestionOptions& options) : problem_(problem), o_(options) {
    const size_t flows = problem.flows.size();
    ports_.resize(problem.ports.size());
    result_.ports.resize(ports_.size());
    for (size_t p = 0; p < ports_.size(); ++p) ports_[p].bytesPerNs = problem.ports[p].bytesPerNs;
    flows_.resize(flows);
    result_.flows.resize(flows);
    sources_.resize(2 * flows);  // Shared ones, then each flow's own.
    for (size_t i = 0; i < flows; ++i) {
      const CongestionFlow& f = problem.flows[i];
      Flow& flow = flows_[i];
      flow.source = f.source >= 0 ? f.source : static_cast<int32_t>(flows + i);
      flow.left = f.bytes;
      packetsInAll_ += (f.bytes + options.payloadBytes - 1) / options.payloadBytes;
      flow.line = flow.rate = flow.target = result_.flows[i].leastRate = f.lineBytesPerNs;
      Source& source = sources_[static_cast<size_t>(flow.source)];
      source.bytesPerNs = std::max(source.bytesPerNs, f.lineBytesPerNs);
      addOnce(ports_[static_cast<size_t>(f.path[0])].fedBySources, flow.source);
      for (size_t h = 1; h < f.path.size(); ++h)
        addOnce(ports_[static_cast<size_t>(f.path[h])].fedByPorts, f.path[h - 1]);
      flow.queued = true;
      push(f.startPs, Kind::kSend, static_cast<int32_t>(i));
    }
  }

  StatusOr<CongestionResult> run() {
    while (live_ > 0) {  // Timers alone move nothing.
      const Event event = events_.top();
      events_.pop();
      live_ -= isTimer(event.kind) ? 0 : 1;
      now_ = event.ps;
      ++result_.events;
      handle(event);
      if (!status_.ok()) return status_;
    }
    return finish();
  }

 private:
  static void addOnce(std::vector<int32_t>& list, int32_t value) {
    if (std::find(list.begin(), list.end(), value) == list.end()) list.push_back(value);
  }
  void push(int64_t ps, Kind kind, int32_t index, int64_t generation = 0) {
    live_ += isTimer(kind) ? 0 : 1;
    events_.push({ps, number_++, kind, index, generation});
  }

  static bool isTimer(Kind kind) { return kind == Kind::kAlpha || kind == Kind::kRise; }

  void handle(const Event& e) {
    switch (e.kind) {
      case Kind::kSend:
        flows_[e.index].queued = false;
        return want(e.index);
      case Kind::kFree:
        sources_[e.index].busy = false;
        return serve(e.index);
      case Kind::kArrive:
        return arrive(e.index);
      case Kind::kDepart:
        return depart(e.index);
      case Kind::kPause:
        return tell(e.index, 1);
      case Kind::kResume:
        return tell(e.index, -1);
      case Kind::kAck:
        --flows_[e.index].inFlight;
        return want(e.index);
      case Kind::kLost: {
        const Packet packet = take(e.index);
        flows_[packet.flow].left += packet.payload;
        --flows_[packet.flow].inFlight;
        return want(packet.flow);
      }
      case Kind::kNotify:
        return cut(e.index);
      case Kind::kAlpha:
        return decay(e.index, e.generation);
      case Kind::kRise:
        return timer(e.index, e.generation);
    }
  }

  // --- Senders ---

  // The flow goes to its source's queue as soon as pace and window let it.
  void want(int32_t index) {
    Flow& f = flows_[index];
    if (f.queued || f.left == 0) return;
    if (o_.windowPackets > 0 && f.inFlight >= o_.windowPackets) return;  // An acknowledgement comes back to here.
    f.queued = true;
    if (now_ < f.earliestPs) return push(f.earliestPs, Kind::kSend, index);
    sources_[f.source].waiting.push_back(index);
    serve(f.source);
  }

  void serve(int32_t index) {
    Source& s = sources_[index];
    if (s.busy || s.paused > 0 || s.waiting.empty()) return;
    const int32_t flow = s.waiting.front();
    s.waiting.pop_front();
    Flow& f = flows_[flow];
    const int64_t payload = std::min(f.left, o_.payloadBytes), wire = payload + o_.overheadBytes;
    f.left -= payload;
    ++f.inFlight;
    f.earliestPs = now_ + ceilPs(static_cast<double>(wire), f.rate);
    s.busy = true;
    const int64_t sent = now_ + ceilPs(static_cast<double>(wire), s.bytesPerNs);
    push(sent, Kind::kFree, index);
    push(sent + o_.hopPs, Kind::kArrive, make({flow, 0, payload, wire, false}));
    if (f.limited && (f.sinceRise += wire) >= o_.byteCounter) {
      f.sinceRise = 0;
      ++f.byteRises;
      rise(f);
    }
    f.queued = false;
    want(flow);
  }

  // --- DCQCN: reaction point ---

  void cut(int32_t index) {
    Flow& f = flows_[index];
    if (isDone(index)) return;
    f.target = f.rate;
    f.rate = std::max(f.rate * (1 - f.alpha / 2), f.line * o_.leastShare);
    f.alpha = (1 - o_.g) * f.alpha + o_.g;
    f.limited = true;
    f.sinceRise = 0;
    f.timerRises = f.byteRises = 0;
    ++f.generation;
    push(now_ + o_.alphaTimerPs, Kind::kAlpha, index, f.generation);
    push(now_ + o_.rateTimerPs, Kind::kRise, index, f.generation);
    double& least = result_.flows[index].leastRate;
    least = std::min(least, f.rate);
  }

  void decay(int32_t index, int64_t generation) {
    Flow& f = flows_[index];
    if (generation != f.generation || isDone(index)) return;
    f.alpha *= 1 - o_.g;
    push(now_ + o_.alphaTimerPs, Kind::kAlpha, index, generation);
  }

  void timer(int32_t index, int64_t generation) {
    Flow& f = flows_[index];
    if (generation != f.generation || isDone(index)) return;
    ++f.timerRises;
    rise(f);
    push(now_ + o_.rateTimerPs, Kind::kRise, index, generation);
  }

  void rise(Flow& f) const {
    if (std::max(f.timerRises, f.byteRises) > o_.fastRecovery)
      f.target += f.line * (std::min(f.timerRises, f.byteRises) > o_.fastRecovery ? o_.hyperShare : o_.additiveShare);
    f.target = std::min(f.target, f.line);
    f.rate = std::min((f.target + f.rate) / 2, f.line);
  }

  // --- Ports ---

  void arrive(int32_t id) {
    Packet& packet = packets_[id];
    const std::vector<int32_t>& path = problem_.flows[packet.flow].path;
    if (static_cast<size_t>(packet.hop) == path.size()) return deliver(id);
    const int32_t index = path[packet.hop];
    Port& p = ports_[index];
    CongestionResult::Port& seen = result_.ports[index];
    if (p.bytes + packet.wire > o_.queueBytes) {
      ++seen.drops;
      ++result_.flows[packet.flow].resent;
      if (++resent_ > kMostResends * packetsInAll_)
        status_ = invalidArgument(strCat("more than ", kMostResends,
                                         " of each packet were dropped, the last one at port ", index, " ('",
                                         problem_.ports[index].name, "'): the flows need control, pauses or a window"));
      return push(now_ + o_.hopPs * (packet.hop + 1), Kind::kLost, id);
    }
    ++seen.packets;
    if (o_.control && marks(p.bytes)) {
      packet.marked = true;
      ++seen.marks;
    }
    p.queue.push_back(id);
    p.bytes += packet.wire;
    seen.mostQueuedBytes = std::max(seen.mostQueuedBytes, p.bytes);
    if (o_.pause && !p.pausing && p.bytes > o_.xoffBytes) {
      p.pausing = true;
      p.pausingSincePs = now_;
      ++seen.pauses;
      push(now_ + o_.hopPs, Kind::kPause, index);
    }
    transmit(index);
  }

  bool marks(int64_t queued) {
    if (queued < o_.kminBytes) return false;
    if (queued >= o_.kmaxBytes) return true;
    const double share = static_cast<double>(queued - o_.kminBytes) / static_cast<double>(o_.kmaxBytes - o_.kminBytes);
    return uniform() < o_.pmax * share;
  }

  // SplitMix64: the same numbers everywhere.
  double uniform() {
    uint64_t z = o_.seed + 0x9e3779b97f4a7c15u * ++drawn_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return static_cast<double>((z ^ (z >> 31)) >> 11) / 9007199254740992.0;
  }

  void transmit(int32_t index) {
    Port& p = ports_[index];
    if (p.busy || p.paused > 0 || p.queue.empty()) return;
    p.busy = true;
    const int64_t ps = ceilPs(static_cast<double>(packets_[p.queue.front()].wire), p.bytesPerNs);
    result_.ports[index].busyPs += ps;
    push(now_ + ps, Kind::kDepart, index);
  }

  void depart(int32_t index) {
    Port& p = ports_[index];
    const int32_t id = p.queue.front();
    p.queue.pop_front();
    p.busy = false;
    Packet& packet = packets_[id];
    p.bytes -= packet.wire;
    CongestionResult::Port& seen = result_.ports[index];
    seen.wireBytes += packet.wire;
    sample(seen.samples, packet.wire);
    if (p.pausing && p.bytes <= o_.xonBytes) {
      p.pausing = false;
      seen.pausedPs += now_ - p.pausingSincePs;
      push(now_ + o_.hopPs, Kind::kResume, index);
    }
    ++packet.hop;
    push(now_ + o_.hopPs, Kind::kArrive, id);
    transmit(index);
  }

  void tell(int32_t index, int32_t change) {
    for (int32_t source : ports_[index].fedBySources) {
      sources_[source].paused += change;
      serve(source);
    }
    for (int32_t port : ports_[index].fedByPorts) {
      ports_[port].paused += change;
      transmit(port);
    }
  }

  // --- Receivers ---

  void deliver(int32_t id) {
    const Packet packet = take(id);
    Flow& f = flows_[packet.flow];
    CongestionResult::Flow& seen = result_.flows[packet.flow];
    f.delivered += packet.payload;
    sample(seen.samples, packet.payload);
    const int64_t back = now_ + o_.hopPs * static_cast<int64_t>(problem_.flows[packet.flow].path.size() + 1);
    if (packet.marked && (f.notifiedPs < 0 || now_ - f.notifiedPs >= o_.cnpIntervalPs)) {
      f.notifiedPs = now_;
      ++seen.notifications;
      push(back, Kind::kNotify, packet.flow);
    }
    if (isDone(packet.flow)) seen.finishPs = now_;
    if (o_.windowPackets > 0)
      push(back, Kind::kAck, packet.flow);
    else
      --f.inFlight;
  }

  bool isDone(int32_t flow) const { return flows_[flow].delivered == problem_.flows[flow].bytes; }

  void sample(std::vector<int64_t>& samples, int64_t bytes) {
    if (o_.sampleEveryPs <= 0) return;
    const int64_t i = now_ / o_.sampleEveryPs;
    if (i >= kMostSamples) {
      status_ = invalidArgument(strCat("'sampleEveryPs' gives more than ", kMostSamples, " intervals"));
      return;
    }
    if (static_cast<size_t>(i) >= samples.size()) samples.resize(static_cast<size_t>(i) + 1);
    samples[static_cast<size_t>(i)] += bytes;
  }

  int32_t make(const Packet& packet) {
    if (free_.empty()) {
      packets_.push_back(packet);
      return static_cast<int32_t>(packets_.size() - 1);
    }
    const int32_t id = free_.back();
    free_.pop_back();
    packets_[id] = packet;
    return id;
  }
  Packet take(int32_t id) {
    free_.push_back(id);
    return packets_[id];
  }

  StatusOr<CongestionResult> finish() {
    double sum = 0, squares = 0;
    for (size_t i = 0; i < flows_.size(); ++i) {
      if (!isDone(static_cast<int32_t>(i))) return circle();
      CongestionResult::Flow& seen = result_.flows[i];
      const auto ps = static_cast<double>(seen.finishPs - problem_.flows[i].startPs);
      seen.goodputBytesPerNs = static_cast<double>(problem_.flows[i].bytes) / ps * 1000;
      sum += seen.goodputBytesPerNs;
      squares += seen.goodputBytesPerNs * seen.goodputBytesPerNs;
    }
    if (squares > 0) result_.fairness = sum * sum / (static_cast<double>(flows_.size()) * squares);
    return std::move(result_);
  }

  Status circle() const {
    std::string names;
    for (size_t p = 0; p < ports_.size(); ++p)
      if (ports_[p].paused > 0) names += strCat(names.empty() ? "" : ", ", p, " ('", problem_.ports[p].name, "')");
    return invalidArgument(strCat("ports that pause each other in a circle stand still for ever: ", names,
                                  "; take paths without cycles, or no pauses"));
  }

  const CongestionProblem& problem_;
  const CongestionOptions& o_;
  std::vector<Flow> flows_;
  std::vector<Source> sources_;
  std::vector<Port> ports_;
  std::vector<Packet> packets_;
  std::vector<int32_t> free_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  int64_t now_ = 0, number_ = 0, live_ = 0, resent_ = 0, packetsInAll_ = 0;
  uint64_t drawn_ = 0;
  Status status_;
  CongestionResult result_;
};

}  // namespace

StatusOr<CongestionResult> simulateCongestion(const CongestionProblem& problem, const CongestionOptions& options) {
  HPU_RETURN_IF_ERROR(checkOptions(options));
  HPU_RETURN_IF_ERROR(checkProblem(problem, options));
  return Machine(problem, options).run();
}

}  // namespace hpu::collectives
