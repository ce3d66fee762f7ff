// SPDX-License-Identifier: Apache-2.0
#include "tools/hccl-sim/Arguments.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "base/Suggest.h"

namespace hpu::tools {
namespace {

using base::strCat;
using collectives::Fabric;
using collectives::ModelConstant;
using collectives::NodeException;

StatusOr<int64_t> wholeFrom(std::string_view text, int64_t least, int64_t most, std::string_view what) {
  StatusOr<int64_t> value = base::parseInt(text);
  if (!value.ok() || *value < least || *value > most)
    return invalidArgument(strCat(what, " '", text, "' is not a whole number from ", least, " to ", most));
  return value;
}

StatusOr<double> numberOf(std::string_view text, std::string_view what) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value))
    return invalidArgument(strCat(what, ": '", text, "' is not a number"));
  return value;
}

/// "A:B"; both texts.
StatusOr<std::pair<std::string_view, std::string_view>> pairOf(std::string_view text, std::string_view what,
                                                               std::string_view form) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return invalidArgument(strCat(what, ": '", text, "' is not ", form));
  return std::pair(text.substr(0, colon), text.substr(colon + 1));
}

NodeException& exceptionAt(Fabric& fabric, int32_t node) {
  auto at = std::lower_bound(fabric.exceptions.begin(), fabric.exceptions.end(), node,
                             [](const NodeException& e, int32_t n) { return e.node < n; });
  if (at == fabric.exceptions.end() || at->node != node) {
    at = fabric.exceptions.insert(at, NodeException());
    at->node = node;
  }
  return *at;
}

Status changeRails(Fabric& fabric, int32_t nodes, const WhatIf& change) {
  const std::string what = "what-if " + change.text();
  HPU_ASSIGN(auto parts, pairOf(change.value, what, "NODE:RAIL"));
  HPU_ASSIGN(int64_t node, wholeFrom(parts.first, 0, nodes - 1, what + ": the node"));
  HPU_ASSIGN(int64_t rail, wholeFrom(parts.second, 0, fabric.rails - 1, what + ": the rail"));
  std::vector<int32_t>& down = exceptionAt(fabric, static_cast<int32_t>(node)).railsDown;
  const auto at = std::lower_bound(down.begin(), down.end(), static_cast<int32_t>(rail));
  if (at == down.end() || *at != rail) down.insert(at, static_cast<int32_t>(rail));
  return okStatus();
}

Status slowNode(Fabric& fabric, int32_t nodes, const WhatIf& change) {
  const std::string what = "what-if " + change.text();
  HPU_ASSIGN(auto parts, pairOf(change.value, what, "NODE:FACTOR"));
  HPU_ASSIGN(int64_t node, wholeFrom(parts.first, 0, nodes - 1, what + ": the node"));
  HPU_ASSIGN(double rate, numberOf(parts.second, what));
  if (!(rate >= collectives::kLeastNodeRate && rate <= 1))
    return invalidArgument(strCat(what, ": the factor must be from ", collectives::kLeastNodeRate, " to 1"));
  exceptionAt(fabric, static_cast<int32_t>(node)).rate = rate;
  return okStatus();
}

Status changeConstant(Fabric& fabric, const WhatIf& change) {
  const ModelConstant* known = collectives::findConstant(fabric, change.name);
  if (!known) {
    std::vector<std::string> names = {"rails-down", "slow-node", "oversubscription", "nodes-per-leaf"};
    for (const ModelConstant& constant : fabric.constants) names.push_back(constant.name);
    return invalidArgument(strCat("what-if ", change.text(), ": there is no '", change.name, "'; there are ",
                                  base::join(names), base::didYouMean(change.name, names)));
  }
  HPU_ASSIGN(double value, numberOf(change.value, "what-if " + change.text()));
  ModelConstant constant = *known;
  constant.source = strCat("a what-if; was ", constant.value, ": ", constant.source);
  constant.value = value;
  constant.low = std::min(constant.low, value);
  constant.high = std::max(constant.high, value);
  if (Status status = collectives::setConstant(fabric, std::move(constant)); !status.ok())
    return invalidArgument(strCat("what-if ", change.text(), ": ", status.message()));
  return okStatus();
}

}  // namespace

StatusOr<std::vector<int32_t>> parseNodeCounts(const std::vector<std::string>& texts) {
  if (texts.empty()) return invalidArgument("--nodes N: how many nodes? (or give a file with --topology)");
  std::vector<int32_t> counts;
  for (const std::string& text : texts) {
    HPU_ASSIGN(int64_t count, wholeFrom(text, 1, kMostDevices, "--nodes:"));
    if (std::find(counts.begin(), counts.end(), count) != counts.end())
      return invalidArgument(strCat("--nodes: ", count, " comes twice"));
    counts.push_back(static_cast<int32_t>(count));
  }
  return counts;
}

Status checkDevices(int64_t nodes, int64_t devicesPerNode) {
  if (nodes * devicesPerNode <= kMostDevices) return okStatus();
  return invalidArgument(strCat("--nodes ", nodes, ": ", nodes, " x ", devicesPerNode, " are ", nodes * devicesPerNode,
                                " devices; at most ", kMostDevices, " are simulated"));
}

StatusOr<std::vector<int32_t>> parseRanks(const std::vector<std::string>& texts, int32_t ranks) {
  std::vector<int32_t> list;
  for (const std::string& text : texts) {
    const size_t dash = text.find('-', 1);
    HPU_ASSIGN(int64_t first, wholeFrom(std::string_view(text).substr(0, dash), 0, ranks - 1, "--ranks: rank"));
    int64_t last = first;
    if (dash != std::string::npos) {
      HPU_ASSIGN(last, wholeFrom(std::string_view(text).substr(dash + 1), first, ranks - 1, "--ranks: rank"));
    }
    for (int64_t rank = first; rank <= last; ++rank) list.push_back(static_cast<int32_t>(rank));
  }
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
  return list;
}

StatusOr<std::vector<int64_t>> parseArrivals(const std::vector<std::string>& texts, int32_t ranks) {
  std::vector<int64_t> arrivals;
  std::vector<bool> given(static_cast<size_t>(ranks));
  for (const std::string& text : texts) {
    HPU_ASSIGN(auto parts, pairOf(text, "--late", "RANK:US"));
    HPU_ASSIGN(int64_t rank, wholeFrom(parts.first, 0, ranks - 1, "--late: rank"));
    HPU_ASSIGN(double us, numberOf(parts.second, "--late"));
    constexpr double kMostUs = 1e9;
    if (us < 0 || us > kMostUs) return invalidArgument(strCat("--late ", text, ": give 0 to 1e9 microseconds"));
    if (given[static_cast<size_t>(rank)]) return invalidArgument(strCat("--late: rank ", rank, " comes twice"));
    given[static_cast<size_t>(rank)] = true;
    arrivals.resize(static_cast<size_t>(ranks), 0);
    arrivals[static_cast<size_t>(rank)] = std::llround(us * 1e6);
  }
  return arrivals;
}

StatusOr<WhatIf> parseWhatIf(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
    return invalidArgument(strCat("--what-if '", text, "' is not NAME=VALUE, as in oversubscription=2"));
  return WhatIf{text.substr(0, equals), text.substr(equals + 1)};
}

StatusOr<std::vector<WhatIf>> parseSweep(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    return invalidArgument(strCat("--sweep '", text, "' is not NAME=VALUE,VALUE, as in oversubscription=1,2,4"));
  std::vector<WhatIf> values;
  for (size_t at = equals + 1; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    WhatIf value{text.substr(0, equals), text.substr(at, comma - at)};
    if (value.value.empty()) return invalidArgument(strCat("--sweep '", text, "' has an empty value"));
    for (const WhatIf& other : values)
      if (other.value == value.value)
        return invalidArgument(strCat("--sweep '", text, "' has ", value.value, " twice"));
    values.push_back(std::move(value));
    at = comma + 1;
  }
  return values;
}

StatusOr<Fabric> changed(Fabric fabric, int32_t nodes, const std::vector<WhatIf>& changes,
                         std::vector<std::string>& notes) {
  for (const WhatIf& change : changes) {
    const std::string what = "what-if " + change.text();
    if (change.name == "rails-down") {
      HPU_RETURN_IF_ERROR(changeRails(fabric, nodes, change));
    } else if (change.name == "slow-node") {
      HPU_RETURN_IF_ERROR(slowNode(fabric, nodes, change));
    } else if (change.name == "nodes-per-leaf") {
      HPU_ASSIGN(int64_t perLeaf, wholeFrom(change.value, 1, kMostDevices, what + ":"));
      fabric.nodesPerLeaf = static_cast<int32_t>(perLeaf);
    } else if (change.name == "oversubscription") {
      HPU_ASSIGN(fabric.oversubscription, numberOf(change.value, what));
    } else {
      HPU_RETURN_IF_ERROR(changeConstant(fabric, change));
    }
  }
  // A leaf's uplinks need leaves: of a fabric with one switch, two are made unless it is said how many.
  if (fabric.nodesPerLeaf == 0 && fabric.oversubscription != 1 && nodes > 1) {
    fabric.nodesPerLeaf = (nodes + 1) / 2;
    notes.push_back(strCat("'", fabric.name, "' has one switch and so no uplinks: two leaves of ", fabric.nodesPerLeaf,
                           " nodes are assumed (nodes-per-leaf=K says otherwise)"));
  }
  if (Status status = collectives::checkFabric(fabric); !status.ok()) {
    std::string all;
    for (const WhatIf& change : changes) all += strCat(all.empty() ? "" : ",", change.text());
    return changes.empty() ? status : invalidArgument(strCat("what-if ", all, ": ", status.message()));
  }
  return fabric;
}

}  // namespace hpu::tools
