// SPDX-License-Identifier: Apache-2.0
// What errors of operands do to a node's results: the node runs again on operands moved by their errors, and an element
// that a move turns into something else is open.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <string>

#include "tests/random/Broadcast.h"
#include "tests/random/Elements.h"
#include "tests/random/Evaluate.h"
#include "tests/random/Truth.h"

namespace hpu::randomtest {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// A measured effect is that of a few random moves of the operands, not of the worst one.
// Narrow roundings are moves of their full size, f32's are what several steps may amount to.
constexpr double kMeasured = 4, kMeasuredNarrow = 2.5;
constexpr int kMoves = 10, kNarrowMoves = 18;

/// How far apart two elements are; infinite when one is a number and the other is not.
double distance(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  double d = std::fabs(a - b);
  return std::isnan(d) ? kInfinity : d;
}

/// Moves a number of a tensor by at least one step of its type: what is less than half a step away on the device, where
/// the number may have more digits, would be no move here.
void moveBy(HostTensor& tensor, int64_t index, double by) {
  const double x = tensor.number(index);
  if (!(by > 0) && !(by < 0)) return;
  setNumber(tensor, index, x + by);
  if (tensor.number(index) != x || !std::isfinite(x)) return;
  auto step = [&]<typename Bits>(Bits) {
    Bits bits;
    uint8_t* at = tensor.bytes.data() + index * static_cast<int64_t>(sizeof bits);
    memcpy(&bits, at, sizeof bits);
    constexpr Bits kSign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
    const bool isNegative = bits & kSign, up = by > 0;
    if ((bits & ~kSign) == 0)
      bits = static_cast<Bits>((up ? 0 : kSign) | 1);
    else
      bits = static_cast<Bits>(isNegative == up ? bits - 1 : bits + 1);
    memcpy(at, &bits, sizeof bits);
  };
  if (tensor.type.element == ElementType::kF64) step(uint64_t{});
  if (tensor.type.element == ElementType::kF32) step(uint32_t{});
  if (tensor.type.element == ElementType::kF16 || tensor.type.element == ElementType::kBF16) step(uint16_t{});
}

double errorAt(const std::vector<double>& errors, int64_t index) {
  return errors.empty() ? 0 : errors[static_cast<size_t>(index)];
}

/// Rows whose largest (or least) element may be another one; `open` is called with each element that may be it.
template <typename Open>
void forEachTie(const HostTensor& x, const std::vector<double>& by, int64_t size, int64_t inner, bool isMin,
                Open open) {
  const double sign = isMin ? -1 : 1;
  for (int64_t row = 0; row < x.count() / size; ++row) {
    auto place = [&](int64_t k) { return (row / inner * size + k) * inner + row % inner; };
    auto value = [&](int64_t k) { return sign * x.number(place(k)); };
    double best = -kInfinity;
    for (int64_t k = 0; k < size; ++k)
      if (double low = value(k) - errorAt(by, place(k)); low > best) best = low;
    int64_t candidates = 0;
    bool any = false;
    auto isCandidate = [&](int64_t k) { return !(value(k) + errorAt(by, place(k)) < best); };
    for (int64_t k = 0; k < size; ++k)
      if (isCandidate(k)) ++candidates, any |= errorAt(by, place(k)) > 0;
    if (candidates < 2 || !any) continue;
    for (int64_t k = 0; k < size; ++k)
      if (isCandidate(k)) open(row, place(k));
  }
}

/// What moved operands do to the ops that pick an element of a row.
void addTies(const Node& node, int64_t opset, const HostTensor& x, const std::vector<double>& by, Evaluated& result) {
  const bool isHardmax = node.op == "Hardmax", flattens = isHardmax && opset < 13;
  if (!isHardmax && node.op != "ArgMax" && node.op != "ArgMin" && node.op != "TopK") return;
  const auto rank = static_cast<int64_t>(x.type.shape.size());
  int64_t axis = flattens ? 1 : isHardmax || node.op == "TopK" ? -1 : 0, size = 1, inner = 1;
  bool isMin = node.op == "ArgMin";
  for (const auto& [name, value] : node.attributes)
    if (auto* number = std::get_if<int64_t>(&value)) {
      if (name == "axis") axis = *number;
      if (name == "largest") isMin = *number == 0;
    }
  if (axis < 0) axis += rank;
  for (int64_t d = axis; d < rank; ++d) (d == axis || flattens ? size : inner) *= x.type.shape[static_cast<size_t>(d)];
  // TopK's second result; the numbers themselves are measured.
  const size_t out = node.op == "TopK" ? 1 : 0;
  std::vector<double>& error = result.errors[out];
  error.resize(static_cast<size_t>(result.tensors[out].count()));
  forEachTie(x, by, size, inner, isMin,
             [&](int64_t row, int64_t place) { error[static_cast<size_t>(isHardmax ? place : row)] = kInfinity; });
}

/// Elements about as far from the threshold as rounding moves them. The threshold is rounded like an operand.
void addThresholds(const Node& node, const HostTensor& x, const std::vector<double>& by, Evaluated& result) {
  if (node.op != "ThresholdedRelu" && node.op != "Shrink") return;
  double threshold = node.op == "Shrink" ? 0.5 : 1;
  for (const auto& [name, value] : node.attributes)
    if (auto* number = std::get_if<float>(&value); number && (name == "alpha" || name == "lambd"))
      threshold = static_cast<double>(*number);
  std::vector<double>& error = result.errors[0];
  error.resize(static_cast<size_t>(x.count()));
  for (int64_t k = 0; k < x.count(); ++k) {
    const double at = x.number(k), below = std::fabs(at - threshold), above = std::fabs(at + threshold);
    const double nearest = node.op == "Shrink" ? std::min(below, above) : below;
    if (nearest <= 2 * errorAt(by, k)) error[static_cast<size_t>(k)] = kInfinity;
  }
}

/// What moved operands do to ops whose results jump or turn between two moves: a few moves would not show it.
void addJumps(const Node& node, const std::vector<const Value*>& operands, const std::vector<std::vector<double>>& by,
              Evaluated& result) {
  static const std::set<std::string> kComparisons = {"Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"};
  const bool compares = kComparisons.count(node.op), isMod = node.op == "Mod", isPow = node.op == "Pow";
  const bool turns = node.op == "Sin" || node.op == "Cos" || node.op == "Tan";
  if (!compares && !isMod && !isPow && !turns) return;
  const HostTensor& wanted = result.tensors[0];
  std::vector<double>& error = result.errors[0];
  error.resize(static_cast<size_t>(wanted.count()));
  if (turns) {
    for (int64_t k = 0; k < wanted.count(); ++k) {
      const double e = errorAt(by[0], k);
      const bool hasPole = e * (1 + std::fabs(wanted.number(k))) > 0.2;
      error[k] += node.op != "Tan" ? std::min(2.0, e) : hasPole ? kInfinity : 0;
    }
    return;
  }
  // The same tensor twice is one operand.
  const size_t second = operands.size() - 1;
  const HostTensor &a = operands[0]->tensor, &b = operands[second]->tensor;
  const Broadcast ofA(wanted.type.shape, a.type.shape), ofB(wanted.type.shape, b.type.shape);
  for (int64_t k = 0; k < wanted.count(); ++k) {
    const int64_t i = ofA(k), j = ofB(k);
    const double x = a.number(i), y = b.number(j), ex = errorAt(by[0], i), ey = errorAt(by[second], j);
    if (ex == 0 && ey == 0) continue;
    if (compares && std::fabs(x - y) <= ex + ey) error[k] = kInfinity;
    // A power of a negative number is one at whole exponents only.
    if (isPow && ey > 0 && x - ex < 0 && !(std::fabs(y - std::nearbyint(y)) > ey)) error[k] = kInfinity;
    // Where the remainder may wrap around, or the sign may change.
    if (isMod) {
      const double moves = ex + (ey > 0 ? std::fabs(x / y) + 1 : 0) * ey, r = std::fabs(wanted.number(k));
      if (!(r + 2 * moves < std::fabs(y)) || !(r > 2 * moves) || !(moves < std::fabs(x)))
        error[k] = std::max(error[k], 2 * std::fabs(y) + 2 * moves);
    }
  }
}

}  // namespace

void Evaluator::addMoved(const Node& node, int64_t opset, const std::vector<const Value*>& operands, const Local& local,
                         NodeRunner& runner, Rng& rng, Evaluated& result) {
  // Half a unit: what rounding an operand may do.
  const double rounded = narrowUlp() / 2;
  std::vector<std::vector<double>> by(operands.size());
  bool any = false;
  for (size_t i = 0; i < operands.size(); ++i) {
    const HostTensor& tensor = operands[i]->tensor;
    by[i] = operands[i]->error;
    if (!isFloat(tensor.type.element) || (rounded == 0 && local.operandUlps == 0 && local.scaleUlps == 0)) {
      any |= !by[i].empty();
      continue;
    }
    const ElementType type = tensor.type.element;
    double largest = 0;
    int64_t count = tensor.count();
    by[i].resize(static_cast<size_t>(count));
    if (local.scaleUlps > 0)
      for (int64_t k = 0; k < count; ++k)
        if (double x = std::fabs(tensor.number(k)); std::isfinite(x)) largest = std::max(largest, x);
    for (int64_t k = 0; k < count; ++k) {
      double x = std::fabs(tensor.number(k));
      if (std::isfinite(x))
        by[i][k] += (rounded + roundings(type, local.operandUlps)) * x + roundings(type, local.scaleUlps) * largest;
      if (precision_ != Precision::kF32) by[i][k] += least(type);
      if (leavesRange(x)) by[i][k] = kInfinity;
    }
    any = true;
  }
  if (!any) return;
  const bool isNarrow = precision_ != Precision::kF32;
  const int moves = isNarrow ? kNarrowMoves : kMoves;
  const double measured = isNarrow ? kMeasuredNarrow : kMeasured;
  bool anyOpen = std::any_of(by.begin(), by.end(), [](const std::vector<double>& errors) {
    return std::any_of(errors.begin(), errors.end(), [](double e) { return std::isinf(e); });
  });
  if (result.tensors.size() == 1) addJumps(node, operands, by, result);
  addTies(node, opset, operands[0]->tensor, by[0], result);
  addThresholds(node, operands[0]->tensor, by[0], result);
  // First the open elements alone, as numbers of several kinds: what they have any effect on is open too.
  constexpr double kOthers[] = {0, 1e30, -1e30, kInfinity, -kInfinity, 100};
  for (int move = anyOpen ? -7 : 0; move < moves; ++move) {
    std::vector<HostTensor> changed;
    changed.reserve(operands.size());
    std::vector<const HostTensor*> given;
    for (size_t i = 0; i < operands.size(); ++i) {
      if (by[i].empty()) {
        given.push_back(&operands[i]->tensor);
        continue;
      }
      changed.push_back(operands[i]->tensor);
      HostTensor& tensor = changed.back();
      for (size_t k = 0; k < by[i].size(); ++k) {
        if (by[i][k] == 0 || std::isinf(by[i][k]) != (move < 0)) continue;
        auto index = static_cast<int64_t>(k);
        if (move < 0) {
          setNumber(tensor, index, move == -7 ? std::nan("") : kOthers[-1 - move]);
          continue;
        }
        // All up, all down, operands and neighbours against each other, what may be 0 as 0, and each element either
        // way by its error or by a part of it.
        const bool up = move == 0   ? true
                        : move == 1 ? false
                        : move < 4  ? (i + static_cast<size_t>(move)) % 2 == 0
                        : move == 4 ? (i + k) % 2 == 0
                                    : rng.chance(0.5);
        if (move == 5 && std::fabs(tensor.number(index)) <= by[i][k]) {
          setNumber(tensor, index, 0);
          continue;
        }
        const double part = move > 6 && move % 2 ? rng.uniform() : 1;
        moveBy(tensor, index, part * (up ? by[i][k] : -by[i][k]));
      }
      given.push_back(&tensor);
    }
    StatusOr<Tensors> run = runner.run(given);
    if (run.ok() && run->size() == 1) applyTruth(node, given, (*run)[0]);
    for (size_t out = 0; out < result.tensors.size(); ++out) {
      const HostTensor& wanted = result.tensors[out];
      std::vector<double>& error = result.errors[out];
      error.resize(static_cast<size_t>(wanted.count()));
      bool comparable = run.ok() && (*run)[out].type == wanted.type;
      for (int64_t k = 0; k < wanted.count(); ++k) {
        double d = comparable ? distance((*run)[out].number(k), wanted.number(k)) : kInfinity;
        error[k] = std::max(error[k], move < 0 && d > 0 ? kInfinity : measured * d);
      }
    }
  }
}

}  // namespace hpu::randomtest
