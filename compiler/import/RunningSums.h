// SPDX-License-Identifier: Apache-2.0
// Running sums along a dimension, in memory that grows with the number of elements and time with it and little more.
// The one thing to know: a sum is made of sums of two neighbours, of those two, and so on, within blocks of fixed size;
// what blocks before hold is found in turn. Nothing is multiplied or taken away, so integers wrap around as sums do,
// and infinities and NaN reach only what is behind them.
#pragma once

#include "compiler/import/NodeContext.h"

namespace hpu::importer {

struct RunningSumForm {
  bool isExclusive = false;  ///< Of what comes before an element, without itself.
  bool isReverse = false;    ///< From the end.
};

/// Of x's shape and type; the size of dimension `axis` may be free, with a name. Null after a failure, which is then
/// recorded.
Value runningSums(NodeContext& node, Value x, int64_t axis, RunningSumForm form);

}  // namespace hpu::importer
