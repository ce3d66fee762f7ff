// SPDX-License-Identifier: Apache-2.0
// Autocast on hpu for libtorch programs, and what the Python package calls.
// The one thing to know: it is a state of the calling thread; backward runs in the types of the forward, outside of the
// guard.
//
//   {
//     hpu_torch::AutocastGuard autocast(torch::kBFloat16);
//     loss = torch::nn::functional::cross_entropy(net(x), target);  // products in bf16, the loss in f32
//   }
//   loss.backward();
#pragma once

#include <c10/core/ScalarType.h>

#include <string>
#include <vector>

#include "hpu_torch/api.h"

namespace hpu_torch {

/// Ops on hpu tensors compute in the types of their lists until the guard ends. Guards nest. Throws c10::ValueError for
/// another type than bfloat16 and float16, or when a list names an op that there is not.
class HPU_TORCH_API AutocastGuard {
 public:
  explicit AutocastGuard(c10::ScalarType type = c10::kBFloat16, bool enabled = true, bool cacheEnabled = true);
  ~AutocastGuard();
  AutocastGuard(const AutocastGuard&) = delete;
  AutocastGuard& operator=(const AutocastGuard&) = delete;

 private:
  bool wasEnabled_, wasCached_;
  c10::ScalarType before_;
};

/// Of the calling thread.
HPU_TORCH_API bool isAutocastEnabled();
HPU_TORCH_API void setAutocastEnabled(bool enabled);  ///< Throws as the guard does.
HPU_TORCH_API c10::ScalarType autocastType();         ///< Also while it is disabled.
HPU_TORCH_API void setAutocastType(c10::ScalarType type);
/// Forgets the weights that were cast; the end of the outermost guard does that, too.
HPU_TORCH_API void clearAutocastCache();

/// Names of aten ops, without overloads for all of them. An op in several lists is of the first.
struct AutocastLists {
  std::vector<std::string> lower, fp32, promote;
};
/// In force: PyTorch's own, or those that the environment names (docs/pytorch.md), or what was set.
HPU_TORCH_API AutocastLists autocastLists();
/// For the process. Throws c10::ValueError with the names of ops that there are not, and changes nothing then.
HPU_TORCH_API void setAutocastLists(const AutocastLists& lists);

}  // namespace hpu_torch
