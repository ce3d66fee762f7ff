// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/EqualSizes.h"

#include <set>

#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/dialect/hpu/HpuTypes.h"
#include "compiler/dialect/hpu/TensorOf.h"
#include "compiler/import/ImportState.h"
#include "mlir/IR/Builders.h"

namespace hpu::importer {

using namespace mlir;
using ir::SymDim;
using ir::SymShape;
using shape::DimExpr;

namespace {

/// On a module: pairs of names that have one representative.
constexpr llvm::StringLiteral kEqualSizesAttr = "hpu.equal_sizes";
/// On a module: by input, the names of its sizes before it took those of others.
constexpr llvm::StringLiteral kDeclaredSizesAttr = "hpu.declared_sizes";

SymShape shapeOf(mlir::Value value) {
  return ir::symShape(ir::tensorOf(value));
}

}  // namespace

struct EqualSizes::Finder {
  EqualSizes& sizes;
  std::map<std::string, size_t> places = {};  ///< Where a name is first among the inputs.

  /// With the names that stand for others: what is repeated where a size is 1 is then one of two that are the same.
  std::optional<DimExpr> known(const SymDim& dim) const {
    const std::optional<DimExpr> expr = ir::exprOf(dim);
    if (!expr || expr->isConstant()) return expr;
    std::map<std::string, std::string> names;
    for (const std::string& name : expr->symbols()) names[name] = sizes.standFor(name);
    return expr->renamed(names);
  }
  void joinNames(const std::string& a, const std::string& b) {
    std::string first = sizes.standFor(a), second = sizes.standFor(b);
    if (first > second) std::swap(first, second);
    if (first != second) sizes.same_[second] = first;
  }
  /// The names of a product of names in the order of the inputs.
  std::vector<std::string> factors(const DimExpr& expr) const {
    std::vector<std::string> names;
    const std::vector<DimExpr::Term> terms = expr.terms();
    if (terms.size() != 1 || terms[0].coefficient != 1) return {};
    for (const DimExpr::Part& part : terms[0].factors) {
      if (part.kind != DimExpr::Part::Kind::kSymbol) return {};
      names.push_back(part.name);
    }
    auto place = [&](const std::string& name) {
      auto found = places.find(name);
      return found == places.end() ? places.size() : found->second;
    };
    llvm::stable_sort(names, [&](const std::string& x, const std::string& y) { return place(x) < place(y); });
    return names;
  }
  void join(const SymDim& a, const SymDim& b) {
    const std::optional<DimExpr> x = known(a), y = known(b);
    if (!x || !y || *x == *y) return;
    for (const auto& [name, other] : {std::pair(&x, &y), std::pair(&y, &x)})
      // One of 1 may be repeated along the other.
      if (const auto number = (*name)->isConstant() ? std::nullopt : (*other)->constant(); number && *number > 1)
        if (const auto solved = solvedFor(**name, *number)) sizes.numbers_.insert(*solved);
    if (x->asSymbol() && y->asSymbol()) return joinNames(*x->asSymbol(), *y->asSymbol());
    // Dimensions that were made one: each with its own.
    const std::vector<std::string> ours = factors(*x), theirs = factors(*y);
    if (ours.size() == theirs.size())
      for (size_t i = 0; i < ours.size(); ++i) joinNames(ours[i], theirs[i]);
  }
  void align(ArrayRef<SymDim> a, ArrayRef<SymDim> b) {
    for (size_t i = 1; i <= std::min(a.size(), b.size()); ++i) join(a[a.size() - i], b[b.size() - i]);
  }
  void visit(Operation& op) {
    if (auto concat = dyn_cast<ir::ConcatOp>(&op)) {
      const SymShape first = shapeOf(concat.getInputs().front());
      for (mlir::Value input : concat.getInputs().drop_front())
        for (auto [d, dim] : llvm::enumerate(shapeOf(input)))
          if (d != concat.getAxis()) join(first[d], dim);
      return;
    }
    if (auto expand = dyn_cast<ir::ExpandOp>(&op)) return align(shapeOf(expand.getX()), shapeOf(expand.getResult()));
    if (auto matmul = dyn_cast<ir::MatMulOp>(&op)) {
      const SymShape left = shapeOf(matmul.getLhs()), right = shapeOf(matmul.getRhs());
      join(left.back(), right[right.size() - 2]);
      return align(ArrayRef(left).drop_back(2), ArrayRef(right).drop_back(2));
    }
    if (auto scatter = dyn_cast<ir::ScatterElementsOp>(&op)) {
      const SymShape indices = shapeOf(scatter.getIndices()), updates = shapeOf(scatter.getUpdates());
      for (size_t d = 0; d < indices.size() && d < updates.size(); ++d)
        if (!(d == scatter.getAxis() && scatter.getAdvance())) join(indices[d], updates[d]);
      return;
    }
    if (auto scatter = dyn_cast<ir::ScatterNdOp>(&op)) {
      const SymShape data = shapeOf(scatter.getData()), indices = shapeOf(scatter.getIndices()),
                     updates = shapeOf(scatter.getUpdates());
      const size_t outer = indices.size() - 1;
      if (indices.back().isFree()) return;
      const auto depth = static_cast<size_t>(indices.back().size);
      for (size_t d = 0; d < updates.size() && (d < outer || d - outer + depth < data.size()); ++d)
        join(updates[d], d < outer ? indices[d] : data[d - outer + depth]);
      return;
    }
    auto joinChannels = [&](mlir::Value x, mlir::Value w, unsigned along, uint64_t groups) {
      if (groups == 1) join(shapeOf(x)[1], shapeOf(w)[along]);
    };
    if (auto conv = dyn_cast<ir::Conv2dOp>(&op)) return joinChannels(conv.getX(), conv.getW(), 1, conv.getGroups());
    if (auto conv = dyn_cast<ir::ConvTranspose2dOp>(&op))
      return joinChannels(conv.getX(), conv.getW(), 0, conv.getGroups());
    if (isa<ir::LayerNormOp>(&op)) {
      for (mlir::Value parameter : op.getOperands().drop_front()) align(shapeOf(parameter), shapeOf(op.getOperand(0)));
      return;
    }
    if (isa<ir::BatchNormOp>(&op)) {
      for (mlir::Value parameter : op.getOperands().drop_front())
        join(shapeOf(parameter)[0], shapeOf(op.getOperand(0))[1]);
      return;
    }
    auto hpuOp = dyn_cast<ir::HpuOp>(&op);
    if (!hpuOp || !hpuOp.isElementwise()) return;
    for (unsigned i = 1; i < op.getNumOperands(); ++i)
      for (unsigned j = 0; j < i; ++j) align(shapeOf(op.getOperand(i)), shapeOf(op.getOperand(j)));
  }
};

EqualSizes::EqualSizes(func::FuncOp main) {
  Finder finder{*this};
  for (BlockArgument argument : main.getArguments())
    for (const SymDim& dim : shapeOf(argument))
      if (const std::optional<DimExpr> expr = ir::exprOf(dim))
        for (const std::string& name : expr->symbols()) finder.places.emplace(name, finder.places.size());
  for (Operation& op : main.getBody().front()) finder.visit(op);
}

std::map<std::string, int64_t> EqualSizes::fixed() const {
  std::map<std::string, int64_t> byOne, all;
  for (const auto& [name, number] : numbers_) byOne.emplace(standFor(name), number);
  for (const auto& [name, number] : numbers_) all[name] = byOne.at(standFor(name));
  for (const auto& [name, other] : same_)
    if (auto found = byOne.find(standFor(name)); found != byOne.end()) all[name] = all[other] = found->second;
  return all;
}

std::string EqualSizes::standFor(std::string name) const {
  for (auto found = same_.find(name); found != same_.end(); found = same_.find(name)) name = found->second;
  return name;
}

void EqualSizes::record(ModuleOp module, const shape::SymbolBindings& sizes) const {
  Builder builder(module.getContext());
  SmallVector<mlir::Attribute> same;
  for (const auto& [name, size] : sizes)
    if (const std::string one = standFor(name); one != name && sizes.count(one))
      same.push_back(builder.getStrArrayAttr({one, name}));
  if (!same.empty()) module->setAttr(kEqualSizesAttr, builder.getArrayAttr(same));
}

std::vector<std::pair<std::string, std::string>> equalSizes(ModuleOp module) {
  std::vector<std::pair<std::string, std::string>> pairs;
  if (auto all = module->getAttrOfType<ArrayAttr>(kEqualSizesAttr))
    for (auto pair : all.getAsRange<ArrayAttr>())
      pairs.emplace_back(cast<StringAttr>(pair[0]).str(), cast<StringAttr>(pair[1]).str());
  return pairs;
}

void renameInputs(ModuleOp module, const std::map<std::string, std::string>& same) {
  auto main = module.lookupSymbol<func::FuncOp>("main");
  std::set<std::string> names;
  for (const auto& [one, other] : equalSizes(module)) names.insert({one, other});
  if (!main || names.empty()) return;
  Builder builder(module.getContext());
  SmallVector<NamedAttribute> declared;
  for (BlockArgument argument : main.getArguments()) {
    const RankedTensorType type = ir::tensorOf(argument);
    SymShape shape = ir::symShape(type);
    SmallVector<mlir::Attribute> old;
    bool isRenamed = false;
    for (SymDim& dim : shape) {
      old.push_back(dim.isNamed() ? dim.symbol : builder.getStringAttr(""));
      auto other = dim.isNamed() ? same.find(dim.symbol.str()) : same.end();
      if (other == same.end() || !names.count(other->first)) continue;
      dim.symbol = builder.getStringAttr(other->second);
      isRenamed = true;
    }
    auto input = main.getArgAttrOfType<StringAttr>(argument.getArgNumber(), "hpu.name");
    if (!isRenamed || !input) continue;
    declared.push_back(builder.getNamedAttr(input, builder.getArrayAttr(old)));
    argument.setType(ir::withOrder(ir::tensorType(shape, type.getElementType()), ir::physicalOrder(type)));
  }
  if (!declared.empty()) module->setAttr(kDeclaredSizesAttr, builder.getDictionaryAttr(declared));
}

ArrayAttr declaredSizes(ModuleOp module, llvm::StringRef input) {
  auto all = module->getAttrOfType<DictionaryAttr>(kDeclaredSizesAttr);
  return all ? all.getAs<ArrayAttr>(input) : ArrayAttr();
}

}  // namespace hpu::importer
