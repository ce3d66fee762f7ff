// SPDX-License-Identifier: Apache-2.0
#include "tools/hpu-opt/RegisterPasses.h"

#include "compiler/normalize/Passes.h"
#include "compiler/pipeline/RegisterPasses.h"
#include "compiler/precision/Precision.h"

namespace hpu {

void registerHpuPasses() {
  normalize::registerNormalizePasses();
  precision::registerPrecisionPasses();
  pipeline::registerPhasePasses();
}

}  // namespace hpu
