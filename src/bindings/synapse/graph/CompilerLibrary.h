// SPDX-License-Identifier: Apache-2.0
// libhpu_synapse_compiler, which is loaded at the first compilation.
// The one thing to know: a process that never compiles never loads it, nor LLVM. HPU_SYNAPSE_COMPILER names
// another file; after a failure to load the next compilation tries again.
#pragma once

#include "bindings/synapse/graph/GraphDescription.h"
#include "bindings/synapse/lowering/Compile.h"
#include "hpu/status.h"

namespace hpu::synapse {

/// compileGraph and inferShapes of the library. Errors: also kUnavailable (it cannot be loaded, or is of another
/// version; the message says which file and why).
StatusOr<CompiledGraph> compileWithLibrary(const GraphDescription& graph, const CompileRequest& request);
Status inferWithLibrary(GraphDescription& graph);

}  // namespace hpu::synapse
