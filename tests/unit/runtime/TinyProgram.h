// SPDX-License-Identifier: Apache-2.0
// Programs written by hand, that need neither the compiler nor kernels: copies and fills on the
// DMA.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "hpu/recipe.h"
#include "recipe/Recipe.h"

namespace hpu::testing {

/// Copies input 0 to output 0 through the workspace: `count` elements of i32, in `slices` commands
/// a copy on two DMA queues. Verified.
std::shared_ptr<const recipe::Program> copyProgram(int64_t count, int slices = 1, Target target = Target::kGaudi2);
/// Writes `value` into output 0, `count` elements of i32; no input.
std::shared_ptr<const recipe::Program> fillProgram(int64_t count, uint32_t value, Target target = Target::kGaudi2);
/// Copies a constant of i32 to output 0; it lies behind 256 bytes of its section that nothing
/// covers.
std::shared_ptr<const recipe::Program> constantProgram(const std::vector<int32_t>& values,
                                                       Target target = Target::kGaudi2);
/// Output 0 is input 1 and output 1 is input 0: writing an output over its input would spoil the
/// other.
std::shared_ptr<const recipe::Program> swapProgram(int64_t count, Target target = Target::kGaudi2);
/// Adds nothing up yet remembers: output 0 = persistent state of the launch before, then state =
/// input 0.
std::shared_ptr<const recipe::Program> delayProgram(int64_t count, Target target = Target::kGaudi2);

/// Copies input 0 to each of `order.size()` outputs, one after another: order[i] is the i-th to be
/// written, each in its own command. `count` elements of i32.
std::shared_ptr<const recipe::Program> fanOutProgram(int64_t count, const std::vector<int>& order,
                                                     Target target = Target::kGaudi2);

/// Output 0 = input 0, on the DMA; then output 1 = output 0 times input 0, on the MME: n x n of
/// f32. With `throughWorkspace` the copy goes there, and the product is the only output.
std::shared_ptr<const recipe::Program> copyThenMultiplyProgram(int64_t n, bool throughWorkspace = false);

inline Recipe toRecipe(std::shared_ptr<const recipe::Program> program) {
  return Recipe(std::move(program));
}

}  // namespace hpu::testing
