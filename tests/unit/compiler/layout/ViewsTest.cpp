// SPDX-License-Identifier: Apache-2.0
// Random chains of view ops: what applyView says in strides is compared with the elements that the chain really
// selects, written out one by one.
#include "compiler/layout/Views.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "compiler/dialect/hpu/HpuOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"

using namespace mlir;

namespace hpu::ir {
namespace {

using Sizes = std::vector<int64_t>;

int64_t product(const Sizes& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

/// A tensor written out: for each element, in row-major order of the logical sizes, its place in memory.
struct Elements {
  Sizes sizes, places;

  int64_t& at(const Sizes& index) {
    int64_t flat = 0;
    for (size_t d = 0; d < sizes.size(); ++d) flat = flat * sizes[d] + index[d];
    return places[flat];
  }
};

template <typename Visit>
void forEachIndex(const Sizes& sizes, const Visit& visit) {
  Sizes index(sizes.size(), 0);
  for (int64_t i = 0; i < product(sizes); ++i) {
    visit(index);
    for (size_t d = sizes.size(); d-- > 0;) {
      if (++index[d] < sizes[d]) break;
      index[d] = 0;
    }
  }
}

/// Fills result element by element: source(index) names the operand's index of each.
template <typename Source>
Elements selected(Elements in, Sizes sizes, const Source& source) {
  Elements out{sizes, Sizes(product(sizes))};
  forEachIndex(sizes, [&](const Sizes& index) { out.at(index) = in.at(source(index)); });
  return out;
}

/// Elements of a tensor that lies densely with its dims in `order`: counted by walking through memory.
Elements dense(const Sizes& sizes, const Sizes& order) {
  Elements out{sizes, Sizes(product(sizes))};
  Sizes physical;
  for (int64_t dim : order) physical.push_back(sizes[dim]);
  int64_t place = 0;
  forEachIndex(physical, [&](const Sizes& index) {
    Sizes logical(sizes.size());
    for (size_t d = 0; d < order.size(); ++d) logical[order[d]] = index[d];
    out.at(logical) = place++;
  });
  return out;
}

bool matches(const StridedView& view, Elements elements) {
  if (Sizes(view.sizes.begin(), view.sizes.end()) != elements.sizes) return false;
  bool same = true;
  forEachIndex(elements.sizes, [&](const Sizes& index) {
    int64_t place = view.offset;
    for (size_t d = 0; d < index.size(); ++d) place += index[d] * view.strides[d];
    same &= place == elements.at(index);
  });
  return same;
}

/// Could any offset and strides describe these elements? Steps along each dim from the first one decide.
bool expressible(Elements elements) {
  StridedView view;
  view.sizes.assign(elements.sizes.begin(), elements.sizes.end());
  view.strides.assign(elements.sizes.size(), 0);
  Sizes index(elements.sizes.size(), 0);
  view.offset = elements.at(index);
  for (size_t d = 0; d < index.size(); ++d) {
    if (elements.sizes[d] == 1) continue;
    index[d] = 1;
    view.strides[d] = elements.at(index) - view.offset;
    index[d] = 0;
  }
  return matches(view, elements);
}

class Views : public testing::Test {
 protected:
  Views() : builder_(&context_) {
    context_.loadDialect<HpuDialect, func::FuncDialect>();
    module_ = ModuleOp::create(builder_.getUnknownLoc());
    builder_.setInsertionPointToEnd(module_->getBody());
  }

  Value argument(RankedTensorType type) {
    builder_.setInsertionPointToEnd(module_->getBody());
    auto function =
        func::FuncOp::create(builder_, loc(), "f" + std::to_string(counter_++), builder_.getFunctionType({type}, {}));
    builder_.setInsertionPointToStart(function.addEntryBlock());
    return function.getArgument(0);
  }
  RankedTensorType type(const Sizes& sizes) { return RankedTensorType::get(sizes, builder_.getF32Type()); }
  Location loc() { return builder_.getUnknownLoc(); }
  int64_t between(int64_t lo, int64_t hi) { return std::uniform_int_distribution<int64_t>(lo, hi)(random_); }
  Sizes shuffled(size_t rank) {
    Sizes order(rank);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random_);
    return order;
  }

  /// The sizes' factors dealt anew, with a few ones between them.
  Sizes otherShape(const Sizes& sizes) {
    Sizes shape;
    for (int64_t size : sizes)
      for (int64_t factor = 2; size > 1;) {
        if (size % factor) {
          ++factor;
          continue;
        }
        size /= factor;
        if (!shape.empty() && between(0, 1))
          shape.back() *= factor;
        else
          shape.push_back(factor);
      }
    for (int64_t ones = between(0, 2); ones > 0; --ones) shape.insert(shape.begin() + between(0, shape.size()), 1);
    return shape;
  }

  /// Appends a random view op to `value` and does the same to `elements`.
  Value randomView(Value value, Elements& elements) {
    size_t rank = elements.sizes.size();
    switch (between(0, 3)) {
      case 0: {
        Sizes perm = shuffled(rank), sizes;
        for (int64_t p : perm) sizes.push_back(elements.sizes[p]);
        elements = selected(elements, sizes, [&](const Sizes& index) {
          Sizes from(rank);
          for (size_t d = 0; d < rank; ++d) from[perm[d]] = index[d];
          return from;
        });
        return TransposeOp::create(builder_, loc(), value, perm).getResult();
      }
      case 1: {
        Sizes starts, sizes, steps;
        for (int64_t size : elements.sizes) {
          starts.push_back(between(0, 2) ? 0 : between(0, size - 1));
          steps.push_back(between(1, 2));
          int64_t most = (size - starts.back() - 1) / steps.back() + 1;
          if (starts.back() == 0 && between(0, 1)) {
            most = size;
            steps.back() = 1;
          }
          sizes.push_back(steps.back() == 1 && between(0, 2) ? most : between(1, most));
        }
        elements = selected(elements, sizes, [&](const Sizes& index) {
          Sizes from(rank);
          for (size_t d = 0; d < rank; ++d) from[d] = starts[d] + index[d] * steps[d];
          return from;
        });
        return SliceOp::create(builder_, loc(), value, starts, sizes, steps, ArrayAttr(), ArrayAttr()).getResult();
      }
      case 2: {
        Sizes shape = elements.sizes;
        for (int64_t& size : shape)
          if (size == 1 && between(0, 1)) size = between(1, 3);
        if (between(0, 1)) shape.insert(shape.begin(), between(1, 3));
        size_t added = shape.size() - rank;
        Sizes old = elements.sizes;
        elements = selected(elements, shape, [&](const Sizes& index) {
          Sizes from(index.begin() + added, index.end());
          for (size_t d = 0; d < rank; ++d)
            if (old[d] == 1) from[d] = 0;
          return from;
        });
        return ExpandOp::create(builder_, loc(), value, shape, ArrayAttr()).getResult();
      }
      default: {
        elements.sizes = otherShape(elements.sizes);
        return ReshapeOp::create(builder_, loc(), value, elements.sizes, ArrayAttr()).getResult();
      }
    }
  }

  MLIRContext context_;
  OpBuilder builder_;
  OwningOpRef<ModuleOp> module_;
  std::mt19937 random_{1};
  int counter_ = 0;
};

TEST_F(Views, SelectTheElementsOfTheOpsOrSayThatStridesCannot) {
  int64_t resolved = 0, refused = 0, dense_ = 0;
  for (unsigned seed = 0; seed < 1500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    random_.seed(seed);
    Sizes sizes;
    for (int64_t rank = between(1, 4); rank > 0; --rank) sizes.push_back(Sizes{1, 2, 3, 4, 6}[between(0, 4)]);
    Sizes order = shuffled(sizes.size());
    Value value = argument(withOrder(type(sizes), order));
    Elements elements = dense(sizes, order);
    StridedView view = baseView(value);
    ASSERT_TRUE(matches(view, elements));
    for (int64_t length = between(1, 6); length > 0 && product(elements.sizes) < 4000; --length) {
      value = randomView(value, elements);
      std::optional<StridedView> next = applyView(value.getDefiningOp(), view);
      ASSERT_EQ(next.has_value(), expressible(elements)) << value.getDefiningOp()->getName().getStringRef().str();
      std::optional<StridedView> whole = resolveView(value);
      ASSERT_EQ(whole.has_value(), next.has_value());
      if (!next) {
        ++refused;
        break;
      }
      ++resolved;
      ASSERT_TRUE(matches(*next, elements)) << value.getDefiningOp()->getName().getStringRef().str();
      ASSERT_TRUE(matches(*whole, elements));
      bool plain = true;
      for (int64_t i = 0; i < product(elements.sizes); ++i) plain &= elements.places[i] == i;
      ASSERT_EQ(isDenseRowMajor(*next), plain);
      dense_ += plain;
      view = *next;
    }
  }
  EXPECT_GT(resolved, 2000);
  EXPECT_GT(refused, 100);
  EXPECT_GT(dense_, 100);
}

TEST_F(Views, GoThroughViewOpsDownToTheBase) {
  Value x = argument(type({4, 6}));
  Value transposed = TransposeOp::create(builder_, loc(), x, Sizes{1, 0}).getResult();
  Value sliced =
      SliceOp::create(builder_, loc(), transposed, Sizes{1, 0}, Sizes{2, 4}, Sizes{2, 1}, ArrayAttr(), ArrayAttr())
          .getResult();
  std::optional<StridedView> view = resolveView(sliced);
  ASSERT_TRUE(view);
  EXPECT_EQ(view->base, x);
  EXPECT_EQ(view->offset, 1);
  EXPECT_EQ(view->sizes, (SmallVector<int64_t>{2, 4}));
  EXPECT_EQ(view->strides, (SmallVector<int64_t>{2, 6}));
}

TEST_F(Views, StopAtAnOpThatComputes) {
  Value x = argument(type({4, 6}));
  Value relu = ReluOp::create(builder_, loc(), x).getResult();
  std::optional<StridedView> view = resolveView(relu);
  ASSERT_TRUE(view);
  EXPECT_EQ(view->base, relu);
}

TEST_F(Views, RefuseASliceThatRunsBackwards) {
  Value x = argument(type({4}));
  auto reversed = SliceOp::create(builder_, loc(), x, Sizes{3}, Sizes{4}, Sizes{-1}, ArrayAttr(), ArrayAttr());
  EXPECT_FALSE(reversed.isView());
  EXPECT_FALSE(applyView(reversed, baseView(x)));
}

TEST_F(Views, ReshapeATensorWithoutElements) {
  Value x = argument(type({2, 0, 3}));
  Value y = ReshapeOp::create(builder_, loc(), x, Sizes{0, 6}, ArrayAttr()).getResult();
  std::optional<StridedView> view = resolveView(y);
  ASSERT_TRUE(view);
  EXPECT_EQ(view->sizes, (SmallVector<int64_t>{0, 6}));
  EXPECT_EQ(view->strides.size(), 2u);
}

}  // namespace
}  // namespace hpu::ir
