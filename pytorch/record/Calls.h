// SPDX-License-Identifier: Apache-2.0
// Calls of aten ops as Signatures: looked up by what does not change, made (with PyTorch's own shape inference) once.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <c10/util/SmallVector.h>

#include <memory>
#include <vector>

#include "pytorch/record/Pending.h"
#include "pytorch/record/Recorder.h"
#include "pytorch/record/Signature.h"

namespace hpu_torch {

struct RecordedCall {
  std::shared_ptr<const Signature> signature;
  c10::SmallVector<const at::Tensor*, 8> operands;  ///< On the stack of the call.
  std::vector<Number> numbers;
  c10::Device device{c10::DeviceType::HPU, 0};
  bool writesOperands = false;
};

/// False: the table has no row for the op, its types are not the device's, or its function refused it. Throws what
/// PyTorch says of wrong arguments. Resizes out= arguments as PyTorch does.
bool describeCall(const c10::OperatorHandle& op, const torch::jit::Stack& stack, RecordedCall& call);

at::ScalarType scalarTypeOf(hpu::ElementType type);
void countSignatures(RecordCounts& counts);

}  // namespace hpu_torch
