// SPDX-License-Identifier: Apache-2.0
// strided_view and strided_insert: any strides over the elements of a tensor.
// Strides that nest (each a multiple of the next, no overlap) are slices of a reshape, which cost nothing or a copy;
// all others gather through a table of positions.
#include <algorithm>
#include <numeric>

#include "bindings/synapse/lowering/Lowering.h"
#include "bindings/synapse/lowering/Regions.h"
#include "habanalabs/synapse_api_types.h"
#include "habanalabs/synapse_common_types.h"

namespace hpu::synapse {

namespace {

using Ints = std::vector<int64_t>;

/// Strides of a view, by its dims in framework order.
struct View {
  Shape shape;
  Ints strides;
  int64_t base = 0;
};

/// The view as a region of the elements reshaped to `digits`, its dims in the order `order`.
struct Nesting {
  Shape digits;
  Region region;
  Ints order;  ///< Dims of the view from the largest stride to the smallest; those of size 1 are left out.
};

constexpr int64_t kMostIndices = int64_t{1} << 28;

bool readView(NodeContext& c, const Shape& shape, int64_t elements, View& view) {
  synStridedOpParams params = {};
  size_t host = 0;
  while (host < c.numInputs() && !c.isHostTensor(host)) ++host;
  if (host < c.numInputs()) {
    synDynamicStridedDmaH2dTensor data = {};
    const TensorDescription& tensor = *c.inputTensor(host);
    if (!tensor.hostData || tensor.hostData->size() < sizeof data)
      return c.fail(strCat(c.inputName(host), " has no host data of ", sizeof data, " bytes")), false;
    std::memcpy(&data, tensor.hostData->data(), sizeof data);
    if (data.num_strides != shape.size() || shape.size() > std::size(data.strides))
      return c.fail(strCat(c.inputName(host), " has ", data.num_strides, " strides, the view ", shape.size(), " dims")),
             false;
    params.baseOffset = data.offset;
    std::copy_n(data.strides, shape.size(), params.strides);
  } else {
    params = c.params<synStridedOpParams>();
  }
  if (!c.ok()) return false;
  if (shape.size() > HABANA_DIM_MAX) return c.fail(strCat("the view has rank ", shape.size())), false;
  view.shape = shape;
  bool overflow = params.baseOffset > static_cast<uint64_t>(INT64_MAX);
  view.base = static_cast<int64_t>(params.baseOffset);
  int64_t last = view.base;
  for (size_t d = 0; d < shape.size(); ++d) {
    uint64_t stride = params.strides[shape.size() - 1 - d];
    int64_t reach = 0;
    if (shape[d] > 1) {
      overflow |= stride > static_cast<uint64_t>(INT64_MAX) ||
                  __builtin_mul_overflow(shape[d] - 1, static_cast<int64_t>(stride), &reach) ||
                  __builtin_add_overflow(last, reach, &last);
    }
    view.strides.push_back(overflow ? 0 : static_cast<int64_t>(stride));
  }
  if (numElements(shape) > 0 && (overflow || last >= elements))
    return c.fail(strCat("the view reaches element ", overflow ? std::string("2^63") : std::to_string(last),
                         "; there are ", elements)),
           false;
  return true;
}

/// Whether the view's strides nest within `elements` elements.
bool nest(const View& view, int64_t elements, Nesting& nesting) {
  for (size_t d = 0; d < view.shape.size(); ++d)
    if (view.shape[d] > 1) nesting.order.push_back(static_cast<int64_t>(d));
  std::stable_sort(nesting.order.begin(), nesting.order.end(), [&](int64_t a, int64_t b) {
    return view.strides[static_cast<size_t>(a)] > view.strides[static_cast<size_t>(b)];
  });
  // Digit i counts strides[i] elements and has strides[i-1] / strides[i] values; the last digit counts elements.
  int64_t above = elements, rest = view.base;
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
Value toDigits(NodeContext& c, Value piece, const Nesting& nesting) {
  Ints perm = nesting.order;
  Shape shape = c.shape(piece);
  for (size_t d = 0; d < shape.size(); ++d)
    if (shape[d] <= 1) perm.push_back(static_cast<int64_t>(d));
  return c.reshape(c.transpose(piece, perm), nesting.region.sizes);
}
Value fromDigits(NodeContext& c, Value v, const Nesting& nesting, const Shape& shape) {
  Shape ordered;
  for (int64_t d : nesting.order) ordered.push_back(shape[static_cast<size_t>(d)]);
  Ints inverse(nesting.order.size());  // Dims in the view's order.
  Ints sorted = nesting.order;
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < sorted.size(); ++i)
    inverse[i] = std::find(nesting.order.begin(), nesting.order.end(), sorted[i]) - nesting.order.begin();
  return c.reshape(c.transpose(c.reshape(v, ordered), inverse), shape);
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

bool tableFits(NodeContext& c, int64_t count) {
  if (count <= kMostIndices) return true;
  c.unsupported(strCat("strides that overlap or do not nest, over ", count, " elements (at most ", kMostIndices, ")"));
  return false;
}

void lowerStridedView(NodeContext& c) {
  Shape from = c.inputShape(0), shape = c.requiredShape(0, 1);
  int64_t elements = numElements(from);
  View view;
  if (!c.ok() || !readView(c, shape, elements, view)) return;
  Value x = c.input(0);
  // Dims of stride 0 repeat the view without them.
  View once = view;
  for (size_t d = 0; d < shape.size(); ++d)
    if (view.strides[d] == 0 && shape[d] > 1) once.shape[d] = 1;
  Nesting nesting;
  if (numElements(shape) == 0) return c.output(0, c.full({c.element(x), shape}, 0));
  if (nest(once, elements, nesting)) {
    Value v = sliceRegion(c, c.reshape(x, nesting.digits), nesting.region);
    return c.output(0, c.expand(fromDigits(c, v, nesting, once.shape), shape));
  }
  if (!tableFits(c, numElements(once.shape))) return;
  Value index = c.indices({numElements(once.shape)}, positions(once));
  Value v = c.gather(c.reshape(x, {elements}), index, 0);
  c.output(0, c.expand(c.reshape(v, once.shape), shape));
}

void lowerStridedInsert(NodeContext& c) {
  Shape whole = c.inputShape(0), piece = c.inputShape(1);
  int64_t elements = numElements(whole);
  View view;
  if (!c.ok() || !readView(c, piece, elements, view)) return;
  Value original = c.input(0), values = c.input(1);
  Nesting nesting;
  if (numElements(piece) == 0) return c.output(0, original);
  if (nest(view, elements, nesting)) {
    Value v = insertRegion(c, c.reshape(original, nesting.digits), toDigits(c, values, nesting), nesting.region);
    return c.output(0, c.reshape(v, whole));
  }
  if (!tableFits(c, elements)) return;
  // Each element comes from the original or, when the view has it, from the piece (the last one that names it).
  Ints table(static_cast<size_t>(elements)), places = positions(view);
  std::iota(table.begin(), table.end(), 0);
  for (size_t i = 0; i < places.size(); ++i) table[static_cast<size_t>(places[i])] = elements + static_cast<int64_t>(i);
  Value all = c.concat({c.reshape(original, {elements}), c.reshape(values, {numElements(piece)})}, 0);
  c.output(0, c.reshape(c.gather(all, c.indices({elements}, table), 0), whole));
}

constexpr GuidRow kRows[] = {
    {"strided_view",
     "X, [shape], [host strides and offset]",
     "Y",
     "synStridedOpParams",
     "",
     lowerStridedView,
     {},
     kOneType | kMoves},
    {"strided_insert",
     "original, piece, [host strides and offset]",
     "Y",
     "synStridedOpParams",
     "",
     lowerStridedInsert,
     {},
     kOneType | kMoves},
};

}  // namespace

std::span<const GuidRow> stridedGuids() {
  return kRows;
}

}  // namespace hpu::synapse
