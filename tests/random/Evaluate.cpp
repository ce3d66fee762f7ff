// SPDX-License-Identifier: Apache-2.0
#include "tests/random/Evaluate.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "numerics/SmallFloat.h"
#include "tests/random/Broadcast.h"
#include "tests/random/KnownDifferences.h"
#include "tests/random/Ort.h"
#include "tests/random/Truth.h"

namespace hpu::randomtest {
namespace {

using base::strCat;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
// A measured effect is that of a few random moves of the operands, not of the worst one.
// Narrow roundings are moves of their full size, f32's are what several steps may amount to.
constexpr double kMeasured = 4, kMeasuredNarrow = 2.5;
constexpr int kMoves = 10, kNarrowMoves = 18;
// Beyond, a number may leave the range of f16 (65504), of bf16 (3.3895e38).
constexpr double kHalfLimit = 60000, kNarrowLimit = 3.37e38;

class OrtNode final : public NodeRunner {
 public:
  OrtNode(std::unique_ptr<OrtSession> session, const Node& node) : session_(std::move(session)) {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i].empty()) continue;
      bool again = std::find(names_.begin(), names_.end(), node.inputs[i]) != names_.end();
      keep_.push_back(!again);
      if (!again) names_.push_back(node.inputs[i]);
    }
    for (const std::string& name : node.outputs)
      if (!name.empty()) outputs_.push_back(name);
  }
  StatusOr<std::vector<HostTensor>> run(const std::vector<const HostTensor*>& operands) override {
    std::vector<const HostTensor*> given;
    for (size_t i = 0; i < operands.size(); ++i)
      if (keep_[i]) given.push_back(operands[i]);
    return session_->run(names_, given, outputs_);
  }

 private:
  std::unique_ptr<OrtSession> session_;
  std::vector<std::string> names_, outputs_;
  std::vector<bool> keep_;
};

class OrtReference final : public Reference {
 public:
  explicit OrtReference(Ort& ort) : ort_(ort) {}
  StatusOr<std::unique_ptr<NodeRunner>> open(const Node& node, int64_t opset,
                                             const std::vector<const HostTensor*>& operands,
                                             const std::vector<bool>&) override {
    std::vector<const HostTensor*> placed(node.inputs.size());
    for (size_t i = 0, next = 0; i < node.inputs.size(); ++i)
      if (!node.inputs[i].empty()) placed[i] = operands[next++];
    HPU_ASSIGN(std::unique_ptr<OrtSession> session,
               ort_.open(serializeNode(node, opset, placed, std::vector<bool>(node.inputs.size(), false))));
    return StatusOr<std::unique_ptr<NodeRunner>>(std::make_unique<OrtNode>(std::move(session), node));
  }

 private:
  Ort& ort_;
};

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

std::string elementText(const HostTensor& tensor, int64_t index) {
  char text[40];
  snprintf(text, sizeof text, "%.9g", tensor.number(index));
  return text;
}

}  // namespace

std::unique_ptr<Reference> ortReference(Ort& ort) {
  return std::make_unique<OrtReference>(ort);
}

bool isFloat(ElementType type) {
  return type == ElementType::kF32 || type == ElementType::kF16 || type == ElementType::kBF16 ||
         type == ElementType::kF64;
}

void setNumber(HostTensor& tensor, int64_t index, double value) {
  auto store = [&](auto number) { memcpy(tensor.bytes.data() + index * sizeof number, &number, sizeof number); };
  auto clamped = [&]<typename T>(T) {
    double low = static_cast<double>(std::numeric_limits<T>::min());
    double high = static_cast<double>(std::numeric_limits<T>::max());
    value = std::nearbyint(value);
    if (!(value > low)) return store(std::numeric_limits<T>::min());
    if (value >= high) return store(std::numeric_limits<T>::max());
    store(static_cast<T>(value));
  };
  switch (tensor.type.element) {
    case ElementType::kF32:
      return store(static_cast<float>(value));
    case ElementType::kF64:
      return store(value);
    case ElementType::kF16:
      return store(numerics::f32ToF16(static_cast<float>(value)));
    case ElementType::kBF16:
      return store(numerics::f32ToBf16(static_cast<float>(value)));
    case ElementType::kI8:
      return clamped(int8_t{});
    case ElementType::kU8:
      return clamped(uint8_t{});
    case ElementType::kI16:
      return clamped(int16_t{});
    case ElementType::kU16:
      return clamped(uint16_t{});
    case ElementType::kI32:
      return clamped(int32_t{});
    case ElementType::kU32:
      return clamped(uint32_t{});
    case ElementType::kI64:
      return clamped(int64_t{});
    case ElementType::kU64:
      return clamped(uint64_t{});
    case ElementType::kBool:
      return store(static_cast<uint8_t>(value != 0));
    default:
      return;
  }
}

double Evaluator::ownUlp(ElementType type) const {
  return type == ElementType::kF16 ? 0x1p-10 : type == ElementType::kBF16 ? 0x1p-7 : 0x1p-23;
}

double Evaluator::narrowUlp() const {
  return precision_ == Precision::kF32 ? 0 : precision_ == Precision::kF16 ? 0x1p-10 : 0x1p-7;
}

double Evaluator::ulp(ElementType type) const {
  return std::max(ownUlp(type), narrowUlp());
}

double Evaluator::roundings(ElementType type, double ulps) const {
  // Kernels compute in f32 at every precision; what is narrow is what goes from one to the next.
  return ulps * ownUlp(type) + std::min(ulps, 1.0) * narrowUlp() / 2;
}

double Evaluator::least(ElementType type) const {
  if (type == ElementType::kF16 || precision_ == Precision::kF16) return 0x1p-24;
  return type == ElementType::kBF16 || precision_ != Precision::kF32 ? 0x1p-133 : 0x1p-149;
}

bool Evaluator::leavesRange(double x) const {
  if (precision_ == Precision::kF32 || !std::isfinite(x)) return false;
  return std::fabs(x) > (precision_ == Precision::kF16 ? kHalfLimit : kNarrowLimit);
}

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

Status Evaluator::addSums(const Node& node, int64_t opset, const std::vector<const Value*>& operands,
                          const std::vector<bool>& constants, const Local& local, Evaluated& result) {
  std::vector<HostTensor> magnitudes;
  int64_t terms = 1;
  bool isFp8 = hpu::isFp8(precision_), beyondFp8 = false, hasNoScale = false;
  for (size_t i = 0; i < operands.size(); ++i) {
    HostTensor tensor = operands[i]->tensor;
    if (isFloat(tensor.type.element)) {
      terms = std::max(terms, tensor.count());
      bool negated = std::find(local.negated.begin(), local.negated.end(), i) != local.negated.end();
      double largest = 0;
      for (int64_t k = 0; k < tensor.count(); ++k)
        if (double x = std::fabs(tensor.number(k)); std::isfinite(x))
          largest = std::max(largest, x);
        else
          hasNoScale = isFp8;
      beyondFp8 |= isFp8 && largest > 3840;
      // The least step of an 8-bit tensor, at the widest scales.
      double step = isFp8 ? std::max(largest * 0x1p-14, 0x1p-18) : 0;
      for (int64_t k = 0; k < tensor.count(); ++k) {
        double x = std::fabs(tensor.number(k));
        if (!std::isfinite(x)) x = 0;
        x += step;
        setNumber(tensor, k, negated ? -x : x);
      }
    }
    magnitudes.push_back(std::move(tensor));
  }
  if (hasNoScale) ++leftOpen["fp8-scale-of-nan"];
  beyondFp8 |= hasNoScale;
  std::vector<const HostTensor*> given;
  for (const HostTensor& tensor : magnitudes) given.push_back(&tensor);
  Node changed = node;
  for (const auto& [name, value] : local.magnitudes)
    for (auto& [own, attribute] : changed.attributes)
      if (own == name) attribute = value;
  HPU_ASSIGN(std::unique_ptr<NodeRunner> runner, reference_.open(changed, opset, given, constants));
  HPU_ASSIGN(Tensors sums, runner->run(given));
  for (size_t out = 0; out < result.tensors.size(); ++out) {
    if (!isFloat(result.tensors[out].type.element) || sums[out].type != result.tensors[out].type) continue;
    double unit = 0x1p-24 * (8 + std::sqrt(static_cast<double>(terms)));
    // Partial sums may be stored in the type of the result.
    if (result.tensors[out].type.element != ElementType::kF32) unit += ulp(result.tensors[out].type.element);
    if (precision_ != Precision::kF32) unit += 2 * ulp(ElementType::kF32) + (isFp8 ? 0x1p-3 : 0);
    std::vector<double>& error = result.errors[out];
    error.resize(static_cast<size_t>(sums[out].count()));
    for (int64_t k = 0; k < sums[out].count(); ++k) {
      double sum = std::fabs(sums[out].number(k));
      double largest = result.tensors[out].type.element == ElementType::kF16 ? 6e4 : 3e38;
      error[k] += sum < largest && !beyondFp8 ? unit * sum : kInfinity;
    }
  }
  return okStatus();
}

/// A largest or smallest number of several with a NaN among them is NaN: the op itself tells which, on operands that
/// say where the NaNs are.
Status Evaluator::settleNans(const Node& node, const std::vector<const HostTensor*>& operands, NodeRunner& runner,
                             Evaluated& result) {
  bool isMin = node.op == "ReduceMin";
  if (!isMin && node.op != "ReduceMax" && node.op != "MaxPool" && node.op != "GlobalMaxPool") return okStatus();
  if (!isFloat(operands[0]->type.element)) return okStatus();
  HostTensor where = *operands[0];
  bool any = false;
  for (int64_t k = 0; k < where.count(); ++k) {
    bool isNan = std::isnan(where.number(k));
    any |= isNan;
    setNumber(where, k, isNan ? (isMin ? -1 : 1) : 0);
  }
  if (!any) return okStatus();
  std::vector<const HostTensor*> given = operands;
  given[0] = &where;
  HPU_ASSIGN(Tensors marks, runner.run(given));
  bool differs = false;
  for (int64_t k = 0; k < marks[0].count(); ++k) {
    if (marks[0].number(k) == 0 || std::isnan(result.tensors[0].number(k))) continue;
    setNumber(result.tensors[0], k, std::nan(""));
    if (!result.errors[0].empty()) result.errors[0][k] = 0;
    differs = true;
  }
  if (differs) ++leftOpen["largest-of-nan"];
  return okStatus();
}

/// A row of Resize's result that a neighbour of weight 0, or nearly, made infinite or NaN: the others are marked by
/// the op itself, on operands that say where what is no number is.
Status Evaluator::settleResizes(const Node& node, const std::vector<const HostTensor*>& operands, NodeRunner& runner,
                                Evaluated& result) {
  if (node.op != "Resize" && node.op != "Upsample") return okStatus();
  const HostTensor& tensor = result.tensors[0];
  if (!isFloat(tensor.type.element)) return okStatus();
  HostTensor infinities = *operands[0], marks = *operands[0];
  bool any = false;
  for (int64_t k = 0; k < marks.count(); ++k) {
    const bool isNumber = std::isfinite(marks.number(k));
    any |= !isNumber;
    setNumber(infinities, k, isNumber ? 1 : kInfinity);
    setNumber(marks, k, isNumber ? 0 : 1);
  }
  if (!any) return okStatus();
  std::vector<const HostTensor*> given = operands;
  given[0] = &infinities;
  HPU_ASSIGN(Tensors weightless, runner.run(given));  // 0 * infinity: NaN.
  given[0] = &marks;
  HPU_ASSIGN(Tensors weights, runner.run(given));
  bool open = false;
  for (int64_t k = 0; k < tensor.count(); ++k) {
    if (std::isfinite(tensor.number(k))) continue;
    const double weight = weights[0].number(k);
    if (!std::isnan(weightless[0].number(k)) && !(weight > 0 && weight < 1e-4)) continue;
    result.errors[0].resize(static_cast<size_t>(tensor.count()));
    result.errors[0][k] = kInfinity;
    open = true;
  }
  if (open) ++leftOpen["resize-of-weight-0"];
  return okStatus();
}

/// An infinity of f16 that the same node in f32 does not give: kernels hold f16 numbers in f32 from one node to the
/// next.
Status Evaluator::settleHalves(const Node& node, int64_t opset, const std::vector<const HostTensor*>& operands,
                               const std::vector<bool>& constants, Evaluated& result) {
  if (node.op == "Cast" || node.op == "CastLike") return okStatus();
  auto isOverflow = [](const HostTensor& tensor, int64_t k) {
    return tensor.type.element == ElementType::kF16 && std::isinf(tensor.number(k));
  };
  bool any = false;
  for (const HostTensor& tensor : result.tensors)
    for (int64_t k = 0; k < tensor.count() && !any; ++k) any = isOverflow(tensor, k);
  if (!any) return okStatus();
  std::vector<HostTensor> wide;
  for (const HostTensor* operand : operands) {
    wide.push_back(*operand);
    if (operand->type.element != ElementType::kF16) continue;
    wide.back().type.element = ElementType::kF32;
    wide.back().bytes.resize(static_cast<size_t>(operand->count()) * 4);
    for (int64_t k = 0; k < operand->count(); ++k) setNumber(wide.back(), k, operand->number(k));
  }
  std::vector<const HostTensor*> given;
  for (const HostTensor& tensor : wide) given.push_back(&tensor);
  StatusOr<std::unique_ptr<NodeRunner>> runner = reference_.open(node, opset, given, constants);
  if (!runner.ok()) return okStatus();
  HPU_ASSIGN(Tensors results, (*runner)->run(given));
  bool open = false;
  for (size_t out = 0; out < results.size(); ++out)
    for (int64_t k = 0; k < result.tensors[out].count(); ++k) {
      if (!isOverflow(result.tensors[out], k) || !std::isfinite(results[out].number(k))) continue;
      result.errors[out].resize(static_cast<size_t>(result.tensors[out].count()));
      result.errors[out][k] = kInfinity;
      open = true;
    }
  if (open) ++leftOpen["overflow-on-the-way"];
  return okStatus();
}

/// An infinity that operands a quarter as large do not give: a compiler may compute several ops as one that does not
/// leave the range on the way.
Status Evaluator::settleOverflows(const Node& node, const std::vector<const HostTensor*>& operands, NodeRunner& runner,
                                  Evaluated& result) {
  static const std::set<std::string> kOps = {"Add", "Sub", "Mul", "Div", "Sum"};
  const HostTensor& tensor = result.tensors[0];
  if (!kOps.count(node.op) || !isFloat(tensor.type.element)) return okStatus();
  bool any = false;
  for (int64_t k = 0; k < tensor.count() && !any; ++k) any = std::isinf(tensor.number(k));
  if (!any) return okStatus();
  std::vector<HostTensor> quarters;
  for (size_t i = 0; i < operands.size(); ++i) {
    quarters.push_back(*operands[i]);
    for (int64_t k = 0; k < quarters[i].count() && (node.op != "Div" || i == 0); ++k)
      setNumber(quarters[i], k, quarters[i].number(k) / 4);
  }
  std::vector<const HostTensor*> given;
  for (const HostTensor& quarter : quarters) given.push_back(&quarter);
  HPU_ASSIGN(Tensors smaller, runner.run(given));
  bool open = false;
  for (int64_t k = 0; k < tensor.count(); ++k) {
    if (!std::isinf(tensor.number(k)) || !std::isfinite(smaller[0].number(k))) continue;
    result.errors[0].resize(static_cast<size_t>(tensor.count()));
    result.errors[0][k] = kInfinity;
    open = true;
  }
  if (open) ++leftOpen["overflow-on-the-way"];
  return okStatus();
}

StatusOr<Evaluated> Evaluator::evaluate(const Model& model, const Node& node, const Local& local, Rng& rng) {
  std::vector<const Value*> operands;
  std::vector<const HostTensor*> tensors;
  std::vector<bool> constants;
  for (const std::string& name : node.inputs) {
    if (!name.empty()) {
      operands.push_back(&model.values.at(name));
      tensors.push_back(&operands.back()->tensor);
    }
    constants.push_back(model.isConstant(name));
  }
  if (const char* known = differsAsAWhole(node, model.opset, tensors)) {
    ++leftOpen[known];
    return unimplemented(known);
  }
  HPU_ASSIGN(std::unique_ptr<NodeRunner> runner, reference_.open(node, model.opset, tensors, constants));
  Evaluated result;
  HPU_ASSIGN(result.tensors, runner->run(tensors));
  result.errors.resize(result.tensors.size());
  if (result.tensors.size() == 1) applyTruth(node, tensors, result.tensors[0], &result.errors[0]);
  addMoved(node, model.opset, operands, local, *runner, rng, result);
  HPU_RETURN_IF_ERROR(settleNans(node, tensors, *runner, result));
  HPU_RETURN_IF_ERROR(settleOverflows(node, tensors, *runner, result));
  HPU_RETURN_IF_ERROR(settleHalves(node, model.opset, tensors, constants, result));
  HPU_RETURN_IF_ERROR(settleResizes(node, tensors, *runner, result));
  if (local.sums) HPU_RETURN_IF_ERROR(addSums(node, model.opset, operands, constants, local, result));
  for (size_t out = 0; out < result.tensors.size(); ++out) {
    const HostTensor& tensor = result.tensors[out];
    ElementType type = tensor.type.element;
    const double relative = roundings(type, local.ulps + (type == ElementType::kF32 ? 0 : 1)) + narrowUlp();
    std::vector<double>& error = result.errors[out];
    if (isFloat(type) && (local.ulps > 0 || type == ElementType::kF16 || precision_ != Precision::kF32)) {
      error.resize(static_cast<size_t>(tensor.count()));
      for (int64_t k = 0; k < tensor.count(); ++k) {
        double y = std::fabs(tensor.number(k));
        if (std::isfinite(y))
          error[k] += relative * y + (local.ulps + 2) * local.steps * least(type) + roundings(type, local.absolute);
        if (y < local.tiny) error[k] += local.tiny;
        if (leavesRange(y)) error[k] = kInfinity;
      }
    }
    // A number that lies between two steps may be rounded to either when it was rounded before.
    if (!isFloat(type) && precision_ != Precision::kF32 && node.op.find("Linear") != std::string::npos) {
      error.resize(static_cast<size_t>(tensor.count()));
      for (double& e : error) e += 1;
    }
    if (std::all_of(error.begin(), error.end(), [](double e) { return e == 0; })) error.clear();
  }
  for (const std::string& name : leaveOpen(node, model.opset, tensors, result)) ++leftOpen[name];
  return result;
}

std::vector<Mismatch> compare(const Model& model, const std::vector<HostTensor>& results) {
  std::vector<Mismatch> mismatches;
  for (size_t out = 0; out < model.outputs.size(); ++out) {
    const std::string& name = model.outputs[out];
    const Value& wanted = model.values.at(name);
    if (out >= results.size() || results[out].type != wanted.tensor.type) {
      std::string is = out < results.size() ? results[out].type.toString() : std::string("missing");
      mismatches.push_back({name, strCat("is ", is, ", expected ", wanted.tensor.type.toString()), -1});
      continue;
    }
    int64_t wrong = 0, first = -1;
    double limit = wanted.tensor.type.element == ElementType::kF16 ? 65504 : std::numeric_limits<float>::max();
    for (int64_t k = 0; k < wanted.tensor.count(); ++k) {
      double a = results[out].number(k), b = wanted.tensor.number(k);
      double error = wanted.error.empty() ? 0 : wanted.error[k];
      bool overflows =
          std::isinf(a) && std::isfinite(b) && std::signbit(a) == std::signbit(b) && std::fabs(b) + error >= limit;
      bool atLimit = std::isinf(b) && std::signbit(a) == std::signbit(b) && std::fabs(a) >= limit * (1 - 0x1p-10) &&
                     isFloat(wanted.tensor.type.element);
      bool equal = a == b || (std::isnan(a) && std::isnan(b));
      if (equal && wanted.tensor.type.element >= ElementType::kI64)
        equal = memcmp(&results[out].bytes[k * (wanted.tensor.bytes.size() / wanted.tensor.count())],
                       &wanted.tensor.bytes[k * (wanted.tensor.bytes.size() / wanted.tensor.count())],
                       wanted.tensor.bytes.size() / wanted.tensor.count()) == 0 ||
                wanted.tensor.type.element == ElementType::kF64 || error > 0;
      if (equal || overflows || atLimit || std::isinf(error) || std::fabs(a - b) <= error) continue;
      if (wrong++ == 0) first = k;
    }
    if (wrong == 0) continue;
    double error = wanted.error.empty() ? 0 : wanted.error[first];
    mismatches.push_back(
        {name,
         strCat(wrong, " of ", wanted.tensor.count(), " elements of '", name, "' differ, first at ", first, ": is ",
                elementText(results[out], first), ", expected ", elementText(wanted.tensor, first), " within ", error),
         first});
  }
  return mismatches;
}

}  // namespace hpu::randomtest
