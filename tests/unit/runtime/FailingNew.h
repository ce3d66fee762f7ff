// SPDX-License-Identifier: Apache-2.0
// Replaces the program's operator new by one that fails when a test says so. For programs that are only such tests.
#pragma once

#include <gtest/gtest.h>

#include <new>
#include <optional>
#include <type_traits>

namespace hpu::testing {

/// The calling thread's allocation number `nth`, counted from 0 and from now, throws std::bad_alloc.
void failAllocation(int nth);
/// Whether that allocation came; none fails any more.
bool allocationFailed();

/// A call's first allocation fails, then its second and so on, until a call has none that fails: that one must succeed.
/// `prepare()` gives the call each time; `refused(result)` looks at each failure. Gives the number of failures.
template <typename Prepare, typename Refused>
int failEachAllocation(Prepare&& prepare, Refused&& refused) {
  auto ok = [](const auto& result) {
    if constexpr (requires { result.ok(); })
      return result.ok();
    else
      return result == std::decay_t<decltype(result)>{};
  };
  constexpr int kMost = 200;
  int failures = 0;
  for (int nth = 0; nth < kMost; ++nth) {
    auto call = prepare();
    std::optional<decltype(call())> result;
    failAllocation(nth);
    try {
      result.emplace(call());
    } catch (const std::bad_alloc&) {
    }
    const bool failed = allocationFailed();
    if (!result) {
      ADD_FAILURE() << "an exception got out at allocation " << nth;
      continue;
    }
    if (!failed) {
      EXPECT_TRUE(ok(*result));
      return failures;
    }
    if (ok(*result)) continue;  // It did without.
    ++failures;
    refused(*result);
  }
  ADD_FAILURE() << "the call still fails at allocation " << kMost;
  return failures;
}

}  // namespace hpu::testing
