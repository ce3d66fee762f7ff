// SPDX-License-Identifier: Apache-2.0
// tosa: constants, reductions, movement, indexing, products, Fourier transforms, and arithmetic of shapes.
#include <cmath>

#include "base/Format.h"
#include "compiler/mlir_import/MlirNode.h"
#include "compose/Fourier.h"

namespace hpu::importer {
namespace {

using base::strCat;
using shape::DimExpr;

// ---- reductions ----------------------------------------------------------------------------------

void reduce(MlirNode& n) {
  Value x = n.in(0);
  if (!x) return;
  const ForeignRow* row = findForeignRow(n.source().getName().getStringRef());
  const Ints axes{n.integer("axis")};
  const mlir::Type element = n.elementOf(x);
  const llvm::StringRef mnemonic = row->mnemonic;
  if (n.keyword("nan_mode") == "IGNORE" && n.isFloat(x)) {
    // NaN loses against everything; where all are NaN the result is one.
    Value isNan = n.op("is_nan", x);
    const double loser = mnemonic == "reduce_max" ? -INFINITY : INFINITY;
    Value best = n.op(mnemonic, n.op("where", {isNan, n.scalarLike(x, loser), x}), {{"axes", axes}});
    Value all = n.op("reduce_min", n.cast(isNan, n.i32()), {{"axes", axes}});
    return n.set(0, n.op("where", {n.cast(all, n.i1()), n.scalarLike(x, NAN), best}));
  }
  if (element.isInteger(1)) {
    Value y = n.op(mnemonic, n.cast(x, n.i32()), {{"axes", axes}});
    return n.set(0, n.cast(y, element));
  }
  n.set(0, n.op(mnemonic, x, {{"axes", axes}}));
}

void argmax(MlirNode& n) {
  Value x = n.in(0);
  if (!x) return;
  if (n.keyword("nan_mode") == "IGNORE" && n.isFloat(x))
    x = n.op("where", {n.op("is_nan", x), n.scalarLike(x, -INFINITY), x});
  n.set(0, n.cast(n.op("arg_max", x, {{"axis", n.integer("axis")}, {"keepdims", false}}), n.resultElement()));
}

// ---- movement ------------------------------------------------------------------------------------

void identity(MlirNode& n) {
  for (size_t i = 0; i < n.numOperands(); ++i) n.set(i, n.in(i));
}

void concat(MlirNode& n) {
  std::vector<Value> parts;
  for (size_t i = 0; i < n.numOperands(); ++i)
    if (parts.push_back(n.in(i)), !parts.back()) return;
  n.set(0, n.op("concat", parts, {{"axis", n.integer("axis")}}));
}

void pad(MlirNode& n) {
  Value x = n.in(0);
  std::optional<Ints> pads = n.numbers(n.source().getOperand(1));
  if (!x || !pads) return;
  const double value = n.number(2);
  Ints low, high;
  for (size_t d = 0; d + 1 < pads->size(); d += 2) low.push_back((*pads)[d]), high.push_back((*pads)[d + 1]);
  n.set(0, n.op("pad", x, {{"low", low}, {"high", high}, {"value", value}}));
}

/// Sizes of which one may be -1: what is left of the operand's elements.
void reshape(MlirNode& n) {
  Value x = n.in(0);
  std::optional<Sizes> sizes = n.sizes(n.source().getOperand(1));
  if (!x || !sizes) return;
  Size elements = NodeContext::product(NodeContext::dims(n.typeOf(x)));
  std::optional<size_t> open;
  for (size_t d = 0; d < sizes->size(); ++d) {
    if (!(*sizes)[d] || !(*sizes)[d]->isConstant() || (*sizes)[d]->constant() != -1) {
      if (elements && (*sizes)[d]) elements = elements->dividedBy(*(*sizes)[d]);
      continue;
    }
    if (open) return n.invalid("two sizes of -1");
    open = d;
  }
  if (open) (*sizes)[*open] = elements;
  ir::SymShape shape;
  for (const Size& size : *sizes) {
    if (!size) return n.node().needsSize("a size that does not follow from the others");
    shape.push_back(n.dim(size));
  }
  n.set(0, n.reshape(x, shape));
}

void reverse(MlirNode& n) {
  Value x = n.in(0);
  if (!x) return;
  const int64_t axis = n.integer("axis"), size = n.typeOf(x).getDimSize(axis);
  if (mlir::ShapedType::isDynamic(size)) return n.node().needsSize("the dimension that is reversed");
  ir::SymShape shape = n.shape(x), starts(shape.size(), ir::SymDim{0});
  Ints steps(shape.size(), 1);
  starts[axis].size = size - 1, steps[axis] = -1;
  n.set(0, n.slice(x, starts, shape, steps));
}

void slice(MlirNode& n) {
  Value x = n.in(0);
  std::optional<Sizes> starts = n.sizes(n.source().getOperand(1)), sizes = n.sizes(n.source().getOperand(2));
  if (!x || !starts || !sizes) return;
  ir::SymShape from, to, shape = n.shape(x);
  for (size_t d = 0; d < shape.size(); ++d) {
    from.push_back(n.dim((*starts)[d]));
    // -1: to the end.
    Size size = (*sizes)[d];
    if (size && size->constant() == -1 && (*starts)[d] && ir::exprOf(shape[d]))
      size = ir::exprOf(shape[d])->minus(*(*starts)[d]);
    to.push_back(n.dim(size));
  }
  n.set(0, n.slice(x, from, to, Ints(shape.size(), 1)));
}

void tile(MlirNode& n) {
  Value x = n.in(0);
  std::optional<Sizes> repeats = n.sizes(n.source().getOperand(1));
  if (!x || !repeats) return;
  // [a, b] to [1, a, 1, b], repeated along the ones.
  ir::SymShape between, wide, result, shape = n.shape(x);
  for (size_t d = 0; d < shape.size(); ++d) {
    between.push_back({1}), between.push_back(shape[d]);
    wide.push_back(n.dim((*repeats)[d])), wide.push_back(shape[d]);
    Size size = ir::exprOf(shape[d]);
    result.push_back(n.dim(size && (*repeats)[d] ? size->times(*(*repeats)[d]) : std::nullopt));
  }
  n.set(0, n.reshape(n.expand(n.reshape(x, between), wide), result));
}

void transpose(MlirNode& n) {
  n.set(0, n.transpose(n.in(0), n.ints("perms")));
}

// ---- indexing ------------------------------------------------------------------------------------

/// [N, W] to [N, W, C].
Value indicesAlong(MlirNode& n, Value indices, const ir::SymDim& channels) {
  if (!indices) return {};
  ir::SymShape shape = n.shape(indices);
  shape.push_back({1});
  Value column = n.reshape(indices, shape);
  shape.back() = channels;
  return n.expand(column, shape);
}

void gather(MlirNode& n) {
  Value x = n.in(0), indices = n.in(1);
  if (!x || !indices) return;
  n.set(0, n.op("gather_elements", {x, indicesAlong(n, indices, n.shape(x)[2])}, {{"axis", 1}}));
}

void scatter(MlirNode& n) {
  Value data = n.in(0), indices = n.in(1), updates = n.in(2);
  if (!data || !indices || !updates) return;
  n.set(0, n.op("scatter_elements", {data, indicesAlong(n, indices, n.shape(updates)[2]), updates}, {{"axis", 1}}));
}

// ---- products ------------------------------------------------------------------------------------

void matmul(MlirNode& n) {
  Value a = n.in(0), b = n.in(1);
  if (!a || !b) return;
  if (n.isFloat(a)) {
    const mlir::Type to = n.resultElement();
    return n.set(0, n.op("matmul", {n.cast(a, to), n.cast(b, to)}));
  }
  auto centred = [&](Value v, size_t zero) {
    Value wide = n.cast(v, n.f32());
    const double point = n.numOperands() > zero ? n.number(zero) : 0;
    return point == 0 ? wide : n.op("sub", {wide, n.scalarLike(wide, point)});
  };
  if (n.elementOf(a).getIntOrFloatBitWidth() > 8) return n.unsupported("products of integers of more than 8 bits");
  n.set(0, n.cast(n.exactMatmul(centred(a, 2), centred(b, 3), 255.0 * 255.0), n.resultElement()));
}

void fft(MlirNode& n) {
  const bool isReal = n.source().getNumResults() == 2 && n.numOperands() == 1;
  Value real = n.in(0), imaginary = isReal ? Value() : n.in(1);
  if (!real || (!isReal && !imaginary)) return;
  const bool isInverse = n.flag("inverse");
  std::vector<Value> inputs{real};
  if (!isReal) inputs.push_back(imaginary);
  std::vector<Value> results = n.compose(inputs, 2, [&](compose::Emitter& e, const std::vector<hpu::Value>& in) {
    const int64_t height = e.dim(in[0], 1), width = e.dim(in[0], 2);
    compose::Complex z{in[0], isReal ? hpu::Value{} : in[1]};
    z = compose::fourier(e, z, isReal ? width / 2 + 1 : width, isInverse);
    auto turned = [&](const compose::Complex& c) {
      return compose::Complex{e.transpose(c.real, {0, 2, 1}), e.transpose(c.imaginary, {0, 2, 1})};
    };
    z = turned(compose::fourier(e, turned(z), height, isInverse));
    // The inverse transform of tosa is not divided by its length.
    if (isInverse) {
      const double count = static_cast<double>(height) * static_cast<double>(width);
      z = {e.mul(z.real, count), e.mul(z.imaginary, count)};
    }
    return std::vector<hpu::Value>{z.real, z.imaginary};
  });
  n.set(0, results[0]);
  n.set(1, results[1]);
}

// ---- shapes --------------------------------------------------------------------------------------

void constShape(MlirNode& n) {
  Sizes sizes;
  for (int64_t size : n.ints("values")) sizes.emplace_back(DimExpr(size));
  n.setSizes(0, std::move(sizes));
}

void dim(MlirNode& n) {
  Value x = n.in(0);
  if (!x) return;
  n.setSizes(0, {ir::exprOf(n.shape(x)[n.integer("axis")])});
}

void concatShape(MlirNode& n) {
  Sizes all;
  for (Value operand : n.source().getOperands()) {
    std::optional<Sizes> part = n.sizes(operand);
    if (!part) return;
    all.insert(all.end(), part->begin(), part->end());
  }
  n.setSizes(0, std::move(all));
}

void shapeArithmetic(MlirNode& n) {
  std::optional<Sizes> a = n.sizes(n.source().getOperand(0)), b = n.sizes(n.source().getOperand(1));
  if (!a || !b || a->size() != b->size()) return;
  const llvm::StringRef name = findForeignRow(n.source().getName().getStringRef())->mnemonic;
  Sizes result;
  for (size_t i = 0; i < a->size(); ++i) {
    Size size;
    if ((*a)[i] && (*b)[i]) {
      const DimExpr &x = *(*a)[i], &y = *(*b)[i];
      size = name == "add"         ? x.plus(y)
             : name == "sub"       ? x.minus(y)
             : name == "mul"       ? x.times(y)
             : name == "div_floor" ? x.floorDiv(y)
             : name == "div_ceil"  ? x.ceilDiv(y)
             : name == "mod"       ? x.mod(y)
             : name == "max"       ? DimExpr::max(x, y)
                                   : DimExpr::min(x, y);
    }
    result.push_back(size);
  }
  n.setSizes(0, std::move(result));
}

constexpr ForeignRow kTensorRows[] = {
    {"tosa.argmax", argmax},
    {"tosa.concat", concat},
    {"tosa.fft2d", fft},
    {"tosa.gather", gather},
    {"tosa.identity", identity},
    {"tosa.matmul", matmul, "", "floats and i8"},
    {"tosa.pad", pad},
    {"tosa.reduce_all", reduce, "reduce_min"},
    {"tosa.reduce_any", reduce, "reduce_max"},
    {"tosa.reduce_max", reduce, "reduce_max"},
    {"tosa.reduce_min", reduce, "reduce_min"},
    {"tosa.reduce_product", reduce, "reduce_prod"},
    {"tosa.reduce_sum", reduce, "reduce_sum"},
    {"tosa.reshape", reshape},
    {"tosa.reverse", reverse},
    {"tosa.rfft2d", fft},
    {"tosa.scatter", scatter},
    {"tosa.slice", slice},
    {"tosa.tile", tile},
    {"tosa.transpose", transpose},
};

constexpr ForeignRow kShapeRows[] = {
    {"tosa.add_shape", shapeArithmetic, "add"},
    {"tosa.concat_shape", concatShape},
    {"tosa.const_shape", constShape},
    {"tosa.dim", dim},
    {"tosa.div_ceil_shape", shapeArithmetic, "div_ceil"},
    {"tosa.div_floor_shape", shapeArithmetic, "div_floor"},
    {"tosa.max_shape", shapeArithmetic, "max"},
    {"tosa.min_shape", shapeArithmetic, "min"},
    {"tosa.mod_shape", shapeArithmetic, "mod"},
    {"tosa.mul_shape", shapeArithmetic, "mul"},
    {"tosa.sub_shape", shapeArithmetic, "sub"},
};

}  // namespace

llvm::ArrayRef<ForeignRow> tosaTensorRows() {
  return kTensorRows;
}

llvm::ArrayRef<ForeignRow> tosaShapeRows() {
  return kShapeRows;
}

}  // namespace hpu::importer
