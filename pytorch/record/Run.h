// SPDX-License-Identifier: Apache-2.0
// Launching what was recorded: a pending graph, or one call of eager mode.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <vector>

#include "pytorch/record/Calls.h"
#include "pytorch/record/Pending.h"

namespace hpu_torch {

class CapturedGraph;

/// Compiles it, or finds it compiled, and launches it on its stream; in pieces where it cannot be compiled as one
/// (Pieces.h). Throws c10::Error. The caller sees to it that
/// graphs of a device come one after the other, holds no lock that Python's may wait for, and destroys `graph`.
/// With `capture`: the launch, and the memory that it uses, become the graph's, and nothing runs.
void runPending(c10::DeviceIndex device, Pending& graph, CapturedGraph* capture);

/// The same for one call alone, on the current stream. `results`: as many as the signature has.
void runCall(c10::DeviceIndex device, const RecordedCall& call, const std::vector<at::Tensor>& results);

}  // namespace hpu_torch
