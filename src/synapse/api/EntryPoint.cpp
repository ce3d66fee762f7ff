// SPDX-License-Identifier: Apache-2.0
#include "synapse/api/EntryPoint.h"

#include <string>

#include "habanalabs/hpu_synapse_ext.h"
#include "synapse/api/Library.h"

namespace hpu::synapse {
namespace {

struct LastError {
  synStatus status = synSuccess;
  std::string text;
  const char* plain = nullptr;  ///< Instead of text, when there was no memory for it.
};
thread_local LastError lastError;

}  // namespace

synStatus libraryState() noexcept { return Library::get().state(); }

synStatus reportFailure(const char* function, synStatus status, const char* text) noexcept {
  lastError.status = status;
  lastError.plain = nullptr;
  try {
    lastError.text.assign(function).append(": ").append(text);
  } catch (...) {
    lastError.plain = "out of host memory";
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
  using hpu::synapse::lastError;
  return lastError.plain ? lastError.plain : lastError.text.c_str();
}

synStatus hpuSynLastStatus(void) { return hpu::synapse::lastError.status; }
