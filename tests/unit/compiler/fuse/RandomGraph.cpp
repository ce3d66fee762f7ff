// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/compiler/fuse/RandomGraph.h"

#include <algorithm>
#include <numeric>

#include "base/StatusMacros.h"
#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/interp/ConstantData.h"
#include "compiler/interp/Interpreter.h"
#include "compiler/layout/Views.h"
#include "compiler/memory/Memory.h"
#include "compiler/support/Units.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace hpu::ir;

namespace hpu::test {
namespace {

using Sizes = std::vector<int64_t>;

class Generator {
 public:
  Generator(MLIRContext& context, unsigned seed) : builder_(&context), random_(seed) {
    context.loadDialect<HpuDialect, func::FuncDialect>();
  }

  OwningOpRef<ModuleOp> run(int ops) {
    OwningOpRef<ModuleOp> module = ModuleOp::create(builder_.getUnknownLoc());
    builder_.setInsertionPointToEnd(module->getBody());
    SmallVector<Type> arguments;
    const std::vector<Sizes> shapes = {{4, 6}, {6, 4}, {1, 6}, {2, 3, 4}, {2, 4, 3}, {1, 6, 4, 4}, {2, 8, 3, 5}};
    for (int64_t i = between(1, 3); i > 0; --i) arguments.push_back(type(shapes[between(0, shapes.size() - 1)]));
    auto function = func::FuncOp::create(builder_, loc(), "main", builder_.getFunctionType(arguments, {}));
    builder_.setInsertionPointToStart(function.addEntryBlock());
    llvm::append_range(values_, function.getArguments());
    for (int tries = 0; ops > 0 && tries < 1000; ++tries)
      if (Value value = randomOp()) {
        values_.push_back(value);
        --ops;
      }
    SmallVector<Value> results = {values_.back()};
    for (int64_t i = between(0, 2); i > 0; --i) results.push_back(pick());
    func::ReturnOp::create(builder_, loc(), results);
    function.setType(builder_.getFunctionType(arguments, ValueRange(results).getTypes()));
    return module;
  }

 private:
  int64_t between(int64_t lo, int64_t hi) { return std::uniform_int_distribution<int64_t>(lo, hi)(random_); }
  Location loc() { return NameLoc::get(builder_.getStringAttr("n" + std::to_string(values_.size()))); }
  RankedTensorType type(const Sizes& sizes) { return RankedTensorType::get(sizes, builder_.getF32Type()); }
  static ArrayRef<int64_t> sizesOf(Value value) { return cast<RankedTensorType>(value.getType()).getShape(); }
  static int64_t product(ArrayRef<int64_t> sizes) {
    return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
  }
  /// Recent values most of the time, so that chains grow; old ones at times, so that they escape and come back.
  Value pick() {
    int64_t count = values_.size(), from = between(0, 2) ? std::max<int64_t>(0, count - 3) : 0;
    return values_[between(from, count - 1)];
  }
  Value constant(const Sizes& sizes) {
    std::vector<float> data(product(sizes));
    for (float& x : data) x = between(-4, 4) * 0.25f;
    auto value = DenseElementsAttr::get(type(sizes), ArrayRef<float>(data));
    return ConstantOp::create(builder_, loc(), type(sizes), value).getResult();
  }
  Sizes shuffled(size_t rank) {
    Sizes order(rank);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random_);
    return order;
  }

  Value unary(Value x) {
    switch (between(0, 3)) {
      case 0:
        return ReluOp::create(builder_, loc(), x).getResult();
      case 1:
        return TanhOp::create(builder_, loc(), x).getResult();
      case 2:
        return NegOp::create(builder_, loc(), x).getResult();
      default:
        return SigmoidOp::create(builder_, loc(), x).getResult();
    }
  }

  Value binary(Value x) {
    Sizes shape = sizesOf(x);
    std::vector<Value> others;
    for (Value value : values_) {
      ArrayRef<int64_t> other = sizesOf(value);
      bool fits = other.size() <= shape.size();
      for (size_t d = 0; fits && d < other.size(); ++d)
        fits = other[d] == 1 || other[d] == shape[shape.size() - other.size() + d];
      if (fits) others.push_back(value);
    }
    Sizes bias(shape.end() - std::min<size_t>(shape.size(), between(0, 2)), shape.end());
    Value other = between(0, 3) ? others[between(0, others.size() - 1)] : constant(bias);
    switch (between(0, 2)) {
      case 0:
        return AddOp::create(builder_, loc(), x, other).getResult();
      case 1:
        return SubOp::create(builder_, loc(), other, x).getResult();
      default:
        return MaxOp::create(builder_, loc(), x, other).getResult();
    }
  }

  Value matmul(Value x) {
    Sizes shape = sizesOf(x);
    if (shape.size() < 2) return {};
    for (Value value : llvm::reverse(values_)) {
      ArrayRef<int64_t> other = sizesOf(value);
      bool fits = other.size() >= 2 && other[other.size() - 2] == shape.back() && between(0, 1);
      fits &= other.size() == 2 ||
              (other.size() == shape.size() && std::equal(other.begin(), other.end() - 2, shape.begin()));
      if (fits) return MatMulOp::create(builder_, loc(), x, value).getResult();
    }
    return MatMulOp::create(builder_, loc(), x, constant({shape.back(), between(1, 6)})).getResult();
  }

  Value conv(Value x) {
    Sizes shape = sizesOf(x);
    if (shape.size() != 4) return {};
    int64_t kernel = between(0, 1) ? 3 : 1, pad = kernel / 2, stride = between(1, 2), channels = shape[1];
    bool depthwise = channels > 1 && between(0, 3) == 0;
    Value weights = constant({depthwise ? channels : between(1, 8), depthwise ? 1 : channels, kernel, kernel});
    return Conv2dOp::create(builder_, loc(), x, weights, Sizes{stride, stride}, Sizes{1, 1}, Sizes{pad, pad, pad, pad},
                            depthwise ? channels : 1)
        .getResult();
  }

  Value reduce(Value x) {
    int64_t rank = sizesOf(x).size();
    if (rank == 0) return {};
    switch (between(0, 2)) {
      case 0:
        return SoftmaxOp::create(builder_, loc(), x, between(0, 1) ? rank - 1 : between(0, rank - 1)).getResult();
      case 1:
        return ReduceSumOp::create(builder_, loc(), x, Sizes{between(0, rank - 1)}, true, mlir::TypeAttr()).getResult();
      default:
        return ReduceMaxOp::create(builder_, loc(), x, Sizes{rank - 1}, false).getResult();
    }
  }

  Value view(Value x) {
    Sizes shape = sizesOf(x);
    size_t rank = shape.size();
    switch (between(0, 3)) {
      case 0:
        return TransposeOp::create(builder_, loc(), x, shuffled(rank)).getResult();
      case 1: {
        Sizes starts, sizes, steps;
        for (int64_t size : shape) {
          starts.push_back(between(0, 2) ? 0 : between(0, size - 1));
          steps.push_back(between(0, 3) ? 1 : 2);
          sizes.push_back(between(0, 2) && starts.back() == 0 && steps.back() == 1
                              ? size
                              : between(1, (size - starts.back() - 1) / steps.back() + 1));
        }
        return SliceOp::create(builder_, loc(), x, starts, sizes, steps, ArrayAttr(), ArrayAttr()).getResult();
      }
      case 2: {
        Sizes wider = shape;
        for (int64_t& size : wider)
          if (size == 1) size = between(1, 3);
        if (rank < 4 && between(0, 1)) wider.insert(wider.begin(), 2);
        return ExpandOp::create(builder_, loc(), x, wider, ArrayAttr()).getResult();
      }
      default: {
        // Merge two dims, split one, or the other way round.
        Sizes other = shape;
        size_t at = rank > 1 ? between(0, rank - 2) : 0;
        if (rank > 1 && between(0, 1)) {
          other[at] *= other[at + 1];
          other.erase(other.begin() + at + 1);
        } else if (rank > 0 && rank < 4 && shape[at] % 2 == 0) {
          other[at] /= 2;
          other.insert(other.begin() + at + between(0, 1), 2);
        }
        return ReshapeOp::create(builder_, loc(), x, other, ArrayAttr()).getResult();
      }
    }
  }

  Value concat(Value x) {
    ArrayRef<int64_t> shape = sizesOf(x);
    if (shape.empty()) return {};
    int64_t axis = between(0, shape.size() - 1);
    SmallVector<Value> inputs = {x};
    for (Value value : values_) {
      ArrayRef<int64_t> other = sizesOf(value);
      bool fits = other.size() == shape.size() && inputs.size() < 3;
      for (size_t d = 0; fits && d < shape.size(); ++d) fits = static_cast<int64_t>(d) == axis || other[d] == shape[d];
      if (fits) inputs.push_back(value);
    }
    return ConcatOp::create(builder_, loc(), inputs, axis).getResult();
  }

  Value randomOp() {
    Value x = pick(), result;
    if (product(sizesOf(x)) > 1500 || sizesOf(x).size() > 4) return {};
    int64_t kind = between(0, 20);
    if (kind < 4)
      result = unary(x);
    else if (kind < 9)
      result = binary(x);
    else if (kind < 12)
      result = matmul(x);
    else if (kind < 13)
      result = conv(x);
    else if (kind < 15)
      result = reduce(x);
    else if (kind < 19)
      result = view(x);
    else
      result = concat(x);
    return result;
  }

  OpBuilder builder_;
  std::mt19937 random_;
  std::vector<Value> values_;
};

RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}
Shape shapeOf(Value value) {
  return Shape(typeOf(value).getShape());
}

/// Calls visit(row-major number, place) for each element of a strided box.
template <typename Visit>
void forEachElement(ArrayRef<int64_t> sizes, ArrayRef<int64_t> strides, const Visit& visit) {
  int64_t count = 1;
  for (int64_t size : sizes) count *= size;
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, place = 0;
    for (size_t d = sizes.size(); d-- > 0; rest /= sizes[d]) place += rest % sizes[d] * strides[d];
    visit(i, place);
  }
}

class AddressExecutor {
 public:
  explicit AddressExecutor(func::FuncOp function) : function_(function), at_(memory::sectionsOf(function)) {}

  StatusOr<std::vector<interp::Tensor>> run(const std::vector<interp::Tensor>& inputs) {
    Block& block = function_.getBody().front();
    sections_.resize(at_.sram() + 1);
    for (size_t i = 0; i < inputs.size(); ++i) {
      auto type = cast<RankedTensorType>(block.getArgument(i).getType());
      write(i, 0, type, denseStrides(type), inputs[i]);
    }
    auto workspace = function_->getAttrOfType<IntegerAttr>(memory::kWorkspaceAttr).getInt();
    sections_[at_.workspace()].assign(workspace / sizeof(float), -12345.f);
    Operation* end = block.getTerminator();
    for (OpOperand& operand : end->getOpOperands())
      sections_[at_.inputs + operand.getOperandNumber()].assign(typeOf(operand.get()).getNumElements(), -54321.f);
    for (Operation& op : block.without_terminator()) {
      if (!isUnit(&op)) continue;
      SmallVector<interp::Tensor> operands;
      for (Value operand : op.getOperands()) {
        HPU_ASSIGN(interp::Tensor tensor, read(operand));
        operands.push_back(tensor);
      }
      FailureOr<SmallVector<interp::Tensor>> results = interp::evaluateOp(&op, operands);
      if (failed(results)) return internalError("a unit does not evaluate");
      for (auto [value, tensor] : llvm::zip(op.getResults(), *results)) {
        std::optional<memory::Location> place = memory::locate(value);
        if (!place) return internalError("a unit's result has no address");
        write(place->section, place->offset, value.getType(), place->view.strides, tensor);
      }
    }
    std::vector<interp::Tensor> outputs;
    for (OpOperand& operand : end->getOpOperands())
      outputs.push_back(interp::Tensor::of(ElementType::kF32, shapeOf(operand.get()),
                                           sections_[at_.inputs + operand.getOperandNumber()]));
    return outputs;
  }

 private:
  void write(unsigned section, int64_t offset, Type type, ArrayRef<int64_t> strides, const interp::Tensor& tensor) {
    std::vector<float>& memory = sections_[section];
    forEachElement(cast<RankedTensorType>(type).getShape(), strides, [&](int64_t i, int64_t place) {
      size_t at = offset / sizeof(float) + place;
      if (at >= memory.size()) memory.resize(at + 1);
      memory[at] = tensor.as<float>()[i];
    });
  }

  StatusOr<interp::Tensor> read(Value value) {
    std::optional<StridedView> view = resolveView(value);
    if (!view) return internalError("an operand is no strided view");
    std::vector<float> image, *memory = &image;
    int64_t start = view->offset;
    if (auto constant = view->base.getDefiningOp<ConstantOp>()) {
      HPU_ASSIGN(interp::Tensor tensor, interp::tensorOf(constant.getValue()));
      image.resize(tensor.count());
      forEachElement(typeOf(view->base).getShape(), denseStrides(typeOf(view->base)),
                     [&](int64_t i, int64_t place) { image[place] = tensor.as<float>()[i]; });
    } else {
      std::optional<memory::Location> location = memory::locate(value);
      if (!location) return internalError("an operand has no address");
      memory = &sections_[location->section];
      start = location->offset / sizeof(float);
    }
    std::vector<float> data(typeOf(value).getNumElements());
    bool inside = true;
    forEachElement(view->sizes, view->strides, [&](int64_t i, int64_t place) {
      bool in = start + place >= 0 && start + place < static_cast<int64_t>(memory->size());
      inside &= in;
      if (in) data[i] = (*memory)[start + place];
    });
    if (!inside) return internalError("an operand leaves its section");
    return interp::Tensor::of(ElementType::kF32, shapeOf(value), data);
  }

  func::FuncOp function_;
  memory::Sections at_;
  std::vector<std::vector<float>> sections_;
};

}  // namespace

OwningOpRef<ModuleOp> randomModule(MLIRContext& context, unsigned seed, int ops) {
  return Generator(context, seed).run(ops);
}

std::vector<interp::Tensor> randomInputs(func::FuncOp function, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<int> value(-16, 16);
  std::vector<interp::Tensor> inputs;
  for (Value argument : function.getArguments()) {
    std::vector<float> data(typeOf(argument).getNumElements());
    for (float& x : data) x = value(random) * 0.125f;
    inputs.push_back(interp::Tensor::of(ElementType::kF32, shapeOf(argument), data));
  }
  return inputs;
}

StatusOr<std::vector<interp::Tensor>> runByAddress(func::FuncOp function, const std::vector<interp::Tensor>& inputs) {
  return AddressExecutor(function).run(inputs);
}

}  // namespace hpu::test
