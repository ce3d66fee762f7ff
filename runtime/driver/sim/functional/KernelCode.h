// SPDX-License-Identifier: Apache-2.0
// KernelCode: a recipe's native TPC kernels, mapped executable.
// The one thing to know: images are mapped by ourselves (never through dlopen, whose cache confuses
// images that share a file descriptor's number) and live as long as this object.
#pragma once

#include <memory>
#include <vector>

#include "hpu/status.h"
#include "recipe/KernelAbi.h"
#include "recipe/Recipe.h"

namespace hpu::sim {

class KernelCode {
 public:
  /// Maps the best image that this CPU (and HPU_MAX_CPU) runs. A program without kernels needs
  /// none. Errors: kFailedPrecondition (no image for this CPU), kResourceExhausted (no memory),
  /// kPermissionDenied (the system forbids executable mappings), kDataLoss (an entry outside of its
  /// image).
  static StatusOr<std::shared_ptr<const KernelCode>> map(const recipe::Program& program);
  /// Functions of the calling process in place of an image; what tests without a compiler use.
  static std::shared_ptr<const KernelCode> fromFunctions(std::vector<HpuKernelFn> functions);
  ~KernelCode();
  KernelCode(const KernelCode&) = delete;
  KernelCode& operator=(const KernelCode&) = delete;

  HpuKernelFn function(uint32_t kernel) const { return functions_[kernel]; }
  size_t size() const { return functions_.size(); }

 private:
  KernelCode() = default;
  std::vector<HpuKernelFn> functions_;
  void* memory_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace hpu::sim
