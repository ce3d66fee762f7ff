// SPDX-License-Identifier: Apache-2.0
#include "bindings/synapse/lowering/GraphLowering.h"

#include <algorithm>
#include <new>
#include <numeric>
#include <set>

#include "base/StatusMacros.h"
#include "bindings/synapse/lowering/Lowering.h"
#include "bindings/synapse/lowering/NodeOrder.h"
#include "bindings/synapse/lowering/SectionMemory.h"

namespace hpu::synapse {

namespace {

constexpr uint32_t kDataTensor = 0, kDynamicDataTensor = 3;

bool isData(const TensorDescription& tensor) {
  return tensor.type == kDataTensor || tensor.type == kDynamicDataTensor;
}

class GraphLowering {
 public:
  GraphLowering(const GraphDescription& source, const std::vector<std::vector<uint64_t>>& actualSizes,
                bool inferenceOnly, const ChangingSizes* changing)
      : source_(source),
        actualSizes_(actualSizes),
        inferenceOnly_(inferenceOnly),
        changing_(changing),
        graph_(std::make_unique<Graph>(source.name)),
        states_(source.tensors.size()) {}

  StatusOr<LoweredGraph> run();

 private:
  struct TensorState {
    Value value;                 ///< As a node gave it.
    Value before;                ///< What it holds before the graph: an input or a constant.
    std::optional<Shape> shape;  ///< Framework order.
    ElementType type = ElementType::kInvalid;
    size_t writes = 0;  ///< Number of the write to its section, from 1.
    bool isProduced = false, isInput = false, isPoisoned = false;
    bool isLeft = false;  ///< A result of a node that does nothing.
  };

  Status declare(size_t t);
  Status lowerNode(const NodeDescription& node);
  StatusOr<OperandSlot> operand(Emitter& e, int32_t t);
  OperandSlot result(int32_t t) const;
  Status keepResult(Emitter& e, int32_t t, const ResultSlot& slot);
  Status finish();

  Value valueBefore(Emitter& e, size_t t);
  SectionRange rangeOf(size_t t) const;
  bool isPersistent(size_t t) const;
  StatusOr<std::vector<int64_t>> memoryOrder(size_t t) const;
  Value toMemory(Emitter& e, size_t t, Value v);
  Value fromMemory(Emitter& e, size_t t, Value v);
  std::string uniqueName(size_t t, std::set<std::string>& taken) const;
  bool isFree(size_t t) const;
  std::string tensorTitle(size_t t) const { return strCat("tensor '", source_.tensors[t].name, "'"); }
  void report(const Status& status, const std::string& where) {
    code_ = code_ == StatusCode::kOk || code_ == status.code() ? status.code() : StatusCode::kInvalidArgument;
    lines_ += strCat(lines_.empty() ? "" : "\n", where, ": ", status.message());
  }

  const GraphDescription& source_;
  const std::vector<std::vector<uint64_t>>& actualSizes_;
  bool inferenceOnly_;
  const ChangingSizes* changing_;
  std::unique_ptr<Graph> graph_;
  std::vector<TensorState> states_;
  SectionMemory memory_;
  size_t writes_ = 0;
  std::vector<int32_t> inputs_, outputs_;
  std::set<std::string> inputNames_, outputNames_;
  std::string lines_, log_;
  StatusCode code_ = StatusCode::kOk;  ///< Of all reports; kInvalidArgument when they differ.
};

// ---- tensors -------------------------------------------------------------------------------------

bool GraphLowering::isFree(size_t t) const {
  const TensorDescription& tensor = source_.tensors[t];
  return !tensor.minSizes.empty() && tensor.minSizes != tensor.maxSizes;
}

/// The declared sizes (those of this compilation, when the tensor is free) and element type.
Status GraphLowering::declare(size_t t) {
  const TensorDescription& tensor = source_.tensors[t];
  TensorState& state = states_[t];
  const std::vector<uint64_t>* sizes = &tensor.maxSizes;
  if (t < actualSizes_.size() && !actualSizes_[t].empty()) {
    sizes = &actualSizes_[t];
    bool fits = sizes->size() == tensor.maxSizes.size();
    for (size_t i = 0; fits && i < sizes->size(); ++i)
      fits = (*sizes)[i] <= tensor.maxSizes[i] && (i >= tensor.minSizes.size() || (*sizes)[i] >= tensor.minSizes[i]);
    if (!fits)
      return invalidArgument(strCat("the actual sizes ", sizesText(*sizes), " are outside of ",
                                    sizesText(tensor.minSizes), " to ", sizesText(tensor.maxSizes)));
  } else if (isFree(t) && !actualSizes_.empty()) {
    sizes = nullptr;  // To be inferred from the actual sizes of others.
  }
  if (sizes && !sizes->empty()) {
    HPU_ASSIGN(state.shape, shapeOf(*sizes));
  }
  if (tensor.dataType != 0) {
    HPU_ASSIGN(state.type, elementTypeOf(tensor.dataType, source_.target));
  }
  return okStatus();
}

bool GraphLowering::isPersistent(size_t t) const {
  uint32_t section = source_.tensors[t].section;
  return section < source_.sections.size() && source_.sections[section].persistent;
}

SectionRange GraphLowering::rangeOf(size_t t) const {
  const TensorDescription& tensor = source_.tensors[t];
  const TensorState& state = states_[t];
  if (tensor.section == kNoSection || !state.shape) return {};
  auto bytes = static_cast<uint64_t>(numElements(*state.shape) * elementSize(state.type));
  return {tensor.section, tensor.sectionOffset, tensor.sectionOffset + bytes};
}

/// The dims in the order of the memory, slowest first; the identity when it is dense as declared.
StatusOr<std::vector<int64_t>> GraphLowering::memoryOrder(size_t t) const {
  const TensorDescription& tensor = source_.tensors[t];
  size_t rank = states_[t].shape ? states_[t].shape->size() : 0;
  std::vector<uint64_t> fastestFirst(rank);
  std::iota(fastestFirst.begin(), fastestFirst.end(), 0);
  if (!tensor.permutation.empty()) {
    if (tensor.permutation.size() != rank) return invalidArgument("its permutation has another rank");
    std::copy(tensor.permutation.begin(), tensor.permutation.end(), fastestFirst.begin());
    std::vector<bool> seen(rank, false);
    for (uint64_t d : fastestFirst) {
      if (d >= rank || seen[d]) return invalidArgument("its permutation is none");
      seen[d] = true;
    }
  } else if (!tensor.strides.empty() && rank > 0) {
    std::vector<uint64_t> sizes = sizesOf(*states_[t].shape);
    auto strideOf = [&](uint64_t d) { return d < tensor.strides.size() ? tensor.strides[d] : 0; };
    bool given = std::any_of(tensor.strides.begin(), tensor.strides.end(), [](uint64_t s) { return s != 0; });
    if (given) {
      std::stable_sort(fastestFirst.begin(), fastestFirst.end(), [&](uint64_t a, uint64_t b) {
        return std::pair(strideOf(a), sizes[a]) < std::pair(strideOf(b), sizes[b]);
      });
      uint64_t dense = static_cast<uint64_t>(elementSize(states_[t].type));
      for (uint64_t d : fastestFirst) {
        if (sizes[d] != 1 && strideOf(d) != dense)
          return unimplemented(strCat("its strides leave gaps: a persistent tensor must be dense (stride of dim ", d,
                                      " is ", strideOf(d), " bytes)"));
        dense *= sizes[d];
      }
    }
  }
  std::vector<int64_t> order;
  for (size_t i = rank; i-- > 0;) order.push_back(static_cast<int64_t>(rank - 1 - fastestFirst[i]));
  return order;
}

Value GraphLowering::toMemory(Emitter& e, size_t t, Value v) {
  StatusOr<std::vector<int64_t>> order = memoryOrder(t);
  return order.ok() ? e.transpose(v, *order) : e.failWith(order.status().withContext(tensorTitle(t)));
}

Value GraphLowering::fromMemory(Emitter& e, size_t t, Value v) {
  StatusOr<std::vector<int64_t>> order = memoryOrder(t);
  if (!order.ok()) return e.failWith(order.status().withContext(tensorTitle(t)));
  std::vector<int64_t> inverse(order->size());
  for (size_t i = 0; i < order->size(); ++i) inverse[static_cast<size_t>((*order)[i])] = static_cast<int64_t>(i);
  return e.transpose(v, inverse);
}

std::string GraphLowering::uniqueName(size_t t, std::set<std::string>& taken) const {
  const TensorDescription& tensor = source_.tensors[t];
  std::string name = tensor.name.empty() ? strCat("tensor", tensor.id) : tensor.name;
  if (taken.count(name)) name += strCat("#", t);
  taken.insert(name);
  return name;
}

/// The value before the graph, in memory order: a constant or an input, made at its first use.
Value GraphLowering::valueBefore(Emitter& e, size_t t) {
  const TensorDescription& tensor = source_.tensors[t];
  TensorState& state = states_[t];
  if (state.before.handle) return state.before;
  if (!state.shape) return e.fail(strCat(tensorTitle(t), " has no sizes"));
  if (state.type == ElementType::kInvalid) return e.fail(strCat(tensorTitle(t), " has no element type"));
  StatusOr<std::vector<int64_t>> order = memoryOrder(t);
  if (!order.ok()) return e.failWith(order.status().withContext(tensorTitle(t)));
  TensorType type{state.type, {}};
  for (int64_t d : *order) type.shape.push_back((*state.shape)[static_cast<size_t>(d)]);
  bool isConst = tensor.section < source_.sections.size() && source_.sections[tensor.section].isConst;
  StatusOr<Value> made = invalidArgument("");
  if (tensor.hostData && (isConst || !isPersistent(t))) {
    uint32_t hostType = tensor.hostType ? tensor.hostType : tensor.dataType;
    StatusOr<ElementType> from = elementTypeOf(hostType, source_.target);
    if (!from.ok()) return e.failWith(from.status().withContext(tensorTitle(t)));
    auto data = convertElements(*tensor.hostData, *from, state.type, numElements(type.shape));
    if (!data.ok()) return e.failWith(data.status().withContext(tensorTitle(t)));
    made = graph_->constant(type, data->data(), data->size());
  } else if (isPersistent(t) || inferenceOnly_) {
    made = graph_->input(uniqueName(t, inputNames_), type);
    if (made.ok()) {
      state.isInput = true;
      inputs_.push_back(static_cast<int32_t>(t));
    }
  } else if (state.isLeft) {
    return state.before = e.full(type, 0);  // Of memory that nothing else writes.
  } else {
    made = invalidArgument("nothing writes it, and it has neither data nor a persistent section");
  }
  if (!made.ok()) return e.failWith(made.status().withContext(tensorTitle(t)));
  return state.before = *made;
}

// ---- nodes ---------------------------------------------------------------------------------------

StatusOr<OperandSlot> GraphLowering::operand(Emitter& e, int32_t index) {
  if (index == kNoTensor) return OperandSlot{};
  auto t = static_cast<size_t>(index);
  const TensorDescription& tensor = source_.tensors[t];
  TensorState& state = states_[t];
  OperandSlot slot{&tensor, {}, state.shape, state.type};
  if (changing_) {
    slot.changes = true;
    if (t < changing_->largest.size())
      for (size_t d = changing_->largest[t].size(); d-- > 0;)
        slot.largest.push_back(static_cast<int64_t>(changing_->largest[t][d]));
  }
  if (!isData(tensor)) {
    if (!state.shape && !tensor.hostData) return invalidArgument(strCat(tensorTitle(t), " has no sizes"));
    return slot;
  }
  if (state.isProduced) {
    slot.value = state.value;
    return slot;
  }
  SectionRange range = rangeOf(t);
  Value value;
  if (memory_.isWritten(range)) {
    Value before = memory_.isCovered(range) ? Value{} : valueBefore(e, t);
    StatusOr<std::vector<int64_t>> order = memoryOrder(t);
    if (!order.ok()) return order.status().withContext(tensorTitle(t));
    TensorType type{state.type, {}};
    for (int64_t d : *order) type.shape.push_back((*state.shape)[static_cast<size_t>(d)]);
    value = memory_.read(e, range, type, before);
  } else {
    value = valueBefore(e, t);
  }
  slot.value = fromMemory(e, t, value);
  if (!e.ok()) return e.status();
  return slot;
}

OperandSlot GraphLowering::result(int32_t index) const {
  if (index == kNoTensor) return {};
  auto t = static_cast<size_t>(index);
  OperandSlot slot{&source_.tensors[t], {}, states_[t].shape, states_[t].type};
  slot.mayBeSmaller = isFree(t) && actualSizes_.empty();
  return slot;
}

Status GraphLowering::keepResult(Emitter& e, int32_t index, const ResultSlot& slot) {
  auto t = static_cast<size_t>(index);
  TensorState& state = states_[t];
  state.isProduced = true;
  if (slot.shape) {
    state.shape = slot.shape;
    return okStatus();
  }
  TensorType type = e.type(slot.value);
  if (StatusOr<Shape> checked = shapeOf(sizesOf(type.shape)); !checked.ok())
    return checked.status().withContext(tensorTitle(t));
  const TensorDescription& tensor = source_.tensors[t];
  if (isFree(t)) {
    std::vector<uint64_t> sizes = sizesOf(type.shape);
    bool fits = sizes.size() == tensor.maxSizes.size();
    for (size_t i = 0; fits && i < sizes.size(); ++i) fits = sizes[i] <= tensor.maxSizes[i];
    if (!fits)
      return invalidArgument(strCat(tensorTitle(t), " has sizes ", sizesText(sizes), ", more than its maximum ",
                                    sizesText(tensor.maxSizes)));
  }
  state.value = slot.value;
  state.shape = type.shape;
  if (state.type == ElementType::kInvalid)
    state.type = type.element == ElementType::kBool ? ElementType::kI8 : type.element;
  if (tensor.section != kNoSection) {
    Value bytes = type.element == ElementType::kBool ? e.cast(slot.value, state.type) : slot.value;
    memory_.write(rangeOf(t), toMemory(e, t, bytes));
    state.writes = ++writes_;
  }
  return e.status();
}

Status GraphLowering::lowerNode(const NodeDescription& node) {
  HPU_ASSIGN(GuidMatch guid, findGuid(node.guid, source_.target));
  if (guid.row->flags & kNothing) {
    for (int32_t t : node.outputs)
      if (t != kNoTensor) states_[static_cast<size_t>(t)].isLeft = true;
    return NodeContext(*graph_, source_.target, node, guid, {}, {}).run();
  }
  Emitter reader(*graph_, node.name, &inUsersOrder);
  std::vector<OperandSlot> inputs, outputs;
  for (int32_t t : node.inputs) {
    HPU_ASSIGN(OperandSlot slot, operand(reader, t));
    inputs.push_back(std::move(slot));
  }
  for (int32_t t : node.outputs) outputs.push_back(result(t));
  NodeContext context(*graph_, source_.target, node, guid, std::move(inputs), std::move(outputs));
  HPU_RETURN_IF_ERROR(context.run());
  for (size_t i = 0; i < node.outputs.size(); ++i)
    if (node.outputs[i] != kNoTensor) HPU_RETURN_IF_ERROR(keepResult(context, node.outputs[i], context.results()[i]));
  return okStatus();
}

/// The persistent tensors that nodes wrote become the graph's outputs.
Status GraphLowering::finish() {
  for (size_t t = 0; t < states_.size(); ++t) {
    TensorState& state = states_[t];
    if (!state.isProduced || !state.value.handle || !isPersistent(t)) continue;
    Emitter e(*graph_, source_.tensors[t].name, &inUsersOrder);
    SectionRange range = rangeOf(t);
    if (memory_.lastCover(range) + 1 != state.writes) {
      log_ += strCat(tensorTitle(t), ": a later node writes its place, so it is no output\n");
      continue;
    }
    TensorType type = e.type(toMemory(e, t, state.value));
    type.element = state.type;
    Value last = memory_.read(e, range, type, {});
    if (!e.ok()) return e.status().withContext(tensorTitle(t));
    HPU_RETURN_IF_ERROR(graph_->output(uniqueName(t, outputNames_), last));
    outputs_.push_back(static_cast<int32_t>(t));
  }
  return okStatus();
}

StatusOr<LoweredGraph> GraphLowering::run() {
  for (size_t t = 0; t < states_.size(); ++t)
    if (Status status = declare(t); !status.ok()) report(status, tensorTitle(t));
  if (!lines_.empty()) return Status(code_, lines_);
  HPU_ASSIGN(std::vector<size_t> order, orderNodes(source_));
  for (size_t n : order) {
    const NodeDescription& node = source_.nodes[n];
    bool isPoisoned = std::any_of(node.inputs.begin(), node.inputs.end(), [&](int32_t t) {
      return t != kNoTensor && states_[static_cast<size_t>(t)].isPoisoned;
    });
    if (!isPoisoned) {
      Status status;
      try {
        status = lowerNode(node);
      } catch (const std::bad_alloc&) {  // A table that a parameter made huge.
        status = resourceExhausted("its lowering needs more host memory than there is");
      }
      if (!status.ok()) report(status, NodeContext::title(node));
      isPoisoned = !status.ok();
    }
    if (!isPoisoned) continue;
    for (int32_t t : node.outputs)
      if (t != kNoTensor) states_[static_cast<size_t>(t)].isPoisoned = true;
  }
  if (!lines_.empty()) return Status(code_, lines_);
  if (!inferenceOnly_) HPU_RETURN_IF_ERROR(finish());

  LoweredGraph result;
  for (const TensorState& state : states_) {
    result.sizes.push_back(state.shape ? std::optional(sizesOf(*state.shape)) : std::nullopt);
    result.types.push_back(synDataTypeOf(state.type));
  }
  result.graph = std::move(graph_);
  result.inputs = std::move(inputs_);
  result.outputs = std::move(outputs_);
  result.log = std::move(log_);
  return result;
}

}  // namespace

StatusOr<LoweredGraph> lowerGraph(const GraphDescription& graph, const std::vector<std::vector<uint64_t>>& actualSizes,
                                  bool inferenceOnly, const ChangingSizes* changing) {
  return GraphLowering(graph, actualSizes, inferenceOnly, changing).run();
}

}  // namespace hpu::synapse
