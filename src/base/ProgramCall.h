// SPDX-License-Identifier: Apache-2.0
// callProgram: calls a function of the program (a callback, a hook, an override of an interface), which may throw.
// The one thing to know: nothing throws across the API, so what such a function throws goes no further: it becomes a
// Status that names the function, which the call returns that it belongs to; or it is logged where there is none.
// Compile with exceptions what includes this.
//
//   return callProgram("Stream::callHost", [&] { return function(); });     // The function returns a Status.
//   HPU_RETURN_IF_ERROR(callProgram("EagerCache::Compile", [&] { recipe = compile(); }));
//   callProgramOrLog("Device::setHealthHook", [&] { hook(event); });
#pragma once

#include <string_view>
#include <type_traits>

#include "hpu/status.h"

namespace hpu::base {

/// What is being caught, as a failure: "FUNCTION has thrown: WHAT", kUnknown; of std::bad_alloc kResourceExhausted.
/// Only inside of a catch block.
Status thrownBy(std::string_view function);

/// What the function returns, if it is a Status; ok when it returns anything else. Errors: as thrownBy.
template <typename Function>
Status callProgram(std::string_view name, Function&& function) {
  try {
    if constexpr (std::is_same_v<std::invoke_result_t<Function&>, Status>) {
      return function();
    } else {
      function();
      return okStatus();
    }
  } catch (...) {
    return thrownBy(name);
  }
}

/// Logs the failure, as an error.
void logThrown(const Status& failure) noexcept;

/// For functions whose failure no call returns. False: it has failed, which was logged.
template <typename Function>
bool callProgramOrLog(std::string_view name, Function&& function) noexcept {
  try {
    const Status status = callProgram(name, function);
    if (!status.ok()) logThrown(status);
    return status.ok();
  } catch (...) {  // Out of memory for the message.
    return false;
  }
}

}  // namespace hpu::base
