// SPDX-License-Identifier: Apache-2.0
#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>

#include "hpu_torch/hpu_torch.h"

int main() {
  const at::Tensor x = at::ones({3}, at::TensorOptions(at::Device("hpu")));
  return hpu_torch::numDevices() > 0 && x.add(1).sum().item<float>() == 6 ? 0 : 1;
}
