// SPDX-License-Identifier: Apache-2.0
// Not a part of hpu_base: a source of each shared library that stands on libhpu_runtime. When such a library is loaded,
// its log becomes that of libhpu_runtime, so that the process has one (LogTarget.h).
#include "base/LogTarget.h"

extern "C" const void* hpuRuntimeLog();  // In libhpu_runtime.

namespace {
[[maybe_unused]] const bool joined = [] {
  hpu::base::shareLog(*static_cast<const hpu::base::LogTarget*>(hpuRuntimeLog()));
  return true;
}();
}  // namespace
