// SPDX-License-Identifier: Apache-2.0
// What gathers, scatters and sorts are made of: positions compared with counters, and reduced.
// The one thing to know: nothing of size n x m is stored; comparison, choice and reduction are one TPC kernel.
#pragma once

#include "bindings/synapse/lowering/Lowering.h"

namespace hpu::synapse {

/// 0, 1, ... along dim `dim` of a value of rank `rank` (1 in all others), i32.
Value counter(NodeContext& c, int64_t size, int64_t dim, int64_t rank);
/// `v` with a new dim of size 1 in front of dim `dim`.
Value insertDim(NodeContext& c, Value v, int64_t dim);
Value removeDim(NodeContext& c, Value v, int64_t dim);
/// Indices as i32 or i64; negative ones count from the end of `size`.
Value wrapIndices(NodeContext& c, Value indices, int64_t size);

/// For each position 0..size-1 along `dim`, the number of the last update whose index it is, or -1; i32.
/// `indices` has the updates along `dim`; the result has `size` there.
Value lastWriter(NodeContext& c, Value indices, int64_t dim, int64_t size);

/// Cumulative sum or product along `dim`.
Value scan(NodeContext& c, Value x, int64_t dim, std::string_view op, bool exclusive, bool reverse);

}  // namespace hpu::synapse
