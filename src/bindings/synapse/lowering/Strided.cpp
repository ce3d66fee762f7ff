// SPDX-License-Identifier: Apache-2.0
// strided_view and strided_insert: any strides over the elements of a tensor.
// Offsets and strides come as parameters, or as the data of a host tensor.
#include <algorithm>

#include "bindings/synapse/lowering/Lowering.h"
#include "compose/StridedViews.h"
#include "habanalabs/synapse_api_types.h"
#include "habanalabs/synapse_common_types.h"

namespace hpu::synapse {

namespace {

using compose::View;

bool viewOf(NodeContext& c, const Shape& shape, int64_t elements, View& view) {
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
