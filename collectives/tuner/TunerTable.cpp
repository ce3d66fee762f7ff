// SPDX-License-Identifier: Apache-2.0
#include "collectives/tuner/TunerTable.h"

#include <algorithm>
#include <string_view>

#include "base/File.h"
#include "base/Format.h"
#include "base/Hash.h"
#include "base/StatusMacros.h"
#include "collectives/algorithms/Registry.h"
#include "collectives/scaleout/Program.h"

namespace hpu::collectives {
namespace {

using base::strCat;

constexpr int64_t kMaxTableBytes = 1 << 20;
constexpr int32_t kMaxRanks = 1 << 16, kMaxSlices = 4096;

std::vector<std::string_view> words(std::string_view line) {
  std::vector<std::string_view> result;
  line = line.substr(0, line.find('#'));
  constexpr std::string_view kSpace = " \t\r\f\v";
  for (size_t begin; (begin = line.find_first_not_of(kSpace)) != line.npos;) {
    size_t end = std::min(line.find_first_of(kSpace, begin), line.size());
    result.push_back(line.substr(begin, end - begin));
    line.remove_prefix(end);
  }
  return result;
}

StatusOr<int32_t> number(std::string_view word, std::string_view what, int32_t any, int32_t most) {
  if (word == "*") return any;
  StatusOr<int64_t> value = base::parseInt(word);
  if (!value.ok() || *value < 1 || *value > most)
    return invalidArgument(strCat(what, " '", word, "' is neither '*' nor from 1 to ", most));
  return static_cast<int32_t>(*value);
}

StatusOr<int64_t> size(std::string_view word, std::string_view what, int64_t any) {
  if (word == "*") return any;
  StatusOr<int64_t> value = base::parseBytes(word);
  if (!value.ok() || *value < 0)
    return invalidArgument(strCat(what, " '", word, "' is neither '*' nor a number of bytes (64K, 2M ...)"));
  return *value;
}

StatusOr<TunerTable::Rule> parseRule(const std::vector<std::string_view>& w) {
  if (w.size() != 7)
    return invalidArgument(strCat("a rule has 7 fields (collective ranks element-bytes min-bytes ",
                                  "max-bytes algorithm slices); this line has ", w.size()));
  TunerTable::Rule rule;
  if (w[0] != "*") {
    std::optional<Collective> collective = parseCollective(w[0]);
    if (!collective) {
      std::string names;
      for (int i = 0; i < kNumCollectives; ++i)
        names += strCat(i ? ", " : "", collectiveName(static_cast<Collective>(i)));
      return invalidArgument(strCat("unknown collective '", w[0], "'; there are ", names));
    }
    rule.collective = static_cast<int32_t>(*collective);
  }
  HPU_ASSIGN(rule.ranks, number(w[1], "ranks", -1, kMaxRanks));
  HPU_ASSIGN(rule.elementBytes, number(w[2], "element-bytes", -1, 8));
  HPU_ASSIGN(rule.minBytes, size(w[3], "min-bytes", 0));
  HPU_ASSIGN(rule.maxBytes, size(w[4], "max-bytes", INT64_MAX));
  if (rule.minBytes > rule.maxBytes)
    return invalidArgument(strCat("min-bytes ", w[3], " is more than max-bytes ", w[4]));
  std::string names;
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.name == w[5]) rule.algorithm = algorithm.name;
    names += (names.empty() ? "" : ", ") + std::string(algorithm.name);
  }
  names += "; among nodes ";
  bool first = true;
  for (const PlanAlgorithm& algorithm : planAlgorithms()) {
    if (algorithm.name == w[5]) {
      rule.algorithm = algorithm.name;
      rule.amongNodes = true;
    }
    names += (first ? "" : ", ") + std::string(algorithm.name);
    first = false;
  }
  if (rule.algorithm.empty()) return invalidArgument(strCat("unknown algorithm '", w[5], "'; there are ", names));
  HPU_ASSIGN(rule.slices, number(w[6], "slices", 0, kMaxSlices));
  return rule;
}

}  // namespace

StatusOr<TunerTable> TunerTable::parse(const std::string& text, const std::string& fileName) {
  TunerTable table;
  base::Hasher hasher;
  std::string_view rest = text;
  for (int line = 1; !rest.empty(); ++line) {
    size_t end = std::min(rest.find('\n'), rest.size());
    std::vector<std::string_view> w = words(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (w.empty()) continue;
    StatusOr<Rule> rule = parseRule(w);
    if (!rule.ok()) return rule.status().withContext(strCat(fileName, ":", line));
    rule->line = line;
    rule->file = fileName;
    for (int64_t value : {int64_t{rule->collective}, int64_t{rule->ranks}, int64_t{rule->elementBytes}, rule->minBytes,
                          rule->maxBytes, int64_t{rule->slices}})
      hasher.update(&value, sizeof value);
    hasher.updateSized(rule->algorithm);
    table.rules_.push_back(std::move(rule).value());
  }
  if (!table.rules_.empty()) table.hash_ = std::max<uint64_t>(hasher.digest64(), 1);
  return table;
}

StatusOr<TunerTable> TunerTable::load(const std::string& path) {
  HPU_ASSIGN(std::string text, base::readTextFile(path, kMaxTableBytes));
  return parse(text, path);
}

const TunerTable::Rule* TunerTable::match(const Problem& problem, bool amongNodes) const {
  int64_t bytes = problemBytes(problem);
  for (const Rule& rule : rules_) {
    if (rule.amongNodes != amongNodes) continue;
    if (rule.collective >= 0 && rule.collective != static_cast<int32_t>(problem.collective)) continue;
    if (rule.ranks >= 0 && rule.ranks != problem.ranks) continue;
    if (rule.elementBytes >= 0 && rule.elementBytes != problem.elementBytes) continue;
    if (bytes < rule.minBytes || bytes > rule.maxBytes) continue;
    return &rule;
  }
  return nullptr;
}

}  // namespace hpu::collectives
