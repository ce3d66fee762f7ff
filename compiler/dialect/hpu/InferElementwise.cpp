// SPDX-License-Identifier: Apache-2.0
// Result types of the elementwise ops.
#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/dialect/hpu/TensorOf.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace hpu::ir;

namespace {

LogicalResult sameType(Value x, SmallVectorImpl<Type>& result) {
  RankedTensorType type = tensorOf(x);
  result.push_back(tensorType(symShape(type), type.getElementType()));
  return success();
}

LogicalResult broadcast(std::optional<Location> loc, ArrayRef<Value> operands, Type element,
                        SmallVectorImpl<Type>& result) {
  SymShape shape;
  for (Value operand : operands) {
    std::optional<SymShape> joined = broadcastShapes(shape, symShape(tensorOf(operand)));
    if (!joined)
      return emitOptionalError(loc, "shapes do not broadcast: ", tensorType(shape, element), " and ",
                               operand.getType());
    shape = *joined;
  }
  result.push_back(tensorType(shape, element));
  return success();
}

LogicalResult binary(std::optional<Location> loc, Value lhs, Value rhs, Type element, SmallVectorImpl<Type>& result) {
  if (tensorOf(lhs).getElementType() != tensorOf(rhs).getElementType())
    return emitOptionalError(loc, "element types differ: ", lhs.getType(), " and ", rhs.getType());
  return broadcast(loc, {lhs, rhs}, element, result);
}

}  // namespace

#define HPU_INFER_SAME(Op)                                                                       \
  LogicalResult Op::inferReturnTypes(MLIRContext*, std::optional<Location>, Op::Adaptor adaptor, \
                                     SmallVectorImpl<Type>& result) {                            \
    return sameType(adaptor.getX(), result);                                                     \
  }
#define HPU_INFER_BINARY(Op)                                                                                     \
  LogicalResult Op::inferReturnTypes(MLIRContext*, std::optional<Location> loc, Op::Adaptor adaptor,             \
                                     SmallVectorImpl<Type>& result) {                                            \
    return binary(loc, adaptor.getLhs(), adaptor.getRhs(), tensorOf(adaptor.getLhs()).getElementType(), result); \
  }
#define HPU_INFER_COMPARE(Op)                                                                                \
  LogicalResult Op::inferReturnTypes(MLIRContext* context, std::optional<Location> loc, Op::Adaptor adaptor, \
                                     SmallVectorImpl<Type>& result) {                                        \
    return binary(loc, adaptor.getLhs(), adaptor.getRhs(), IntegerType::get(context, 1), result);            \
  }

HPU_INFER_SAME(ReluOp)
HPU_INFER_SAME(SigmoidOp)
HPU_INFER_SAME(TanhOp)
HPU_INFER_SAME(ErfOp)
HPU_INFER_SAME(ExpOp)
HPU_INFER_SAME(LogOp)
HPU_INFER_SAME(SqrtOp)
HPU_INFER_SAME(RsqrtOp)
HPU_INFER_SAME(ReciprocalOp)
HPU_INFER_SAME(NegOp)
HPU_INFER_SAME(AbsOp)
HPU_INFER_SAME(FloorOp)
HPU_INFER_SAME(CeilOp)
HPU_INFER_SAME(RoundOp)
HPU_INFER_SAME(SinOp)
HPU_INFER_SAME(CosOp)
HPU_INFER_SAME(AtanOp)
HPU_INFER_SAME(Expm1Op)
HPU_INFER_SAME(Log1pOp)
HPU_INFER_SAME(ErfInvOp)
HPU_INFER_SAME(LgammaOp)
HPU_INFER_SAME(BitNotOp)
HPU_INFER_SAME(SoftplusOp)
HPU_INFER_SAME(SiluOp)
HPU_INFER_SAME(HardSwishOp)
HPU_INFER_SAME(SignOp)
HPU_INFER_SAME(NotOp)
HPU_INFER_SAME(LeakyReluOp)
HPU_INFER_SAME(EluOp)
HPU_INFER_SAME(HardSigmoidOp)
HPU_INFER_SAME(ClipOp)
HPU_INFER_SAME(GeluOp)
HPU_INFER_BINARY(AddOp)
HPU_INFER_BINARY(SubOp)
HPU_INFER_BINARY(MulOp)
HPU_INFER_BINARY(DivOp)
HPU_INFER_BINARY(PowOp)
HPU_INFER_BINARY(MaxOp)
HPU_INFER_BINARY(MinOp)
HPU_INFER_BINARY(ModOp)
HPU_INFER_BINARY(PreluOp)
HPU_INFER_BINARY(AndOp)
HPU_INFER_BINARY(OrOp)
HPU_INFER_BINARY(XorOp)
HPU_INFER_BINARY(BitAndOp)
HPU_INFER_BINARY(BitOrOp)
HPU_INFER_BINARY(BitXorOp)
HPU_INFER_BINARY(ShiftLeftOp)
HPU_INFER_BINARY(ShiftRightOp)
HPU_INFER_COMPARE(EqualOp)
HPU_INFER_COMPARE(LessOp)
HPU_INFER_COMPARE(LessEqualOp)
HPU_INFER_COMPARE(GreaterOp)
HPU_INFER_COMPARE(GreaterEqualOp)

LogicalResult IsNanOp::inferReturnTypes(MLIRContext* context, std::optional<Location>, Adaptor adaptor,
                                        SmallVectorImpl<Type>& result) {
  result.push_back(tensorType(symShape(tensorOf(adaptor.getX())), IntegerType::get(context, 1)));
  return success();
}

LogicalResult CastOp::inferReturnTypes(MLIRContext*, std::optional<Location> loc, Adaptor adaptor,
                                       SmallVectorImpl<Type>& result) {
  if (elementType(adaptor.getTo()) == hpu::ElementType::kInvalid)
    return emitOptionalError(loc, "cast to an unknown element type ", adaptor.getTo());
  result.push_back(tensorType(symShape(tensorOf(adaptor.getX())), adaptor.getTo()));
  return success();
}

LogicalResult BitcastOp::inferReturnTypes(MLIRContext*, std::optional<Location> loc, Adaptor adaptor,
                                          SmallVectorImpl<Type>& result) {
  Type from = tensorOf(adaptor.getX()).getElementType(), to = adaptor.getTo();
  for (Type type : {from, to})
    if (elementType(type) == hpu::ElementType::kInvalid)
      return emitOptionalError(loc, "bitcast of an unknown element type ", type);
  if (from.getIntOrFloatBitWidth() != to.getIntOrFloatBitWidth())
    return emitOptionalError(loc, "a bitcast keeps the width: ", from, " has ", from.getIntOrFloatBitWidth(), " bits, ",
                             to, " has ", to.getIntOrFloatBitWidth());
  result.push_back(tensorType(symShape(tensorOf(adaptor.getX())), to));
  return success();
}

LogicalResult WhereOp::inferReturnTypes(MLIRContext*, std::optional<Location> loc, Adaptor adaptor,
                                        SmallVectorImpl<Type>& result) {
  if (!tensorOf(adaptor.getCondition()).getElementType().isInteger(1))
    return emitOptionalError(loc, "the condition must have element type i1, not ", adaptor.getCondition().getType());
  Type element = tensorOf(adaptor.getA()).getElementType();
  if (element != tensorOf(adaptor.getB()).getElementType())
    return emitOptionalError(loc, "element types differ: ", adaptor.getA().getType(), " and ",
                             adaptor.getB().getType());
  return broadcast(loc, {adaptor.getCondition(), adaptor.getA(), adaptor.getB()}, element, result);
}

LogicalResult BatchNormOp::inferReturnTypes(MLIRContext*, std::optional<Location>, Adaptor adaptor,
                                            SmallVectorImpl<Type>& result) {
  return sameType(adaptor.getX(), result);
}
