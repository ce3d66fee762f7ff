// SPDX-License-Identifier: Apache-2.0
#include "collectives/scaleout/RoleSteps.h"

#include <algorithm>

#include "base/Format.h"

namespace hpu::collectives {
namespace {

using base::strCat;

int32_t wrapped(int64_t value, int64_t size) {
  return static_cast<int32_t>(((value % size) + size) % size);
}

// Names of one rank by one form are equal when they lead to the same rank.
PeerName inOneForm(const RankMap& map, PeerName name) {
  switch (name.form) {
    case PeerName::Form::kGridShift:
      if (map.ranksPerNode() > 0) {
        name.a = wrapped(name.a, map.nodes());
        name.b = wrapped(name.b, map.ranksPerNode());
      }
      return name;
    case PeerName::Form::kRankShift:
      name.a = wrapped(name.a, map.ranks());
      break;
    case PeerName::Form::kNodeXor:
    case PeerName::Form::kRank:
      break;
  }
  name.b = 0;
  return name;
}

uint64_t keyOf(PeerName name) {
  return static_cast<uint64_t>(name.form) << 62 | (static_cast<uint64_t>(name.a) & 0x7fffffff) << 31 |
         (static_cast<uint64_t>(name.b) & 0x7fffffff);
}

}  // namespace

int32_t resolveChecked(const RankMap& map, int32_t rank, PeerName peer) {
  const Position here = map.position(rank);
  switch (peer.form) {
    case PeerName::Form::kGridShift:
      if (map.ranksPerNode() <= 0) return -1;
      break;
    case PeerName::Form::kNodeXor: {
      const int32_t node = here.node ^ peer.a;
      if (node < 0 || node >= map.nodes() || here.local >= static_cast<int32_t>(map.ranksOf(node).size())) return -1;
      break;
    }
    case PeerName::Form::kRankShift:
      break;
    case PeerName::Form::kRank:
      if (peer.a < 0 || peer.a >= map.ranks()) return -1;
      break;
  }
  return resolve(map, rank, peer);
}

void RoleSteps::namesOf(const RankMap& map, int32_t from, int32_t to, std::vector<int32_t>& result) const {
  result.clear();
  const auto add = [&](PeerName name) {
    const uint64_t key = keyOf(name);
    auto it = std::lower_bound(byKey_.begin(), byKey_.end(), key,
                               [](const auto& entry, uint64_t value) { return entry.first < value; });
    if (it != byKey_.end() && it->first == key) result.push_back(it->second);
  };
  const Position here = map.position(from), there = map.position(to);
  using Form = PeerName::Form;
  if (uses(Form::kGridShift)) add(inOneForm(map, {Form::kGridShift, there.node - here.node, there.local - here.local}));
  if (uses(Form::kNodeXor) && here.local == there.local) add({Form::kNodeXor, here.node ^ there.node, 0});
  if (uses(Form::kRankShift)) add(inOneForm(map, {Form::kRankShift, to - from, 0}));
  if (uses(Form::kRank)) add({Form::kRank, to, 0});
  std::sort(result.begin(), result.end());
}

StatusOr<RoleSteps> RoleSteps::create(const Plan& plan, int32_t rank) {
  const Program program = plan.program(rank);
  const RankMap& map = plan.map();
  const auto steps = static_cast<int32_t>(program.steps.size());
  const auto wrong = [&](int32_t step, std::string_view what) {
    return internalError(strCat("plan '", plan.algorithm(), "', rank ", rank, ", step ", step, ": ", what));
  };
  RoleSteps role;
  role.kind.resize(steps);
  role.peer.assign(steps, -1);
  role.bytes.resize(steps);
  role.waits.resize(steps);
  role.dependentsFirst.assign(static_cast<size_t>(steps) + 1, 0);
  std::vector<int32_t> nameOf(program.peers.size(), -1);
  std::vector<std::pair<uint64_t, int32_t>>& byKey = role.byKey_;
  for (size_t p = 0; p < program.peers.size(); ++p) byKey.emplace_back(keyOf(inOneForm(map, program.peers[p])), p);
  std::sort(byKey.begin(), byKey.end());
  for (size_t k = 0; k < byKey.size(); ++k)  // Of equal ones the first is all of them.
    nameOf[byKey[k].second] =
        k > 0 && byKey[k].first == byKey[k - 1].first ? nameOf[byKey[k - 1].second] : byKey[k].second;
  std::vector<int32_t> newName(program.peers.size(), -1);
  for (int32_t i = 0; i < steps; ++i) {
    const ProgramStep& step = program.steps[i];
    role.kind[i] = step.kind;
    role.bytes[i] = step.bytes;
    role.waits[i] = static_cast<int32_t>(step.after.size());
    if (step.bytes < 0) return wrong(i, "a negative number of bytes");
    for (int32_t before : step.after) {
      if (before < 0 || before >= i) return wrong(i, strCat("waits for step ", before, ", which is not before it"));
      ++role.dependentsFirst[before + 1];
    }
    if (step.kind != StepKind::kSend && step.kind != StepKind::kRecv) continue;
    if (step.peer < 0 || step.peer >= static_cast<int32_t>(program.peers.size()))
      return wrong(i, strCat("a message with peer ", step.peer, " of ", program.peers.size()));
    int32_t& name = newName[nameOf[step.peer]];
    if (name < 0) {
      name = static_cast<int32_t>(role.names.size());
      role.names.push_back(inOneForm(map, program.peers[step.peer]));
      role.forms_[static_cast<size_t>(role.names.back().form)] = true;
    }
    role.peer[i] = name;
  }
  byKey.clear();
  for (size_t p = 0; p < role.names.size(); ++p) byKey.emplace_back(keyOf(role.names[p]), p);
  std::sort(byKey.begin(), byKey.end());
  for (int32_t i = 0; i < steps; ++i) role.dependentsFirst[i + 1] += role.dependentsFirst[i];
  role.dependents.resize(role.dependentsFirst.back());
  std::vector<int32_t> at(role.dependentsFirst.begin(), role.dependentsFirst.end() - 1);
  for (int32_t i = 0; i < steps; ++i)
    for (int32_t before : program.steps[i].after) role.dependents[at[before]++] = i;
  const auto byName = [&](StepKind kind, std::vector<int32_t>& first, std::vector<int32_t>& list) {
    first.assign(role.names.size() + 1, 0);
    for (int32_t i = 0; i < steps; ++i)
      if (role.kind[i] == kind) ++first[role.peer[i] + 1];
    for (size_t p = 0; p < role.names.size(); ++p) first[p + 1] += first[p];
    list.resize(first.back());
    std::vector<int32_t> next(first.begin(), first.end() - 1);
    for (int32_t i = 0; i < steps; ++i)
      if (role.kind[i] == kind) list[next[role.peer[i]]++] = i;
  };
  byName(StepKind::kSend, role.sendsFirst, role.sends);
  byName(StepKind::kRecv, role.receivesFirst, role.receives);
  return role;
}

}  // namespace hpu::collectives
