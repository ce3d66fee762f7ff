// SPDX-License-Identifier: Apache-2.0
// Random graphs of free sizes: elementwise ops around at most one row op and one piece of movement, operands in random
// physical orders, compared with the static kernel of each size.
#include <algorithm>
#include <random>

#include "SymbolicHarness.h"
#include "gtest/gtest.h"

namespace hpu::kernels::test {
namespace {

using Sizes = std::vector<std::string>;

class SymbolicGraph {
 public:
  explicit SymbolicGraph(uint64_t seed) : engine_(seed) {
    const char* choices[] = {"S", "T", "2*S", "S + T", "3", "8", "40", "1"};
    for (int64_t rank = pick(1, 3); rank > 0; --rank) space_.emplace_back(choices[pick(0, rank == 1 ? 6 : 7)]);
    if (std::none_of(space_.begin(), space_.end(), [](const std::string& size) { return size.back() >= 'A'; }))
      space_[static_cast<size_t>(pick(0, static_cast<int64_t>(space_.size()) - 1))] = "S";
    for (int64_t i = pick(1, 3); i >= 0; --i) addInput(i == 0);
    const int64_t ops = pick(2, 6), rowAt = pick(0, 1) ? pick(0, ops - 1) : -1;
    for (int64_t i = 0; i < ops; ++i) {
      if (i == rowAt)
        addRowOp();
      else
        addOp();
    }
    if (pick(0, 2) == 0) addMovement();
    test_.outputs.push_back(
        {ElementType::kF32, values_.back().sizes, randomOrder(values_.back().sizes.size()), pick(0, 1)});
    test_.body += "hpu.yield " + values_.back().name + " : " + typeOf(values_.back().sizes);
    test_.representatives = {{"S", 67}, {"T", 21}};
    const int64_t sizes[] = {0, 1, 2, 5, 15, 16, 17, 31, 33, 63, 64, 65};
    for (int i = 0; i < 4; ++i) test_.sizes.push_back({{"S", sizes[pick(0, 11)]}, {"T", sizes[pick(0, 11)]}});
    if (pick(0, 1)) test_.bounds = {{"S", {0, 128}}, {"T", {0, 128}}};
    test_.tolerance = 2e-5;
  }

  const SymCase& test() const { return test_; }

 private:
  struct Value {
    std::string name;
    Sizes sizes;
  };

  int64_t pick(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(engine_); }

  Index randomOrder(size_t rank) {
    Index order;
    for (size_t d = 0; d < rank; ++d) order.push_back(static_cast<int64_t>(d));
    if (pick(0, 1)) std::shuffle(order.begin(), order.end(), engine_);
    return order;
  }

  static std::string typeOf(const Sizes& sizes) {
    std::string text = "tensor<";
    for (const std::string& size : sizes) text += "`" + size + "`x";
    return text + "f32>";
  }

  void addInput(bool full) {
    Sizes sizes(space_);
    if (!full) {
      for (std::string& size : sizes)
        if (pick(0, 2) == 0) size = "1";
      sizes.erase(sizes.begin(), sizes.begin() + pick(0, static_cast<int64_t>(sizes.size())));
    }
    if (full) full_ = values_.size();
    values_.push_back({"%" + std::to_string(test_.inputs.size()), sizes});
    test_.inputs.push_back({ElementType::kF32, sizes, randomOrder(sizes.size()), pick(0, 2) == 0 ? 1 : 0});
  }

  size_t push(const std::string& op, const std::string& attrs, const std::vector<size_t>& operands, Sizes sizes) {
    std::string names, types;
    for (size_t i : operands) {
      names += (names.empty() ? "" : ", ") + values_[i].name;
      types += (types.empty() ? "" : ", ") + typeOf(values_[i].sizes);
    }
    values_.push_back({"%v" + std::to_string(values_.size()), std::move(sizes)});
    test_.body += values_.back().name + " = hpu." + op + " " + names + attrs + " : (" + types + ") -> " +
                  typeOf(values_.back().sizes) + "\n";
    return values_.size() - 1;
  }

  void addOp() {
    const char* unary[] = {"relu", "tanh", "sigmoid", "abs"};
    const char* binary[] = {"add", "sub", "max", "mul"};
    const size_t a = lastFull();
    if (pick(0, 2) == 0) {
      push(unary[pick(0, 3)], "", {a}, space_);
      return;
    }
    push(binary[pick(0, 3)], "", {a, static_cast<size_t>(pick(0, static_cast<int64_t>(values_.size()) - 1))}, space_);
  }

  void addRowOp() {
    const size_t a = lastFull();
    const int64_t axis = pick(0, static_cast<int64_t>(space_.size()) - 1);
    if (pick(0, 1)) {
      push("softmax", " {axis = " + std::to_string(axis) + " : i64}", {a}, space_);
      return;
    }
    Sizes sizes(space_);
    sizes[static_cast<size_t>(axis)] = "1";
    const size_t mean = push("reduce_mean", " {axes = array<i64: " + std::to_string(axis) + ">}", {a}, sizes);
    push("sub", "", {a, mean}, space_);
  }

  /// Of the computed value: another shape of it, its transpose, a concatenation, or an end padded.
  void addMovement() {
    const size_t a = lastFull();
    Sizes sizes(values_[a].sizes);
    const auto rank = static_cast<int64_t>(sizes.size());
    switch (pick(0, 2)) {
      case 0: {
        std::reverse(sizes.begin(), sizes.end());
        std::string perm;
        for (int64_t d = rank; d-- > 0;) perm += (perm.empty() ? "" : ", ") + std::to_string(d);
        push("transpose", " {perm = array<i64: " + perm + ">}", {a}, sizes);
        return;
      }
      case 1: {
        sizes.insert(sizes.begin() + pick(0, rank), "1");
        std::string shape;
        for (const std::string& size : sizes) shape += (shape.empty() ? "`" : ", `") + size + "`";
        push("reshape", " {shape = array<i64: " + shape + ">}", {a}, sizes);
        // The static kernels of no elements are refused.
        isSplit_ = true;
        return;
      }
      default: {
        const int64_t axis = pick(0, rank - 1);
        std::string low, high;
        for (int64_t d = 0; d < rank; ++d) {
          low += (d ? ", " : "") + std::string(d == axis ? "2" : "0");
          high += (d ? ", " : "") + std::string(d == axis ? "1" : "0");
        }
        std::string& size = sizes[static_cast<size_t>(axis)];
        size = "3 + " + size;
        push("pad", " {low = array<i64: " + low + ">, high = array<i64: " + high + ">, value = 0.5 : f64}", {a}, sizes);
        return;
      }
    }
  }

  size_t lastFull() const {
    for (size_t i = values_.size(); i-- > 0;)
      if (values_[i].sizes == space_) return i;
    return full_;
  }

 public:
  bool isSplit() const { return isSplit_; }

 private:
  std::mt19937_64 engine_;
  Sizes space_;
  std::vector<Value> values_;
  size_t full_ = 0;
  bool isSplit_ = false;
  SymCase test_;
};

TEST(SymbolicGraph, AgreesWithTheStaticKernelOfEachSize) {
  int compiled = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SymbolicGraph graph(seed);
    SymCase test = graph.test();
    if (graph.isSplit())
      llvm::erase_if(test.sizes, [](const auto& sizes) { return sizes.at("S") == 0 || sizes.at("T") == 0; });
    const Kernel kernel = symbolicKernel(test);
    // What no kernel of fixed sizes can do, this one cannot either.
    if (kernel.status().code() == StatusCode::kUnimplemented) continue;
    ++compiled;
    checkSymbolic(test);
    if (HasFailure()) return;
  }
  EXPECT_GE(compiled, 34);
}

}  // namespace
}  // namespace hpu::kernels::test
