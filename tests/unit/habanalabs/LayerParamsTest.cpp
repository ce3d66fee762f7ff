// SPDX-License-Identifier: Apache-2.0
// What C fills in is what C++ reads.
#include <gtest/gtest.h>

#include "habanalabs/perf_lib_layer_params.h"

extern "C" unsigned hpuTestFillSgd(void* out);
extern "C" unsigned hpuTestFillNorm(void* out);

TEST(LayerParams, PlainStructureFromCReadsTheSameInCpp) {
  ns_OptimizerSGD::Params params{};
  ASSERT_EQ(hpuTestFillSgd(&params), sizeof params);
  EXPECT_EQ(params.wd, 0.5f);
  EXPECT_EQ(params.mom, 0.25f);
  EXPECT_EQ(params.damp, 2.0f);
  EXPECT_TRUE(params.nesterov);
}

TEST(LayerParams, DerivedStructureFromCReadsTheSameInCpp) {
  ns_LayerNormKernel::ParamsPt params{};
  ASSERT_EQ(hpuTestFillNorm(&params), sizeof params);
  EXPECT_TRUE(params.epsValid);
  EXPECT_EQ(params.eps, 1e-3f);
  EXPECT_EQ(params.NormAxisBmp, 5);
  EXPECT_EQ(params.ParamAxisBmp, 6);
  EXPECT_EQ(params.normalizedShapeDims, 7u);
}
