// SPDX-License-Identifier: Apache-2.0
// Ops that are a few other ops, and that no graph can be: they return what is no tensor, or draw numbers (on the host,
// as all random numbers).
#include <ATen/ATen.h>
#include <ATen/NativeFunctions.h>
#include <torch/library.h>

#include "pytorch/device/Fallback.h"

namespace hpu_torch {
namespace {

using at::Tensor;
using Generator = c10::optional<at::Generator>;

bool equal(const Tensor& self, const Tensor& other) {
  TORCH_CHECK(self.scalar_type() == other.scalar_type(), "Expected object of data type ", self.scalar_type(),
              " but got data type ", other.scalar_type(), " for argument 'other' in call to equal");
  if (self.sizes() != other.sizes()) return false;
  return self.numel() == 0 || at::eq(self, other).all().item<bool>();
}

// ---- numbers of a normal distribution with its own mean and deviation each -----------------------------

Tensor standardNormal(c10::IntArrayRef sizes, const Tensor& like, Generator generator) {
  return at::empty(sizes, like.options()).normal_(0, 1, std::move(generator));
}
void checkDeviation(const Tensor& std) {
  TORCH_CHECK(std.numel() == 0 || std.min().ge(0).item<bool>(), "normal expects all elements of std >= 0.0");
}
Tensor normalTensorFloat(const Tensor& mean, double std, Generator generator) {
  TORCH_CHECK(std >= 0, "normal expects std >= 0.0, but found std ", std);
  return standardNormal(mean.sizes(), mean, std::move(generator)).mul_(std).add_(mean);
}
Tensor normalFloatTensor(double mean, const Tensor& std, Generator generator) {
  checkDeviation(std);
  return standardNormal(std.sizes(), std, std::move(generator)).mul_(std).add_(mean);
}
Tensor normalTensors(const Tensor& mean, const Tensor& std, Generator generator) {
  checkDeviation(std);
  return standardNormal(at::infer_size(mean.sizes(), std.sizes()), mean, std::move(generator)).mul_(std).add_(mean);
}

/// Several draws with replacement are libtorch's loop on the CPU.
Tensor multinomial(const Tensor& self, int64_t count, bool replacement, Generator generator) {
  if (!replacement || count == 1) return at::native::multinomial(self, count, replacement, std::move(generator));
  static const c10::OperatorHandle& op =
      *new c10::OperatorHandle(c10::Dispatcher::singleton().findSchemaOrThrow("aten::multinomial", ""));
  torch::jit::Stack stack = {self, count, replacement, std::move(generator)};
  cpuFallback(op, &stack);
  return stack.back().toTensor();
}

TORCH_LIBRARY_IMPL(aten, HPU, m) {
  m.impl("equal", TORCH_FN(equal));
  m.impl("normal.Tensor_float", TORCH_FN(normalTensorFloat));
  m.impl("normal.float_Tensor", TORCH_FN(normalFloatTensor));
  m.impl("normal.Tensor_Tensor", TORCH_FN(normalTensors));
  m.impl("multinomial", TORCH_FN(multinomial));
}

}  // namespace
}  // namespace hpu_torch
