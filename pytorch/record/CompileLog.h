// SPDX-License-Identifier: Apache-2.0
// Which graphs were compiled, and why: how each differs from what was compiled before.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hpu_torch/api.h"
#include "pytorch/record/Signature.h"

namespace hpu_torch {

/// One compilation, for those who ask why there was one.
struct CompileRecord {
  std::string what;     ///< As describe().
  std::string why;      ///< What differs from what was compiled before.
  bool isFree = false;  ///< For all sizes within bounds.
  int64_t nodes = 0, ns = 0;
};
/// The last 256, the latest one last. Any thread.
HPU_TORCH_API std::vector<CompileRecord> compileRecords();

void logCompile(const std::vector<Node>& nodes, const std::string& why, bool isFree, int64_t ns);

}  // namespace hpu_torch
