// SPDX-License-Identifier: Apache-2.0
// Results of a model against what the reference gave for them. The one thing to know: an element is right when it is as
// close as its error allows, or when both are at the limit of the type on the same side.
#pragma once

#include <string>
#include <vector>

#include "tests/random/Model.h"

namespace hpu::randomtest {

/// A difference between a result and what the reference gave; `index` is -1 for another type or shape.
struct Mismatch {
  std::string output, text;
  int64_t index = -1;
};
/// The first element that is further away than its error allows.
std::vector<Mismatch> compare(const Model& model, const std::vector<HostTensor>& results);

}  // namespace hpu::randomtest
