// SPDX-License-Identifier: Apache-2.0
#include "compiler/kernels/PlanBuilder.h"

#include <cmath>
#include <optional>

#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/kernels/BoxesKernel.h"
#include "compiler/kernels/OrderKernel.h"
#include "hpu/types.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

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

bool isBitcast(const Prim& prim) {
  static const ElementwiseOp* const kOp = findElementwise(kind<BitcastOp>());
  return prim.kind == Prim::Kind::Lane && prim.op == kOp;
}
/// From one float type to another.
bool isRounding(const Prim& prim) {
  static const ElementwiseOp* const kOp = findElementwise(kind<CastOp>());
  return prim.kind == Prim::Kind::Lane && prim.op == kOp && isFloatType(prim.in) && isFloatType(prim.type);
}

/// Reads that cover both.
void uniteReads(std::vector<SymDimRead>& all, const std::vector<SymDimRead>& more) {
  if (all.empty()) {
    all = more;
    return;
  }
  for (size_t d = 0; d < all.size() && d < more.size(); ++d) {
    if (all[d].dim != more[d].dim || all[d].scale != more[d].scale) {
      all[d] = {};
    } else {
      all[d].low = SymInt::min(all[d].low, more[d].low);
      all[d].high = SymInt::max(all[d].high, more[d].high);
      if (all[d].low.isUnknown() || all[d].high.isUnknown()) all[d] = {};
    }
  }
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

int signOf(const SymInt& number) {
  if (number.isConstant()) return number.value() < 0 ? -1 : 1;
  const std::optional<shape::DimExpr> expr = number.expr();
  if (!expr) return 0;
  const shape::Interval range = expr->interval();
  return range.low >= 0 ? 1 : range.high <= 0 ? -1 : 0;
}

std::vector<int64_t> PlanBuilder::mapKey(const IndexMap& map) {
  // A size is no such number.
  constexpr int64_t kEnd = INT64_MIN, kSymbolic = INT64_MIN + 1;
  std::vector<int64_t> key;
  auto add = [&](const SymInt& number) {
    if (number.isConstant()) {
      key.push_back(number.value());
      return;
    }
    auto it = llvm::find(keyed_, number);
    if (it == keyed_.end()) it = keyed_.insert(it, number);
    key.push_back(kSymbolic);
    key.push_back(it - keyed_.begin());
  };
  for (const Affine& a : map) {
    for (int d = 0; d < kMaxIterDims; ++d)
      if (!isZero(a.coef[d])) {
        key.push_back(d);
        add(a.coef[d]);
      }
    for (const Term& term : a.terms) {
      key.push_back(-1 - term.prim);
      add(term.factor);
    }
    key.push_back(kEnd);
    add(a.constant);
  }
  return key;
}

int PlanBuilder::fail(const Node& node, const std::string& why) {
  std::string what = node.name.empty() ? "an operand of a TPC kernel" : node.name + " in a TPC kernel";
  if (error_.ok()) error_ = unimplemented(what + ": " + why);
  return constant(0, isKernelType(node.type) ? node.type : ElementType::kF32);
}

int PlanBuilder::add(Prim prim) {
  plan_.prims.push_back(std::move(prim));
  return static_cast<int>(plan_.prims.size()) - 1;
}

int PlanBuilder::constant(double value, ElementType type) {
  Prim prim;
  prim.type = type;
  prim.number = value;
  prim.integer = isFloatType(type) ? 0 : static_cast<int64_t>(value);
  std::string key = "constant" + std::to_string(static_cast<int>(type));
  key.append(reinterpret_cast<const char*>(&value), sizeof value);
  auto [it, inserted] = primKeys_.emplace(key, 0);
  if (inserted) it->second = add(prim);
  return it->second;
}

int PlanBuilder::lane(mlir::TypeID op, llvm::ArrayRef<int> operands, ElementType result,
                      llvm::ArrayRef<double> params) {
  Prim prim;
  prim.kind = Prim::Kind::Lane;
  prim.op = findElementwise(op);
  prim.type = result;
  prim.operands.assign(operands.begin(), operands.end());
  prim.in = plan_.prims[operands[op == kind<WhereOp>() ? 1 : 0]].type;
  prim.params.assign(params.begin(), params.end());
  // The same op on the same values is computed once.
  std::string key = "lane";
  key.append(reinterpret_cast<const char*>(&prim.op), sizeof prim.op);
  for (int operand : operands) key.append(",").append(std::to_string(operand));
  key.append(":").append(std::to_string(static_cast<int>(result)));
  for (double p : params) key.append(reinterpret_cast<const char*>(&p), sizeof p);
  auto [it, inserted] = primKeys_.emplace(key, 0);
  if (inserted) it->second = add(std::move(prim));
  return it->second;
}

int PlanBuilder::bitsOf(int prim) {
  Prim copy = plan_.prims[prim];
  if (!isFloatType(copy.type)) return prim;
  if (isBitcast(copy)) return copy.operands[0];
  int64_t size = elementSize(copy.type);
  ElementType bits = size == 1   ? ElementType::kI8
                     : size == 2 ? ElementType::kI16
                     : size == 4 ? ElementType::kI32
                                 : ElementType::kI64;
  if (copy.kind != Prim::Kind::Load || copy.table >= 0) return lane(kind<BitcastOp>(), {prim}, bits);
  auto [it, inserted] = primKeys_.emplace("bits" + std::to_string(prim), 0);
  copy.type = bits;
  if (!inserted) return it->second;
  it->second = add(std::move(copy));
  // Its rows are shared as those of the value are.
  for (size_t i = 0, count = plan_.sharedRows.size(); i < count; ++i) {
    const llvm::SmallVector<KeyedRow, 2> rows = plan_.sharedRows[i].rows;
    if (rows.size() == 1 && rows[0].prim == prim) shareRows({{it->second, rows[0].key}});
  }
  return it->second;
}

int PlanBuilder::reduce(ReduceKind kind, int operand, uint32_t dims, ElementType type) {
  for (size_t d = 0; d < plan_.dims.size(); ++d)
    if (!plan_.dims[d].runs()) dims &= ~(1u << d);
  if (dims == 0) return kind == ReduceKind::ArgMax ? constant(0, type) : operand;
  std::string key = "reduce" + std::to_string(static_cast<int>(kind)) + "," + std::to_string(operand) + "," +
                    std::to_string(dims) + "," + std::to_string(static_cast<int>(type));
  auto [it, inserted] = primKeys_.emplace(key, 0);
  if (!inserted) return it->second;
  Prim prim;
  prim.kind = Prim::Kind::Reduce;
  prim.reduce = kind;
  prim.operands = {operand};
  prim.reduceDims = dims;
  prim.type = type;
  for (size_t d = 0; d < plan_.dims.size(); ++d)
    if (dims >> d & 1) plan_.dims[d].row = true;
  it->second = add(std::move(prim));
  return it->second;
}

/// Which elements of a dim are read at an iteration, as far as one dim of the index space tells.
SymDimRead PlanBuilder::dimRead(const Affine& affine) const {
  SymDimRead read;
  if (!affine.terms.empty()) return read;
  read.low = read.high = affine.constant;
  for (int d = 0; d < numDims(); ++d) {
    const SymInt& coef = affine.coef[d];
    if (isZero(coef) || plan_.dims[d].size == 1) continue;
    const int sign = signOf(coef);
    if (sign == 0) return {};
    if (d < plan_.rank) {
      if (read.dim >= 0 || sign < 0) return {};
      read.dim = d;
      read.scale = coef;
    } else {
      (sign < 0 ? read.low : read.high) += coef * (plan_.dims[d].size - 1);
    }
  }
  if (read.low.isUnknown() || read.high.isUnknown() || read.scale.isUnknown()) return {};
  return read.dim >= 0 ? read : SymDimRead{};
}

int PlanBuilder::load(int input, const IndexMap& map) {
  const OperandView& view = inputs_[input];
  std::vector<SymDimRead> reads;
  for (const Affine& affine : map) reads.push_back(dimRead(affine));
  plan_.reads.resize(inputs_.size());
  uniteReads(plan_.reads[input], reads);
  Prim prim;
  prim.kind = Prim::Kind::Load;
  prim.type = view.type;
  prim.source = input;
  for (size_t d = 0; d < map.size(); ++d) {
    if (view.sizes[d] == 1) continue;
    for (int i = 0; i < kMaxIterDims; ++i)
      if (!isZero(map[d].coef[i])) prim.address.coef[i] += view.strides[d] * map[d].coef[i];
    prim.address.constant += view.strides[d] * map[d].constant;
    for (const Term& term : map[d].terms) prim.address.terms.push_back({term.prim, term.factor * view.strides[d]});
  }
  return add(std::move(prim));
}

int PlanBuilder::table(Table table) {
  plan_.tables.push_back(std::move(table));
  return static_cast<int>(plan_.tables.size()) - 1;
}

int PlanBuilder::loadTable(int table, int dim) {
  Prim prim;
  prim.kind = Prim::Kind::Load;
  prim.type = plan_.tables[table].type;
  prim.table = table;
  if (dim >= 0) prim.address.coef[dim] = 1;
  return add(std::move(prim));
}

int PlanBuilder::sumOfProducts(int a, int b, int c, int d) {
  const ElementType type = computedAs(plan_.prims[a].type);
  const int sum = lane(kind<AddOp>(), {lane(kind<MulOp>(), {a, b}, type), lane(kind<MulOp>(), {c, d}, type)}, type);
  static const ElementwiseOp* const kAdd = findElementwise(kind<AddOp>());
  static const ElementwiseOp* const kMul = findElementwise(kind<MulOp>());
  const auto is = [&](int prim, const ElementwiseOp* op) {
    return plan_.prims[prim].kind == Prim::Kind::Lane && plan_.prims[prim].op == op;
  };
  plan_.prims[sum].isFused = is(sum, kAdd) && is(plan_.prims[sum].operands[0], kMul);  // Nothing was simplified.
  return sum;
}

int PlanBuilder::pricedAs(int prim, Table data) {
  if (plan_.prims[prim].priceTable < 0) plan_.prims[prim].priceTable = table(std::move(data));
  return prim;
}

int PlanBuilder::size(const SymInt& number, ElementType type) {
  if (number.isConstant()) return constant(static_cast<double>(number.value()), type);
  Prim prim;
  prim.kind = Prim::Kind::Size;
  prim.type = type;
  prim.size = number;
  auto [it, inserted] = primKeys_.emplace("size" + std::to_string(static_cast<int>(type)) + "," + number.text(), 0);
  if (inserted) it->second = add(std::move(prim));
  return it->second;
}

int PlanBuilder::index(const Affine& position) {
  Prim prim;
  prim.kind = Prim::Kind::Index;
  prim.type = ElementType::kI64;
  prim.address = position;
  return add(std::move(prim));
}

int PlanBuilder::tapCount(const TapBounds& taps, int anchor) {
  Prim prim;
  prim.kind = Prim::Kind::TapCount;
  prim.taps = taps;
  prim.anchor = anchor;
  return add(std::move(prim));
}

int PlanBuilder::updateDim(const std::string& key, const SymInt& size) {
  plan_.isOrdered = true;
  return reductionDim(key, size);
}

int PlanBuilder::loadUpdated(int input, const IndexMap& map) {
  const int prim = load(input, map);
  for (int d = plan_.rank; d < numDims(); ++d)
    if (plan_.dims[d].runs()) plan_.prims[prim].deps |= 1u << d;
  return prim;
}

int PlanBuilder::pick(int key, int row, int place) {
  Prim prim;
  prim.kind = Prim::Kind::Pick;
  prim.type = ElementType::kI64;
  prim.operands = {key};
  plan_.pickDim = row;
  plan_.placeDim = place;
  return add(std::move(prim));
}

int PlanBuilder::reductionDim(const std::string& key, const SymInt& size) {
  auto [it, inserted] = reductionDims_.emplace(key, 0);
  if (!inserted) return it->second;
  if (plan_.dims.size() >= kMaxIterDims) {
    if (error_.ok()) error_ = unimplemented("a TPC kernel reduces over too many dimensions");
    return it->second = kMaxIterDims - 1;
  }
  IterDim dim;
  dim.size = size;
  dim.row = true;
  plan_.dims.push_back(dim);
  return it->second = static_cast<int>(plan_.dims.size()) - 1;
}

int PlanBuilder::pureDim(const Affine& affine) const {
  int found = -1;
  if (!isZero(affine.constant) || !affine.terms.empty()) return -1;
  for (int d = 0; d < kMaxIterDims; ++d) {
    if (isZero(affine.coef[d])) continue;
    if (affine.coef[d] != 1 || found >= 0) return -1;
    found = d;
  }
  return found;
}

int PlanBuilder::choosePiece(int count) {
  if (pieceChosen_ && error_.ok()) error_ = unimplemented("a TPC kernel can hold one hpu.concat or hpu.pad only");
  pieceChosen_ = true;
  numPieces_ = count;
  return piece_;
}
void PlanBuilder::restrictBox(int dim, const SymInt& low, const SymInt& high) {
  SymInt &boxLow = plan_.boxLow[dim], &boxHigh = plan_.boxHigh[dim];
  const bool isConstant = low.isConstant() && high.isConstant() && boxHigh.isConstant();
  boxLow = isZero(boxLow) && !isConstant ? low : SymInt::max(boxLow, low);
  boxHigh = boxHigh == plan_.dims[dim].size && !isConstant ? high : SymInt::min(boxHigh, high);
}

int PlanBuilder::broadcastOperand(const Node& node, int operand, const IndexMap& map) {
  llvm::ArrayRef<SymInt> shape = graph_.nodes[operand].shape;
  const size_t offset = node.shape.size() - shape.size();
  for (size_t d = 0; d < shape.size(); ++d)
    if (shape[d] != 1 && mayDiffer(shape[d], node.shape[offset + d]))
      return fail(node, "an operand of size " + shape[d].text() + " for a result of size " +
                            node.shape[offset + d].text() + ", which may be another one");
  return lower(operand, broadcastMap(map, shape));
}

IndexMap PlanBuilder::broadcastMap(const IndexMap& map, llvm::ArrayRef<SymInt> operandShape) const {
  IndexMap result(operandShape.size());
  size_t offset = map.size() - operandShape.size();
  for (size_t d = 0; d < operandShape.size(); ++d)
    if (operandShape[d] != 1) result[d] = map[d + offset];
  return result;
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
      const bool isOfF32 = node.is<ErfInvOp>();
      if (!inDomain(op->domain, in) || (isOfF32 && in == ElementType::kF64))
        result = fail(node, "not defined for " + std::string(elementTypeName(in)));
      else if (node.is<BitcastOp>())
        result = lane(node.op, {bitsOf(operands[0])}, node.type);
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

/// The numbers of a plan that are known at launch, each once.
static void collectNumbers(const KernelPlan& plan, std::vector<SymInt>& numbers) {
  auto add = [&](const SymInt& number) {
    if (!number.isConstant() && !llvm::is_contained(numbers, number)) numbers.push_back(number);
  };
  auto addAddress = [&](const Affine& address) {
    for (const SymInt& coef : address.coef) add(coef);
    add(address.constant);
    for (const Term& term : address.terms) add(term.factor);
  };
  auto addTaps = [&](const std::optional<TapBounds>& taps) {
    if (!taps) return;
    add(taps->low);
    add(taps->high);
  };
  for (const IterDim& dim : plan.dims) {
    add(dim.size);
    addTaps(dim.taps);
  }
  for (const auto* box : {&plan.boxLow, &plan.boxHigh})
    for (const SymInt& end : *box) add(end);
  add(plan.windowLow);
  add(plan.windowHigh);
  for (size_t p = 0; p < plan.prims.size(); ++p) {
    const Prim& prim = plan.prims[p];
    if (!plan.reachable[p]) continue;
    addAddress(prim.address);
    addTaps(prim.taps);
    if (prim.kind == Prim::Kind::Size) add(prim.size);
  }
  for (const Store& store : plan.stores) addAddress(store.address);
}

/// A kernel that only moves f64 does not care what the bits mean: the same kernel over i64, which
/// TPCs have. Nothing when the f64 of the graph are computed with, or there are none.
static std::optional<KernelGraph> movedAsBits(const KernelGraph& graph) {
  static const auto& kMovements = *new llvm::DenseSet<mlir::TypeID>{
      kind<TransposeOp>(), kind<RelayoutOp>(),  kind<ReshapeOp>(),        kind<SliceOp>(),
      kind<ExpandOp>(),    kind<ConcatOp>(),    kind<GatherOp>(),         kind<GatherElementsOp>(),
      kind<BitcastOp>(),   kind<ScatterNdOp>(), kind<ScatterElementsOp>()};
  auto isF64 = [&](int node) { return graph.nodes[node].type == ElementType::kF64; };
  KernelGraph bits = graph;
  bool any = false;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    bool touches = isF64(static_cast<int>(i)) || llvm::any_of(node.operands, isF64);
    if (!touches) continue;
    const bool isPlusZero = node.kind == Node::Kind::Splat && node.splat == 0 && !std::signbit(node.splat);
    const bool isMoved =
        kMovements.contains(node.op) &&
        (node.op == kind<BitcastOp>() || node.intAttr("mode") == static_cast<int64_t>(ScatterMode::replace));
    if (node.kind == Node::Kind::Op ? !isMoved : node.kind == Node::Kind::Splat && !isPlusZero) return std::nullopt;
    if (node.type == ElementType::kF64) bits.nodes[i].type = ElementType::kI64;
    any = true;
  }
  if (!any) return std::nullopt;
  return bits;
}

static llvm::SmallVector<OperandView, 4> viewsAsBits(llvm::ArrayRef<OperandView> views) {
  llvm::SmallVector<OperandView, 4> bits(views.begin(), views.end());
  for (OperandView& view : bits)
    if (view.type == ElementType::kF64) view.type = ElementType::kI64;
  return bits;
}

StatusOr<PlannedKernel> planKernel(const KernelGraph& graph, llvm::ArrayRef<OperandView> inputs,
                                   llvm::ArrayRef<OperandView> outputs, const shape::SymbolBounds& bounds) {
  if (std::optional<StatusOr<PlannedKernel>> native = planNative(graph, inputs, outputs)) return *std::move(native);
  if (std::optional<StatusOr<PlannedKernel>> boxes = planBoxesKernel(graph, inputs, outputs)) return *std::move(boxes);
  if (std::optional<PlannedKernel> ordered = planOrderKernel(graph, inputs, outputs)) return *std::move(ordered);
  if (std::optional<KernelGraph> bits = movedAsBits(graph))
    return planKernel(*bits, viewsAsBits(inputs), viewsAsBits(outputs), bounds);
  // A pad of all dimensions that an operand can have: its middle and two edges each. The parts of a
  // longer concatenation are copied one by one (compiler/schedule).
  constexpr int kMaxNodes = 96, kMaxRank = 8, kMaxPieces = 1 + 2 * kMaxRank;
  if (graph.nodes.size() > kMaxNodes)
    return unimplemented("a TPC kernel of more than " + std::to_string(kMaxNodes) + " operands and ops");
  for (const OperandView& view : outputs)
    if (!isKernelType(view.type))
      return unimplemented("element type " + std::string(elementTypeName(view.type)) +
                           " is not supported by TPC kernels; compile the model with another precision");
  PlannedKernel result;
  result.numInputs = static_cast<int>(inputs.size());
  result.numOutputs = static_cast<int>(outputs.size());
  for (int piece = 0, pieces = 1; piece < pieces; ++piece) {
    PlanBuilder builder(graph, inputs, outputs, piece);
    StatusOr<KernelPlan> plan = builder.build();
    if (!plan.ok()) return plan.status();
    pieces = builder.pieces();
    if (pieces > kMaxPieces)
      return unimplemented("a concat or pad of more than " + std::to_string(kMaxPieces) + " pieces");
    std::optional<KernelPlan> ofHost;
    if (plan->isResized) ofHost = *plan;
    if (Status status = finishPlan(*plan, bounds); !status.ok()) return status;
    if (const int dim = ofHost ? hostVectorDim(*plan) : -1; dim >= 0) {
      if (Status status = finishPlan(*ofHost, bounds, dim); !status.ok()) return status;
      plan->host = std::make_shared<const KernelPlan>(*std::move(ofHost));
    }
    result.rank = static_cast<uint32_t>(plan->rank);
    for (int d = 0; d < plan->rank; ++d)
      if (plan->dims[d].row) result.wholeDims |= 1u << d;
    result.reads.resize(inputs.size());
    for (size_t i = 0; i < plan->reads.size(); ++i)
      if (!plan->reads[i].empty()) uniteReads(result.reads[i], plan->reads[i]);
    bool empty = false;
    for (int d = 0; d < plan->rank; ++d) {
      // What may have elements for some sizes has its loops.
      const std::optional<int64_t> extent = (plan->boxHigh[d] - plan->boxLow[d]).constant();
      empty |= extent && *extent <= 0;
    }
    if (!empty) result.pieces.push_back(std::move(*plan));
  }
  for (const KernelPlan& plan : result.pieces) {
    collectNumbers(plan, result.dims);
    if (plan.host) collectNumbers(*plan.host, result.dims);
  }
  for (const SymInt& number : result.dims)
    if (number.isUnknown())
      return unimplemented("a TPC kernel needs a number that no expression of the free dimensions gives");
  return result;
}

}  // namespace hpu::kernels
