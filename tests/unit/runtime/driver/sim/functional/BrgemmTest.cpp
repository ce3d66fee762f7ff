// SPDX-License-Identifier: Apache-2.0
#include "runtime/driver/sim/functional/Brgemm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>

#include "Reference.h"
#include "base/CpuFeatures.h"
#include "tests/unit/base/ForkOften.h"

namespace hpu::sim::testing {
namespace {

TEST(Brgemm, SumsBatchesOfOffsetMatrices) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    Random random(seed);
    BrgemmShape shape;
    shape.rows = pick(random, 1, 70);
    shape.columns = pick(random, 1, 64);
    shape.depth = pick(random, 1, 50);
    shape.aStride = shape.depth + pick(random, 0, 9);
    shape.bStride = shape.columns + pick(random, 0, 9);
    shape.cStride = shape.columns + pick(random, 0, 9);
    shape.accumulate = pick(random, 0, 1);
    auto batches = static_cast<uint64_t>(pick(random, 1, 5));
    std::vector<float> a(8000), b(8000), c(8000);
    for (auto* list : {&a, &b, &c})
      for (float& value : *list) value = static_cast<float>(pick(random, -3, 3));
    std::vector<uint64_t> aOffsets, bOffsets;
    for (uint64_t t = 0; t < batches; ++t) {
      aOffsets.push_back(4 * static_cast<uint64_t>(pick(random, 0, 500)));
      bOffsets.push_back(4 * static_cast<uint64_t>(pick(random, 0, 500)));
    }
    std::vector<float> expected = c;
    for (int64_t i = 0; i < shape.rows; ++i)
      for (int64_t j = 0; j < shape.columns; ++j) {
        float sum = shape.accumulate ? c[static_cast<size_t>(i * shape.cStride + j)] : 0.0f;
        for (uint64_t t = 0; t < batches; ++t)
          for (int64_t k = 0; k < shape.depth; ++k)
            sum += a[aOffsets[t] / 4 + static_cast<size_t>(i * shape.aStride + k)] *
                   b[bOffsets[t] / 4 + static_cast<size_t>(k * shape.bStride + j)];
        expected[static_cast<size_t>(i * shape.cStride + j)] = sum;
      }
    auto savedA = aOffsets, savedB = bOffsets;
    Brgemm::get(shape)(a.data(), b.data(), c.data(), batches, aOffsets.data(), bOffsets.data());
    EXPECT_TRUE(c == expected) << "seed " << seed;
    EXPECT_TRUE(aOffsets == savedA && bOffsets == savedB) << "a kernel must not write its offsets";
  }
}

/// Numbers whose sums round, so that another order would be seen.
TEST(Brgemm, AddsTheProductsOfAnElementInTheirOrder) {
  auto cpu = base::usableCpuLevel();
  ASSERT_TRUE(cpu.ok());
  const bool fused = *cpu >= base::CpuLevel::kV3;
  Random random(7);
  std::vector<float> a(40000), b(40000);
  for (auto* list : {&a, &b})
    for (float& value : *list) value = static_cast<float>(pick(random, -1000000, 1000000)) / 777777.0f;
  const uint64_t aOffsets[] = {0, 400, 36}, bOffsets[] = {64, 0, 1024};
  // Every number of rows and columns that a kernel may treat apart.
  for (int64_t rows = 1; rows <= 34; ++rows)
    for (int64_t columns : {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 48, 63, 64})
      for (int64_t depth : {1, 2, 7, 33, 128})
        for (uint64_t count : {1, 3})
          for (bool accumulate : {false, true}) {
            const BrgemmShape shape{rows, columns, depth, depth + 3, columns + 1, columns + 2, accumulate};
            std::vector<float> c(static_cast<size_t>(rows * shape.cStride), 0.3f), expected = c;
            for (int64_t i = 0; i < rows; ++i)
              for (int64_t j = 0; j < columns; ++j) {
                float& sum = expected[static_cast<size_t>(i * shape.cStride + j)];
                if (!accumulate) sum = 0;
                for (uint64_t t = 0; t < count; ++t)
                  for (int64_t k = 0; k < depth; ++k) {
                    const float x = a[aOffsets[t] / 4 + static_cast<size_t>(i * shape.aStride + k)];
                    const float y = b[bOffsets[t] / 4 + static_cast<size_t>(k * shape.bStride + j)];
                    sum = fused ? std::fma(x, y, sum) : sum + x * y;
                  }
              }
            Brgemm::get(shape)(a.data(), b.data(), c.data(), count, aOffsets, bOffsets);
            ASSERT_TRUE(c == expected) << rows << " rows, " << columns << " columns, depth " << depth << ", " << count
                                       << " matrices, accumulate " << accumulate;
          }
}

TEST(Brgemm, IsJittedOnCpusThatAllow) {
  Brgemm kernel = Brgemm::get({28, 64, 64, 64, 64, 64, false});
  auto cpu = base::usableCpuLevel();
  ASSERT_TRUE(cpu.ok());
  EXPECT_EQ(kernel.isJitted(), *cpu >= base::CpuLevel::kV3);
}

TEST(Brgemm, AForkedChildOfBusyThreadsMakesKernels) {
  if (!base::kMayForkWhenBusy) GTEST_SKIP() << "not under a sanitizer";
  static std::atomic<int64_t> rows{1000};
  auto make = [] {
    BrgemmShape shape;
    shape.rows = ++rows % 2000 + 1;
    shape.columns = shape.bStride = shape.cStride = 8;
    shape.depth = shape.aStride = 3;
    (void)Brgemm::get(shape);
  };
  base::BusyThreads threads({make, make});
  base::forkOften(100, [] {
    BrgemmShape shape;
    shape.rows = 2;
    shape.columns = shape.bStride = shape.cStride = 3;
    shape.depth = shape.aStride = 1;
    const float a[] = {2, 3}, b[] = {5, 7, 11};
    float c[6];
    const uint64_t offset = 0;
    Brgemm::get(shape)(a, b, c, 1, &offset, &offset);
    const float expected[] = {10, 14, 22, 15, 21, 33};
    return std::equal(c, c + 6, expected) ? 0 : 1;
  });
}

}  // namespace
}  // namespace hpu::sim::testing
