// SPDX-License-Identifier: Apache-2.0
// Packed products are proven equal to plain ones by building the packed convolution's weights and computing both.
#include "recipe/MmePacking.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "SampleProgram.h"

namespace hpu::recipe {
namespace {

using testing::denseOperand;
using ::testing::HasSubstr;

Operand channelsLast(std::vector<int64_t> sizes) {
  Operand operand = denseOperand(0, 0, ElementType::kF32, sizes);
  operand.strides = {sizes[1] * sizes[2] * sizes[3], 1, sizes[1] * sizes[3], sizes[1]};
  return operand;
}

/// One row of one channel: all that packing is about.
MmeDesc rowConv(MmeKind kind, int64_t in, int64_t window, int64_t stride, int64_t dilation, int64_t pad) {
  MmeDesc mme;
  mme.kind = kind;
  mme.packing = BPacking::kBlocked;
  mme.strides[1] = stride;
  mme.dilations[1] = dilation;
  mme.padBegin[1] = pad;
  const int64_t reach = (window - 1) * dilation;
  int64_t out = kind == MmeKind::kConv2d ? (in + pad - reach - 1) / stride + 1 : (in - 1) * stride + reach + 1 - pad;
  mme.a = channelsLast({1, 1, 1, in});
  mme.b = denseOperand(0, 0, ElementType::kF32, {1, 1, 1, window});
  mme.c = channelsLast({1, 1, 1, out});
  return mme;
}

int64_t value(int64_t i) {
  return (i * 37 + 11) % 101 - 50;
}
int64_t weight(int64_t i) {
  return (i * 53 + 7) % 89 + 1;
}

int64_t input(const MmeDesc& mme, int64_t i) {
  return i < 0 || i >= mme.a.sizes[3] ? 0 : value(i);
}

/// What output pixel o is, by the definition of the op.
int64_t plainPixel(const MmeDesc& mme, int64_t o) {
  int64_t sum = 0;
  for (int64_t k = 0; k < mme.b.sizes[3]; ++k) {
    if (mme.kind == MmeKind::kConv2d) {
      sum += weight(k) * input(mme, o * mme.strides[1] + k * mme.dilations[1] - mme.padBegin[1]);
    } else {
      const int64_t scaled = o + mme.padBegin[1] - k;
      if (scaled % mme.strides[1] == 0) sum += weight(k) * input(mme, scaled / mme.strides[1]);
    }
  }
  return sum;
}

TEST(MmePacking, APackedConvolutionHasTheSamePixels) {
  int cases = 0;
  for (int64_t window : {1, 2, 3, 5, 7})
    for (int64_t stride : {1, 2, 3, 4})
      for (int64_t dilation : {1, 2, 3, 6})
        for (int64_t pad : {0, 1, 3})
          for (int64_t factor : {2, 3, 4, 8}) {
            MmeDesc mme = rowConv(MmeKind::kConv2d, 97, window, stride, dilation, pad);
            ASSERT_EQ(packingObstacle(mme, factor), "");
            mme.packingFactor = factor;
            // The packed convolution: stride factor * stride, packedTaps taps at a distance of `step`.
            const int64_t step = std::gcd(stride, window > 1 ? dilation : stride), taps = packedTaps(mme);
            std::vector<std::vector<int64_t>> weights(factor, std::vector<int64_t>(taps, 0));
            for (int64_t i = 0; i < factor; ++i)
              for (int64_t k = 0; k < window; ++k) {
                const int64_t at = i * stride + k * dilation;
                ASSERT_EQ(at % step, 0);
                ASSERT_LT(at / step, taps);
                weights[i][at / step] = weight(k);
              }
            ASSERT_TRUE(weights[factor - 1][taps - 1] && weights[0][0]) << "a tap too many";
            for (int64_t o = 0; o < mme.c.sizes[3]; ++o) {
              int64_t sum = 0;
              for (int64_t t = 0; t < taps; ++t)
                sum += weights[o % factor][t] * input(mme, o / factor * factor * stride + t * step - pad);
              ASSERT_EQ(sum, plainPixel(mme, o));
            }
            ++cases;
          }
  EXPECT_EQ(cases, 5 * 4 * 4 * 3 * 4);
}

TEST(MmePacking, APackedTransposedConvolutionHasTheSamePixels) {
  for (int64_t window : {1, 2, 3, 4, 5, 7})
    for (int64_t stride : {1, 2, 3})
      for (int64_t pad : {0, 1, 2})
        for (int64_t times : {1, 2, 3}) {
          const int64_t factor = times * stride;
          MmeDesc mme = rowConv(MmeKind::kConvTranspose2d, 23, window, stride, 1, pad);
          if (factor == 1) continue;
          ASSERT_EQ(packingObstacle(mme, factor), "");
          mme.packingFactor = factor;
          const int64_t taps = packedTaps(mme);
          // Every group of pixels must look at the same inputs, counted from its own start, with the same weights.
          int64_t first = INT64_MAX, last = INT64_MIN;
          std::map<std::pair<int64_t, int64_t>, int64_t> weights;
          for (int64_t i = 0; i < factor; ++i)
            for (int64_t k = 0; k < window; ++k) {
              if ((i + pad - k) % stride != 0) continue;
              const int64_t j = (i + pad - k) / stride;
              weights[{i, j}] = weight(k);
              first = std::min(first, j);
              last = std::max(last, j);
            }
          ASSERT_EQ(last - first + 1, taps) << window << " " << stride << " " << pad << " " << factor;
          for (int64_t o = 0; o < mme.c.sizes[3]; ++o) {
            int64_t sum = 0;
            for (int64_t j = first; j <= last; ++j) {
              auto found = weights.find({o % factor, j});
              if (found != weights.end()) sum += found->second * input(mme, o / factor * times + j);
            }
            ASSERT_EQ(sum, plainPixel(mme, o));
          }
        }
}

TEST(MmePacking, WeightsGrowByTheirZeros) {
  MmeDesc mme = rowConv(MmeKind::kConv2d, 56, 3, 1, 1, 1);
  mme.a = channelsLast({2, 64, 56, 56});
  mme.b = denseOperand(0, 0, ElementType::kF32, {64, 64, 3, 3});
  mme.c = channelsLast({2, 64, 56, 56});
  EXPECT_EQ(packedWeightBytes(mme), 4 * 64 * 64 * 9);
  mme.packingFactor = 2;
  EXPECT_EQ(packedWeightBytes(mme), 4 * 64 * 128 * 3 * 4);
  mme.kind = MmeKind::kConvTranspose2d;
  mme.strides[0] = mme.strides[1] = 2;
  mme.padBegin[1] = 0;
  mme.b = denseOperand(0, 0, ElementType::kF32, {64, 64, 2, 2});
  // Both pixels of a pair see one input: no zeros at all.
  EXPECT_EQ(packedTaps(mme), 1);
  EXPECT_EQ(packedWeightBytes(mme), 4 * 64 * 64 * 4);
  MmeDesc gemm;
  gemm.packing = BPacking::kBlocked;
  gemm.a = denseOperand(0, 0, ElementType::kBF16, {8, 100, 64});
  gemm.b = denseOperand(0, 0, ElementType::kBF16, {1, 64, 64});
  gemm.c = denseOperand(0, 0, ElementType::kBF16, {8, 100, 64});
  gemm.packingFactor = 2;
  EXPECT_EQ(packingObstacle(gemm, 2), "");
  EXPECT_EQ(packedTaps(gemm), 2);
  EXPECT_EQ(packedWeightBytes(gemm), 2 * 128 * 128);
}

TEST(MmePacking, SaysWhyAProductCannotBePacked) {
  const MmeDesc conv = rowConv(MmeKind::kConv2d, 56, 3, 1, 1, 1);
  auto why = [](MmeDesc mme, auto change, int64_t factor = 2) {
    change(mme);
    return packingObstacle(mme, factor);
  };
  EXPECT_EQ(why(conv, [](MmeDesc&) {}), "");
  EXPECT_EQ(why(conv, [](MmeDesc& m) { m.packing = BPacking::kStrided; }, 1), "");
  EXPECT_THAT(why(conv, [](MmeDesc& m) { m.packing = BPacking::kStrided; }), HasSubstr("not a packed constant"));
  EXPECT_THAT(why(conv, [](MmeDesc& m) { m.groups = 2; }), HasSubstr("has 2 groups"));
  EXPECT_EQ(why(conv, [](MmeDesc& m) { m.c.strides[3] = 2; }), "");  // Within a concatenation.
  EXPECT_THAT(why(conv,
                  [](MmeDesc& m) {
                    m.c.sizes[1] = 3;  // Channels first: a pixel's channels lie apart.
                    m.c.strides = {3 * 56, 56, 56, 1};
                  }),
              HasSubstr("channels last"));
  EXPECT_THAT(why(conv, [](MmeDesc& m) { m.c.sizes[3] = 3; }, 4), HasSubstr("a row has 3 pixels"));
  for (int64_t factor : {int64_t{0}, int64_t{-2}, int64_t{65}, INT64_MAX, INT64_MIN})
    EXPECT_THAT(why(conv, [](MmeDesc&) {}, factor), HasSubstr("is not in 1..64"));
  EXPECT_THAT(why(conv,
                  [](MmeDesc& m) {
                    m.strides[1] = int64_t{1} << 31;
                    m.a.sizes[1] = m.c.sizes[1] = m.c.strides[3] = int64_t{1} << 30;
                  }),
              HasSubstr("2^44 bytes"));
  auto transposed = [](MmeDesc& m) {
    m.kind = MmeKind::kConvTranspose2d;
    m.strides[1] = 2;
  };
  EXPECT_EQ(why(conv, transposed), "");
  EXPECT_THAT(why(conv, transposed, 3), HasSubstr("no multiple"));
  EXPECT_THAT(why(conv, [&](MmeDesc& m) { transposed(m), m.dilations[1] = 2; }), HasSubstr("dilated"));
  MmeDesc gemm;
  gemm.packing = BPacking::kBlocked;
  gemm.a = denseOperand(0, 0, ElementType::kF32, {2, 16, 8});
  gemm.b = denseOperand(0, 0, ElementType::kF32, {1, 8, 4});
  gemm.c = denseOperand(0, 0, ElementType::kF32, {2, 16, 4});
  EXPECT_EQ(why(gemm, [](MmeDesc&) {}), "");
  EXPECT_THAT(why(gemm, [](MmeDesc& m) { m.b.sizes[0] = 2; }), HasSubstr("does not share b"));
  EXPECT_THAT(why(gemm, [](MmeDesc& m) { m.a.strides[1] = 16; }), HasSubstr("rows of a"));
  EXPECT_THAT(why(gemm, [](MmeDesc& m) { m.c.strides[2] = 2; }), HasSubstr("rows of c"));
}

}  // namespace
}  // namespace hpu::recipe
