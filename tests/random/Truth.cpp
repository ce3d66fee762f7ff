// SPDX-License-Identifier: Apache-2.0
#include "tests/random/Truth.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "tests/random/Elements.h"

namespace hpu::randomtest {
namespace {

using Function = double (*)(double x, double alpha, double beta);

struct Row {
  const char* op;
  Function function;
  double alpha = 0, beta = 0;  ///< Of attributes that are not given.
};

double sigmoid(double x) {
  return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x));
}
double gelu(double x) {
  return x * std::erfc(-x * 0.70710678118654752) / 2;
}
double geluOfTanh(double x) {
  return x * sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x));
}
double softplus(double x) {
  return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
}

constexpr Row kRows[] = {
    {"Exp", [](double x, double, double) { return std::exp(x); }},
    {"Log", [](double x, double, double) { return std::log(x); }},
    {"Sin", [](double x, double, double) { return std::sin(x); }},
    {"Cos", [](double x, double, double) { return std::cos(x); }},
    {"Tan", [](double x, double, double) { return std::tan(x); }},
    {"Asin", [](double x, double, double) { return std::asin(x); }},
    {"Acos", [](double x, double, double) { return std::acos(x); }},
    {"Atan", [](double x, double, double) { return std::atan(x); }},
    {"Sinh", [](double x, double, double) { return std::sinh(x); }},
    {"Cosh", [](double x, double, double) { return std::cosh(x); }},
    {"Tanh", [](double x, double, double) { return std::tanh(x); }},
    {"Asinh", [](double x, double, double) { return std::asinh(x); }},
    {"Acosh", [](double x, double, double) { return std::acosh(x); }},
    {"Atanh", [](double x, double, double) { return std::atanh(x); }},
    {"Erf", [](double x, double, double) { return std::erf(x); }},
    {"Sigmoid", [](double x, double, double) { return sigmoid(x); }},
    {"Gelu", [](double x, double, double) { return gelu(x); }},
    {"Selu", [](double x, double a, double g) { return g * (x > 0 ? x : a * std::expm1(x)); },
     1.67326319217681884765625, 1.05070102214813232421875},
    {"Softplus", [](double x, double, double) { return softplus(x); }},
    {"Softsign", [](double x, double, double) { return x / (1 + std::fabs(x)); }},
    {"Mish", [](double x, double, double) { return x * std::tanh(softplus(x)); }},
    {"Elu", [](double x, double a, double) { return x < 0 ? a * std::expm1(x) : x; }, 1},
    {"Celu", [](double x, double a, double) { return x < 0 ? a * std::expm1(x / a) : x; }, 1},
    {"Swish", [](double x, double a, double) { return x * sigmoid(a * x); }, 1},
    {"com.microsoft.QuickGelu", [](double x, double a, double) { return x * sigmoid(a * x); },
     static_cast<double>(1.702f)},
    {"HardSigmoid",
     [](double x, double a, double b) { return std::isnan(x) ? x : std::fmax(0, std::fmin(1, a * x + b)); },
     static_cast<double>(0.2f), 0.5},
};

constexpr double kUnit = 0x1p-23;  // Twice the most that rounding a mean to f32 moves it.

/// (x - mean) / sqrt(variance + epsilon) * scale + bias of each image and group of channels; of each channel alone
/// where there are no groups.
void groupNorm(const Node& node, const std::vector<const HostTensor*>& operands, HostTensor& result,
               std::vector<double>* error) {
  double epsilon = static_cast<double>(1e-5f);
  const HostTensor& x = *operands[0];
  const int64_t channels = x.type.shape[1];
  int64_t groups = channels;
  for (const auto& [name, value] : node.attributes) {
    if (auto* number = std::get_if<float>(&value)) epsilon = static_cast<double>(*number);
    if (auto* number = std::get_if<int64_t>(&value); number && name == "num_groups") groups = *number;
  }
  const int64_t rows = x.type.shape[0] * groups, size = x.count() / rows, plane = size / (channels / groups);
  const int64_t parameters = operands[1]->count();
  for (int64_t row = 0; row < rows; ++row) {
    double mean = 0, variance = 0;
    for (int64_t k = 0; k < size; ++k) mean += x.number(row * size + k) / static_cast<double>(size);
    for (int64_t k = 0; k < size; ++k) {
      double d = x.number(row * size + k) - mean;
      variance += d * d / static_cast<double>(size);
    }
    for (int64_t k = 0; k < size; ++k) {
      const int64_t at = row * size + k, channel = at / plane % channels;
      const int64_t parameter = parameters == channels ? channel : channel / (channels / groups);
      const double scale = operands[1]->number(parameter), factor = scale / std::sqrt(variance + epsilon);
      const double right = (x.number(at) - mean) * factor + operands[2]->number(parameter);
      if (std::fabs(result.number(at) - right) <= 1e-2 * (std::fabs(right) + std::fabs(scale)))
        setNumber(result, at, right);
      if (error) (*error)[static_cast<size_t>(at)] += kUnit * std::fabs(mean * factor);
    }
  }
}

/// The same of each row of as many elements as the scale has, with a scale and a bias for each of them.
void layerNorm(const Node& node, const std::vector<const HostTensor*>& operands, HostTensor& result,
               std::vector<double>* error) {
  double epsilon = static_cast<double>(1e-5f);
  for (const auto& [name, value] : node.attributes)
    if (auto* number = std::get_if<float>(&value)) epsilon = static_cast<double>(*number);
  const HostTensor &x = *operands[0], &scale = *operands[1];
  int64_t size = scale.count();
  for (int64_t row = 0; row < x.count() / size; ++row) {
    double mean = 0, variance = 0;
    for (int64_t k = 0; k < size; ++k) mean += x.number(row * size + k) / static_cast<double>(size);
    for (int64_t k = 0; k < size; ++k) {
      double d = x.number(row * size + k) - mean;
      variance += d * d / static_cast<double>(size);
    }
    for (int64_t k = 0; k < size; ++k) {
      double right = (x.number(row * size + k) - mean) / std::sqrt(variance + epsilon) * scale.number(k);
      if (operands.size() > 2) right += operands[2]->number(k);
      if (error)
        (*error)[static_cast<size_t>(row * size + k)] +=
            kUnit * std::fabs(mean / std::sqrt(variance + epsilon) * scale.number(k));
      double is = result.number(row * size + k);
      if (std::fabs(is - right) <= 1e-2 * (std::fabs(right) + std::fabs(scale.number(k))))
        setNumber(result, row * size + k, right);
    }
  }
}

/// x / (bias + alpha / size * sum of squares of the neighbouring channels) ^ beta. However far the
/// reference is from it: one that slides its sum from channel to channel keeps the rounding of large ones
/// ("sum-that-slides" of the known differences).
void localResponse(const Node& node, const std::vector<const HostTensor*>& operands, HostTensor& result) {
  double alpha = static_cast<double>(1e-4f), beta = 0.75, bias = 1;
  int64_t window = 1;
  for (const auto& [name, value] : node.attributes) {
    if (auto* number = std::get_if<int64_t>(&value)) window = *number;
    if (auto* number = std::get_if<float>(&value))
      (name == "alpha" ? alpha : name == "beta" ? beta : bias) = static_cast<double>(*number);
  }
  const HostTensor& x = *operands[0];
  const int64_t channels = x.type.shape[1], size = x.count() / (x.type.shape[0] * channels);
  for (int64_t k = 0; k < x.count(); ++k) {
    const int64_t channel = k / size % channels;
    double sum = 0;
    for (int64_t c = std::max<int64_t>(0, channel - (window - 1) / 2);
         c <= std::min(channels - 1, channel + window / 2); ++c) {
      const double neighbour = x.number(k + (c - channel) * size);
      sum += neighbour * neighbour;
    }
    if (sum > static_cast<double>(std::numeric_limits<float>::max())) sum = std::numeric_limits<double>::infinity();
    const double right = x.number(k) / std::pow(bias + alpha / static_cast<double>(window) * sum, beta);
    setNumber(result, k, right);
  }
}

}  // namespace

std::vector<size_t> reducedInto(const Shape& shape, const Ints& axes) {
  const auto rank = static_cast<int64_t>(shape.size());
  std::vector<bool> isReduced(shape.size(), axes.empty());
  for (int64_t axis : axes) isReduced[static_cast<size_t>(axis < 0 ? axis + rank : axis)] = true;
  std::vector<size_t> into(
      static_cast<size_t>(std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<int64_t>())));
  for (size_t k = 0; k < into.size(); ++k) {
    auto index = static_cast<int64_t>(k);
    int64_t stride = 1;
    for (size_t d = shape.size(); d-- > 0; index /= shape[d])
      if (!isReduced[d]) into[k] += static_cast<size_t>(index % shape[d] * stride), stride *= shape[d];
  }
  return into;
}

namespace {

/// ReduceSum, ReduceMean and sums of magnitudes and squares. A reference that adds thousands of terms in f32 one after
/// the other is off by more than the sum of the roundings of a tree; more than a hundredth of the sum of the magnitudes
/// is no rounding.
bool sumOrMean(const Node& node, const std::vector<const HostTensor*>& operands, HostTensor& result) {
  const HostTensor& x = *operands[0];
  if (x.type.element != ElementType::kF32 || result.count() == 0) return false;
  Ints axes;
  for (const auto& [name, value] : node.attributes)
    if (auto* given = std::get_if<Ints>(&value)) axes = *given;
  if (operands.size() > 1)
    for (int64_t k = 0; k < operands[1]->count(); ++k) axes.push_back(static_cast<int64_t>(operands[1]->number(k)));
  const std::vector<size_t> into = reducedInto(x.type.shape, axes);
  const auto count = static_cast<size_t>(result.count());
  // Without axes: that it is the identity may have been asked for.
  if (into.empty() || *std::max_element(into.begin(), into.end()) + 1 != count) return false;
  std::vector<double> sums(count), magnitudes(count);
  for (size_t k = 0; k < into.size(); ++k) {
    double term = x.number(static_cast<int64_t>(k));
    if (node.op == "ReduceL1") term = std::fabs(term);
    if (node.op == "ReduceSumSquare" || node.op == "ReduceL2") term *= term;
    sums[into[k]] += term, magnitudes[into[k]] += std::fabs(term);
  }
  const double factor = node.op == "ReduceMean" ? static_cast<double>(count) / static_cast<double>(into.size()) : 1;
  for (size_t k = 0; k < count; ++k) {
    const auto at = static_cast<int64_t>(k);
    double right = sums[k] * factor, near = 1e-2 * magnitudes[k] * factor;
    if (node.op == "ReduceL2") right = std::sqrt(right), near = 1e-2 * right;
    if (std::fabs(result.number(at) - right) <= near) setNumber(result, at, right);
  }
  return true;
}

/// (x - mean) / (standard deviation + 1e-9) over some axes.
void meanVariance(const Node& node, const std::vector<const HostTensor*>& operands, HostTensor& result,
                  std::vector<double>* error) {
  Ints axes = {0, 2, 3};
  for (const auto& [name, value] : node.attributes)
    if (auto* given = std::get_if<Ints>(&value)) axes = *given;
  const HostTensor& x = *operands[0];
  const std::vector<size_t> into = reducedInto(x.type.shape, axes);
  auto row = [&](int64_t index) { return into[static_cast<size_t>(index)]; };
  struct Statistics {
    double sum = 0, squares = 0, count = 0;
  };
  std::vector<Statistics> rows(static_cast<size_t>(x.count()));
  for (int64_t k = 0; k < x.count(); ++k) rows[row(k)].sum += x.number(k), ++rows[row(k)].count;
  for (int64_t k = 0; k < x.count(); ++k) {
    Statistics& s = rows[row(k)];
    const double d = x.number(k) - s.sum / s.count;
    s.squares += d * d;
  }
  for (int64_t k = 0; k < x.count(); ++k) {
    const Statistics& s = rows[row(k)];
    const double mean = s.sum / s.count, deviation = std::sqrt(s.squares / s.count) + 1e-9;
    const double right = (x.number(k) - mean) / deviation;
    if (error) (*error)[static_cast<size_t>(k)] += kUnit * std::fabs(mean) / deviation;
    if (std::fabs(result.number(k) - right) <= 1e-2 * (std::fabs(right) + 1)) setNumber(result, k, right);
  }
}

}  // namespace

bool applyTruth(const Node& node, const std::vector<const HostTensor*>& operands, HostTensor& result,
                std::vector<double>* error) {
  if (error) error->resize(static_cast<size_t>(result.count()));
  if (node.op == "LayerNormalization") return layerNorm(node, operands, result, error), true;
  if (node.op == "InstanceNormalization" || node.op == "GroupNormalization")
    return groupNorm(node, operands, result, error), true;
  if (node.op == "LRN") return localResponse(node, operands, result), true;
  if (node.op == "MeanVarianceNormalization") return meanVariance(node, operands, result, error), true;
  if (node.op == "ReduceSum" || node.op == "ReduceMean" || node.op == "ReduceL1" || node.op == "ReduceL2" ||
      node.op == "ReduceSumSquare")
    return sumOrMean(node, operands, result);
  bool isTanh = false;
  for (const auto& [name, value] : node.attributes)
    if (auto* text = std::get_if<std::string>(&value)) isTanh |= name == "approximate" && *text == "tanh";
  for (const Row& row : kRows) {
    if (node.op != row.op) continue;
    double alpha = row.alpha, beta = row.beta;
    for (const auto& [name, value] : node.attributes)
      if (auto* number = std::get_if<float>(&value)) (name == "alpha" ? alpha : beta) = static_cast<double>(*number);
    for (int64_t k = 0; k < result.count(); ++k) {
      double is = result.number(k), right = row.function(operands[0]->number(k), alpha, beta);
      if (isTanh) right = geluOfTanh(operands[0]->number(k));
      bool gaveUp = !std::isfinite(is) || is == 0;  // exp() beyond its range, for example.
      // Near the end of the range a factor on the way may be beyond it: Celu's exponential, before alpha below 1.
      if (error && !std::isfinite(is) && std::isfinite(right) && std::fabs(right) > 1e37)
        (*error)[static_cast<size_t>(k)] = std::numeric_limits<double>::infinity();
      double off = 1e-3 * std::fabs(right) + 1e-6;
      // ONNX Runtime's sigmoid is off by so much, whatever it is multiplied by.
      if (node.op == "Swish" || node.op == "com.microsoft.QuickGelu") {
        const double size = std::fabs(operands[0]->number(k));
        off += 1e-7 * size;
        // A sigmoid that is no normal number is 0 on TPCs, whatever it is multiplied by.
        if (error && size < 1e38) (*error)[static_cast<size_t>(k)] += size * 0x1p-126;
      }
      if (gaveUp || (std::isfinite(right) && std::fabs(is - right) <= off)) setNumber(result, k, right);
    }
    return true;
  }
  return false;
}

}  // namespace hpu::randomtest
