// SPDX-License-Identifier: Apache-2.0
// What rows of the table refuse, for people: the text of docs/aten-ops.md. A refused call runs on the CPU, and
// metrics.counts()["refused"] has the reason of each.
#include "pytorch/record/ops/Families.h"

namespace hpu_torch {

const std::vector<Limit>& opLimits() {
  static const auto& limits = *new std::vector<Limit>{
      {"_embedding_bag _embedding_bag_forward_only", "sparse gradients"},
      {"_cdist_forward _cdist_backward _pdist_forward _pdist_backward", "more than 2^26 differences"},
      {"_index_put_impl_", "a mask with other indices; sums of bool"},
      {"multilabel_margin_loss_forward multilabel_margin_loss_backward", "more than 2^26 pairs of classes"},
      {"adaptive_max_pool2d adaptive_max_pool3d fractional_max_pool2d fractional_max_pool3d max_pool2d_with_indices "
       "max_pool3d_with_indices avg_pool2d avg_pool3d",
       "windows of more than 4096 elements; means of integers"},
      {"addmm addmv addbmm baddbmm bmm mm", "more than 2^24 products of integers; bool"},
      {"__lshift__ __rshift__ __ilshift__ __irshift__ bitwise_left_shift bitwise_right_shift", "floats"},
      {"convolution convolution_backward", "integers; operands without elements"},
      {"embedding_renorm_", "norms other than 1, 2 and infinity"},
      {"gcd lcm", "bool"},
      {"grid_sampler_2d grid_sampler_2d_backward grid_sampler_3d grid_sampler_3d_backward", "no elements"},
      {"histc", "integers"},
      {"index", "masks: the size of the result depends on their values"},
      {"index_reduce", "bool"},
      {"isin mode searchsorted bucketize", "more than 2^26 pairs to compare"},
      {"linalg_vector_norm norm", "an extreme of no elements"},
      {"linspace logspace", "integers"},
      {"nextafter", "what is not float32"},
      {"polygamma", "derivatives above the first"},
      {"pow", "bool"},
      {"repeat_interleave", "without output_size: the size of the result depends on values"},
      {"rrelu_with_noise", "training"},
      {"scatter scatter_reduce", "means of bool"},
      {"upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_linear1d upsample_bilinear2d "
       "upsample_trilinear3d upsample_bicubic2d",
       "operands without elements"},
  };
  return limits;
}

}  // namespace hpu_torch
