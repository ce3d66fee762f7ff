// SPDX-License-Identifier: Apache-2.0
// What a compilation says in JSON: the keys of hpu-compile.
#pragma once

#include "hpu/compiler.h"
#include "tools/common/Json.h"

namespace hpu::tools {

/// compile_ms, phases, recipe_bytes, device_time_us, lower_bound_us and more; `unsupported` is empty.
void addFigures(Json& json, const CompileResult& result);

/// The list of `unsupported`, when there is something.
Json unsupportedJson(const std::vector<UnsupportedNode>& nodes);

}  // namespace hpu::tools
