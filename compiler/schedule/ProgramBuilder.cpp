// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/ProgramBuilder.h"

#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/dialect/hpu/States.h"
#include "compiler/dialect/hpu/TensorBytes.h"
#include "compiler/dialect/hpu/TensorOf.h"
#include "compiler/layout/Chains.h"
#include "compiler/schedule/Schedule.h"
#include "mlir/IR/IRMapping.h"
#include "recipe/PackedWeights.h"
#include "recipe/Recipe.h"

using namespace mlir;
using namespace hpu::ir;
using hpu::sched::OperandAttr;
using hpu::shape::SymInt;

namespace hpu::schedule {
namespace {

int64_t alignUp(int64_t bytes) {
  return (bytes + recipe::kAlignment - 1) / recipe::kAlignment * recipe::kAlignment;
}

}  // namespace

ProgramBuilder::ProgramBuilder(func::FuncOp function, OpBuilder& builder)
    : function_(function),
      builder_(builder),
      sections_(memory::sectionsOf(function)),
      isLate_(function->getParentOfType<ModuleOp>()->hasAttr(kSamplesAttr)) {
  program_ = sched::ProgramOp::create(builder, function.getLoc(), "main", 0);
  program_.getBody().emplaceBlock();
  builder_.setInsertionPointToEnd(&program_.getBody().front());
}

OperandAttr ProgramBuilder::make(unsigned section, int64_t offset, Type element, ArrayRef<int64_t> sizes,
                                 ArrayRef<int64_t> strides, ArrayRef<int64_t> ring, DictionaryAttr late) {
  return OperandAttr::get(builder_.getContext(), section, offset, element, sizes, strides, ring, late);
}

DictionaryAttr ProgramBuilder::late(int64_t storage, const SymInt& offset, ArrayRef<SymInt> sizes,
                                    ArrayRef<SymInt> strides) {
  auto name = [&](const SymInt& number) -> Attribute {
    return builder_.getStringAttr(number.isConstant() ? "" : number.text());
  };
  auto names = [&](ArrayRef<SymInt> numbers) { return builder_.getArrayAttr(llvm::map_to_vector(numbers, name)); };
  SmallVector<NamedAttribute> fields = {builder_.getNamedAttr("offset", builder_.getStringAttr(offset.text())),
                                        builder_.getNamedAttr("sizes", names(sizes)),
                                        builder_.getNamedAttr("strides", names(strides))};
  if (storage >= 0) fields.push_back(builder_.getNamedAttr("storage", builder_.getI64IntegerAttr(storage)));
  return builder_.getDictionaryAttr(fields);
}

OperandAttr ProgramBuilder::operand(Value value) {
  return broadcastOperand(value, {});
}

OperandAttr ProgramBuilder::broadcastOperand(Value value, ArrayRef<SymInt> batch) {
  Type element = tensorOf(value).getElementType();
  StridedView view = *resolveView(value);
  unsigned section;
  int64_t offset;
  SmallVector<int64_t> ring;
  std::optional<memory::RingInfo> tiles;
  if (auto constant = view.base.getDefiningOp<ConstantOp>()) {
    // The whole base, dense in its physical order; the view's strides then apply.
    RankedTensorType type = tensorOf(view.base);
    SmallVector<int64_t> sizes, strides, rowMajor(type.getRank(), 1);
    for (int64_t d = type.getRank() - 2; d >= 0; --d) rowMajor[d] = rowMajor[d + 1] * type.getDimSize(d + 1);
    for (int64_t d : physicalOrder(type)) {
      sizes.push_back(type.getDimSize(d));
      strides.push_back(rowMajor[d]);
    }
    section = sections_.constants();
    offset =
        placeConstant(constant.getValue(), 0, sizes, strides, false) + view.offset * elementSize(elementType(element));
  } else {
    memory::Location location = *memory::locate(value);
    section = location.section;
    offset = location.offset;
    // A chained result lies in tiles, along whichever dimension of the view is cut.
    Operation* def = view.base.getDefiningOp();
    tiles = def ? memory::chainRingOf(def) : std::nullopt;
    if (tiles && tiles->slots > 1) ring = {tiles->slots, *slowestDim(*resolveSymView(value)), tiles->slotBytes};
  }
  std::optional<memory::SymLocation> symbolic;
  if (isLate_) symbolic = memory::locateSymbolic(value);
  if (symbolic && view.base.getDefiningOp<ConstantOp>())
    symbolic->offset += offset - view.offset * elementSize(elementType(element));
  auto lateOf = [&](ArrayRef<SymInt> sizes, ArrayRef<SymInt> strides) {
    auto isFixed = [](const SymInt& number) { return number.isConstant(); };
    if (view.base.getDefiningOp<ConstantOp>() && symbolic->offset.isConstant() && llvm::all_of(sizes, isFixed))
      return DictionaryAttr();
    DictionaryAttr own = late(symbolic->storage, symbolic->offset, sizes, strides);
    if (!tiles) return own;
    NamedAttrList fields(own);
    fields.set(kLateChain, chainNumber(view.base.getDefiningOp(), *tiles));
    if (!ring.empty())
      fields.set(kLateAlong, builder_.getI64IntegerAttr(ring[1] + static_cast<int64_t>(sizes.size()) -
                                                        static_cast<int64_t>(view.sizes.size())));
    return fields.getDictionary(builder_.getContext());
  };
  if (batch.empty()) {
    DictionaryAttr own = symbolic ? lateOf(symbolic->view.sizes, symbolic->view.strides) : DictionaryAttr();
    return make(section, offset, element, view.sizes, view.strides, ring, own);
  }
  auto broadcast = [&](auto sizes, auto strides, const auto& viewSizes, const auto& viewStrides) {
    const int64_t rank = static_cast<int64_t>(sizes.size()), own = static_cast<int64_t>(viewSizes.size()) - 2;
    for (int64_t d = 0; d < own; ++d)
      if (!(viewSizes[d] == 1)) strides[rank - own + d] = viewStrides[d];
    sizes.append(viewSizes.end() - 2, viewSizes.end());
    strides.append(viewStrides.end() - 2, viewStrides.end());
    return std::pair(sizes, strides);
  };
  auto [sizes, strides] = broadcast(valuesOf(batch), SmallVector<int64_t>(batch.size(), 0), view.sizes, view.strides);
  DictionaryAttr own;
  if (symbolic) {
    auto [symSizes, symStrides] =
        broadcast(SymInts(batch), SymInts(batch.size(), 0), symbolic->view.sizes, symbolic->view.strides);
    own = lateOf(symSizes, symStrides);
    // A size that is 1 now need not be at launch.
    sizes = valuesOf(symSizes);
    strides = valuesOf(symStrides);
  }
  if (!ring.empty()) ring[1] += static_cast<int64_t>(sizes.size() - view.sizes.size());
  return make(section, offset, element, sizes, strides, ring, own);
}

DictionaryAttr ProgramBuilder::chainNumber(Operation* unit, const memory::RingInfo& tiles) {
  const auto number = static_cast<int64_t>(chains_.try_emplace(unit, chains_.size()).first->second);
  auto field = [&](const char* name, int64_t value) {
    return builder_.getNamedAttr(name, builder_.getI64IntegerAttr(value));
  };
  return builder_.getDictionaryAttr(
      {field("number", number), field("dim", tiles.slots > 1 ? tiles.dim : 0), field("slots", tiles.slots)});
}

DictionaryAttr ProgramBuilder::partOf(Value whole, Value part, const SymInt& offset) {
  if (!isLate_) return {};
  const memory::SymLocation location = *memory::locateSymbolic(whole);
  return late(location.storage, location.offset + offset, symSizes(tensorOf(part)), location.view.strides);
}

OperandAttr ProgramBuilder::packedOperand(const StridedView& weights, ArrayRef<int64_t> viewSizes,
                                          ArrayRef<int64_t> viewStrides, ArrayRef<int64_t> sizes) {
  auto constant = weights.base.getDefiningOp<ConstantOp>();
  int64_t offset = placeConstant(constant.getValue(), weights.offset, viewSizes, viewStrides, true);
  // Strides of a packed operand are ignored; they are written as if it were dense.
  SmallVector<int64_t> strides(sizes.size(), 1);
  for (int64_t d = static_cast<int64_t>(sizes.size()) - 2; d >= 0; --d) strides[d] = strides[d + 1] * sizes[d + 1];
  return make(sections_.constants(), offset, tensorOf(weights.base).getElementType(), sizes, strides);
}

OperandAttr ProgramBuilder::ringOperand(const memory::RingInfo& ring, RankedTensorType type, int64_t tileSize) {
  const SmallVector<int64_t> order = physicalOrder(type);
  const SmallVector<int64_t> size = {ring.slots, ring.dim, ring.slotBytes};
  if (isLate_) {
    // With the dimension that is cut as the slowest one, strides do not depend on how large a tile is.
    const int64_t dim = ring.slots > 1 || order.empty() ? ring.dim : order.front();
    SmallVector<int64_t> slowest = {dim};
    for (int64_t d : order)
      if (d != dim) slowest.push_back(d);
    const SymInts strides = symSlicedStrides(type, dim);
    NamedAttrList fields(late(-1, 0, symSizes(type), strides));
    fields.set("order", builder_.getDenseI64ArrayAttr(slowest));
    return make(sections_.sram(), ring.offset, type.getElementType(), type.getShape(), valuesOf(strides), size,
                fields.getDictionary(builder_.getContext()));
  }
  SmallVector<int64_t> tileShape(type.getShape());
  tileShape[ring.dim] = tileSize;
  RankedTensorType tile = withOrder(RankedTensorType::get(tileShape, type.getElementType()), order);
  return make(sections_.sram(), ring.offset, type.getElementType(), type.getShape(), denseStrides(tile), size);
}

int64_t ProgramBuilder::placeConstant(ElementsAttr value, int64_t start, ArrayRef<int64_t> sizes,
                                      ArrayRef<int64_t> strides, bool packed) {
  Attribute key = builder_.getArrayAttr({value, builder_.getI64IntegerAttr(start), builder_.getDenseI64ArrayAttr(sizes),
                                         builder_.getDenseI64ArrayAttr(strides), builder_.getBoolAttr(packed)});
  if (auto found = placed_.find(key); found != placed_.end()) return found->second;
  int64_t elements = 1;
  for (int64_t size : sizes) elements *= size;
  if (packed) {
    recipe::PackedShape shape{1, sizes[sizes.size() - 2], sizes.back()};
    for (int64_t size : sizes.drop_back(2)) shape.taps *= size;
    elements = shape.elements();
  }
  int64_t offset = constantBytes_;
  if (elements == 0) return offset;  // Nothing is read there.
  constantBytes_ = alignUp(offset + elements * elementSize(elementType(value.getElementType())));
  sched::ConstantOp::create(builder_, function_.getLoc(), sections_.constants(), offset, value, start, sizes, strides,
                            packed);
  placed_[key] = offset;
  return offset;
}

void ProgramBuilder::reserveConstants(OperandAttr weights, int64_t bytes) {
  if (reserved_.insert({weights.getOffset(), bytes}).second) constantBytes_ = alignUp(constantBytes_ + bytes);
}

FlatSymbolRefAttr ProgramBuilder::kernel(const KernelPart& part, ArrayRef<Attribute> inputs,
                                         ArrayRef<Attribute> outputs, StringRef name) {
  OpBuilder::InsertionGuard guard(builder_);
  auto op = sched::KernelOp::create(builder_, part.ops.front()->getLoc(), name, builder_.getArrayAttr(inputs),
                                    builder_.getArrayAttr(outputs));
  Block& body = op.getBody().emplaceBlock();
  builder_.setInsertionPointToEnd(&body);
  IRMapping mapping;
  for (Value input : part.inputs) mapping.map(input, body.addArgument(input.getType(), input.getLoc()));
  for (Operation* inner : part.ops) builder_.clone(*inner, mapping);
  SmallVector<Value> results;
  for (Value output : part.outputs) results.push_back(mapping.lookup(output));
  YieldOp::create(builder_, op.getLoc(), results);
  return FlatSymbolRefAttr::get(op);
}

void ProgramBuilder::finish(int64_t workspaceBytes, int64_t sramBytes) {
  OpBuilder::InsertionGuard guard(builder_);
  builder_.setInsertionPointToStart(&program_.getBody().front());
  Location loc = function_.getLoc();
  auto name = [&](DictionaryAttr attributes) {
    return attributes ? attributes.getAs<StringAttr>("hpu.name") : StringAttr();
  };
  auto add = [&](sched::SectionKind kind, int64_t bytes, StringAttr label, TypeAttr type) {
    sched::SectionOp::create(builder_, loc, kind, bytes, label, type);
  };
  auto signature = [&](sched::SectionKind kind, Type type, StringAttr label, std::optional<StateMemory> state) {
    const int64_t bytes = state ? state->elements() * elementBytes(cast<RankedTensorType>(type)) : tensorBytes(type);
    add(kind, bytes, label, TypeAttr::get(type));
  };
  for (unsigned i = 0; i < sections_.inputs; ++i)
    signature(sched::SectionKind::input, function_.getArgumentTypes()[i], name(function_.getArgAttrDict(i)),
              stateOfArgument(function_.getArgument(i)));
  for (unsigned i = 0; i < sections_.outputs; ++i)
    signature(sched::SectionKind::output, function_.getResultTypes()[i], name(function_.getResultAttrDict(i)),
              stateOfResult(function_, i));
  add(sched::SectionKind::constant, constantBytes_, {}, {});
  add(sched::SectionKind::workspace, workspaceBytes, {}, {});
  add(sched::SectionKind::sram, sramBytes, {}, {});
  SmallVector<Attribute> states;
  for (const StateMemory& state : statesOf(function_))
    states.push_back(
        builder_.getDictionaryAttr({builder_.getNamedAttr("capacity", builder_.getDenseI64ArrayAttr(state.capacity)),
                                    builder_.getNamedAttr("input", builder_.getI64IntegerAttr(state.argument)),
                                    builder_.getNamedAttr("output", builder_.getI64IntegerAttr(state.result))}));
  if (!states.empty()) program_->setAttr(kStatesAttr, builder_.getArrayAttr(states));
}

}  // namespace hpu::schedule
