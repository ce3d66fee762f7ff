// SPDX-License-Identifier: Apache-2.0
// Tensors from nothing.
#include <cmath>

#include "pytorch/record/Call.h"
#include "pytorch/record/ops/Families.h"

namespace hpu_torch {
namespace {

using hpu::compose::isFloat;

/// The values as elements of result 0.
template <typename T>
void outConstant(Call& c, ElementType type, const std::vector<T>& values) {
  c.out(0, c.constant({type, {static_cast<int64_t>(values.size())}}, values.data(), values.size() * sizeof(T)));
}

void arange(Call& c) {  // start, end, step
  const int64_t count = c.signature().results[0].meta.sizes.empty() ? 0 : c.signature().results[0].meta.sizes[0];
  if (isFloat(c.outType(0))) {
    std::vector<float> values(static_cast<size_t>(count));
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(c.real(0) + c.real(2) * static_cast<double>(i));
    return outConstant(c, ElementType::kF32, values);
  }
  std::vector<int64_t> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) values[i] = c.integer(0) + c.integer(2) * static_cast<int64_t>(i);
  outConstant(c, ElementType::kI64, values);
}

/// start, end, steps, [base]: from both ends, as PyTorch.
void spaced(Call& c) {
  const int64_t count = c.integer(2);
  const double start = c.real(0), end = c.real(1);
  const bool isPower = c.variant() == "log";
  if (!isFloat(c.outType(0))) return (void)c.unsupported("integers");
  std::vector<float> values(static_cast<size_t>(count));
  const double step = count > 1 ? (end - start) / static_cast<double>(count - 1) : 0;
  const auto narrow = static_cast<float>(step);
  for (int64_t i = 0; i < count; ++i) {
    const bool isFirst = i < count / 2 || count == 1;
    const auto at = static_cast<float>(isFirst ? i : count - 1 - i);
    const float v = isFirst ? static_cast<float>(start) + narrow * at : static_cast<float>(end) - narrow * at;
    const double p = isFirst ? start + step * static_cast<double>(i) : end - step * static_cast<double>(count - 1 - i);
    values[static_cast<size_t>(i)] = isPower ? static_cast<float>(std::pow(c.real(3), p)) : v;
  }
  outConstant(c, ElementType::kF32, values);
}

/// row, col, offset, dtype, ..: the indices of the elements on and below (above) a diagonal, row-major.
void triangleIndices(Call& c) {
  const int64_t rows = c.integer(0), columns = c.integer(1), offset = c.integer(2);
  Ints first, second;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      if (c.variant() == "lower" ? j - i <= offset : j - i >= offset) first.push_back(i), second.push_back(j);
  const auto count = static_cast<int64_t>(first.size());
  first.insert(first.end(), second.begin(), second.end());
  const ElementType type = c.has(3) ? c.signature().arguments[3].type : ElementType::kI64;
  if (count == 0) return c.out(0, c.full({ElementType::kI64, {2, 0}}, 0), type);
  c.out(0, c.constant({ElementType::kI64, {2, count}}, first.data(), first.size() * sizeof(int64_t)), type);
}

void eye(Call& c) {  // n, [m]
  const Shape& sizes = c.signature().results[0].meta.sizes;
  std::vector<float> values(static_cast<size_t>(hpu::numElements(sizes)), 0);
  for (int64_t i = 0; i < std::min(sizes[0], sizes[1]); ++i) values[static_cast<size_t>(i * (sizes[1] + 1))] = 1;
  c.out(0, c.constant({ElementType::kF32, sizes}, values.data(), values.size() * sizeof(float)));
}

}  // namespace

const std::vector<Row>& creationOps() {
  static const auto& rows = *new std::vector<Row>{
      {"arange.start_out", arange, {}, Row::kFixedNumbers},
      {"linspace.out", spaced, "linear", Row::kFixedNumbers},
      {"logspace.out", spaced, "log", Row::kFixedNumbers},
      {"tril_indices", triangleIndices, "lower", Row::kOwnShapes},
      {"triu_indices", triangleIndices, "upper", Row::kOwnShapes},
      {"eye.out eye.m_out", eye},
  };
  return rows;
}

}  // namespace hpu_torch
