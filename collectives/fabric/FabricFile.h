// SPDX-License-Identifier: Apache-2.0
// FabricFile: topology files (JSON) to fabrics and back. docs/fabric.md describes the format; examples/ has the usual
// machines. The one thing to know: what a file leaves out comes from its target's standard node, and what it names
// that is not known is an error with its place.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "collectives/fabric/Fabric.h"
#include "hpu/status.h"

namespace hpu::collectives {

/// Errors: kInvalidArgument, "`name`: node 12 of 'exceptions' ...: what it may be". Never throws.
StatusOr<Fabric> parseFabric(std::string_view text, std::string_view name);
/// Errors: kNotFound, kInvalidArgument.
StatusOr<Fabric> readFabric(const std::string& path);
/// A file that gives the same fabric when it is read.
std::string fabricText(const Fabric& fabric);
/// "hls-1", "hls-2", "hls-3", "hl-338", "dl1": the examples, compiled in; `nodes` of them.
std::vector<std::string> namedFabrics();
StatusOr<Fabric> namedFabric(std::string_view name, int32_t nodes);

}  // namespace hpu::collectives
