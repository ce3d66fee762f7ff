/* SPDX-License-Identifier: Apache-2.0 */
/* The parameter header as a C11 program uses it. */
#include "habanalabs/perf_lib_layer_params.h"

unsigned hpuTestFillSgd(void* out);
unsigned hpuTestFillNorm(void* out);

unsigned hpuTestFillSgd(void* out) {
  ns_OptimizerSGD_Params params = {.wd = 0.5f, .mom = 0.25f, .damp = 2.0f, .nesterov = true};
  *(ns_OptimizerSGD_Params*)out = params;
  return sizeof params;
}

unsigned hpuTestFillNorm(void* out) {
  ns_LayerNormKernel_ParamsPt params = {
      .epsValid = true, .eps = 1e-3f, .NormAxisBmp = 5, .ParamAxisBmp = 6, .normalizedShapeDims = 7};
  *(ns_LayerNormKernel_ParamsPt*)out = params;
  return sizeof params;
}
