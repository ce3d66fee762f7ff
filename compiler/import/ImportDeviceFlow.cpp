// SPDX-License-Identifier: Apache-2.0
// If, Loop and Scan as hpu.if and hpu.loop: what the device decides, and what would be too much when it is unrolled.
// The one thing to know: a body is tried; where something in it needs what is known in each iteration alone, or types
// that change, all that it left is undone, and the caller unrolls.
#include "compiler/import/DataSizes.h"
#include "compiler/import/DeviceFlow.h"
#include "compiler/import/FlowValues.h"
#include "compiler/import/OnnxImporter.h"
#include "compiler/interp/ConstantData.h"
#include "compiler/support/DiagnosticCapture.h"
#include "numerics/ElementKinds.h"
#include "recipe/Recipe.h"

namespace hpu::importer {

using namespace mlir;
using base::strCat;
using interp::Tensor;

namespace {

/// Of ImportOptions::unrollLimit, where the device decides, as all that may run would be computed: of a loop, and of
/// both branches.
constexpr int64_t kComputedShare = 32, kBranchShare = 64;
/// Numbers of iterations up to which these are a constant to be scanned, which costs no op.
constexpr int64_t kMostListed = int64_t{1} << 16;
/// What a loop may collect, which has memory for all iterations that there can be.
constexpr int64_t kMostCollectedBytes = int64_t{4} << 30;
/// Iterations that are gone through to know how many there are.
constexpr int64_t kMostCounted = int64_t{1} << 20;

bool isStatic(Value value) {
  return cast<RankedTensorType>(value.getType()).hasStaticShape();
}

/// Why the body, which is done, is none of a loop that hands these values on; empty: it is one.
std::string faultOf(FlowBody& body, ArrayRef<Value> carried, ArrayRef<Value> next) {
  if (Operation* op = body.firstOfFreeSize())
    return strCat("the device cannot loop over a body with sizes that are free or that data says: '",
                  ir::locationText(op->getLoc()), "' has one");
  for (size_t i = 0; i < carried.size(); ++i) {
    const RankedTensorType before = NodeContext::typeOf(carried[i]), after = NodeContext::typeOf(next[i]);
    if (before != after)
      return strCat("the device cannot loop with a value that changes its type: ", ir::typeToString(before),
                    " becomes ", ir::typeToString(after));
  }
  return {};
}

bool isTensor(const ImportedValue& value) {
  return !value.sequence && !value.isAbsent && (value.value || value.constant || value.elements);
}

}  // namespace

/// What an attempt leaves is taken away with it, unless it is kept.
class OnnxImporter::Attempt {
 public:
  explicit Attempt(OnnxImporter& importer, std::vector<Issue>& why)
      : importer_(importer),
        why_(why),
        issues_(importer.issues_.size()),
        arguments_(importer.function_.getBody().getNumArguments()),
        generated_(importer.generatedBytes_) {
    ++importer.bodies_;
  }
  ~Attempt() {
    --importer_.bodies_;
    if (isKept_) return;
    ++importer_.vainAttempts_;
    auto first = importer_.issues_.begin() + static_cast<ptrdiff_t>(issues_);
    why_.insert(why_.end(), std::make_move_iterator(first), std::make_move_iterator(importer_.issues_.end()));
    importer_.issues_.erase(first, importer_.issues_.end());
    // Stand-ins of what could not be imported.
    Block& main = importer_.function_.getBody().front();
    while (main.getNumArguments() > arguments_) main.eraseArgument(main.getNumArguments() - 1);
    importer_.generatedBytes_ = generated_;
  }
  void keep() { isKept_ = true; }

 private:
  OnnxImporter& importer_;
  std::vector<Issue>& why_;
  size_t issues_;
  unsigned arguments_;
  int64_t generated_;
  bool isKept_ = false;
};

bool OnnxImporter::mayBeOnDevice() const {
  // What is tried and given up takes time, for each body that is in another one twice.
  constexpr int kMostVain = 1024;
  return options_.bounds.empty() && freeNames_.empty() && bodies_ + 2 < static_cast<int>(recipe::kMaxPartDepth) &&
         vainAttempts_ < kMostVain;
}

std::optional<OnnxImporter::FlowResults> OnnxImporter::ifOnDevice(const NodeDef& node, const ImportedValue& condition,
                                                                  std::vector<Issue>& why) {
  const std::shared_ptr<const GraphDef> branches[] = {bodyOf(node, "then_branch"), bodyOf(node, "else_branch")};
  if (!mayBeOnDevice() || !branches[0] || !branches[1] || node.outputs.empty()) return std::nullopt;
  NodeContext context(builder_, node, opsetOf(node), {}, {}, /*folding=*/false);
  FlowValues flow(context);
  Value holds = flow.scalar(condition);
  if (!holds || !isStatic(holds)) return std::nullopt;
  Attempt attempt(*this, why);
  std::unique_ptr<FlowBody> bodies[2];  // Gone before what they left is undone.
  for (int i = 0; i < 2; ++i) {
    bodies[i] = std::make_unique<FlowBody>(builder_);
    const std::optional<std::vector<ImportedValue>> done = runBody(node, *branches[i], {});
    if (!done || done->size() < node.outputs.size()) return std::nullopt;
    SmallVector<Value> values;
    for (size_t k = 0; k < node.outputs.size(); ++k) {
      if (!isTensor((*done)[k])) return std::nullopt;
      values.push_back(flow.tensor((*done)[k]));
      if (!values.back()) return std::nullopt;
    }
    bodies[i]->yield(values);
    bodies[i]->leave();
    if (!bodies[i]->isStatic()) return std::nullopt;
  }
  FlowBody &then = *bodies[0], &otherwise = *bodies[1];
  if (then.block().back().getOperandTypes() != otherwise.block().back().getOperandTypes()) return std::nullopt;
  const bool isHeavy = then.isHeavy() || otherwise.isHeavy();
  const int64_t limit = options_.unrollLimit;
  if (limit > 0 && !isHeavy && then.numOps() + otherwise.numOps() <= limit / kBranchShare) return std::nullopt;
  attempt.keep();
  FlowResults results;
  for (Value value : makeIf(builder_, context.location(), holds, then, otherwise)) results.push_back(ofValue(value));
  return results;
}

std::optional<OnnxImporter::FlowResults> OnnxImporter::loopOnDevice(const NodeDef& node, const GraphDef& body,
                                                                    const LoopOperands& given,
                                                                    std::vector<Issue>& why) {
  if (!mayBeOnDevice() || given.most < 2 || knownNumber(given.condition) == 0) return std::nullopt;
  NodeContext context(builder_, node, opsetOf(node), {}, {}, /*folding=*/false);
  FlowValues flow(context);
  LoopSpec spec;
  for (const ImportedValue& each : given.carried) {
    if (!isTensor(each)) return std::nullopt;
    spec.carried.push_back(flow.tensor(each));
    if (!spec.carried.back() || !isStatic(spec.carried.back())) return std::nullopt;
  }
  const size_t numCarried = spec.carried.size();
  Value condition = flow.scalar(given.condition);
  if (!condition || (given.limit && !isStatic(given.limit))) return std::nullopt;

  Attempt attempt(*this, why);
  FlowBody inside(builder_);
  std::vector<ImportedValue> arguments;
  for (Value value : spec.carried) arguments.push_back(ofValue(inside.addArgument(value.getType())));
  Value iteration = inside.addArgument(RankedTensorType::get({}, builder_.getI64Type()));
  arguments.insert(arguments.begin(), {ofValue(iteration), ofBool(true)});  // It runs where the condition holds.
  const std::optional<std::vector<ImportedValue>> done = runBody(node, body, arguments);
  if (!done) return std::nullopt;
  if (knownNumber(done->front()) == 0) return std::nullopt;
  bool isConditional = knownNumber(given.condition) != 1 || knownNumber(done->front()) != 1;
  SmallVector<Value> yielded;
  if (isConditional) yielded.push_back(flow.scalar(done->front()));
  std::vector<size_t> collected;  // Of the body's results.
  for (size_t i = 1; i < done->size(); ++i) {
    const bool isCarried = i <= numCarried;
    if (!isCarried && (i > node.outputs.size() || node.outputs[i - 1].empty())) continue;
    if (!isTensor((*done)[i])) return std::nullopt;
    if (!isCarried) collected.push_back(i);
    yielded.push_back(flow.tensor((*done)[i]));
  }
  // What is reported from here on goes to `why` with the attempt.
  auto giveUp = [&](Issue::Kind kind, std::string reason) -> std::optional<FlowResults> {
    report(node, kind, std::move(reason));
    return std::nullopt;
  };
  if (context.failed()) return giveUp(context.issue()->kind, context.issue()->reason);
  inside.yield(yielded);
  inside.leave();
  if (std::string fault = faultOf(inside, spec.carried, ArrayRef<Value>(yielded).drop_front(isConditional));
      !fault.empty())
    return giveUp(Issue::Kind::kUnsupported, std::move(fault));

  Operation* yield = &inside.block().back();
  int64_t most = given.most;
  if (isConditional && knownNumber(given.condition) == 1) {
    const int64_t limit = std::min(most, kMostCounted);
    std::optional<int64_t> known = knownTrips(inside, spec.carried, iteration, limit);
    if (known && (*known < limit || limit == most)) {
      most = *known;
      yield->eraseOperand(0);
      isConditional = false;
    }
  }
  const bool isDecided = isConditional || given.limit;
  const int64_t ops = std::max<int64_t>(inside.numOps(), 1);
  const int64_t limit = options_.unrollLimit;
  if (isDecided ? !inside.isHeavy() && most <= limit / kComputedShare / ops : most <= limit / ops) return std::nullopt;

  if (!isDecided && most > static_cast<int64_t>(recipe::kMaxPartTrips))
    return giveUp(Issue::Kind::kUnsupported,
                  strCat("it runs ", most, " times, more than the ", recipe::kMaxPartTrips, " that a device can"));
  spec.trips = std::min<int64_t>(most, recipe::kMaxPartTrips);
  spec.count = given.limit;
  if (isConditional) spec.condition = condition;
  for (size_t i : collected) {
    spec.collectedBackwards.push_back(false);
    const auto type = cast<RankedTensorType>(
        yielded[yielded.size() - collected.size() + spec.collectedBackwards.size() - 1].getType());
    StatusOr<TensorType> row = interp::concreteType(type);
    const bool isBounded = most < static_cast<int64_t>(recipe::kMaxPartTrips);
    if (isBounded && row.ok() && row->bytes() <= kMostCollectedBytes / spec.trips) continue;
    return giveUp(Issue::Kind::kUnsupported,
                  strCat("it collects '", body.outputs[i].name, "', ", ir::typeToString(type),
                         isBounded ? strCat(", of as many as ", most, " iterations")
                                   : std::string(", and no bound of its iterations is known"),
                         "; limit their number by a Min with a constant"));
  }
  attempt.keep();

  const bool countsRows = !collected.empty() && isConditional;
  if (countsRows || (!iteration.use_empty() && spec.trips > kMostListed)) {
    spec.carried.push_back(context.constantTensor(Tensor::of<int64_t>(ElementType::kI64, {}, {0})));
    Value one = context.constantTensor(Tensor::of<int64_t>(ElementType::kI64, {}, {1}));
    OpBuilder::InsertionGuard guard(builder_);
    builder_.setInsertionPoint(yield);
    yield->insertOperands(static_cast<unsigned>(numCarried) + isConditional, context.op("add", {iteration, one}));
  } else if (!iteration.use_empty()) {
    std::vector<int64_t> numbers(static_cast<size_t>(spec.trips));
    std::iota(numbers.begin(), numbers.end(), 0);
    spec.scanned.push_back(context.constantTensor(Tensor::of<int64_t>(ElementType::kI64, {spec.trips}, numbers)));
    spec.scannedBackwards.push_back(false);
  } else {
    inside.block().eraseArgument(cast<BlockArgument>(iteration).getArgNumber());
  }
  const bool isCounted = spec.carried.size() > numCarried;
  const int64_t trips = spec.trips;
  SmallVector<Value> made = makeLoop(builder_, context.location(), std::move(spec), inside);

  FlowResults results;
  for (size_t i = 0; i < numCarried; ++i) results.push_back(ofValue(made[i]));
  auto number = [&](int64_t value) {
    return context.constantTensor(Tensor::of<int64_t>(ElementType::kI64, {}, {value}));
  };
  // A size is the result of an op with one result.
  Value rows;
  if (!collected.empty() && (countsRows || given.limit))
    rows =
        context.op("max", {context.op("min", {countsRows ? made[numCarried] : given.limit, number(trips)}), number(0)});
  results.resize(std::max(done->size() - 1, node.outputs.size()));
  for (size_t k = 0; k < collected.size(); ++k) {
    Value all = made[numCarried + isCounted + k];
    if (rows) {
      const int64_t rank = NodeContext::rank(all);
      // Rows of iterations that did not run are no indices.
      if (numerics::isInteger(ir::elementType(context.elementOf(all)))) {
        Value numbers = context.range(ir::SymDim{0}, ir::SymDim{trips}, 1, ElementType::kI64);
        Shape along(static_cast<size_t>(rank), 1);
        along[0] = trips;
        Value isRow = context.reshape(context.op("less", {numbers, rows}), ArrayRef<int64_t>(along));
        all = context.op("where", {isRow, all, context.scalarLike(all, 0)});
      }
      all = cutToDataSize(context, all, 0, rows);
    }
    results[collected[k] - 1] = ofValue(all);
  }
  if (context.failed()) report(node, context.issue()->kind, context.issue()->reason);
  return results;
}

std::optional<OnnxImporter::FlowResults> OnnxImporter::scanOnDevice(const NodeDef& node, const GraphDef& body,
                                                                    const ScanOperands& given,
                                                                    std::vector<Issue>& why) {
  if (!mayBeOnDevice() || given.trips < 2) return std::nullopt;
  NodeContext context(builder_, node, opsetOf(node), {}, {}, /*folding=*/false);
  FlowValues flow(context);
  auto toFront = [&](Value x, int64_t axis, bool back) {
    Ints perm(static_cast<size_t>(NodeContext::rank(x)));
    std::iota(perm.begin(), perm.end(), 0);
    if (back)
      std::rotate(perm.begin(), perm.begin() + 1, perm.begin() + axis + 1);
    else
      std::rotate(perm.begin(), perm.begin() + axis, perm.begin() + axis + 1);
    return axis == 0 ? x : context.transpose(x, perm);
  };
  LoopSpec spec;
  spec.trips = given.trips;
  for (Value value : llvm::concat<const Value>(given.carried, given.scanned))
    if (!isStatic(value)) return std::nullopt;
  spec.carried.append(given.carried.begin(), given.carried.end());
  for (bool one : given.scannedBackwards) spec.scannedBackwards.push_back(one);

  Attempt attempt(*this, why);
  FlowBody inside(builder_);
  std::vector<ImportedValue> arguments;
  for (Value value : spec.carried) arguments.push_back(ofValue(inside.addArgument(value.getType())));
  for (size_t i = 0; i < given.scanned.size(); ++i) {
    const RankedTensorType type = NodeContext::typeOf(given.scanned[i]);
    SmallVector<int64_t> shape(type.getShape());
    shape.erase(shape.begin() + given.scannedAxes[i]);
    arguments.push_back(ofValue(inside.addArgument(RankedTensorType::get(shape, type.getElementType()))));
  }
  const std::optional<std::vector<ImportedValue>> done = runBody(node, body, arguments);
  if (!done) return std::nullopt;
  SmallVector<Value> yielded;
  for (const ImportedValue& each : *done) {
    if (!isTensor(each)) return std::nullopt;
    yielded.push_back(flow.tensor(each));
    if (!yielded.back()) return std::nullopt;
  }
  const size_t numCarried = spec.carried.size();
  inside.yield(yielded);
  inside.leave();
  if (std::string fault = faultOf(inside, spec.carried, yielded); !fault.empty()) {
    report(node, Issue::Kind::kUnsupported, std::move(fault));  // It goes to `why` with the attempt.
    return std::nullopt;
  }
  if (given.trips <= options_.unrollLimit / std::max<int64_t>(inside.numOps(), 1)) return std::nullopt;
  std::vector<int64_t> axes;
  for (size_t i = numCarried; i < yielded.size(); ++i) {
    const std::optional<int64_t> axis =
        context.axis(given.collectedAxes[i - numCarried], NodeContext::rank(yielded[i]) + 1);
    if (!axis) return std::nullopt;
    axes.push_back(*axis);
    spec.collectedBackwards.push_back(given.collectedBackwards[i - numCarried]);
  }
  attempt.keep();
  for (size_t i = 0; i < given.scanned.size(); ++i)
    spec.scanned.push_back(toFront(given.scanned[i], given.scannedAxes[i], /*back=*/false));
  SmallVector<Value> made = makeLoop(builder_, context.location(), std::move(spec), inside);
  FlowResults results;
  for (size_t i = 0; i < made.size(); ++i)
    results.push_back(ofValue(i < numCarried ? made[i] : toFront(made[i], axes[i - numCarried], /*back=*/true)));
  if (context.failed()) report(node, context.issue()->kind, context.issue()->reason);
  return results;
}

}  // namespace hpu::importer
