// SPDX-License-Identifier: Apache-2.0
// Random numbers of hpu devices: a generator for each, and as many more as a program makes.
// The one thing to know: its numbers are those of the CPU's generator (mt19937) with the same seed, so a program that
// is moved from the CPU to hpu:0 draws the same ones. Numbers are drawn on the host.
#pragma once

#include <ATen/core/Generator.h>

#include <string>

#include "pytorch/device/Runtime.h"

namespace hpu_torch {

/// The device's own, which ops without one use. Opens nothing.
at::Generator defaultGenerator(c10::DeviceIndex index);
/// A new one with PyTorch's default seed.
at::Generator makeGenerator(c10::DeviceIndex index);
/// The CPU generator that gives the numbers of an hpu generator; throws for one of another device, naming the op.
at::Generator engineOf(const at::Generator& generator, const std::string& op);
void manualSeedAll(uint64_t seed);

}  // namespace hpu_torch
