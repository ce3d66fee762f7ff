// SPDX-License-Identifier: Apache-2.0
// Result: what the body of an entry point returns: a synStatus and, for a failure, a line for people.
// The one thing to know: a hpu::Status converts to one, so that HPU_RETURN_IF_ERROR works in a body.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "habanalabs/synapse_api.h"
#include "hpu/status.h"

namespace hpu::synapse {

/// The synStatus that a code of ours is reported as.
synStatus toSynStatus(StatusCode code);
/// The line that synStatusGetBriefDescription gives, at most 55 characters; null for an unknown status.
const char* describe(synStatus status);

class [[nodiscard]] Result {
 public:
  Result() = default;
  Result(synStatus status) : status_(status) {}  // NOLINT: implicit by design, as the next
  Result(synStatus status, std::string text) : status_(status), text_(std::move(text)) {}
  Result(const Status& status)  // NOLINT
      : status_(toSynStatus(status.code())), text_(status.message()) {}

  bool ok() const { return status_ == synSuccess; }
  synStatus status() const { return status_; }
  /// Empty: the status says it all.
  const std::string& text() const { return text_; }

 private:
  synStatus status_ = synSuccess;
  std::string text_;
};

/// The failure of enqueuing work, which needs no memory but the host's.
Result ofEnqueue(const Status& status);
/// The failure of a wait for work: what went wrong on the device rather than in the call.
Result ofWork(const Status& status);
/// What a query says: success, busy, or the failure, which a query leaves where it is.
Result ofQuery(const StatusOr<bool>& done);

inline Result badArgument(std::string text) {
  return {synInvalidArgument, std::move(text)};
}

/// Copies `text` with its end into the caller's `bytes`; a negative number has no room. Errors: synInvalidArgument when
/// it does not fit.
Result copyText(std::string_view text, char* out, int64_t bytes);

}  // namespace hpu::synapse

/// Ends the body of an entry point when an argument that must point somewhere is null.
#define SYN_REQUIRE(pointer)                                                           \
  do {                                                                                 \
    if ((pointer) == nullptr) return ::hpu::synapse::badArgument(#pointer " is null"); \
  } while (false)

/// `SYN_FIND(stream, streams(), streamHandle)`: a std::shared_ptr to the object of a handle, or the body's end.
#define SYN_FIND(name, table, handle) \
  auto name = (table).find(handle);   \
  if (!name) return (table).missing(handle)

/// As HPU_RETURN_IF_ERROR for a Result.
#define SYN_RETURN_IF_ERROR(expression)               \
  do {                                                \
    ::hpu::synapse::Result syn_result = (expression); \
    if (!syn_result.ok()) return syn_result;          \
  } while (false)
