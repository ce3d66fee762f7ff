// SPDX-License-Identifier: Apache-2.0
// Oracle: the inputs of a case and what its outputs must be, from a sequential computation. The one
// thing to know: values repeat with a prime period, so long operands are cheap, and a block at a
// wrong place is still noticed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "Case.h"

namespace hpu::collectives::testing {

/// Of one case and one of its streams (each has its own data). Not thread-safe.
class Oracle {
 public:
  Oracle(const Case& c, int stream);

  void fillInput(int rank, std::byte* data) const;
  /// Empty, or what the first wrong element of the rank's output is and should be.
  std::string check(int rank, const std::byte* data) const;

  // Of kAllToAllV, by peer; outputs lie in the opposite order of the ranks.
  std::vector<int64_t> inputCounts(int rank) const;
  std::vector<int64_t> inputDisplacements(int rank) const;
  std::vector<int64_t> outputCounts(int rank) const;
  std::vector<int64_t> outputDisplacements(int rank) const;

 private:
  static constexpr int64_t kPeriod = 251;
  using Table = std::vector<std::byte>;  ///< kPeriod elements.

  void makeInputs();
  void putExact(int rank, int64_t index, std::byte* at) const;
  void putRandom(int rank, int64_t index, std::byte* at) const;
  void putSpecial(int rank, int64_t index, std::byte* at) const;
  void reduceIntegers();
  void reduceFloats();
  void boundFloats();
  /// From index `from` of the table (modulo the period) `count` elements must be at `data`.
  std::string compare(const Table& table, int64_t from, int64_t count, const std::byte* data, int64_t at) const;
  std::string compareReduced(int64_t from, int64_t count, const std::byte* data) const;

  const Case case_;
  const int64_t size_;
  const uint64_t seed_;
  std::vector<Table> inputs_;  ///< By rank.
  Table reduced_;              ///< Exact results, or empty when there are bounds.
  std::vector<long double> result_, bound_;
};

/// Whether the actual element is the expected one; every NaN is the positive one.
bool sameElement(ElementType type, const std::byte* expected, const std::byte* actual);
std::string elementText(ElementType type, const std::byte* at);

}  // namespace hpu::collectives::testing
