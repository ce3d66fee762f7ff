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
      {"eye.out eye.m_out", eye},
  };
  return rows;
}

}  // namespace hpu_torch
