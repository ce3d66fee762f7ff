// SPDX-License-Identifier: Apache-2.0
// Ops as people know them, for errors about work on a device: the node of the model and the engine.
#pragma once

#include <cstdint>
#include <string>

#include "hpu/status.h"
#include "recipe/Recipe.h"

namespace hpu::recipe {

/// "node 'conv1' (Conv) on the mme"; of a fused op "... and 2 more". The program must be verified.
std::string opText(const Program& program, const Op& op);

/// A failure of work as one at this op, for people and for programs (Status::work): "<message> (at node 'conv1' …)".
/// The program must be verified.
Status failedAt(const Status& status, const Program& program, const Op& op);

/// The first op in the host's order that reads or writes the section; null when none does. The
/// program must be verified.
const Op* firstUser(const Program& program, uint32_t section);

}  // namespace hpu::recipe
