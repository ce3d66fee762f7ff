// SPDX-License-Identifier: Apache-2.0
// The phases fuse to schedule, by name, for hpu-opt.
#pragma once

namespace hpu::pipeline {

/// Registers hpu-fuse, hpu-layout, hpu-tile, hpu-memory, hpu-schedule and the verifier of each
/// (hpu-verify-...) with MLIR's global registry; call it once, before parsing options. Each takes the options
/// `target` (gaudi1, gaudi2, gaudi3; default gaudi2) and `optimize` (false: as -O0):
///   --hpu-tile="target=gaudi3"
void registerPhasePasses();

}  // namespace hpu::pipeline
