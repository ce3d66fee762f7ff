// SPDX-License-Identifier: Apache-2.0
// The version of the compiler library as linked, so that a program which loads it at run time can
// compare it with the headers it was built with (hpu/version.h).
#include "hpu/version.h"

#include "base/LogTarget.h"
#include "hpu/status.h"

extern "C" const void* hpuRuntimeLog();  // In libhpu_runtime.

namespace {
/// The process has one log, which is the runtime's.
[[maybe_unused]] const bool oneLog = [] {
  hpu::base::shareLog(*static_cast<const hpu::base::LogTarget*>(hpuRuntimeLog()));
  return true;
}();
}  // namespace

extern "C" HPU_API const char* hpuCompilerVersion() {
  return HPU_VERSION_STRING;
}
