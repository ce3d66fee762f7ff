// SPDX-License-Identifier: Apache-2.0
// If, Loop and Scan, unrolled: what ImportDeviceFlow leaves. The one thing to know: bodies become ops of the function,
// once for each iteration that may run. What is known at import decides there: a branch that is not taken leaves no
// ops. Where only the device knows, both branches or all possible iterations are computed, and it chooses what counts;
// a result of as many rows as there were iterations is then as large as the data says (DataSizes.h).
#include <cmath>

#include "base/Format.h"
#include "compiler/dialect/hpu/HpuTypes.h"
#include "compiler/import/DataSizes.h"
#include "compiler/import/FlowValues.h"
#include "compiler/import/OnnxImporter.h"
#include "compiler/interp/ConstantData.h"
#include "llvm/ADT/ScopeExit.h"
#include "numerics/ElementKinds.h"

namespace hpu::importer {

using namespace mlir;
using base::strCat;
using interp::Tensor;

namespace {

/// Of a loop that is unrolled.
constexpr int64_t kMostIterations = 4096;

constexpr int64_t kAny = std::numeric_limits<int64_t>::max();

/// Ops that are looked at one behind the other.
constexpr int kMostDeep = 12;

int64_t mostOf(Value value, int depth = 0);

/// The index of an element along `axis` is less than its size.
int64_t mostIndex(Value x, int64_t axis) {
  const int64_t size = cast<RankedTensorType>(x.getType()).getDimSize(axis);
  return ShapedType::isDynamic(size) ? kAny : size - 1;
}

/// Of floats to integers it ends at the type's limits, and NaN becomes 0; to integers of fewer bits it wraps.
int64_t mostOfCast(ir::CastOp op, int depth) {
  Type from = getElementTypeOrSelf(op.getX().getType()), to = getElementTypeOrSelf(op.getType());
  if (from.isInteger(1)) return 1;
  const int64_t most = mostOf(op.getX(), depth);
  if (isa<FloatType>(to)) return most;
  if (isa<FloatType>(from)) return std::max<int64_t>(most, 0);
  auto before = dyn_cast<IntegerType>(from), after = dyn_cast<IntegerType>(to);
  const bool keeps =
      before && after && !before.isUnsigned() && !after.isUnsigned() && after.getWidth() >= before.getWidth();
  return keeps ? most : kAny;
}

/// What each element of a tensor is at most (of floats: rounded up), as far as the ops that make it say.
int64_t mostOf(Value value, int depth) {
  Operation* op = value.getDefiningOp();
  if (!op || depth++ > kMostDeep) return kAny;
  auto upTo = [](double number) { return number < 0x1p53 ? static_cast<int64_t>(std::ceil(number)) : kAny; };
  auto mostOfOperands = [&](unsigned first) {
    int64_t most = std::numeric_limits<int64_t>::min();
    for (Value operand : op->getOperands().drop_front(first)) most = std::max(most, mostOf(operand, depth));
    return most;
  };
  if (auto constant = dyn_cast<ir::ConstantOp>(op)) {
    StatusOr<Tensor> elements = interp::tensorOf(constant.getValue());
    if (!elements.ok() || elements->count() == 0 || elements->count() > 4096) return kAny;
    int64_t most = std::numeric_limits<int64_t>::min();
    for (int64_t i = 0; i < elements->count(); ++i) {
      const bool isWhole = numerics::isInteger(elements->type().element);
      most = std::max(most, isWhole ? elements->integer(i) : upTo(std::max(elements->number(i), -0x1p53)));
    }
    return most;
  }
  if (isa<ir::MinOp>(op)) return std::min(mostOf(op->getOperand(0), depth), mostOf(op->getOperand(1), depth));
  if (isa<ir::MaxOp, ir::ConcatOp>(op)) return mostOfOperands(0);
  if (isa<ir::WhereOp>(op)) return mostOfOperands(1);
  if (auto clip = dyn_cast<ir::ClipOp>(op))
    return std::min(mostOf(clip.getX(), depth), upTo(clip.getMax().convertToDouble()));
  if (auto index = dyn_cast<ir::ArgMaxOp>(op)) return mostIndex(index.getX(), index.getAxis());
  if (auto mod = dyn_cast<ir::ModOp>(op); mod && isa<IntegerType>(getElementTypeOrSelf(mod.getType()))) {
    // Its sign is that of the divisor.
    const int64_t divisor = mostOf(op->getOperand(1), depth);
    return divisor == kAny ? kAny : std::max<int64_t>(divisor - 1, 0);
  }
  if (isa<ir::ReshapeOp, ir::SliceOp, ir::ExpandOp, ir::TransposeOp, ir::ReduceMaxOp, ir::ReduceMinOp, ir::FloorOp,
          ir::RoundOp, ir::CeilOp>(op))
    return mostOf(op->getOperand(0), depth);
  if (auto cast = dyn_cast<ir::CastOp>(op)) return mostOfCast(cast, depth);
  return kAny;
}

/// Not called: OnnxImporter::convertControlFlow() comes first. A row says that the op imports.
void convertAsControlFlow(NodeContext& node) {
  node.unsupported("control flow");
}

constexpr OpRow kRows[] = {
    {"If", 1, kNewestOpset, convertAsControlFlow, "",
     "a condition that is known at import, or branches whose results have the same shapes"},
    {"Loop", 1, kNewestOpset, convertAsControlFlow, "",
     "any number of iterations, by the device, too; where values change their shape or sizes are free: at most 4096, "
     "known at import or bounded by it"},
    {"Scan", 8, kNewestOpset, convertAsControlFlow, "",
     "any number of iterations that is known at import; of sizes that are free: at most 4096"},
};

}  // namespace

llvm::ArrayRef<OpRow> controlFlowRows() {
  return kRows;
}

std::shared_ptr<const GraphDef> OnnxImporter::bodyOf(const NodeDef& node, StringRef name) {
  for (const NodeAttribute& attribute : node.attributes)
    if (attribute.name == name) return attribute.graph;
  return nullptr;
}

std::optional<std::vector<ImportedValue>> OnnxImporter::runBody(const NodeDef& node, const GraphDef& body,
                                                                const std::vector<ImportedValue>& arguments) {
  // What the body defines is its own: names of the graph around it have their values again behind it.
  std::map<std::string, std::optional<ImportedValue>> hidden;
  auto hide = [&](const std::string& name) {
    if (name.empty() || hidden.count(name)) return;
    auto found = values_.find(name);
    hidden.emplace(name, found == values_.end() ? std::nullopt : std::optional(found->second));
  };
  for (const ValueInfo& input : body.inputs) hide(input.name);
  for (const TensorData& data : body.initializers) hide(data.name);
  for (const NodeDef& inner : body.nodes)
    for (const std::string& output : inner.outputs) hide(output);
  auto restore = llvm::make_scope_exit([&] {
    for (auto& [name, value] : hidden)
      if (value)
        values_[name] = std::move(*value);
      else
        values_.erase(name);
  });
  for (size_t i = 0; i < body.inputs.size(); ++i) {
    values_[body.inputs[i].name] = arguments[i];
    if (values_[body.inputs[i].name].name.empty()) values_[body.inputs[i].name].name = body.inputs[i].name;
  }
  walked_.insert(&body);
  addInitializers(body);
  const size_t before = issues_.size();
  convertNodes(body.nodes);
  std::vector<ImportedValue> results;
  for (const ValueInfo& output : body.outputs) {
    auto found = values_.find(output.name);
    if (found == values_.end()) {
      report(node, Issue::Kind::kInvalid,
             strCat("its body does not define '", output.name, "'; export the model again"));
      return std::nullopt;
    }
    if (found->second.poisoned) return std::nullopt;
    results.push_back(found->second);
  }
  return issues_.size() == before ? std::optional(std::move(results)) : std::nullopt;
}

bool OnnxImporter::convertControlFlow(const NodeDef& node, const std::vector<ImportedValue*>& inputs) {
  const bool isIf = node.op == "If", isLoop = node.op == "Loop";
  if (!node.domain.empty() || (!isIf && !isLoop && node.op != "Scan")) return false;
  if (llvm::any_of(inputs, [](const ImportedValue* each) { return each && each->poisoned; })) return poison(node), true;
  if (isIf) {
    if (inputs.size() == 1 && inputs[0])
      convertIf(node, *inputs[0]);
    else
      report(node, Issue::Kind::kInvalid, "it has no condition; export the model again"), poison(node);
  } else if (isLoop) {
    convertLoop(node, inputs);
  } else {
    convertScan(node, inputs);
  }
  return true;
}

void OnnxImporter::setResults(const NodeDef& node, const NodeContext& context,
                              const std::vector<std::optional<ImportedValue>>& results) {
  if (context.issue()) {
    report(node, context.issue()->kind, context.issue()->reason);
    return poison(node);
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i].empty()) continue;
    values_[node.outputs[i]] = *results[i];
    values_[node.outputs[i]].name = node.outputs[i];
  }
}

void OnnxImporter::convertIf(const NodeDef& node, const ImportedValue& given) {
  const ImportedValue condition = given;  // The branches' values may move the table.
  const std::optional<int64_t> known = knownNumber(condition);
  NodeContext context(builder_, node, opsetOf(node), {}, {}, /*folding=*/false);
  std::vector<std::optional<ImportedValue>> results(node.outputs.size());
  std::vector<Issue> unused;
  if (!known)
    if (std::optional<FlowResults> made = ifOnDevice(node, condition, unused)) return setResults(node, context, *made);
  Value isThen;
  if (!known) isThen = FlowValues(context).scalar(condition);
  for (const char* name : {"then_branch", "else_branch"}) {
    const bool isFirst = name[0] == 't';
    if (known && (*known != 0) != isFirst) continue;
    const std::shared_ptr<const GraphDef> branch = bodyOf(node, name);
    if (!branch || branch->outputs.size() < node.outputs.size()) {
      report(node, Issue::Kind::kInvalid, "its branch is missing or has too few outputs; export the model again");
      return poison(node);
    }
    const std::optional<std::vector<ImportedValue>> done = runBody(node, *branch, {});
    if (!done) return poison(node);
    for (size_t i = 0; i < results.size(); ++i)
      results[i] = known || isFirst ? std::optional((*done)[i])
                   : results[i]     ? FlowValues(context).choose(isThen, *results[i], (*done)[i])
                                    : std::nullopt;
  }
  setResults(node, context, results);
}

void OnnxImporter::convertLoop(const NodeDef& node, const std::vector<ImportedValue*>& inputs) {
  const std::shared_ptr<const GraphDef> body = bodyOf(node, "body");
  auto refuse = [&](Issue::Kind kind, std::string reason) {
    report(node, kind, std::move(reason));
    poison(node);
  };
  const size_t numCarried = inputs.size() < 2 ? 0 : inputs.size() - 2;
  if (!body || inputs.size() < 2 || body->inputs.size() != inputs.size() || body->outputs.size() < numCarried + 1 ||
      node.outputs.size() + 1 > body->outputs.size())
    return refuse(Issue::Kind::kInvalid, "its body does not fit its operands; export the model again");
  NodeContext context(builder_, node, opsetOf(node), {}, {}, /*folding=*/false);
  context.bounds_ = options_.bounds;
  FlowValues flow(context);

  // How often it runs at most.
  int64_t most = std::numeric_limits<int64_t>::max();
  Value limit;
  std::optional<shape::DimExpr> size;  // The limit, where it follows from sizes.
  if (inputs[0]) {
    if (const std::optional<int64_t> known = knownNumber(*inputs[0])) {
      most = *known;
    } else {
      const auto& elements = inputs[0]->elements;
      if (elements && elements->divisor == 1 && elements->values.size() == 1) size = elements->values[0];
      if (size) most = std::min(most, context.most(*size));
      limit = flow.scalar(*inputs[0]);
      if (!limit) return setResults(node, context, {});
      most = std::min(most, mostOf(limit));
    }
  }
  ImportedValue condition = inputs[1] ? *inputs[1] : ofBool(true);
  std::vector<ImportedValue> carried;
  for (size_t i = 2; i < inputs.size(); ++i) carried.push_back(inputs[i] ? *inputs[i] : ImportedValue());
  std::vector<Issue> why;
  if (std::optional<FlowResults> made = loopOnDevice(node, *body, {most, limit, condition, carried}, why))
    return setResults(node, context, *made);
  // What stood in the way is told where there is no other way.
  auto refuseMany = [&](Issue::Kind kind, std::string reason) {
    if (why.empty()) return refuse(kind, std::move(reason));
    for (Issue& issue : why) issues_.push_back(std::move(issue));
    poison(node);
  };
  std::vector<std::vector<Value>> collected(body->outputs.size() - 1 - numCarried);
  std::vector<Value> ran;  // Of each iteration; null: it surely ran.
  Value runs;              // Where only the device knows whether this iteration runs.
  const auto collects = static_cast<int64_t>(
      llvm::count_if(ArrayRef<std::string>(node.outputs).drop_front(std::min(numCarried, node.outputs.size())),
                     [](const std::string& name) { return !name.empty(); }));

  for (int64_t k = 0;; ++k) {
    // A loop that does not run gives results of no rows, whose types its body says.
    const bool isForTypes = k == 0 && collects > 0 && (most <= 0 || knownNumber(condition) == 0);
    if (!isForTypes) {
      if (k >= most || knownNumber(condition) == 0) break;
      if (!knownNumber(condition)) runs = flow.both(runs, flow.scalar(condition)), size.reset();
      if (limit)
        runs = flow.both(
            runs, context.op("less", {context.constantTensor(Tensor::of<int64_t>(ElementType::kI64, {}, {k})), limit}));
      if (runs && most > kMostIterations)
        return refuseMany(
            size ? Issue::Kind::kFreeDimension : Issue::Kind::kUnsupported,
            strCat("how often it runs is known on the device only, and may be more than ", kMostIterations, " times",
                   size ? "" : "; limit its number of iterations by a Min with a constant"));
    }
    if (k >= kMostIterations || (k % 64 == 63 && isTooLarge()))
      return refuseMany(Issue::Kind::kUnsupported,
                        strCat("it runs more than ", k, " times, more than one program has room for"));
    std::vector<ImportedValue> arguments = {ofTensor(Tensor::of<int64_t>(ElementType::kI64, {}, {k})), condition};
    arguments.insert(arguments.end(), carried.begin(), carried.end());
    const std::optional<std::vector<ImportedValue>> done = runBody(node, *body, arguments);
    if (!done) return poison(node);
    for (size_t i = 0; i < collected.size(); ++i) {
      const ImportedValue& result = (*done)[1 + numCarried + i];
      if (result.sequence || result.isAbsent)
        return refuse(Issue::Kind::kUnsupported, "it collects sequences or optionals of its iterations");
      if (numCarried + i < node.outputs.size() && !node.outputs[numCarried + i].empty())
        collected[i].push_back(flow.tensor(result));
    }
    if (isForTypes) break;
    ran.push_back(runs);
    condition = done->front();
    for (size_t i = 0; i < numCarried; ++i) {
      std::optional<ImportedValue> next =
          runs ? flow.choose(runs, (*done)[1 + i], carried[i]) : std::optional((*done)[1 + i]);
      if (!next) return setResults(node, context, {});
      carried[i] = std::move(*next);
    }
    if (context.failed()) return setResults(node, context, {});
  }

  std::vector<std::optional<ImportedValue>> results(carried.begin(), carried.end());
  Value count;
  // A condition that is known may have ended it before.
  std::optional<shape::DimExpr> rowsOfSize = size && runs ? shape::DimExpr::max(*size, 0) : std::nullopt;
  if (rowsOfSize) rowsOfSize = shape::DimExpr::min(*rowsOfSize, static_cast<int64_t>(ran.size()));
  if (runs && collects > 0 && !rowsOfSize) {
    SmallVector<Value> each;
    for (Value one : ran)
      each.push_back(context.cast(context.reshape(one ? one : flow.tensor(ofBool(true)), ArrayRef<int64_t>{1}),
                                  builder_.getI64Type()));
    Value joined = each.size() == 1 ? each[0] : context.op("concat", each, {{"axis", 0}});
    count = context.op("reduce_sum", joined, {{"axes", Ints{0}}, {"keepdims", false}});
  }
  for (const std::vector<Value>& rows : collected) {
    if (rows.empty()) {
      results.emplace_back();
      continue;
    }
    Value all = flow.stack(rows, 0);
    if (all && ran.empty()) all = context.sliceDim(all, 0, 0, 0);
    if (all && count) all = cutToDataSize(context, all, 0, count);
    if (all && rowsOfSize) {
      ir::SymShape sizes = ir::symShape(NodeContext::typeOf(all));
      sizes[0] = context.symDim(rowsOfSize->simplified());
      all = context.slice(all, ir::SymShape(sizes.size(), ir::SymDim{0}), sizes, Ints(sizes.size(), 1));
    }
    results.push_back(ofValue(all));
  }
  results.resize(std::max(results.size(), node.outputs.size()));
  setResults(node, context, results);
}

void OnnxImporter::convertScan(const NodeDef& node, const std::vector<ImportedValue*>& inputs) {
  const std::shared_ptr<const GraphDef> body = bodyOf(node, "body");
  auto refuse = [&](Issue::Kind kind, std::string reason) {
    report(node, kind, std::move(reason));
    poison(node);
  };
  NodeContext context(builder_, node, opsetOf(node), {}, {}, /*folding=*/false);
  FlowValues flow(context);
  // Before opset 9 each operand has a batch in front, and the first says how long each sequence of it is.
  const bool hasBatch = opsetOf(node) < 9;
  const size_t first = hasBatch ? 1 : 0;
  const auto numScanned = context.integer("num_scan_inputs", 0);
  if (!body || numScanned < 1 || inputs.size() < first + static_cast<size_t>(numScanned) ||
      body->inputs.size() + first != inputs.size())
    return refuse(Issue::Kind::kInvalid, "its body does not fit its operands; export the model again");
  const size_t numCarried = body->inputs.size() - static_cast<size_t>(numScanned);
  const size_t numResults = body->outputs.size();
  if (numResults < numCarried || node.outputs.size() > numResults)
    return refuse(Issue::Kind::kInvalid, "its body does not fit its results; export the model again");
  const size_t numCollected = numResults - numCarried;
  auto listOf = [&](const char* name, size_t count) {
    Ints list = context.integers(name);
    if (!list.empty() && list.size() != count)
      context.invalid(strCat(name, " has ", list.size(), " entries for ", count, " operands or results"));
    list.resize(count, 0);
    return list;
  };
  const Ints inputAxes = listOf("scan_input_axes", static_cast<size_t>(numScanned));
  const Ints inputDirections =
      listOf(hasBatch ? "directions" : "scan_input_directions", static_cast<size_t>(numScanned));
  const Ints outputAxes = listOf("scan_output_axes", numCollected);
  const Ints outputDirections = listOf("scan_output_directions", numCollected);

  std::vector<Value> given;
  for (size_t i = first; i < inputs.size(); ++i) {
    if (!inputs[i] || inputs[i]->sequence || inputs[i]->isAbsent)
      return refuse(Issue::Kind::kInvalid, "an operand is missing or no tensor; export the model again");
    given.push_back(flow.tensor(*inputs[i]));
    if (!given.back()) return setResults(node, context, {});
    if (hasBatch && NodeContext::rank(given.back()) < 1)
      return refuse(Issue::Kind::kInvalid, "an operand without a batch; export the model again");
  }
  Value lengths;
  if (hasBatch && inputs[0]) lengths = flow.tensor(*inputs[0]);
  if (lengths && llvm::any_of(inputDirections, [](int64_t one) { return one != 0; }))
    return refuse(Issue::Kind::kUnsupported, "sequences of several lengths that it scans backwards");
  int64_t batches = 1, trips = -1;
  auto sizeAlong = [&](Value x, int64_t axis, int64_t& size) {
    const ir::SymDim dim = ir::symShape(NodeContext::typeOf(x))[static_cast<size_t>(axis)];
    if (dim.isFree()) return context.needsSize(strCat("how often it runs, dimension ", axis, " of what it scans"));
    if (size >= 0 && size != dim.size)
      return context.invalid(
          strCat("what it scans has ", size, " elements in one operand and ", dim.size, " in another"));
    size = dim.size;
  };
  Ints axes;
  for (size_t i = 0; i < static_cast<size_t>(numScanned); ++i) {
    Value x = given[numCarried + i];
    const std::optional<int64_t> axis = context.axis(inputAxes[i], NodeContext::rank(x) - static_cast<int64_t>(first));
    if (!axis) return setResults(node, context, {});
    axes.push_back(*axis);
    sizeAlong(x, *axis + static_cast<int64_t>(first), trips);
  }
  if (hasBatch) {
    batches = -1;
    for (Value x : given) sizeAlong(x, 0, batches);
  }
  if (context.failed()) return setResults(node, context, {});
  std::vector<Issue> why;
  if (!hasBatch) {
    ScanOperands operands;
    operands.trips = trips;
    operands.carried.assign(given.begin(), given.begin() + static_cast<ptrdiff_t>(numCarried));
    operands.scanned.assign(given.begin() + static_cast<ptrdiff_t>(numCarried), given.end());
    operands.scannedAxes = axes;
    operands.collectedAxes = outputAxes;
    for (int64_t one : inputDirections) operands.scannedBackwards.push_back(one != 0);
    for (int64_t one : outputDirections) operands.collectedBackwards.push_back(one != 0);
    if (std::optional<FlowResults> made = scanOnDevice(node, *body, operands, why))
      return setResults(node, context, *made);
  }
  // What stood in the way is told where there is no other way.
  auto refuseMany = [&](std::string reason) {
    if (why.empty()) return refuse(Issue::Kind::kUnsupported, std::move(reason));
    for (Issue& issue : why) issues_.push_back(std::move(issue));
    poison(node);
  };
  if (trips > kMostIterations || batches > kMostIterations || trips * batches > kMostIterations)
    return refuseMany(
        strCat("it runs ", trips, " times for each of ", batches, ", more than one program has room for"));
  if (trips == 0 || batches == 0)
    return refuse(Issue::Kind::kUnsupported, "it does not run, as what it scans has no elements");

  std::vector<std::vector<Value>> ofBatch(numResults);
  for (int64_t b = 0; b < batches; ++b) {
    std::vector<Value> own;
    for (Value x : given) own.push_back(hasBatch ? flow.pick(x, 0, b) : x);
    Value length;
    if (lengths)
      length = context.cast(context.reshape(flow.pick(lengths, 0, b), ArrayRef<int64_t>{}), builder_.getI64Type());
    std::vector<ImportedValue> carried;
    for (size_t i = 0; i < numCarried; ++i) carried.push_back(ofValue(own[i]));
    std::vector<std::vector<Value>> collected(numCollected);
    for (int64_t k = 0; k < trips; ++k) {
      std::vector<ImportedValue> arguments = carried;
      for (size_t i = 0; i < static_cast<size_t>(numScanned); ++i)
        arguments.push_back(ofValue(flow.pick(own[numCarried + i], axes[i], inputDirections[i] ? trips - 1 - k : k)));
      if (context.failed() || isTooLarge()) break;
      const std::optional<std::vector<ImportedValue>> done = runBody(node, *body, arguments);
      if (!done) return poison(node);
      Value runs;
      if (length)
        runs = context.op("less", {context.constantTensor(Tensor::of<int64_t>(ElementType::kI64, {}, {k})), length});
      for (size_t i = 0; i < numResults; ++i) {
        Value made = flow.tensor((*done)[i]);
        if (!made) return setResults(node, context, {});
        if (i < numCarried) {
          std::optional<ImportedValue> next = runs ? flow.choose(runs, ofValue(made), carried[i]) : ofValue(made);
          if (!next) return setResults(node, context, {});
          carried[i] = *next;
        } else {
          // Behind the end of a sequence there are zeros.
          if (runs) made = context.op("where", {runs, made, context.scalarLike(made, 0)});
          collected[i - numCarried].push_back(made);
        }
      }
    }
    if (context.failed()) return setResults(node, context, {});
    if (isTooLarge()) return refuseMany(strCat("it runs ", trips, " times, more than one program has room for"));
    for (size_t i = 0; i < numResults; ++i) {
      if (i < numCarried) {
        ofBatch[i].push_back(carried[i].value);
        continue;
      }
      std::vector<Value>& rows = collected[i - numCarried];
      if (outputDirections[i - numCarried]) std::reverse(rows.begin(), rows.end());
      const std::optional<int64_t> axis = context.axis(outputAxes[i - numCarried], NodeContext::rank(rows[0]) + 1);
      if (!axis) return setResults(node, context, {});
      ofBatch[i].push_back(flow.stack(rows, *axis));
    }
  }
  std::vector<std::optional<ImportedValue>> results;
  for (const std::vector<Value>& each : ofBatch) results.push_back(ofValue(hasBatch ? flow.stack(each, 0) : each[0]));
  setResults(node, context, results);
}

}  // namespace hpu::importer
