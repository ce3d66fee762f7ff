// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline/CutFunction.h"

#include "base/Format.h"
#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/import/DeviceFlow.h"
#include "mlir/IR/IRMapping.h"

namespace hpu::pipeline {

using namespace mlir;

namespace {

bool isFlow(Operation* op) {
  return isa<ir::LoopOp, ir::IfOp>(op);
}

}  // namespace

bool CutFunction::isCopied(Value value) {
  return importer::isConstantExpression(value);
}

CutFunction::CutFunction(func::FuncOp function) : function_(function) {
  segments_.emplace_back();
  for (Operation& op : block().without_terminator()) {
    if (isFlow(&op)) {
      flows_.push_back(&op);
      segments_.emplace_back();
      continue;
    }
    if (op.getNumResults() == 1 && isCopied(op.getResult(0))) continue;
    unsigned segment = 0;
    for (Value operand : op.getOperands())
      if (Operation* maker = operand.getDefiningOp()) {
        auto flow = llvm::find(flows_, maker);
        const unsigned ready = flow == flows_.end() ? segmentOf_.lookup(maker)  // What is copied is ready in all.
                                                    : static_cast<unsigned>(flow - flows_.begin()) + 1;
        segment = std::max(segment, ready);
      }
    segmentOf_[&op] = segment;
    segments_[segment].push_back(&op);
  }
}

bool CutFunction::isOf(Value value, unsigned k) const {
  Operation* maker = value.getDefiningOp();
  auto found = maker ? segmentOf_.find(maker) : segmentOf_.end();
  return found != segmentOf_.end() && found->second == k;
}

SmallVector<Value> CutFunction::readsOf(unsigned k) const {
  SmallVector<Value> reads;
  DenseSet<Value> known;
  for (Operation* op : segments_[k])
    for (Value operand : op->getOperands())
      if (!isOf(operand, k) && !isCopied(operand) && known.insert(operand).second) reads.push_back(operand);
  return reads;
}

bool CutFunction::isHandedOn(Value value, unsigned k) const {
  return isOf(value, k) && llvm::any_of(value.getUsers(), [&](Operation* user) {
           auto found = segmentOf_.find(user);
           return found == segmentOf_.end() || found->second != k;
         });
}

OwningOpRef<ModuleOp> makePiece(const std::string& name, Location location, ArrayRef<Value> inputs,
                                ArrayRef<Operation*> ops, ArrayRef<Value> results) {
  OpBuilder builder(location.getContext());
  OwningOpRef<ModuleOp> module = ModuleOp::create(location);
  (*module)->setAttr("hpu.model", builder.getStringAttr(name));
  builder.setInsertionPointToEnd(module->getBody());
  SmallVector<Type> inputTypes, resultTypes;
  for (Value value : inputs) inputTypes.push_back(value.getType());
  for (Value value : results) resultTypes.push_back(value.getType());
  auto main = func::FuncOp::create(builder, location, "main", builder.getFunctionType(inputTypes, resultTypes));
  Block* block = main.addEntryBlock();
  builder.setInsertionPointToStart(block);
  IRMapping mapping;
  for (auto [value, argument] : llvm::zip(inputs, block->getArguments())) mapping.map(value, argument);
  auto copy = [&](auto&& self, Value value) -> void {
    if (mapping.contains(value) || !CutFunction::isCopied(value)) return;
    for (Value operand : value.getDefiningOp()->getOperands()) self(self, operand);
    builder.clone(*value.getDefiningOp(), mapping);
  };
  for (Operation* op : ops) {
    for (Value operand : op->getOperands()) copy(copy, operand);
    builder.clone(*op, mapping);
  }
  SmallVector<Value> returned;
  for (Value value : results) {
    copy(copy, value);
    returned.push_back(mapping.lookup(value));
  }
  func::ReturnOp::create(builder, location, returned);
  auto names = [&](size_t count, const char* prefix) {
    SmallVector<DictionaryAttr> all;
    for (size_t i = 0; i < count; ++i)
      all.push_back(
          builder.getDictionaryAttr(builder.getNamedAttr("hpu.name", builder.getStringAttr(base::strCat(prefix, i)))));
    return all;
  };
  main.setAllArgAttrs(names(inputs.size(), "in"));
  main.setAllResultAttrs(names(results.size(), "out"));
  return module;
}

}  // namespace hpu::pipeline
