// SPDX-License-Identifier: Apache-2.0
// HPU_TORCH_API: what libhpu_torch.so exports.
#pragma once

#define HPU_TORCH_API __attribute__((visibility("default")))
