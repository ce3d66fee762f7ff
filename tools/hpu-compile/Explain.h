// SPDX-License-Identifier: Apache-2.0
// --explain: what became of a node of the model, phase by phase, and what the device does for it.
#pragma once

#include "hpu/compiler.h"
#include "tools/common/Cli.h"

namespace hpu::tools {

/// Prints `result.explanation` (compiled with CompileOptions::explain) and a table of the device operations that the
/// node went into: engine, slices, modelled time and why it is not at the engine's peak. In JSON: `explain_phases[]`
/// and `explain[]`.
void explainNode(Tool& tool, const CompileResult& result);

}  // namespace hpu::tools
