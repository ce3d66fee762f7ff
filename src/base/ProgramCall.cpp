// SPDX-License-Identifier: Apache-2.0
#include "base/ProgramCall.h"

#include <exception>
#include <new>
#include <string>

#include "base/Format.h"
#include "base/Log.h"

namespace hpu::base {

Status thrownBy(std::string_view function) {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return resourceExhausted(strCat(function, " has thrown std::bad_alloc: out of host memory"));
  } catch (const std::exception& error) {
    return {StatusCode::kUnknown, strCat(function, " has thrown: ", error.what())};
  } catch (...) {
    return {StatusCode::kUnknown, strCat(function, " has thrown something that is no std::exception")};
  }
}

void logThrown(const Status& failure) noexcept {
  log(LogLevel::kError, failure.message());
}

}  // namespace hpu::base
