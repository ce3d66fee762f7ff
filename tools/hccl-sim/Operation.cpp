// SPDX-License-Identifier: Apache-2.0
#include "tools/hccl-sim/Operation.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "base/Suggest.h"
#include "collectives/communicator/Problems.h"
#include "hpu/collectives.h"

namespace hpu::tools {
namespace {

using base::strCat;
using collectives::Fabric;
using collectives::Operation;
using collectives::PeerName;
using collectives::Place;
using collectives::Plan;
using collectives::Problem;
using collectives::Program;
using collectives::ProgramStep;
using collectives::Range;
using collectives::RankMap;
using collectives::StepKind;

Operation operationOf(SimOp op) {
  switch (op) {
    case SimOp::kAllReduce:
      return Operation::kAllReduce;
    case SimOp::kAllGather:
      return Operation::kAllGather;
    case SimOp::kReduceScatter:
      return Operation::kReduceScatter;
    case SimOp::kAllToAll:
      return Operation::kAllToAll;
    case SimOp::kBroadcast:
      return Operation::kBroadcast;
    case SimOp::kReduce:
      return Operation::kReduce;
    case SimOp::kGather:
      return Operation::kGather;
    case SimOp::kScatter:
      return Operation::kScatter;
    case SimOp::kBarrier:
      return Operation::kBarrier;
    case SimOp::kSendRecv:
    case SimOp::kIncast:
      break;
  }
  return Operation::kPointToPoint;
}

ProgramStep message(StepKind kind, int32_t peer, int64_t bytes, Range range) {
  ProgramStep step;
  step.kind = kind;
  step.peer = peer;
  step.bytes = bytes;
  if (kind == StepKind::kSend)
    step.sources.push_back(range);
  else
    step.dst = range;
  return step;
}

class MessagePlan : public Plan {
 public:
  MessagePlan(const Work& work, const RankMap& map) : work_(work), map_(map) {}
  const Problem& problem() const override { return work_.problem; }
  const RankMap& map() const override { return map_; }
  std::string_view algorithm() const override { return "direct"; }

 protected:
  int64_t count() const { return work_.problem.count; }
  int64_t bytesOf(int64_t elements) const { return elements * work_.problem.elementBytes; }
  const Work work_;
  const RankMap& map_;
};

class RingPlan : public MessagePlan {
 public:
  using MessagePlan::MessagePlan;
  int32_t chunks() const override { return 1; }
  int32_t roles() const override { return 1; }
  int32_t roleOf(int32_t) const override { return 0; }
  Program program(int32_t) const override {
    Program program;
    if (map_.ranks() == 1) return program;
    using Form = PeerName::Form;
    program.peers = {{Form::kRankShift, work_.shift, 0}, {Form::kRankShift, -work_.shift, 0}};
    program.steps.push_back(
        message(StepKind::kSend, 0, bytesOf(count()), {collectives::BufferKind::kInput, 0, count()}));
    program.steps.push_back(
        message(StepKind::kRecv, 1, bytesOf(count()), {collectives::BufferKind::kOutput, 0, count()}));
    return program;
  }
};

/// Each sender is a role, the receiver is one, and those that only look on are the last.
class IncastPlan : public MessagePlan {
 public:
  IncastPlan(const Work& work, const RankMap& map) : MessagePlan(work, map) {
    // In pieces, so that the senders take turns at the receiver's rail.
    constexpr int64_t kPieceBytes = 1 << 20, kMostPieces = 64;
    pieces_ = static_cast<int32_t>(std::clamp<int64_t>(bytesOf(count()) / kPieceBytes, 1, kMostPieces));
    senderOf_.assign(static_cast<size_t>(map.ranks()), -1);
    for (size_t s = 0; s < work_.senders.size(); ++s)
      senderOf_[static_cast<size_t>(work_.senders[s])] = static_cast<int32_t>(s);
  }
  int32_t chunks() const override { return pieces_; }
  int32_t roles() const override { return senders() + 1 + (map_.ranks() > senders() + 1 ? 1 : 0); }
  int32_t roleOf(int32_t rank) const override {
    if (rank == work_.problem.destination) return senders();
    const int32_t sender = senderOf_[static_cast<size_t>(rank)];
    return sender >= 0 ? sender : senders() + 1;
  }
  Program program(int32_t rank) const override {
    Program program;
    const bool receives = rank == work_.problem.destination;
    if (receives)
      for (int32_t sender : work_.senders) program.peers.push_back({PeerName::Form::kRank, sender, 0});
    else if (senderOf_[static_cast<size_t>(rank)] >= 0)
      program.peers.push_back({PeerName::Form::kRank, work_.problem.destination, 0});
    for (int32_t piece = 0; piece < pieces_; ++piece) {
      const int64_t from = count() * piece / pieces_, to = count() * (piece + 1) / pieces_;
      for (int32_t peer = 0; peer < static_cast<int32_t>(program.peers.size()); ++peer) {
        Range range{receives ? collectives::BufferKind::kOutput : collectives::BufferKind::kInput,
                    (receives ? peer * count() : 0) + from, to - from};
        program.steps.push_back(message(receives ? StepKind::kRecv : StepKind::kSend, peer, bytesOf(to - from), range));
      }
    }
    return program;
  }

 private:
  int32_t senders() const { return static_cast<int32_t>(work_.senders.size()); }
  int32_t pieces_ = 1;
  std::vector<int32_t> senderOf_;
};

/// Ranks of other nodes, one of each node first.
/// `wanted` -1: as many as there are, up to 8.
StatusOr<std::vector<int32_t>> incastSenders(const RankMap& map, int32_t receiver, int64_t wanted) {
  const int32_t home = map.position(receiver).node;
  std::vector<int32_t> senders;
  const int64_t others = map.ranks() - static_cast<int64_t>(map.ranksOf(home).size());
  if (others == 0) return invalidArgument("incast comes from other nodes than the receiver's; give at least --nodes 2");
  if (wanted == -1) wanted = std::min<int64_t>(8, others);
  if (wanted < 1 || wanted > others)
    return invalidArgument(strCat("--senders ", wanted, ": there are ", others,
                                  " ranks on other nodes than the receiver's; give 1 to ", others));
  for (size_t local = 0; static_cast<int64_t>(senders.size()) < wanted; ++local)
    for (int32_t n = 1; n < map.nodes() && static_cast<int64_t>(senders.size()) < wanted; ++n) {
      const int32_t node = (home + n) % map.nodes();
      if (local < map.ranksOf(node).size()) senders.push_back(map.rankAt(node, static_cast<int32_t>(local)));
    }
  return senders;
}

}  // namespace

const std::vector<std::string>& simOpNames() {
  static const std::vector<std::string> names = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all",
                                                 "broadcast",  "reduce",     "gather",         "scatter",
                                                 "barrier",    "send_recv",  "incast"};
  return names;
}

StatusOr<SimOp> parseSimOp(const std::string& name) {
  const auto& names = simOpNames();
  const auto it = std::find(names.begin(), names.end(), name);
  if (it == names.end())
    return invalidArgument(
        strCat("there is no operation '", name, "'; there are ", base::join(names), base::didYouMean(name, names)));
  return static_cast<SimOp>(it - names.begin());
}

bool Work::rooted() const {
  return op == SimOp::kBroadcast || op == SimOp::kReduce || op == SimOp::kGather || op == SimOp::kScatter ||
         op == SimOp::kIncast;
}

int64_t Work::bytes() const {
  return op == SimOp::kBarrier ? 0 : collectives::problemBytes(problem);
}

double Work::busFactor() const {
  if (op == SimOp::kIncast) return static_cast<double>(senders.size());
  if (op == SimOp::kSendRecv) return 1;
  return collectives::busFactor(problem.collective, problem.ranks);
}

StatusOr<Work> workOf(const WorkOptions& options, const RankMap& map, int64_t bytes) {
  Work work;
  work.op = options.op;
  work.type = options.type;
  work.askedBytes = options.op == SimOp::kBarrier ? 0 : bytes;
  const int32_t ranks = map.ranks();
  constexpr int64_t kMostBytes = int64_t{128} << 30;
  if (bytes > kMostBytes)
    return invalidArgument(
        strCat(bytes, " bytes are more than the memory of a device; at most ", kMostBytes, " are priced"));
  if (options.root < 0 || options.root >= ranks)
    return invalidArgument(strCat("--root ", options.root, " is no rank: there are ranks 0 to ", ranks - 1));
  const int64_t elements = work.askedBytes / elementSize(options.type);
  const bool shared = options.op == SimOp::kAllGather || options.op == SimOp::kReduceScatter ||
                      options.op == SimOp::kAllToAll || options.op == SimOp::kGather || options.op == SimOp::kScatter;
  int64_t count = shared ? elements / ranks : elements;
  if (work.askedBytes > 0) count = std::max<int64_t>(count, 1);
  const int32_t root = work.rooted() ? static_cast<int32_t>(options.root) : 0;
  int32_t destination = 0;
  if (options.op == SimOp::kIncast) {
    HPU_ASSIGN(work.senders, incastSenders(map, root, options.senders));
    destination = root;
  } else if (options.op == SimOp::kSendRecv) {
    if (options.shift < 1 || (options.shift >= ranks && ranks > 1))
      return invalidArgument(strCat("--shift ", options.shift, " must be from 1 to ", ranks - 1));
    work.shift = static_cast<int32_t>(options.shift);
    destination = ranks > 1 ? work.shift % ranks : 0;
  }
  work.problem = collectives::problemOf(operationOf(options.op), ranks, count, options.type,
                                        work.isMessages() ? 0 : root, destination);
  if (options.op == SimOp::kIncast) work.problem.root = work.senders[0];
  HPU_RETURN_IF_ERROR(collectives::checkProblem(work.problem, count, options.type));
  return work;
}

std::unique_ptr<Plan> messagePlan(const Work& work, const RankMap& map) {
  if (work.op == SimOp::kIncast) return std::make_unique<IncastPlan>(work, map);
  return std::make_unique<RingPlan>(work, map);
}

int64_t messagesBoundPs(const Plan& plan, const Fabric& fabric) {
  std::map<std::pair<int32_t, int32_t>, double> linkNs, outNs, inNs;
  const RankMap& map = plan.map();
  for (int32_t rank = 0; rank < map.ranks(); ++rank) {
    const Program program = plan.program(rank);
    const Place from = map.place(rank);
    for (const ProgramStep& step : program.steps) {
      if (step.kind != StepKind::kSend) continue;
      const int32_t peer = collectives::resolve(map, rank, program.peers[static_cast<size_t>(step.peer)]);
      const Place to = map.place(peer);
      const auto bytes = static_cast<double>(step.bytes);
      if (from.node == to.node) {
        linkNs[{rank, peer}] += bytes / (fabric.mesh.linkBytesPerNs * fabric.rateOf(from.node));
      } else {
        outNs[{from.node, fabric.railOf(from.node, from.device)}] +=
            bytes / (fabric.railBytesPerNs * fabric.rateOf(from.node));
        inNs[{to.node, fabric.railOf(to.node, to.device)}] += bytes / (fabric.railBytesPerNs * fabric.rateOf(to.node));
      }
    }
  }
  double most = 0;
  for (const auto* ports : {&linkNs, &outNs, &inNs})
    for (const auto& [port, ns] : *ports) most = std::max(most, ns);
  return static_cast<int64_t>(std::floor(most * 1000));
}

}  // namespace hpu::tools
