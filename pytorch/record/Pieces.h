// SPDX-License-Identifier: Apache-2.0
// What cannot be compiled as one graph runs as several.
// The one thing to know: a graph is halved until its parts compile, so an op that cannot be compiled is found alone;
// what does not depend on it runs all the same.
#pragma once

#include <functional>

#include "hpu/status.h"
#include "pytorch/record/Pending.h"

namespace hpu_torch {

/// Runs one graph; not OK: it cannot be compiled, and nothing has run.
using RunGraph = std::function<hpu::Status(Pending&)>;

/// `run` on the graph, or on parts of it, in order. Storages that only the graph knows get memory, of the current
/// stream, where parts hand them on. Throws c10::Error for the first op that cannot be compiled alone, when the others
/// have run; it says of which ops the results are undefined.
void runInPieces(Pending& graph, const RunGraph& run);

}  // namespace hpu_torch
