// SPDX-License-Identifier: Apache-2.0
// The version of the collectives' library as linked, so that a program which loads it at run time
// can compare it with the headers it was built with (hpu/version.h).
#include "hpu/version.h"

#include "hpu/status.h"

extern "C" HPU_API const char* hpuCollectivesVersion() {
  return HPU_VERSION_STRING;
}
