// SPDX-License-Identifier: Apache-2.0
// Recorded nodes as an hpu::Graph.
// The one thing to know: memory becomes values. What overlapping views of a storage cover is one piece; a piece that is
// read before it is written is an input, one that was written and outlives the graph is an output, at its own address.
#pragma once

#include <cstdint>
#include <vector>

#include "hpu/graph.h"
#include "hpu/status.h"
#include "pytorch/record/Signature.h"

namespace hpu_torch {

/// An input or output: elements of a storage, or a run-time number.
struct Binding {
  int storage = -1;
  int64_t byteOffset = 0;
  int node = -1, number = -1;  ///< Of a number.
  hpu::ElementType type = hpu::ElementType::kInvalid;
};

struct Translated {
  hpu::Graph graph{"torch"};
  std::vector<Binding> inputs, outputs;
};

/// What a graph knows of a storage.
struct Storage {
  bool isAlive = true;  ///< What is written to it is seen after the graph.
  /// Of the dense tensor that it was made for, in the order of memory; may be empty, or not fit. An input has these
  /// sizes where the views that are read do not show them.
  hpu::Shape sizes;
};

/// Errors name the node: its op, shapes, line.
hpu::StatusOr<Translated> translate(const std::vector<Node>& nodes, const std::vector<Storage>& storages);

/// Runs the row's function alone: fills the types, sizes and dense strides of results that have none yet, and checks
/// the others. Errors: kUnimplemented and kInvalidArgument (why it cannot be compiled).
hpu::Status infer(Signature& signature);

/// Strides of a dense row-major tensor.
std::vector<int64_t> denseStrides(const hpu::Shape& sizes);

}  // namespace hpu_torch
