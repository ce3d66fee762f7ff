// SPDX-License-Identifier: Apache-2.0
// Pieces of memory that a copy between two strided tensors consists of.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace hpu_torch {

/// The dimensions of a copy, those merged that both sides have one behind the other; the last varies fastest. Plain
/// data.
struct RunPlan {
  std::vector<int64_t> sizes, dst, src;  ///< Strides in elements.
  int64_t runElements = 1;               ///< Of each contiguous piece; the loops are over the rest.
  int64_t runs = 1;
};

/// For sizes and strides of equal length, none of the sizes 0. The order of the loops follows dst's strides.
template <typename Sizes>
RunPlan planRuns(const Sizes& sizes, const Sizes& dst, const Sizes& src) {
  struct Dim {
    int64_t size, dst, src;
  };
  std::vector<Dim> dims;
  for (size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] != 1) dims.push_back({sizes[i], dst[i], src[i]});
  std::stable_sort(dims.begin(), dims.end(), [](const Dim& a, const Dim& b) { return a.dst > b.dst; });
  std::vector<Dim> merged;
  for (const Dim& dim : dims) {
    if (!merged.empty() && merged.back().dst == dim.dst * dim.size && merged.back().src == dim.src * dim.size) {
      merged.back() = {merged.back().size * dim.size, dim.dst, dim.src};
    } else {
      merged.push_back(dim);
    }
  }
  RunPlan plan;
  if (!merged.empty() && merged.back().dst == 1 && merged.back().src == 1) {
    plan.runElements = merged.back().size;
    merged.pop_back();
  }
  for (const Dim& dim : merged) {
    plan.sizes.push_back(dim.size);
    plan.dst.push_back(dim.dst);
    plan.src.push_back(dim.src);
    plan.runs *= dim.size;
  }
  return plan;
}

/// Calls piece(offset in dst, offset in src), in elements, for each run.
template <typename Piece>
void forEachRun(const RunPlan& plan, Piece&& piece) {
  const size_t rank = plan.sizes.size();
  std::vector<int64_t> at(rank, 0);
  int64_t dst = 0, src = 0;
  for (int64_t run = 0; run < plan.runs; ++run) {
    piece(dst, src);
    for (size_t i = rank; i-- > 0;) {
      dst += plan.dst[i];
      src += plan.src[i];
      if (++at[i] < plan.sizes[i]) break;
      dst -= plan.dst[i] * plan.sizes[i];
      src -= plan.src[i] * plan.sizes[i];
      at[i] = 0;
    }
  }
}

}  // namespace hpu_torch
