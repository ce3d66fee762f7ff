// SPDX-License-Identifier: Apache-2.0
#include "bindings/synapse/graph/GuidList.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "bindings/synapse/graph/DataTypes.h"

namespace hpu::synapse {
namespace {

constexpr auto sortedGuids() {
  using enum GuidClass;
  using enum GuidParams;
  std::array table = {
#define HPU_GUID(name, kind, minIn, maxIn, minOut, maxOut, params) \
  GuidInfo{name, kind, minIn, maxIn, minOut, maxOut, params},
#include "bindings/synapse/graph/GuidList.inc"
#undef HPU_GUID
  };
  std::sort(table.begin(), table.end(), [](const GuidInfo& a, const GuidInfo& b) { return a.name < b.name; });
  return table;
}
constexpr auto kGuids = sortedGuids();
static_assert(std::adjacent_find(kGuids.begin(), kGuids.end(),
                                 [](const GuidInfo& a, const GuidInfo& b) { return a.name == b.name; }) == kGuids.end(),
              "two lines of GuidList.inc have one name");

const GuidInfo* findExact(std::string_view name) {
  auto at = std::lower_bound(kGuids.begin(), kGuids.end(), name,
                             [](const GuidInfo& info, std::string_view n) { return info.name < n; });
  return at != kGuids.end() && at->name == name ? &*at : nullptr;
}

/// As named, with "_fwd" added, or with it taken away.
const GuidInfo* findBase(std::string_view name) {
  if (const GuidInfo* info = findExact(name)) return info;
  constexpr std::string_view kForward = "_fwd";
  if (name.ends_with(kForward)) {
    const GuidInfo* info = findExact(name.substr(0, name.size() - kForward.size()));
    return info && info->kind != GuidClass::kApi ? info : nullptr;
  }
  std::string longer(name);
  longer += kForward;
  return findExact(longer);
}

/// The number of single-character edits between two names.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t next = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = std::exchange(row[j], next);
    }
  }
  return row.back();
}

Status unknownGuid(std::string_view guid, std::string_view base) {
  std::vector<std::pair<size_t, std::string_view>> near;
  if (base.size() <= 64)
    for (const GuidInfo& info : kGuids)
      if (info.kind != GuidClass::kInternal)
        if (size_t d = distance(base, info.name); d <= std::max<size_t>(2, base.size() / 3))
          near.emplace_back(d, info.name);
  std::sort(near.begin(), near.end());
  std::string message = base::strCat("there is no node type '", guid.substr(0, 128), "'");
  for (size_t i = 0; i < std::min<size_t>(3, near.size()); ++i)
    message += base::strCat(i ? ", " : "; similar ones are ", near[i].second);
  return unimplemented(std::move(message));
}

/// "cast_<from>_to_<to>".
bool parseCast(std::string_view name, ParsedGuid& out) {
  constexpr std::string_view kCast = "cast_", kTo = "_to_";
  if (!name.starts_with(kCast)) return false;
  name.remove_prefix(kCast.size());
  size_t to = name.find(kTo);
  if (to == std::string_view::npos) return false;
  const DataTypeInfo* from = findDataTypeBySuffix(name.substr(0, to));
  const DataTypeInfo* into = findDataTypeBySuffix(name.substr(to + kTo.size()));
  if (!from || !into) return false;
  out = {findExact("cast"), from->type, into->type};
  return true;
}

Status internalName(std::string_view guid) {
  return invalidArgument(
      base::strCat("node type '", guid.substr(0, 128), "' is the compiler's own; programs cannot use it"));
}

bool isInternalName(std::string_view name) {
  return name.ends_with("_internal") || name.starts_with("logical_");
}

}  // namespace

std::span<const GuidInfo> allGuids() {
  return kGuids;
}

StatusOr<ParsedGuid> parseGuid(std::string_view guid) {
  if (guid.empty()) return invalidArgument("the node type is empty");
  std::string lower(guid);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  std::string_view name = lower;

  ParsedGuid parsed;
  if (parseCast(name, parsed)) return parsed;
  parsed.info = findBase(name);
  if (!parsed.info && isInternalName(name)) return internalName(guid);
  std::string_view base = name;
  if (!parsed.info) {
    size_t underscore = name.rfind('_');
    if (underscore != std::string_view::npos)
      if (const DataTypeInfo* type = findDataTypeBySuffix(name.substr(underscore + 1))) {
        base = name.substr(0, underscore);
        parsed.info = findBase(base);
        parsed.type = type->type;
      }
  }
  if (!parsed.info) return unknownGuid(guid, base);
  if (parsed.info->kind == GuidClass::kInternal) return internalName(guid);
  if (parsed.info->kind == GuidClass::kTpc && parsed.type == 0)
    return invalidArgument(base::strCat("node type '", guid, "' needs the suffix of its element type, as in '",
                                        parsed.info->name, "_f32'"));
  return parsed;
}

}  // namespace hpu::synapse
