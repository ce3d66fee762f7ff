// SPDX-License-Identifier: Apache-2.0
#include "Oracle.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>

#include "Numbers.h"

namespace hpu::collectives::testing {
namespace {

constexpr long double kInfinity = std::numeric_limits<long double>::infinity();

/// A NaN with a sign and, where there is room, a payload.
void putNan(ElementType type, bool negative, std::byte* at) {
  encodeFloat(type, std::numeric_limits<long double>::quiet_NaN(), at);
  const size_t last = static_cast<size_t>(elementSize(type)) - 1;
  if (negative) at[last] |= std::byte{0x80};
  if (last > 0) at[0] |= std::byte{0x05};
}

long double leastDenormal(ElementType type) {
  return unitInLastPlace(floatFormat(type), 0);
}

}  // namespace

std::string elementText(ElementType type, const std::byte* at) {
  char text[96];
  if (isFloat(type)) {
    unsigned long long bits = 0;
    std::memcpy(&bits, at, static_cast<size_t>(elementSize(type)));
    std::snprintf(text, sizeof(text), "%.10Lg (0x%llx)", decodeFloat(type, at), bits);
  } else if (isSigned(type)) {
    std::snprintf(text, sizeof(text), "%lld", static_cast<long long>(decodeInteger(type, at)));
  } else {
    std::snprintf(text, sizeof(text), "%llu", static_cast<unsigned long long>(decodeInteger(type, at)));
  }
  return text;
}

bool sameElement(ElementType type, const std::byte* expected, const std::byte* actual) {
  const auto size = static_cast<size_t>(elementSize(type));
  if (std::memcmp(expected, actual, size) == 0) return true;
  if (!isFloat(type) || !std::isnan(decodeFloat(type, expected))) return false;
  return std::isnan(decodeFloat(type, actual)) && (actual[size - 1] & std::byte{0x80}) == std::byte{};
}

Oracle::Oracle(const Case& c, int stream)
    : case_(c),
      size_(elementSize(c.type())),
      seed_(mix(static_cast<uint64_t>(stream) * 977 + c.choice[kCount] * 31u + c.choice[kKind])) {
  makeInputs();
  if (!c.reduces()) return;
  if (!isFloat(c.type()))
    reduceIntegers();
  else if (c.values() == Values::kRandom && c.op() != ReduceOp::kMin && c.op() != ReduceOp::kMax)
    boundFloats();
  else
    reduceFloats();
}

// ---- Inputs -------------------------------------------------------------------------------------

void Oracle::makeInputs() {
  for (int rank = 0; rank < case_.ranks(); ++rank) {
    Table& table = inputs_.emplace_back(static_cast<size_t>(kPeriod * size_));
    for (int64_t index = 0; index < kPeriod; ++index) {
      std::byte* at = table.data() + index * size_;
      if (!case_.reduces()) {
        // Any bits.
        uint64_t bits = mix(seed_ ^ mix(static_cast<uint64_t>(rank * 1000 + index)));
        std::memcpy(at, &bits, static_cast<size_t>(size_));
      } else if (case_.values() == Values::kExact) {
        putExact(rank, index, at);
      } else if (case_.values() == Values::kRandom) {
        putRandom(rank, index, at);
      } else {
        putSpecial(rank, index, at);
      }
    }
  }
}

void Oracle::putExact(int rank, int64_t index, std::byte* at) const {
  const uint64_t random = mix(seed_ ^ mix(static_cast<uint64_t>(index * 64 + rank)));
  int64_t value;
  if (case_.op() == ReduceOp::kProd)
    // At most three twos among eight ranks: within every type.
    value = (index + rank) % 3 == 0 ? 2 : isSigned(case_.type()) && random % 2 ? -1 : 1;
  else if (case_.op() == ReduceOp::kMin || case_.op() == ReduceOp::kMax)
    value = static_cast<int64_t>(random % 16) - (isSigned(case_.type()) ? 8 : 0);
  else
    // Eight of them add up to what two bits of mantissa hold.
    value = static_cast<int64_t>(random % 3) - (isSigned(case_.type()) ? 1 : 0);
  if (isFloat(case_.type()))
    encodeFloat(case_.type(), static_cast<long double>(value), at);
  else
    encodeInteger(case_.type(), static_cast<uint64_t>(value), at);
}

void Oracle::putRandom(int rank, int64_t index, std::byte* at) const {
  const uint64_t random = mix(seed_ ^ mix(static_cast<uint64_t>(index * 64 + rank) + 7));
  if (!isFloat(case_.type())) return encodeInteger(case_.type(), random, at);
  const long double fraction = std::ldexp(static_cast<long double>(random >> 12), -52);
  // Products of eight stay within every type.
  long double value = case_.op() == ReduceOp::kProd ? std::ldexp(1 + 0.4L * fraction, -static_cast<int>(random & 1))
                                                    : std::ldexp(1 + fraction, static_cast<int>(random % 7) - 3);
  encodeFloat(case_.type(), random & 0x800 ? -value : value, at);
}

void Oracle::putSpecial(int rank, int64_t index, std::byte* at) const {
  const ElementType type = case_.type();
  const uint64_t random = mix(seed_ ^ mix(static_cast<uint64_t>(index * 64 + rank) + 13));
  if (!isFloat(type)) {
    const int bits = static_cast<int>(size_) * 8;
    const uint64_t top = uint64_t{1} << (bits - 1);
    const uint64_t values[] = {0, 1, ~uint64_t{0}, top, top - 1, top + 1, 3};
    return encodeInteger(type, values[random % 7], at);
  }
  const long double largest = floatFormat(type).largest();
  const long double sign = random & 0x100 ? -1 : 1;
  if (case_.op() == ReduceOp::kMin || case_.op() == ReduceOp::kMax) {
    if (random % 31 == 0) return putNan(type, sign < 0, at);
    const long double values[] = {kInfinity, 0, leastDenormal(type), largest, 1, 2};
    // One element in three has zeros of both signs only.
    return encodeFloat(type, sign * (index % 3 == 0 ? 0 : values[random / 31 % 6]), at);
  }
  const bool first = rank == static_cast<int>(index / 8) % case_.ranks();
  const bool second = rank == static_cast<int>(index / 8 + 1) % case_.ranks();
  // Every overflow in both directions: a format without infinities has one NaN for both.
  const long double beyond = index / 8 % 2 ? -largest : largest;
  if (case_.op() == ReduceOp::kProd) {
    switch (index % 8) {
      case 0:
        return first ? putNan(type, true, at) : encodeFloat(type, sign, at);
      case 1:
        return encodeFloat(type, first ? kInfinity : second ? 0 : sign, at);
      case 2:
        return encodeFloat(type, first ? -kInfinity : sign, at);
      case 3:
        return encodeFloat(type, first ? -0.0L : sign, at);
      case 4:
        return encodeFloat(type, first ? 3 * leastDenormal(type) : sign, at);
      case 5:
        return encodeFloat(type, first ? largest : sign, at);
      case 6:
        return encodeFloat(type, first ? beyond : second ? largest : 1, at);
      default:
        return encodeFloat(type, sign, at);
    }
  }
  switch (index % 8) {
    case 0:
      return first ? putNan(type, true, at) : encodeFloat(type, sign, at);
    case 1:
      return encodeFloat(type, first ? kInfinity : second ? -kInfinity : sign, at);
    case 2:
      return encodeFloat(type, first ? -kInfinity : sign, at);
    case 3:
      return encodeFloat(type, -0.0L, at);
    case 4:
      return encodeFloat(type, sign * 0.0L, at);
    case 5:
      return encodeFloat(type, sign * 2 * static_cast<long double>(random % 3) * leastDenormal(type), at);
    case 6:
      return encodeFloat(type, first || second ? beyond : 0, at);
    default:
      return encodeFloat(type, first ? -largest : 0, at);
  }
}

// ---- Results ------------------------------------------------------------------------------------

void Oracle::reduceIntegers() {
  const ElementType type = case_.type();
  reduced_.resize(static_cast<size_t>(kPeriod * size_));
  for (int64_t index = 0; index < kPeriod; ++index) {
    uint64_t result = 0;
    for (int rank = 0; rank < case_.ranks(); ++rank) {
      uint64_t value = decodeInteger(type, inputs_[static_cast<size_t>(rank)].data() + index * size_);
      const bool less = isSigned(type) ? static_cast<int64_t>(value) < static_cast<int64_t>(result) : value < result;
      if (rank == 0)
        result = value;
      else if (case_.op() == ReduceOp::kProd)
        result *= value;  // Modulo 2^64, so modulo every smaller power too.
      else if (case_.op() == ReduceOp::kMin)
        result = less ? value : result;
      else if (case_.op() == ReduceOp::kMax)
        result = less ? result : value;
      else
        result += value;
    }
    std::byte* at = reduced_.data() + index * size_;
    encodeInteger(type, result, at);
    if (case_.op() != ReduceOp::kAverage) continue;
    // The sum wraps, and is divided towards zero.
    uint64_t sum = decodeInteger(type, at);
    auto n = static_cast<uint64_t>(case_.ranks());
    encodeInteger(type,
                  isSigned(type) ? static_cast<uint64_t>(static_cast<int64_t>(sum) / static_cast<int64_t>(n)) : sum / n,
                  at);
  }
}

void Oracle::reduceFloats() {
  const ElementType type = case_.type();
  reduced_.resize(static_cast<size_t>(kPeriod * size_));
  // One rounding to the accumulator's type an operation.
  auto rounded = [&](long double value) {
    return type == ElementType::kF64 ? static_cast<long double>(static_cast<double>(value))
                                     : static_cast<long double>(static_cast<float>(value));
  };
  for (int64_t index = 0; index < kPeriod; ++index) {
    long double result = 0;
    for (int rank = 0; rank < case_.ranks(); ++rank) {
      long double value = decodeFloat(type, inputs_[static_cast<size_t>(rank)].data() + index * size_);
      value = rounded(value * static_cast<long double>(case_.scale(rank)));
      if (rank == 0) {
        result = value;
        continue;
      }
      const bool either = std::isnan(value) || std::isnan(result);
      const bool less = value < result || (value == 0 && result == 0 && std::signbit(value) > std::signbit(result));
      switch (case_.op()) {
        case ReduceOp::kProd:
          result = rounded(result * value);
          break;
        case ReduceOp::kMin:
          result = either ? std::numeric_limits<long double>::quiet_NaN() : less ? value : result;
          break;
        case ReduceOp::kMax:
          result = either ? std::numeric_limits<long double>::quiet_NaN() : less ? result : value;
          break;
        default:
          result = rounded(result + value);
      }
    }
    if (case_.op() == ReduceOp::kAverage) result = rounded(result / case_.ranks());
    encodeFloat(type, result, reduced_.data() + index * size_);
  }
}

void Oracle::boundFloats() {
  const ElementType type = case_.type();
  const FloatFormat format = floatFormat(type);
  // Half a unit in the last place of one, of the accumulator.
  const long double u = type == ElementType::kF64 ? 0x1p-53L : 0x1p-24L;
  const int n = case_.ranks();
  for (int64_t index = 0; index < kPeriod; ++index) {
    long double result = case_.op() == ReduceOp::kProd ? 1 : 0, magnitude = 0;
    for (int rank = 0; rank < n; ++rank) {
      long double value = decodeFloat(type, inputs_[static_cast<size_t>(rank)].data() + index * size_) *
                          static_cast<long double>(case_.scale(rank));
      if (case_.op() == ReduceOp::kProd) {
        result *= value;
        magnitude = std::fabs(result);
      } else {
        result += value;
        magnitude += std::fabs(value);
      }
    }
    if (case_.op() == ReduceOp::kAverage) {
      result /= n;
      magnitude /= n;
    }
    // A rounding each: of the factor, the multiplication, n - 1 operations, the division.
    long double bound = (n + 3) * u * magnitude;
    // And the one of the result, whose unit may be that of the next power of two.
    if (elementSize(type) < 4) bound += unitInLastPlace(format, std::fabs(result) + bound) / 2;
    result_.push_back(result);
    bound_.push_back(bound);
  }
}

// ---- Operands -----------------------------------------------------------------------------------

void Oracle::fillInput(int rank, std::byte* data) const {
  const Table& table = inputs_[static_cast<size_t>(rank)];
  const int64_t bytes = case_.inputElements(rank) * size_;
  for (int64_t at = 0; at < bytes; at += kPeriod * size_)
    std::memcpy(data + at, table.data(), static_cast<size_t>(std::min(kPeriod * size_, bytes - at)));
}

std::string Oracle::compare(const Table& table, int64_t from, int64_t count, const std::byte* data, int64_t at) const {
  for (int64_t done = 0; done < count;) {
    const int64_t start = (from + done) % kPeriod;
    const int64_t piece = std::min(count - done, kPeriod - start);
    const std::byte* expected = table.data() + start * size_;
    const std::byte* actual = data + (at + done) * size_;
    if (std::memcmp(expected, actual, static_cast<size_t>(piece * size_)) != 0)
      for (int64_t i = 0; i < piece; ++i)
        if (case_.reduces() ? !sameElement(case_.type(), expected + i * size_, actual + i * size_)
                            : std::memcmp(expected + i * size_, actual + i * size_, static_cast<size_t>(size_)))
          return "element " + std::to_string(at + done + i) + " is " + elementText(case_.type(), actual + i * size_) +
                 ", not " + elementText(case_.type(), expected + i * size_);
    done += piece;
  }
  return "";
}

std::string Oracle::compareReduced(int64_t from, int64_t count, const std::byte* data) const {
  if (!reduced_.empty()) return compare(reduced_, from, count, data, 0);
  for (int64_t i = 0; i < count; ++i) {
    // What was good a period ago is good.
    const std::byte* at = data + i * size_;
    if (i >= kPeriod && std::memcmp(at, at - kPeriod * size_, static_cast<size_t>(size_)) == 0) continue;
    const auto index = static_cast<size_t>((from + i) % kPeriod);
    const long double actual = decodeFloat(case_.type(), at);
    if (!(std::fabs(actual - result_[index]) <= bound_[index])) {
      char text[128];
      std::snprintf(text, sizeof(text), ", not %.10Lg +- %.3Lg", result_[index], bound_[index]);
      return "element " + std::to_string(i) + " is " + elementText(case_.type(), at) + text;
    }
  }
  return "";
}

std::string Oracle::check(int rank, const std::byte* data) const {
  const int64_t count = case_.count();
  auto input = [&](int of) -> const Table& { return inputs_[static_cast<size_t>(of)]; };
  if (case_.outputElements(rank) == 0) return "";
  std::string wrong;
  switch (case_.kind()) {
    case Kind::kAllReduce:
    case Kind::kAllReduceScaled:
    case Kind::kReduce:
      return compareReduced(0, count, data);
    case Kind::kReduceScatter:
    case Kind::kReduceScatterScaled:
      return compareReduced(rank * count, count, data);
    case Kind::kBroadcast:
    case Kind::kRelay:
      return compare(input(case_.root()), 0, count, data, 0);
    case Kind::kScatter:
      return compare(input(case_.root()), rank * count, count, data, 0);
    case Kind::kSendReceive:
      return compare(input((rank + case_.ranks() - 1) % case_.ranks()), 0, count, data, 0);
    case Kind::kAllGather:
    case Kind::kGather:
      for (int from = 0; from < case_.ranks() && wrong.empty(); ++from)
        wrong = compare(input(from), 0, count, data, from * count);
      return wrong;
    case Kind::kAllToAll:
      for (int from = 0; from < case_.ranks() && wrong.empty(); ++from)
        wrong = compare(input(from), rank * count, count, data, from * count);
      return wrong;
    case Kind::kAllToAllV:
      for (int from = 0; from < case_.ranks() && wrong.empty(); ++from)
        wrong = compare(input(from), inputDisplacements(from)[static_cast<size_t>(rank)],
                        case_.pieceElements(from, rank), data, outputDisplacements(rank)[static_cast<size_t>(from)]);
      return wrong;
    case Kind::kBarrier:
      return "";
  }
  return "no such kind";
}

std::vector<int64_t> Oracle::inputCounts(int rank) const {
  std::vector<int64_t> counts;
  for (int to = 0; to < case_.ranks(); ++to) counts.push_back(case_.pieceElements(rank, to));
  return counts;
}
std::vector<int64_t> Oracle::inputDisplacements(int rank) const {
  std::vector<int64_t> displacements;
  int64_t at = 0;
  for (int64_t count : inputCounts(rank)) {
    displacements.push_back(at);
    at += count;
  }
  return displacements;
}
std::vector<int64_t> Oracle::outputCounts(int rank) const {
  std::vector<int64_t> counts;
  for (int from = 0; from < case_.ranks(); ++from) counts.push_back(case_.pieceElements(from, rank));
  return counts;
}
std::vector<int64_t> Oracle::outputDisplacements(int rank) const {
  std::vector<int64_t> counts = outputCounts(rank), displacements(counts.size());
  int64_t at = 0;
  for (size_t from = counts.size(); from-- > 0;) {
    displacements[from] = at;
    at += counts[from];
  }
  return displacements;
}

}  // namespace hpu::collectives::testing
