// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/ResizeToSize.h"

#include "base/Format.h"
#include "compiler/dialect/hpu/HpuTypes.h"

namespace hpu::importer {
namespace {

using ir::SymDim;
using ir::SymShape;

/// f32 numbers that follow from sizes: of rank 0, or one for each position of the result.
class Positions {
 public:
  explicit Positions(NodeContext& node) : node_(node), f32_(mlir::Float32Type::get(node.context())) {}
  Value number(double value) { return node_.scalar(f32_, value); }
  /// A size as data.
  Value size(const SymDim& dim) {
    if (!dim.isFree()) return number(static_cast<double>(dim.size));
    return node_.cast(node_.range(dim, SymDim{1}, 1, ElementType::kI64), f32_);
  }
  Value upTo(const SymDim& dim) { return node_.cast(node_.range(SymDim{0}, dim, 1, ElementType::kI64), f32_); }
  Value op(llvm::StringRef mnemonic, mlir::ValueRange operands) { return node_.op(mnemonic, operands); }

 private:
  NodeContext& node_;
  mlir::Type f32_;
};

/// ResizeDim::coordinate of each position of the result.
Value coordinates(Positions& f32, const SymDim& from, const FreeResize& to) {
  const Value in = f32.size(from), out = f32.size(to.size), one = f32.number(1), half = f32.number(0.5);
  Value x = f32.upTo(to.size);
  switch (to.coordinates) {
    case ir::CoordMode::half_pixel:
    case ir::CoordMode::half_pixel_symmetric:  // Differs where a scale gives the size, which is rounded then.
    case ir::CoordMode::pytorch_half_pixel:
      x = f32.op("sub", {f32.op("div", {f32.op("add", {x, half}), f32.op("div", {out, in})}), half});
      // The last puts a single element at 0.
      if (to.coordinates == ir::CoordMode::pytorch_half_pixel)
        x = f32.op("mul", {x, f32.op("min", {f32.op("sub", {out, one}), one})});
      break;
    case ir::CoordMode::align_corners:
      x = f32.op("div",
                 {f32.op("mul", {x, f32.op("sub", {in, one})}), f32.op("max", {f32.op("sub", {out, one}), one})});
      break;
    case ir::CoordMode::asymmetric:
      x = f32.op("div", {x, f32.op("div", {out, in})});
      break;
  }
  return x;
}

/// What is outside of the input reads the element at its edge.
Value inside(Positions& f32, Value x, const SymDim& from) {
  return f32.op("min", {f32.op("max", {x, f32.number(0)}), f32.op("sub", {f32.size(from), f32.number(1)})});
}

Value gathered(NodeContext& node, Value x, Value elements, int64_t dim) {
  const Value indices = node.cast(elements, ir::mlirElementType(node.context(), ElementType::kI64));
  return node.op("gather", {x, indices}, {{"axis", dim}});
}

}  // namespace

Value resizedToSize(NodeContext& node, Value x, const FreeResize& to) {
  const SymDim from = ir::symShape(node.typeOf(x))[to.dim];
  if ((from.isFree() && !from.isNamed()) || (to.size.isFree() && !to.size.isNamed()) ||
      (to.mode == ir::ResizeMode::linear && !node.isFloat(x)))
    return node.needsSize(base::strCat("dimension ", to.dim, ", which it resizes")), Value();
  if (from == SymDim{1}) {  // Every position reads the only element.
    SymShape shape = ir::symShape(node.typeOf(x));
    shape[to.dim] = to.size;
    return node.expand(x, shape);
  }
  Positions f32(node);
  const Value at = coordinates(f32, from, to), half = f32.number(0.5);
  if (to.mode == ir::ResizeMode::nearest) {
    Value element = at;
    switch (to.nearest) {
      case ir::NearestMode::round_prefer_floor:
        element = f32.op("ceil", {f32.op("sub", {at, half})});
        break;
      case ir::NearestMode::round_prefer_ceil:
        element = f32.op("floor", {f32.op("add", {at, half})});
        break;
      case ir::NearestMode::floor:
        element = f32.op("floor", {at});
        break;
      case ir::NearestMode::ceil:
        element = f32.op("ceil", {at});
        break;
    }
    return gathered(node, x, inside(f32, element, from), to.dim);
  }
  const Value clamped = inside(f32, at, from), low = f32.op("floor", {clamped}), high = f32.op("ceil", {clamped});
  Value weight = f32.op("sub", {clamped, low});
  // As LinearTap: on an element, both are that one at half the weight, so that an infinity next to it is not read.
  const Value on = f32.op("equal", {weight, f32.number(0)});
  weight = node.op("where", {on, half, weight});
  SymShape along(static_cast<size_t>(node.rank(x) - to.dim), SymDim{1});
  along[0] = to.size;
  const Value first = node.widened(gathered(node, x, low, to.dim));
  const Value second = node.widened(gathered(node, x, high, to.dim));
  if (node.failed()) return {};
  weight = node.cast(node.reshape(weight, along), node.elementOf(first));
  const Value mixed = f32.op("add", {f32.op("mul", {first, f32.op("sub", {node.scalarLike(weight, 1), weight})}),
                                     f32.op("mul", {second, weight})});
  return node.cast(mixed, node.elementOf(x));
}

}  // namespace hpu::importer
