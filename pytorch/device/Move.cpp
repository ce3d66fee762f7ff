// SPDX-License-Identifier: Apache-2.0
// The calls of hpu_torch.h: moves in place, and what libtorch has no name for.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include "hpu_torch/hpu_torch.h"
#include "pytorch/device/CachingAllocator.h"
#include "pytorch/device/Generator.h"
#include "pytorch/device/Streams.h"

namespace hpu_torch {
namespace {

/// libtorch's set_data refuses to change the type of a device, but for a list of devices that hpu is not in; what it
/// then does is there for classes that derive from TensorImpl.
struct Metadata : c10::TensorImpl {
  static void copy(const c10::TensorImpl* src, c10::TensorImpl* dst) {
    copy_tensor_metadata(src, dst, c10::VariableVersion(dst->version_counter()), /*allow_tensor_metadata_change=*/true);
  }
};

}  // namespace

void replaceTensor(const at::Tensor& tensor, const at::Tensor& values) {
  TORCH_CHECK(tensor.is_leaf() && !tensor.is_view(),
              "only leaves can change their device in place, no results and no views");
  TORCH_CHECK(tensor.layout() == at::kStrided && values.layout() == at::kStrided,
              "only dense tensors move to or from hpu");
  if (tensor.unsafeGetTensorImpl() == values.unsafeGetTensorImpl()) return;
  // A node that gathers gradients for the tensor checks them against what it was: it is made anew when asked for.
  if (auto* meta = torch::autograd::impl::get_autograd_meta(tensor)) {
    std::lock_guard<std::mutex> lock(meta->mutex_);
    if (meta->grad_accumulator_.lock()) meta->grad_accumulator_.reset();
  }
  Metadata::copy(values.unsafeGetTensorImpl(), tensor.unsafeGetTensorImpl());
}

void moveTensor(const at::Tensor& tensor, c10::Device device) {
  if (!tensor.defined()) return;
  at::NoGradGuard noGrad;
  if (device.is_hpu()) device = {kHpu, checkedIndex(device.index())};
  if (tensor.device() != device) {
    const at::Tensor grad = tensor.grad();
    replaceTensor(tensor, tensor.detach().to(device));
    if (grad.defined()) tensor.mutable_grad() = grad.to(device).requires_grad_(grad.requires_grad());
  }
}

int numDevices() noexcept {
  return deviceCount();
}
void synchronizeDevice(int index) {
  if (OpenDevice* device = openOrNull(checkedIndex(static_cast<c10::DeviceIndex>(index))))
    device->streams->synchronizeAll();
}
int64_t emptyCache(int index) {
  OpenDevice* device = openOrNull(checkedIndex(static_cast<c10::DeviceIndex>(index)));
  return device ? device->memory->emptyCache() : 0;
}
at::Generator createGenerator(int index) {
  return makeGenerator(static_cast<c10::DeviceIndex>(index));
}
at::Generator deviceGenerator(int index) {
  return defaultGenerator(static_cast<c10::DeviceIndex>(index));
}
void manualSeed(uint64_t seed) {
  manualSeedAll(seed);
}

}  // namespace hpu_torch
