// SPDX-License-Identifier: Apache-2.0
// Ops that are a few other ops, and that no graph can be: they return what is no tensor, or draw numbers (on the host,
// as all random numbers).
#include <ATen/ATen.h>
#include <ATen/NativeFunctions.h>
#include <ATen/ScalarOps.h>
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

/// Several draws with replacement are libtorch's loop on the CPU; one is the same with and without.
Tensor multinomial(const Tensor& self, int64_t count, bool replacement, Generator generator) {
  if (!replacement || count == 1)
    return at::native::multinomial(self, count, /*replacement=*/false, std::move(generator));
  static const c10::OperatorHandle& op =
      *new c10::OperatorHandle(c10::Dispatcher::singleton().findSchemaOrThrow("aten::multinomial", ""));
  torch::jit::Stack stack = {self, count, replacement, std::move(generator)};
  cpuFallback(op, &stack);
  return stack.back().toTensor();
}

// ---- compositions of libtorch's that read sizes from the device ------------------------------------------

/// Asked by nn.TransformerEncoder, whether a nested tensor can stand for padded ones. There are none on hpu.
bool canBeNested(const Tensor& /*padded*/, const Tensor& /*mask*/) {
  return false;
}

/// libtorch makes a tensor of the number, and looks for the size of the result in it.
Tensor repeatInterleave(const Tensor& self, int64_t repeats, c10::optional<int64_t> dim,
                        c10::optional<int64_t> outputSize) {
  const Tensor input = dim ? self : self.flatten();
  if (repeats < 0 || input.dim() == 0) return at::native::repeat_interleave(self, repeats, dim, outputSize);
  const int64_t at = at::maybe_wrap_dim(dim.value_or(0), input.dim());
  TORCH_CHECK(!outputSize || *outputSize == input.size(at) * repeats, "allocated size does not match required size");
  std::vector<int64_t> sizes = input.sizes().vec();
  sizes.insert(sizes.begin() + at + 1, repeats);
  return input.unsqueeze(at + 1).expand(sizes).clone(at::MemoryFormat::Contiguous).flatten(at, at + 1);
}

/// Labels that are smoothed: libtorch counts those that are not ignored by the size of a selection.
Tensor crossEntropy(const Tensor& self, const Tensor& target, const c10::optional<Tensor>& weight, int64_t reduction,
                    int64_t ignored, double smoothing) {
  const bool areLabels = !at::isFloatingType(target.scalar_type());
  if (smoothing <= 0 || smoothing > 1 || !areLabels || self.dim() == 0)
    return at::native::cross_entropy_loss(self, target, weight, reduction, ignored, smoothing);
  const int64_t dim = self.dim() == 1 ? 0 : 1, classes = self.size(dim);
  const Tensor logs = at::log_softmax(self, dim, self.scalar_type());
  const Tensor own = at::nll_loss_nd(logs, target, weight, reduction, ignored);
  const bool hasWeight = weight && weight->defined();
  std::vector<int64_t> along(static_cast<size_t>(self.dim()), 1);
  along[static_cast<size_t>(dim)] = classes;
  const Tensor isIgnored = target.eq(ignored);
  Tensor all = (hasWeight ? logs * weight->view(along) : logs).sum(dim).neg().masked_fill(isIgnored, 0);
  if (reduction == at::Reduction::Mean && hasWeight) {
    const Tensor weights = weight->index_select(0, target.masked_fill(isIgnored, 0).flatten());
    all = all.sum() / weights.masked_fill(isIgnored.flatten(), 0).sum();
  } else if (reduction == at::Reduction::Mean) {
    all = all.sum() / isIgnored.logical_not().sum();
  } else if (reduction == at::Reduction::Sum) {
    all = all.sum();
  }
  return own * (1 - smoothing) + all * (smoothing / static_cast<double>(classes));
}

/// libtorch's own derivatives of these take the number for a tensor of f64, and so the gradient of a tensor without
/// dims.
Tensor timesNumber(const Tensor& self, const at::Scalar& other) {
  return at::mul(self, at::native::wrapped_scalar_tensor(other));
}
Tensor byNumber(const Tensor& self, const at::Scalar& other) {
  return at::div(self, at::native::wrapped_scalar_tensor(other));
}

// Differentiable as what they are made of, so they are for autograd's key, too.
TORCH_LIBRARY_IMPL(aten, AutogradHPU, m) {
  m.impl("mul.Scalar", TORCH_FN(timesNumber));
  m.impl("div.Scalar", TORCH_FN(byNumber));
  m.impl("repeat_interleave.self_int", TORCH_FN(repeatInterleave));
  m.impl("cross_entropy_loss", TORCH_FN(crossEntropy));
}

TORCH_LIBRARY_IMPL(aten, HPU, m) {
  m.impl("repeat_interleave.self_int", TORCH_FN(repeatInterleave));
  m.impl("cross_entropy_loss", TORCH_FN(crossEntropy));
  m.impl("_nested_tensor_from_mask_left_aligned", TORCH_FN(canBeNested));
  m.impl("equal", TORCH_FN(equal));
  m.impl("normal.Tensor_float", TORCH_FN(normalTensorFloat));
  m.impl("normal.float_Tensor", TORCH_FN(normalFloatTensor));
  m.impl("normal.Tensor_Tensor", TORCH_FN(normalTensors));
  m.impl("multinomial", TORCH_FN(multinomial));
}

}  // namespace
}  // namespace hpu_torch
