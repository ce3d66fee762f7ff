// SPDX-License-Identifier: Apache-2.0
// Case: one cell of the correctness matrix of collectives. The one thing to know: a case and a rank
// say everything, data included, so ranks in other processes need only its name.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "hpu/collectives.h"
#include "hpu/types.h"

namespace hpu::collectives::testing {

enum class Kind : uint8_t {
  kAllReduce,
  kReduceScatter,
  kReduce,
  kAllReduceScaled,
  kReduceScatterScaled,
  kAllGather,
  kAllToAll,
  kAllToAllV,
  kBroadcast,
  kGather,
  kScatter,
  kRelay,
  kSendReceive,  ///< A ring: to the next rank, from the one before.
  kBarrier
};
enum class Alignment : uint8_t { kNone, kByte, kElement };
/// Of the inputs of reductions; other calls move any bits.
enum class Values : uint8_t {
  kExact,   ///< Small numbers: every order of combination has one result.
  kRandom,  ///< Any finite ones: the result is within the bound of the contract.
  kSpecial  ///< Infinities, NaN, zeros of both signs, denormals; integers that wrap.
};

/// Indices into the lists of values below, one a parameter.
enum Parameter { kKind, kType, kOp, kRanks, kCount, kInPlace, kRoot, kAlignment, kStreams, kGrouped, kValues };
inline constexpr int kNumParameters = 11;
using Choice = std::array<uint8_t, kNumParameters>;
/// How many values a parameter has.
int numValues(int parameter);

struct Case {
  Choice choice{};

  Kind kind() const { return static_cast<Kind>(choice[kKind]); }
  ElementType type() const;
  ReduceOp op() const { return static_cast<ReduceOp>(choice[kOp]); }
  int ranks() const { return choice[kRanks] + 1; }
  int64_t count() const;  ///< As the call has it.
  bool inPlace() const { return choice[kInPlace] != 0; }
  int root() const { return choice[kRoot] ? ranks() - 1 : 0; }
  /// Of a relay, from the root.
  int destination() const { return choice[kRoot] ? 0 : ranks() - 1; }
  Alignment alignment() const { return static_cast<Alignment>(choice[kAlignment]); }
  int streams() const { return choice[kStreams] ? 3 : 1; }
  bool grouped() const { return choice[kGrouped] != 0; }
  Values values() const { return static_cast<Values>(choice[kValues]); }

  bool reduces() const { return kind() <= Kind::kReduceScatterScaled; }
  bool scaled() const { return kind() == Kind::kAllReduceScaled || kind() == Kind::kReduceScatterScaled; }
  /// The factor of a rank's contributions.
  double scale(int rank) const;

  /// "allReduce-bf16-sum-r4-c2-inPlace-root0-byte-s3-grouped-exact"; the digit after c is of the
  /// list of counts.
  std::string name() const;

  // What a rank has, in elements; 0 for none.
  int64_t inputElements(int rank) const;
  int64_t outputElements(int rank) const;
  /// In place: where the input lies in the output, or the output in the input.
  bool inputInOutput() const {
    return kind() != Kind::kReduceScatter && kind() != Kind::kScatter && kind() != Kind::kReduceScatterScaled;
  }
  int64_t inPlaceElement(int rank) const;
  /// Whether this rank's operands share memory: of rooted calls those of the root.
  bool inPlaceAt(int rank) const;

  /// Of kAllToAllV, from `from` to `to`: unequal, some are none.
  int64_t pieceElements(int from, int to) const;
};

/// Whether the parameter says anything of this kind of call.
bool matters(Kind kind, int parameter);
/// Irrelevant parameters are at their first value, and the call exists.
bool isLegal(const Case& c);
/// Every legal case, of one kind and number of ranks.
std::vector<Case> allCases(Kind kind, int ranks);
/// A few hundred legal cases that have every pair of values of two parameters that any legal case
/// has.
std::vector<Case> pairwiseCases(uint64_t seed);
/// Those of a number of ranks.
std::vector<Case> pairwiseCases(uint64_t seed, int ranks);
/// HPU_MATRIX_SEED, or the seed of the cases that every change must pass.
uint64_t chosenSeed();
/// Whether a case has this pair: both parameters matter for its kind.
bool hasPair(const Case& c, int a, int valueA, int b, int valueB);

const char* kindName(Kind kind);
inline constexpr int kNumKinds = 14;

}  // namespace hpu::collectives::testing
