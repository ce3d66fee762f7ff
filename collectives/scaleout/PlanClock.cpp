// SPDX-License-Identifier: Apache-2.0
#include "collectives/scaleout/PlanClock.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <utility>

#include "base/FloatEnvironment.h"
#include "base/Log.h"
#include "base/StatusMacros.h"
#include "collectives/scaleout/PreparedPlan.h"
#include "collectives/schedule/ArrivalMemory.h"
#include "collectives/topology/Traffic.h"

namespace hpu::collectives {
namespace {

class PlanClock final : public OperationTimer {
 public:
  PlanClock(std::shared_ptr<const Plan> plan, std::shared_ptr<const Cluster> cluster, PreparedPlan prepared)
      : plan_(std::move(plan)), cluster_(std::move(cluster)), prepared_(std::move(prepared)) {}

  /// Once, before it is used.
  Status predict() {
    base::FloatScope floats;
    HPU_ASSIGN(PlanTiming timing, prepared_.time({}, {}, {}));
    together_ = std::move(timing.endPs);
    return Status();
  }

  void endPs(std::span<const int64_t> arrivalPs, const LinkState& links, std::vector<int64_t>& ends) const override {
    const LinkState kept = links.trivial() ? LinkState() : relevant(arrivalPs, links);
    memory_.endPs(together_.size(), arrivalPs, kept, ends,
                  [&](std::span<const int64_t> arrivals, const LinkState& busy) { return simulate(arrivals, busy); });
  }

  std::vector<StepTime> stepsOf(int32_t rank, std::span<const int64_t> arrivalPs,
                                const LinkState& links) const override {
    base::FloatScope floats;
    PlanTimerOptions options;
    options.spansOf = {rank};
    std::vector<StepTime> steps;
    if (StatusOr<PlanTiming> timing = prepared_.time(arrivalPs, links, options); timing.ok())
      for (const PlanTiming::StepSpan& span : timing->spans) steps.push_back({span.startPs, span.endPs});
    else
      complain(timing.status());
    return steps;
  }

  int64_t startPs() const override { return cluster_->fabric.mesh.startPs; }

  int64_t predictPs() const override {
    return together_.empty() ? 0 : *std::max_element(together_.begin(), together_.end());
  }

  size_t steps() const override { return static_cast<size_t>(prepared_.steps()); }

  std::shared_ptr<const RankUse> use(int32_t rank) const override {
    {
      std::lock_guard lock(mutex_);
      if (auto known = uses_.find(rank); known != uses_.end()) return known->second;
    }
    base::FloatScope floats;
    Uses busy;
    const RankPorts& ports = prepared_.ports();
    const RankMap& map = plan_->map();
    for (const int32_t other : map.ranksOf(map.position(rank).node))
      if (other == rank || (ports.rail[rank] >= 0 && ports.railFirst[other] == ports.railFirst[rank]))
        addUse(other, other == rank, busy);
    auto use = std::make_shared<RankUse>();
    for (const auto& [link, taken] : busy) use->links.push_back({link.first, link.second, taken.busyPs, taken.traffic});
    use->leastPs = together_[static_cast<size_t>(rank)];
    std::lock_guard lock(mutex_);
    return uses_.try_emplace(rank, std::move(use)).first->second;
  }

 private:
  const std::shared_ptr<const Plan> plan_;
  const std::shared_ptr<const Cluster> cluster_;
  const PreparedPlan prepared_;
  std::vector<int64_t> together_;  // By rank: its end when all arrive at 0.
  mutable ArrivalMemory memory_;
  mutable std::atomic<bool> complained_{false};
  mutable std::mutex mutex_;  // Guards what follows.
  mutable std::map<int32_t, std::shared_ptr<const RankUse>> uses_;

  struct Taken {
    int64_t busyPs = 0;
    node::PortTraffic traffic;
  };
  using Uses = std::map<std::pair<int32_t, bool>, Taken>;

  /// What a rank's messages take of its rail, and when it is the rank itself also of its links, and as its traffic.
  void addUse(int32_t rank, bool isSelf, Uses& busy) const {
    const RankMap& map = plan_->map();
    const Fabric& fabric = cluster_->fabric;
    const RoleSteps& role = prepared_.roles()[static_cast<size_t>(plan_->roleOf(rank))];
    const int32_t node = map.place(rank).node;
    for (size_t name = 0; name < role.names.size(); ++name) {
      const int32_t peer = resolve(map, rank, role.names[name]);
      const bool mesh = map.place(peer).node == node;
      if (mesh && !isSelf) continue;
      const auto add = [&](bool send, const std::vector<int32_t>& first, const std::vector<int32_t>& steps) {
        for (int32_t k = first[name]; k < first[name + 1]; ++k) {
          const int64_t bytes = role.bytes[static_cast<size_t>(steps[static_cast<size_t>(k)])];
          const int64_t ps = mesh ? fabric.linkPs(node, bytes) : fabric.railPs(node, bytes);
          Taken& taken = busy[{peer, send}];
          taken.busyPs += ps;
          if (isSelf) taken.traffic += (mesh ? linkFraming(fabric.mesh) : railFraming(fabric)).of(bytes, ps);
        }
      };
      add(true, role.sendsFirst, role.sends);
      add(false, role.receivesFirst, role.receives);
    }
  }

  /// Without what is free before its first message: so times are found again whether or not it was said to be free.
  LinkState relevant(std::span<const int64_t> arrivalPs, const LinkState& links) const {
    const RankMap& map = plan_->map();
    const RankPorts& ports = prepared_.ports();
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
      int64_t& earliest = first[static_cast<size_t>(ports.railFirst[rank])];
      earliest = std::min(earliest, arrivalPs[rank]);
    }
    for (size_t way = 0; way < links.railFreePs.size(); ++way) {
      const std::vector<int64_t>& rails = links.railFreePs[way];
      if (rails.empty()) continue;
      std::vector<int64_t> latest(ranks, 0);  // The same of all that share a rail.
      for (size_t rank = 0; rank < ranks; ++rank) {
        const auto rail = static_cast<size_t>(ports.railFirst[rank]);
        if (rails[rank] > first[rail] + startPs()) latest[rail] = std::max(latest[rail], rails[rank]);
      }
      if (std::any_of(latest.begin(), latest.end(), [](int64_t ps) { return ps != 0; }))
        kept.railFreePs[way] = std::move(latest);
    }
    return kept;
  }

  std::vector<int64_t> simulate(std::span<const int64_t> arrivalPs, const LinkState& links) const {
    // Costs are rounded up here, on threads of the program, whose rounding may differ.
    base::FloatScope floats;
    StatusOr<PlanTiming> timing = prepared_.time(arrivalPs, links, {});
    if (timing.ok()) return std::move(timing->endPs);
    // It could be timed when ranks arrived together: too many of them differ now. All ranks get this time.
    complain(timing.status());
    std::vector<int64_t> ends(together_);
    const int64_t last = *std::max_element(arrivalPs.begin(), arrivalPs.end());
    for (int64_t& end : ends) end += last;
    return ends;
  }

  void complain(const Status& status) const {
    if (!complained_.exchange(true)) HPU_LOG(kWarning, "device time of an operation among nodes: " + status.message());
  }
};

}  // namespace

StatusOr<std::shared_ptr<const OperationTimer>> makePlanClock(std::shared_ptr<const Plan> plan,
                                                              std::shared_ptr<const Cluster> cluster) {
  HPU_ASSIGN(PreparedPlan prepared, PreparedPlan::create(*plan, cluster->fabric));
  auto clock = std::make_shared<PlanClock>(std::move(plan), std::move(cluster), std::move(prepared));
  HPU_RETURN_IF_ERROR(clock->predict());
  return std::shared_ptr<const OperationTimer>(std::move(clock));
}

}  // namespace hpu::collectives
