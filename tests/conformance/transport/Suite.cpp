// SPDX-License-Identifier: Apache-2.0
#include "Suite.h"

#include <gtest/gtest.h>

namespace hpu::testing {

bool Rank::await(const char* what, const std::function<bool()>& condition) const {
  auto until = std::chrono::steady_clock::now() + kPatience;
  while (true) {
    uint32_t seen = transport->changes();
    const bool isTrue = condition(), isLate = std::chrono::steady_clock::now() >= until;
    if (isTrue && isLate) ADD_FAILURE() << "rank " << rank() << " was not woken for " << what;
    if (isTrue) return true;
    if (isLate) {
      ADD_FAILURE() << "rank " << rank() << " waited in vain for " << what;
      return false;
    }
    transport->waitForChange(seen, until);
  }
}

std::vector<Case> allCases() {
  std::vector<Case> cases;
  for (const auto* group : {&messageCases(), &recordCases(), &waitCases(), &faultCases()})
    cases.insert(cases.end(), group->begin(), group->end());
  return cases;
}

namespace {
std::byte patternAt(int64_t i, uint64_t seed) {
  uint64_t x = (static_cast<uint64_t>(i / 8) + seed * 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
  return static_cast<std::byte>(x >> (8 * (i % 8)));
}
}  // namespace

void fillPattern(std::byte* data, int64_t bytes, uint64_t seed) {
  for (int64_t i = 0; i < bytes; ++i) data[i] = patternAt(i, seed);
}

bool hasPattern(const std::byte* data, int64_t bytes, uint64_t seed) {
  for (int64_t i = 0; i < bytes; ++i)
    if (data[i] != patternAt(i, seed)) return false;
  return true;
}

}  // namespace hpu::testing
