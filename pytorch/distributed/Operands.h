// SPDX-License-Identifier: Apache-2.0
// Operands: tensors of a call of a process group as memory of one device.
// The one thing to know: tensors in host memory are copied to the device and, results, back when the work is waited for
// (object collectives of PyTorch need that); tensors of a device must be dense, as NCCL's group has it.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include <string>
#include <utility>
#include <vector>

#include "hpu/collectives.h"
#include "pytorch/device/Memory.h"
#include "pytorch/device/Runtime.h"

namespace hpu_torch {

/// How elements of a tensor travel: types that collectives do not know go as bytes.
struct Elements {
  hpu::ElementType type = hpu::ElementType::kU8;
  int64_t each = 1;  ///< Of `type`, an element of the tensor.
};
Elements movedAs(c10::ScalarType type);

/// What reduces tensors of a type. Throws TypeError, ValueError: what cannot be done, and what to do instead.
struct Reduction {
  hpu::ElementType type = hpu::ElementType::kF32;
  hpu::collectives::ReduceOp op = hpu::collectives::ReduceOp::kSum;
  double scale = 1;
  bool isScaled = false;
};
Reduction reductionOf(const char* name, c10::ScalarType type, const c10d::ReduceOp& op);

inline uint64_t addressOf(const at::Tensor& tensor) {
  return deviceAddress(tensor.data_ptr());
}

class Operands {
 public:
  /// On `device` when all tensors are the host's.
  Operands(const char* name, c10::DeviceIndex device) : name_(name), device_(device) {}

  /// The device's tensor with the values of `tensor`. Throws: what is wrong with it.
  at::Tensor input(const at::Tensor& tensor);
  /// The device's tensor whose values will be those of `tensor`, which has its present ones if `isRead`.
  at::Tensor output(const at::Tensor& tensor, bool isRead);
  /// All that is given is the device's; must be called before input() and output() with one of the call's tensors.
  void use(const at::Tensor& tensor);
  c10::DeviceIndex device() const { return device_; }
  const char* name() const { return name_; }

  std::vector<at::Tensor> kept;                           ///< The device's tensors of the call.
  std::vector<at::Tensor> outputs;                        ///< The caller's.
  std::vector<std::pair<at::Tensor, at::Tensor>> toHost;  ///< The caller's in host memory, the device's.

 private:
  at::Tensor take(const at::Tensor& tensor, bool isRead);
  const char* name_;
  c10::DeviceIndex device_;
};

/// The only tensor of a list: a rank has one device. Throws.
const at::Tensor& single(const char* name, const std::vector<at::Tensor>& tensors);
/// Throws unless the two have the same type.
void checkSameType(const char* name, const at::Tensor& a, const at::Tensor& b);

}  // namespace hpu_torch
