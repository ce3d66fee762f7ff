// SPDX-License-Identifier: Apache-2.0
// Movement kernels: copies into other orders, views, concat, pad, gather, resize.
#include <cmath>

#include "KernelHarness.h"
#include "gtest/gtest.h"

namespace hpu::kernels::test {
namespace {

constexpr ElementType F32 = ElementType::kF32, BF16 = ElementType::kBF16, I64 = ElementType::kI64,
                      I32 = ElementType::kI32, I8 = ElementType::kI8;

TEST(Movement, RangesCountFromTheirStart) {
  for (ElementType type : {ElementType::kI64, ElementType::kI32})
    checkBoth("%r = hpu.range {starts = array<i64: 7>, sizes = array<i64: 83>, steps = array<i64: -3>, element = " +
                  std::string(elementTypeName(type)) + "} : () -> $out0\nhpu.yield %r : $out0",
              {}, {Tensor::dense(type, {83})}, [](int, const Index& i) { return 7.0 - 3.0 * i[0]; });
}

TEST(Movement, RelayoutsAndTransposes) {
  // f64 moves as bits: TPCs do not compute with it.
  for (ElementType type : {F32, BF16, I8, I64, ElementType::kF64}) {
    for (const Index& order : {Index{0, 2, 3, 1}, Index{3, 1, 0, 2}, Index{0, 1, 2, 3}}) {
      Tensor x = Tensor::dense(type, {2, 37, 9, 40}).random(1, -100, 100);
      check("%r = hpu.relayout %0 : ($0) -> $out0\nhpu.yield %r : $out0", {x},
            {Tensor::dense(type, {2, 37, 9, 40}, order)}, [&](int, const Index& i) { return x.at(i); });
    }
    Tensor x = Tensor::dense(type, {3, 33, 70}).random(2, -100, 100);
    check("%t = hpu.transpose %0 {perm = array<i64: 0, 2, 1>} : ($0) -> $out0\nhpu.yield %t : $out0", {x},
          {Tensor::dense(type, {3, 70, 33})}, [&](int, const Index& i) { return x.at({i[0], i[2], i[1]}); });
  }
}

TEST(Movement, SlicesBackwardsAndWithSteps) {
  Tensor x = Tensor::dense(F32, {20, 50}).random(3);
  check(
      "%s = hpu.slice %0 {starts = array<i64: 19, 3>, sizes = array<i64: 7, 12>, steps = "
      "array<i64: -3, 4>} : "
      "($0) -> $out0\n%r = hpu.neg %s : ($out0) -> $out0\nhpu.yield %r : $out0",
      {x}, {Tensor::dense(F32, {7, 12})}, [&](int, const Index& i) { return -x.at({19 - 3 * i[0], 3 + 4 * i[1]}); });
  check(
      "%s = hpu.slice %0 {starts = array<i64: 0, 49>, sizes = array<i64: 20, 50>, steps = "
      "array<i64: 1, -1>} : "
      "($0) -> $out0\nhpu.yield %s : $out0",
      {x}, {Tensor::dense(F32, {20, 50})}, [&](int, const Index& i) { return x.at({i[0], 49 - i[1]}); });
}

TEST(Movement, ExpandsAndReshapes) {
  Tensor x = Tensor::dense(F32, {6, 1, 35}).random(4);
  check("%e = hpu.expand %0 {shape = array<i64: 6, 4, 35>} : ($0) -> $out0\nhpu.yield %e : $out0", {x},
        {Tensor::dense(F32, {6, 4, 35})}, [&](int, const Index& i) { return x.at({i[0], 0, i[2]}); });
  Tensor flat = Tensor::dense(F32, {5, 84}).random(5);
  check(
      "%e = hpu.exp %0 : ($0) -> $0\n%r = hpu.reshape %e {shape = array<i64: 5, 1, 7, 12>} : ($0) "
      "-> $out0\n"
      "hpu.yield %r : $out0",
      {flat}, {Tensor::dense(F32, {5, 1, 7, 12})},
      [&](int, const Index& i) { return std::exp(flat.at({i[0], i[2] * 12 + i[3]})); });
}

TEST(Movement, ConcatenatesAlongEveryAxisInEveryLayout) {
  for (int64_t axis = 0; axis < 3; ++axis) {
    for (const Index& order : {Index{0, 1, 2}, Index{0, 2, 1}}) {
      std::vector<Tensor> inputs;
      std::string operands, types;
      Index shape = {4, 5, 36};
      shape[axis] = 0;
      for (int64_t k = 0; k < 3; ++k) {
        Index part = {4, 5, 36};
        part[axis] = k == 1 ? 1 : part[axis] + k;
        shape[axis] += part[axis];
        inputs.push_back(Tensor::dense(F32, part, k == 2 ? Index{2, 1, 0} : order).random(6 + k));
        operands += (k ? ", %" : "%") + std::to_string(k);
        types += (k ? ", $" : "$") + std::to_string(k);
      }
      check("%c = hpu.concat " + operands + " {axis = " + std::to_string(axis) + " : i64} : (" + types +
                ") -> $out0\n%r = hpu.relu %c : ($out0) -> $out0\nhpu.yield %r : $out0",
            inputs, {Tensor::dense(F32, shape, order)}, [&](int, const Index& i) {
              Index at(i);
              size_t k = 0;
              while (at[axis] >= inputs[k].sizes[axis]) at[axis] -= inputs[k++].sizes[axis];
              return std::max(0.0, inputs[k].at(at));
            });
    }
  }
}

TEST(Movement, PadsWithAValue) {
  for (const Index& order : {Index{0, 1, 2, 3}, Index{0, 2, 3, 1}}) {
    Tensor x = Tensor::dense(F32, {2, 3, 7, 30}, order).random(9);
    check(
        "%r = hpu.pad %0 {low = array<i64: 0, 1, 2, 3>, high = array<i64: 1, 0, 2, 40>, value = "
        "-1.5 : f64} : "
        "($0) -> $out0\nhpu.yield %r : $out0",
        {x}, {Tensor::dense(F32, {3, 4, 11, 73}, order)}, [&](int, const Index& i) {
          Index at = {i[0], i[1] - 1, i[2] - 2, i[3] - 3};
          for (size_t d = 0; d < 4; ++d)
            if (at[d] < 0 || at[d] >= x.sizes[d]) return -1.5;
          return x.at(at);
        });
  }
}

TEST(Movement, PadsAllEightDimensions) {
  Tensor x = Tensor::dense(F32, {1, 2, 1, 2, 1, 2, 2, 3}).random(10);
  check(
      "%r = hpu.pad %0 {low = array<i64: 1, 0, 1, 1, 2, 1, 1, 1>, high = array<i64: 1, 1, 0, 1, 1, 1, 1, 2>, "
      "value = 0.5 : f64} : ($0) -> $out0\nhpu.yield %r : $out0",
      {x}, {Tensor::dense(F32, {3, 3, 2, 4, 4, 4, 4, 6})}, [&](int, const Index& i) {
        Index low = {1, 0, 1, 1, 2, 1, 1, 1}, at(i);
        for (size_t d = 0; d < 8; ++d)
          if (at[d] -= low[d]; at[d] < 0 || at[d] >= x.sizes[d]) return 0.5;
        return x.at(at);
      });
}

TEST(Movement, GathersRowsAndClampsIndices) {
  for (ElementType indexType : {I64, I32}) {
    Tensor table = Tensor::dense(F32, {11, 50}).random(10), indices = Tensor::dense(indexType, {3, 7});
    indices.fill([](const Index& i) {
      const double values[] = {0, 10, -1, -11, 5, 1000, -1000};
      return values[(i[0] + i[1]) % 7];
    });
    auto row = [&](double index) {
      return static_cast<int64_t>(std::min(std::max(index < 0 ? index + 11 : index, 0.0), 10.0));
    };
    check(
        "%g = hpu.gather %0, %1 {axis = 0 : i64} : ($0, $1) -> $out0\n%r = hpu.neg %g : ($out0) -> "
        "$out0\n"
        "hpu.yield %r : $out0",
        {table, indices}, {Tensor::dense(F32, {3, 7, 50})},
        [&](int, const Index& i) { return -table.at({row(indices.at({i[0], i[1]})), i[2]}); });
    // Lanes along the indices.
    for (ElementType type : {F32, BF16, I64}) {
      Tensor wide = Tensor::dense(type, {6, 11}).random(11, -50, 50), many = Tensor::dense(indexType, {45});
      many.fill([](const Index& i) { return static_cast<double>((i[0] * 7) % 25 - 12); });
      check("%g = hpu.gather %0, %1 {axis = 1 : i64} : ($0, $1) -> $out0\nhpu.yield %g : $out0", {wide, many},
            {Tensor::dense(type, {6, 45})}, [&](int, const Index& i) { return wide.at({i[0], row(many.at({i[1]}))}); });
    }
  }
  Tensor x = Tensor::dense(F32, {4, 9, 33}).random(12), one = Tensor::scalar(I64, -2);
  check("%g = hpu.gather %0, %1 {axis = 1 : i64} : ($0, $1) -> $out0\nhpu.yield %g : $out0", {x, one},
        {Tensor::dense(F32, {4, 33})}, [&](int, const Index& i) { return x.at({i[0], 7, i[1]}); });
}

TEST(Movement, GathersElementsAlongEachAxis) {
  for (ElementType indexType : {I64, I32})
    for (ElementType type : {F32, BF16, I64})
      for (int axis = 0; axis < 3; ++axis) {
        Tensor x = Tensor::dense(type, {5, 6, 70}).random(13, -50, 50);
        Index sizes = {4, 6, 33};  // No larger than x but along the axis.
        sizes[axis] = 9;
        int64_t extent = x.sizes[axis];
        Tensor indices = Tensor::dense(indexType, sizes);
        indices.fill([&](const Index& i) {
          return static_cast<double>((i[0] * 3 + i[1] * 5 + i[2] * 7) % (2 * extent + 6) - extent - 3);
        });
        check("%g = hpu.gather_elements %0, %1 {axis = " + std::to_string(axis) +
                  " : i64} : ($0, $1) -> $out0\nhpu.yield %g : $out0",
              {x, indices}, {Tensor::dense(type, sizes)}, [&](int, const Index& i) {
                Index at = i;
                auto index = static_cast<int64_t>(indices.at(i));
                at[axis] = std::clamp<int64_t>(index < 0 ? index + extent : index, 0, extent - 1);
                return x.at(at);
              });
      }
}

/// In f32, as ONNX's runtimes compute it.
double coordinate(int mode, int64_t at, double scale, int64_t in, int64_t out) {
  auto x = static_cast<float>(at), factor = static_cast<float>(scale);
  if (mode == 2) return out > 1 ? x * static_cast<float>(in - 1) / static_cast<float>(out - 1) : 0.0f;
  if (mode == 3) return x / factor;
  if (mode == 1 && out == 1) return 0;
  return (x + 0.5f) / factor - 0.5f;
}

TEST(Movement, ResizesInAllModes) {
  const char* modes[] = {"half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"};
  for (const Index& order : {Index{0, 2, 3, 1}, Index{0, 1, 2, 3}}) {
    for (int mode = 0; mode < 4; ++mode) {
      for (auto [oh, ow] : {std::pair<int64_t, int64_t>{14, 10}, {5, 13}, {1, 40}}) {
        Tensor x = Tensor::dense(F32, {2, 19, 7, 5}, order).random(13);
        double scales[] = {static_cast<double>(oh) / 7, static_cast<double>(ow) / 5};
        auto text = [&](int resizeMode, int nearestMode) {
          return "%r = hpu.resize %0 {sizes = array<i64: " + std::to_string(oh) + ", " + std::to_string(ow) +
                 ">, scales = array<f64: " + std::to_string(scales[0]) + ", " + std::to_string(scales[1]) +
                 ">, mode = " + std::to_string(resizeMode) + " : i32, coordinates = " + std::to_string(mode) +
                 " : i32, nearest = " + std::to_string(nearestMode) + " : i32} : ($0) -> $out0\nhpu.yield %r : $out0";
        };
        scales[0] = std::stod(std::to_string(scales[0]));
        scales[1] = std::stod(std::to_string(scales[1]));
        Tensor y = Tensor::dense(F32, {2, 19, oh, ow}, order);
        SCOPED_TRACE(modes[mode]);
        for (int nearest = 0; nearest < 4; ++nearest) {
          auto source = [&](int i, int64_t at) {
            double c = coordinate(mode, at, scales[i], i ? 5 : 7, i ? ow : oh);
            double r = nearest == 0   ? std::ceil(c - 0.5)
                       : nearest == 1 ? std::floor(c + 0.5)
                       : nearest == 2 ? std::floor(c)
                                      : std::ceil(c);
            return static_cast<int64_t>(std::min(std::max(r, 0.0), i ? 4.0 : 6.0));
          };
          check(text(0, nearest), {x}, {y},
                [&](int, const Index& i) { return x.at({i[0], i[1], source(0, i[2]), source(1, i[3])}); });
        }
        check(text(1, 0), {x}, {y},
              [&](int, const Index& i) {
                double sum = 0, c[2];
                for (int d = 0; d < 2; ++d) {
                  c[d] = coordinate(mode, i[2 + d], scales[d], d ? 5 : 7, d ? ow : oh);
                  c[d] = std::min(std::max(c[d], 0.0), d ? 4.0 : 6.0);
                }
                for (int64_t h = 0; h < 7; ++h)
                  for (int64_t w = 0; w < 5; ++w) {
                    double weight = std::max(0.0, 1 - std::abs(c[0] - h)) * std::max(0.0, 1 - std::abs(c[1] - w));
                    sum += weight * x.at({i[0], i[1], h, w});
                  }
                return sum;
              },
              {1e-5, 1e-5});
      }
    }
  }
}

/// (1 - weight) * low + weight * high, where an element that weighs nothing is not read.
TEST(Movement, LinearResizeKeepsInfinities) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Tensor x = Tensor::dense(F32, {1, 64, 1, 4}, {0, 1, 2, 3}), y = Tensor::dense(F32, {1, 64, 1, 8}, {0, 1, 2, 3});
  const double from[] = {1, kInfinity, 3, -kInfinity};
  const double to[] = {1, kInfinity, kInfinity, kInfinity, 3, -kInfinity, -kInfinity, -kInfinity};
  x.fill([&](const Index& i) { return from[i[3]]; });
  check(
      "%r = hpu.resize %0 {sizes = array<i64: 1, 8>, scales = array<f64: 1.0, 2.0>, mode = 1 : i32, coordinates = 3 : "
      "i32, nearest = 0 : i32} : ($0) -> $out0\nhpu.yield %r : $out0",
      {x}, {y}, [&](int, const Index& i) { return to[i[3]]; });
}

/// Longer than what the host has tables and rows of at a time, with rows that come again, and of every width.
TEST(Movement, ResizesLongRowsOfAllTypes) {
  const auto nearest = [](int64_t at, int64_t in, int64_t out) {
    const auto factor = static_cast<float>(static_cast<double>(out) / static_cast<double>(in));
    return static_cast<int64_t>(std::floor(static_cast<float>(at) / factor));
  };
  for (ElementType type : {F32, ElementType::kBF16, ElementType::kI8, ElementType::kI64, ElementType::kBool}) {
    Tensor x = Tensor::dense(type, {1, 2, 4, 400}), y = Tensor::dense(type, {1, 2, 9, 1300});
    x.random(5, type == ElementType::kBool ? 0 : -100, type == ElementType::kBool ? 2 : 100);
    check(
        "%r = hpu.resize %0 {sizes = array<i64: 9, 1300>, scales = array<f64: 2.25, 3.25>, mode = 0 : i32, "
        "coordinates = 3 : i32, nearest = 2 : i32} : ($0) -> $out0\nhpu.yield %r : $out0",
        {x}, {y},
        [&](int, const Index& i) { return x.at({i[0], i[1], nearest(i[2], 4, 9), nearest(i[3], 400, 1300)}); });
  }
}

/// Each of two resizes keeps its own rows; what follows them does not.
TEST(Movement, ResizesOfTwoOperandsInOneKernel) {
  Tensor a = Tensor::dense(F32, {2, 3, 5, 40}).random(1), b = Tensor::dense(F32, {2, 3, 7, 300}).random(2),
         c = Tensor::dense(F32, {2, 3, 20, 600}).random(3), y = Tensor::dense(F32, {2, 3, 20, 600});
  const auto at = [](const Tensor& x, const Index& i) {
    double sum = 0;
    double taps[2][2], weights[2][2];
    for (int d = 0; d < 2; ++d) {
      const auto in = static_cast<double>(x.sizes[2 + d]), out = d == 0 ? 20.0 : 600.0;
      const double place = std::clamp((static_cast<double>(i[2 + d]) + 0.5) * in / out - 0.5, 0.0, in - 1);
      taps[d][0] = std::floor(place);
      taps[d][1] = std::min(taps[d][0] + 1, in - 1);
      weights[d][1] = place - taps[d][0];
      weights[d][0] = 1 - weights[d][1];
    }
    for (int h = 0; h < 2; ++h)
      for (int w = 0; w < 2; ++w)
        sum += weights[0][h] * weights[1][w] *
               x.at({i[0], i[1], static_cast<int64_t>(taps[0][h]), static_cast<int64_t>(taps[1][w])});
    return sum;
  };
  const std::string resize =
      " {sizes = array<i64: 20, 600>, scales = array<f64: 0.0, 0.0>, mode = 1 : i32, coordinates = 0 : i32, "
      "nearest = 0 : i32} : ";
  check("%r = hpu.resize %0" + resize + "($0) -> $out0\n%s = hpu.resize %1" + resize +
            "($1) -> $out0\n%t = hpu.mul %r, %s : ($out0, $out0) -> $out0\n"
            "%u = hpu.add %t, %2 : ($out0, $2) -> $out0\nhpu.yield %u : $out0",
        {a, b, c}, {y}, [&](int, const Index& i) { return at(a, i) * at(b, i) + c.at(i); }, {2e-5, 2e-5});
}

}  // namespace
}  // namespace hpu::kernels::test
