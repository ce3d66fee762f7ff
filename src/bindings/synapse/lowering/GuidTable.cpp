// SPDX-License-Identifier: Apache-2.0
#include "bindings/synapse/lowering/GuidTable.h"

#include <algorithm>
#include <map>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "bindings/synapse/graph/DataTypes.h"
#include "bindings/synapse/graph/GuidList.h"
#include "bindings/synapse/lowering/ElementTypes.h"

namespace hpu::synapse {

using base::strCat;

namespace {

/// A new family is one line here.
constexpr std::span<const GuidRow> (*kFamilies[])() = {
    matrixGuids,    einsumGuids,        convolutionGuids, movementGuids,  sliceGuids,      stridedGuids,
    shapeGuids,     statisticsGuids,    elementwiseGuids, unaryGuids,     activationGuids, castGuids,
    reductionGuids, normalizationGuids, softmaxGuids,     attentionGuids, linearGuids,     poolingGuids,
    creationGuids,  indexGuids,         sortGuids,        lossGuids,      optimizerGuids,  randomGuids,
    resizeGuids,    compilerNodeGuids,
};

using Table = std::map<std::string_view, const GuidRow*>;

const Table& table() {
  static const Table rows = [] {
    Table map;
    for (auto family : kFamilies)
      for (const GuidRow& row : family()) map.emplace(row.name, &row);
    return map;
  }();
  return rows;
}

bool hasWord(std::string_view words, std::string_view word) {
  for (size_t at = 0; at < words.size();) {
    size_t end = std::min(words.find(' ', at), words.size());
    if (words.substr(at, end - at) == word) return true;
    at = end + 1;
  }
  return false;
}

}  // namespace

std::vector<OperandName> parseOperands(std::string_view list) {
  std::vector<OperandName> names;
  for (size_t at = 0; at < list.size();) {
    size_t end = std::min(list.find(',', at), list.size());
    std::string_view piece = list.substr(at, end - at);
    while (!piece.empty() && piece.front() == ' ') piece.remove_prefix(1);
    OperandName name;
    if (piece.starts_with('[') && piece.ends_with(']')) {
      name.optional = true;
      piece = piece.substr(1, piece.size() - 2);
    }
    if (piece.ends_with("...")) {
      name.repeated = true;
      piece.remove_suffix(3);
    }
    name.name = piece;
    names.push_back(std::move(name));
    at = end + 1;
  }
  return names;
}

StatusOr<GuidMatch> findGuid(std::string_view guid, Target target) {
  HPU_ASSIGN(ParsedGuid parsed, parseGuid(guid));
  auto found = table().find(parsed.info->name);
  if (found == table().end()) return unimplemented("OpenHPU does not have this node type yet");
  GuidMatch match{found->second};
  if (parsed.type != 0) {
    HPU_ASSIGN(match.type, elementTypeOf(parsed.type, target));
    std::string_view suffix = findDataType(parsed.type)->suffix;
    if (!match.row->types.empty() && !hasWord(match.row->types, suffix))
      return unimplemented(strCat("it is not there for ", suffix, ", but for: ", match.row->types));
  }
  if (parsed.to != 0) {
    HPU_ASSIGN(match.second, elementTypeOf(parsed.to, target));
  }
  return match;
}

std::vector<const GuidRow*> guidRows() {
  std::vector<const GuidRow*> rows;
  for (const auto& [name, row] : table()) rows.push_back(row);
  return rows;
}

}  // namespace hpu::synapse
