// SPDX-License-Identifier: Apache-2.0
// The CPU fallback: what no kernel of ours computes runs on the CPU, with copies there and back.
// The one thing to know: it is right and slow, and counted; PT_HPU_PLACE_ON_CPU=none makes it an error instead.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <map>
#include <string>

#include "hpu_torch/api.h"

namespace hpu_torch {

/// Runs `op` on the CPU: tensors on hpu are copied there, also those in lists of optionals; generators of hpu devices
/// are their CPU engines. What the op writes is copied back, results come to the device of its tensors. Tensors that
/// share memory share it on the CPU, so that overlaps are what they are on a device. Throws when the op may not be
/// placed on the CPU.
void cpuFallback(const c10::OperatorHandle& op, torch::jit::Stack* stack);

/// Which ops may run on the CPU: "" or "all", "none", or names separated by commas ("add,aten::mm.out"), as in
/// PT_HPU_PLACE_ON_CPU, whose value counts until this is called. Any thread.
HPU_TORCH_API void setPlaceOnCpu(const std::string& ops);
HPU_TORCH_API std::string placeOnCpu();

struct FallbackCount {
  int64_t calls = 0;
  std::map<std::string, int64_t> sites;  ///< Calls by the line of the program that made them.
};
/// By the op's name with its overload ("aten::add.out"), since the last reset.
HPU_TORCH_API std::map<std::string, FallbackCount> fallbackCounts();
HPU_TORCH_API void resetFallbackCounts();

/// Where the calling thread is in the user's program, if that is known.
std::string callSite();
/// Says where the calling thread is in the user's program ("train.py:12"), or nothing. Set once, by Python's part.
HPU_TORCH_API void setCallSite(std::string (*site)());

}  // namespace hpu_torch
