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

/// `name` is what errors call the text. Errors: kInvalidArgument, "NAME: node 12 of 'exceptions': ...: what it may be".
/// Never throws.
StatusOr<Fabric> parseFabric(std::string_view text, std::string_view name);
/// Errors: of parseFabric, and kNotFound, kPermissionDenied, kResourceExhausted (a file of more than kMaxFabricText).
StatusOr<Fabric> readFabric(const std::string& path);
/// A file that gives the same fabric when it is read, provided that its constants are what setConstant made them.
std::string fabricText(const Fabric& fabric);
/// "hls-1", "hls-2", "hls-3", "hl-338", "dl1" ...: the examples, compiled in.
std::vector<std::string> namedFabrics();
/// `nodes` of it; 0: as many as its file says. Errors: kNotFound (listing the names), kInvalidArgument.
StatusOr<Fabric> namedFabric(std::string_view name, int32_t nodes = 0);

/// What HPU_COMM_FABRIC says: a file, or `nodes` of an example (0: as many as it has); when it is empty, of that of
/// `target`'s standard nodes under one switch. Errors: of those, with the setting; kInvalidArgument (devices of
/// another target, fewer nodes).
StatusOr<Fabric> settingsFabric(Target target, int32_t nodes);

constexpr int64_t kMaxFabricText = int64_t{64} << 20;

}  // namespace hpu::collectives
