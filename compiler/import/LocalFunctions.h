// SPDX-License-Identifier: Apache-2.0
// Functions that are local to a model: each node that calls one becomes the nodes of its body.
// The one thing to know: a name of the body becomes "call/name", so errors and traces say which call a node is of.
#pragma once

#include <string>

#include "base/FunctionRef.h"
#include "compiler/import/OnnxModel.h"
#include "hpu/status.h"

namespace hpu::importer {

/// Replaces the calls in the graph and in graphs of its nodes; functions stay as they are. A function comes before an
/// op of its name, as ONNX has it, unless `isTaken(domain, name)`. Errors: kInvalidArgument (a function that calls
/// itself, two of one name, a call with more inputs or outputs than the function has), kUnimplemented (too many nodes).
Status inlineFunctions(OnnxModel& model, base::FunctionRef<bool(const std::string&, const std::string&)> isTaken);

}  // namespace hpu::importer
