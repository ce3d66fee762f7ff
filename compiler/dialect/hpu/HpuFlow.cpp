// SPDX-License-Identifier: Apache-2.0
// Loops and branches: checks.
#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/dialect/hpu/HpuTypes.h"

using namespace mlir;
using namespace hpu::ir;

namespace {

LogicalResult verifyStatic(Operation* op) {
  auto isStatic = [](Type type) { return cast<RankedTensorType>(type).hasStaticShape(); };
  if (llvm::all_of(op->getOperandTypes(), isStatic) && llvm::all_of(op->getResultTypes(), isStatic)) return success();
  return op->emitOpError("has operands or results of free sizes");
}

LogicalResult verifyOneElement(Operation* op, Value value, unsigned width, const char* what) {
  if (!value) return success();
  auto type = cast<RankedTensorType>(value.getType());
  if (type.getElementType().isSignlessInteger(width) && type.getNumElements() == 1) return success();
  return op->emitOpError() << "has a " << what << " of type " << type << ", which needs one element of i" << width;
}

/// The block takes `arguments` and yields `results`.
LogicalResult verifyBody(Operation* op, Region& region, TypeRange arguments, TypeRange results) {
  Block& body = region.front();
  if (!compatibleTypes(body.getArgumentTypes(), arguments))
    return op->emitOpError() << "has a body that takes (" << body.getArgumentTypes() << ") and is given (" << arguments
                             << ")";
  auto yield = body.empty() ? YieldOp() : dyn_cast<YieldOp>(body.back());
  if (!yield) return op->emitOpError("has a body that does not end with a yield");
  if (!compatibleTypes(yield.getValues().getTypes(), results))
    return op->emitOpError() << "has a body that yields (" << yield.getValues().getTypes() << ") in place of ("
                             << results << ")";
  return success();
}

RankedTensorType sliceType(Type whole) {
  auto type = cast<RankedTensorType>(whole);
  return RankedTensorType::get(type.getShape().drop_front(), type.getElementType());
}

}  // namespace

LogicalResult LoopOp::verify() {
  if (failed(verifyStatic(*this))) return failure();
  if (failed(verifyOneElement(*this, getCount(), 64, "count")) ||
      failed(verifyOneElement(*this, getCondition(), 1, "condition")))
    return failure();
  constexpr uint64_t kMostTrips = uint64_t{1} << 31;  // recipe::kMaxPartTrips.
  if (getTrips() < 1 || getTrips() > kMostTrips)
    return emitOpError() << "runs at most " << static_cast<int64_t>(getTrips()) << " times; that must be 1 to "
                         << kMostTrips;
  if (getNumResults() < getCarried().size()) return emitOpError("has fewer results than carried values");
  if (!compatibleTypes(getCarried().getTypes(), getFinals().getTypes()))
    return emitOpError("has results of other types than its carried values");
  if (getScannedBackwards().size() != getScanned().size() || getCollectedBackwards().size() != getCollected().size())
    return emitOpError("does not have one direction for each scanned and collected value");
  auto hasSlices = [&](Value value) {
    auto type = cast<RankedTensorType>(value.getType());
    return type.getRank() > 0 && type.getDimSize(0) == static_cast<int64_t>(getTrips());
  };
  for (Value value : llvm::concat<Value>(SmallVector<Value>(getScanned()), SmallVector<Value>(getCollected())))
    if (!hasSlices(value))
      return emitOpError() << "scans or collects " << value.getType() << ", which is no " << getTrips() << " slices";
  return success();
}

LogicalResult LoopOp::verifyRegions() {
  SmallVector<Type> arguments(getCarried().getTypes()), results;
  for (Value scanned : getScanned()) arguments.push_back(sliceType(scanned.getType()));
  llvm::append_range(arguments, getCaptured().getTypes());
  if (getCondition()) results.push_back(RankedTensorType::get({}, IntegerType::get(getContext(), 1)));
  llvm::append_range(results, getCarried().getTypes());
  for (Value collected : getCollected()) results.push_back(sliceType(collected.getType()));
  return verifyBody(*this, getBody(), arguments, results);
}

LogicalResult IfOp::verify() {
  if (failed(verifyStatic(*this))) return failure();
  return verifyOneElement(*this, getCondition(), 1, "condition");
}

LogicalResult IfOp::verifyRegions() {
  for (Region* region : {&getThen(), &getOtherwise()})
    if (failed(verifyBody(*this, *region, getCaptured().getTypes(), getResultTypes()))) return failure();
  return success();
}
