// SPDX-License-Identifier: Apache-2.0
#include "compiler/memory/Capacity.h"

#include "base/Format.h"
#include "base/OptionNames.h"

namespace hpu::memory {

Status checkCapacity(const HbmNeeds& needs, int64_t hbmBytes, std::string_view target) {
  if (needs.total() <= hbmBytes) return okStatus();
  using base::formatBytes;
  // Weights alone do not shrink with the batch.
  const std::string narrow = base::optionValue("precision", "bf16");
  const std::string mend = needs.weights > hbmBytes / 2
                               ? base::strCat("compile with ", narrow, " or fp8, or split the model over devices")
                               : base::strCat("use a smaller batch or sequence (", base::optionName("dims"), ", ",
                                              base::optionName("shapes"), ") or ", narrow);
  return resourceExhausted(base::strCat("the model needs ", formatBytes(needs.total()), " of HBM and ", target, " has ",
                                        formatBytes(hbmBytes), ": weights ", formatBytes(needs.weights), ", workspace ",
                                        formatBytes(needs.workspace), ", inputs ", formatBytes(needs.inputs),
                                        ", outputs ", formatBytes(needs.outputs), "; ", mend, ", or another ",
                                        base::optionName("target"), " with more memory"));
}

}  // namespace hpu::memory
