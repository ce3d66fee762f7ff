// SPDX-License-Identifier: Apache-2.0
// Fuzz target: any text is an error, or a schedule that the check answers for (documents between
// zero bytes); after a 'T', an error or a tuner table.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "collectives/schedule/Check.h"
#include "collectives/schedule/Export.h"
#include "collectives/tuner/TunerTable.h"

namespace {

using namespace hpu::collectives;

void readTable(const std::string& text) {
  auto table = TunerTable::parse(text, "fuzz");
  if (!table.ok()) {
    if (table.status().message().rfind("fuzz:", 0) != 0) abort();
    return;
  }
  for (const TunerTable::Rule& rule : table->rules())
    if (rule.minBytes > rule.maxBytes || rule.algorithm.empty() || rule.line < 1) abort();
  Problem problem{Collective::kAllReduce, 8, 1024};
  (void)table->match(problem);
  if ((table->hash() == 0) != table->rules().empty()) abort();
}

void readSchedule(const std::vector<std::string>& documents) {
  auto schedule = importChakra(documents);
  if (!schedule.ok()) {
    if (schedule.status().message().empty()) abort();
    return;
  }
  hpu::Status status = checkSchedule(*schedule);
  if (!status.ok()) {
    if (status.code() != hpu::StatusCode::kInternal || status.message().empty()) abort();
    return;
  }
  // What is right can be timed, printed and written again.
  const LinkModel& links = linkModel(hpu::Target::kGaudi2);
  if (predictPs(*schedule, links) < 0 || exportText(*schedule, {-1, &links}).empty()) abort();
  std::vector<std::string> again = exportChakra(*schedule, links);
  auto back = importChakra(again);
  if (!back.ok() || exportChakra(*back, links) != again) abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string text(reinterpret_cast<const char*>(data), size);
  if (!text.empty() && text[0] == 'T') {
    readTable(text.substr(1));
    return 0;
  }
  std::vector<std::string> documents;
  for (size_t begin = 0; begin <= text.size();) {
    size_t end = std::min(text.find('\0', begin), text.size());
    documents.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  readSchedule(documents);
  return 0;
}
