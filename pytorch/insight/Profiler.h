// SPDX-License-Identifier: Apache-2.0
// Profiler: PyTorch's ops as spans of the SDK's trace, beside what the runtime and the devices do.
// The one thing to know: there is one recording a process, that of hpu/trace.h; times of the host and of a device are
// two clocks.
#pragma once

#include "hpu/trace.h"
#include "hpu_torch/api.h"

namespace hpu_torch {

/// Starts the recording, with a span for each op that PyTorch dispatches, on the track of its thread. Throws when a
/// recording is on its way. `withShapes`: spans have the sizes and types of their tensors. `withNames`: ops in a
/// block of the program's (torch.autograd.profiler.record_function, an optimiser's step) carry its name.
HPU_TORCH_API void startProfile(hpu::trace::Level level, bool withShapes, bool withNames);
/// Runs what is recorded, waits for all devices, and stops. Throws when nothing was started.
HPU_TORCH_API hpu::trace::Recording stopProfile();

}  // namespace hpu_torch
