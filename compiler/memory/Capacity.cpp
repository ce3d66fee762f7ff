// SPDX-License-Identifier: Apache-2.0
#include "compiler/memory/Capacity.h"

#include "base/Format.h"

namespace hpu::memory {

Status checkCapacity(const HbmNeeds& needs, int64_t hbmBytes, std::string_view target) {
  if (needs.total() <= hbmBytes) return okStatus();
  using base::formatBytes;
  // Weights alone do not shrink with the batch.
  std::string mend = needs.weights > hbmBytes / 2
                         ? "compile with --precision=bf16 or fp8, or split the model over devices"
                         : "use a smaller batch or sequence (--dim, --shape) or --precision=bf16";
  return resourceExhausted(base::strCat("the model needs ", formatBytes(needs.total()), " of HBM and ", target, " has ",
                                        formatBytes(hbmBytes), ": weights ", formatBytes(needs.weights), ", workspace ",
                                        formatBytes(needs.workspace), ", inputs ", formatBytes(needs.inputs),
                                        ", outputs ", formatBytes(needs.outputs), "; ", mend,
                                        ", or a --target with more memory"));
}

}  // namespace hpu::memory
