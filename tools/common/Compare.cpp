// SPDX-License-Identifier: Apache-2.0
#include "tools/common/Compare.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <tuple>

#include "base/Format.h"
#include "numerics/ElementKinds.h"

namespace hpu::tools {
namespace {

/// Running sums of Pearson's correlation, by Welford's updates.
class Correlation {
 public:
  void add(double a, double b) {
    ++count_;
    double da = a - meanA_, db = b - meanB_;
    meanA_ += da / static_cast<double>(count_);
    meanB_ += db / static_cast<double>(count_);
    varA_ += da * (a - meanA_);
    varB_ += db * (b - meanB_);
    covariance_ += da * (b - meanB_);
  }
  double value() const {
    if (varA_ == 0 || varB_ == 0) return varA_ == varB_ && meanA_ == meanB_ ? 1 : 0;
    return covariance_ / std::sqrt(varA_ * varB_);
  }

 private:
  int64_t count_ = 0;
  double meanA_ = 0, meanB_ = 0, varA_ = 0, varB_ = 0, covariance_ = 0;
};

int64_t argMax(const HostTensor& tensor, int64_t begin, int64_t length) {
  int64_t best = 0;
  for (int64_t i = 1; i < length; ++i)
    if (tensor.number(begin + i) > tensor.number(begin + best)) best = i;
  return best;
}

}  // namespace

Tolerance defaultTolerance(Precision precision) {
  switch (precision) {
    case Precision::kF32:
      return {};
    case Precision::kBF16:
      return {2e-2, 2e-2};
    case Precision::kF16:
      return {5e-3, 5e-3};
    default:
      return {1e-1, 1e-1};
  }
}

StatusOr<Tolerance> toleranceFrom(double rtol, double atol, Precision precision) {
  Tolerance tolerance = defaultTolerance(precision);
  for (auto [name, given, target] :
       {std::tuple("--rtol", rtol, &tolerance.rtol), std::tuple("--atol", atol, &tolerance.atol)}) {
    if (given == -1) continue;
    if (!std::isfinite(given) || given < 0)
      return invalidArgument(base::strCat(name, " ", given, " is not a tolerance; give a number of 0 or more"));
    *target = given;
  }
  return tolerance;
}

Comparison compare(const HostTensor& actual, const HostTensor& expected, const Tolerance& tolerance) {
  Comparison result;
  result.count = expected.count();
  if (actual.type.shape != expected.type.shape) {
    result.note = "shape is " + shapeToString(actual.type.shape) + ", expected " + shapeToString(expected.type.shape);
    result.wrong = result.count;
    return result;
  }
  bool floats = numerics::isFloat(actual.type.element) && numerics::isFloat(expected.type.element);
  if (!floats && actual.type.element != expected.type.element) {
    result.note = "type is " + actual.type.toString() + ", expected " + expected.type.toString();
    result.wrong = result.count;
    return result;
  }
  auto wrongAt = [&](int64_t i) {
    ++result.wrong;
    if (result.firstWrong < 0) result.firstWrong = i;
  };
  if (!floats) {
    // Bytes, so that i64 values beyond 2^53 are compared whole.
    int64_t size = elementSize(actual.type.element);
    for (int64_t i = 0; i < result.count; ++i) {
      if (memcmp(actual.bytes.data() + i * size, expected.bytes.data() + i * size, size) == 0) continue;
      wrongAt(i);
      double a = actual.number(i), b = expected.number(i);
      result.maxAbs = std::max(result.maxAbs, std::abs(a - b));
      if (b != 0) result.maxRel = std::max(result.maxRel, std::abs(a - b) / std::abs(b));
    }
    result.passed = result.wrong == 0;
    return result;
  }
  double largest = 0, squares = 0, errors = 0;
  for (int64_t i = 0; i < result.count; ++i) {
    double b = expected.number(i);
    if (std::isfinite(b)) largest = std::max(largest, std::abs(b));
  }
  Correlation correlation;
  for (int64_t i = 0; i < result.count; ++i) {
    double a = actual.number(i), b = expected.number(i);
    if (!std::isfinite(a) || !std::isfinite(b)) {
      bool same = (std::isnan(a) && std::isnan(b)) || a == b;
      if (!same) wrongAt(i);
      continue;
    }
    double difference = std::abs(a - b);
    if (difference > tolerance.atol * largest + tolerance.rtol * std::abs(b)) wrongAt(i);
    result.maxAbs = std::max(result.maxAbs, difference);
    if (b != 0) result.maxRel = std::max(result.maxRel, difference / std::abs(b));
    correlation.add(a, b);
    squares += b * b;
    errors += difference * difference;
  }
  result.pcc = correlation.value();
  result.rmsRatio = squares > 0 ? std::sqrt(errors / squares) : std::sqrt(errors);
  result.passed = result.wrong == 0;
  return result;
}

std::string toText(const Comparison& result) {
  if (!result.note.empty()) return result.note;
  char text[200];
  snprintf(text, sizeof text, "max_abs %.3g, max_rel %.3g, %lld of %lld wrong, pcc %.8f", result.maxAbs, result.maxRel,
           static_cast<long long>(result.wrong), static_cast<long long>(result.count), result.pcc);
  return text;
}

Json toJson(const std::string& name, const Comparison& result) {
  Json json;
  json.set("name", name).set("passed", result.passed);
  json.set("max_abs", result.maxAbs).set("max_rel", result.maxRel);
  json.set("wrong", result.wrong).set("count", result.count);
  json.set("pcc", result.pcc).set("rms_ratio", result.rmsRatio);
  if (!result.note.empty()) json.set("note", result.note);
  return json;
}

std::string indexText(const Shape& shape, int64_t index) {
  std::string text;
  for (size_t d = shape.size(); d-- > 0;) {
    text = std::to_string(index % std::max<int64_t>(shape[d], 1)) + (text.empty() ? "" : ", ") + text;
    index /= std::max<int64_t>(shape[d], 1);
  }
  return "[" + text + "]";
}

StatusOr<Accuracy> accuracy(const HostTensor& scores, const HostTensor& labels) {
  int64_t classes = scores.type.shape.empty() ? 1 : scores.type.shape.back();
  int64_t rows = classes > 0 ? scores.count() / classes : 0;
  if (rows != labels.count())
    return invalidArgument("there are " + std::to_string(labels.count()) + " labels for " + std::to_string(rows) +
                           " rows of an output " + scores.type.toString());
  Accuracy result{rows, 0};
  for (int64_t row = 0; row < rows; ++row)
    result.right += argMax(scores, row * classes, classes) == static_cast<int64_t>(labels.number(row));
  return result;
}

StatusOr<Accuracy> sameArgMax(const HostTensor& actual, const HostTensor& expected) {
  if (actual.type.shape != expected.type.shape)
    return invalidArgument("the shapes " + shapeToString(actual.type.shape) + " and " +
                           shapeToString(expected.type.shape) + " differ");
  int64_t classes = actual.type.shape.empty() ? 1 : actual.type.shape.back();
  Accuracy result{classes > 0 ? actual.count() / classes : 0, 0};
  for (int64_t row = 0; row < result.rows; ++row)
    result.right += argMax(actual, row * classes, classes) == argMax(expected, row * classes, classes);
  return result;
}

}  // namespace hpu::tools
