// SPDX-License-Identifier: Apache-2.0
#include "compiler/tile/BundleParts.h"

#include "compiler/dialect/hpu/TensorOf.h"
#include "llvm/ADT/SetVector.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace hpu::ir;

namespace hpu::tile {
namespace {

/// A unit of some ops of a bundle; `outer` maps values of the bundle's body to values at function level.
Operation* makeUnit(OpBuilder& builder, Location loc, StringRef kind, ArrayRef<Operation*> ops, ArrayRef<Value> yielded,
                    const IRMapping& outer) {
  llvm::SetVector<Value> inputs;
  for (Operation* op : ops)
    for (Value operand : op->getOperands())
      if (!llvm::is_contained(ops, operand.getDefiningOp())) inputs.insert(operand);
  OperationState state(loc, kind);
  for (Value input : inputs) state.addOperands(outer.lookup(input));
  state.addTypes(ValueRange(yielded).getTypes());
  state.addRegion();
  Operation* unit = builder.create(state);
  OpBuilder::InsertionGuard guard(builder);
  Block* body = builder.createBlock(&unit->getRegion(0));
  IRMapping mapping;
  for (Value input : inputs) mapping.map(input, body->addArgument(outer.lookup(input).getType(), input.getLoc()));
  for (Operation* op : ops) builder.clone(*op, mapping);
  SmallVector<Value> results;
  for (Value value : yielded) results.push_back(mapping.lookup(value));
  YieldOp::create(builder, loc, results);
  return unit;
}

}  // namespace

HpuOp mmeOp(BundleOp bundle) {
  for (Operation& op : bundle.getBody().front())
    if (auto hpuOp = dyn_cast<HpuOp>(&op); hpuOp && hpuOp.getEngine() == EngineKind::Mme) return hpuOp;
  return {};
}

SmallVector<Operation*> mmeOps(Operation* unit) {
  SmallVector<Operation*> ops;
  if (unit->getNumRegions())
    for (Operation& op : unit->getRegion(0).front())
      if (auto hpuOp = dyn_cast<HpuOp>(&op); hpuOp && hpuOp.getEngine() == EngineKind::Mme) ops.push_back(&op);
  return ops;
}

bool hasTpcOps(BundleOp bundle) {
  return !llvm::hasSingleElement(bundle.getBody().front().without_terminator());
}

void splitBundle(BundleOp bundle) {
  OpBuilder builder(bundle);
  Block& body = bundle.getBody().front();
  Operation* mme = mmeOp(bundle);
  SmallVector<Operation*> tpcOps;
  for (Operation& op : body.without_terminator())
    if (&op != mme) tpcOps.push_back(&op);
  IRMapping outer;
  outer.map(body.getArguments(), bundle.getOperands());
  Value product = mme->getResult(0);
  product.setType(withOrder(tensorOf(product), physicalOrder(tensorOf(bundle.getResult(0)))));
  Operation* alone = makeUnit(builder, mme->getLoc(), BundleOp::getOperationName(), mme, product, outer);
  outer.map(product, alone->getResult(0));
  SmallVector<Value> yielded(body.getTerminator()->getOperands());
  Operation* cluster = makeUnit(builder, bundle.getLoc(), ClusterOp::getOperationName(), tpcOps, yielded, outer);
  bundle.replaceAllUsesWith(cluster->getResults());
  bundle.erase();
}

}  // namespace hpu::tile
