// SPDX-License-Identifier: Apache-2.0
// Which x86-64 micro-architecture level this CPU and operating system support.
// The one thing to know: HPU_MAX_CPU can lower the answer, never raise it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "hpu/status.h"

namespace hpu::base {

/// Levels of the x86-64 psABI that OpenHPU tells apart; each includes the ones before.
enum class CpuLevel : uint8_t { kBaseline = 1, kV3 = 3, kV4 = 4 };

/// "x86-64", "x86-64-v3", "x86-64-v4".
std::string_view cpuLevelName(CpuLevel level);

/// From cpuid and xgetbv (the operating system must save the registers).
CpuLevel detectCpuLevel();
/// detectCpuLevel lowered by HPU_MAX_CPU. Errors: kInvalidArgument (a bad setting).
StatusOr<CpuLevel> usableCpuLevel();
/// The processor's own name, for benchmark reports and errors; "unknown CPU" when it has none.
std::string cpuModelName();

}  // namespace hpu::base
