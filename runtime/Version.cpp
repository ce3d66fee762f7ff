// SPDX-License-Identifier: Apache-2.0
// The version of the runtime library as linked, so that a program which loads it at run time can
// compare it with the headers it was built with (hpu/version.h).
#include "hpu/version.h"

#include "base/LogTarget.h"
#include "hpu/status.h"

/// The log of the process, for the libraries that stand on this one (base/LogTarget.h).
extern "C" HPU_API const void* hpuRuntimeLog();
extern "C" HPU_API const void* hpuRuntimeLog() {
  return &hpu::base::ownLogTarget();
}

extern "C" HPU_API const char* hpuRuntimeVersion() {
  return HPU_VERSION_STRING;
}
