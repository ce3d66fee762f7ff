// SPDX-License-Identifier: Apache-2.0
// A graph of nodes as a plan: each node by the op's own lowering or lane by lane, and what is stored of the results.
#include <optional>

#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/kernels/PlanBuilder.h"
#include "hpu/types.h"
#include "llvm/ADT/DenseMap.h"

namespace hpu::kernels {
using namespace ir;
namespace {

const OpLowering* findLowering(mlir::TypeID op) {
  static const auto& table = []() -> auto& {
    auto& map = *new llvm::DenseMap<mlir::TypeID, const OpLowering*>;
    for (llvm::ArrayRef<OpLowering> family : {rowLowerings(), windowLowerings(), movementLowerings()})
      for (const OpLowering& entry : family) map[entry.op] = &entry;
    return map;
  }();
  return table.lookup(op);
}

const StoreLowering* findStoreLowering(const Node& node) {
  if (node.kind != Node::Kind::Op) return nullptr;
  for (const StoreLowering& entry : scatterLowerings())
    if (entry.op == node.op) return &entry;
  return nullptr;
}

bool inDomain(Domain domain, ElementType type) {
  bool isFloat = isFloatType(type), isBool = type == ElementType::kBool;
  switch (domain) {
    case Domain::Float:
      return isFloat;
    case Domain::Number:
      return !isBool;
    case Domain::Integer:
      return !isFloat && !isBool;
    case Domain::Bool:
      return isBool;
    case Domain::Any:
      return true;
  }
  return false;
}

/// From one float type to another.
bool isRounding(const Prim& prim) {
  static const ElementwiseOp* const kOp = findElementwise(kind<CastOp>());
  return prim.kind == Prim::Kind::Lane && prim.op == kOp && isFloatType(prim.in) && isFloatType(prim.type);
}

std::string shapeText(llvm::ArrayRef<SymInt> shape) {
  std::string text;
  for (const SymInt& size : shape) text += (text.empty() ? "[" : ", ") + size.text();
  return text.empty() ? "[]" : text + "]";
}

/// Whether one is given late and they are not known to be the same.
bool mayDiffer(const SymInt& a, const SymInt& b) {
  if (a.isConstant() && b.isConstant()) return false;
  if (a == b) return false;
  const std::optional<shape::DimExpr> left = a.expr(), right = b.expr();
  return !left || !right || shape::DimExpr::equal(*left, *right) != true;
}

/// Sizes that depend on free dimensions are the same in both.
bool fits(const OperandView& view, const Node& node) {
  for (size_t d = 0; d < view.sizes.size() && d < node.shape.size(); ++d)
    if (mayDiffer(view.sizes[d], node.shape[d])) return false;
  return true;
}

}  // namespace

int PlanBuilder::broadcastOperand(const Node& node, int operand, const IndexMap& map) {
  llvm::ArrayRef<SymInt> shape = graph_.nodes[operand].shape;
  const size_t offset = node.shape.size() - shape.size();
  for (size_t d = 0; d < shape.size(); ++d)
    if (shape[d] != 1 && mayDiffer(shape[d], node.shape[offset + d]))
      return fail(node, "an operand of size " + shape[d].text() + " for a result of size " +
                            node.shape[offset + d].text() + ", which may be another one");
  return lower(operand, broadcastMap(map, shape));
}

int PlanBuilder::lower(int index, const IndexMap& map) {
  auto key = std::make_pair(index, mapKey(map));
  if (auto it = lowered_.find(key); it != lowered_.end()) return it->second;
  const Node& node = graph_.nodes[index];
  int result = -1;
  if (!isKernelType(node.type)) {
    result = fail(node, "element type " + std::string(elementTypeName(node.type)) +
                            " is not supported; compile the model with another precision");
  } else if (node.kind == Node::Kind::Input) {
    result = load(node.input, map);
  } else if (node.kind == Node::Kind::Splat) {
    Prim prim;
    prim.type = node.type;
    prim.number = node.splat;
    prim.integer = node.splatInt;
    result = add(prim);
  } else if (const ElementwiseOp* op = findElementwise(node.op)) {
    if (static_cast<int>(node.operands.size()) != op->arity) {
      result = fail(node, "wrong number of operands");
    } else {
      llvm::SmallVector<int, 3> operands;
      for (int operand : node.operands) operands.push_back(broadcastOperand(node, operand, map));
      llvm::SmallVector<double, 2> params;
      for (const char* name : op->params)
        if (name) params.push_back(node.floatAttr(name));
      ElementType in = graph_.nodes[node.operands[node.is<WhereOp>() ? 1 : 0]].type;
      if (!inDomain(op->domain, in))
        result = fail(node, "not defined for " + std::string(elementTypeName(in)));
      else if (node.is<BitcastOp>())
        // Of a reduction's f32 the bits are those of the type that it is rounded to.
        result =
            lane(node.op,
                 {bitsOf(plan_.prims[operands[0]].type == in ? operands[0] : lane(kind<CastOp>(), {operands[0]}, in))},
                 node.type);
      else
        result = lane(node.op, operands, node.type, params);
    }
  } else if (const OpLowering* lowering = findLowering(node.op)) {
    result = lowering->lower(*this, node, map);
  } else {
    result = fail(node, "the op is not one that TPC kernels can compute");
  }
  lowered_[key] = result;
  return result;
}

void PlanBuilder::finishStore(Store store) {
  // Storing rounds in the same way, but an f64 it would round twice.
  while (isRounding(plan_.prims[store.prim]) && plan_.prims[store.prim].in != ElementType::kF64 &&
         plan_.prims[store.prim].type == store.type && elementSize(store.type) < 4)
    store.prim = plan_.prims[store.prim].operands[0];
  // What is only moved, and bits that were computed with, are stored as they are: storing a narrow float quietens
  // NaNs and bounds fp8.
  if (isFloatType(store.type)) {
    const Prim& stored = plan_.prims[store.prim];
    bool isMoved =
        stored.kind == Prim::Kind::Load && stored.table < 0 && stored.type == store.type && elementSize(store.type) < 4;
    if (isMoved || (isBitcast(stored) && stored.type == store.type)) {
      store.prim = bitsOf(store.prim);
      store.type = plan_.prims[store.prim].type;
    }
  }
  plan_.stores.push_back(store);
}

StatusOr<KernelPlan> PlanBuilder::build() {
  if (graph_.results.empty()) return invalidArgument("a kernel needs an output");
  if (static_cast<int>(inputs_.size()) != graph_.numInputs || outputs_.size() != graph_.results.size())
    return invalidArgument("a kernel's operands do not match its body");
  for (const Node& node : graph_.nodes) {
    if (node.kind != Node::Kind::Input) continue;
    const OperandView& view = inputs_[node.input];
    if (view.type != node.type || view.sizes.size() != node.shape.size() || view.strides.size() != view.sizes.size())
      return invalidArgument("input " + std::to_string(node.input) + " of a kernel has the view " +
                             shapeText(view.sizes) + " for the shape " + shapeText(node.shape));
    if (!fits(view, node))
      return invalidArgument("input " + std::to_string(node.input) + " of a kernel has the sizes " +
                             shapeText(view.sizes) + " where its body says " + shapeText(node.shape));
  }
  const OperandView& first = outputs_[0];
  plan_.rank = static_cast<int>(first.sizes.size());
  if (plan_.rank > 8) return unimplemented("a TPC kernel of rank " + std::to_string(plan_.rank));
  for (int d = 0; d < plan_.rank; ++d) {
    IterDim dim;
    dim.size = first.sizes[d];
    dim.indexDim = d;
    plan_.dims.push_back(dim);
    plan_.boxLow.push_back(0);
    plan_.boxHigh.push_back(first.sizes[d]);
  }
  for (size_t k = 0; k < outputs_.size(); ++k) {
    const OperandView& view = outputs_[k];
    const Node& result = graph_.nodes[graph_.results[k]];
    if (view.sizes.size() != result.shape.size() || view.strides.size() != view.sizes.size() ||
        view.type != result.type)
      return invalidArgument("output " + std::to_string(k) + " of a kernel does not fit its view");
    if (!fits(view, result))
      return invalidArgument("output " + std::to_string(k) + " of a kernel has the sizes " + shapeText(view.sizes) +
                             " where its body says " + shapeText(result.shape));
    // Outputs have the index space's shape, or 1 where a row was reduced.
    if (static_cast<int>(view.sizes.size()) != plan_.rank)
      return unimplemented("outputs of a TPC kernel must have one rank");
    IndexMap map(plan_.rank);
    Store store;
    store.output = static_cast<int>(k);
    store.type = view.type;
    for (int d = 0; d < plan_.rank; ++d) {
      if (view.sizes[d] == 1 && plan_.dims[d].size != 1) continue;
      if (view.sizes[d] != plan_.dims[d].size)
        return unimplemented("outputs of a TPC kernel must have one shape; got " + shapeText(view.sizes) + " beside " +
                             shapeText(first.sizes));
      map[d].coef[d] = 1;
      store.dims |= 1u << d;
      if (view.sizes[d] != 1) store.address.coef[d] = view.strides[d];
    }
    if (const StoreLowering* lowering = findStoreLowering(result)) {
      if (outputs_.size() != 1) return unimplemented(result.name + " is the only result of its TPC kernel");
      StoreLowering::Result lowered = lowering->lower(*this, result, map);
      store.prim = lowered.prim;
      store.condition = lowered.condition;
      for (int d = 0; d < plan_.rank; ++d) {
        if (lowered.placed >> d & 1) {
          plan_.dims[d].placed = plan_.dims[d].row = true;
          store.dims &= ~(1u << d);
          store.address.coef[d] = 0;
          for (const Term& term : lowered.places[d].terms)
            store.address.terms.push_back({term.prim, term.factor * view.strides[d]});
        }
      }
      if (plan_.placeDim >= 0) store.address.coef[plan_.placeDim] = view.strides[plan_.placeDim];
      if (plan_.isOrdered)
        for (int d = plan_.rank; d < numDims(); ++d) store.dims |= 1u << d;
    } else {
      store.prim = lower(graph_.results[k], map);
    }
    if (error_.ok()) finishStore(store);
  }
  if (!error_.ok()) return error_;
  // What is stored fewer times than the index space has points must not vary with the missing dims,
  // which must be rows, so that no two calls write it.
  for (const Store& store : plan_.stores)
    for (int d = 0; d < plan_.rank; ++d)
      if (!(store.dims >> d & 1) && !plan_.dims[d].row)
        return unimplemented("outputs of a TPC kernel must have one shape, unless a reduction made them smaller");
  return std::move(plan_);
}

}  // namespace hpu::kernels
