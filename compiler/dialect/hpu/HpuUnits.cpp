// SPDX-License-Identifier: Apache-2.0
// Constants and the units that fusion makes: syntax and checks.
#include "compiler/dialect/hpu/HpuOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/OpImplementation.h"

using namespace mlir;
using namespace hpu::ir;

#define GET_OP_CLASSES
#include "compiler/dialect/hpu/HpuOps.cpp.inc"

OpFoldResult ConstantOp::fold(FoldAdaptor) {
  return getValue();
}

LogicalResult ConstantOp::verify() {
  if (!compatibleTypes(TypeRange(getValue().getType()), TypeRange(getResult().getType())))
    return emitOpError() << "value of type " << getValue().getType() << " in a result of type "
                         << getResult().getType();
  return success();
}

namespace {

// hpu.cluster (%a = %x, %b = %y) tile = #hpu.tile<[..]> : (types) -> (types) { ... }
ParseResult parseUnit(OpAsmParser& parser, OperationState& result) {
  SmallVector<OpAsmParser::Argument> arguments;
  SmallVector<OpAsmParser::UnresolvedOperand> operands;
  auto parsePair = [&]() -> ParseResult {
    if (parser.parseArgument(arguments.emplace_back()) || parser.parseEqual() ||
        parser.parseOperand(operands.emplace_back()))
      return failure();
    return success();
  };
  FunctionType type;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, parsePair) ||
      parser.parseOptionalAttrDict(result.attributes) || parser.parseColonType(type) ||
      parser.resolveOperands(operands, type.getInputs(), loc, result.operands))
    return failure();
  for (auto [argument, input] : llvm::zip(arguments, type.getInputs())) argument.type = input;
  result.addTypes(type.getResults());
  return parser.parseRegion(*result.addRegion(), arguments);
}

void printUnit(OpAsmPrinter& printer, Operation* op) {
  Region& body = op->getRegion(0);
  printer << " (";
  llvm::interleaveComma(llvm::zip(body.getArguments(), op->getOperands()), printer,
                        [&](auto pair) { printer << std::get<0>(pair) << " = " << std::get<1>(pair); });
  printer << ")";
  printer.printOptionalAttrDict(op->getAttrs());
  printer << " : ";
  printer.printFunctionalType(op);
  printer << " ";
  printer.printRegion(body, /*printEntryBlockArgs=*/false);
}

LogicalResult verifyUnit(Operation* op, int64_t mmeOps) {
  Block& body = op->getRegion(0).front();
  if (body.getNumArguments() != op->getNumOperands())
    return op->emitOpError("needs one block argument for each operand");
  for (auto [argument, operand] : llvm::zip(body.getArguments(), op->getOperands()))
    if (argument.getType() != operand.getType()) return op->emitOpError("block argument and operand types differ");
  auto yield = body.empty() ? YieldOp() : dyn_cast<YieldOp>(body.back());
  if (!yield || yield.getValues().getTypes() != op->getResultTypes())
    return op->emitOpError("must yield its results' types");
  int64_t found = 0;
  for (Operation& inner : body.without_terminator()) {
    auto hpuOp = dyn_cast<HpuOp>(&inner);
    if (!hpuOp || isa<BundleOp, ClusterOp>(inner)) return inner.emitOpError("cannot be inside a unit");
    found += hpuOp.getEngine() == EngineKind::Mme;
  }
  if (found != mmeOps) return op->emitOpError() << "must hold " << mmeOps << " MME ops, has " << found;
  return success();
}

}  // namespace

ParseResult BundleOp::parse(OpAsmParser& parser, OperationState& result) {
  return parseUnit(parser, result);
}
void BundleOp::print(OpAsmPrinter& printer) {
  printUnit(printer, *this);
}
LogicalResult BundleOp::verifyRegions() {
  return verifyUnit(*this, 1);
}
ParseResult ClusterOp::parse(OpAsmParser& parser, OperationState& result) {
  return parseUnit(parser, result);
}
void ClusterOp::print(OpAsmPrinter& printer) {
  printUnit(printer, *this);
}
LogicalResult ClusterOp::verifyRegions() {
  return verifyUnit(*this, 0);
}
