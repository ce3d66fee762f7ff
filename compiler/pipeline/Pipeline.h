// SPDX-License-Identifier: Apache-2.0
// Runs the phases of Phases.def over a module, each followed by the verifier of its post-condition.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compiler/memory/Capacity.h"
#include "hpu/compiler.h"
#include "mlir/IR/BuiltinOps.h"
#include "recipe/Recipe.h"

namespace mlir {
class PassManager;
}

namespace hpu::pipeline {

enum class Phase {
#define HPU_PHASE(name, text) k_##name,
#include "compiler/pipeline/Phases.def"
};

struct PhaseEntry {
  Phase phase;
  const char* name;
  const char* text;
};
const std::vector<PhaseEntry>& phases();
/// kInvalidArgument with the list of phases when there is none of that name.
StatusOr<Phase> parsePhase(const std::string& name);

/// Runs from options.startFrom (default: after import) to options.stopAfter (default: the end) on `module`, which is
/// changed. `owner` keeps the memory of constants alive. Diagnostics become the Status' message. Nodes that no engine
/// can do are appended to `unsupported`, if that is not null.
StatusOr<CompileResult> runPipeline(mlir::ModuleOp module, const CompileOptions& options,
                                    std::shared_ptr<const void> owner,
                                    std::vector<UnsupportedNode>* unsupported = nullptr);

/// The phase normalize as runPipeline runs it; `summary` and `report` may be null.
void addNormalize(mlir::PassManager& manager, const CompileOptions& options, std::string* summary, std::string* report);
/// Free dimensions must have a size before code for them is made: gives them those of the options. Errors:
/// kInvalidArgument (none is given; a given one contradicts a fixed one).
Status makeStatic(mlir::ModuleOp module, const CompileOptions& options);
/// What can be found wrong with options by themselves. Errors: kInvalidArgument.
Status checkOptions(const CompileOptions& options);

/// What a program has in HBM, with weights as they are packed.
memory::HbmNeeds hbmNeedsOf(const recipe::Program& program);

/// For hpu-opt: every pass that needs no compile options of its own, and the pipelines hpu-to-<phase>.
void registerPipelines();

}  // namespace hpu::pipeline
