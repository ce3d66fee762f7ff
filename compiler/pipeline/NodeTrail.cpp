// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline/NodeTrail.h"

#include <algorithm>
#include <set>

#include "base/Clip.h"
#include "base/Format.h"
#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/dialect/hpu/TensorOf.h"
#include "compiler/dialect/sched/SchedOps.h"
#include "compiler/memory/Memory.h"
#include "compiler/support/Units.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace hpu::ir;

namespace hpu::pipeline {

// Not those of hpu/graph.h.
using mlir::Attribute;
using mlir::Value;

namespace {

constexpr size_t kMostLines = 6;  // Of one list.

std::string joined(ArrayRef<std::string> items, size_t most = kMostLines) {
  std::string text;
  for (size_t i = 0; i < std::min(items.size(), most); ++i) text += (i ? ", " : "") + items[i];
  if (items.size() > most) text += ", and " + std::to_string(items.size() - most) + " more";
  return text;
}

std::string numbers(ArrayRef<int64_t> values) {
  std::string text = "[";
  for (auto [i, value] : llvm::enumerate(values)) text += (i ? ", " : "") + std::to_string(value);
  return text + "]";
}

/// "relu -> 1x64x56x56xf32"
std::string opText(Operation* op) {
  std::string text = op->getName().stripDialect().str();
  if (op->getNumResults() > 0)
    if (auto type = dyn_cast<RankedTensorType>(op->getResult(0).getType())) text += " -> " + typeToString(type);
  return text;
}

bool isNamePart(char c) {
  return llvm::isAlnum(c) || c == '_' || c == '/' || c == '.' || c == ':';
}

/// The line speaks of the node, and not of one whose name only begins or ends like it.
bool mentions(StringRef line, StringRef node) {
  for (size_t at = line.find(node); at != StringRef::npos; at = line.find(node, at + 1)) {
    size_t end = at + node.size();
    bool whole =
        (at == 0 || !isNamePart(line[at - 1])) && (end == line.size() || !isNamePart(line[end]) ||
                                                   (line[end] == ':' && end + 1 < line.size() && line[end + 1] == ' '));
    if (whole) return true;
  }
  return false;
}

std::vector<std::string> similarNames(const std::set<std::string>& names, StringRef node) {
  std::vector<std::pair<unsigned, std::string>> ranked;
  std::string lower = node.lower();
  for (const std::string& name : names) {
    bool inside = StringRef(name).lower().find(lower) != std::string::npos;
    unsigned distance =
        inside ? 0 : StringRef(name).edit_distance(node, true, static_cast<unsigned>(node.size() / 2 + 1));
    if (distance <= node.size() / 2) ranked.emplace_back(distance, name);
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> best;
  for (size_t i = 0; i < std::min<size_t>(ranked.size(), 5); ++i) best.push_back("'" + ranked[i].second + "'");
  return best;
}

/// "; the model's nodes are 'a', 'b' and 7 more".
std::string someNames(const std::set<std::string>& names) {
  constexpr size_t kMost = 5;
  std::vector<std::string> shown;
  for (const std::string& name : names)
    if (shown.size() < kMost && !name.empty()) shown.push_back("'" + base::clipped(name) + "'");
  if (shown.empty()) return {};
  return "; the model's nodes are " + joined(shown) +
         (names.size() > shown.size() ? " and " + std::to_string(names.size() - shown.size()) + " more" : "");
}

std::string producerName(mlir::Value value) {
  for (Operation* def; (def = value.getDefiningOp());) {
    auto op = dyn_cast<HpuOp>(def);
    if (isUnit(def) || !op || !op.isView()) return isa<ConstantOp>(def) ? "a constant" : unitName(def);
    value = def->getOperand(0);
  }
  return "an input";
}

void readersOf(mlir::Value value, std::vector<std::string>& names) {
  for (Operation* user : value.getUsers()) {
    auto op = dyn_cast<HpuOp>(user);
    if (op && op.isView() && !isUnit(user))
      readersOf(user->getResult(0), names);
    else
      names.push_back(isa<func::ReturnOp>(user) ? "the model's output" : unitName(user));
  }
}

}  // namespace

bool NodeTrail::isMine(Operation* op) const {
  return llvm::any_of(sourceNames(op->getLoc()), [&](const SourceName& source) { return source.node == node_; });
}

Status NodeTrail::begin(ModuleOp module) {
  std::set<std::string> names;
  module.walk([&](Operation* op) {
    if (isa<ModuleOp, func::FuncOp>(op)) return;   // Their name is the model's.
    if (isa<func::ReturnOp, YieldOp>(op)) return;  // What ends a body is the node's whose body it is.
    for (const SourceName& source : sourceNames(op->getLoc())) names.insert(source.node);
  });
  if (names.count(node_)) return okStatus();
  // A part of a name will do when only one has it.
  std::vector<std::string> holders;
  for (const std::string& name : names)
    if (name.find(node_) != std::string::npos) holders.push_back(name);
  if (holders.size() == 1 && !node_.empty()) {
    node_ = holders.front();
    return okStatus();
  }
  std::vector<std::string> similar = similarNames(names, node_);
  return notFound("no operation comes from a node named '" + node_ +
                  "': it is not in the model, or was evaluated while the model was read (constants, shapes)" +
                  (!similar.empty() ? "; did you mean " + joined(similar) + "?" : someNames(names)));
}

void NodeTrail::record(Phase phase, ModuleOp module, const std::string& report) {
  if (gone_) return;
  std::vector<std::string> lines;
  if (module.lookupSymbol<func::FuncOp>("main"))
    graph(phase, module, lines);
  else
    program(phase, module, lines);
  SmallVector<StringRef> said;
  StringRef(report).split(said, '\n', -1, false);
  size_t kept = 0;
  for (StringRef line : said)
    if (mentions(line, node_) && ++kept <= kMostLines) lines.push_back(line.trim().str());
  for (std::string& line : lines) notes_.push_back({phases()[static_cast<size_t>(phase)].name, std::move(line)});
}

void NodeTrail::graph(Phase phase, ModuleOp module, std::vector<std::string>& lines) {
  auto function = module.lookupSymbol<func::FuncOp>("main");
  std::vector<std::string> ops, others;
  llvm::SetVector<Operation*> units;
  function.walk([&](Operation* op) {
    if (op == function.getOperation() || isa<func::ReturnOp, YieldOp, BundleOp, ClusterOp>(op) || !isMine(op)) return;
    if (!isa<ConstantOp>(op))
      ops.push_back(opText(op));
    else
      others.push_back("a constant of " + typeToString(tensorOf(op->getResult(0))));
    for (const SourceName& source : sourceNames(op->getLoc()))
      if (source.node != node_ && ops.size() == 1) others.push_back(source.node);
    Operation* outer = op->getBlock() == &function.getBody().front() ? op : op->getParentOp();
    if (isUnit(outer)) units.insert(outer);
  });
  if (ops.empty() && others.empty()) {
    lines.push_back("nothing is left of it: what it computes is a constant now, belongs to another op, or is not used");
    gone_ = true;
    return;
  }
  std::vector<std::string> now;
  if (!ops.empty())
    now.push_back(joined(ops) + (others.empty() ? "" : "  (one with " + joined(others) + ")"));
  else
    now.push_back("only " + joined(others) + " is left of it");
  if (now != before_) lines.insert(lines.end(), now.begin(), now.end());
  before_ = now;
  for (Operation* op : units) unit(phase, op, lines);
  if (phase == Phase::k_fuse && units.empty()) lines.push_back("a view: no unit, it is read through strides");
}

void NodeTrail::unit(Phase phase, Operation* unit, std::vector<std::string>& lines) const {
  std::string kind = isa<BundleOp>(unit) ? "bundle" : isa<ClusterOp>(unit) ? "cluster" : "copy";
  if (phase == Phase::k_fuse) {
    std::vector<std::string> members, from, to;
    if (unit->getNumRegions())
      for (Operation& op : unit->getRegion(0).front().without_terminator())
        members.push_back(op.getName().stripDialect().str() + (isMine(&op) ? "*" : ""));
    for (mlir::Value operand : unit->getOperands()) from.push_back(producerName(operand));
    for (mlir::Value result : unit->getResults()) readersOf(result, to);
    lines.push_back(kind + " '" + unitName(unit) + "'" + (members.empty() ? "" : " of " + joined(members, 12)));
    lines.push_back("reads " + joined(from) + "; read by " + joined(to));
  } else if (phase == Phase::k_layout) {
    for (mlir::Value result : unit->getResults())
      lines.push_back("result " + typeToString(tensorOf(result)) + " in the order " +
                      numbers(physicalOrder(tensorOf(result))));
  } else if (phase == Phase::k_tile) {
    if (auto tile = unit->getAttrOfType<TileAttr>("tile"))
      lines.push_back("slices of " + numbers(tile.getSizes()) +
                      (isa<BundleOp>(unit) ? ", " + std::to_string(tile.getSlots()) + " at a time in SRAM" : ""));
  } else if (phase == Phase::k_memory) {
    memory::Sections sections = memory::sectionsOf(unit->getParentOfType<func::FuncOp>());
    auto place = [&](mlir::Value value) -> std::string {
      std::optional<memory::Location> location = memory::locate(value);
      if (!location) return "a constant";
      unsigned section = location->section;
      std::string where = section < sections.inputs        ? "input " + std::to_string(section)
                          : section < sections.constants() ? "output " + std::to_string(section - sections.inputs)
                          : section == sections.sram()     ? "SRAM"
                                                           : "workspace";
      return where + " +" + std::to_string(location->offset) + " strides " + numbers(location->view.strides);
    };
    std::vector<std::string> in, out;
    for (mlir::Value operand : unit->getOperands()) in.push_back(place(operand));
    for (mlir::Value result : unit->getResults()) out.push_back(place(result));
    lines.push_back("writes " + joined(out) + "; reads " + joined(in));
    if (std::optional<memory::RingInfo> ring = memory::ringOf(unit))
      lines.push_back("SRAM +" + std::to_string(ring->offset) + ", " + std::to_string(ring->slots) + " slots of " +
                      base::formatBytes(ring->slotBytes) + " along dim " + std::to_string(ring->dim));
  }
}

void NodeTrail::program(Phase phase, ModuleOp module, std::vector<std::string>& lines) const {
  auto program = module.lookupSymbol<sched::ProgramOp>("main");
  if (!program || (phase != Phase::k_schedule && phase != Phase::k_kernels)) return;
  auto names = [&](Operation* op) {
    auto sources = op->getAttrOfType<ArrayAttr>("sources");
    return sources && llvm::any_of(sources, [&](mlir::Attribute source) {
             return cast<StringAttr>(cast<ArrayAttr>(source)[0]).getValue() == node_;
           });
  };
  bool any = false;
  for (Operation& op : program.getBody().front()) {
    if (!isa<sched::MmeOp, sched::TpcOp, sched::DmaOp>(op) || !names(&op)) continue;
    any = true;
    StringRef symbol = cast<SymbolOpInterface>(op).getName();
    if (phase == Phase::k_kernels) {
      auto tpc = dyn_cast<sched::TpcOp>(op);
      Operation* kernel = tpc ? SymbolTable::lookupSymbolIn(program, tpc.getKernelAttr()) : nullptr;
      auto cost = kernel ? kernel->getAttrOfType<DenseF64ArrayAttr>("cost") : DenseF64ArrayAttr();
      if (!cost || cost.size() != 4) continue;
      char text[160];
      snprintf(text, sizeof text,
               "%s runs @%s: per point %.3g loads, %.3g stores, %.3g vector and %.3g scalar instructions",
               symbol.str().c_str(), tpc.getKernel().str().c_str(), cost[0], cost[1], cost[2], cost[3]);
      lines.push_back(text);
      continue;
    }
    int64_t runs = 0, waits = 0;
    program.walk([&](sched::RunOp run) {
      if (run.getOp() != symbol) return;
      ++runs;
      if (run.getWaits()) waits += static_cast<int64_t>(run.getWaits()->size()) / 2;
    });
    lines.push_back("@" + symbol.str() + " (" + op.getName().stripDialect().str() + "): " + std::to_string(runs) +
                    " commands, " + std::to_string(waits) + " waits");
  }
  if (!any && phase == Phase::k_schedule) lines.push_back("no command: nothing of it is left to do on an engine");
}

}  // namespace hpu::pipeline
