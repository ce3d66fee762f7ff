// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/DeviceFlow.h"

#include "compiler/interp/ConstantData.h"
#include "compiler/interp/Interpreter.h"
#include "compiler/support/DiagnosticCapture.h"
#include "mlir/IR/IRMapping.h"

namespace hpu::importer {

using namespace mlir;

namespace {

/// Of an expression that is made again in a body.
constexpr int kMostCopied = 64;

bool isConstantExpression(Value value, int& left) {
  Operation* op = value.getDefiningOp();
  if (!op || op->getNumRegions() > 0 || --left < 0) return false;
  return isa<ir::ConstantOp>(op) ||
         llvm::all_of(op->getOperands(), [&](Value operand) { return isConstantExpression(operand, left); });
}

/// Values of another block that ops of `block` read, each once, in the order of the reads.
SmallVector<Value> readsAround(Block& block) {
  SmallVector<Value> found;
  DenseSet<Value> known;
  for (Operation& op : block)
    for (Value operand : op.getOperands())
      if (operand.getParentBlock() != &block && known.insert(operand).second) found.push_back(operand);
  return found;
}

void replaceInside(Block& block, Value from, Value to) {
  from.replaceUsesWithIf(to, [&](OpOperand& use) { return use.getOwner()->getBlock() == &block; });
}

}  // namespace

bool isConstantExpression(Value value) {
  int left = kMostCopied;
  return isConstantExpression(value, left);
}

FlowBody::FlowBody(OpBuilder& builder)
    : builder_(builder),
      outside_(builder.saveInsertionPoint()),
      location_(builder.getUnknownLoc()),
      block_(std::make_unique<Block>()) {
  builder.setInsertionPointToEnd(block_.get());
}

FlowBody::~FlowBody() {
  leave();
  if (block_) block_->dropAllReferences();
}

void FlowBody::yield(ValueRange values) {
  ir::YieldOp::create(builder_, location_, values);
}

void FlowBody::leave() {
  if (!isInside_) return;
  isInside_ = false;
  builder_.restoreInsertionPoint(outside_);
  for (Operation& op : llvm::make_early_inc_range(*block_))
    if (isa<ir::ConstantOp>(op)) op.moveBefore(outside_.getBlock(), outside_.getPoint());
}

void FlowBody::makeConstantsInside() {
  OpBuilder inside(builder_.getContext());
  inside.setInsertionPointToStart(block_.get());
  IRMapping made;
  auto make = [&](auto&& self, Value value) -> void {
    if (made.contains(value)) return;
    for (Value operand : value.getDefiningOp()->getOperands()) self(self, operand);
    inside.clone(*value.getDefiningOp(), made);
  };
  for (Value value : readsAround(*block_)) {
    if (!isConstantExpression(value)) continue;
    make(make, value);
    replaceInside(*block_, value, made.lookup(value));
  }
}

SmallVector<Value> FlowBody::capture() {
  makeConstantsInside();
  SmallVector<Value> captured = readsAround(*block_);
  for (Value value : captured) replaceInside(*block_, value, addArgument(value.getType()));
  return captured;
}

SmallVector<Value> FlowBody::captureBoth(FlowBody& a, FlowBody& b) {
  a.makeConstantsInside();
  b.makeConstantsInside();
  SmallVector<Value> captured = readsAround(*a.block_);
  for (Value value : readsAround(*b.block_))
    if (!llvm::is_contained(captured, value)) captured.push_back(value);
  for (FlowBody* body : {&a, &b})
    for (Value value : captured) replaceInside(*body->block_, value, body->addArgument(value.getType()));
  return captured;
}

Operation* FlowBody::firstOfFreeSize() const {
  auto areStatic = [](TypeRange types) {
    return llvm::all_of(types, [](Type type) { return cast<RankedTensorType>(type).hasStaticShape(); });
  };
  for (Operation& op : *block_)
    if (!areStatic(op.getOperandTypes()) || !areStatic(op.getResultTypes())) return &op;
  return nullptr;
}

int64_t FlowBody::numOps() const {
  int64_t count = 0;
  for (Operation& op : *block_) {
    count += !isa<ir::ConstantOp, ir::YieldOp>(op);
    op.walk([&](Operation* inner) { count += inner != &op && !isa<ir::ConstantOp, ir::YieldOp>(inner); });
  }
  return count;
}

bool FlowBody::isHeavy() const {
  return llvm::any_of(*block_, [](Operation& op) {
    auto known = dyn_cast<ir::HpuOp>(op);
    return op.getNumRegions() > 0 || (known && known.getEngine() == ir::EngineKind::Mme);
  });
}

SmallVector<Value> makeLoop(OpBuilder& builder, Location location, LoopSpec spec, FlowBody& body) {
  Block& block = body.block();
  auto yield = cast<ir::YieldOp>(block.back());
  const unsigned first = spec.condition ? 1 : 0;
  // What an iteration hands on as it is, is the same in all of them.
  SmallVector<Value> results;
  SmallVector<unsigned> places;  // Of results, in those of the op.
  for (unsigned i = 0; i < spec.carried.size();) {
    Value argument = block.getArgument(i);
    places.push_back(i);
    if (yield.getOperand(first + i) != argument) {
      results.emplace_back();
      ++i;
      continue;
    }
    results.push_back(spec.carried[i]);
    yield->eraseOperand(first + i);
    argument.replaceAllUsesWith(spec.carried[i]);
    block.eraseArgument(i);
    spec.carried.erase(spec.carried.begin() + i);
  }
  for (size_t i = 0; i < spec.scanned.size();) {
    const auto argument = static_cast<unsigned>(spec.carried.size() + i);
    if (!block.getArgument(argument).use_empty()) {
      ++i;
      continue;
    }
    block.eraseArgument(argument);
    spec.scanned.erase(spec.scanned.begin() + static_cast<ptrdiff_t>(i));
    spec.scannedBackwards.erase(spec.scannedBackwards.begin() + static_cast<ptrdiff_t>(i));
  }
  const SmallVector<Value> captured = body.capture();
  SmallVector<Type> types;
  for (Value value : spec.carried) types.push_back(value.getType());
  for (Value value : yield.getValues().drop_front(first + spec.carried.size())) {
    auto slice = cast<RankedTensorType>(value.getType());
    SmallVector<int64_t> shape = {spec.trips};
    llvm::append_range(shape, slice.getShape());
    types.push_back(RankedTensorType::get(shape, slice.getElementType()));
  }
  auto loop = ir::LoopOp::create(builder, location, types, spec.count, spec.condition, spec.carried, spec.scanned,
                                 captured, static_cast<uint64_t>(spec.trips), ArrayRef<bool>(spec.scannedBackwards),
                                 ArrayRef<bool>(spec.collectedBackwards));
  body.moveInto(loop.getBody());
  for (size_t i = 0; i < results.size(); ++i)
    if (!results[i]) results[i] = loop.getResult(places[i]);
  llvm::append_range(results, loop.getCollected());
  return results;
}

SmallVector<Value> makeIf(OpBuilder& builder, Location location, Value condition, FlowBody& then, FlowBody& otherwise) {
  const SmallVector<Type> types(cast<ir::YieldOp>(then.block().back()).getValues().getTypes());
  const SmallVector<Value> captured = FlowBody::captureBoth(then, otherwise);
  auto branch = ir::IfOp::create(builder, location, types, condition, captured);
  then.moveInto(branch.getThen());
  otherwise.moveInto(branch.getOtherwise());
  return SmallVector<Value>(branch.getResults());
}

std::optional<int64_t> knownTrips(FlowBody& body, ArrayRef<Value> carried, Value iteration, int64_t most) {
  Block& block = body.block();
  auto yield = cast<ir::YieldOp>(block.back());
  // Carried values that are known as long as all of these are: fewer each time.
  SmallVector<bool> isKnown;
  for (Value value : carried) isKnown.push_back(isConstantExpression(value));
  auto follows = [&](auto&& self, Value value, DenseMap<Value, bool>& seen) -> bool {
    if (value == iteration) return true;
    if (auto argument = dyn_cast<BlockArgument>(value); argument && argument.getOwner() == &block)
      return argument.getArgNumber() < isKnown.size() && isKnown[argument.getArgNumber()];
    if (value.getParentBlock() != &block) return isConstantExpression(value);
    if (auto found = seen.find(value); found != seen.end()) return found->second;
    Operation* op = value.getDefiningOp();
    const bool holds = op->getNumRegions() == 0 &&
                       llvm::all_of(op->getOperands(), [&](Value operand) { return self(self, operand, seen); });
    return seen[value] = holds;
  };
  for (bool changed = true; changed;) {
    changed = false;
    DenseMap<Value, bool> seen;
    for (size_t i = 0; i < isKnown.size(); ++i)
      if (isKnown[i] && !follows(follows, yield.getOperand(static_cast<unsigned>(i + 1)), seen))
        isKnown[i] = false, changed = true;
  }
  DenseMap<Value, bool> seen;
  if (!follows(follows, yield.getOperand(0), seen)) return std::nullopt;

  // Only what the condition needs is computed.
  DenseSet<Operation*> needed;
  SmallVector<bool> isCarried(isKnown.size(), false);
  auto need = [&](auto&& self, Value value) -> void {
    if (auto argument = dyn_cast<BlockArgument>(value); argument && argument.getOwner() == &block) {
      const unsigned i = argument.getArgNumber();
      if (i < isCarried.size() && !isCarried[i]) isCarried[i] = true, self(self, yield.getOperand(i + 1));
      return;
    }
    Operation* op = value.getDefiningOp();
    if (!op || !needed.insert(op).second) return;
    for (Value operand : op->getOperands()) self(self, operand);
  };
  need(need, yield.getOperand(0));
  // That is as much as folding does of one node.
  int64_t work = 0;
  for (Operation* op : needed) work += interp::foldingWork(op);
  constexpr int64_t kMostWork = int64_t{1} << 25;

  ir::DiagnosticCapture quiet(block.back().getContext());
  DenseMap<Value, interp::Tensor> around;
  auto evaluate = [&](auto&& self, Value value, DenseMap<Value, interp::Tensor>& values) -> bool {
    if (values.count(value)) return true;
    if (value.getParentBlock() != &block && &values != &around) {
      if (!self(self, value, around)) return false;
      values[value] = around[value];
      return true;
    }
    Operation* op = value.getDefiningOp();
    if (!op) return false;
    SmallVector<interp::Tensor> operands;
    for (Value operand : op->getOperands()) {
      if (!self(self, operand, values)) return false;
      operands.push_back(values[operand]);
    }
    FailureOr<SmallVector<interp::Tensor>> results = interp::evaluateOp(op, operands);
    if (failed(results)) return false;
    for (auto [result, tensor] : llvm::zip(op->getResults(), *results)) values[result] = tensor;
    return true;
  };
  DenseMap<Value, interp::Tensor> values;
  for (size_t i = 0; i < carried.size(); ++i) {
    if (!isCarried[i]) continue;
    if (!evaluate(evaluate, carried[i], around)) return std::nullopt;
    values[block.getArgument(static_cast<unsigned>(i))] = around[carried[i]];
  }
  for (int64_t k = 0; k < most; ++k) {
    if ((k + 1) * std::max<int64_t>(work, 1) > kMostWork) return std::nullopt;
    if (iteration) values[iteration] = interp::Tensor::of<int64_t>(ElementType::kI64, {}, {k});
    if (!evaluate(evaluate, yield.getOperand(0), values)) return std::nullopt;
    if (values[yield.getOperand(0)].integer(0) == 0) return k + 1;
    DenseMap<Value, interp::Tensor> next;
    for (size_t i = 0; i < carried.size(); ++i) {
      if (!isCarried[i]) continue;
      Value value = yield.getOperand(static_cast<unsigned>(i + 1));
      if (!evaluate(evaluate, value, values)) return std::nullopt;
      next[block.getArgument(static_cast<unsigned>(i))] = values[value];
    }
    values = std::move(next);
  }
  return most == std::numeric_limits<int64_t>::max() ? std::nullopt : std::optional(most);
}

}  // namespace hpu::importer
