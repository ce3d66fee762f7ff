// SPDX-License-Identifier: Apache-2.0
// Naive references and random programs for the functional executor's tests.
// The one thing to know: data are small integers, so every f32 result is exact and compared bit by
// bit, whatever the order of the sums.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "recipe/KernelAbi.h"
#include "recipe/Recipe.h"
#include "runtime/driver/sim/functional/ProgramExecutor.h"

namespace hpu::sim::testing {

using Random = std::mt19937;

inline int64_t pick(Random& random, int64_t lo, int64_t hi) {
  return std::uniform_int_distribution<int64_t>(lo, hi)(random);
}

/// Plain element by element conversions, independent of the executor's.
float readElement(const std::byte* data, ElementType type, int64_t index);
void writeElement(std::byte* data, ElementType type, int64_t index, float value);

/// Calls f(index vector) for every point of a box that starts at 0.
template <typename F>
void forEachPoint(const std::vector<int64_t>& sizes, F&& f) {
  std::vector<int64_t> index(sizes.size(), 0);
  for (int64_t size : sizes)
    if (size == 0) return;
  for (;;) {
    f(index);
    size_t d = sizes.size();
    for (; d > 0; --d) {
      if (++index[d - 1] < sizes[d - 1]) break;
      index[d - 1] = 0;
    }
    if (d == 0) return;
  }
}

int64_t elementIndex(const recipe::Operand& operand, const std::vector<int64_t>& index);

/// A program under construction with host memory for its sections.
class TestProgram {
 public:
  TestProgram();

  /// A tensor of its own section with dims in a given memory order (slowest first; empty:
  /// row-major) and `gap` unused elements after each row of the fastest dimension.
  recipe::Operand tensor(ElementType type, const std::vector<int64_t>& sizes, std::vector<int> order = {},
                         int64_t gap = 0);
  /// The same in the SRAM section as a ring.
  recipe::Operand ring(ElementType type, const std::vector<int64_t>& sizes, uint32_t dim, int64_t tile, uint32_t slots,
                       std::vector<int> order = {});
  /// B of a gemm or conv, packed: fills the blocked layout from `strided`, whose values it takes.
  recipe::Operand packed(const recipe::MmeDesc& mme, const recipe::Operand& strided);
  void fillRandom(const recipe::Operand& operand, Random& random, int64_t lo = -4, int64_t hi = 4);
  std::byte* at(const recipe::Operand& operand);
  float get(const recipe::Operand& operand, const std::vector<int64_t>& index);

  uint32_t addMme(const recipe::MmeDesc& mme, const std::string& name = "mme");
  uint32_t addKernel(HpuKernelFn function, uint32_t inputs, uint32_t outputs, uint32_t rank, uint32_t wholeDims = 0,
                     uint64_t scratchBytes = 0);
  uint32_t addTpc(uint32_t kernel, std::vector<recipe::Operand> inputs, std::vector<recipe::Operand> outputs);
  uint32_t addDma(const recipe::DmaDesc& dma);
  void addBundle(std::vector<uint32_t> ops);
  /// Commands that run `op` of bundle `bundle` in slices of `tile` along `dim`.
  void addSlices(uint32_t bundle, uint32_t op, uint32_t dim, int64_t tile);

  StatusOr<std::unique_ptr<ProgramExecutor>> executor(int threads);
  /// Creates and runs; the test fails when either does.
  void run(int threads = 2);

  recipe::Program program;
  std::vector<std::vector<std::byte>> memory;
  bool packedIsConstant = false;  ///< Packed operands are constants of the program, not only memory.

 private:
  std::vector<HpuKernelFn> functions_;
};

/// What C must hold: products summed in f64.
std::vector<float> referenceMme(TestProgram& program, const recipe::MmeDesc& mme);
/// Compares C with the reference and everything around it with what was there before.
void expectMme(TestProgram& program, const recipe::MmeDesc& mme, const std::string& what);

}  // namespace hpu::sim::testing
