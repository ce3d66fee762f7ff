// SPDX-License-Identifier: Apache-2.0
// HcclResult and guardedHccl(): what every entry point of HCCL's C API runs its body in.
// The one thing to know: nothing escapes it (exceptions become results), and the words of a failure
// are kept for hcclGetLastErrorMessage() of the calling thread.
#pragma once

#include <exception>
#include <new>
#include <string>
#include <type_traits>
#include <utility>

#include "bindings/synapse/api/Result.h"
#include "habanalabs/hccl.h"
#include "hpu/status.h"

namespace hpu::synapse {

/// The hcclResult_t that a failure of a call is reported as.
hcclResult_t toHcclResult(StatusCode code);

class [[nodiscard]] HcclResult {
 public:
  HcclResult() = default;
  HcclResult(hcclResult_t result, std::string text) : result_(result), text_(std::move(text)) {}
  HcclResult(const Status& status)  // NOLINT: implicit by design, as the next
      : result_(toHcclResult(status.code())), text_(status.message()) {}
  HcclResult(const Result& result);  // NOLINT

  bool ok() const { return result_ == hcclSuccess; }
  hcclResult_t result() const { return result_; }
  const std::string& text() const { return text_; }

 private:
  hcclResult_t result_ = hcclSuccess;
  std::string text_;
};

/// As the library's state: hcclSuccess, hcclUninitialized or hcclSynapseTerminated.
hcclResult_t hcclLibraryState() noexcept;
/// Keeps the words "function: text" for the thread and gives the result.
hcclResult_t reportHcclFailure(const char* function, hcclResult_t result, const char* text) noexcept;
/// The kept words; null when there are none.
const char* lastHcclError() noexcept;
/// Keeps a text for the thread until its next call, for functions that return one.
const char* keepHcclText(std::string text);

enum class HcclNeeds : uint8_t { kLibrary, kNothing };

template <typename Body>
hcclResult_t guardedHccl(const char* function, Body&& body, HcclNeeds needs = HcclNeeds::kLibrary) noexcept {
  static_assert(std::is_same_v<std::invoke_result_t<Body>, HcclResult>, "write the body as [&]() -> HcclResult");
  try {
    if (needs == HcclNeeds::kLibrary) {
      hcclResult_t state = hcclLibraryState();
      if (state != hcclSuccess) [[unlikely]]
        return reportHcclFailure(function, state,
                                 state == hcclUninitialized ? "call synInitialize and acquire a device first"
                                                            : "synDumpStateAndTerminate ended all work");
    }
    HcclResult result = body();
    if (result.ok()) [[likely]]
      return hcclSuccess;
    return reportHcclFailure(function, result.result(), result.text().c_str());
  } catch (const std::bad_alloc&) {
    return reportHcclFailure(function, hcclOutOfMemory, "the host has no memory left");
  } catch (const std::exception& exception) {
    return reportHcclFailure(function, hcclInternalError, exception.what());
  } catch (...) {
    return reportHcclFailure(function, hcclInternalError, "an exception of an unknown type");
  }
}

}  // namespace hpu::synapse

/// Ends the body of an entry point when an argument that must point somewhere is null.
#define HCCL_REQUIRE(pointer)                                                                              \
  do {                                                                                                     \
    if ((pointer) == nullptr) return ::hpu::synapse::HcclResult(hcclInvalidArgument, #pointer " is null"); \
  } while (false)
