// SPDX-License-Identifier: Apache-2.0
// Chakra's JSON, as its feeder (mlcommons/chakra, src/feeder) reads it, and back.
#include <nlohmann/json.hpp>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "collectives/schedule/Export.h"
#include "collectives/schedule/Messages.h"

namespace hpu::collectives {
namespace {

using base::strCat;
using nlohmann::json;

// NodeType of Chakra's et_def.proto.
constexpr int kCompNode = 4, kCommSendNode = 5, kCommRecvNode = 6;
constexpr std::string_view kSchema = "openhpu-schedule-1";

// --- Out ---

json rangeJson(const Range& range) {
  json j = {std::string(bufferName(range.buffer)), range.offset, range.count};
  if (range.contributor >= 0) j.push_back(range.contributor);
  return j;
}

json stepJson(const Step& step) {
  json j = {{"kind", std::string(stepName(step.kind))}};
  if (step.kind != StepKind::kSend) j["dst"] = rangeJson(step.dst);
  json sources = json::array();
  for (const Range& source : step.sources) sources.push_back(rangeJson(source));
  if (!step.sources.empty()) j["sources"] = std::move(sources);
  return j;
}

// The collective's number in Chakra's CollectiveCommType.
int chakraCollective(Collective collective) {
  switch (collective) {
    case Collective::kAllReduce:
      return 0;
    case Collective::kReduce:
      return 1;
    case Collective::kAllGather:
      return 2;
    case Collective::kGather:
      return 3;
    case Collective::kScatter:
      return 4;
    case Collective::kAllToAll:
      return 6;
    case Collective::kReduceScatter:
      return 7;
    case Collective::kBarrier:
      return 9;
    case Collective::kBroadcast:
    case Collective::kPointToPoint:
      break;
  }
  return 5;
}

json headJson(const Schedule& schedule, int rank) {
  const Problem& p = schedule.problem;
  return {{"schema", std::string(kSchema)},
          {"rank", rank},
          {"ranks", p.ranks},
          {"collective", std::string(collectiveName(p.collective))},
          {"count", p.count},
          {"root", p.root},
          {"destination", p.destination},
          {"element_bytes", p.elementBytes},
          {"partial_bytes", p.partialBytes},
          {"algorithm", schedule.algorithm},
          {"slices", schedule.slices},
          {"scratch_elements", schedule.scratchElements},
          {"partial_elements", schedule.partialElements},
          {"steps", schedule.steps.size()}};
}

}  // namespace

std::vector<std::string> exportChakra(const Schedule& schedule, const LinkModel& links,
                                      std::span<const int32_t> ranks) {
  const Problem& p = schedule.problem;
  std::vector<std::string> documents;
  StatusOr<Messages> messages = matchMessages(schedule);
  if (!messages.ok()) return documents;
  ScheduleTiming timing = timeSchedule(schedule, links, std::vector<int64_t>(p.ranks, 0), /*wantSteps=*/true);
  std::vector<int32_t> wanted(ranks.begin(), ranks.end());
  if (ranks.empty())
    for (int32_t rank = 0; rank < p.ranks; ++rank) wanted.push_back(rank);
  for (int32_t rank : wanted) {
    json graph = json::array();
    for (int32_t i : schedule.ofRank[rank]) {
      const Step& step = schedule.steps[i];
      const Range& size = step.kind == StepKind::kSend ? step.sources[0] : step.dst;
      int64_t bytes = size.count * (size.buffer == BufferKind::kPartial ? p.partialBytes : p.elementBytes);
      bool isSend = step.kind == StepKind::kSend, isRecv = step.kind == StepKind::kRecv;
      json node = {{"Id", i},
                   {"Name", stepText(schedule, i)},
                   {"NodeType", isSend   ? kCommSendNode
                                : isRecv ? kCommRecvNode
                                         : kCompNode},
                   {"is_cpu_op", false},
                   {"data_deps", step.after},
                   {"tensor_size", bytes},
                   {"openhpu", stepJson(step)}};
      if (isSend || isRecv) {
        node["comm_type"] = chakraCollective(p.collective);
        node["comm_priority"] = 0;
        node["comm_size"] = bytes;
        node["comm_src"] = isSend ? step.rank : step.peer;
        node["comm_dst"] = isSend ? step.peer : step.rank;
        node["comm_tag"] = messages->number[i];
        node["runtime"] = 0;
      } else {
        int64_t ps = timing.steps[i].endPs - timing.steps[i].startPs;
        node["runtime"] = (ps + 999'999) / 1'000'000;
      }
      graph.push_back(std::move(node));
    }
    json document = {{"openhpu", headJson(schedule, rank)}, {"workload_graph", std::move(graph)}};
    documents.push_back(document.dump(1, ' ', false, json::error_handler_t::replace) + "\n");
  }
  return documents;
}

// --- In ---

namespace {

// Reads fields without throwing; the first failure stays.
class Reader {
 public:
  explicit Reader(std::string place) : place_(std::move(place)) {}
  const Status& status() const { return status_; }
  void note(std::string_view what) {
    if (status_.ok()) status_ = invalidArgument(strCat(place_, ": ", what));
  }
  Status fail(std::string_view what) {
    note(what);
    return status_;
  }
  int64_t number(const json& object, const char* name, int64_t least, int64_t most) {
    const json* value = field(object, name);
    return value ? asNumber(*value, name, least, most) : least;
  }
  int64_t asNumber(const json& value, std::string_view name, int64_t least, int64_t most) {
    if (!value.is_number_integer() || (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{INT64_MAX})) {
      note(strCat("'", name, "' is not a whole number"));
      return least;
    }
    int64_t n = value.get<int64_t>();
    if (n < least || n > most) {
      note(strCat("'", name, "' is ", n, ", not from ", least, " to ", most));
      return least;
    }
    return n;
  }
  std::string text(const json& object, const char* name) {
    const json* value = field(object, name);
    if (value && !value->is_string()) note(strCat("'", name, "' is not a string"));
    return value && value->is_string() ? value->get<std::string>() : std::string();
  }
  const json* field(const json& object, const char* name) {
    if (object.is_object())
      if (auto it = object.find(name); it != object.end()) return &*it;
    note(strCat("it has no '", name, "'"));
    return nullptr;
  }
  const json* list(const json& object, const char* name) {
    const json* value = field(object, name);
    if (value && !value->is_array()) {
      note(strCat("'", name, "' is not a list"));
      return nullptr;
    }
    return value;
  }
  Range range(const json& value) {
    Range range;
    if (!value.is_array() || value.size() < 3 || value.size() > 4 || !value[0].is_string()) {
      note("a range is not [buffer, offset, count] or [buffer, offset, count, contributor]");
      return range;
    }
    std::string buffer = value[0].get<std::string>();
    bool known = false;
    for (BufferKind kind : {BufferKind::kInput, BufferKind::kOutput, BufferKind::kScratch, BufferKind::kPartial})
      if (buffer == bufferName(kind)) range.buffer = kind, known = true;
    if (!known) note(strCat("there is no buffer '", buffer, "'"));
    range.offset = asNumber(value[1], "offset", 0, INT64_MAX / 2);
    range.count = asNumber(value[2], "count", 0, INT64_MAX / 2);
    if (value.size() == 4) range.contributor = static_cast<int32_t>(asNumber(value[3], "contributor", 0, INT32_MAX));
    return range;
  }

 private:
  std::string place_;
  Status status_;
};

constexpr int64_t kMaxRanks = 1 << 16, kMaxSteps = int64_t{1} << 24;

Status readHead(const json& head, const std::string& place, Schedule& schedule, int64_t& rank, int64_t& steps) {
  Reader r(place);
  if (std::string schema = r.text(head, "schema"); r.status().ok() && schema != kSchema)
    return r.fail(strCat("its schema is '", schema, "', not '", kSchema, "'"));
  Problem& p = schedule.problem;
  p.ranks = static_cast<int32_t>(r.number(head, "ranks", 1, kMaxRanks));
  rank = r.number(head, "rank", 0, p.ranks - 1);
  std::string collective = r.text(head, "collective");
  if (auto known = parseCollective(collective))
    p.collective = *known;
  else
    r.note(strCat("there is no collective '", collective, "'"));
  p.count = r.number(head, "count", 0, INT64_MAX / 2);
  p.root = static_cast<int32_t>(r.number(head, "root", 0, p.ranks - 1));
  p.destination = static_cast<int32_t>(r.number(head, "destination", 0, p.ranks - 1));
  p.elementBytes = static_cast<int32_t>(r.number(head, "element_bytes", 1, 64));
  p.partialBytes = static_cast<int32_t>(r.number(head, "partial_bytes", 1, 64));
  schedule.algorithm = r.text(head, "algorithm");
  schedule.slices = static_cast<int32_t>(r.number(head, "slices", 1, INT32_MAX));
  schedule.scratchElements = r.number(head, "scratch_elements", 0, INT64_MAX / 2);
  schedule.partialElements = r.number(head, "partial_elements", 0, INT64_MAX / 2);
  steps = r.number(head, "steps", 0, kMaxSteps);
  return r.status();
}

Status readNode(const json& node, const std::string& place, int32_t rank, int64_t steps, int64_t& id, Step& step) {
  Reader r(place);
  id = r.number(node, "Id", 0, steps - 1);
  const json* own = r.field(node, "openhpu");
  HPU_RETURN_IF_ERROR(r.status());
  step.rank = rank;
  std::string kind = r.text(*own, "kind");
  bool known = false;
  for (StepKind k : {StepKind::kCopy, StepKind::kReduce, StepKind::kSend, StepKind::kRecv})
    if (kind == stepName(k)) step.kind = k, known = true;
  if (!known) return r.fail(strCat("there is no kind of step '", kind, "'"));
  bool isSend = step.kind == StepKind::kSend, isRecv = step.kind == StepKind::kRecv;
  int expected = isSend ? kCommSendNode : isRecv ? kCommRecvNode : kCompNode;
  if (r.number(node, "NodeType", 0, 100) != expected)
    r.note(strCat("its NodeType is not ", expected, ", which a ", kind, " has"));
  if (isSend || isRecv)
    step.peer = static_cast<int32_t>(r.number(node, isSend ? "comm_dst" : "comm_src", 0, kMaxRanks));
  if (!isSend)
    if (const json* dst = r.field(*own, "dst")) step.dst = r.range(*dst);
  if (!isRecv)
    if (const json* sources = r.list(*own, "sources"))
      for (const json& source : *sources) step.sources.push_back(r.range(source));
  if (isSend && step.sources.size() != 1) r.note("a send has one source");
  if (const json* after = r.list(node, "data_deps"))
    for (const json& before : *after)
      step.after.push_back(static_cast<int32_t>(r.asNumber(before, "data_deps", 0, steps - 1)));
  return r.status();
}

}  // namespace

StatusOr<Schedule> importChakra(std::span<const std::string> documents) {
  if (documents.empty()) return invalidArgument("there are no documents");
  Schedule schedule;
  int64_t mostSteps = 0;  // A step takes more than 16 characters.
  for (const std::string& document : documents) mostSteps += static_cast<int64_t>(document.size()) / 16;
  std::vector<bool> haveRank, haveStep;
  json firstHead;
  for (size_t d = 0; d < documents.size(); ++d) {
    std::string place = strCat("document ", d);
    json document = json::parse(documents[d], nullptr, /*allow_exceptions=*/false);
    if (document.is_discarded()) return invalidArgument(strCat(place, " is not JSON"));
    Reader r(place);
    const json* head = r.field(document, "openhpu");
    const json* graph = r.list(document, "workload_graph");
    HPU_RETURN_IF_ERROR(r.status());
    Schedule seen;
    int64_t rank = 0, steps = 0;
    HPU_RETURN_IF_ERROR(readHead(*head, place, seen, rank, steps));
    json common = *head;
    common.erase("rank");
    if (d == 0) {
      firstHead = common;
      schedule = std::move(seen);
      if (static_cast<size_t>(schedule.problem.ranks) != documents.size())
        return r.fail(
            strCat("it is one of ", schedule.problem.ranks, " ranks; there are ", documents.size(), " documents"));
      if (steps > mostSteps) return r.fail(strCat("'steps' is ", steps, ", which the documents have no room for"));
      haveRank.resize(documents.size());
      haveStep.resize(steps);
      schedule.steps.resize(steps);
    } else if (common != firstHead) {
      return r.fail("it is of another schedule than document 0");
    }
    if (haveRank[rank]) return r.fail(strCat("rank ", rank, " comes twice"));
    haveRank[rank] = true;
    for (size_t n = 0; n < graph->size(); ++n) {
      int64_t id = 0;
      Step step;
      std::string nodePlace = strCat(place, ", node ", n);
      HPU_RETURN_IF_ERROR(readNode((*graph)[n], nodePlace, static_cast<int32_t>(rank), steps, id, step));
      if (haveStep[id]) return invalidArgument(strCat(nodePlace, ": Id ", id, " comes twice"));
      haveStep[id] = true;
      schedule.steps[id] = std::move(step);
    }
  }
  for (size_t i = 0; i < haveStep.size(); ++i)
    if (!haveStep[i]) return invalidArgument(strCat("no document has Id ", i));
  schedule.finish();
  return schedule;
}

}  // namespace hpu::collectives
