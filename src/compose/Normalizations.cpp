// SPDX-License-Identifier: Apache-2.0
#include "compose/Normalizations.h"

#include <algorithm>

namespace hpu::compose {

using Axes = std::vector<int64_t>;

Axes allBut(int64_t rank, const Axes& kept) {
  Axes axes;
  for (int64_t d = 0; d < rank; ++d)
    if (std::find(kept.begin(), kept.end(), d) == kept.end()) axes.push_back(d);
  return axes;
}

Moments momentsOf(Emitter& c, Value x, const Axes& axes, double epsilon) {
  Value mean = c.reduceMean(x, axes, true), centred = c.sub(x, mean);
  Value variance = c.reduceMean(c.mul(centred, centred), axes, true);
  return {mean, c.op("rsqrt", {c.add(variance, epsilon)}), variance};
}

Value normalised(Emitter& c, Value x, Value mean, Value istd, Value gamma, Value beta) {
  Value y = c.mul(mean.handle ? c.sub(x, mean) : x, istd);
  if (gamma.handle) y = c.mul(y, gamma);
  return beta.handle ? c.add(y, beta) : y;
}

Value normBackward(Emitter& c, Value g, Value xHat, Value istd, const Axes& axes, bool centred) {
  Value inner = c.sub(g, c.mul(xHat, c.reduceMean(c.mul(g, xHat), axes, true)));
  if (centred) inner = c.sub(inner, c.reduceMean(g, axes, true));
  return c.mul(inner, istd);
}

}  // namespace hpu::compose
