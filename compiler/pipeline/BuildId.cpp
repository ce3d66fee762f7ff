// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline/BuildId.h"

#include "base/CpuFeatures.h"
#include "base/Format.h"
#include "hpu/version.h"

namespace hpu::pipeline {

const std::string& buildId() {
  static const auto& id = *new std::string(base::strCat(HPU_VERSION_STRING, " ",
#include "SourceId.inc"
                                                        ));
  return id;
}

std::string cpuText(const std::string& option) {
  if (option != "native") return option;
  const StatusOr<base::CpuLevel> usable = base::usableCpuLevel();
  return base::strCat("native ", base::cpuLevelName(usable.ok() ? *usable : base::detectCpuLevel()));
}

}  // namespace hpu::pipeline
