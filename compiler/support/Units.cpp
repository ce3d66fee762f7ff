// SPDX-License-Identifier: Apache-2.0
#include "compiler/support/Units.h"

#include "base/Format.h"
#include "compiler/dialect/hpu/HpuOps.h"

using namespace mlir;

namespace hpu::ir {

bool isUnit(Operation* op) {
  return isa<BundleOp, ClusterOp, ConcatOp, RelayoutOp>(op);
}

namespace {

void collect(Location loc, std::string op, std::vector<SourceName>& names) {
  if (auto named = dyn_cast<NameLoc>(loc)) {
    SourceName name{named.getName().str(), op};
    if (!llvm::is_contained(names, name)) names.push_back(name);
  } else if (auto fused = dyn_cast<FusedLoc>(loc)) {
    auto kind = dyn_cast_or_null<StringAttr>(fused.getMetadata());
    for (Location inner : fused.getLocations()) collect(inner, kind ? kind.str() : op, names);
  } else if (auto call = dyn_cast<CallSiteLoc>(loc)) {
    collect(call.getCallee(), op, names);
  }
}

}  // namespace

std::vector<SourceName> sourceNames(Location loc) {
  std::vector<SourceName> names;
  collect(loc, "", names);
  return names;
}

std::vector<SourceName> unitSources(Operation* unit) {
  std::vector<SourceName> names;
  auto add = [&](Operation* op) {
    size_t before = names.size();
    collect(op->getLoc(), "", names);
    for (size_t i = before; i < names.size(); ++i)
      if (names[i].op.empty()) names[i].op = op->getName().stripDialect().str();
  };
  if (unit->getNumRegions() == 0) {
    add(unit);
  } else {
    for (Operation& op : unit->getRegion(0).front().without_terminator()) add(&op);
  }
  return names;
}

std::string unitName(Operation* unit) {
  std::vector<SourceName> names = unitSources(unit);
  if (names.empty()) return unit->getName().stripDialect().str();
  std::string text = names.front().node;
  for (size_t i = 1; i < names.size() && i < 4; ++i) text += "+" + names[i].node;
  if (names.size() > 4) text += base::strCat("+", names.size() - 4, " more");
  return text;
}

}  // namespace hpu::ir
