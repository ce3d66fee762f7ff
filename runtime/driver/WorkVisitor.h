// SPDX-License-Identifier: Apache-2.0
// visitWork, forEachCopy: what depends on the kind of work, each kind named once.
// The one thing to know: a visit without a case for `const auto&` does not compile until it knows every kind.
#pragma once

#include <utility>
#include <variant>

#include "base/HostMemory.h"
#include "runtime/driver/Driver.h"

namespace hpu::driver {

namespace internal {
template <typename... Cases>
struct WorkCases : Cases... {
  using Cases::operator()...;
};
}  // namespace internal

/// Calls the case for the kind of `work`, a variant of kinds (Work, TimedWork) or a const one, and returns what it
/// returns.
template <typename AnyWork, typename... Cases>
decltype(auto) visitWork(AnyWork&& work, Cases&&... cases) {
  return std::visit(internal::WorkCases<std::decay_t<Cases>...>{std::forward<Cases>(cases)...},
                    std::forward<AnyWork>(work));
}

/// Calls `function(direction, range)` for each range that `work` copies, whichever kind of copy it is; none for other
/// work. A Status that is not ok ends it.
template <typename Function>
Status forEachCopy(const Work& work, const Function& function) {
  return visitWork(
      work,
      [&](const CopyToDevice& copy) -> Status {
        return function(CopyDirection::kToDevice, CopyRange{copy.dst, base::hostAddress(copy.src), copy.bytes});
      },
      [&](const CopyToHost& copy) -> Status {
        return function(CopyDirection::kToHost, CopyRange{base::hostAddress(copy.dst), copy.src, copy.bytes});
      },
      [&](const CopyOnDevice& copy) -> Status {
        return function(CopyDirection::kOnDevice, CopyRange{copy.dst, copy.src, copy.bytes});
      },
      [&](const CopyMany& copies) -> Status {
        for (const CopyRange& range : copies.ranges)
          if (Status status = function(copies.direction, range); !status.ok()) return status;
        return okStatus();
      },
      [](const auto&) -> Status { return okStatus(); });
}

}  // namespace hpu::driver
