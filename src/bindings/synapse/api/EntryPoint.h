// SPDX-License-Identifier: Apache-2.0
// guarded(): what every entry point of libSynapse runs its body in.
// The one thing to know: nothing escapes it (exceptions become statuses), and the words of a failure are kept
// for hpuSynLastError() of the calling thread.
//
//   synStatus synStreamSynchronize(const synStreamHandle streamHandle) {
//     return guarded("synStreamSynchronize", [&]() -> Result {
//       SYN_FIND(stream, streams(), streamHandle);
//       return stream->stream.synchronize();
//     });
//   }
#pragma once

#include <exception>
#include <new>
#include <type_traits>

#include "bindings/synapse/api/Result.h"

namespace hpu::synapse {

/// What an entry point needs: the library between synInitialize and synDestroy, or nothing.
enum class Needs : uint8_t { kLibrary, kNothing };

/// Whether the library is up: synSuccess, synUninitialized or synSynapseTerminated.
synStatus libraryState() noexcept;
/// Keeps the words "function: text" for the thread and gives the status.
synStatus reportFailure(const char* function, const Result& result) noexcept;
/// The same without an allocation.
synStatus reportFailure(const char* function, synStatus status, const char* text) noexcept;

template <typename Body>
synStatus guarded(const char* function, Body&& body, Needs needs = Needs::kLibrary) noexcept {
  static_assert(std::is_same_v<std::invoke_result_t<Body>, Result>, "write the body as [&]() -> Result");
  try {
    if (needs == Needs::kLibrary) {
      synStatus state = libraryState();
      if (state != synSuccess) [[unlikely]]
        return reportFailure(function, state,
                             state == synUninitialized ? "call synInitialize first"
                                                       : "synDumpStateAndTerminate ended all work; call synDestroy "
                                                         "and synInitialize to begin again");
    }
    Result result = body();
    if (result.ok()) [[likely]]
      return synSuccess;
    return reportFailure(function, result);
  } catch (const std::bad_alloc&) {
    return reportFailure(function, synOutOfHostMemory, "the host has no memory left");
  } catch (const std::exception& exception) {
    return reportFailure(function, synFail, exception.what());
  } catch (...) {
    return reportFailure(function, synFail, "an exception of an unknown type");
  }
}

/// guarded() of an entry point that gives a handle or memory: what it gives is null when it fails.
template <typename T, typename Body>
synStatus guardedCreate(const char* function, T* created, Body&& body) noexcept {
  if (created) *created = T{};
  return guarded(function, std::forward<Body>(body));
}

}  // namespace hpu::synapse
