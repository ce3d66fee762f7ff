// SPDX-License-Identifier: Apache-2.0
// Row kernels: softmax, normalisations and reductions along any dims, with producers and consumers.
#include <cmath>

#include "KernelHarness.h"
#include "gtest/gtest.h"

namespace hpu::kernels::test {
namespace {

constexpr ElementType F32 = ElementType::kF32, BF16 = ElementType::kBF16, I64 = ElementType::kI64,
                      I32 = ElementType::kI32;

/// Calls f with every index that differs from `index` along `axes` only.
void alongAxes(const Index& sizes, Index index, const std::vector<int64_t>& axes,
               const std::function<void(const Index&)>& f) {
  Index lo(index), hi(index);
  for (size_t d = 0; d < index.size(); ++d) hi[d] = lo[d] + 1;
  for (int64_t a : axes) {
    lo[a] = 0;
    hi[a] = sizes[a];
  }
  forEach(lo, hi, f);
}

std::string axesText(const std::vector<int64_t>& axes) {
  std::string text = "array<i64: ";
  for (size_t i = 0; i < axes.size(); ++i) text += (i ? ", " : "") + std::to_string(axes[i]);
  return text + ">";
}

TEST(Row, SoftmaxAlongEveryAxisAndLayout) {
  for (const Index& order : {Index{0, 1, 2}, Index{2, 0, 1}, Index{0, 2, 1}}) {
    for (int64_t axis = 0; axis < 3; ++axis) {
      for (const char* name : {"softmax", "log_softmax"}) {
        Tensor x = Tensor::dense(F32, {5, 37, 70}, order).random(axis + 1, -8, 8);
        bool isLog = name[0] == 'l';
        check("%r = hpu." + std::string(name) + " %0 {axis = " + std::to_string(axis) +
                  " : i64} : ($0) -> $out0\nhpu.yield %r : $out0",
              {x}, {Tensor::dense(F32, {5, 37, 70}, order)},
              [&](int, const Index& i) {
                double most = -INFINITY, sum = 0;
                alongAxes(x.sizes, i, {axis}, [&](const Index& j) { most = std::max(most, x.at(j)); });
                alongAxes(x.sizes, i, {axis}, [&](const Index& j) { sum += std::exp(x.at(j) - most); });
                return isLog ? x.at(i) - most - std::log(sum) : std::exp(x.at(i) - most) / sum;
              },
              {4e-6, 2e-6});
      }
    }
  }
}

TEST(Row, SoftmaxOfAMaskedScaledProducerIgnoresMinusInfinity) {
  Tensor x = Tensor::dense(F32, {2, 3, 40, 40}).random(3, -20, 20), scale = Tensor::scalar(F32, 0.125);
  Tensor mask = Tensor::dense(F32, {40, 40});
  mask.fill([](const Index& i) { return i[1] > i[0] ? -INFINITY : 0.0; });
  auto value = [&](const Index& i) { return x.at(i) * 0.125 + mask.at({i[2], i[3]}); };
  check(
      "%s = hpu.mul %0, %1 : ($0, $1) -> $out0\n%m = hpu.add %s, %2 : ($out0, $2) -> $out0\n"
      "%r = hpu.softmax %m {axis = 3 : i64} : ($out0) -> $out0\nhpu.yield %r : $out0",
      {x, scale, mask}, {Tensor::dense(F32, {2, 3, 40, 40})},
      [&](int, const Index& i) {
        double most = -INFINITY, sum = 0;
        alongAxes(x.sizes, i, {3}, [&](const Index& j) { most = std::max(most, value(j)); });
        alongAxes(x.sizes, i, {3}, [&](const Index& j) { sum += std::exp(value(j) - most); });
        return std::exp(value(i) - most) / sum;
      },
      {4e-6, 1e-9});
}

/// Their rounding is far above what exp takes: the largest less itself is 0 only when both are rounded.
TEST(Row, SoftmaxOfLargeProducts) {
  Tensor x = Tensor::dense(F32, {4, 70}).random(3, 1e5, 3e5), y = Tensor::dense(F32, {4, 70});
  check(
      "%p = hpu.mul %0, %0 : ($0, $0) -> $0\n%s = hpu.mul %p, %0 : ($0, $0) -> $0\n"
      "%r = hpu.softmax %s {axis = 1 : i64} : ($0) -> $out0\nhpu.yield %r : $out0",
      {x}, {y}, [&](int, const Index& i) {
        for (int64_t k = 0; k < 70; ++k)
          if (x.at({i[0], k}) > x.at(i)) return 0.0;
        return 1.0;
      });
}

TEST(Row, SoftmaxOfARowTooLongForLocalMemory) {
  Tensor x = Tensor::dense(F32, {2, 30000}).random(4, -4, 4);
  Kernel kernel("%r = hpu.softmax %0 {axis = 1 : i64} : ($0) -> $out0\nhpu.yield %r : $out0", {x},
                {Tensor::dense(F32, {2, 30000})});
  ASSERT_TRUE(kernel.status().ok());
  EXPECT_EQ(kernel.info().scratchBytes, 0u);
  EXPECT_EQ(kernel.info().wholeDims, 2u);
  check("%r = hpu.softmax %0 {axis = 1 : i64} : ($0) -> $out0\nhpu.yield %r : $out0", {x},
        {Tensor::dense(F32, {2, 30000})},
        [&, sums = std::vector<double>(2, 0)](int, const Index& i) mutable {
          if (sums[i[0]] == 0) alongAxes(x.sizes, i, {1}, [&](const Index& j) { sums[i[0]] += std::exp(x.at(j)); });
          return std::exp(x.at(i)) / sums[i[0]];
        },
        {1e-5, 0});
}

void checkLayerNorm(bool isCentred) {
  for (ElementType type : {F32, BF16}) {
    for (int64_t axis : {1, 2}) {
      for (const Index& order : {Index{0, 1, 2}, Index{1, 2, 0}}) {
        Tensor x = Tensor::dense(type, {7, 6, 50}, order).random(5, -3, 5);
        Index tail(x.sizes.begin() + axis, x.sizes.end());
        std::vector<int64_t> axes;
        for (int64_t d = axis; d < 3; ++d) axes.push_back(d);
        Tensor scale = Tensor::dense(type, tail).random(6), bias = Tensor::dense(type, {50}).random(7);
        check("%r = hpu.layer_norm %0, %1, %2 {axis = " + std::to_string(axis) + " : i64, epsilon = 1.0e-5 : f64" +
                  (isCentred ? "" : ", centred = false") + "} : ($0, $1, $2) -> $out0\nhpu.yield %r : $out0",
              {x, scale, bias}, {Tensor::dense(type, {7, 6, 50}, order)},
              [&](int, const Index& i) {
                double sum = 0, squares = 0, count = 0;
                alongAxes(x.sizes, i, axes, [&](const Index& j) { sum += x.at(j), ++count; });
                double mean = isCentred ? sum / count : 0;
                alongAxes(x.sizes, i, axes, [&](const Index& j) { squares += (x.at(j) - mean) * (x.at(j) - mean); });
                double y = (x.at(i) - mean) / std::sqrt(squares / count + 1e-5);
                return y * scale.at(Index(i.begin() + axis, i.end())) + bias.at({i[2]});
              },
              {type == F32 ? 5e-6 : 0.005, 5e-6});
      }
    }
  }
}

TEST(Row, LayerNormOverTrailingDimsWithScaleAndBias) {
  checkLayerNorm(true);
}

TEST(Row, LayerNormThatIsNotCentred) {
  checkLayerNorm(false);
}

TEST(Row, InstanceNormAndBatchNormInBothLayouts) {
  for (const Index& order : {Index{0, 1, 2, 3}, Index{0, 2, 3, 1}}) {
    Tensor x = Tensor::dense(F32, {2, 21, 5, 9}, order).random(8), scale = Tensor::dense(F32, {21}).random(9),
           bias = Tensor::dense(F32, {21}).random(10), mean = Tensor::dense(F32, {21}).random(11),
           variance = Tensor::dense(F32, {21}).random(12, 0.5, 2);
    check(
        "%r = hpu.instance_norm %0, %1, %2 {epsilon = 1.0e-5 : f64} : ($0, $1, $2) -> $out0\n"
        "%y = hpu.relu %r : ($out0) -> $out0\nhpu.yield %y : $out0",
        {x, scale, bias}, {Tensor::dense(F32, {2, 21, 5, 9}, order)},
        [&](int, const Index& i) {
          double sum = 0, squares = 0;
          alongAxes(x.sizes, i, {2, 3}, [&](const Index& j) { sum += x.at(j); });
          alongAxes(x.sizes, i, {2, 3}, [&](const Index& j) { squares += std::pow(x.at(j) - sum / 45, 2); });
          double y = (x.at(i) - sum / 45) / std::sqrt(squares / 45 + 1e-5);
          return std::max(0.0, y * scale.at({i[1]}) + bias.at({i[1]}));
        },
        {5e-6, 5e-6});
    check(
        "%r = hpu.batch_norm %0, %1, %2, %3, %4 {epsilon = 1.0e-5 : f64} : ($0, $1, $2, $3, $4) -> "
        "$out0\n"
        "hpu.yield %r : $out0",
        {x, scale, bias, mean, variance}, {Tensor::dense(F32, {2, 21, 5, 9}, order)},
        [&](int, const Index& i) {
          Index c = {i[1]};
          return (x.at(i) - mean.at(c)) / std::sqrt(variance.at(c) + 1e-5) * scale.at(c) + bias.at(c);
        },
        {5e-6, 5e-6});
  }
}

struct Reduction {
  const char* name;
  double first;
  std::function<double(double, double)> step;
};
const Reduction kReductions[] = {
    {"reduce_sum", 0, [](double a, double b) { return a + b; }},
    {"reduce_mean", 0, [](double a, double b) { return a + b; }},
    {"reduce_max", -INFINITY, [](double a, double b) { return std::max(a, b); }},
    {"reduce_min", INFINITY, [](double a, double b) { return std::min(a, b); }},
    {"reduce_prod", 1, [](double a, double b) { return a * b; }},
};

TEST(Row, ReductionsOverAnyAxesAndLayouts) {
  const std::vector<std::vector<int64_t>> axesLists = {{0}, {3}, {1}, {2, 3}, {0, 1, 2, 3}, {1, 3}};
  for (const Index& order : {Index{0, 1, 2, 3}, Index{0, 2, 3, 1}}) {
    for (const auto& axes : axesLists) {
      for (bool keepdims : {true, false}) {
        const Reduction& op = kReductions[(axes.size() + axes[0] + (keepdims ? 2 : 0)) % 5];
        Tensor x = Tensor::dense(F32, {3, 34, 6, 5}, order).random(13, 0.9, 1.12);
        Index shape;
        double count = 1;
        for (int64_t d = 0; d < 4; ++d) {
          bool reduced = std::find(axes.begin(), axes.end(), d) != axes.end();
          if (reduced) count *= static_cast<double>(x.sizes[d]);
          if (!reduced) shape.push_back(x.sizes[d]);
          if (reduced && keepdims) shape.push_back(1);
        }
        check("%r = hpu." + std::string(op.name) + " %0 {axes = " + axesText(axes) +
                  ", keepdims = " + (keepdims ? "true" : "false") + "} : ($0) -> $out0\nhpu.yield %r : $out0",
              {x}, {Tensor::dense(F32, shape)},
              [&](int, const Index& i) {
                Index at;
                size_t next = 0;
                for (int64_t d = 0; d < 4; ++d) {
                  bool reduced = std::find(axes.begin(), axes.end(), d) != axes.end();
                  at.push_back(reduced ? 0 : i[next]);
                  if (!reduced || keepdims) ++next;
                }
                double value = op.first;
                alongAxes(x.sizes, at, axes, [&](const Index& j) { value = op.step(value, x.at(j)); });
                return std::string(op.name) == "reduce_mean" ? value / count : value;
              },
              {2e-5, 1e-6});
      }
    }
  }
}

TEST(Row, MeanOverTheImageOfChannelsLastKeepsLanesAlongChannels) {
  Tensor x = Tensor::dense(F32, {2, 64, 7, 7}, {0, 2, 3, 1}).random(14);
  Tensor y = Tensor::dense(F32, {2, 64, 1, 1}, {0, 2, 3, 1});
  std::string body = "%r = hpu.reduce_mean %0 {axes = array<i64: 2, 3>} : ($0) -> $out0\nhpu.yield %r : $out0";
  Kernel kernel(body, {x}, {y});
  ASSERT_TRUE(kernel.status().ok());
  EXPECT_EQ(kernel.ir().find("gather"), std::string::npos);
  EXPECT_NE(kernel.ir().find("vector<64xf32>"), std::string::npos);
  check(body, {x}, {y}, [&](int, const Index& i) {
    double sum = 0;
    alongAxes(x.sizes, i, {2, 3}, [&](const Index& j) { sum += x.at(j); });
    return sum / 49;
  });
}

TEST(Row, ReductionWithProducersAndConsumers) {
  Tensor x = Tensor::dense(F32, {9, 65}).random(15), b = Tensor::dense(F32, {65}).random(16);
  check(
      "%d = hpu.sub %0, %1 : ($0, $1) -> $0\n%q = hpu.mul %d, %d : ($0, $0) -> $0\n"
      "%s = hpu.reduce_sum %q {axes = array<i64: 1>} : ($0) -> $out0\n%r = hpu.sqrt %s : ($out0) "
      "-> $out0\n"
      "hpu.yield %r : $out0",
      {x, b}, {Tensor::dense(F32, {9, 1})}, [&](int, const Index& i) {
        double sum = 0;
        for (int64_t j = 0; j < 65; ++j) sum += std::pow(x.at({i[0], j}) - b.at({j}), 2);
        return std::sqrt(sum);
      });
}

TEST(Row, DecomposedLayerNormIsOneKernelWithARowOutputAndAStatistic) {
  Tensor x = Tensor::dense(F32, {6, 90}).random(17);
  check(
      "%m = hpu.reduce_mean %0 {axes = array<i64: 1>} : ($0) -> $out1\n%d = hpu.sub %0, %m : ($0, "
      "$out1) -> $0\n"
      "%q = hpu.mul %d, %d : ($0, $0) -> $0\n%v = hpu.reduce_mean %q {axes = array<i64: 1>} : ($0) "
      "-> $out1\n"
      "%s = hpu.sqrt %v : ($out1) -> $out1\n%r = hpu.div %d, %s : ($0, $out1) -> $out0\n"
      "hpu.yield %r, %s : $out0, $out1",
      {x}, {Tensor::dense(F32, {6, 90}), Tensor::dense(F32, {6, 1})},
      [&](int k, const Index& i) {
        double sum = 0, squares = 0;
        for (int64_t j = 0; j < 90; ++j) sum += x.at({i[0], j});
        for (int64_t j = 0; j < 90; ++j) squares += std::pow(x.at({i[0], j}) - sum / 90, 2);
        double deviation = std::sqrt(squares / 90);
        return k == 1 ? deviation : (x.at(i) - sum / 90) / deviation;
      },
      {5e-6, 5e-6});
}

TEST(Row, ArgMaxGivesTheFirstOfEqualsAndNanWins) {
  for (int64_t axis : {0, 1}) {
    for (ElementType type : {F32, I32}) {
      Tensor x = Tensor::dense(type, {40, 75}).random(18, -5, 5);
      x.fill([&](const Index& i) { return std::floor(x.at(i)); });  // Many equal values.
      if (type == F32) {
        x.set({3, 9}, NAN);
        for (int64_t j = 0; j < 75; ++j) x.set({7, j}, -INFINITY);
      }
      Index shape = {axis == 0 ? 1 : 40, axis == 0 ? 75 : 1};
      check("%r = hpu.arg_max %0 {axis = " + std::to_string(axis) + " : i64} : ($0) -> $out0\nhpu.yield %r : $out0",
            {x}, {Tensor::dense(I64, shape)}, [&](int, const Index& i) {
              double best = -INFINITY, at = 0;
              bool nan = false;
              alongAxes(x.sizes, i, {axis}, [&](const Index& j) {
                if (nan || (!(x.at(j) > best) && !std::isnan(x.at(j)))) return;
                nan = std::isnan(x.at(j));
                best = x.at(j);
                at = static_cast<double>(j[axis]);
              });
              return at;
            });
    }
  }
}

TEST(Row, IntegerReductions) {
  Tensor x = Tensor::dense(I64, {5, 41}).random(19, -1000, 1000);
  check(
      "%s = hpu.reduce_sum %0 {axes = array<i64: 1>} : ($0) -> $out0\n"
      "%m = hpu.reduce_max %0 {axes = array<i64: 1>} : ($0) -> $out0\nhpu.yield %s, %m : $out0, "
      "$out1",
      {x}, {Tensor::dense(I64, {5, 1}), Tensor::dense(I64, {5, 1})}, [&](int k, const Index& i) {
        double sum = 0, most = -INFINITY;
        alongAxes(x.sizes, i, {1}, [&](const Index& j) { sum += x.at(j), most = std::max(most, x.at(j)); });
        return k == 0 ? sum : most;
      });
}

TEST(Row, KeepsExpensiveRowsInLocalMemory) {
  Tensor x = Tensor::dense(F32, {4, 1000}).random(20);
  Kernel kernel("%r = hpu.softmax %0 {axis = 1 : i64} : ($0) -> $out0\nhpu.yield %r : $out0", {x},
                {Tensor::dense(F32, {4, 1000})});
  ASSERT_TRUE(kernel.status().ok());
  EXPECT_GE(kernel.info().scratchBytes, 4000u);
  EXPECT_LE(kernel.info().scratchBytes, 80u * 1024);
}

}  // namespace
}  // namespace hpu::kernels::test
