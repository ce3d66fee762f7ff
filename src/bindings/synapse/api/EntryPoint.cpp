// SPDX-License-Identifier: Apache-2.0
#include "bindings/synapse/api/EntryPoint.h"

#include "base/PerThread.h"
#include "bindings/synapse/api/LastError.h"
#include "bindings/synapse/api/Library.h"
#include "habanalabs/hpu_synapse_ext.h"

namespace hpu::synapse {

LastError& lastError() {
  return base::perThread<LastError>();
}

void FailureText::set(const char* function, const char* text) noexcept {
  plain_ = nullptr;
  try {
    text_.assign(function).append(": ").append(text);
  } catch (...) {
    plain_ = "out of host memory";
  }
}

synStatus libraryState() noexcept {
  return Library::get().state();
}

synStatus reportFailure(const char* function, synStatus status, const char* text) noexcept {
  LastError& last = lastError();
  last.status = status;
  last.synapse.set(function, text);
  return status;
}

synStatus reportFailure(const char* function, const Result& result) noexcept {
  const char* words = describe(result.status());
  return reportFailure(function, result.status(),
                       result.text().empty() ? (words ? words : "unknown status") : result.text().c_str());
}

}  // namespace hpu::synapse

const char* hpuSynLastError(void) {
  return hpu::synapse::lastError().synapse.text();
}

synStatus hpuSynLastStatus(void) {
  return hpu::synapse::lastError().status;
}
