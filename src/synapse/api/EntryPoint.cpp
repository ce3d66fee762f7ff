// SPDX-License-Identifier: Apache-2.0
#include "synapse/api/EntryPoint.h"

#include <string>

#include "base/PerThread.h"
#include "habanalabs/hpu_synapse_ext.h"
#include "synapse/api/Library.h"

namespace hpu::synapse {
namespace {

struct LastError {
  synStatus status = synSuccess;
  std::string text;
  const char* plain = nullptr;  ///< Instead of text, when there was no memory for it.
};
/// Exit handlers and destructors of statics call the library too.
LastError& lastError() { return base::perThread<LastError>(); }

}  // namespace

synStatus libraryState() noexcept { return Library::get().state(); }

synStatus reportFailure(const char* function, synStatus status, const char* text) noexcept {
  LastError& last = lastError();
  last.status = status;
  last.plain = nullptr;
  try {
    last.text.assign(function).append(": ").append(text);
  } catch (...) {
    last.plain = "out of host memory";
  }
  return status;
}

synStatus reportFailure(const char* function, const Result& result) noexcept {
  const char* words = describe(result.status());
  return reportFailure(function, result.status(),
                       result.text().empty() ? (words ? words : "unknown status") : result.text().c_str());
}

}  // namespace hpu::synapse

const char* hpuSynLastError(void) {
  const auto& last = hpu::synapse::lastError();
  return last.plain ? last.plain : last.text.c_str();
}

synStatus hpuSynLastStatus(void) { return hpu::synapse::lastError().status; }
