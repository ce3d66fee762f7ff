// SPDX-License-Identifier: Apache-2.0
// KnownOptions: CompileOptions of a program that was compiled with an older release (base/Grown.h).
#pragma once

#include <cstddef>

#include "base/Grown.h"
#include "hpu/compiler.h"

namespace hpu::support {

inline StatusOr<base::Grown<CompileOptions>> asKnown(const CompileOptions& options, size_t bytes) {
  using O = CompileOptions;
  return base::grown("CompileOptions", options, bytes, &O::target, &O::precision, &O::optLevel, &O::shapes, &O::dims,
                     &O::stopAfter, &O::startFrom, &O::dumpDir, &O::reports, &O::cacheDir, &O::cpu, &O::explain,
                     &O::checkSchedule, &O::onPhase, &O::keepF32, &O::ranges, &O::dumpConstants, &O::irConstants,
                     &O::isCancelled);
}

}  // namespace hpu::support
