// SPDX-License-Identifier: Apache-2.0
#include "compose/AxisTerms.h"

#include "compose/Indexing.h"

namespace hpu::compose {
namespace {

Value weightsAlong(Emitter& c, const std::vector<float>& weights, int64_t dim, int64_t rank) {
  Shape along(static_cast<size_t>(rank), 1);
  along[static_cast<size_t>(dim)] = static_cast<int64_t>(weights.size());
  return c.constant({ElementType::kF32, along}, weights.data(), weights.size() * sizeof(float));
}

}  // namespace

Value gatherTerms(Emitter& c, Value x, int64_t dim, const AxisTerms& terms) {
  Value sum;
  for (size_t t = 0; t < terms.positions.size() && c.ok(); ++t) {
    const std::vector<int64_t>& at = terms.positions[t];
    Value part = c.gather(x, c.indices({static_cast<int64_t>(at.size())}, at), dim);
    if (!terms.weights.empty()) part = c.mul(part, weightsAlong(c, terms.weights[t], dim, c.rank(x)));
    sum = sum.handle ? c.add(sum, part) : part;
  }
  return sum;
}

Value scatterTerms(Emitter& c, Value g, int64_t dim, const AxisTerms& terms) {
  Shape sizes = c.shape(g), along(sizes.size(), 1);
  if (!c.ok()) return {};
  sizes[static_cast<size_t>(dim)] = terms.size;
  Value sum = c.full({ElementType::kF32, sizes}, 0);
  for (size_t t = 0; t < terms.positions.size(); ++t) {
    along[static_cast<size_t>(dim)] = static_cast<int64_t>(terms.positions[t].size());
    Value part = terms.weights.empty() ? g : c.mul(g, weightsAlong(c, terms.weights[t], dim, c.rank(g)));
    sum = scatterAlong(c, sum, c.indices(along, terms.positions[t]), part, dim, "add");
  }
  return sum;
}

}  // namespace hpu::compose
