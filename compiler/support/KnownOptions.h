// SPDX-License-Identifier: Apache-2.0
// KnownOptions: CompileOptions of a program: those of one that was compiled with an older release (base/Grown.h), with
// values that there are.
#pragma once

#include <cstddef>

#include "base/CheckEnum.h"
#include "base/Grown.h"
#include "base/StatusMacros.h"
#include "hpu/compiler.h"

namespace hpu::support {

/// Errors: kFailedPrecondition (a newer program's), kInvalidArgument (a target or precision that there is not).
inline StatusOr<base::Grown<CompileOptions>> asKnown(const CompileOptions& options, size_t bytes) {
  using O = CompileOptions;
  HPU_ASSIGN(base::Grown<O> known,
             base::grown("CompileOptions", options, bytes, &O::target, &O::precision, &O::optLevel, &O::shapes,
                         &O::dims, &O::stopAfter, &O::startFrom, &O::dumpDir, &O::reports, &O::cacheDir, &O::cpu,
                         &O::explain, &O::checkSchedule, &O::onPhase, &O::keepF32, &O::ranges, &O::dumpConstants,
                         &O::irConstants, &O::isCancelled, &O::dimBounds, &O::specialize, &O::states, &O::searchEffort,
                         &O::plugins, &O::unrollLimit));
  HPU_RETURN_IF_ERROR(base::checkEnum("CompileOptions::target", known->target,
                                      {Target::kGaudi1, Target::kGaudi2, Target::kGaudi3}, targetName));
  HPU_RETURN_IF_ERROR(base::checkEnum(
      "CompileOptions::precision", known->precision,
      {Precision::kF32, Precision::kBF16, Precision::kF16, Precision::kFp8, Precision::kFp8E5M2}, precisionName));
  return known;
}

}  // namespace hpu::support
