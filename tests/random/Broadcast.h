// SPDX-License-Identifier: Apache-2.0
// Which element of an operand an element of a broadcast result is made of. The one thing to know: it keeps a reference
// to the shape of the result.
#pragma once

#include <vector>

#include "hpu/types.h"

namespace hpu::randomtest {

/// The element of an operand that the element of a result is made of, by ONNX's broadcasting.
class Broadcast {
 public:
  Broadcast(const Shape& result, const Shape& operand) : result_(result), strides_(result.size()) {
    int64_t stride = 1;
    for (size_t back = 1; back <= operand.size() && back <= result.size(); ++back) {
      const int64_t size = operand[operand.size() - back];
      strides_[result.size() - back] = size == 1 ? 0 : stride;
      stride *= size;
    }
  }
  int64_t operator()(int64_t index) const {
    int64_t at = 0;
    for (size_t d = result_.size(); d-- > 0; index /= result_[d]) at += index % result_[d] * strides_[d];
    return at;
  }

 private:
  const Shape& result_;
  std::vector<int64_t> strides_;
};

}  // namespace hpu::randomtest
