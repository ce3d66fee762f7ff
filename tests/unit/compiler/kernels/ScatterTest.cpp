// SPDX-License-Identifier: Apache-2.0
// Kernels whose results are stored where data says: scatters leave the rest of their output as it was, so outputs start
// with the data; the positions of the largest; boxes that are selected. Expected values are computed here, element by
// element.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "KernelHarness.h"
#include "gtest/gtest.h"

namespace hpu::kernels::test {
namespace {

constexpr ElementType F32 = ElementType::kF32, BF16 = ElementType::kBF16, F16 = ElementType::kF16,
                      I64 = ElementType::kI64, I32 = ElementType::kI32, I8 = ElementType::kI8, U8 = ElementType::kU8;

std::string text(int64_t number) {
  return std::to_string(number);
}

/// `data` with slices of `updates` at tuples of indices, in their order.
Tensor scatteredNd(const Tensor& data, const Tensor& indices, const Tensor& updates) {
  Tensor result = data.clone();
  const Index outer(indices.sizes.begin(), indices.sizes.end() - 1);
  const int64_t depth = indices.sizes.back();
  const Index inner(data.sizes.begin() + depth, data.sizes.end());
  forEach(outer, [&](const Index& row) {
    Index at;
    bool isInside = true;
    for (int64_t k = 0; k < depth; ++k) {
      Index place(row);
      place.push_back(k);
      auto index = static_cast<int64_t>(indices.at(place));
      if (index < 0) index += data.sizes[k];
      isInside &= index >= 0 && index < data.sizes[k];
      at.push_back(index);
    }
    if (!isInside) return;
    forEach(inner, [&](const Index& rest) {
      Index to(at), from(row);
      to.insert(to.end(), rest.begin(), rest.end());
      from.insert(from.end(), rest.begin(), rest.end());
      result.set(to, updates.at(from));
    });
  });
  return result;
}

void checkNd(const Tensor& data, const Tensor& indices, const Tensor& updates) {
  const Tensor wanted = scatteredNd(data, indices, updates);
  check("%r = hpu.scatter_nd %0, %1, %2 : ($0, $1, $2) -> $out0\nhpu.yield %r : $out0", {data, indices, updates},
        {data.clone()}, [&](int, const Index& i) { return wanted.at(i); });
}

TEST(Scatter, WritesSlicesAtTuplesAndLeavesTheRest) {
  for (ElementType type : {F32, BF16, I8, I64, ElementType::kF64})
    for (ElementType indexType : {I64, I32}) {
      // Indices from -11 to 11 of 9: negative ones, some that meet, and some outside.
      checkNd(Tensor::dense(type, {9, 70}).random(1, -90, 90), Tensor::dense(indexType, {6, 1}).random(2, -11, 11),
              Tensor::dense(type, {6, 70}).random(3, -90, 90));
      checkNd(Tensor::dense(type, {5, 4, 3, 40}).random(4, -90, 90),
              Tensor::dense(indexType, {2, 5, 2}).random(5, -6, 6),
              Tensor::dense(type, {2, 5, 3, 40}).random(6, -90, 90));
      checkNd(Tensor::dense(type, {7, 6}).random(7, -90, 90), Tensor::dense(indexType, {20, 2}).random(8, -7, 7),
              Tensor::dense(type, {20}).random(9, -90, 90));
    }
}

TEST(Scatter, TakesOperandsInEveryLayout) {
  // The order of updates is that of their indices, whatever their strides are.
  for (const Index& order : {Index{0, 1, 2}, Index{2, 1, 0}, Index{1, 0, 2}})
    checkNd(Tensor::dense(F32, {4, 5, 33}, order).random(1), Tensor::dense(I64, {3, 7, 1}, order).random(2, 0, 3),
            Tensor::dense(F32, {3, 7, 5, 33}, {3, 1, 0, 2}).random(3));
}

TEST(Scatter, OfOneUpdate) {
  for (int64_t index : {0, 3, -1, 4, -5}) {
    Tensor indices = Tensor::dense(I64, {1});
    indices.set({0}, static_cast<double>(index));
    checkNd(Tensor::dense(F32, {4, 50}).random(1), indices, Tensor::dense(F32, {50}).random(2));
  }
}

/// The place along axis that an index names, or -1.
int64_t placeOf(int64_t index, int64_t position, int64_t size, bool advance, bool wraps) {
  if (advance) index += position;
  if (wraps) return (index % size + size) % size;
  if (index < 0 && !advance) index += size;
  return index < size ? index : -1;
}

void checkElements(const Tensor& data, const Tensor& indices, const Tensor& updates, int64_t axis, bool advance = false,
                   bool wraps = false) {
  Tensor wanted = data.clone();
  forEach(updates.sizes, [&](const Index& at) {
    Index from(at), to(at);
    for (size_t d = 0; d < at.size(); ++d)
      if (indices.sizes[d] == 1) from[d] = 0;
    to[static_cast<size_t>(axis)] = placeOf(static_cast<int64_t>(indices.at(from)), at[static_cast<size_t>(axis)],
                                            data.sizes[static_cast<size_t>(axis)], advance, wraps);
    if (to[static_cast<size_t>(axis)] >= 0) wanted.set(to, updates.at(at));
  });
  check("%r = hpu.scatter_elements %0, %1, %2 {axis = " + text(axis) +
            " : i64, advance = " + (advance ? "true" : "false") + ", wraps = " + (wraps ? "true" : "false") +
            "} : ($0, $1, $2) -> $out0\nhpu.yield %r : $out0",
        {data, indices, updates}, {data.clone()}, [&](int, const Index& i) { return wanted.at(i); });
}

TEST(Scatter, OfElementsAlongEachAxis) {
  for (ElementType type : {F32, F16, U8, I64})
    for (int64_t axis = 0; axis < 3; ++axis) {
      const auto size = static_cast<double>(Index{6, 5, 40}[static_cast<size_t>(axis)]);
      // Updates cover a part of the other dims.
      for (const Index& part : {Index{4, 5, 37}, Index{6, 3, 40}})
        checkElements(Tensor::dense(type, {6, 5, 40}).random(1, 0, 90),
                      Tensor::dense(axis == 1 ? I32 : I64, part).random(2, -size - 2, size + 2),
                      Tensor::dense(type, part).random(3, 0, 90), axis);
    }
}

TEST(Scatter, OfElementsThatMeetKeepsTheLast) {
  checkElements(Tensor::dense(F32, {3, 90}).random(1), Tensor::dense(I64, {9, 90}).random(2, 0, 2),
                Tensor::dense(F32, {9, 90}).random(3), 0);
  checkElements(Tensor::dense(F32, {200}).random(1), Tensor::dense(I64, {500}).random(2, 0, 199),
                Tensor::dense(F32, {500}).random(3), 0);
}

TEST(Scatter, OfACacheFromItsPositionsOn) {
  for (bool wraps : {false, true}) {
    // A position for each batch element; the third one leaves the cache.
    Tensor positions = Tensor::dense(I64, {3, 1, 1, 1});
    positions.set({0, 0, 0, 0}, 0);
    positions.set({1, 0, 0, 0}, 7);
    positions.set({2, 0, 0, 0}, 10);
    checkElements(Tensor::dense(F32, {3, 2, 12, 40}).random(1), positions, Tensor::dense(F32, {3, 2, 5, 40}).random(2),
                  2, true, wraps);
    Tensor start = Tensor::dense(I64, {1, 1, 1, 1});
    start.set({0, 0, 0, 0}, -3);
    checkElements(Tensor::dense(BF16, {3, 2, 12, 40}).random(1), start, Tensor::dense(BF16, {3, 2, 1, 40}).random(2), 2,
                  true, wraps);
  }
}

TEST(Scatter, CombinesWithWhatIsThere) {
  const Tensor data = Tensor::dense(F32, {8, 45}).random(1), updates = Tensor::dense(F32, {4, 45}).random(3);
  Tensor indices = Tensor::dense(I64, {4, 1});
  for (int64_t k = 0; k < 4; ++k) indices.set({k, 0}, static_cast<double>(Index{5, -8, 2, 9}[static_cast<size_t>(k)]));
  const Index rows = {5, 0, 2};
  const std::vector<std::function<double(double, double)>> modes = {
      [](double a, double b) { return a + b; }, [](double a, double b) { return a * b; },
      [](double a, double b) { return std::max(a, b); }, [](double a, double b) { return std::min(a, b); }};
  for (size_t mode = 0; mode < modes.size(); ++mode)
    checkBoth("%r = hpu.scatter_nd %0, %1, %2 {mode = " + text(static_cast<int64_t>(mode) + 1) +
                  " : i32} : ($0, $1, $2) -> $out0\nhpu.yield %r : $out0",
              {data, indices, updates}, {data.clone()}, [&](int, const Index& i) {
                const auto row = std::find(rows.begin(), rows.end(), i[0]);
                return row == rows.end() ? data.at(i) : modes[mode](data.at(i), updates.at({row - rows.begin(), i[1]}));
              });
}

// ---- Positions of the largest ------------------------------------------------------------------

Tensor topIndices(const Tensor& x, int64_t axis, int64_t count, bool largest) {
  Index shape(x.sizes);
  const auto along = static_cast<size_t>(axis);
  shape[along] = count;
  Tensor wanted = Tensor::dense(I64, shape);
  Index rows(shape);
  rows[along] = 1;
  forEach(rows, [&](const Index& row) {
    Index order(static_cast<size_t>(x.sizes[along]));
    std::iota(order.begin(), order.end(), int64_t{0});
    auto number = [&](int64_t k) {
      Index at(row);
      at[along] = k;
      return x.at(at);
    };
    auto isLess = [](double a, double b) { return std::isnan(b) ? !std::isnan(a) : a < b; };
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return largest ? isLess(number(b), number(a)) : isLess(number(a), number(b));
    });
    for (int64_t k = 0; k < count; ++k) {
      Index at(row);
      at[along] = k;
      wanted.set(at, static_cast<double>(order[static_cast<size_t>(k)]));
    }
  });
  return wanted;
}

void checkTop(const Tensor& x, int64_t axis, int64_t count, bool largest) {
  const Tensor wanted = topIndices(x, axis, count, largest);
  checkBoth("%r = hpu.top_indices %0 {axis = " + text(axis) + " : i64, sizes = array<i64: " + text(count) +
                ">, largest = " + (largest ? "true" : "false") + "} : ($0) -> $out0\nhpu.yield %r : $out0",
            {x}, {Tensor::dense(I64, wanted.sizes)}, [&](int, const Index& i) { return wanted.at(i); });
}

TEST(TopIndices, AlongEachAxisOfEveryType) {
  for (ElementType type : {F32, BF16, F16, I8, U8, I32, I64})
    for (bool largest : {true, false}) {
      // Many are equal.
      checkTop(Tensor::dense(type, {7, 90}).random(1, 0, 30), 1, 5, largest);
      checkTop(Tensor::dense(type, {19, 70}).random(2, 0, 9), 0, 19, largest);
      checkTop(Tensor::dense(type, {3, 11, 5}).random(3, 0, 50), 1, 1, largest);
    }
}

TEST(TopIndices, OfNumbersAtTheEndsOfTheirType) {
  for (bool largest : {true, false}) {
    Tensor x = Tensor::dense(F32, {2, 40}).random(1, -1e30, 1e30);
    const double infinity = std::numeric_limits<double>::infinity();
    const std::vector<double> special = {0.0, -0.0, infinity, -infinity, NAN, 1e-40, -1e-40, 0.0, NAN, -infinity};
    for (size_t k = 0; k < special.size(); ++k) x.set({1, static_cast<int64_t>(3 * k)}, special[k]);
    checkTop(x, 1, 40, largest);
    Tensor bytes = Tensor::dense(I8, {1, 6});
    for (int64_t k = 0; k < 6; ++k)
      bytes.set({0, k}, static_cast<double>(Index{127, -128, -128, 127, 0, -1}[static_cast<size_t>(k)]));
    checkTop(bytes, 1, 6, largest);
    Tensor one = Tensor::dense(F32, {4, 1}).random(2);
    checkTop(one, 1, 1, largest);
  }
}

TEST(TopIndices, OfRowsOfEachLength) {
  // Around what fits into a call's scratch memory, and from few picks to all.
  for (ElementType type : {F32, BF16, I8, I64, ElementType::kU64, ElementType::kF64, ElementType::kU16, I32})
    for (bool largest : {true, false})
      for (auto [size, count] : std::vector<std::pair<int64_t, int64_t>>{{1, 1},
                                                                         {2, 2},
                                                                         {41, 41},
                                                                         {200, 3},
                                                                         {5120, 5120},
                                                                         {5121, 700},
                                                                         {11000, 2600},
                                                                         {11000, 11000},
                                                                         {30000, 5}})
        checkTop(Tensor::dense(type, {2, size}).random(static_cast<uint64_t>(size), 0, 3000), 1, count, largest);
}

TEST(TopIndices, OfRowsThatRiseFallAndRepeat) {
  const std::vector<std::function<double(int64_t)>> rows = {
      [](int64_t i) { return static_cast<double>(i); }, [](int64_t i) { return -static_cast<double>(i); },
      [](int64_t) { return 1.0; }, [](int64_t i) { return static_cast<double>(i % 2); },
      [](int64_t i) { return i % 3 ? NAN : static_cast<double>(i); }};
  for (const auto& row : rows)
    for (auto [size, count] :
         std::vector<std::pair<int64_t, int64_t>>{{300, 300}, {2000, 100}, {12000, 12000}, {12000, 6000}})
      for (bool largest : {true, false}) {
        Tensor x = Tensor::dense(F32, {1, size});
        x.fill([&](const Index& at) { return row(at[1]); });
        checkTop(x, 1, count, largest);
      }
}

TEST(TopIndices, TakesOperandsAndResultsInEveryLayout) {
  for (int64_t size : {70, 6000, 11000})
    for (int64_t count : {int64_t{4}, size})
      for (const Index& order : {Index{1, 0}, Index{0, 1}})
        for (const Index& outOrder : {Index{1, 0}, Index{0, 1}}) {
          const Tensor x = Tensor::dense(F32, {3, size}, order).random(7, 0, 500);
          const Tensor wanted = topIndices(x, 1, count, true);
          check("%r = hpu.top_indices %0 {axis = 1 : i64, sizes = array<i64: " + text(count) +
                    ">} : ($0) -> $out0\nhpu.yield %r : $out0",
                {x}, {Tensor::dense(I64, {3, count}, outOrder, 2)}, [&](int, const Index& i) { return wanted.at(i); });
        }
}

TEST(TopIndices, GivesTheElementsToo) {
  for (ElementType type : {F32, BF16, I8, I64, ElementType::kF64})
    for (auto [size, count] :
         std::vector<std::pair<int64_t, int64_t>>{{50, 1}, {90, 7}, {3000, 3000}, {9000, 9000}, {20000, 30}})
      for (int64_t axis : {0, 1}) {
        Index sizes = {3, 3};
        sizes[static_cast<size_t>(axis)] = size;
        const Tensor x = Tensor::dense(type, sizes).random(5, -60, 60), wanted = topIndices(x, axis, count, false);
        auto element = [&](const Index& i) {
          Index at(i);
          at[static_cast<size_t>(axis)] = static_cast<int64_t>(wanted.at(i));
          return x.at(at);
        };
        const std::string top = "%i = hpu.top_indices %0 {axis = " + text(axis) +
                                " : i64, sizes = array<i64: " + text(count) + ">, largest = false} : ($0) -> ";
        const std::string pick =
            "%v = hpu.gather_elements %0, %i {axis = " + text(axis) + " : i64} : ($0, $out1) -> $out0\n";
        const std::vector<Tensor> outputs = {Tensor::dense(type, wanted.sizes, {1, 0}),
                                             Tensor::dense(I64, wanted.sizes)};
        check(top + "$out1\n" + pick + "hpu.yield %v, %i : $out0, $out1", {x}, outputs,
              [&](int output, const Index& i) { return output == 0 ? element(i) : wanted.at(i); });
        if (size > 5120) continue;
        check(top + typeText(outputs[1]) + "\n%v = hpu.gather_elements %0, %i {axis = " + text(axis) +
                  " : i64} : ($0, " + typeText(outputs[1]) + ") -> $out0\nhpu.yield %v : $out0",
              {x}, {outputs[0]}, [&](int, const Index& i) { return element(i); });
      }
}

TEST(TopIndices, OfWideNumbersThatDoublesDoNotTellApart) {
  Tensor x = Tensor::dense(I64, {1, 200});
  auto* numbers = static_cast<int64_t*>(x.origin());
  for (int64_t i = 0; i < 200; ++i) numbers[i] = (int64_t{1} << 62) + i * 77 % 200;
  std::vector<int64_t> order(200);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return numbers[a] > numbers[b]; });
  check("%r = hpu.top_indices %0 {axis = 1 : i64, sizes = array<i64: 50>} : ($0) -> $out0\nhpu.yield %r : $out0", {x},
        {Tensor::dense(I64, {1, 50})},
        [&](int, const Index& i) { return static_cast<double>(order[static_cast<size_t>(i[1])]); });
}

// ---- Boxes ---------------------------------------------------------------------------------------------

struct BoxCase {
  int64_t batch = 1, classes = 2, count = 70;
  double most = 20, overlap = 0.4, threshold = 0.1;
  bool centred = false;
  ElementType type = F32;
};

void checkBoxes(const BoxCase& how) {
  Tensor boxes = Tensor::dense(how.type, {how.batch, how.count, 4}).random(1, 0, 10);
  const Tensor scores = Tensor::dense(how.type, {how.batch, how.classes, how.count}).random(2, 0, 1);
  const Tensor order = topIndices(scores, 2, how.count, true);
  if (how.count > 3) boxes.set({0, 3, 1}, NAN);
  Tensor wanted = Tensor::dense(I64, order.sizes);
  auto ends = [&](int64_t b, int64_t i, int axis) {
    auto at = [&](int k) { return static_cast<float>(boxes.at({b, i, k})); };
    if (how.centred) return std::pair(at(axis) - at(axis + 2) * 0.5F, at(axis) + at(axis + 2) * 0.5F);
    return std::pair(std::min(at(1 - axis), at(3 - axis)), std::max(at(1 - axis), at(3 - axis)));
  };
  auto isBeside = [&](int64_t b, int64_t i, int64_t j) {
    float both = 1, areaI = 1, areaJ = 1;
    for (int axis = 0; axis < 2; ++axis) {
      auto [lowI, highI] = ends(b, i, axis);
      auto [lowJ, highJ] = ends(b, j, axis);
      areaI *= highI - lowI, areaJ *= highJ - lowJ;
      both *= std::max(std::min(highI, highJ) - std::max(lowI, lowJ), 0.0F);
    }
    for (int k = 0; k < 4; ++k)
      if (std::isnan(boxes.at({b, i, k})) || std::isnan(boxes.at({b, j, k}))) return true;
    return !(both > 0 && both / (areaI + areaJ - both) > static_cast<float>(how.overlap));
  };
  for (int64_t b = 0; b < how.batch; ++b)
    for (int64_t c = 0; c < how.classes; ++c) {
      std::vector<int64_t> chosen;
      for (int64_t k = 0; k < how.count; ++k) {
        const auto i = static_cast<int64_t>(order.at({b, c, k}));
        bool stays = static_cast<double>(chosen.size()) < how.most && scores.at({b, c, i}) > how.threshold;
        for (int64_t j : chosen) stays &= isBeside(b, i, j);
        if (stays) chosen.push_back(i);
      }
      for (int64_t k = 0; k < how.count; ++k)
        wanted.set({b, c, k},
                   k < static_cast<int64_t>(chosen.size()) ? static_cast<double>(chosen[static_cast<size_t>(k)]) : -1);
    }
  auto expected = [&](int, const Index& i) { return wanted.at(i); };
  const std::string attributes = how.centred ? " {centred = true}" : "";
  checkBoth("%r = hpu.select_boxes %0, %1, %2, %3, %4, %5" + attributes +
                " : ($0, $1, $2, $3, $4, $5) -> $out0\nhpu.yield %r : $out0",
            {boxes, scores, order, Tensor::scalar(I64, how.most), Tensor::scalar(F32, how.overlap),
             Tensor::scalar(F32, how.threshold)},
            {Tensor::dense(I64, order.sizes)}, expected);
  // Without a threshold; all scores are above the other one.
  if (how.threshold < 0)
    checkBoth("%r = hpu.select_boxes %0, %1, %2, %3, %4" + attributes +
                  " : ($0, $1, $2, $3, $4) -> $out0\nhpu.yield %r : $out0",
              {boxes, scores, order, Tensor::scalar(I64, how.most), Tensor::scalar(F32, how.overlap)},
              {Tensor::dense(I64, order.sizes)}, expected);
}

TEST(SelectBoxes, KeepsWhatOverlapsNothingBefore) {
  for (bool centred : {false, true})
    for (double overlap : {0.0, 0.4, 0.99})
      for (auto [count, most] :
           std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {70, 20}, {70, 1}, {300, 300}, {40, 0}})
        checkBoxes({2, 3, count, static_cast<double>(most), overlap, 0.3, centred});
  checkBoxes({1, 1, 64, 100, 0.5, 2.0});  // No score is above that.
  checkBoxes({1, 2, 64, 100, 0.3, -1});
}

TEST(SelectBoxes, OfNarrowFloats) {
  checkBoxes({1, 2, 90, 90, 0.4, 0.1, false, BF16});
  checkBoxes({1, 2, 90, 90, 0.4, 0.1, true, F16});
}

TEST(SelectBoxes, OfMoreThanScratchMemoryHolds) {
  // Small boxes on a line: all of them stay.
  constexpr int64_t kCount = 4500;
  Tensor boxes = Tensor::dense(F32, {1, kCount, 4}), order = Tensor::dense(I64, {1, 1, kCount});
  boxes.fill([](const Index& i) { return static_cast<double>(i[1]) + (i[2] >= 2 ? 0.75 : 0); });
  for (int k = 0; k < 4; ++k) boxes.set({0, kCount - 1, k}, boxes.at({0, kCount - 7, k}));  // One is there twice.
  order.fill([](const Index& i) { return static_cast<double>(i[2]); });
  check("%r = hpu.select_boxes %0, %1, %2, %3, %4 : ($0, $1, $2, $3, $4) -> $out0\nhpu.yield %r : $out0",
        {boxes, Tensor::dense(F32, {1, 1, kCount}), order, Tensor::scalar(I64, 1e6), Tensor::scalar(F32, 0.5)},
        {Tensor::dense(I64, {1, 1, kCount})},
        [&](int, const Index& i) { return i[2] == kCount - 1 ? -1.0 : static_cast<double>(i[2]); });
}

}  // namespace
}  // namespace hpu::kernels::test
