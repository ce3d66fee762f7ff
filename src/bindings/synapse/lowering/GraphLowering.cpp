// SPDX-License-Identifier: Apache-2.0
#include "bindings/synapse/lowering/GraphLowering.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <numeric>
#include <set>
#include <tuple>

#include "base/StatusMacros.h"
#include "bindings/synapse/graph/MemoryLayout.h"
#include "bindings/synapse/graph/ValueBounds.h"
#include "bindings/synapse/lowering/Lowering.h"
#include "bindings/synapse/lowering/NodeOrder.h"
#include "bindings/synapse/lowering/SectionMemory.h"
#include "compose/Reinterpret.h"
#include "compose/StridedViews.h"

namespace hpu::synapse {

namespace {

Shape withOne(Shape shape) {
  shape.push_back(1);
  return shape;
}

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
  static bool isEmpty(const std::vector<OperandSlot>& outputs);
  Status keepFilled(Emitter& e, const NodeDescription& node);
  /// What the graph leaves in a tensor's memory.
  struct Written {
    size_t tensor = 0;
    SectionRange range;
  };
  void separate(std::vector<Written>& written);
  Status finish();

  /// How a tensor's elements lie in its memory.
  struct MemoryForm {
    TensorType type;                    ///< Of the memory.
    std::vector<int64_t> order;         ///< Dims in the order of the memory, slowest first, where it is dense.
    std::optional<compose::View> view;  ///< Else which elements of the memory are the tensor's.
  };

  Value valueBefore(Emitter& e, size_t t);
  Value memoryBefore(Emitter& e, size_t t);
  SectionRange rangeOf(size_t t) const;
  bool isPersistent(size_t t) const;
  Status orderDense(size_t t, MemoryForm& form) const;
  StatusOr<MemoryForm> memoryForm(size_t t, bool isWritten) const;
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
  std::vector<size_t> inputRanks_;  ///< Of inputs_, as the graph has them.
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
  if (hasStrides(tensor)) bytes = extentOf(tensor, sizesOf(*state.shape));
  return {tensor.section, tensor.sectionOffset, tensor.sectionOffset + bytes};
}

/// The order of a memory without gaps; nothing where strides leave some.
Status GraphLowering::orderDense(size_t t, MemoryForm& form) const {
  const TensorDescription& tensor = source_.tensors[t];
  const std::vector<uint64_t> sizes = sizesOf(*states_[t].shape);
  const size_t rank = sizes.size();
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
  } else if (hasStrides(tensor)) {
    std::stable_sort(fastestFirst.begin(), fastestFirst.end(), [&](uint64_t a, uint64_t b) {
      return std::pair(strideOf(tensor, a), sizes[a]) < std::pair(strideOf(tensor, b), sizes[b]);
    });
    auto dense = static_cast<uint64_t>(elementSize(states_[t].type));
    for (uint64_t d : fastestFirst) {
      if (sizes[d] != 1 && strideOf(tensor, d) != dense) return okStatus();
      dense *= sizes[d];
    }
  }
  for (size_t i = rank; i-- > 0;) {
    form.order.push_back(static_cast<int64_t>(rank - 1 - fastestFirst[i]));
    form.type.shape.push_back(static_cast<int64_t>(sizes[fastestFirst[i]]));
  }
  return okStatus();
}

StatusOr<GraphLowering::MemoryForm> GraphLowering::memoryForm(size_t t, bool isWritten) const {
  const TensorDescription& tensor = source_.tensors[t];
  const TensorState& state = states_[t];
  MemoryForm form{{state.type, {}}, {}, {}};
  if (!state.shape || state.shape->empty()) return form;
  HPU_RETURN_IF_ERROR(orderDense(t, form));
  if (!form.order.empty()) return form;
  const std::vector<uint64_t> sizes = sizesOf(*state.shape);
  const auto bytes = static_cast<uint64_t>(elementSize(state.type));
  if (std::string fault = strideFault(tensor, sizes, bytes, isWritten); !fault.empty()) return invalidArgument(fault);
  const uint64_t extent = extentOf(tensor, sizes);
  if (extent > static_cast<uint64_t>(INT64_MAX)) return invalidArgument("its strides reach beyond 2^63 bytes");
  // Elements at places that are no multiples of their size are put together of bytes.
  bool isOfBytes = false;
  for (size_t d = 0; d < sizes.size(); ++d) isOfBytes |= sizes[d] > 1 && strideOf(tensor, d) % bytes != 0;
  const uint64_t unit = isOfBytes ? 1 : bytes;
  compose::View view;
  for (size_t d = sizes.size(); d-- > 0;) {
    view.shape.push_back(static_cast<int64_t>(sizes[d]));
    view.strides.push_back(sizes[d] > 1 ? static_cast<int64_t>(strideOf(tensor, d) / unit) : 0);
  }
  if (isOfBytes) {
    form.type.element = ElementType::kU8;
    view.shape.push_back(static_cast<int64_t>(bytes));
    view.strides.push_back(1);
  }
  form.type.shape = {static_cast<int64_t>(extent / unit)};
  form.view = std::move(view);
  return form;
}

Value GraphLowering::toMemory(Emitter& e, size_t t, Value v) {
  StatusOr<MemoryForm> form = memoryForm(t, /*isWritten=*/true);
  if (!form.ok()) return e.failWith(form.status().withContext(tensorTitle(t)));
  if (!form->view) return e.transpose(v, form->order);
  // What lies in the gaps stays.
  const bool isBytes = form->view->shape.size() != states_[t].shape->size();
  Value parts = isBytes ? compose::reinterpret(e, e.reshape(v, withOne(e.shape(v))), ElementType::kU8) : v;
  return writeView(e, memoryBefore(e, t), parts, *form->view);
}

Value GraphLowering::fromMemory(Emitter& e, size_t t, Value v) {
  StatusOr<MemoryForm> form = memoryForm(t, /*isWritten=*/false);
  if (!form.ok()) return e.failWith(form.status().withContext(tensorTitle(t)));
  if (form->view) {
    Value parts = readView(e, v, *form->view);
    if (form->view->shape.size() == states_[t].shape->size()) return parts;
    return e.reshape(compose::reinterpret(e, parts, states_[t].type), *states_[t].shape);
  }
  std::vector<int64_t> inverse(form->order.size());
  for (size_t i = 0; i < inverse.size(); ++i) inverse[static_cast<size_t>(form->order[i])] = static_cast<int64_t>(i);
  return e.transpose(v, inverse);
}

/// What the tensor's memory holds now: the newest bytes.
Value GraphLowering::memoryBefore(Emitter& e, size_t t) {
  SectionRange range = rangeOf(t);
  if (!memory_.isWritten(range)) return valueBefore(e, t);
  StatusOr<MemoryForm> form = memoryForm(t, /*isWritten=*/false);
  if (!form.ok()) return e.failWith(form.status().withContext(tensorTitle(t)));
  Value before = memory_.isCovered(range) ? Value{} : valueBefore(e, t);
  return memory_.read(e, range, form->type, before);
}

std::string GraphLowering::uniqueName(size_t t, std::set<std::string>& taken) const {
  const TensorDescription& tensor = source_.tensors[t];
  std::string name = tensor.name.empty() ? strCat("tensor", tensor.id) : tensor.name;
  if (taken.count(name)) name += strCat("#", t);
  taken.insert(name);
  return name;
}

/// The memory before the graph: a constant or an input, made at its first use.
Value GraphLowering::valueBefore(Emitter& e, size_t t) {
  const TensorDescription& tensor = source_.tensors[t];
  TensorState& state = states_[t];
  if (state.before.handle) return state.before;
  if (!state.shape) return e.fail(strCat(tensorTitle(t), " has no sizes"));
  if (state.type == ElementType::kInvalid) return e.fail(strCat(tensorTitle(t), " has no element type"));
  StatusOr<MemoryForm> form = memoryForm(t, /*isWritten=*/false);
  if (!form.ok()) return e.failWith(form.status().withContext(tensorTitle(t)));
  const TensorType& type = form->type;
  if (numElements(type.shape) == 0 && !inferenceOnly_) return state.before = e.constant(type, "", 0);
  bool isConst = tensor.section < source_.sections.size() && source_.sections[tensor.section].isConst;
  StatusOr<Value> made = invalidArgument("");
  if (tensor.hostData && (isConst || !isPersistent(t))) {
    uint32_t hostType = tensor.hostType ? tensor.hostType : tensor.dataType;
    StatusOr<ElementType> from = elementTypeOf(hostType, source_.target);
    if (!from.ok()) return e.failWith(from.status().withContext(tensorTitle(t)));
    if (form->view && tensor.hostData->size() == extentOf(tensor, sizesOf(*state.shape)) && *from == state.type)
      return state.before = e.constant(type, tensor.hostData->data(), tensor.hostData->size());
    auto data = convertElements(*tensor.hostData, *from, state.type, numElements(*state.shape));
    if (!data.ok()) return e.failWith(data.status().withContext(tensorTitle(t)));
    if (form->view) {
      std::vector<std::byte> dense(data->size());
      std::memcpy(dense.data(), data->data(), data->size());
      const std::vector<std::byte> memory = memoryImage(tensor, sizesOf(*state.shape), std::move(dense));
      made = graph_->constant(type, memory.data(), memory.size());
    } else {
      made = graph_->constant(type, data->data(), data->size());
    }
  } else if (isPersistent(t) || inferenceOnly_) {
    made = graph_->input(uniqueName(t, inputNames_), type);
    if (made.ok()) {
      state.isInput = true;
      inputs_.push_back(static_cast<int32_t>(t));
      inputRanks_.push_back(type.shape.size());
    }
  } else if ((state.isProduced && form->view) || state.isLeft) {
    return state.before = e.full(type, 0);  // Gaps in the workspace, or memory that nothing else writes.
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
  // What its writer gave, unless another node has written over it since.
  if (state.isProduced && (tensor.section == kNoSection || !memory_.isWritten(rangeOf(t), state.writes))) {
    slot.value = state.value;
    return slot;
  }
  slot.value = fromMemory(e, t, memoryBefore(e, t));
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
  // Nothing computes nothing.
  state.value = numElements(type.shape) == 0 ? e.constant(type, "", 0) : slot.value;
  state.shape = type.shape;
  if (state.type == ElementType::kInvalid)
    state.type = type.element == ElementType::kBool ? ElementType::kI8 : type.element;
  if (tensor.section != kNoSection) {
    Value bytes = type.element == ElementType::kBool ? e.cast(state.value, state.type) : state.value;
    memory_.write(rangeOf(t), toMemory(e, t, bytes));
    state.writes = ++writes_;
  }
  return e.status();
}

/// Whether a node has nothing to do: each result has a type and declared sizes with a 0 among them.
bool GraphLowering::isEmpty(const std::vector<OperandSlot>& outputs) {
  bool isAny = false;
  for (const OperandSlot& slot : outputs) {
    if (!slot.tensor) continue;
    if (!isData(*slot.tensor) || !slot.shape || slot.type == ElementType::kInvalid || numElements(*slot.shape) != 0)
      return false;
    isAny = true;
  }
  return isAny;
}

/// Zeros of the declared sizes for the node's results.
Status GraphLowering::keepFilled(Emitter& e, const NodeDescription& node) {
  for (int32_t index : node.outputs) {
    if (index == kNoTensor) continue;
    const TensorState& state = states_[static_cast<size_t>(index)];
    if (!state.shape) return invalidArgument(strCat(tensorTitle(static_cast<size_t>(index)), " has no sizes"));
    ResultSlot slot;
    if (isData(source_.tensors[static_cast<size_t>(index)])) {
      if (state.type == ElementType::kInvalid)
        return invalidArgument(strCat(tensorTitle(static_cast<size_t>(index)), " has no element type"));
      slot.value = e.full({state.type, *state.shape}, 0);
    } else {
      slot.shape = state.shape;
    }
    HPU_RETURN_IF_ERROR(keepResult(e, index, slot));
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
  if (isEmpty(outputs)) return keepFilled(reader, node);
  NodeContext context(*graph_, source_.target, node, guid, std::move(inputs), std::move(outputs));
  if (Status status = context.run(); !status.ok()) {
    // With bounds for values it need not fit together; launches compile it with theirs.
    Emitter filler(*graph_, node.name, &inUsersOrder);
    const bool isBounded = actualSizes_.empty() && readsBounds(source_, node);
    return isBounded && keepFilled(filler, node).ok() ? okStatus() : status;
  }
  for (size_t i = 0; i < node.outputs.size(); ++i)
    if (node.outputs[i] != kNoTensor) HPU_RETURN_IF_ERROR(keepResult(context, node.outputs[i], context.results()[i]));
  return okStatus();
}

/// What outputs write of their ranges: those of one launch are apart. Of two that overlap, the one that begins first
/// ends where the other begins, or has the other's bytes, too (then that one is left out). All of them are the newest.
void GraphLowering::separate(std::vector<Written>& written) {
  std::stable_sort(written.begin(), written.end(), [](const Written& a, const Written& b) {
    return std::tuple(a.range.section, a.range.begin, b.range.end) <
           std::tuple(b.range.section, b.range.begin, a.range.end);
  });
  size_t kept = 0;
  for (const Written& one : written) {
    if (kept > 0 && written[kept - 1].range.overlaps(one.range)) {
      Written& before = written[kept - 1];
      if (one.range.end <= before.range.end) {
        log_ += strCat(tensorTitle(one.tensor), ": its bytes are among those of ", tensorTitle(before.tensor),
                       ", so it is no output\n");
        continue;
      }
      before.range.end = one.range.begin;
    }
    written[kept++] = one;
  }
  written.resize(kept);
  std::sort(written.begin(), written.end(), [](const Written& a, const Written& b) { return a.tensor < b.tensor; });
}

/// The persistent tensors that nodes wrote become the graph's outputs.
Status GraphLowering::finish() {
  std::vector<Written> written;
  for (size_t t = 0; t < states_.size(); ++t) {
    TensorState& state = states_[t];
    if (!state.isProduced || !state.value.handle || !isPersistent(t)) continue;
    SectionRange range = rangeOf(t);
    if (memory_.lastCover(range) + 1 != state.writes)
      log_ += strCat(tensorTitle(t), ": a later node writes its place, so it is no output\n");
    else
      written.push_back({t, range});
  }
  separate(written);
  for (const Written& one : written) {
    Emitter e(*graph_, source_.tensors[one.tensor].name, &inUsersOrder);
    StatusOr<MemoryForm> form = memoryForm(one.tensor, /*isWritten=*/false);
    if (!form.ok()) return form.status().withContext(tensorTitle(one.tensor));
    TensorType type = form->type;
    if (!(one.range == rangeOf(one.tensor))) {
      const uint64_t bytes = one.range.end - one.range.begin;
      if (bytes % static_cast<uint64_t>(elementSize(type.element)) != 0) type.element = ElementType::kU8;
      type.shape = {static_cast<int64_t>(bytes) / elementSize(type.element)};
    }
    Value last = memory_.read(e, one.range, type, {});
    if (!e.ok()) return e.status().withContext(tensorTitle(one.tensor));
    HPU_RETURN_IF_ERROR(graph_->output(uniqueName(one.tensor, outputNames_), last));
    outputs_.push_back(static_cast<int32_t>(one.tensor));
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
  result.inputRanks = std::move(inputRanks_);
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
