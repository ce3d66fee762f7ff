// SPDX-License-Identifier: Apache-2.0
// A recurrent layer of many steps as a loop of the device.
#pragma once

#include "compiler/import/NodeContext.h"
#include "compose/Recurrent.h"

namespace hpu::importer {

/// Operands of one direction, those of compose::RecurrentOperands in its order; null ones are not given.
using DirectionOperands = std::vector<Value>;

/// Results by direction. All directions go through one loop, each in its order of the steps. Types are static.
struct RecurrentValues {
  std::vector<Value> y, h, c;  ///< As compose::RecurrentResult's.
};
/// Nothing after a failure, which is the node's.
std::optional<RecurrentValues> recurrentLoop(NodeContext& node, const std::vector<DirectionOperands>& operands,
                                             const std::vector<compose::Recurrence>& how);

}  // namespace hpu::importer
