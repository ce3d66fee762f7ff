// SPDX-License-Identifier: Apache-2.0
#include "tools/hpu-opt/RegisterPasses.h"

#include "compiler/normalize/Passes.h"

namespace hpu {

void registerHpuPasses() {
  normalize::registerNormalizePasses();
}

}  // namespace hpu
