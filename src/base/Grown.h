// SPDX-License-Identifier: Apache-2.0
// Grown: an option struct as the library knows it, of one that a program was compiled with when it was shorter.
// The one thing to know: a public function that takes options is inline and gives the size that its caller's struct
// has; fields behind that size have their defaults. Fields are added at the end only, behind the old size (tests/abi
// checks).
//
//   StatusOr<Device> Device::open(const DeviceOptions& options, size_t bytes) {
//     HPU_ASSIGN(const base::Grown<DeviceOptions> given, base::grown("DeviceOptions", options, bytes,
//                &DeviceOptions::driver, ...));   // all fields, in their order
//     return openAs(*given);
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "hpu/status.h"

namespace hpu::base {

/// The caller's struct itself where it is complete: then nothing is copied.
template <typename Options>
class Grown {
 public:
  explicit Grown(const Options& given) : given_(&given) {}
  explicit Grown(Options made, std::nullopt_t) : made_(std::move(made)) {}
  const Options& operator*() const { return made_ ? *made_ : *given_; }
  const Options* operator->() const { return &**this; }

 private:
  const Options* given_ = nullptr;
  std::optional<Options> made_;
};

namespace detail {

struct Anything {
  template <typename T>
  operator T() const;
};
template <typename Options, size_t... I>
constexpr auto hasFields(std::index_sequence<I...>) -> decltype(Options{((void)I, Anything())...}, true) {
  return true;
}
template <typename Options>
constexpr bool hasFields(...) {
  return false;
}
template <typename Options, size_t Count>
constexpr bool hasExactly() {
  return hasFields<Options>(std::make_index_sequence<Count>()) &&
         !hasFields<Options>(std::make_index_sequence<Count + 1>());
}

}  // namespace detail

/// `fields`: all of Options, which is an aggregate. Errors: kFailedPrecondition (the program was compiled with a newer
/// release, whose fields this one does not know).
template <typename Options, typename... Fields>
StatusOr<Grown<Options>> grown(const char* name, const Options& given, size_t bytes, Fields Options::*... fields) {
  static_assert(detail::hasExactly<Options, sizeof...(Fields)>(), "a field is not listed");
  if (bytes == sizeof(Options)) return Grown<Options>(given);
  if (bytes > sizeof(Options))
    return failedPrecondition(
        std::string(name) + " has " + std::to_string(bytes) + " bytes in the program and " +
        std::to_string(sizeof(Options)) +
        " here: the program was compiled with a newer OpenHPU than this library; install that one");
  Options made;
  const auto* begin = reinterpret_cast<const std::byte*>(&given);
  auto take = [&](auto field) {
    const auto* end = reinterpret_cast<const std::byte*>(&(given.*field)) + sizeof(given.*field);
    if (static_cast<size_t>(end - begin) <= bytes) made.*field = given.*field;
  };
  (take(fields), ...);
  return Grown<Options>(std::move(made), std::nullopt);
}

}  // namespace hpu::base
