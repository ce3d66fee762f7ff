// SPDX-License-Identifier: Apache-2.0
// ONNX constants, shape queries, and ops that only change a tensor's shape.
#include <cmath>

#include "base/Format.h"
#include "compiler/dialect/hpu/HpuTypes.h"
#include "compiler/import/OpTable.h"
#include "compiler/interp/Elements.h"

namespace hpu::importer {
namespace {

using base::strCat;
using interp::Tensor;
using ir::SymDim;
using ir::SymShape;
using mlir::ShapedType;
using shape::DimExpr;

void convertConstant(NodeContext& node) {
  if (node.def().attributes.size() != 1) return node.invalid("needs exactly one value");
  const NodeAttribute& value = node.def().attributes[0];
  if (!value.problem.empty()) return node.unsupported(value.problem);
  Shape vector = {static_cast<int64_t>(std::max(value.ints.size(), value.floats.size()))};
  switch (value.kind) {
    case NodeAttribute::Kind::kTensor:
      node.setOutput(0, Tensor::borrow(value.tensor.type, value.tensor.data, value.tensor.owner));
      if (value.tensor.isFourBits) node.setFourBits(0);
      return;
    case NodeAttribute::Kind::kInt:
      return node.setOutput(0, Tensor::of<int64_t>(ElementType::kI64, {}, {value.i}));
    case NodeAttribute::Kind::kFloat:
      return node.setOutput(0, Tensor::of<float>(ElementType::kF32, {}, {static_cast<float>(value.f)}));
    case NodeAttribute::Kind::kInts:
      return node.setOutput(0, Tensor::of<int64_t>(ElementType::kI64, vector, value.ints));
    case NodeAttribute::Kind::kFloats: {
      std::vector<float> floats(value.floats.begin(), value.floats.end());
      return node.setOutput(0, Tensor::of<float>(ElementType::kF32, vector, floats));
    }
    default:
      return node.unsupported(strCat("the attribute '", value.name, "' (strings and sparse tensors)"));
  }
}

void convertConstantOfShape(NodeContext& node) {
  Tensor value = Tensor::of<float>(ElementType::kF32, {}, {0.0f});
  if (const NodeAttribute* attribute = node.find("value")) {
    if (!attribute->problem.empty()) return node.unsupported(attribute->problem);
    if (attribute->kind != NodeAttribute::Kind::kTensor || numElements(attribute->tensor.type.shape) != 1)
      return node.invalid("'value' must be a tensor of one element");
    value = Tensor::copyOf({attribute->tensor.type.element, {}}, attribute->tensor.data);
  }
  // As many sizes as the result has dimensions; they may yet become known.
  if (const std::optional<int64_t> rank = node.declaredRank(0); rank && node.has(0))
    if (Value data = node.isSymbolic(0) || node.constant(0) ? Value() : node.input(0))
      if (node.rank(data) == 1 && !node.fixSize(data, 0, *rank)) return;
  std::optional<ShapeElements> sizes = node.elements(0);
  if (!sizes) return node.unsupported("a shape that is not known at import");
  SymShape shape;
  for (const auto& size : sizes->values) {
    if (!size) return node.needsSize("its shape depends on a free dimension");
    if (size->isConstant() && *size->constant() < 0) return node.invalid("a negative size");
    shape.push_back(node.symDim(size));
  }
  node.setOutput(0, node.expand(node.constantTensor(value), shape));
}

void convertShape(NodeContext& node) {
  RankedTensorType type = node.inputType(0);
  if (!type) return node.invalid("input 0 has no type");
  int64_t rank = type.getRank();
  auto clamp = [&](int64_t v) { return std::clamp<int64_t>(v < 0 ? v + rank : v, 0, rank); };
  int64_t begin = clamp(node.integer("start", 0)), end = clamp(node.integer("end", rank));
  std::vector<std::optional<DimExpr>> sizes = NodeContext::dims(type);
  ShapeElements result;
  for (int64_t i = begin; i < end; ++i) result.values.push_back(sizes[i]);
  node.setOutput(0, std::move(result));
}

void convertSize(NodeContext& node) {
  RankedTensorType type = node.inputType(0);
  if (!type) return node.invalid("input 0 has no type");
  ShapeElements result;
  result.isScalar = true;
  result.values.push_back(NodeContext::product(NodeContext::dims(type)));
  node.setOutput(0, std::move(result));
}

/// In integers: large ones are none of a double's.
void convertIntegerRange(NodeContext& node, ElementType element) {
  const int64_t start = node.constant(0)->integer(0), limit = node.constant(1)->integer(0),
                delta = node.constant(2)->integer(0);
  if (delta == 0) return node.invalid("a step of zero");
  using Wide = __int128;
  const Wide distance = Wide{limit} - start, step = delta;
  const Wide length = (distance > 0) == (step > 0) ? (distance + step - (step > 0 ? 1 : -1)) / step : Wide{0};
  if (length > kMaxGenerated) return node.unsupported(strCat("more than ", kMaxGenerated, " elements"));
  std::vector<int64_t> values(static_cast<size_t>(length));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int64_t>(start + static_cast<Wide>(i) * delta);
  Tensor result = Tensor::zeros({element, {static_cast<int64_t>(values.size())}});
  interp::storeElements(element, result.writable(), 0, values.data(), values.size());
  node.setOutput(0, result);
}

/// As long as free dimensions say: integers with a known step. False when it cannot be told.
bool convertFreeRange(NodeContext& node) {
  std::optional<DimExpr> limits[2];
  ElementType element = ElementType::kInvalid;
  for (size_t i = 0; i < 2; ++i) {
    const std::optional<ShapeElements> elements = node.elements(i);
    if (!elements || elements->values.size() != 1 || !elements->values[0]) return false;
    if (element != ElementType::kInvalid && elements->element != element) return false;
    element = elements->element;
    limits[i] = elements->values[0];
  }
  const Tensor* delta = node.constant(2);
  if (!delta || delta->count() != 1 || interp::wideKind(delta->element()) == interp::Wide::kFloat) return false;
  const int64_t step = delta->integer(0);
  if (step == 0) return node.invalid("a step of zero"), true;
  constexpr int64_t kFarthest = int64_t{1} << 47;  // Beyond any dimension: makes one number, as larger ones do.
  const int64_t stride = std::clamp(step, -kFarthest, kFarthest);
  const auto distance = step > 0 ? limits[1]->minus(*limits[0]) : limits[0]->minus(*limits[1]);
  const auto count = distance ? distance->ceilDiv(std::abs(stride)) : std::nullopt;
  const auto length = count ? DimExpr::max(*count, 0) : std::nullopt;
  if (!length) return false;
  shape::SymbolBounds sizes;
  for (const std::string& name : length->symbols()) sizes[name] = {0, shape::Interval::kNoHigh};
  const std::optional<int64_t> first = limits[0]->constant();
  if (first == ShapedType::kDynamic) return false;
  const SymDim start = first ? SymDim{*first} : ir::dimOf(node.context(), *limits[0]);
  node.setOutput(0, node.range(start, ir::dimOf(node.context(), length->simplified(sizes)), step, element));
  return true;
}

void convertRange(NodeContext& node) {
  const bool isFree = node.isSymbolic(0) || node.isSymbolic(1);
  if (isFree && convertFreeRange(node)) return;
  for (size_t i = 0; i < 3; ++i) {
    if (node.constantNumber(i)) continue;
    if (node.isSymbolic(i)) return node.needsSize("its length depends on a free dimension");
    return node.unsupported("limits that are not known at import");
  }
  ElementType element = node.constant(0)->element();
  if (interp::wideKind(element) != interp::Wide::kFloat) return convertIntegerRange(node, element);
  double start = *node.constantNumber(0), limit = *node.constantNumber(1), delta = *node.constantNumber(2);
  if (delta == 0) return node.invalid("a step of zero");
  if (!std::isfinite(start) || !std::isfinite(limit) || !std::isfinite(delta))
    return node.invalid("limits that are no finite numbers");
  double length = std::max(0.0, std::ceil((limit - start) / delta));
  if (length > kMaxGenerated) return node.unsupported(strCat("more than ", kMaxGenerated, " elements"));
  std::vector<double> values(static_cast<size_t>(length));
  for (size_t i = 0; i < values.size(); ++i) values[i] = start + static_cast<double>(i) * delta;
  Tensor result = Tensor::zeros({element, {static_cast<int64_t>(values.size())}});
  interp::storeElements(element, result.writable(), 0, values.data(), values.size());
  node.setOutput(0, result);
}

/// The places of a matrix's elements as numbers that a comparison joins, [rows, 1] and [columns]: the row, counted from
/// `from`, and the column. False when a size has no expression.
bool positions(NodeContext& node, const SymDim& rows, const SymDim& columns, const DimExpr& from, Value& row,
               Value& column) {
  for (const SymDim* dim : {&rows, &columns})
    if (!ir::exprOf(*dim)) return node.needsSize("the last two dimensions of its input"), false;
  const std::optional<int64_t> first = from.constant();
  constexpr int64_t kFarthest = int64_t{1} << 47;  // Beyond any dimension, as larger ones are.
  const SymDim start = first ? SymDim{std::clamp(*first, -kFarthest, kFarthest)} : ir::dimOf(node.context(), from);
  row = node.reshape(node.range(start, rows, 1, ElementType::kI64), llvm::ArrayRef<SymDim>{rows, SymDim{1}});
  column = node.range(SymDim{0}, columns, 1, ElementType::kI64);
  return true;
}

void convertEyeLike(NodeContext& node) {
  RankedTensorType type = node.inputType(0);
  if (!type || type.getRank() != 2) return node.invalid("needs a rank-2 input");
  ElementType element = ir::elementType(type.getElementType());
  if (node.hasAttribute("dtype")) element = elementOfOnnxType(static_cast<int32_t>(node.integer("dtype", 0)));
  if (element == ElementType::kInvalid) return node.unsupported("its data type");
  if (!type.hasStaticShape()) {
    const SymShape shape = ir::symShape(type);
    Value row, column;
    if (!positions(node, shape[0], shape[1], node.integer("k", 0), row, column)) return;
    return node.setOutput(0, node.cast(node.op("equal", {row, column}), ir::mlirElementType(node.context(), element)));
  }
  int64_t rows = type.getDimSize(0), columns = type.getDimSize(1), k = node.integer("k", 0);
  if (type.getNumElements() > kMaxGenerated) return node.unsupported(strCat("more than ", kMaxGenerated, " elements"));
  Tensor eye = Tensor::zeros({element, {rows, columns}});
  double one = 1;
  for (int64_t r = 0; r < rows; ++r)
    if (r + k >= 0 && r + k < columns) interp::storeElements(element, eye.writable(), r * columns + r + k, &one, 1);
  node.setOutput(0, eye);
}

void convertTrilu(NodeContext& node) {
  Value x = node.input(0);
  if (!x) return;
  RankedTensorType type = node.typeOf(x);
  if (type.getRank() < 2) return node.invalid("needs rank 2 or more");
  int64_t rows = type.getDimSize(type.getRank() - 2), columns = type.getDimSize(type.getRank() - 1), k = 0;
  const bool upper = node.integer("upper", 1) != 0,
             isFree = ShapedType::isDynamic(rows) || ShapedType::isDynamic(columns);
  DimExpr diagonal = 0;
  if (node.has(1)) {
    const std::optional<ShapeElements> offset = node.elements(1);
    if (!offset || offset->values.size() != 1) return node.unsupported("a diagonal that is not known at import");
    if (!offset->values[0]) return node.needsSize("its diagonal depends on a free dimension");
    diagonal = *offset->values[0];
  }
  if (isFree || !diagonal.isConstant()) {
    const SymShape shape = ir::symShape(type);
    Value row, column;
    if (!positions(node, shape[shape.size() - 2], shape.back(), diagonal, row, column)) return;
    Value mask = upper ? node.op("less_equal", {row, column}) : node.op("less_equal", {column, row});
    return node.setOutput(0, node.op("where", {mask, x, node.scalarLike(x, 0)}));
  }
  k = *diagonal.constant();
  if (rows * columns > 16 * kMaxGenerated) return node.unsupported("a matrix of more than 16 M elements");
  Tensor mask = Tensor::zeros({ElementType::kBool, {rows, columns}});
  uint8_t* out = mask.writable();
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) out[r * columns + c] = upper ? c - r >= k : c - r <= k;
  node.setOutput(0, node.op("where", {node.constantTensor(mask, "mask"), x, node.scalarLike(x, 0)}));
}

void convertOneHot(NodeContext& node) {
  Value indices = node.input(0), values = node.input(2);
  std::optional<double> depth = node.constantNumber(1);
  if (!depth && node.isSymbolic(1)) return node.needsSize("its depth depends on a free dimension");
  if (!depth) return node.unsupported("a depth that is not constant");
  if (!indices || !values) return;
  if (!(*depth >= 1)) return node.invalid("a depth that is not positive");
  if (*depth > kMaxGenerated) return node.unsupported(strCat("a depth of more than ", kMaxGenerated));
  if (node.rank(values) != 1 || node.typeOf(values).getDimSize(0) != 2)
    return node.invalid(strCat("its values are ", ir::typeToString(node.typeOf(values)), ", not two of rank 1"));
  int64_t size = static_cast<int64_t>(*depth), rank = node.rank(indices) + 1;
  std::optional<int64_t> axis = node.axis(node.integer("axis", -1), rank);
  if (!axis) return;
  mlir::Type i64 = node.builder().getI64Type();
  indices = node.cast(indices, i64);
  Value wrapped = node.op("add", {indices, node.scalar(i64, static_cast<double>(size))});
  indices = node.op("where", {node.op("less", {indices, node.scalar(i64, 0)}), wrapped, indices});
  SymShape shape = ir::symShape(node.typeOf(indices));
  shape.insert(shape.begin() + *axis, SymDim{1});
  std::vector<int64_t> count(size);
  for (int64_t i = 0; i < size; ++i) count[i] = i;
  Shape countShape(rank, 1);
  countShape[*axis] = size;
  Value classes = node.constantTensor(Tensor::of<int64_t>(ElementType::kI64, countShape, count), "classes");
  Value hit = node.op("equal", {node.reshape(indices, shape), classes});
  Ints scalar;
  Value off = node.reshape(node.sliceDim(values, 0, 0, 1), scalar),
        on = node.reshape(node.sliceDim(values, 0, 1, 2), scalar);
  node.setOutput(0, node.op("where", {hit, on, off}));
}

// ---- shape changes -----------------------------------------------------------------------------

/// The sizes that Reshape asks for. `target` may hold one -1 and, unless allowZero, zeros that copy.
std::optional<SymShape> reshapeTarget(NodeContext& node, RankedTensorType type, const ShapeElements& target,
                                      bool allowZero) {
  std::vector<std::optional<DimExpr>> in = NodeContext::dims(type), rest = in, fixed;
  SymShape inShape = ir::symShape(type), out;
  int64_t inferred = -1;
  for (size_t i = 0; i < target.values.size(); ++i) {
    const std::optional<DimExpr>& size = target.values[i];
    if (!size) return node.needsSize(strCat("size ", i, " of the new shape depends on a free dimension")), std::nullopt;
    std::optional<int64_t> constant = size->constant();
    if (constant == 0 && !allowZero) {
      if (i >= in.size())
        return node.invalid(strCat("size 0 at ", i, " copies a dimension that is not there")), std::nullopt;
      out.push_back(inShape[i]);
      rest[i] = DimExpr(1);  // Cancels, also when anonymous.
      continue;
    }
    if (constant == -1) {
      if (inferred >= 0) return node.invalid("more than one -1 in the new shape"), std::nullopt;
      inferred = i;
      out.push_back({1});
      continue;
    }
    if (constant && *constant < 0) return node.invalid(strCat("a size of ", *constant)), std::nullopt;
    out.push_back(node.symDim(size));
    fixed.push_back(size);
  }
  if (inferred < 0) return out;
  std::optional<DimExpr> all = NodeContext::product(rest), known = NodeContext::product(fixed);
  auto isNumber = [](const std::optional<DimExpr>& size) { return size && size->isConstant(); };
  if (!known && llvm::all_of(fixed, isNumber))
    return node.invalid("the product of the new sizes overflows"), std::nullopt;
  if (!all || !known) {
    out[inferred] = {ShapedType::kDynamic};
    return out;
  }
  const bool areNumbers = all->isConstant() && known->isConstant();
  std::optional<DimExpr> size = *known == DimExpr(0) ? std::nullopt
                                : areNumbers         ? all->dividedBy(*known)
                                                     : all->floorDiv(*known);
  if (!size && areNumbers)
    return node.invalid(strCat("cannot reshape ", ir::typeToString(type), ": ", all->text(),
                               " elements do not divide by ", known->text())),
           std::nullopt;
  if (!size)
    return node.needsSize(strCat("the -1 in the new shape is (", all->text(), ") / (", known->text(), ")")),
           std::nullopt;
  out[inferred] = node.symDim(size);
  return out;
}

/// Of numbers only: where one dimension is free it can only have one size. False after a failure.
bool fixElements(NodeContext& node, Value x, llvm::ArrayRef<SymDim> shape) {
  constexpr int64_t kMost = int64_t{1} << 20;  // So that products are none too large.
  int64_t wanted = 1, known = 1, free = -1;
  for (const SymDim& dim : shape) {
    if (dim.isFree() || dim.size > kMost || wanted > kMost) return true;
    wanted *= dim.size;
  }
  for (auto [d, dim] : llvm::enumerate(ir::symShape(node.typeOf(x)))) {
    if (dim.isFree() && free >= 0) return true;
    if (dim.isFree())
      free = static_cast<int64_t>(d);
    else if (dim.size > kMost || known > kMost)
      return true;
    else
      known *= dim.size;
  }
  return free < 0 || known == 0 || wanted == 0 || wanted % known != 0 || node.fixSize(x, free, wanted / known);
}

/// What a product of names has that the other one has not: its number and names.
struct Factors {
  int64_t number = 1;
  std::vector<std::string> names;
};
std::optional<std::pair<Factors, Factors>> apart(const DimExpr& a, const DimExpr& b) {
  std::pair<Factors, Factors> both;
  for (auto [expr, own] : {std::pair(&a, &both.first), std::pair(&b, &both.second)}) {
    const std::vector<DimExpr::Term> terms = expr->terms();
    if (terms.size() != 1) return std::nullopt;
    own->number = terms[0].coefficient;
    for (const DimExpr::Part& part : terms[0].factors) {
      if (part.kind != DimExpr::Part::Kind::kSymbol) return std::nullopt;
      own->names.push_back(part.name);
    }
  }
  std::vector<std::string>& others = both.second.names;
  std::erase_if(both.first.names, [&](const std::string& name) {
    auto same = llvm::find(others, name);
    if (same == others.end()) return false;
    others.erase(same);
    return true;
  });
  return both;
}

/// A tensor of free dimensions to sizes that only some of theirs have as many elements as, s * t elements to 24: a
/// launch is asked whether it is of these. Anything else stays as it is.
Value asAsked(NodeContext& node, Value x, const SymShape& shape) {
  std::vector<std::optional<DimExpr>> sizes;
  for (const SymDim& dim : shape) sizes.push_back(ir::exprOf(dim));
  const std::optional<DimExpr> from = NodeContext::product(NodeContext::dims(node.typeOf(x))),
                               to = NodeContext::product(sizes);
  const auto rest = from && to ? apart(*from, *to) : std::nullopt;
  if (!rest || !rest->second.names.empty() || rest->first.names.empty()) return x;
  Value flat = node.slice(node.reshape(x, llvm::ArrayRef<SymDim>{node.symDim(from)}), llvm::ArrayRef<SymDim>{SymDim{0}},
                          llvm::ArrayRef<SymDim>{node.symDim(to)}, {1});
  if (flat && flat.getDefiningOp()) flat.getDefiningOp()->setAttr(kIsWholeAttr, node.builder().getUnitAttr());
  return flat;
}

void convertReshape(NodeContext& node) {
  Value x = node.input(0);
  if (!x) return;
  ShapeElements target;
  if (node.opset() < 5) {
    for (int64_t size : node.integers("shape")) target.values.emplace_back(DimExpr(size));
  } else {
    std::optional<ShapeElements> elements = node.elements(1);
    if (!elements) return node.unsupported("a shape that is not known at import");
    target = *elements;
  }
  const bool allowZero = node.integer("allowzero", 0) != 0;
  std::optional<SymShape> shape = reshapeTarget(node, node.typeOf(x), target, allowZero);
  if (!shape || !fixElements(node, x, *shape) || !(x = asAsked(node, x, *shape))) return;
  Value result = node.reshape(x, *shape);
  node.setOutput(0, result);
  // A size that is 0 at launch means another dimension there.
  Ints copied;
  for (auto [i, size] : llvm::enumerate(target.values))
    if (!allowZero && !size->isConstant()) copied.push_back(static_cast<int64_t>(i));
  if (auto op = result && result != x ? result.getDefiningOp() : nullptr; op && !copied.empty())
    op->setAttr(kZeroCopiesAttr, node.builder().getDenseI64ArrayAttr(copied));
}

void convertFlatten(NodeContext& node) {
  Value x = node.input(0);
  if (!x) return;
  int64_t rank = node.rank(x), axis = node.integer("axis", 1);
  if (axis < 0) axis += rank;
  if (axis < 0 || axis > rank) return node.invalid(strCat("axis ", axis, " is outside of rank ", rank));
  auto sizes = NodeContext::dims(node.typeOf(x));
  llvm::ArrayRef<std::optional<DimExpr>> all(sizes);
  SymShape whole = ir::symShape(node.typeOf(x));
  // A single dimension stays what it is, also when anonymous.
  SymDim left = axis == 1 ? whole[0] : node.symDim(NodeContext::product(all.take_front(axis)));
  SymDim right = rank - axis == 1 ? whole.back() : node.symDim(NodeContext::product(all.drop_front(axis)));
  node.setOutput(0, node.reshape(x, llvm::ArrayRef<SymDim>{left, right}));
}

void convertSqueeze(NodeContext& node) {
  Value x = node.input(0);
  bool ok;
  std::optional<Ints> axes = node.attributeOrInput("axes", 1, ok);
  if (!x || !ok) return;
  SymShape shape = ir::symShape(node.typeOf(x)), out;
  if (axes) {
    axes = node.axes(*axes, shape.size());
    if (!axes) return;
  }
  for (size_t d = 0; d < shape.size(); ++d) {
    bool isOne = !shape[d].isFree() && shape[d].size == 1;
    bool drop = axes ? llvm::is_contained(*axes, static_cast<int64_t>(d)) : isOne;
    if (!axes && shape[d].isFree()) return node.needsSize(strCat("dimension ", d, " may or may not be 1"));
    if (drop && !isOne && !shape[d].isFree())
      return node.invalid(strCat("dimension ", d, " of ", ir::typeToString(node.typeOf(x)), " is not 1"));
    if (!drop) out.push_back(shape[d]);
  }
  node.setOutput(0, node.reshape(x, out));
}

void convertUnsqueeze(NodeContext& node) {
  Value x = node.input(0);
  bool ok;
  std::optional<Ints> axes = node.attributeOrInput("axes", 1, ok);
  if (!x || !ok) return;
  if (!axes) return node.invalid("the axes are missing");
  SymShape shape = ir::symShape(node.typeOf(x)), out;
  axes = node.axes(*axes, shape.size() + axes->size());
  if (!axes) return;
  size_t next = 0;
  for (size_t d = 0; d < shape.size() + axes->size(); ++d)
    out.push_back(llvm::is_contained(*axes, static_cast<int64_t>(d)) ? SymDim{1} : shape[next++]);
  node.setOutput(0, node.reshape(x, out));
}

void convertExpand(NodeContext& node) {
  Value x = node.input(0);
  if (!x) return;
  std::optional<ShapeElements> target = node.elements(1);
  if (!target) return node.unsupported("a shape that is not known at import");
  SymShape shape;
  for (const auto& size : target->values) {
    if (!size) return node.needsSize("its shape depends on a free dimension");
    if (size->isConstant() && *size->constant() < 0) return node.invalid(strCat("a size of ", *size->constant()));
    shape.push_back(node.symDim(size));
  }
  std::optional<SymShape> joined = ir::broadcastShapes(ir::symShape(node.typeOf(x)), shape);
  if (!joined)
    return node.invalid(strCat("cannot expand ", ir::typeToString(node.typeOf(x)), " to the shape of input 1"));
  node.setOutput(0, node.expand(x, *joined));
}

constexpr size_t kMaxRank = 8;  // Of a tensor in a recipe (recipe::kMaxRank).

/// One dimension after the other, each as [outer, 1, inner] expanded: no step has more dims than a tensor may.
Value tileByDims(NodeContext& node, Value x, const Ints& repeats) {
  Ints sizes(node.typeOf(x).getShape());
  for (size_t d = 0; d < sizes.size(); ++d) {
    int64_t times = repeats[d], outer = 1, inner = 1;
    if (times == 1) continue;
    if (times < 0) return node.invalid(strCat("repeats dimension ", d, " ", times, " times")), Value();
    for (size_t i = 0; i < sizes.size(); ++i) (i < d ? outer : inner) *= sizes[i];
    Value repeated = node.expand(node.reshape(x, {outer, 1, inner}), llvm::ArrayRef<SymDim>{{outer}, {times}, {inner}});
    if (!repeated) return {};
    sizes[d] *= times;
    x = node.reshape(repeated, sizes);
  }
  return x;
}

/// As often as free dimensions say.
void convertFreeTile(NodeContext& node, Value x, const ShapeElements& repeats) {
  const SymShape shape = ir::symShape(node.typeOf(x));
  if (repeats.values.size() != shape.size()) return node.invalid("needs one repeat for each dimension");
  SymShape split, repeated, out;
  for (size_t d = 0; d < shape.size(); ++d) {
    const std::optional<DimExpr>& times = repeats.values[d];
    const std::optional<DimExpr> size = ir::exprOf(shape[d]),
                                 whole = times && size ? size->times(*times) : std::nullopt;
    if (!whole) return node.needsSize(strCat("how often it repeats dimension ", d));
    if (const std::optional<int64_t> number = times->constant(); number && *number < 0)
      return node.invalid(strCat("repeats dimension ", d, " ", *number, " times"));
    out.push_back(*times == DimExpr(1) ? shape[d] : node.symDim(whole));
    if (!(*times == DimExpr(1))) {
      split.push_back({1});
      repeated.push_back(node.symDim(times));
    }
    split.push_back(shape[d]);
    repeated.push_back(shape[d]);
  }
  if (split.size() > kMaxRank) return node.needsSize("how often it repeats this many dimensions");
  node.setOutput(0, node.reshape(node.expand(node.reshape(x, split), repeated), out));
}

void convertTile(NodeContext& node) {
  Value x = node.input(0);
  std::optional<Ints> repeats = node.constantInts(1);
  if (const std::optional<ShapeElements> free = node.isSymbolic(1) ? node.elements(1) : std::nullopt; free && x)
    return convertFreeTile(node, x, *free);
  if (!repeats) return node.unsupported("repeats that are not known at import");
  if (!x) return;
  if (node.opset() < 6) return node.unsupported("the form of before opset 6");
  SymShape shape = ir::symShape(node.typeOf(x)), split, repeated, out;
  if (repeats->size() != shape.size()) return node.invalid("needs one repeat for each dimension");
  const size_t added = llvm::count_if(*repeats, [](int64_t times) { return times != 1; });
  if (node.typeOf(x).hasStaticShape() && shape.size() + added > kMaxRank)
    return node.setOutput(0, tileByDims(node, x, *repeats));
  auto sizes = NodeContext::dims(node.typeOf(x));
  for (size_t d = 0; d < shape.size(); ++d) {
    int64_t times = (*repeats)[d];
    if (times < 0 || times > (int64_t{1} << 40))
      return node.invalid(strCat("repeats dimension ", d, " ", times, " times"));
    if (times != 1) {
      split.push_back({1});
      repeated.push_back({times});
    }
    // What lies inside of a repeated dimension goes along with it, which keeps the rank low.
    bool joins = times == 1 && d > 0 && !split.empty() && !split.back().isFree() && !shape[d].isFree();
    if (joins) {
      split.back().size *= shape[d].size;
      repeated.back().size *= shape[d].size;
    } else {
      split.push_back(shape[d]);
      repeated.push_back(shape[d]);
    }
    out.push_back(times == 1 ? shape[d]
                  : sizes[d] ? node.symDim(sizes[d]->times(DimExpr(times)))
                             : SymDim{ShapedType::kDynamic});
  }
  node.setOutput(0, node.reshape(node.expand(node.reshape(x, split), repeated), out));
}

constexpr OpRow kRows[] = {
    {"Constant", 1, kNewestOpset, convertConstant, "", "no strings, no sparse tensors"},
    {"ConstantOfShape", 9, kNewestOpset, convertConstantOfShape},
    {"Shape", 1, kNewestOpset, convertShape},
    {"Size", 1, kNewestOpset, convertSize},
    {"Range", 11, kNewestOpset, convertRange, "",
     "limits that are constant or follow from shapes, at most 1,048,576 elements"},
    {"EyeLike", 9, kNewestOpset, convertEyeLike, "", "at most 1,048,576 elements of fixed sizes"},
    {"Trilu", 14, kNewestOpset, convertTrilu, "",
     "a diagonal that is constant or follows from shapes, at most 16,777,216 elements a matrix of fixed sizes"},
    {"OneHot", 9, kNewestOpset, convertOneHot, "", "constant depth of at most 1,048,576"},
    {"Reshape", 1, kNewestOpset, convertReshape, "", "the shape follows from other shapes"},
    {"Flatten", 1, kNewestOpset, convertFlatten},
    {"Squeeze", 1, kNewestOpset, convertSqueeze, "", "constant axes"},
    {"Unsqueeze", 1, kNewestOpset, convertUnsqueeze, "", "constant axes"},
    {"Expand", 8, kNewestOpset, convertExpand, "", "the shape follows from other shapes"},
    {"Tile", 6, kNewestOpset, convertTile, "", "repeats that are constant or follow from shapes"},
};

}  // namespace

llvm::ArrayRef<OpRow> shapeRows() {
  return kRows;
}

}  // namespace hpu::importer
