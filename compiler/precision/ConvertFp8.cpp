// SPDX-License-Identifier: Apache-2.0
// Matrix products on 8-bit operands: x / scale is stored as codes, the product of the codes (accumulated in
// f32, stored in bf16) is multiplied by both scales behind it.
#include <cstdio>

#include "compiler/dialect/hpu/HpuTypes.h"
#include "compiler/dialect/hpu/TensorOf.h"
#include "compiler/precision/ConvertConstant.h"
#include "compiler/precision/Converter.h"
#include "compiler/support/DiagnosticCapture.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace hpu::ir;

namespace hpu::precision {
namespace {

/// Scales in full, so that others can compute with them.
std::string rangeText(double largest, double scale) {
  char text[80];
  snprintf(text, sizeof text, "max %.6g scale %.17g", largest, scale);
  return text;
}

}  // namespace

Value Converter::scalar(Location loc, Type element, double value) {
  auto type = RankedTensorType::get({}, element);
  return ConstantOp::create(builder_, loc, type,
                            DenseElementsAttr::get(type, builder_.getFloatAttr(element, value).getValue()));
}

/// The codes of root * factor; `factor` null: of root itself.
Value Converter::codesOf(Operation* op, Value root, Value factor) {
  Value scaled = root;
  if (factor) {
    if (tensorOf(factor).getElementType() != tensorOf(scaled).getElementType())
      scaled = CastOp::create(builder_, op->getLoc(), scaled, tensorOf(factor).getElementType());
    scaled = MulOp::create(builder_, op->getLoc(), scaled, factor);
  }
  ++eight_;
  return CastOp::create(builder_, op->getLoc(), scaled, mlirElementType(op->getContext(), fp8_.element));
}

/// The views between `root` and `value`, over the codes of root.
Value Converter::viewsOf(Value value, Value root, Value codes) {
  if (value == root) return codes;
  auto key = std::pair(value.getAsOpaquePointer(), codes.getAsOpaquePointer());
  if (Value made = views_.lookup(key)) return made;
  Operation* view = value.getDefiningOp();
  IRMapping mapping;
  mapping.map(view->getOperand(0), viewsOf(view->getOperand(0), root, codes));
  builder_.setInsertionPointAfter(view);
  Operation* copy = builder_.clone(*view, mapping);
  copy->getResult(0).setType(tensorOf(value).clone(mlirElementType(view->getContext(), fp8_.element)));
  return views_[key] = copy->getResult(0);
}

FailureOr<Converter::Quantised> Converter::quantiseConstant(Operation* op, Value value, std::string& text) {
  Value root = rootOf(value);
  auto constant = root.getDefiningOp<ConstantOp>();
  std::optional<double> largest = largestMagnitude(constant.getValue());
  if (!largest) return missingData(constant);
  const double scale = chooseScale(fp8_, *largest);
  text = rangeText(*largest, scale);
  Quantised& made = quantised_[{root.getAsOpaquePointer(), scale}];
  if (!made.codes) {
    Type element = mlirElementType(op->getContext(), fp8_.element);
    builder_.setInsertionPointAfter(constant);
    made.codes = ConstantOp::create(builder_, constant.getLoc(), tensorOf(root).clone(element),
                                    narrowConstant(constant.getValue(), element, scale));
    made.scale = scale;
    constantBytes_ += tensorOf(root).getNumElements();
    ++eight_;
  }
  Quantised result = made;
  result.codes = viewsOf(value, root, made.codes);
  return result;
}

/// The scale is max|x| / largest, in f32, of the whole tensor.
Converter::Quantised Converter::quantiseDynamically(Operation* op, Value root) {
  Location loc = op->getLoc();
  Value largest = largestAtRunTime(builder_, loc, root);
  Type f32 = builder_.getF32Type();
  // A tensor of zeros has a scale as well.
  largest = MaxOp::create(builder_, loc, largest, scalar(loc, f32, 1e-12));
  Quantised made;
  made.dynamicScale = MulOp::create(builder_, loc, largest, scalar(loc, f32, 1 / fp8_.largest));
  Value factor = ReciprocalOp::create(builder_, loc, made.dynamicScale);
  made.codes = codesOf(op, root, factor);
  return made;
}

FailureOr<Converter::Quantised> Converter::quantise(Operation* op, int index, std::string& text) {
  Value value = op->getOperand(index);
  if (isConstantLike(value)) return quantiseConstant(op, value, text);
  // Below the views may lie the cast of an input: its f32 is rounded once instead of twice.
  Value root = rootOf(value), source = root;
  if (root.getDefiningOp<CastOp>())
    if (Value wide = other_.lookup(root); wide && tensorOf(wide).getElementType().isF32()) source = wide;
  double scale = 0;  // Dynamic.
  text = "dynamic";
  if (!options_.ranges.empty()) {
    std::string name = rangeName(productNames_[op], index);
    auto range = options_.ranges.find(name);
    if (range == options_.ranges.end()) {
      failed_ = true;
      withCode(StatusCode::kInvalidArgument, op->emitError())
          << "there is no calibrated range '" << name << "'; calibrate this model with the same shapes and options";
      return failure();
    }
    scale = chooseScale(fp8_, range->second * kActivationHeadroom);
    text = rangeText(range->second, scale);
  }
  Quantised& made = quantised_[{source.getAsOpaquePointer(), scale}];
  if (!made.codes) {
    if (auto argument = dyn_cast<BlockArgument>(root))
      builder_.setInsertionPointToStart(argument.getOwner());
    else
      builder_.setInsertionPointAfterValue(root);
    if (scale == 0) {
      made = quantiseDynamically(op, source);
    } else {
      Value factor;
      if (scale != 1) factor = scalar(op->getLoc(), tensorOf(source).getElementType(), 1 / scale);
      made.codes = codesOf(op, source, factor);
      made.scale = scale;
    }
  }
  Quantised result = made;
  result.codes = viewsOf(value, root, made.codes);
  return result;
}

/// The product of the codes times both scales. Powers of two are exact in bf16; others are applied in f32.
Value Converter::rescaled(Operation* op, Value product, const Quantised& a, const Quantised& b) {
  Location loc = op->getLoc();
  const double known = a.scale * b.scale;
  if (!a.dynamicScale && !b.dynamicScale)
    return known == 1 ? product : Value(MulOp::create(builder_, loc, product, scalar(loc, narrowType_, known)));
  Value scale;
  for (Value part : {a.dynamicScale, b.dynamicScale})
    if (part) scale = scale ? Value(MulOp::create(builder_, loc, scale, part)) : part;
  Type f32 = builder_.getF32Type();
  if (known != 1) scale = MulOp::create(builder_, loc, scale, scalar(loc, f32, known));
  Value wide = CastOp::create(builder_, loc, product, f32);
  return CastOp::create(builder_, loc, MulOp::create(builder_, loc, wide, scale), narrowType_);
}

LogicalResult Converter::convertToFp8(Operation* op) {
  std::string texts[2];
  FailureOr<Quantised> a = quantise(op, 0, texts[0]);
  if (failed(a)) return failure();
  FailureOr<Quantised> b = quantise(op, 1, texts[1]);
  if (failed(b)) return failure();
  line(op, elementTypeName(fp8_.element), "a: " + texts[0] + ", b: " + texts[1]);
  op->setOperand(0, a->codes);
  op->setOperand(1, b->codes);
  Value result = op->getResult(0);
  result.setType(tensorOf(result).clone(narrowType_));
  original_.insert(result);
  ++narrow_;
  SmallVector<OpOperand*> uses;
  for (OpOperand& use : result.getUses()) uses.push_back(&use);
  builder_.setInsertionPointAfter(op);
  Value scaled = rescaled(op, result, *a, *b);
  for (OpOperand* use : uses) use->set(scaled);
  original_.insert(scaled);
  // What a run-time scale gives is f32 before it is narrowed: what needs f32 reads that.
  if (auto narrowed = scaled.getDefiningOp<CastOp>()) other_[scaled] = narrowed.getX();
  return success();
}

}  // namespace hpu::precision
