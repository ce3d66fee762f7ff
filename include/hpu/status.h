// SPDX-License-Identifier: Apache-2.0
// Status and StatusOr<T>: how every function of OpenHPU reports failure.
// The one thing to know: nothing is thrown; a Status that is not ok carries a code for programs and one
// line for people that names what happened, where, and what to do.
//
//   hpu::StatusOr<hpu::Recipe> recipe = hpu::Recipe::load("model.recipe");
//   if (!recipe.ok()) { fprintf(stderr, "%s\n", recipe.status().message().c_str()); return 1; }
#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#define HPU_API __attribute__((visibility("default")))

namespace hpu {

/// The canonical error space (the names and meanings of Google's canonical codes).
enum class StatusCode : int {
  kOk = 0,
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,   ///< The caller's input is wrong; the message says how to mend it.
  kDeadlineExceeded = 4,  ///< A wait reached its deadline; the object is still valid.
  kNotFound = 5,
  kAlreadyExists = 6,
  kPermissionDenied = 7,
  kResourceExhausted = 8,   ///< Out of device or host memory; the message lists the largest holders.
  kFailedPrecondition = 9,  ///< The object is not in the state that the call needs.
  kAborted = 10,
  kOutOfRange = 11,
  kUnimplemented = 12,  ///< A feature or op that OpenHPU does not have; the message says which.
  kInternal = 13,       ///< A bug of OpenHPU.
  kUnavailable = 14,
  kDataLoss = 15,  ///< A file is truncated or corrupt.
};

/// The name of a code, for example "INVALID_ARGUMENT".
constexpr std::string_view statusCodeName(StatusCode code) {
  constexpr std::string_view names[] = {
      "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
      "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
      "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
      "DATA_LOSS"};
  auto index = static_cast<unsigned>(code);
  return index < 16 ? names[index] : "INVALID_CODE";
}

/// Where work of a device failed: what the line for people says, for programs.
struct WorkFailure {
  int device = -1;        ///< DeviceInfo::index.
  std::string stream;     ///< The stream on which it failed: its name, or "queue 3" for one without.
  std::string operation;  ///< "launch", "copy to host", "external work" …
  std::string label;      ///< Which one: the recipe's name, the external work's; may be empty.
  std::string node;       ///< The model's node ("conv1") that the launch was at; empty: it cannot be told.
};

/// A code and a message. Cheap to copy (one pointer), thread-compatible.
class [[nodiscard]] Status {
 public:
  /// Success.
  Status() = default;
  /// A failure, or success when `code` is kOk (the message is dropped then).
  Status(StatusCode code, std::string message) {
    if (code != StatusCode::kOk) rep_ = std::make_shared<Rep>(Rep{code, std::move(message), nullptr});
  }

  bool ok() const { return rep_ == nullptr; }
  StatusCode code() const { return rep_ ? rep_->code : StatusCode::kOk; }
  /// The line for people; empty when ok.
  const std::string& message() const {
    static const std::string empty;
    return rep_ ? rep_->message : empty;
  }
  /// "OK" or "CODE: message".
  std::string toString() const { return ok() ? "OK" : std::string(statusCodeName(code())) + ": " + message(); }
  /// The same failure with `context` put before its message ("loading a.recipe: ...").
  Status withContext(std::string_view context) const {
    return ok() ? *this : Status(Rep{code(), std::string(context) + ": " + message(), rep_->work});
  }
  /// Of the failure of work on a device: where it failed. Null for any other Status. What reports the same failure
  /// (streams and events that depend on the work) has the same object.
  const WorkFailure* work() const { return rep_ ? rep_->work.get() : nullptr; }
  /// The same failure as one of this work; unchanged when ok.
  Status withWork(WorkFailure work) const {
    return ok() ? *this : Status(Rep{code(), message(), std::make_shared<const WorkFailure>(std::move(work))});
  }
  /// As Status(code, message), of the work that `cause` is of.
  static Status because(const Status& cause, StatusCode code, std::string message) {
    return Status(Rep{code, std::move(message), cause.rep_ ? cause.rep_->work : nullptr});
  }
  /// For the places where a failure is deliberately ignored.
  void ignore() const {}

 private:
  struct Rep {
    StatusCode code;
    std::string message;
    std::shared_ptr<const WorkFailure> work;
  };
  explicit Status(Rep rep) : rep_(std::make_shared<Rep>(std::move(rep))) {}
  std::shared_ptr<const Rep> rep_;
};

inline Status okStatus() {
  return {};
}
inline Status invalidArgument(std::string m) {
  return {StatusCode::kInvalidArgument, std::move(m)};
}
inline Status notFound(std::string m) {
  return {StatusCode::kNotFound, std::move(m)};
}
inline Status alreadyExists(std::string m) {
  return {StatusCode::kAlreadyExists, std::move(m)};
}
inline Status resourceExhausted(std::string m) {
  return {StatusCode::kResourceExhausted, std::move(m)};
}
inline Status failedPrecondition(std::string m) {
  return {StatusCode::kFailedPrecondition, std::move(m)};
}
inline Status outOfRange(std::string m) {
  return {StatusCode::kOutOfRange, std::move(m)};
}
inline Status unimplemented(std::string m) {
  return {StatusCode::kUnimplemented, std::move(m)};
}
inline Status internalError(std::string m) {
  return {StatusCode::kInternal, std::move(m)};
}
inline Status unavailable(std::string m) {
  return {StatusCode::kUnavailable, std::move(m)};
}
inline Status dataLoss(std::string m) {
  return {StatusCode::kDataLoss, std::move(m)};
}
inline Status deadlineExceeded(std::string m) {
  return {StatusCode::kDeadlineExceeded, std::move(m)};
}
inline Status cancelled(std::string m) {
  return {StatusCode::kCancelled, std::move(m)};
}
inline Status aborted(std::string m) {
  return {StatusCode::kAborted, std::move(m)};
}

/// A value or the Status that says why there is none. Accessing the value of a failed one terminates
/// the program: test `ok()` first.
template <typename T>
class [[nodiscard]] StatusOr {
 public:
  StatusOr(T value) : value_(std::move(value)) {}         // NOLINT: implicit by design
  StatusOr(Status status) : status_(std::move(status)) {  // NOLINT
    if (status_.ok()) status_ = internalError("StatusOr built from an ok Status without a value");
  }
  template <typename U,
            std::enable_if_t<std::is_convertible_v<U&&, T> && !std::is_same_v<std::decay_t<U>, T> &&
                                 !std::is_same_v<std::decay_t<U>, Status> && !std::is_same_v<std::decay_t<U>, StatusOr>,
                             int> = 0>
  StatusOr(U&& value) : value_(std::forward<U>(value)) {}  // NOLINT

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  T& value() & { return check(), *value_; }
  const T& value() const& { return check(), *value_; }
  T&& value() && { return check(), std::move(*value_); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  void check() const {
    if (!value_) std::terminate();
  }
  std::optional<T> value_;
  Status status_;
};

}  // namespace hpu
