// SPDX-License-Identifier: Apache-2.0
#include "compose/StridedViews.h"

#include <algorithm>
#include <numeric>

#include "base/Format.h"
#include "compose/Regions.h"

namespace hpu::compose {

using base::strCat;
using Ints = std::vector<int64_t>;

namespace {

/// The view as a region of the elements reshaped to `digits`, its dims in the order `order`.
struct Nesting {
  Shape digits;
  Region region;
  int64_t tail = 0;  ///< Elements that are missing behind the last one for digits that are all full.
  Ints order;        ///< Dims of the view from the largest stride to the smallest; those of size 1 are left out.
};

constexpr int64_t kMostIndices = int64_t{1} << 28;

/// Whether the view's strides nest within `elements` elements.
bool nest(const View& view, int64_t elements, Nesting& nesting) {
  for (size_t d = 0; d < view.shape.size(); ++d)
    if (view.shape[d] > 1) nesting.order.push_back(static_cast<int64_t>(d));
  std::stable_sort(nesting.order.begin(), nesting.order.end(), [&](int64_t a, int64_t b) {
    return view.strides[static_cast<size_t>(a)] > view.strides[static_cast<size_t>(b)];
  });
  // Digit i counts strides[i] elements and has strides[i-1] / strides[i] values; the last digit counts elements.
  int64_t above = elements, rest = view.base;
  if (!nesting.order.empty()) {
    int64_t largest = view.strides[static_cast<size_t>(nesting.order[0])];
    if (largest > 0) nesting.tail = (largest - elements % largest) % largest;
    above += nesting.tail;
  }
  auto digit = [&](int64_t stride, int64_t size) {
    if (stride <= 0 || above % stride) return false;
    int64_t start = rest / stride;
    rest %= stride;
    nesting.digits.push_back(above / stride);
    nesting.region.starts.push_back(start);
    nesting.region.sizes.push_back(size);
    nesting.region.steps.push_back(1);
    above = stride;
    return start + size <= nesting.digits.back();
  };
  for (int64_t d : nesting.order)
    if (!digit(view.strides[static_cast<size_t>(d)], view.shape[static_cast<size_t>(d)])) return false;
  return above == 1 || digit(1, 1);
}

/// From the view's dims to the region's (sizes, then order), and back.
Value toDigits(Emitter& e, Value piece, const Nesting& nesting) {
  Ints perm = nesting.order;
  Shape shape = e.shape(piece);
  for (size_t d = 0; d < shape.size(); ++d)
    if (shape[d] <= 1) perm.push_back(static_cast<int64_t>(d));
  return e.reshape(e.transpose(piece, perm), nesting.region.sizes);
}
Value fromDigits(Emitter& e, Value v, const Nesting& nesting, const Shape& shape) {
  Shape ordered;
  for (int64_t d : nesting.order) ordered.push_back(shape[static_cast<size_t>(d)]);
  Ints inverse(nesting.order.size());  // Dims in the view's order.
  Ints sorted = nesting.order;
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < sorted.size(); ++i)
    inverse[i] = std::find(nesting.order.begin(), nesting.order.end(), sorted[i]) - nesting.order.begin();
  return e.reshape(e.transpose(e.reshape(v, ordered), inverse), shape);
}

/// The elements with as many more behind them as the nesting needs.
Value withTail(Emitter& e, Value whole, int64_t elements, const Nesting& nesting) {
  return nesting.tail > 0 ? e.pad(e.reshape(whole, {elements}), {0}, {nesting.tail}) : whole;
}

/// The position of every element of the view, in its order.
Ints positions(const View& view) {
  Ints list(static_cast<size_t>(numElements(view.shape)), view.base);
  int64_t inner = 1;
  for (size_t d = view.shape.size(); d-- > 0;) {
    for (size_t i = 0; i < list.size(); ++i)
      list[i] += static_cast<int64_t>(i) / inner % view.shape[d] * view.strides[d];
    inner *= view.shape[d];
  }
  return list;
}

bool tableFits(Emitter& e, int64_t count) {
  if (count <= kMostIndices) return true;
  e.unsupported(strCat("strides that overlap or do not nest, over ", count, " elements (at most ", kMostIndices, ")"));
  return false;
}

}  // namespace

Value readView(Emitter& e, Value whole, const View& view) {
  if (!whole.handle) return whole;
  int64_t elements = numElements(e.shape(whole));
  // Dims of stride 0 repeat the view without them.
  View once = view;
  for (size_t d = 0; d < view.shape.size(); ++d)
    if (view.strides[d] == 0 && view.shape[d] > 1) once.shape[d] = 1;
  Nesting nesting;
  if (numElements(view.shape) == 0) return e.full({e.element(whole), view.shape}, 0);
  if (nest(once, elements, nesting)) {
    Value v = sliceRegion(e, e.reshape(withTail(e, whole, elements, nesting), nesting.digits), nesting.region);
    return e.expand(fromDigits(e, v, nesting, once.shape), view.shape);
  }
  if (!tableFits(e, numElements(once.shape))) return {};
  Value index = e.indices({numElements(once.shape)}, positions(once));
  Value v = e.gather(e.reshape(whole, {elements}), index, 0);
  return e.expand(e.reshape(v, once.shape), view.shape);
}

Value writeView(Emitter& e, Value whole, Value values, const View& view) {
  if (!whole.handle || numElements(view.shape) == 0) return whole;
  Shape shape = e.shape(whole);
  int64_t elements = numElements(shape);
  Nesting nesting;
  if (nest(view, elements, nesting)) {
    Value digits = e.reshape(withTail(e, whole, elements, nesting), nesting.digits);
    Value v = insertRegion(e, digits, toDigits(e, values, nesting), nesting.region);
    if (nesting.tail > 0) v = e.sliceDim(e.reshape(v, {elements + nesting.tail}), 0, 0, elements);
    return e.reshape(v, shape);
  }
  if (!tableFits(e, elements)) return {};
  // Each element comes from the original or, when the view has it, from the piece (the last one that names it).
  Ints table(static_cast<size_t>(elements)), places = positions(view);
  std::iota(table.begin(), table.end(), 0);
  for (size_t i = 0; i < places.size(); ++i) table[static_cast<size_t>(places[i])] = elements + static_cast<int64_t>(i);
  Value all = e.concat({e.reshape(whole, {elements}), e.reshape(values, {numElements(view.shape)})}, 0);
  return e.reshape(e.gather(all, e.indices({elements}, table), 0), shape);
}

}  // namespace hpu::compose
