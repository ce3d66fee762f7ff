// SPDX-License-Identifier: Apache-2.0
// The reference interpreter: what a graph computes, by an implementation that shares no kernel with the device.
// The one thing to know: it is exact and slow. Floats of every type are computed in double, each op's result is
// rounded once to its element type, and nothing is fused; use it to check results, not to make them.
//
//   HPU_ASSIGN(hpu::Graph graph, hpu::importOnnx("model.onnx"));
//   HPU_ASSIGN(auto expected, hpu::interpret(graph, {x}));
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hpu/graph.h"
#include "hpu/status.h"
#include "hpu/types.h"

namespace hpu {

/// A dense, row-major tensor in host memory.
struct ReferenceTensor {
  std::string name;  ///< Of the output; of an input it may be empty, inputs go by their order.
  TensorType type;
  std::vector<uint8_t> bytes;  ///< type.bytes() long; a bool is one byte, bf16, f16 and fp8 are bit patterns.
};

/// The outputs of `graph`, in its order. Free dimensions take the sizes of the inputs. Any thread; calls on one graph
/// take turns. Errors: kInvalidArgument (inputs that do not fit; a failing op, with its node), kResourceExhausted.
HPU_API StatusOr<std::vector<ReferenceTensor>> interpret(const Graph& graph,
                                                         const std::vector<ReferenceTensor>& inputs);

}  // namespace hpu
