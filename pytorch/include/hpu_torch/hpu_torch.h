// SPDX-License-Identifier: Apache-2.0
// hpu_torch: hpu devices in libtorch programs.
// The one thing to know: linking libhpu_torch.so is what makes torch::Device("hpu") work; this header has what libtorch
// itself has no call for. Link with -Wl,--no-as-needed when a program calls nothing of it.
//
//   auto net = torch::nn::Linear(4, 2);
//   hpu_torch::moveTo(*net, torch::Device("hpu"));      // Not net->to(): libtorch cannot move modules to hpu in place.
//   auto y = net(torch::ones({3, 4}, torch::Device("hpu")));
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>

#include "hpu_torch/api.h"

namespace hpu_torch {

/// How many devices this process may use (HABANA_VISIBLE_MODULES); opens none.
HPU_TORCH_API int numDevices() noexcept;
/// Waits for all work of a device; throws c10::Error with the failure of the work. -1: the current device.
HPU_TORCH_API void synchronizeDevice(int index = -1);
/// Gives memory that no tensor is in back to the device; how many bytes.
HPU_TORCH_API int64_t emptyCache(int index = -1);

/// A generator of its own, and the one that ops use which are given none. Their numbers are the CPU's with the same
/// seed.
HPU_TORCH_API at::Generator createGenerator(int index = -1);
HPU_TORCH_API at::Generator deviceGenerator(int index = -1);
/// Of all devices' generators. (torch::manual_seed only knows the CPU's and CUDA's.)
HPU_TORCH_API void manualSeed(uint64_t seed);

/// Moves a leaf's values in place: whoever holds the tensor (another module, an optimiser) goes on holding it. Its
/// gradient moves, too. From hpu to the CPU as well. Throws for a tensor that is no leaf, or a view.
HPU_TORCH_API void moveTensor(const at::Tensor& tensor, c10::Device device);
/// The same with values that are there already: `tensor` becomes `values` in place (device, sizes, type, memory).
HPU_TORCH_API void replaceTensor(const at::Tensor& tensor, const at::Tensor& values);

/// Moves a torch::nn::Module (parameters, their gradients, buffers) in place: tied parameters stay tied.
template <typename Module>
void moveTo(Module& module, c10::Device device) {
  for (const at::Tensor& parameter : module.parameters()) moveTensor(parameter, device);
  for (const at::Tensor& buffer : module.buffers()) moveTensor(buffer, device);
}

}  // namespace hpu_torch
