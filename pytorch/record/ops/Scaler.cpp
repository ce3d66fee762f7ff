// SPDX-License-Identifier: Apache-2.0
// What a gradient scaler asks for: gradients divided by the scale, whether one is not finite, the scale's growth.
#include "pytorch/record/Call.h"
#include "pytorch/record/ops/Families.h"

namespace hpu_torch {
namespace {

/// self *= inv_scale; found_inf becomes 1 where an element is infinite or NaN.
void unscale(Call& c) {  // self (a list), found_inf, inv_scale
  Value scale = c.reshape(c.f32(2), {}), found = c.f32(1);
  const std::vector<Value> list = c.list(0);
  for (size_t i = 0; i < list.size() && c.ok(); ++i) {
    if (hpu::numElements(c.shape(list[i])) == 0) continue;
    Value x = c.toF32(list[i]);
    // What is not finite makes 0 * x NaN.
    Value probe = c.mul(x, 0.);
    Value bad = c.cast(c.op("not", {c.op("equal", {probe, probe})}), ElementType::kF32);
    Ints all = c.dimensions(99, c.rank(bad));
    if (!all.empty()) bad = c.reduceMax(bad, all, false);
    found = c.max(found, bad);
    c.writeMember(0, i, c.mul(x, scale));
  }
  c.write(1, found);
}

/// self, growth_tracker, found_inf, growth_factor, backoff_factor, growth_interval
void updateScale(Call& c) {
  Value scale = c.f32(0), steps = c.in(1);
  Value isBad = c.op("greater", {c.f32(2), c.scalar(0, ElementType::kF32)});
  Value next = c.add(steps, c.scalar(1, c.element(steps)));
  Value isDue = c.op("equal", {next, c.scalar(static_cast<double>(c.integer(5)), c.element(steps))});
  Value grown = c.mul(scale, c.real(3));
  Value difference = c.sub(grown, grown);  // NaN where it has overflown: the scale stays then.
  grown = c.where(c.op("equal", {difference, difference}), grown, scale);
  Value zero = c.scalar(0, c.element(steps));
  c.out(0, c.where(isBad, c.mul(scale, c.real(4)), c.where(isDue, grown, scale)));
  c.write(1, c.where(c.op("or", {isBad, isDue}), zero, next));
}

}  // namespace

const std::vector<Row>& scalerOps() {
  static const auto& rows = *new std::vector<Row>{
      {"_amp_foreach_non_finite_check_and_unscale_", unscale},
      {"_amp_update_scale_", updateScale},
  };
  return rows;
}

}  // namespace hpu_torch
