// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <sstream>

#include "Reference.h"
#include "runtime/driver/sim/functional/Brgemm.h"
#include "runtime/driver/sim/functional/Contraction.h"

namespace hpu::sim::testing {
namespace {

using recipe::BPacking;
using recipe::MmeDesc;
using recipe::MmeKind;

std::vector<int> shuffled(Random& random, size_t rank) {
  std::vector<int> order(rank);
  for (size_t i = 0; i < rank; ++i) order[i] = static_cast<int>(i);
  std::shuffle(order.begin(), order.end(), random);
  return order;
}

std::string describe(const MmeDesc& mme) {
  std::ostringstream text;
  auto list = [&](const char* name, const std::vector<int64_t>& values) {
    text << " " << name << "=" << shapeToString(values);
  };
  text << "kind " << static_cast<int>(mme.kind) << " packing " << static_cast<int>(mme.packing) << " "
       << elementTypeName(mme.a.type) << "->" << elementTypeName(mme.c.type);
  list("a", mme.a.sizes), list("as", mme.a.strides), list("b", mme.b.sizes), list("bs", mme.b.strides);
  list("c", mme.c.sizes), list("cs", mme.c.strides);
  text << " stride " << mme.strides[0] << "," << mme.strides[1] << " dilation " << mme.dilations[0] << ","
       << mme.dilations[1] << " pad " << mme.padBegin[0] << "," << mme.padBegin[1] << ".." << mme.padEnd[0] << ","
       << mme.padEnd[1] << " groups " << mme.groups;
  return text.str();
}

void pickTypes(Random& random, MmeDesc& mme) {
  constexpr ElementType kFactors[] = {ElementType::kF32,    ElementType::kF32,       ElementType::kBF16,
                                      ElementType::kBF16,   ElementType::kF16,       ElementType::kF8E4M3,
                                      ElementType::kF8E5M2, ElementType::kF8E4M3Ieee};
  constexpr ElementType kProducts[] = {ElementType::kF32, ElementType::kBF16, ElementType::kF16};
  mme.a.type = mme.b.type = kFactors[pick(random, 0, 7)];
  mme.c.type = kProducts[pick(random, 0, 2)];
  mme.packing = pick(random, 0, 1) ? BPacking::kBlocked : BPacking::kStrided;
}

/// Makes the operands of `mme` (whose sizes and types are set), runs it and compares.
void check(MmeDesc mme, Random& random, bool shuffle, const std::vector<bool>& sharedB = {}) {
  TestProgram program;
  program.packedIsConstant = pick(random, 0, 1) == 1;
  auto make = [&](const recipe::Operand& o) {
    return program.tensor(o.type, o.sizes, shuffle ? shuffled(random, o.sizes.size()) : std::vector<int>{},
                          shuffle ? pick(random, 0, 2) : 0);
  };
  mme.a = make(mme.a);
  std::vector<int64_t> bSizes = mme.b.sizes;
  for (size_t d = 0; d < sharedB.size(); ++d)
    if (sharedB[d]) mme.b.sizes[d] = 1;
  mme.b = make(mme.b);
  mme.c = make(mme.c);
  program.fillRandom(mme.a, random);
  program.fillRandom(mme.b, random);
  if (mme.packing == BPacking::kStrided) {
    for (size_t d = 0; d < sharedB.size(); ++d)
      if (sharedB[d]) mme.b.strides[d] = 0;
    mme.b.sizes = bSizes;
    expectMme(program, mme, describe(mme));
    return;
  }
  // A packed operand says with size 1 that batches share it.
  MmeDesc reference = mme;
  reference.b.sizes = bSizes;
  for (size_t d = 0; d < sharedB.size(); ++d)
    if (sharedB[d]) reference.b.strides[d] = 0;
  std::vector<float> expected = referenceMme(program, reference);
  MmeDesc run = mme;
  run.b = program.packed(mme, mme.b);
  program.addMme(run);
  std::vector<std::byte> before = program.memory[mme.c.section];
  program.run();
  size_t i = 0;
  forEachPoint(mme.c.sizes, [&](const std::vector<int64_t>& p) {
    writeElement(before.data() + mme.c.offset, mme.c.type, elementIndex(mme.c, p), expected[i++]);
  });
  EXPECT_TRUE(before == program.memory[mme.c.section]) << describe(run);
}

TEST(Mme, MultipliesMatricesOfAnyShapeStrideAndType) {
  for (uint32_t seed = 0; seed < 300 && !::testing::Test::HasFailure(); ++seed) {
    Random random(seed);
    MmeDesc mme;
    pickTypes(random, mme);
    int64_t batches = pick(random, 0, 3);
    std::vector<int64_t> batch;
    std::vector<bool> shared;
    for (int64_t i = 0; i < batches; ++i) {
      batch.push_back(pick(random, 1, 4));
      shared.push_back(pick(random, 0, 1) == 1);
    }
    int64_t m = pick(random, 1, 90), n = pick(random, 1, 150), k = pick(random, 1, 70);
    if (pick(random, 0, 3) == 0) m = 1;
    if (pick(random, 0, 5) == 0) n = 1;
    if (pick(random, 0, 5) == 0) k = 1;
    auto with = [&](int64_t x, int64_t y) {
      std::vector<int64_t> sizes = batch;
      sizes.push_back(x);
      sizes.push_back(y);
      return sizes;
    };
    mme.a.sizes = with(m, k);
    mme.b.sizes = with(k, n);
    mme.c.sizes = with(m, n);
    check(mme, random, pick(random, 0, 1) == 1, shared);
  }
}

TEST(Mme, SplitsDeepReductionsAndManyRows) {
  // Depth beyond one pass of the panel, more rows than a block, rows left over.
  const int64_t shapes[][3] = {{33, 6000, 70}, {200, 2700, 65}, {1500, 40, 200}, {65, 5121, 10}, {1, 9000, 130}};
  for (const auto& [m, k, n] : shapes) {
    for (int variant = 0; variant < 4; ++variant) {
      Random random(static_cast<uint32_t>(m + variant));
      MmeDesc mme;
      mme.a.type = mme.b.type = variant & 1 ? ElementType::kF32 : ElementType::kBF16;
      mme.c.type = ElementType::kF32;
      mme.packing = variant & 2 ? BPacking::kBlocked : BPacking::kStrided;
      mme.a.sizes = {m, k};
      mme.b.sizes = {k, n};
      mme.c.sizes = {m, n};
      check(mme, random, false);
    }
  }
}

/// Of attention over a growing cache: code is made for parts of the depth, of which there are few.
TEST(Mme, DepthsOfGrowingSequencesShareKernels) {
  auto multiply = [](int64_t depth, int64_t rows, BPacking packing, ElementType type) {
    Random random(static_cast<uint32_t>(depth));
    MmeDesc mme;
    mme.a.type = mme.b.type = type;
    mme.c.type = ElementType::kF32;
    mme.packing = packing;
    mme.a.sizes = {rows, depth};
    mme.b.sizes = {depth, 24};
    mme.c.sizes = {rows, 24};
    check(mme, random, false);
  };
  for (int64_t depth : {65, 79, 81, 127, 129, 1001, 2559, 2561, 2625, 5183})
    for (int64_t rows : {1, 5, 70})
      for (BPacking packing : {BPacking::kStrided, BPacking::kBlocked})
        for (ElementType type : {ElementType::kF32, ElementType::kBF16}) multiply(depth, rows, packing, type);
  for (int64_t depth = 65; depth < 200; ++depth) multiply(depth, 1, BPacking::kStrided, ElementType::kF32);
  const size_t before = Brgemm::made();
  for (int64_t depth = 200; depth < 600; ++depth)
    if (depth % 16 != 0) multiply(depth, 1, BPacking::kStrided, ElementType::kF32);
  EXPECT_EQ(Brgemm::made(), before);
}

TEST(Mme, FoldsTransposesIntoStrides) {
  for (int variant = 0; variant < 16; ++variant) {
    Random random(static_cast<uint32_t>(variant));
    TestProgram program;
    MmeDesc mme;
    ElementType type = variant & 8 ? ElementType::kBF16 : ElementType::kF32;
    mme.a = program.tensor(type, {2, 100, 48}, variant & 1 ? std::vector<int>{0, 2, 1} : std::vector<int>{});
    mme.b = program.tensor(type, {2, 48, 130}, variant & 2 ? std::vector<int>{0, 2, 1} : std::vector<int>{});
    mme.c = program.tensor(type, {2, 100, 130}, variant & 4 ? std::vector<int>{0, 2, 1} : std::vector<int>{});
    program.fillRandom(mme.a, random, -2, 2);
    program.fillRandom(mme.b, random, -2, 2);
    expectMme(program, mme, describe(mme));
  }
}

MmeDesc randomConv(Random& random, MmeKind kind, int64_t maxDilation = 3) {
  MmeDesc mme;
  mme.kind = kind;
  pickTypes(random, mme);
  mme.groups = pick(random, 0, 2) ? 1 : pick(random, 1, 4);
  int64_t in = pick(random, 1, 20), out = pick(random, 1, 20);
  if (pick(random, 0, 2) == 0) out = pick(random, 60, 140);
  int64_t n = pick(random, 1, 3);
  bool transposed = kind == MmeKind::kConvTranspose2d;
  mme.b.sizes = {transposed ? in * mme.groups : out * mme.groups, transposed ? out : in, 0, 0};
  mme.a.sizes = {n, in * mme.groups, 0, 0};
  mme.c.sizes = {n, out * mme.groups, 0, 0};
  for (size_t i = 0; i < 2; ++i) {
    mme.strides[i] = pick(random, 0, 1) ? 1 : pick(random, 1, 4);
    mme.dilations[i] = pick(random, 0, 1) ? 1 : pick(random, 1, maxDilation);
    int64_t window = pick(random, 0, 2) ? pick(random, 1, 4) : 1;
    int64_t reach = (window - 1) * mme.dilations[i] + 1;
    mme.padBegin[i] = pick(random, 0, reach);
    mme.padEnd[i] = pick(random, 0, reach);
    int64_t size = pick(random, 1, 24);
    if (!transposed) {
      while (size + mme.padBegin[i] + mme.padEnd[i] < reach) ++size;
      mme.c.sizes[2 + i] = (size + mme.padBegin[i] + mme.padEnd[i] - reach) / mme.strides[i] + 1;
    } else {
      int64_t extra = pick(random, 0, std::max(mme.strides[i], mme.dilations[i]) - 1);
      for (;; ++size) {
        mme.c.sizes[2 + i] = (size - 1) * mme.strides[i] + reach - mme.padBegin[i] - mme.padEnd[i] + extra;
        if (mme.c.sizes[2 + i] >= 1) break;
      }
    }
    mme.a.sizes[2 + i] = size;
    mme.b.sizes[2 + i] = window;
  }
  return mme;
}

TEST(Mme, ConvolvesWithAnyWindowPaddingGroupsAndLayout) {
  for (uint32_t seed = 0; seed < 300 && !::testing::Test::HasFailure(); ++seed) {
    Random random(seed);
    MmeDesc mme = randomConv(random, MmeKind::kConv2d);
    check(mme, random, pick(random, 0, 1) == 1);
  }
}

TEST(Mme, ConvolvesTransposedWithAnyWindowPaddingGroupsAndLayout) {
  for (uint32_t seed = 1000; seed < 1300 && !::testing::Test::HasFailure(); ++seed) {
    Random random(seed);
    MmeDesc mme = randomConv(random, MmeKind::kConvTranspose2d);
    check(mme, random, pick(random, 0, 1) == 1);
  }
}

TEST(Mme, ConvolvesWithDilationsWiderThanTheImage) {
  for (uint32_t seed = 2000; seed < 2300 && !::testing::Test::HasFailure(); ++seed) {
    Random random(seed);
    MmeDesc mme = randomConv(random, pick(random, 0, 3) ? MmeKind::kConv2d : MmeKind::kConvTranspose2d, 30);
    check(mme, random, pick(random, 0, 1) == 1);
  }
}

TEST(Mme, LeavesOutTapsThatSeeOnlyPadding) {
  MmeDesc mme;
  mme.kind = MmeKind::kConv2d;
  mme.a.type = mme.b.type = mme.c.type = ElementType::kF32;
  mme.a.sizes = mme.c.sizes = {1, 4, 16, 16};
  mme.a.strides = mme.c.strides = {1024, 1, 64, 4};
  mme.b.sizes = {4, 4, 3, 3};
  mme.b.strides = {36, 9, 3, 1};
  auto taps = [&](int64_t dilation) {
    for (int i = 0; i < 2; ++i) mme.dilations[i] = mme.padBegin[i] = mme.padEnd[i] = dilation;
    auto made = makeContraction(mme, {0, 0, 0, 0}, mme.c.sizes);
    EXPECT_TRUE(made.ok());
    return made.ok() ? made->phases[0].taps.size() : 0;
  };
  EXPECT_EQ(taps(15), 9u);
  EXPECT_EQ(taps(16), 1u);
  // A slice of the lower rows still meets the row above it, but none below.
  auto slice = makeContraction(mme, {0, 0, 15, 0}, mme.c.sizes);
  ASSERT_TRUE(slice.ok());
  EXPECT_EQ(slice->phases[0].taps.size(), 1u);
  mme.dilations[0] = mme.padBegin[0] = mme.padEnd[0] = 15;
  slice = makeContraction(mme, {0, 0, 15, 0}, mme.c.sizes);
  ASSERT_TRUE(slice.ok());
  EXPECT_EQ(slice->phases[0].taps.size(), 2u);
}

TEST(Mme, ConvolvesChannelsLastLayersOfResNet) {
  struct Layer {
    int64_t size, in, out, window, stride, pad;
    bool planarInput;
  };
  const Layer layers[] = {{37, 3, 64, 7, 2, 3, true},    {14, 64, 64, 3, 1, 1, false},  {14, 64, 256, 1, 1, 0, false},
                          {14, 256, 64, 1, 2, 0, false}, {14, 32, 128, 3, 2, 1, false}, {7, 512, 64, 3, 1, 1, false},
                          {30, 1, 70, 5, 1, 2, true},    {9, 4, 130, 3, 1, 1, false},   {16, 96, 64, 3, 1, 12, false},
                          {16, 20, 130, 3, 1, 11, true}};
  for (const Layer& l : layers) {
    for (int weights = 0; weights < 3; ++weights) {
      const bool packed = weights > 0;
      Random random(static_cast<uint32_t>(l.in + l.out));
      TestProgram program;
      program.packedIsConstant = weights == 2;
      MmeDesc mme;
      mme.kind = MmeKind::kConv2d;
      mme.packing = packed ? BPacking::kBlocked : BPacking::kStrided;
      std::vector<int> last{0, 2, 3, 1};
      // Atrous layers keep the image's size.
      const int64_t dilation = l.pad > l.window ? l.pad : 1;
      int64_t out = (l.size + 2 * l.pad - (l.window - 1) * dilation - 1) / l.stride + 1;
      mme.a = program.tensor(ElementType::kF32, {1, l.in, l.size, l.size}, l.planarInput ? std::vector<int>{} : last);
      mme.b = program.tensor(ElementType::kF32, {l.out, l.in, l.window, l.window});
      mme.c = program.tensor(ElementType::kF32, {1, l.out, out, out}, last);
      for (int i = 0; i < 2; ++i) {
        mme.strides[i] = l.stride;
        mme.padBegin[i] = mme.padEnd[i] = l.pad;
        mme.dilations[i] = dilation;
      }
      program.fillRandom(mme.a, random);
      program.fillRandom(mme.b, random);
      expectMme(program, mme, describe(mme));
    }
  }
}

/// Weights that are inputs of the program: whole and part panels, windows of which few taps meet the image, all types.
TEST(Mme, PacksWindowsOfWeightsThatAreInputs) {
  uint32_t seed = 0;
  for (MmeKind kind : {MmeKind::kConv2d, MmeKind::kConvTranspose2d}) {
    for (ElementType type : {ElementType::kF32, ElementType::kBF16, ElementType::kF16, ElementType::kF8E5M2}) {
      for (int64_t size : {1, 2, 5}) {  // Of one or two pixels: only the middle of the window sees them.
        for (int64_t window : {2, 3, 5}) {
          for (const auto& [depth, columns] : std::vector<std::pair<int64_t, int64_t>>{
                   {1, 1}, {2, 7}, {17, 8}, {16, 15}, {3, 17}, {33, 64}, {20, 65}, {9, 131}}) {
            Random random(++seed);
            MmeDesc mme;
            mme.kind = kind;
            mme.a.type = mme.b.type = type;
            mme.c.type = ElementType::kF32;
            mme.a.sizes = {2, depth, size, size};
            mme.b.sizes = {columns, depth, window, window};
            if (kind == MmeKind::kConvTranspose2d) std::swap(mme.b.sizes[0], mme.b.sizes[1]);
            mme.c.sizes = {2, columns, size, size};
            for (int i = 0; i < 2; ++i) {
              mme.padBegin[i] = window / 2;
              mme.padEnd[i] = window - 1 - window / 2;
            }
            check(mme, random, false);
          }
        }
      }
    }
  }
}

TEST(Mme, TakesImagesTogetherWhereRowsAreShort) {
  uint32_t seed = 0;
  for (int64_t images : {1, 2, 7, 8, 9, 17, 70}) {
    for (int64_t out : {1, 2, 3}) {
      for (int64_t window : {2, 3, 9}) {
        for (int64_t stride : {1, 2}) {
          for (bool shuffle : {false, true}) {
            Random random(++seed);
            MmeDesc mme;
            pickTypes(random, mme);
            mme.kind = MmeKind::kConv2d;
            const int64_t pad = pick(random, 0, 1), depth = pick(random, 1, 20), columns = pick(random, 1, 70);
            const int64_t in = (out - 1) * stride + window - 2 * pad;
            if (in < 1) continue;
            mme.a.sizes = {images, depth, in, in};
            mme.b.sizes = {columns, depth, window, window};
            mme.c.sizes = {images, columns, out, out};
            for (int i = 0; i < 2; ++i) {
              mme.strides[i] = stride;
              mme.padBegin[i] = mme.padEnd[i] = pad;
            }
            check(mme, random, shuffle);
          }
        }
      }
    }
  }
}

/// The gradient of a convolution's weights: channels are the images, the batch is what is summed with the window.
TEST(Mme, SumsOverWindowsAsLargeAsImages) {
  for (ElementType type : {ElementType::kF32, ElementType::kBF16}) {
    for (const auto& [batch, channels, columns, size] :
         std::vector<std::array<int64_t, 4>>{{1, 1, 1, 3}, {2, 33, 16, 16}, {3, 12, 70, 8}, {17, 20, 5, 7}}) {
      Random random(static_cast<uint32_t>(batch + size));
      MmeDesc mme;
      mme.kind = MmeKind::kConv2d;
      for (int i = 0; i < 2; ++i) mme.padBegin[i] = mme.padEnd[i] = 1;
      // Activations and gradients lie channels-last: the batch is the slowest dimension, channels the fastest.
      TestProgram program;
      mme.a = program.tensor(type, {channels, batch, size, size}, {1, 2, 3, 0});
      mme.b = program.tensor(type, {columns, batch, size, size}, {1, 2, 3, 0});
      mme.c = program.tensor(ElementType::kF32, {channels, columns, 3, 3}, {0, 2, 3, 1});
      program.fillRandom(mme.a, random);
      program.fillRandom(mme.b, random);
      expectMme(program, mme, describe(mme));
    }
  }
}

TEST(Mme, ConvolvesDepthwise) {
  Random random(5);
  MmeDesc mme;
  mme.kind = MmeKind::kConv2d;
  mme.groups = 24;
  mme.a.type = mme.b.type = mme.c.type = ElementType::kF32;
  mme.a.sizes = {2, 24, 11, 13};
  mme.b.sizes = {48, 1, 3, 3};  // Two outputs a channel.
  mme.c.sizes = {2, 48, 11, 13};
  mme.padBegin[0] = mme.padBegin[1] = mme.padEnd[0] = mme.padEnd[1] = 1;
  for (BPacking packing : {BPacking::kStrided, BPacking::kBlocked}) {
    mme.packing = packing;
    check(mme, random, false);
    check(mme, random, true);
  }
}

TEST(Mme, GivesTheSameBitsForAnyNumberOfThreads) {
  Random random(9);
  TestProgram program;
  MmeDesc mme;
  mme.a = program.tensor(ElementType::kF32, {300, 700});
  mme.b = program.tensor(ElementType::kF32, {700, 333});
  mme.c = program.tensor(ElementType::kF32, {300, 333});
  for (const recipe::Operand* operand : {&mme.a, &mme.b})
    forEachPoint(operand->sizes, [&](const std::vector<int64_t>& p) {
      writeElement(program.at(*operand), ElementType::kF32, elementIndex(*operand, p),
                   std::uniform_real_distribution<float>(-1, 1)(random));
    });
  program.addMme(mme);
  std::vector<std::vector<std::byte>> results;
  for (int threads : {1, 2, 3, 7}) {
    program.run(threads);
    results.push_back(program.memory[mme.c.section]);
  }
  for (const auto& result : results) EXPECT_TRUE(result == results[0]);
  // Not exact here, but close to the sums in f64.
  std::vector<float> expected = referenceMme(program, mme);
  size_t i = 0;
  forEachPoint(mme.c.sizes,
               [&](const std::vector<int64_t>& p) { EXPECT_NEAR(program.get(mme.c, p), expected[i++], 2e-4); });
}

TEST(Mme, RefusesTypesItDoesNotMultiply) {
  TestProgram program;
  MmeDesc mme;
  mme.a = program.tensor(ElementType::kI32, {4, 4});
  mme.b = program.tensor(ElementType::kI32, {4, 4});
  mme.c = program.tensor(ElementType::kI32, {4, 4});
  program.addMme(mme, "integer product");
  auto executor = program.executor(1);
  ASSERT_FALSE(executor.ok());
  EXPECT_EQ(executor.status().code(), StatusCode::kUnimplemented);
  EXPECT_NE(executor.status().message().find("integer product"), std::string::npos);
}

TEST(Mme, AProductOverNothingIsZeros) {
  Random random(5);
  for (int64_t batch : {1, 3})
    for (ElementType type : {ElementType::kF32, ElementType::kBF16})
      for (int64_t rows : {1, 7, 200})
        for (int64_t columns : {1, 16, 130}) {
          TestProgram program;
          MmeDesc mme;
          // Operands of no bytes.
          mme.a = program.tensor(type, {1});
          mme.b = program.tensor(type, {1});
          mme.a.sizes = {batch, rows, 0};
          mme.a.strides = {0, 0, 1};
          mme.b.sizes = {batch, 0, columns};
          mme.b.strides = {0, columns, 1};
          mme.c = program.tensor(type, {batch, rows, columns}, {0, 2, 1});
          program.fillRandom(mme.c, random, 1, 4);
          program.addMme(mme);
          program.run(2);
          size_t wrong = 0;
          forEachPoint(mme.c.sizes, [&](const std::vector<int64_t>& p) { wrong += program.get(mme.c, p) != 0.0f; });
          EXPECT_EQ(wrong, 0u) << rows << " x " << columns;
        }
}

}  // namespace
}  // namespace hpu::sim::testing
