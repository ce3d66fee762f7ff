// SPDX-License-Identifier: Apache-2.0
// The passes that move views keep what random graphs compute and end; ordering dims never leaves more transposes. The
// graphs are chains of views, products, norms and elementwise ops, as attention is made of.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <numeric>
#include <random>

#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/interp/Interpreter.h"
#include "compiler/normalize/DimGroups.h"
#include "compiler/normalize/Passes.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace hpu::ir;
using hpu::interp::Tensor;
using hpu::normalize::DimGroups;

namespace {

/// More of them: HPU_TEST_GRAPHS.
const unsigned kGraphs = getenv("HPU_TEST_GRAPHS") ? std::max(600, atoi(getenv("HPU_TEST_GRAPHS"))) : 600;

using Sizes = std::vector<int64_t>;

int64_t product(ArrayRef<int64_t> sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

class Generator {
 public:
  Generator(MLIRContext& context, unsigned seed) : builder_(&context), random_(seed) {
    context.loadDialect<HpuDialect, func::FuncDialect>();
  }

  OwningOpRef<ModuleOp> run() {
    OwningOpRef<ModuleOp> module = ModuleOp::create(builder_.getUnknownLoc());
    builder_.setInsertionPointToEnd(module->getBody());
    const std::vector<Sizes> shapes = {{4, 6, 8}, {2, 3, 4, 4}, {6, 1, 8}, {1, 4, 8}, {8, 6}, {2, 2, 3, 2, 4}};
    SmallVector<Type> arguments = {type(shapes[between(0, shapes.size() - 1)])};
    arguments.push_back(between(0, 1) ? arguments[0] : type(shapes[between(0, shapes.size() - 1)]));
    auto function = func::FuncOp::create(builder_, loc(), "main", builder_.getFunctionType(arguments, {}));
    builder_.setInsertionPointToStart(function.addEntryBlock());
    llvm::append_range(values_, function.getArguments());
    for (int64_t left = between(3, 18), tries = 0; left > 0 && tries < 200; ++tries)
      if (Value value =
              randomOp(values_[between(std::max<int64_t>(0, int64_t(values_.size()) - 3), values_.size() - 1)])) {
        values_.push_back(value);
        --left;
      }
    SmallVector<Value> results = {values_.back()};
    if (between(0, 2) == 0) results.push_back(values_[between(0, values_.size() - 1)]);
    func::ReturnOp::create(builder_, loc(), results);
    function.setType(builder_.getFunctionType(arguments, ValueRange(results).getTypes()));
    return module;
  }

 private:
  int64_t between(int64_t lo, int64_t hi) { return std::uniform_int_distribution<int64_t>(lo, hi)(random_); }
  Location loc() { return NameLoc::get(builder_.getStringAttr("n" + std::to_string(values_.size()))); }
  RankedTensorType type(const Sizes& sizes) { return RankedTensorType::get(sizes, builder_.getF32Type()); }
  static ArrayRef<int64_t> sizesOf(Value value) { return cast<RankedTensorType>(value.getType()).getShape(); }
  Value constant(const Sizes& sizes) {
    std::vector<float> data(product(sizes));
    for (float& x : data) x = between(-4, 4) * 0.25f;
    return ConstantOp::create(builder_, loc(), type(sizes), DenseElementsAttr::get(type(sizes), ArrayRef<float>(data)));
  }

  Value transposed(Value x) {
    Sizes order(sizesOf(x).size());
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end() - between(0, 1), random_);
    return TransposeOp::create(builder_, loc(), x, order);
  }
  Value reshaped(Value x) {
    Sizes shape = sizesOf(x);
    for (int64_t changes = between(1, 2); changes > 0; --changes) {
      const size_t at = between(0, shape.size() - 1);
      if (between(0, 1) && at + 1 < shape.size()) {
        shape[at] *= shape[at + 1];
        shape.erase(shape.begin() + at + 1);
      } else if (shape.size() < 6 && shape[at] % 2 == 0) {
        shape[at] /= 2;
        shape.insert(shape.begin() + at + between(0, 1), 2);
      } else if (shape.size() < 6) {
        shape.insert(shape.begin() + at, 1);
      }
    }
    return ReshapeOp::create(builder_, loc(), x, shape, ArrayAttr());
  }
  Value sliced(Value x) {
    Sizes sizes = sizesOf(x), starts(sizes.size(), 0), steps(sizes.size(), 1);
    const size_t at = between(0, sizes.size() - 1);
    if (sizes[at] < 2) return {};
    starts[at] = between(0, 1) * sizes[at] / 2;
    sizes[at] = (sizes[at] + 1) / 2 - (starts[at] ? sizes[at] % 2 : 0);
    return SliceOp::create(builder_, loc(), x, starts, sizes, steps, ArrayAttr(), ArrayAttr());
  }
  Value binary(Value x) {
    const ArrayRef<int64_t> shape = sizesOf(x);
    std::vector<Value> others;
    for (Value value : values_)
      if (sizesOf(value) == shape) others.push_back(value);
    Sizes small = shape;
    for (int64_t& size : small)
      if (between(0, 1)) size = 1;
    small.erase(small.begin(), small.begin() + between(0, small.size()));
    Value other = !others.empty() && between(0, 2) ? others[between(0, others.size() - 1)] : constant(small);
    if (between(0, 1)) return AddOp::create(builder_, loc(), other, x);
    return MulOp::create(builder_, loc(), x, other);
  }
  Value multiplied(Value x) {
    const ArrayRef<int64_t> shape = sizesOf(x);
    if (shape.size() < 2) return {};
    if (between(0, 1)) return MatMulOp::create(builder_, loc(), x, constant({shape.back(), 2 * between(1, 4)}));
    Sizes order(shape.size());
    std::iota(order.begin(), order.end(), 0);
    std::swap(order.back(), order[order.size() - 2]);
    Value other = x;
    for (Value value : values_)
      if (sizesOf(value) == shape && between(0, 1)) other = value;
    return MatMulOp::create(builder_, loc(), x, TransposeOp::create(builder_, loc(), other, order));
  }

  Value randomOp(Value x) {
    const ArrayRef<int64_t> shape = sizesOf(x);
    const auto rank = static_cast<int64_t>(shape.size());
    if (rank == 0 || product(shape) > 1000) return {};
    switch (between(0, 12)) {
      case 0:
      case 1:
      case 2:
        return transposed(x);
      case 3:
      case 4:
      case 5:
        return reshaped(x);
      case 6:
        return sliced(x);
      case 7:
      case 8:
        return binary(x);
      case 9:
        return multiplied(x);
      case 10:
        return SoftmaxOp::create(builder_, loc(), x, between(0, 2) ? rank - 1 : between(0, rank - 1));
      case 11:
        return LayerNormOp::create(builder_, loc(), x, constant({shape.back()}), Value(),
                                   builder_.getI64IntegerAttr(rank - 1), builder_.getF64FloatAttr(1e-3));
      default:
        return TanhOp::create(builder_, loc(), x);
    }
  }

  OpBuilder builder_;
  std::mt19937 random_;
  std::vector<Value> values_;
};

std::vector<Tensor> inputsOf(func::FuncOp function, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Tensor> inputs;
  for (Type argument : function.getArgumentTypes()) {
    Sizes shape(cast<RankedTensorType>(argument).getShape());
    std::vector<float> data(product(shape));
    for (float& x : data) x = std::uniform_real_distribution<float>(-1, 1)(random);
    inputs.push_back(Tensor::of(hpu::ElementType::kF32, shape, data));
  }
  return inputs;
}

std::string textOf(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream);
  return text;
}

int transposesOf(func::FuncOp function) {
  int count = 0;
  function.walk([&](TransposeOp op) { count += !op.getX().getDefiningOp<ConstantOp>(); });
  return count;
}

/// Runs `addPasses` over random graphs; gives how many it changed.
int checkGraphs(unsigned count, bool fewerTransposes, const std::function<void(OpPassManager&)>& addPasses) {
  int changed = 0;
  for (unsigned seed = 0; seed < count; ++seed) {
    MLIRContext context(MLIRContext::Threading::DISABLED);
    OwningOpRef<ModuleOp> module = Generator(context, seed).run();
    const std::string before = textOf(*module);
    auto main = [&] { return module->lookupSymbol<func::FuncOp>("main"); };
    const int transposes = transposesOf(main());
    std::vector<Tensor> inputs = inputsOf(main(), seed);
    auto expected = hpu::interp::evaluateFunction(main(), inputs);
    EXPECT_TRUE(expected.ok()) << "seed " << seed << ": " << expected.status().message();
    PassManager manager(&context);
    addPasses(manager.nest<func::FuncOp>());
    EXPECT_TRUE(succeeded(manager.run(*module))) << "seed " << seed << "\n" << before;
    changed += textOf(*module) != before;
    if (fewerTransposes) {
      EXPECT_LE(transposesOf(main()), transposes) << "seed " << seed << "\n" << before;
    }
    auto outputs = hpu::interp::evaluateFunction(main(), inputs);
    EXPECT_TRUE(outputs.ok()) << "seed " << seed << ": " << outputs.status().message();
    if (::testing::Test::HasFailure()) return changed;
    for (size_t k = 0; k < outputs->size(); ++k) {
      EXPECT_EQ((*outputs)[k].shape(), (*expected)[k].shape()) << "seed " << seed;
      for (int64_t i = 0; i < (*expected)[k].count(); ++i) {
        const double want = (*expected)[k].number(i), got = (*outputs)[k].number(i);
        EXPECT_LE(std::abs(want - got), 1e-4 * std::max(1.0, std::abs(want))) << "seed " << seed << " element " << i;
        if (::testing::Test::HasFailure()) {
          ADD_FAILURE() << before << "\nbecame\n" << textOf(*module);
          return changed;
        }
      }
    }
  }
  return changed;
}

TEST(MoveViews, MovedReshapesKeepWhatGraphsCompute) {
  int changed =
      checkGraphs(kGraphs, false, [](OpPassManager& pm) { pm.addPass(hpu::normalize::createMoveReshapesPass()); });
  EXPECT_GT(changed, 200);
}

TEST(MoveViews, OrderedDimsKeepWhatGraphsCompute) {
  int changed =
      checkGraphs(kGraphs, true, [](OpPassManager& pm) { pm.addPass(hpu::normalize::createOrderDimsPass()); });
  EXPECT_GT(changed, 30);
}

TEST(MoveViews, TheWholePhaseKeepsWhatGraphsComputeAndItsPostCondition) {
  int changed = checkGraphs(kGraphs, false, [](OpPassManager& pm) { hpu::normalize::addNormalizePasses(pm); });
  EXPECT_GT(changed, 400);
}

Sizes product(const DimGroups& groups) {
  Sizes sizes;
  int64_t next = 0;
  for (const DimGroups::Run& run : groups.runs) {
    EXPECT_EQ(run.first, next);
    EXPECT_GE(run.count, 1);
    int64_t size = 1;
    for (int64_t i = 0; i < run.count; ++i) size *= groups.shape[next++];
    sizes.push_back(size);
  }
  EXPECT_EQ(next, static_cast<int64_t>(groups.shape.size()));
  return sizes;
}

TEST(DimGroups, ASplitCoversTheFineShapeInOrder) {
  auto groups = hpu::normalize::splitOf({128, 1, 256}, {8, 16, 1, 1, 256});
  ASSERT_TRUE(groups);
  EXPECT_EQ(product(*groups), Sizes({128, 1, 256}));
  EXPECT_TRUE(groups->single(2));
  EXPECT_TRUE(hpu::normalize::splitOf({6, 8}, {6, 1, 8})->single(1));
  EXPECT_TRUE(hpu::normalize::splitOf({6, 8}, {1, 6, 8})->single(1));
  EXPECT_FALSE(hpu::normalize::splitOf({6, 4}, {4, 6, 1}));
  EXPECT_FALSE(hpu::normalize::splitOf({6, 4}, {6, 4}));
  EXPECT_FALSE(hpu::normalize::splitOf({6, 0}, {2, 3, 0}));
}

TEST(DimGroups, ARefinementIsASplitOfBothShapes) {
  auto groups = hpu::normalize::refinementOf({128, 8, 256}, {128, 64, 32});
  ASSERT_TRUE(groups);
  EXPECT_EQ(Sizes(groups->shape.begin(), groups->shape.end()), Sizes({128, 8, 8, 32}));
  EXPECT_EQ(product(*groups), Sizes({128, 64, 32}));
  EXPECT_FALSE(hpu::normalize::refinementOf({4, 6}, {6, 4}));
  EXPECT_FALSE(hpu::normalize::refinementOf({24}, {6, 4}));
  EXPECT_FALSE(hpu::normalize::refinementOf({0, 6}, {0, 6}));
}

}  // namespace
