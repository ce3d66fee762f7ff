// SPDX-License-Identifier: Apache-2.0
#include "TimerReference.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

namespace hpu::collectives::test {
namespace {

enum Port { kOut, kUp, kDown, kIn, kPorts };

struct Work {
  int32_t rank = 0, number = 0;
  ProgramStep step;
  std::vector<size_t> after;
  size_t partner = 0;   // Of messages.
  size_t previous = 0;  // Of a pair; itself: none.
  int64_t readyPs = -1, begunPs = -1, endPs = -1;
  bool seen = false;                          // Its end.
  int64_t atPort[kPorts] = {-1, -1, -1, -1};  // Of sends between nodes: when the head is there.
  int64_t leftPs = 0;
};

class Reference {
 public:
  Reference(const Plan& plan, const Fabric& fabric, const std::vector<int64_t>& arrivals, const LinkState& links)
      : map_(plan.map()), fabric_(fabric), ends_(arrivals) {
    const auto ranks = static_cast<size_t>(map_.ranks());
    for (size_t a = 0; a < ranks; ++a) {
      const Place place = map_.place(static_cast<int32_t>(a));
      for (size_t b = 0; b < ranks && !links.freePs.empty(); ++b)
        link_[{static_cast<int32_t>(a), static_cast<int32_t>(b)}] = links.freePs[a * ranks + b];
      for (const bool out : {true, false}) {
        const std::vector<int64_t>& rails = links.railFreePs[out ? 0 : 1];
        const int32_t rail = fabric.railOf(place.node, place.device);
        if (rails.empty() || rail < 0) continue;
        auto& free = free_[{out ? kOut : kIn, place.node, rail}];
        free = {std::max(free.empty() ? 0 : *free.begin(), rails[a])};
      }
    }
    std::map<std::tuple<int32_t, int32_t, bool>, std::vector<size_t>> pairs;
    for (int32_t r = 0; r < map_.ranks(); ++r) {
      const Program program = plan.program(r);
      const size_t base = works_.size();
      for (const ProgramStep& step : program.steps) {
        Work w;
        w.rank = r;
        w.number = static_cast<int32_t>(works_.size() - base);
        w.step = step;
        for (const int32_t before : step.after) w.after.push_back(base + static_cast<size_t>(before));
        w.previous = works_.size();
        if (step.kind == StepKind::kSend || step.kind == StepKind::kRecv) {
          const int32_t peer = resolve(map_, r, program.peers[static_cast<size_t>(step.peer)]);
          const bool sends = step.kind == StepKind::kSend;
          auto& list = pairs[{sends ? r : peer, sends ? peer : r, sends}];
          if (!list.empty()) w.previous = list.back();
          list.push_back(works_.size());
        }
        works_.push_back(w);
      }
      times_.insert(arrivals[static_cast<size_t>(r)] + fabric.mesh.startPs);
    }
    for (const auto& [key, list] : pairs)
      for (size_t k = 0; k < list.size(); ++k)
        works_[list[k]].partner = pairs[{std::get<0>(key), std::get<1>(key), !std::get<2>(key)}].at(k);
  }

  std::vector<int64_t> run() {
    std::vector<int64_t> begins = ends_;
    for (int64_t& begin : begins) begin += fabric_.mesh.startPs;
    while (!times_.empty()) {
      now_ = *times_.begin();
      times_.erase(times_.begin());
      for (Work& w : works_)
        if (w.after.empty() && w.readyPs < 0 && begins[static_cast<size_t>(w.rank)] <= now_) ready(w);
      while (seeOneEnd()) {
      }
      for (bool more = true; more;) {
        more = false;
        for (Work& w : works_) more = tryMessage(w) || more;
      }
      for (int port = kOut; port < kPorts; ++port) serve(static_cast<Port>(port));
    }
    return ends_;
  }

 private:
  const RankMap& map_;
  const Fabric& fabric_;
  std::vector<int64_t> ends_;
  std::vector<Work> works_;
  std::set<int64_t> times_;
  int64_t now_ = 0;
  std::map<int32_t, int64_t> engine_;
  std::map<std::pair<int32_t, int32_t>, int64_t> link_;
  std::map<std::tuple<Port, int32_t, int32_t>, std::multiset<int64_t>> free_;

  int64_t slowed(int64_t ps, int32_t rank) const {
    return static_cast<int64_t>(std::ceil(static_cast<double>(ps) / fabric_.rateOf(map_.place(rank).node)));
  }
  void ends(Work& w, int64_t when) {
    w.endPs = when;
    ends_[static_cast<size_t>(w.rank)] = std::max(ends_[static_cast<size_t>(w.rank)], when);
    times_.insert(when);
  }
  void ready(Work& w) {
    w.readyPs = now_;
    if (w.step.kind == StepKind::kSend || w.step.kind == StepKind::kRecv) return;
    int64_t& free = engine_[w.rank];
    int64_t cost = 0;
    if (w.step.bytes > 0)
      cost = w.step.kind == StepKind::kCopy ? fabric_.mesh.copyPs(w.step.bytes) : fabric_.mesh.reducePs(w.step.bytes);
    free = std::max(now_, free) + cost;
    ends(w, free);
  }
  bool seeOneEnd() {
    for (size_t i = 0; i < works_.size(); ++i) {
      if (works_[i].seen || works_[i].endPs != now_) continue;
      works_[i].seen = true;
      for (Work& w : works_) {
        if (w.readyPs >= 0 || std::find(w.after.begin(), w.after.end(), i) == w.after.end()) continue;
        if (std::all_of(w.after.begin(), w.after.end(), [&](size_t before) { return works_[before].seen; })) ready(w);
      }
      return true;
    }
    return false;
  }
  bool tryMessage(Work& w) {
    if (w.step.kind != StepKind::kSend || w.begunPs >= 0 || w.readyPs < 0) return false;
    Work& to = works_[w.partner];
    const Work& previous = works_[w.previous];
    if (to.readyPs < 0 || (&previous != &w && previous.begunPs < 0)) return false;
    w.begunPs = now_;
    if (map_.place(w.rank).node != map_.place(to.rank).node) {
      w.atPort[kOut] = now_;
      return true;
    }
    int64_t& free = link_[{w.rank, to.rank}];
    free = std::max(now_, free) + slowed(fabric_.mesh.linkPs(w.step.bytes), w.rank);
    for (Work* end : {&w, &to}) ends(*end, std::max(free + fabric_.mesh.messagePs, now_ + 1));
    return true;
  }
  bool crosses(const Work& w) const {
    return fabric_.leafOf(map_.place(w.rank).node) != fabric_.leafOf(map_.place(works_[w.partner].rank).node);
  }
  void serve(Port port) {
    std::vector<Work*> here;
    for (Work& w : works_)
      if (w.atPort[port] == now_) here.push_back(&w);
    const auto owner = [&](const Work* w) -> const Work& { return port <= kUp ? *w : works_[w->partner]; };
    std::sort(here.begin(), here.end(), [&](const Work* a, const Work* b) {
      const Place x = map_.place(owner(a).rank), y = map_.place(owner(b).rank);
      return std::tuple(x.node, x.device, owner(a).number) < std::tuple(y.node, y.device, owner(b).number);
    });
    for (Work* w : here) {
      w->atPort[port] = -1;
      const Place place = map_.place(owner(w).rank);
      const bool rail = port == kOut || port == kIn;
      auto& free =
          free_[{port, rail ? place.node : fabric_.leafOf(place.node), fabric_.railOf(place.node, place.device)}];
      const double links = rail ? 1 : fabric_.nodesPerLeaf / fabric_.oversubscription;
      const auto lanes = std::max<size_t>(1, static_cast<size_t>(links));
      while (free.size() < lanes) free.insert(0);
      int64_t cost = fabric_.railPs(w->step.bytes);
      if (rail)
        cost = slowed(cost, owner(w).rank);
      else
        cost = static_cast<int64_t>(
            std::ceil(static_cast<double>(cost - fabric_.railIssuePs) * (static_cast<double>(lanes) / links)));
      const int64_t start = std::max(now_, *free.begin());
      free.erase(free.begin());
      free.insert(start + cost);
      w->leftPs = std::max(w->leftPs, start + cost);
      if (port == kIn) {
        const int64_t way = fabric_.railMessagePs + (crosses(*w) ? fabric_.uplinkPs : 0);
        for (Work* end : {w, &works_[w->partner]}) ends(*end, std::max(w->leftPs + way, now_ + 1));
      } else {
        const Port next = port == kOut && !crosses(*w) ? kIn : static_cast<Port>(port + 1);
        w->atPort[next] = start;
        times_.insert(start);
      }
    }
  }
};

}  // namespace

std::vector<int64_t> referenceEnds(const Plan& plan, const Fabric& fabric, const std::vector<int64_t>& arrivals,
                                   const LinkState& links) {
  return Reference(plan, fabric, arrivals, links).run();
}

}  // namespace hpu::collectives::test
