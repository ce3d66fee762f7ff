// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <tuple>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "collectives/congestion/Congestion.h"

namespace hpu::collectives {
namespace {

using base::strCat;

}  // namespace

CongestionOptions congestionOptions(const Fabric& fabric) {
  CongestionOptions options;
  options.payloadBytes = fabric.railPacketBytes;
  options.overheadBytes = fabric.railPacketOverheadBytes;
  if (const ModelConstant* hop = findConstant(fabric, "switch_us"))
    options.hopPs = static_cast<int64_t>(hop->value * 1e6);
  options.control = false;
  options.windowPackets = fabric.target == Target::kGaudi3 ? 32 : 24;
  return options;
}

StatusOr<CongestionProblem> fabricFlows(const Fabric& fabric, std::span<const FabricFlow> flows) {
  CongestionProblem problem;
  std::map<std::tuple<char, int32_t, int32_t>, int32_t> known;
  const auto port = [&](char kind, int32_t where, int32_t rail, double rate, std::string name) {
    const auto [at, isNew] = known.emplace(std::tuple(kind, where, rail), static_cast<int32_t>(problem.ports.size()));
    if (isNew) problem.ports.push_back({std::move(name), rate});
    return at->second;
  };
  std::map<std::pair<int32_t, int32_t>, int32_t> sources;
  const double uplink = fabric.railBytesPerNs * fabric.nodesPerLeaf / fabric.oversubscription;
  for (size_t i = 0; i < flows.size(); ++i) {
    const FabricFlow& f = flows[i];
    if (f.from.node == f.to.node)
      return invalidArgument(
          strCat("flow ", i, ": both ends are on node ", f.to.node, ", whose devices have links of their own"));
    const auto both = RankMap::create(fabric, {f.from, f.to});
    if (!both.ok()) return invalidArgument(strCat("flow ", i, ": ", both.status().message()));
    const int32_t out = fabric.railOf(f.from.node, f.from.device), in = fabric.railOf(f.to.node, f.to.device);
    CongestionFlow flow;
    flow.startPs = f.startPs;
    flow.bytes = f.bytes;
    flow.lineBytesPerNs = fabric.railBytesPerNs * fabric.rateOf(f.from.node);
    flow.source = sources.emplace(std::pair(f.from.node, out), static_cast<int32_t>(sources.size())).first->second;
    const int32_t from = fabric.leafOf(f.from.node), to = fabric.leafOf(f.to.node);
    if (from != to) {
      flow.path.push_back(port('u', from, out, uplink, strCat("uplink of leaf ", from, ", rail ", out)));
      flow.path.push_back(port('d', to, in, uplink, strCat("downlink of leaf ", to, ", rail ", in)));
    }
    flow.path.push_back(port('r', f.to.node, in, fabric.railBytesPerNs * fabric.rateOf(f.to.node),
                             strCat("rail ", in, " into node ", f.to.node)));
    problem.flows.push_back(std::move(flow));
  }
  return problem;
}

StatusOr<CongestionProblem> incast(const Fabric& fabric, int32_t senders, int64_t bytes) {
  std::vector<FabricFlow> flows;
  for (int32_t node = 1; node <= senders; ++node) flows.push_back({{node, 0}, {0, 0}, bytes, 0});
  return fabricFlows(fabric, flows);
}

// The numbers of the paper are as public papers and simulators that follow it give them (5 and 200 KB, 1 %, 1/256; 50
// us, 55 us, 10 MB, 5); the additive step alone was not found there.
std::vector<ModelConstant> congestionConstants(const CongestionOptions& o) {
  const auto us = [](int64_t ps) { return static_cast<double>(ps) / 1e6; };
  const auto kb = [](int64_t bytes) { return static_cast<double>(bytes) / 1000; };
  const std::string paper = "DCQCN (Zhu et al., SIGCOMM 2015)";
  const std::string chosen = "chosen: ";
  std::vector<ModelConstant> all = {
      {"window_packets", static_cast<double>(o.windowPackets), 24, 32,
       "HCL's defaults: 24 packets, Gaudi 3 32; control by notifications is off there. 0: no window"},
      {"kmin_kb", kb(o.kminBytes), 5, 400,
       strCat("default of NVIDIA Onyx for RoCE (150); ", paper, ": 5 at 40 Gbit/s")},
      {"kmax_kb", kb(o.kmaxBytes), 200, 3000,
       strCat("default of NVIDIA Onyx for RoCE (1500); ", paper, ": 200 at 40 Gbit/s")},
      {"pmax", o.pmax, 0.01, 0.1, paper},
      {"cnp_us", us(o.cnpIntervalPs), 4, 50, strCat(paper, "; NICs' defaults go down to 4")},
      {"alpha_weight", o.g, 1.0 / 256, 1.0 / 16, strCat(paper, "; simulators also use 1/16")},
      {"alpha_timer_us", us(o.alphaTimerPs), 1, 55, paper},
      {"rate_timer_us", us(o.rateTimerPs), 55, 300, strCat(paper, "; NICs' defaults go up to 300")},
      {"byte_counter_mb", static_cast<double>(o.byteCounter) / 1e6, 1, 10, paper},
      {"fast_recovery", static_cast<double>(o.fastRecovery), 1, 5, paper},
      {"additive_share", o.additiveShare, 1e-4, 0.05,
       strCat(paper,
              ": believed to be 40 Mbit/s at 40 Gbit/s, here as a share of the line; NICs' defaults are lower, "
              "simulators' higher")},
      {"hyper_share", o.hyperShare, 1e-3, 0.1, strCat(chosen, "ten times additive_share, as NICs' defaults are")},
      {"least_share", o.leastShare, 1e-5, 1e-2, strCat(chosen, "a sender is not slowed down further")},
      {"xoff_kb", kb(o.xoffBytes), 500, 10'000,
       strCat(chosen, "above kmax_kb, so that marks come before pauses; switches share buffers of tens of MB")},
      {"xon_kb", kb(o.xonBytes), 400, 10'000, strCat(chosen, "below xoff_kb by what comes in during a pause's way")},
      {"queue_kb", kb(o.queueBytes), 1000, 60'000, strCat(chosen, "a port's part of a shared buffer of tens of MB")},
      {"hop_us", us(o.hopPs), 0.3, 4, "switch_us of the fabric"},
  };
  for (ModelConstant& c : all) c.low = std::min(c.low, c.value), c.high = std::max(c.high, c.value);
  return all;
}

}  // namespace hpu::collectives
