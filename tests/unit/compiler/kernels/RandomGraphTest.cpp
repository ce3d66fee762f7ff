// SPDX-License-Identifier: Apache-2.0
// Random graphs: elementwise ops around at most one row op, broadcast operands in random physical
// orders, compared with a tensor-at-a-time evaluation in double precision.
#include <cmath>
#include <random>

#include "KernelHarness.h"
#include "gtest/gtest.h"

namespace hpu::kernels::test {
namespace {

/// A value of the graph: its name in the text, its shape, its elements in row-major order.
struct Value {
  std::string name, type;
  Index sizes;
  std::vector<double> data;
  double at(const Index& index) const {
    int64_t position = 0;
    for (size_t d = 0; d < sizes.size(); ++d) {
      int64_t i = sizes[d] == 1 ? 0 : index[index.size() - sizes.size() + d];
      position = position * sizes[d] + i;
    }
    return data[position];
  }
};

class RandomGraph {
 public:
  explicit RandomGraph(uint64_t seed) : engine_(seed) {
    int64_t rank = pick(1, 4);
    const int64_t choices[] = {1, 2, 3, 5, 8, 17, 33, 64, 70};
    for (int64_t d = 0; d < rank; ++d) space_.push_back(choices[pick(0, d + 1 == rank ? 8 : 4)]);
    for (int64_t i = pick(1, 3); i >= 0; --i) addInput(i == 0);
    int64_t ops = pick(2, 7), rowAt = pick(0, 1) ? pick(0, ops - 1) : -1;
    for (int64_t i = 0; i < ops; ++i) {
      if (i == rowAt)
        addRowOp();
      else
        addOp();
    }
  }

  void run() {
    const Value& result = values_.back();
    Tensor output = Tensor::dense(ElementType::kF32, result.sizes, randomOrder(result.sizes.size()), pick(0, 1));
    std::string text = text_ + "hpu.yield " + result.name + " : " + result.type;
    check(text, inputs_, {output}, [&](int, const Index& index) { return result.at(index); }, {2e-4, 2e-4});
  }

 private:
  int64_t pick(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(engine_); }

  Index randomOrder(size_t rank) {
    Index order;
    for (size_t d = 0; d < rank; ++d) order.push_back(static_cast<int64_t>(d));
    if (pick(0, 1)) std::shuffle(order.begin(), order.end(), engine_);
    return order;
  }

  static std::string typeOf(const Index& sizes, const char* element = "f32") {
    std::string text = "tensor<";
    for (int64_t size : sizes) text += std::to_string(size) + "x";
    return text + element + ">";
  }

  void addInput(bool full) {
    Index sizes(space_);
    if (!full) {
      for (int64_t& size : sizes)
        if (pick(0, 2) == 0) size = 1;
      sizes.erase(sizes.begin(), sizes.begin() + pick(0, static_cast<int64_t>(sizes.size())));
    }
    Tensor tensor = Tensor::dense(ElementType::kF32, sizes, randomOrder(sizes.size()), pick(0, 2) == 0 ? 1 : 0);
    tensor.random(engine_(), -2, 2);
    Value value;
    value.name = "%" + std::to_string(inputs_.size());
    value.type = typeOf(sizes);
    value.sizes = sizes;
    forEach(sizes, [&](const Index& index) { value.data.push_back(tensor.at(index)); });
    if (full) fullInput_ = values_.size();
    inputs_.push_back(tensor);
    values_.push_back(value);
  }

  void push(const std::string& op, const std::string& attrs, const std::vector<size_t>& operands, Index sizes,
            const std::function<double(const Index&)>& f) {
    Value value;
    value.name = "%v" + std::to_string(values_.size());
    value.sizes = std::move(sizes);
    value.type = typeOf(value.sizes);
    forEach(value.sizes, [&](const Index& index) { value.data.push_back(f(index)); });
    std::string names, types;
    for (size_t i : operands) {
      names += (names.empty() ? "" : ", ") + values_[i].name;
      types += (types.empty() ? "" : ", ") + values_[i].type;
    }
    text_ += value.name + " = hpu." + op + " " + names + attrs + " : (" + types + ") -> " + value.type + "\n";
    values_.push_back(std::move(value));
  }

  void addOp() {
    // One operand has the whole shape, so that every result has it.
    size_t a = lastFull();
    auto x = [this, a](const Index& i) { return values_[a].at(i); };
    switch (pick(0, 9)) {
      case 0:
        push("relu", "", {a}, space_, [=](const Index& i) { return std::max(x(i), 0.0); });
        return;
      case 1:
        push("tanh", "", {a}, space_, [=](const Index& i) { return std::tanh(x(i)); });
        return;
      case 2:
        push("sigmoid", "", {a}, space_, [=](const Index& i) { return 1 / (1 + std::exp(-x(i))); });
        return;
      case 3:
        push("clip", " {min = -1.0 : f64, max = 1.5 : f64}", {a}, space_,
             [=](const Index& i) { return std::min(std::max(x(i), -1.0), 1.5); });
        return;
      default:
        break;
    }
    auto other = static_cast<size_t>(pick(0, static_cast<int64_t>(values_.size()) - 1));
    auto y = [this, other](const Index& i) { return values_[other].at(i); };
    switch (pick(0, 4)) {
      case 0:
        push("add", "", {a, other}, space_, [=](const Index& i) { return x(i) + y(i); });
        return;
      case 1:
        push("sub", "", {other, a}, space_, [=](const Index& i) { return y(i) - x(i); });
        return;
      case 2:
        push("max", "", {a, other}, space_, [=](const Index& i) { return std::max(x(i), y(i)); });
        return;
      case 3:
        push("prelu", "", {a, other}, space_, [=](const Index& i) { return x(i) < 0 ? x(i) * y(i) : x(i); });
        return;
      default:
        push("mul", "", {a, other}, space_, [=](const Index& i) { return x(i) * y(i); });
        return;
    }
  }

  void addRowOp() {
    size_t a = lastFull();
    int64_t axis = pick(0, static_cast<int64_t>(space_.size()) - 1);
    auto along = [this, a, axis](Index i, const std::function<void(double)>& f) {
      for (i[axis] = 0; i[axis] < space_[axis]; ++i[axis]) f(values_[a].at(i));
    };
    double count = static_cast<double>(space_[axis]);
    if (pick(0, 1)) {
      push("softmax", " {axis = " + std::to_string(axis) + " : i64}", {a}, space_, [=, this](const Index& i) {
        double sum = 0;
        along(i, [&](double v) { sum += std::exp(v); });
        return std::exp(values_[a].at(i)) / sum;
      });
      return;
    }
    // A mean that later ops broadcast over the row again.
    Index sizes(space_);
    sizes[axis] = 1;
    push("reduce_mean", " {axes = array<i64: " + std::to_string(axis) + ">}", {a}, sizes, [=](const Index& i) {
      double sum = 0;
      along(i, [&](double v) { sum += v; });
      return sum / count;
    });
    size_t mean = values_.size() - 1;
    push("sub", "", {a, mean}, space_,
         [this, a, mean](const Index& i) { return values_[a].at(i) - values_[mean].at(i); });
  }

  size_t lastFull() const {
    for (size_t i = values_.size(); i-- > 0;)
      if (values_[i].sizes == space_) return i;
    return fullInput_;
  }

  std::mt19937_64 engine_;
  Index space_;
  std::vector<Tensor> inputs_;
  std::vector<Value> values_;
  size_t fullInput_ = 0;
  std::string text_;
};

TEST(RandomGraph, AgreesWithTensorAtATimeEvaluation) {
  for (uint64_t seed = 1; seed <= 80; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomGraph graph(seed);
    graph.run();
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace hpu::kernels::test
