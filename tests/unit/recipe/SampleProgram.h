// SPDX-License-Identifier: Apache-2.0
// Hand-made valid programs that recipe tests read, write, break and check.
#pragma once

#include <cstdint>
#include <vector>

#include "recipe/Recipe.h"

namespace hpu::recipe::testing {

/// An operand in row-major order.
Operand denseOperand(uint32_t section, uint64_t offset, ElementType type, std::vector<int64_t> sizes);

/// A small net on Gaudi 2 with every kind of section, op and descriptor: a convolution with packed
/// weights that hands its slices through an SRAM ring to a bias+relu kernel, a DMA relayout and a
/// DMA fill, a gemm with strided constant weights and a softmax. Kernel images hold bytes that are
/// never run.
Program sampleProgram();

/// Indices in sampleProgram(), for tests that break one thing.
enum SampleOp : uint32_t { kConvOp, kReluOp, kCopyOp, kGemmOp, kFillOp, kSoftmaxOp };
enum SampleSection : uint32_t {
  kInputSection,
  kOutputSection,
  kStateSection,
  kConstSection,
  kWorkspaceSection,
  kSramSection,
  kPersistentSection
};
enum SampleQueue : uint32_t { kMmeQueue, kTpcQueue, kDmaQueue };

/// A net of the size of a large compiled model: `layers` bundles of `slices` slices of a gemm and a
/// pointwise kernel, each layer reading the one before.
Program largeProgram(uint32_t layers, uint32_t slices);

/// Equal in every field, constants and images by content.
bool samePrograms(const Program& a, const Program& b);

}  // namespace hpu::recipe::testing
