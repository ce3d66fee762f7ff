// SPDX-License-Identifier: Apache-2.0
#include "collectives/executor/CollectiveRun.h"

#include <algorithm>
#include <utility>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "collectives/executor/Calls.h"

namespace hpu::collectives {

using base::strCat;

bool CollectiveRun::prepare(bool direct) {
  const bool alike = operation_.schedule == recorded_ && static_cast<uint8_t>(operation_.type) == mine_.type &&
                     static_cast<uint8_t>(operation_.op) == mine_.op && operation_.tableHash == mine_.tableHash &&
                     direct == (mine_.direct != 0);
  if (alike) {
    recordNext(operation_, mine_);
  } else {
    mine_ = recordOf(operation_, direct);
    recorded_ = operation_.schedule;
  }
  callers_.resize(static_cast<size_t>(peers_.ranks()));
  for (Caller& caller : callers_) caller.known = false;
  recordsLeft_ = peers_.ranks() - 1;
  callers_[static_cast<size_t>(peers_.rank())].hear(mine_);
  return alike;
}

void CollectiveRun::Caller::hear(const CallRecord& record) {
  known = true;
  follows = record.follows != 0;
  arrivalPs = record.arrivalPs;
  scale = record.scale;
  input = record.input;
  output = record.output;
  portsBusy = record.portsBusy != 0;
  if (!portsBusy) return;
  for (size_t way = 0; way < portsPs.size(); ++way)
    std::copy(std::begin(record.portsPs[way]), std::end(record.portsPs[way]), portsPs[way].begin());
}

void CollectiveRun::arrivals(const std::vector<int64_t>& before, std::vector<int64_t>& result) const {
  result.clear();
  for (const Caller& caller : callers_) {
    int64_t arrival = caller.arrivalPs;
    if (caller.follows && !before.empty()) arrival = std::max(arrival, before[result.size()]);
    result.push_back(arrival);
  }
}

void CollectiveRun::linkState(const std::vector<int64_t>& arrivalPs, int64_t startPs, LinkState& state) const {
  state.freePs.clear();
  state.devices.clear();
  for (std::vector<int64_t>& rails : state.railFreePs) rails.clear();
  if (!operation_.placement) return;
  if (operation_.placement->sharesDevices) state.devices = operation_.placement->device;
  if (std::none_of(callers_.begin(), callers_.end(), [](const Caller& caller) { return caller.portsBusy; })) return;
  setLinks(
      *operation_.placement, [&](size_t rank) { return callers_[rank].portsBusy ? &callers_[rank].portsPs : nullptr; },
      arrivalPs, startPs, state);
}

int64_t CollectiveRun::elementBytes(BufferKind buffer) const {
  return buffer == BufferKind::kPartial ? problem().partialBytes : problem().elementBytes;
}

Status CollectiveRun::checkProblem() const {
  if (problem().ranks != peers_.ranks()) {
    return internalError(strCat("a schedule for ", problem().ranks, " ranks among ", peers_.ranks()));
  }
  const ElementType type = operation_.type;
  if (problem().elementBytes != elementSize(type) ||
      (isReducing(problem().collective) &&
       (!canReduce(type) || problem().partialBytes != elementSize(accumulatorType(type))))) {
    return invalidArgument(strCat(callText(mine_), ": the type ", elementTypeName(type), " does not fit the schedule"));
  }
  return okStatus();
}

StatusOr<std::byte*> CollectiveRun::resolve(BufferKind kind, uint64_t address, int64_t elements) const {
  if (elements <= 0) return static_cast<std::byte*>(nullptr);
  const int64_t bytes = elements * elementBytes(kind);
  std::byte* data = peers_.transport().local(address, bytes);
  if (data) return data;
  return invalidArgument(strCat(callText(mine_, true), ": its ", bufferName(kind), ", ", bytes,
                                " bytes at device address ", base::formatHex(address),
                                ", is not in this device's memory"));
}

Status CollectiveRun::readRecords(bool& moved) {
  for (int peer = 0; peer < peers_.ranks(); ++peer) {
    Caller& caller = callers_[static_cast<size_t>(peer)];
    if (caller.known) continue;
    auto record = peers_.transport().record(peer, mine_.sequence);
    if (!record) continue;
    if (record->fingerprint != mine_.fingerprint) {
      HPU_RETURN_IF_ERROR(compareCalls(mine_, *record, peers_.rank(), peer));
      return internalError(
          strCat("rank ", peer, " called ", callText(*record, true), " and says that it is another call"));
    }
    caller.hear(*record);
    --recordsLeft_;
    peers_.sawPeer(peer);
    moved = true;
  }
  return okStatus();
}

/// " has not entered all-reduce #1042; its last call was all-gather #1041".
std::string CollectiveRun::missingText(int peer) const {
  if (callers_[static_cast<size_t>(peer)].known) return waitText(peer);
  Transport& transport = peers_.transport();
  const uint64_t last = transport.lastSequence(peer);
  std::string text = strCat(" has not entered ", callName(mine_));
  if (last == 0) return text + "; it has not called a collective yet";
  auto record = transport.record(peer, last);
  return text + strCat("; its last call was ", record ? callName(*record) : strCat("#", last));
}

Status CollectiveRun::checkPeers() const {
  Transport& transport = peers_.transport();
  Status aborted;
  bool anyMissing = false;
  for (int peer = 0; peer < peers_.ranks(); ++peer) {
    if (peer == peers_.rank()) continue;
    anyMissing |= !callers_[static_cast<size_t>(peer)].known;
    Status status = transport.peerStatus(peer);
    if (status.ok() || !waitsFor(peer)) continue;
    if (status.code() == StatusCode::kUnavailable) {
      return unavailable(strCat(callText(mine_, true), ": ", status.message(), "; it", missingText(peer)));
    }
    if (!aborted.ok()) continue;
    Status reason = transport.abortReason(peer);
    aborted = reason.ok() ? status : heardFrom(peer, reason);
  }
  if (!aborted.ok()) {
    // Somebody's death is a better reason than what another rank made of it.
    for (int peer = 0; peer < peers_.ranks(); ++peer) {
      if (peer == peers_.rank() || callers_[static_cast<size_t>(peer)].known) continue;
      Status status = transport.peerStatus(peer);
      if (status.code() == StatusCode::kUnavailable) aborted = status;
    }
    return aborted.withContext(callText(mine_, true));
  }
  const bool expired = pastDeadline(turn_, operation_.deadlineMs, peers_.now());
  std::string late;
  for (int peer = 0; peer < peers_.ranks(); ++peer) {
    if (peer == peers_.rank()) continue;
    const bool missing = !callers_[static_cast<size_t>(peer)].known;
    // Ranks that are in it may rightly wait for those that are not.
    if (anyMissing ? !missing : !waitsFor(peer)) continue;
    if (!expired && !peers_.standsStill(peer, begun_, operation_.timeoutMs)) continue;
    late += strCat(late.empty() ? "" : "; ", transport.describe(peer), missingText(peer));
  }
  if (expired) {
    return deadlineExceeded(
        strCat(callText(mine_, true), ": not done ", operation_.deadlineMs,
               " ms after its turn had come (HPU_COMM_DEADLINE_MS), whatever its ranks have done since",
               late.empty() ? "" : ": ", late));
  }
  if (late.empty()) return okStatus();
  // A rank that is stopped is worth naming even when this one waits for another that waits for it.
  for (int peer = 0; peer < peers_.ranks(); ++peer) {
    std::string text = peer == peers_.rank() ? "" : transport.describe(peer);
    if (text.find("stopped") != std::string::npos && late.find(text) == std::string::npos) {
      late += strCat("; ", text);
    }
  }
  return deadlineExceeded(strCat(callText(mine_, true), ": no progress for ", operation_.timeoutMs, " ms: ", late));
}

}  // namespace hpu::collectives
