// SPDX-License-Identifier: Apache-2.0
// Resizing a dimension where its size, or the one it is resized to, is not known before launch: hpu.resize has its
// places and weights as numbers, so here they are computed from the sizes, and the elements gathered.
#pragma once

#include "compiler/dialect/hpu/ResizeCoordinates.h"
#include "compiler/import/NodeContext.h"

namespace hpu::importer {

struct FreeResize {
  int64_t dim = 0;
  ir::SymDim size;  ///< The result's.
  ir::ResizeMode mode = ir::ResizeMode::linear;
  ir::CoordMode coordinates = ir::CoordMode::half_pixel;
  ir::NearestMode nearest = ir::NearestMode::floor;
};

/// `x` with one dimension resized, by the arithmetic of ResizeCoordinates. Null and a failure where that cannot be
/// done.
Value resizedToSize(NodeContext& node, Value x, const FreeResize& to);

}  // namespace hpu::importer
