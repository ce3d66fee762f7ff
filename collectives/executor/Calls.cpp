// SPDX-License-Identifier: Apache-2.0
#include "collectives/executor/Calls.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/Format.h"

namespace hpu::collectives {
namespace {

using base::strCat;

std::string_view opName(uint8_t op) {
  constexpr std::string_view names[] = {"sum", "prod", "min", "max", "average"};
  return op < 5 ? names[op] : "unknown";
}

// What all messages about calls that differ have in common: their reader may be a rank that only heard of it.
constexpr std::string_view kAsOperation = " as operation ", kAsMessage = " as message ";

bool isMismatch(const Status& status) {
  const std::string& text = status.message();
  return status.code() == StatusCode::kInvalidArgument &&
         (text.find(kAsOperation) != std::string::npos || text.find(kAsMessage) != std::string::npos);
}

bool hasRoot(Collective collective) {
  switch (collective) {
    case Collective::kBroadcast:
    case Collective::kReduce:
    case Collective::kGather:
    case Collective::kScatter:
    case Collective::kPointToPoint:
      return true;
    default:
      return false;
  }
}

}  // namespace

uint64_t fingerprintOf(const CallRecord& record) {
  const bool barrier = record.collective == static_cast<uint8_t>(Collective::kBarrier);
  const auto small = [](auto value, int shift) { return static_cast<uint64_t>(value) << shift; };
  const uint64_t fields[] = {
      small(record.collective, 0) | small(barrier ? 0 : record.type, 8) | small(record.op, 16) |
          small(record.direct, 24) | small(static_cast<uint32_t>(record.root), 32),
      barrier ? 0 : static_cast<uint64_t>(record.count),
      small(static_cast<uint32_t>(record.destination), 0),
      record.tableHash,
  };
  uint64_t hash = 0;
  for (uint64_t field : fields) {  // Each step is one-to-one in the field.
    hash = (hash ^ field) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 32;
  }
  return hash;
}

CallRecord recordOf(const CollectiveOperation& operation, bool direct) {
  const Problem& problem = operation.schedule->problem;
  CallRecord record;
  record.tableHash = operation.tableHash;
  record.count = problem.count;
  record.direct = direct;
  record.root = hasRoot(problem.collective) ? problem.root : 0;
  record.destination = problem.collective == Collective::kPointToPoint ? problem.destination : 0;
  record.collective = static_cast<uint8_t>(problem.collective);
  record.type = static_cast<uint8_t>(operation.type);
  record.op = isReducing(problem.collective) ? static_cast<uint8_t>(operation.op) : 0;
  record.fingerprint = fingerprintOf(record);
  recordNext(operation, record);
  return record;
}

void recordNext(const CollectiveOperation& operation, CallRecord& record) {
  record.sequence = operation.sequence;
  record.arrivalPs = operation.arrivalPs;
  record.scale = operation.scale;
  record.input = operation.input;
  record.output = operation.output;
  record.follows = operation.follows;
  record.portsBusy = operation.portsBusy;
  if (!operation.portsBusy) return;
  for (size_t way = 0; way < operation.portsPs.size(); ++way)
    std::copy(operation.portsPs[way].begin(), operation.portsPs[way].end(), record.portsPs[way]);
}

std::string callText(const CallRecord& record, bool numbered) {
  const auto collective = static_cast<Collective>(record.collective);
  std::string text = numbered ? callName(record) : std::string(collectiveName(collective));
  if (collective == Collective::kBarrier) return text;
  if (isReducing(collective)) text += strCat(" (", opName(record.op), ")");
  text += strCat(" of ", record.count, " ", elementTypeName(static_cast<ElementType>(record.type)));
  const bool toRoot = collective == Collective::kReduce || collective == Collective::kGather;
  if (hasRoot(collective)) text += strCat(toRoot ? " to rank " : " from rank ", record.root);
  if (collective == Collective::kPointToPoint) text += strCat(" to rank ", record.destination);
  return text;
}

std::string callName(const CallRecord& record) {
  return strCat(collectiveName(static_cast<Collective>(record.collective)), " #", record.sequence);
}

Status compareCalls(const CallRecord& mine, const CallRecord& theirs, int rank, int peer) {
  std::vector<std::string> differences;
  auto compare = [&](bool same, const char* what) {
    if (!same) differences.emplace_back(what);
  };
  const bool barrier =
      mine.collective == theirs.collective && mine.collective == static_cast<uint8_t>(Collective::kBarrier);
  compare(mine.collective == theirs.collective, "collective");
  compare(barrier || mine.count == theirs.count, "count");
  compare(barrier || mine.type == theirs.type, "type");
  compare(mine.op == theirs.op, "operation");
  compare(mine.root == theirs.root, "root");
  compare(mine.destination == theirs.destination, "destination");
  if (!differences.empty()) {
    return invalidArgument(strCat("rank ", peer, " called ", callText(theirs), kAsOperation, mine.sequence,
                                  " where rank ", rank, " called ", callText(mine), ": they differ in ",
                                  base::join(differences)));
  }
  if (mine.tableHash != theirs.tableHash) {
    return invalidArgument(strCat("rank ", peer, " called ", callText(theirs), kAsOperation, mine.sequence,
                                  " with another tuner table (HPU_COMM_TUNER_TABLE) than rank ", rank,
                                  ": all ranks need the same"));
  }
  if (mine.direct != theirs.direct) {
    return invalidArgument(strCat("rank ", peer, " called ", callText(theirs), kAsOperation, mine.sequence,
                                  " with another HPU_COMM_DIRECT than rank ", rank, ": all ranks need the same"));
  }
  return okStatus();
}

Status heardFrom(int peer, const Status& reason) {
  constexpr std::string_view kGaveUp = " gave up: ";
  const bool keep =
      reason.code() == StatusCode::kUnavailable || reason.code() == StatusCode::kDeadlineExceeded || isMismatch(reason);
  const StatusCode code = keep ? reason.code() : StatusCode::kAborted;
  const std::string& text = reason.message();
  const size_t heard = text.find(kGaveUp);
  if (heard == std::string::npos) return {code, strCat("rank ", peer, kGaveUp, text)};
  // The operation in which the peer heard it is this rank's, too; anything else, with names in quotes, is news.
  const size_t who = text.rfind("rank ", heard);
  const bool ofCall = who != std::string::npos && text.substr(0, who).find('\'') == std::string::npos;
  return {code, ofCall ? text.substr(who) : text};
}

}  // namespace hpu::collectives
