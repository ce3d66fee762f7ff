// SPDX-License-Identifier: Apache-2.0
// The primitive values of a plan, and the maps that name places (PlanGraph.cpp lowers the nodes to them).
#include "compiler/kernels/PlanBuilder.h"

#include <optional>

#include "compiler/dialect/hpu/HpuOps.h"
#include "hpu/types.h"

namespace hpu::kernels {
using namespace ir;

bool isBitcast(const Prim& prim) {
  static const ElementwiseOp* const kOp = findElementwise(kind<BitcastOp>());
  return prim.kind == Prim::Kind::Lane && prim.op == kOp;
}

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

IndexMap PlanBuilder::broadcastMap(const IndexMap& map, llvm::ArrayRef<SymInt> operandShape) const {
  IndexMap result(operandShape.size());
  size_t offset = map.size() - operandShape.size();
  for (size_t d = 0; d < operandShape.size(); ++d)
    if (operandShape[d] != 1) result[d] = map[d + offset];
  return result;
}

}  // namespace hpu::kernels
