// SPDX-License-Identifier: Apache-2.0
// How much of the SRAM holds tiles while a command runs: what is left is for operands that products and kernels stage
// there. The one thing to know: it is counted for the unit of the command and for its neighbours, which engines that
// are a unit ahead or behind work on; tiles of other times take nothing away.
#pragma once

#include <cstdint>
#include <vector>

#include "recipe/Recipe.h"

namespace hpu::perfmodel {

/// Of one program, which it does not keep. Any thread may ask.
class SramUse {
 public:
  explicit SramUse(const recipe::Program& program);
  /// Bytes, at most those of all SRAM sections.
  int64_t beside(uint32_t op) const { return op < byOp_.size() ? byOp_[op] : all_; }
  /// Those of all SRAM sections: what is in use at the peak.
  static int64_t ofAll(const recipe::Program& program);

 private:
  int64_t all_ = 0;
  std::vector<int64_t> byOp_;
};

}  // namespace hpu::perfmodel
