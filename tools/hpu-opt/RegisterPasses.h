// SPDX-License-Identifier: Apache-2.0
// The passes and pipelines that hpu-opt runs by name, beside MLIR's own.
#pragma once

namespace hpu {

/// Registers the passes of all phases with MLIR's global registry; call it once, before parsing
/// options.
void registerHpuPasses();

}  // namespace hpu
