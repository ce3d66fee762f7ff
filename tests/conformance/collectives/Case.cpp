// SPDX-License-Identifier: Apache-2.0
#include "Case.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>

#include "Numbers.h"

namespace hpu::collectives::testing {
namespace {

constexpr ElementType kTypes[] = {
    ElementType::kI8,     ElementType::kU8,     ElementType::kI32,       ElementType::kU32, ElementType::kI64,
    ElementType::kU64,    ElementType::kF16,    ElementType::kF32,       ElementType::kF64, ElementType::kBF16,
    ElementType::kF8E4M3, ElementType::kF8E5M2, ElementType::kF8E4M3Ieee};
constexpr const char* kKindNames[] = {"allReduce",           "reduceScatter", "reduce",   "allReduceScaled",
                                      "reduceScatterScaled", "allGather",     "allToAll", "allToAllV",
                                      "broadcast",           "gather",        "scatter",  "relay",
                                      "sendReceive",         "barrier"};
constexpr const char* kOpNames[] = {"sum", "prod", "min", "max", "average"};

/// A message that is small enough to be copied (4096 bytes), one slice and several, and their
/// neighbours.
constexpr int64_t kSmallBytes = 4096, kSlice = 32 * 1024, kSeveralSlices = 9 * 32 * 1024 + 77;
constexpr int kNumCounts = 15;

bool isRooted(Kind kind) {
  return kind == Kind::kReduce || kind == Kind::kBroadcast || kind == Kind::kGather || kind == Kind::kScatter ||
         kind == Kind::kRelay;
}
/// Its larger side has `count` elements of each rank.
bool isPerRank(Kind kind) {
  switch (kind) {
    case Kind::kReduceScatter:
    case Kind::kReduceScatterScaled:
    case Kind::kAllGather:
    case Kind::kAllToAll:
    case Kind::kAllToAllV:
    case Kind::kGather:
    case Kind::kScatter:
      return true;
    default:
      return false;
  }
}

}  // namespace

int numValues(int parameter) {
  switch (parameter) {
    case kKind:
      return kNumKinds;
    case kType:
      return std::size(kTypes);
    case kOp:
      return std::size(kOpNames);
    case kRanks:
      return 8;
    case kCount:
      return kNumCounts;
    case kAlignment:
    case kValues:
      return 3;
    default:
      return 2;
  }
}

ElementType Case::type() const {
  return kTypes[choice[kType]];
}

int64_t Case::count() const {
  const int64_t n = ranks(), small = kSmallBytes / elementSize(type());
  const int64_t counts[kNumCounts] = {0,         1,     2,         n - 1,      n,      n + 1,      1023,          1024,
                                      small - 1, small, small + 1, kSlice - 1, kSlice, kSlice + 1, kSeveralSlices};
  int64_t count = counts[choice[kCount]];
  // The larger side of the longest calls is as long as that of the others.
  return isPerRank(kind()) && count == kSeveralSlices ? count / n : count;
}

double Case::scale(int rank) const {
  constexpr double kScales[] = {0.5, -1, 2, 1};
  if (!scaled() || !isFloat(type())) return 1;
  return values() == Values::kRandom ? 0.3 + 0.17 * rank : kScales[rank % 4];
}

const char* kindName(Kind kind) {
  return kKindNames[static_cast<int>(kind)];
}

std::string Case::name() const {
  constexpr const char* kAlignments[] = {"aligned", "byte", "element"};
  constexpr const char* kValueNames[] = {"exact", "random", "special"};
  std::string text = kindName(kind());
  text += "-" + std::string(elementTypeName(type())) + "-" + kOpNames[choice[kOp]] + "-r" + std::to_string(ranks()) +
          "-c" + std::to_string(choice[kCount]) + (inPlace() ? "-inPlace" : "-out") + "-root" + std::to_string(root()) +
          "-" + kAlignments[choice[kAlignment]] + "-s" + std::to_string(streams()) +
          (grouped() ? "-grouped-" : "-single-") + kValueNames[choice[kValues]];
  return text;
}

int64_t Case::pieceElements(int from, int to) const {
  uint64_t random = mix(static_cast<uint64_t>(from * 16 + to) ^ 0x76);
  return random % 5 == 0 ? 0 : static_cast<int64_t>(random % static_cast<uint64_t>(count() + 1));
}

int64_t Case::inputElements(int rank) const {
  switch (kind()) {
    case Kind::kReduceScatter:
    case Kind::kReduceScatterScaled:
    case Kind::kAllToAll:
      return count() * ranks();
    case Kind::kScatter:
      return rank == root() ? count() * ranks() : 0;
    case Kind::kBroadcast:
    case Kind::kRelay:
      return rank == root() ? count() : 0;
    case Kind::kAllToAllV: {
      int64_t sum = 0;
      for (int to = 0; to < ranks(); ++to) sum += pieceElements(rank, to);
      return sum;
    }
    case Kind::kBarrier:
      return 0;
    default:
      return count();
  }
}

int64_t Case::outputElements(int rank) const {
  switch (kind()) {
    case Kind::kAllGather:
    case Kind::kAllToAll:
      return count() * ranks();
    case Kind::kGather:
      return rank == root() ? count() * ranks() : 0;
    case Kind::kReduce:
      return rank == root() ? count() : 0;
    case Kind::kRelay:
      return rank == destination() ? count() : 0;
    case Kind::kAllToAllV: {
      int64_t sum = 0;
      for (int from = 0; from < ranks(); ++from) sum += pieceElements(from, rank);
      return sum;
    }
    case Kind::kBarrier:
      return 0;
    default:
      return count();
  }
}

int64_t Case::inPlaceElement(int rank) const {
  switch (kind()) {
    case Kind::kReduceScatter:
    case Kind::kReduceScatterScaled:
    case Kind::kAllGather:
    case Kind::kGather:
    case Kind::kScatter:
      return rank * count();
    default:
      return 0;
  }
}

bool Case::inPlaceAt(int rank) const {
  return inPlace() && inputElements(rank) > 0 && outputElements(rank) > 0;
}

bool matters(Kind kind, int parameter) {
  const bool reduces = kind <= Kind::kReduceScatterScaled;
  switch (parameter) {
    case kOp:
    case kValues:
      return reduces;
    case kRoot:
      return isRooted(kind);
    case kInPlace:
      return kind != Kind::kAllToAll && kind != Kind::kAllToAllV && kind != Kind::kRelay &&
             kind != Kind::kSendReceive && kind != Kind::kBarrier;
    case kType:
    case kCount:
    case kAlignment:
      return kind != Kind::kBarrier;
    default:
      return true;
  }
}

bool isLegal(const Case& c) {
  for (int parameter = 0; parameter < kNumParameters; ++parameter)
    if (!matters(c.kind(), parameter) && c.choice[static_cast<size_t>(parameter)] != 0) return false;
  // Of one rank the first is the last.
  if (c.ranks() == 1 && c.choice[kRoot]) return false;
  if (c.scaled() && c.op() != ReduceOp::kSum && c.op() != ReduceOp::kAverage) return false;
  if (c.kind() == Kind::kRelay && c.ranks() == 1) return false;
  // A rank's message to itself waits for its receive: they come together.
  if (c.kind() == Kind::kSendReceive && c.ranks() == 1 && !c.grouped()) return false;
  return true;
}

std::vector<Case> allCases(Kind kind, int ranks) {
  std::vector<Case> cases;
  Case c;
  c.choice[kKind] = static_cast<uint8_t>(kind);
  c.choice[kRanks] = static_cast<uint8_t>(ranks - 1);
  for (;;) {
    if (isLegal(c)) cases.push_back(c);
    int parameter = 0;
    for (; parameter < kNumParameters; ++parameter) {
      if (parameter == kKind || parameter == kRanks) continue;
      uint8_t& value = c.choice[static_cast<size_t>(parameter)];
      if (matters(kind, parameter) && value + 1 < numValues(parameter)) {
        ++value;
        break;
      }
      value = 0;
    }
    if (parameter == kNumParameters) return cases;
  }
}

bool hasPair(const Case& c, int a, int valueA, int b, int valueB) {
  return matters(c.kind(), a) && matters(c.kind(), b) && c.choice[static_cast<size_t>(a)] == valueA &&
         c.choice[static_cast<size_t>(b)] == valueB;
}

namespace {

/// Random where nothing is fixed.
Case randomCase(uint64_t& state) {
  Case c;
  for (int parameter = 0; parameter < kNumParameters; ++parameter)
    c.choice[static_cast<size_t>(parameter)] =
        static_cast<uint8_t>(mix(state++) % static_cast<uint64_t>(numValues(parameter)));
  return c;
}
void normalise(Case& c) {
  for (int parameter = 0; parameter < kNumParameters; ++parameter)
    if (!matters(c.kind(), parameter)) c.choice[static_cast<size_t>(parameter)] = 0;
}

/// Which pairs of values are still to be had.
class Pairs {
 public:
  Pairs() {
    for (int a = 0; a < kNumParameters; ++a)
      for (int b = a + 1; b < kNumParameters; ++b) {
        start_[a][b] = static_cast<int>(open_.size());
        open_.resize(open_.size() + static_cast<size_t>(numValues(a) * numValues(b)), true);
      }
  }
  int gain(const Case& c) const {
    int sum = 0;
    visit(c, [&](size_t index) { sum += open_[index]; });
    return sum;
  }
  void take(const Case& c) {
    visit(c, [&](size_t index) { open_[index] = false; });
  }
  void drop(int a, int valueA, int b, int valueB) { open_[index(a, valueA, b, valueB)] = false; }
  bool isOpen(int a, int valueA, int b, int valueB) const { return open_[index(a, valueA, b, valueB)]; }

 private:
  size_t index(int a, int valueA, int b, int valueB) const {
    return static_cast<size_t>(start_[a][b] + valueA * numValues(b) + valueB);
  }
  template <typename F>
  void visit(const Case& c, F&& what) const {
    for (int a = 0; a < kNumParameters; ++a)
      for (int b = a + 1; b < kNumParameters; ++b)
        if (matters(c.kind(), a) && matters(c.kind(), b))
          what(index(a, c.choice[static_cast<size_t>(a)], b, c.choice[static_cast<size_t>(b)]));
  }
  int start_[kNumParameters][kNumParameters] = {};
  std::vector<bool> open_;
};

/// What lies beyond a type's range is up to type and operation together: each with special values,
/// on ranks and elements enough to get there.
void addSpecialCases(uint64_t& state, std::vector<Case>& cases) {
  constexpr int64_t kElements = 64;
  auto matches = [](const Case& c, int type, int op) {
    return c.reduces() && c.ranks() > 1 && c.count() >= kElements && c.choice[kType] == type && c.choice[kOp] == op &&
           c.values() == Values::kSpecial;
  };
  for (int type = 0; type < numValues(kType); ++type)
    for (int op = 0; op < numValues(kOp); ++op) {
      auto has = [&](const Case& c) { return matches(c, type, op); };
      if (std::any_of(cases.begin(), cases.end(), has)) continue;
      for (int i = 0; i < 600; ++i) {
        Case c = randomCase(state);
        c.choice[kType] = static_cast<uint8_t>(type);
        c.choice[kOp] = static_cast<uint8_t>(op);
        c.choice[kValues] = static_cast<uint8_t>(Values::kSpecial);
        normalise(c);
        if (!isLegal(c) || !has(c)) continue;
        cases.push_back(c);
        break;
      }
    }
}

}  // namespace

std::vector<Case> pairwiseCases(uint64_t seed) {
  constexpr int kTries = 600, kCandidates = 30;
  std::vector<Case> cases;
  Pairs pairs;
  uint64_t state = mix(seed);
  for (int a = 0; a < kNumParameters; ++a)
    for (int b = a + 1; b < kNumParameters; ++b)
      for (int valueA = 0; valueA < numValues(a); ++valueA)
        for (int valueB = 0; valueB < numValues(b); ++valueB) {
          if (!pairs.isOpen(a, valueA, b, valueB)) continue;
          // Of those that have the pair the one with the most other new ones.
          Case best;
          int bestGain = 0;
          for (int i = 0, found = 0; i < kTries && found < kCandidates; ++i) {
            Case c = randomCase(state);
            c.choice[static_cast<size_t>(a)] = static_cast<uint8_t>(valueA);
            c.choice[static_cast<size_t>(b)] = static_cast<uint8_t>(valueB);
            normalise(c);
            if (!isLegal(c) || !hasPair(c, a, valueA, b, valueB)) continue;
            ++found;
            if (int gain = pairs.gain(c); gain > bestGain) {
              bestGain = gain;
              best = c;
            }
          }
          if (bestGain == 0) {
            pairs.drop(a, valueA, b, valueB);
            continue;
          }
          pairs.take(best);
          cases.push_back(best);
        }
  addSpecialCases(state, cases);
  return cases;
}

std::vector<Case> pairwiseCases(uint64_t seed, int ranks) {
  std::vector<Case> cases;
  for (const Case& c : pairwiseCases(seed))
    if (c.ranks() == ranks) cases.push_back(c);
  return cases;
}

uint64_t chosenSeed() {
  const char* given = std::getenv("HPU_MATRIX_SEED");
  return given ? std::strtoull(given, nullptr, 10) : 20;
}

}  // namespace hpu::collectives::testing
