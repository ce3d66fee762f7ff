// SPDX-License-Identifier: Apache-2.0
#include "collectives/scaleout/PlanClock.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <utility>

#include "base/FloatEnvironment.h"
#include "base/Format.h"
#include "base/Log.h"
#include "base/StatusMacros.h"
#include "collectives/scaleout/PreparedPlan.h"
#include "collectives/schedule/ArrivalMemory.h"
#include "collectives/topology/Traffic.h"

namespace hpu::collectives {
namespace {

class PlanClock final : public OperationTimer {
 public:
  PlanClock(std::shared_ptr<const Plan> plan, std::shared_ptr<const Cluster> cluster, std::vector<int64_t> endPs)
      : plan_(std::move(plan)),
        cluster_(std::move(cluster)),
        known_(std::move(endPs)),
        railFirst_(RankPorts::create(cluster_->fabric, plan_->map()).railFirst) {}

  void endPs(std::span<const int64_t> arrivalPs, const LinkState& links, std::vector<int64_t>& ends) const override {
    const LinkState kept = links.trivial() ? LinkState() : relevant(arrivalPs, links);
    memory_.endPs(static_cast<size_t>(plan_->map().ranks()), arrivalPs, kept, ends,
                  [&](std::span<const int64_t> arrivals, const LinkState& busy) { return simulate(arrivals, busy); });
  }

  std::vector<StepTime> stepsOf(int32_t rank, std::span<const int64_t> arrivalPs,
                                const LinkState& links) const override {
    base::FloatScope floats;
    PlanTimerOptions options;
    options.spansOf = {rank};
    std::vector<StepTime> steps;
    if (StatusOr<PlanTiming> timing = time(arrivalPs, links, options); timing.ok())
      for (const PlanTiming::StepSpan& span : timing->spans) steps.push_back({span.startPs, span.endPs});
    else
      complain(timing.status());
    return steps;
  }

  int64_t startPs() const override { return cluster_->fabric.mesh.startPs; }

  int64_t predictPs() const override {
    std::vector<int64_t> ends;
    endPs(std::vector<int64_t>(static_cast<size_t>(plan_->map().ranks()), 0), {}, ends);
    return ends.empty() ? 0 : *std::max_element(ends.begin(), ends.end());
  }

  /// Of all roles, when there was need for them; before, none.
  size_t steps() const override {
    std::lock_guard lock(mutex_);
    return steps_;
  }

  std::shared_ptr<const RankUse> use(int32_t rank) const override {
    {
      std::lock_guard lock(mutex_);
      if (auto known = uses_.find(rank); known != uses_.end()) return known->second;
    }
    const Program program = plan_->program(rank);
    return know(rank, program);
  }

  /// `program` is that of the rank.
  std::shared_ptr<const RankUse> know(int32_t rank, const Program& program) const {
    base::FloatScope floats;
    const RankMap& map = plan_->map();
    Uses busy;
    const int64_t enginePs = addUse(rank, program, true, busy);
    for (const int32_t other : map.ranksOf(map.position(rank).node)) {
      if (other == rank || railFirst_[static_cast<size_t>(other)] != railFirst_[static_cast<size_t>(rank)]) continue;
      // Ranks of a role have the same program, but for where their data lies.
      const bool alike = plan_->roleOf(other) == plan_->roleOf(rank);
      addUse(other, alike ? program : plan_->program(other), false, busy);
    }
    auto use = std::make_shared<RankUse>();
    for (const auto& [link, taken] : busy) use->links.push_back({link.first, link.second, taken.busyPs, taken.traffic});
    // Never of what was simulated later: whether it was would show in device times.
    use->leastPs = known_.empty() ? enginePs : known_[static_cast<size_t>(rank)];
    std::lock_guard lock(mutex_);
    return uses_.try_emplace(rank, std::move(use)).first->second;
  }

 private:
  const std::shared_ptr<const Plan> plan_;
  const std::shared_ptr<const Cluster> cluster_;
  const std::vector<int64_t> known_;      // By rank: its end when all arrive at 0; or empty.
  const std::vector<int32_t> railFirst_;  // By rank, as in RankPorts.
  mutable ArrivalMemory memory_;
  mutable std::atomic<bool> complained_{false};
  mutable std::once_flag once_;
  mutable StatusOr<PreparedPlan> prepared_ = internalError("a plan that was not prepared");  // By once_.
  mutable std::mutex mutex_;                                                                 // Guards what follows.
  mutable size_t steps_ = 0;
  mutable std::map<int32_t, std::shared_ptr<const RankUse>> uses_;

  struct Taken {
    int64_t busyPs = 0;
    node::PortTraffic traffic;
  };
  using Uses = std::map<std::pair<int32_t, bool>, Taken>;

  /// The programs of all roles, which the first to ask writes.
  const StatusOr<PreparedPlan>& prepared() const {
    std::call_once(once_, [&] {
      prepared_ = PreparedPlan::create(*plan_, cluster_->fabric);
      std::lock_guard lock(mutex_);
      if (prepared_.ok()) steps_ = static_cast<size_t>(prepared_->steps());
    });
    return prepared_;
  }

  StatusOr<PlanTiming> time(std::span<const int64_t> arrivalPs, const LinkState& links,
                            const PlanTimerOptions& options) const {
    const StatusOr<PreparedPlan>& plan = prepared();
    if (!plan.ok()) return plan.status();
    return plan->time(arrivalPs, links, options);
  }

  /// What a rank's messages take of its rail, and when it is the rank itself also of its links, and as its traffic.
  /// Gives from its arrival to when its engine can be done at the earliest.
  int64_t addUse(int32_t rank, const Program& program, bool isSelf, Uses& busy) const {
    const RankMap& map = plan_->map();
    const Fabric& fabric = cluster_->fabric;
    const int32_t node = map.place(rank).node;
    struct Way {
      bool mesh = false;
      Taken taken[2];  // Received, sent.
      bool used[2] = {false, false};
    };
    std::vector<Way> ways(program.peers.size());
    std::vector<int32_t> peers;
    for (size_t p = 0; p < ways.size(); ++p) {
      peers.push_back(resolve(map, rank, program.peers[p]));
      ways[p].mesh = map.place(peers[p]).node == node;
    }
    const Framing link = linkFraming(fabric.mesh), rail = railFraming(fabric);
    int64_t enginePs = program.steps.empty() ? 0 : startPs();
    for (const ProgramStep& step : program.steps) {
      if (step.kind == StepKind::kCopy || step.kind == StepKind::kReduce) {
        const bool reduces = step.kind == StepKind::kReduce;
        if (step.bytes > 0) enginePs += reduces ? fabric.mesh.reducePs(step.bytes) : fabric.mesh.copyPs(step.bytes);
        continue;
      }
      Way& way = ways[static_cast<size_t>(step.peer)];
      if (way.mesh && !isSelf) continue;
      const int64_t ps = way.mesh ? fabric.linkPs(node, step.bytes) : fabric.railPs(node, step.bytes);
      const bool send = step.kind == StepKind::kSend;
      Taken& taken = way.taken[send ? 1 : 0];
      way.used[send ? 1 : 0] = true;
      taken.busyPs += ps;
      if (isSelf) taken.traffic += (way.mesh ? link : rail).of(step.bytes, ps);
    }
    for (size_t p = 0; p < ways.size(); ++p) {
      for (const bool send : {false, true}) {
        if (!ways[p].used[send ? 1 : 0]) continue;
        const Taken& own = ways[p].taken[send ? 1 : 0];
        Taken& taken = busy[{peers[p], send}];  // Several names may be one rank's.
        taken.busyPs += own.busyPs;
        taken.traffic += own.traffic;
      }
    }
    return enginePs;
  }

  /// Without what is free before its first message: so times are found again whether or not it was said to be free.
  LinkState relevant(std::span<const int64_t> arrivalPs, const LinkState& links) const {
    const RankMap& map = plan_->map();
    const auto ranks = static_cast<size_t>(map.ranks());
    LinkState kept;
    if (!links.freePs.empty()) {
      bool any = false;
      std::vector<int64_t> freePs(ranks * ranks, 0);
      for (int32_t node = 0; node < map.nodes(); ++node) {
        for (const int32_t from : map.ranksOf(node)) {
          for (const int32_t to : map.ranksOf(node)) {
            const size_t link = static_cast<size_t>(from) * ranks + static_cast<size_t>(to);
            if (from == to || links.freePs[link] <= std::max(arrivalPs[from], arrivalPs[to]) + startPs()) continue;
            freePs[link] = links.freePs[link];
            any = true;
          }
        }
      }
      if (any) kept.freePs = std::move(freePs);
    }
    std::vector<int64_t> first(ranks, INT64_MAX);  // By the first rank of a rail.
    for (size_t rank = 0; rank < ranks; ++rank) {
      int64_t& earliest = first[static_cast<size_t>(railFirst_[rank])];
      earliest = std::min(earliest, arrivalPs[rank]);
    }
    for (size_t way = 0; way < links.railFreePs.size(); ++way) {
      const std::vector<int64_t>& rails = links.railFreePs[way];
      if (rails.empty()) continue;
      std::vector<int64_t> latest(ranks, 0);  // The same of all that share a rail.
      for (size_t rank = 0; rank < ranks; ++rank) {
        const auto rail = static_cast<size_t>(railFirst_[rank]);
        if (rails[rank] > first[rail] + startPs()) latest[rail] = std::max(latest[rail], rails[rank]);
      }
      if (std::any_of(latest.begin(), latest.end(), [](int64_t ps) { return ps != 0; }))
        kept.railFreePs[way] = std::move(latest);
    }
    return kept;
  }

  /// The earliest of the arrivals is 0.
  std::vector<int64_t> simulate(std::span<const int64_t> arrivalPs, const LinkState& links) const {
    const int64_t last = arrivalPs.empty() ? 0 : *std::max_element(arrivalPs.begin(), arrivalPs.end());
    if (!known_.empty() && last == 0 && links.trivial()) return known_;
    // Costs are rounded up here, on threads of the program, whose rounding may differ.
    base::FloatScope floats;
    StatusOr<PlanTiming> timing = time(arrivalPs, links, {});
    if (timing.ok()) return std::move(timing->endPs);
    complain(timing.status());
    // All ranks get this time.
    const int64_t least = lowerBoundPs(plan_->problem(), plan_->map(), cluster_->fabric);
    return std::vector<int64_t>(static_cast<size_t>(plan_->map().ranks()), last + startPs() + least);
  }

  void complain(const Status& status) const {
    if (!complained_.exchange(true)) HPU_LOG(kWarning, "device time of an operation among nodes: " + status.message());
  }
};

}  // namespace

StatusOr<std::shared_ptr<const OperationTimer>> makePlanClock(std::shared_ptr<const Plan> plan,
                                                              std::shared_ptr<const Cluster> cluster,
                                                              const PlanKnown& known) {
  HPU_RETURN_IF_ERROR(PreparedPlan::check(*plan, cluster->fabric));
  if (!known.endPs.empty() && known.endPs.size() != static_cast<size_t>(plan->map().ranks()))
    return invalidArgument(
        base::strCat(known.endPs.size(), " ends were given for ", plan->map().ranks(), " ranks: one for each"));
  const auto clock = std::make_shared<const PlanClock>(std::move(plan), std::move(cluster), known.endPs);
  if (known.program != nullptr) clock->know(known.rank, *known.program);
  return std::shared_ptr<const OperationTimer>(clock);
}

}  // namespace hpu::collectives
