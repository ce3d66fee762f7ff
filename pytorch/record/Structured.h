// SPDX-License-Identifier: Apache-2.0
// Functional and in-place forms of structured ops ("add.Tensor", "add_.Tensor"), which use the row of their out form
// ("add.out").
// The one thing to know: libtorch's own kernels of these forms infer the result's shape anew at each call, allocate it
// through the dispatcher and call the out form. The recorder knows the shape of a call that it has seen.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include "pytorch/record/Table.h"

namespace hpu_torch {

/// The row of a structured op's form, found by its out form's name and arguments; null when `op` is none, or when the
/// out form has no row. Any thread.
const Row* structuredRow(const c10::OperatorHandle& op);

}  // namespace hpu_torch
