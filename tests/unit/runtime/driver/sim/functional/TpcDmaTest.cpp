// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "Reference.h"

namespace hpu::sim::testing {
namespace {

using recipe::Operand;

// What the kernels below were called with.
std::atomic<int> calls{0};
std::atomic<int64_t> longestRow{0};
std::atomic<int> unalignedScratch{0};
std::vector<int64_t> outStrides;

/// out[p] += 1 for each point of the box: every point must be visited once.
void countPoints(const HpuKernelArgs* args) {
  ++calls;
  if (reinterpret_cast<uintptr_t>(args->scratch) % 64) ++unalignedScratch;
  static_cast<char*>(args->scratch)[999] = 1;
  size_t rank = outStrides.size();
  std::vector<int64_t> box(rank);
  for (size_t d = 0; d < rank; ++d) box[d] = args->hi[d] - args->lo[d];
  int64_t seen = longestRow;
  while (seen < box[rank - 1] && !longestRow.compare_exchange_weak(seen, box[rank - 1])) {
  }
  forEachPoint(box, [&](const std::vector<int64_t>& p) {
    int64_t at = 0;
    for (size_t d = 0; d < rank; ++d) at += (p[d] + args->lo[d]) * outStrides[d];
    static_cast<float*>(args->buffers[1])[at] += 1;
  });
}

void expectEveryPointOnce(std::vector<int64_t> sizes, std::vector<int> order, uint32_t wholeDims) {
  TestProgram program;
  Operand in = program.tensor(ElementType::kF32, sizes);
  Operand out = program.tensor(ElementType::kF32, sizes, std::move(order));
  Random random(1);
  program.fillRandom(out, random, 0, 0);
  outStrides = out.strides;
  calls = 0;
  longestRow = 0;
  unalignedScratch = 0;
  program.addTpc(program.addKernel(countPoints, 1, 1, static_cast<uint32_t>(sizes.size()), wholeDims, 1000), {in},
                 {out});
  program.run(2);
  size_t wrong = 0;
  forEachPoint(sizes, [&](const std::vector<int64_t>& p) { wrong += program.get(out, p) != 1.0f; });
  EXPECT_EQ(wrong, 0u) << shapeToString(sizes);
  EXPECT_EQ(unalignedScratch, 0);
}

TEST(TpcUnit, VisitsEveryPointOnce) {
  expectEveryPointOnce({7}, {}, 0);
  expectEveryPointOnce({200000}, {}, 0);
  EXPECT_GT(calls, 1);
  expectEveryPointOnce({1, 64, 56, 57}, {0, 2, 3, 1}, 0);
  EXPECT_GT(calls, 1);
  expectEveryPointOnce({3, 5, 7, 11, 13, 2}, {5, 3, 1, 0, 2, 4}, 0);
  expectEveryPointOnce({2, 2, 50000}, {}, 0);
}

TEST(TpcUnit, KeepsWholeDimensionsWhole) {
  expectEveryPointOnce({2, 100000}, {}, 2);
  EXPECT_EQ(longestRow, 100000);
  EXPECT_EQ(calls, 2);
  expectEveryPointOnce({300, 1000}, {}, 3);
  EXPECT_EQ(calls, 1);
}

TEST(TpcUnit, SplitsByWhatAReductionReads) {
  // 2048 points, but each stands for 49 input elements.
  TestProgram program;
  Operand in = program.tensor(ElementType::kF32, {1, 2048, 7, 7}, {0, 2, 3, 1});
  Operand out = program.tensor(ElementType::kF32, {1, 2048, 1, 1});
  Random random(1);
  program.fillRandom(out, random, 0, 0);
  outStrides = out.strides;
  calls = 0;
  program.addTpc(program.addKernel(countPoints, 1, 1, 4, 0, 1000), {in}, {out});
  program.run(2);
  EXPECT_GT(calls, 1);
}

std::vector<int64_t> seenDims;

void noteDims(const HpuKernelArgs* args) {
  if (args->dims) seenDims.assign(args->dims, args->dims + 2);
}

TEST(TpcUnit, GivesKernelsTheirSizes) {
  TestProgram program;
  Operand in = program.tensor(ElementType::kF32, {3}), out = program.tensor(ElementType::kF32, {3});
  const uint32_t kernel = program.addKernel(noteDims, 1, 1, 1);
  program.program.kernels[kernel].dims = {5, 1000};
  program.addTpc(kernel, {in}, {out});
  program.run(1);
  EXPECT_EQ(seenDims, (std::vector<int64_t>{5, 1000}));
}

template <typename T>
T element(TestProgram& program, const Operand& operand, const std::vector<int64_t>& p) {
  T value;
  std::memcpy(&value, program.at(operand) + elementIndex(operand, p) * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

template <typename T>
void checkCopy(ElementType type, uint32_t seed) {
  Random random(seed);
  size_t rank = static_cast<size_t>(pick(random, 1, 5));
  std::vector<int64_t> sizes(rank);
  std::vector<int> srcOrder(rank), dstOrder(rank);
  for (size_t d = 0; d < rank; ++d) {
    sizes[d] = pick(random, 1, rank > 3 ? 12 : 70);
    srcOrder[d] = dstOrder[d] = static_cast<int>(d);
  }
  std::shuffle(srcOrder.begin(), srcOrder.end(), random);
  std::shuffle(dstOrder.begin(), dstOrder.end(), random);
  if (pick(random, 0, 2) == 0) {  // Both have the same short runs.
    for (auto* order : {&srcOrder, &dstOrder})
      std::swap(*std::find(order->begin(), order->end(), static_cast<int>(rank) - 1), order->back());
    sizes[rank - 1] = pick(random, 1, 8);
  }
  TestProgram program;
  recipe::DmaDesc dma;
  dma.dst = program.tensor(type, sizes, dstOrder, pick(random, 0, 3));
  dma.fill = pick(random, 0, 3) == 0;
  dma.fillPattern = 0x1122334455667788ull >> (64 - 8 * sizeof(T));
  dma.src = program.tensor(type, sizes, srcOrder, pick(random, 0, 3));
  for (std::byte& byte : program.memory[dma.src.section]) byte = static_cast<std::byte>(pick(random, 0, 255));
  for (size_t d = 0; d < rank; ++d)
    if (pick(random, 0, 4) == 0) dma.src.strides[d] = 0;  // Broadcast.
  if (dma.fill) dma.src = {};
  program.addDma(dma);
  std::vector<std::byte> expected = program.memory[dma.dst.section];
  forEachPoint(sizes, [&](const std::vector<int64_t>& p) {
    T value = dma.fill ? static_cast<T>(dma.fillPattern) : element<T>(program, dma.src, p);
    std::memcpy(expected.data() + dma.dst.offset + elementIndex(dma.dst, p) * static_cast<int64_t>(sizeof(T)), &value,
                sizeof(T));
  });
  program.run(2);
  EXPECT_TRUE(expected == program.memory[dma.dst.section]) << shapeToString(sizes) << " seed " << seed;
}

TEST(DmaUnit, CopiesAndFillsAnyViews) {
  for (uint32_t seed = 0; seed < 150 && !::testing::Test::HasFailure(); ++seed) {
    checkCopy<uint8_t>(ElementType::kI8, seed);
    checkCopy<uint16_t>(ElementType::kBF16, seed);
    checkCopy<uint32_t>(ElementType::kF32, seed);
    checkCopy<uint64_t>(ElementType::kI64, seed);
  }
}

}  // namespace
}  // namespace hpu::sim::testing
