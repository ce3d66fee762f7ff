// SPDX-License-Identifier: Apache-2.0
// strided_view and strided_insert: any strides over the elements of a tensor.
// Offsets and strides come as parameters, as the data of a host tensor, or as the sizes of shape tensors.
#include <algorithm>

#include "bindings/synapse/lowering/HostOperands.h"
#include "bindings/synapse/lowering/Lowering.h"
#include "compose/StridedViews.h"
#include "habanalabs/synapse_api_types.h"
#include "habanalabs/synapse_common_types.h"

namespace hpu::synapse {

namespace {

using compose::View;

bool viewOf(NodeContext& c, const Shape& shape, int64_t elements, View& view) {
  synStridedOpParams params = {};
  const size_t host = hostInput(c);
  if (host < c.numInputs()) {
    auto data = hostStruct<synDynamicStridedDmaH2dTensor>(c, host);
    if (!c.ok()) return false;
    if (data.num_strides != shape.size() || shape.size() > std::size(data.strides))
      return c.fail(strCat(c.inputName(host), " has ", data.num_strides, " strides, the view ", shape.size(), " dims")),
             false;
    params.baseOffset = data.offset;
    std::copy_n(data.strides, shape.size(), params.strides);
  } else if (c.isShapeTensor(2)) {
    // Sizes of shape tensors are strides, and the offset.
    const Shape strides = c.inputShape(2), offset = c.isShapeTensor(3) ? c.inputShape(3) : Shape{0};
    if (strides.size() != shape.size() || strides.size() > std::size(params.strides))
      return c.fail(strCat(c.inputName(2), " has ", strides.size(), " strides, the view ", shape.size(), " dims")),
             false;
    if (offset.size() != 1) return c.fail(strCat(c.inputName(3), " has rank ", offset.size(), ", must have 1")), false;
    params.baseOffset = static_cast<uint64_t>(offset[0]);
    for (size_t i = 0; i < strides.size(); ++i)
      params.strides[i] = static_cast<uint64_t>(strides[strides.size() - 1 - i]);
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

void lowerStridedView(NodeContext& c) {
  Shape from = c.inputShape(0), shape = c.requiredShape(0, 1);
  int64_t elements = numElements(from);
  View view;
  if (!c.ok() || !viewOf(c, shape, elements, view)) return;
  c.output(0, readView(c, c.input(0), view));
}

void lowerStridedInsert(NodeContext& c) {
  Shape whole = c.inputShape(0), piece = c.inputShape(1);
  int64_t elements = numElements(whole);
  View view;
  if (!c.ok() || !viewOf(c, piece, elements, view)) return;
  c.output(0, writeView(c, c.input(0), c.input(1), view));
}

constexpr GuidRow kRows[] = {
    {"strided_view",
     "X, [shape], [host strides and offset; or strides], [offset]",
     "Y",
     "synStridedOpParams",
     "",
     lowerStridedView,
     {},
     kOneType | kMoves},
    {"strided_insert",
     "original, piece, [host strides and offset; or strides], [offset]",
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
