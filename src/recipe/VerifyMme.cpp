// SPDX-License-Identifier: Apache-2.0
// How the sizes of an MME op's operands must fit together.
#include <algorithm>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "recipe/VerifierParts.h"

namespace hpu::recipe {

using base::strCat;

namespace {

Status differ(const std::string& where, std::string_view what, int64_t a, int64_t b) {
  return dataLoss(strCat(where, ": ", what, ": ", a, " against ", b));
}

Status verifyGemm(const MmeDesc& mme, const std::string& where) {
  size_t rank = mme.c.sizes.size();
  if (rank < 2 || mme.a.sizes.size() != rank || mme.b.sizes.size() != rank) {
    return dataLoss(strCat(where, ": a gemm's operands must have one rank >= 2, but have ", mme.a.sizes.size(), ", ",
                           mme.b.sizes.size(), " and ", rank));
  }
  for (int i = 0; i < 2; ++i) {
    if (mme.strides[i] != 1 || mme.dilations[i] != 1 || mme.padBegin[i] || mme.padEnd[i] || mme.groups != 1) {
      return dataLoss(where + ": a gemm has a stride, dilation, padding or groups");
    }
  }
  for (size_t d = 0; d + 2 < rank; ++d) {
    if (mme.a.sizes[d] != mme.c.sizes[d]) {
      return differ(where, strCat("batch dimension ", d, " of a and c differ"), mme.a.sizes[d], mme.c.sizes[d]);
    }
    // A packed weight has no strides to say that batches share it, so its size 1 does.
    bool shared = mme.packing == BPacking::kBlocked && mme.b.sizes[d] == 1;
    if (mme.b.sizes[d] != mme.c.sizes[d] && !shared) {
      return differ(where, strCat("batch dimension ", d, " of b and c differ"), mme.b.sizes[d], mme.c.sizes[d]);
    }
  }
  const int64_t *a = &mme.a.sizes[rank - 2], *b = &mme.b.sizes[rank - 2], *c = &mme.c.sizes[rank - 2];
  if (a[0] != c[0]) return differ(where, "M of a and c differ", a[0], c[0]);
  if (a[1] != b[0]) return differ(where, "K of a and b differ", a[1], b[0]);
  if (b[1] != c[1]) return differ(where, "N of b and c differ", b[1], c[1]);
  return okStatus();
}

Status verifyWindow(const MmeDesc& mme, const std::string& where) {
  for (int i = 0; i < 2; ++i) {
    if (mme.strides[i] < 1 || mme.strides[i] > kMaxWindow || mme.dilations[i] < 1 || mme.dilations[i] > kMaxWindow) {
      return dataLoss(strCat(where, ": stride ", mme.strides[i], " or dilation ", mme.dilations[i],
                             " of spatial dimension ", i, " is not in 1..2^31"));
    }
    // A transposed convolution's extra output rows are a negative padding at the end.
    int64_t least = mme.kind == MmeKind::kConvTranspose2d ? 1 - std::max(mme.strides[i], mme.dilations[i]) : 0;
    if (mme.padBegin[i] < 0 || mme.padBegin[i] > kMaxWindow || mme.padEnd[i] < least || mme.padEnd[i] > kMaxWindow) {
      return dataLoss(strCat(where, ": padding ", mme.padBegin[i], " and ", mme.padEnd[i], " of spatial dimension ", i,
                             " is negative or beyond 2^31"));
    }
  }
  return okStatus();
}

Status verifyConv(const MmeDesc& mme, const std::string& where) {
  if (mme.a.sizes.size() != 4 || mme.b.sizes.size() != 4 || mme.c.sizes.size() != 4) {
    return dataLoss(strCat(where, ": a convolution's operands must have rank 4, but have ", mme.a.sizes.size(), ", ",
                           mme.b.sizes.size(), " and ", mme.c.sizes.size()));
  }
  HPU_RETURN_IF_ERROR(verifyWindow(mme, where));
  const bool transposed = mme.kind == MmeKind::kConvTranspose2d;
  const int64_t inChannels = mme.a.sizes[1], outChannels = mme.c.sizes[1];
  if (mme.groups < 1 || inChannels % mme.groups || outChannels % mme.groups) {
    return dataLoss(strCat(where, ": ", mme.groups, " groups do not divide ", inChannels, " input and ", outChannels,
                           " output channels"));
  }
  if (mme.a.sizes[0] != mme.c.sizes[0]) {
    return differ(where, "N of a and c differ", mme.a.sizes[0], mme.c.sizes[0]);
  }
  const int64_t weights0 = transposed ? inChannels : outChannels;
  const int64_t weights1 = (transposed ? outChannels : inChannels) / mme.groups;
  if (mme.b.sizes[0] != weights0) {
    return differ(where, "dimension 0 of b against the channels", mme.b.sizes[0], weights0);
  }
  if (mme.b.sizes[1] != weights1) {
    return differ(where, "dimension 1 of b against the channels of a group", mme.b.sizes[1], weights1);
  }
  for (int i = 0; i < 2; ++i) {
    const int64_t in = mme.a.sizes[2 + i], out = mme.c.sizes[2 + i];
    const int64_t stride = mme.strides[i], dilation = mme.dilations[i];
    // Sizes are below 2^48 and windows up to 2^31, but their products need not fit.
    int64_t reach = 0, grown = 0;
    bool overflow = __builtin_mul_overflow(dilation, mme.b.sizes[2 + i] - 1, &reach) ||
                    __builtin_mul_overflow(in - 1, stride, &grown) || reach > kMaxMacs || grown > kMaxMacs;
    if (overflow) {
      return dataLoss(strCat(where, ": the window of spatial dimension ", i, " is beyond 2^60"));
    }
    const int64_t pads = mme.padBegin[i] + mme.padEnd[i];
    if (transposed) {
      const int64_t base = grown + reach + 1 - pads, most = base + std::max(stride, dilation) - 1;
      if (out < base || out > most) {
        return dataLoss(strCat(where, ": spatial dimension ", i, " of c is ", out,
                               ", but the input, window and padding give ", base, " to ", most));
      }
      continue;
    }
    const int64_t room = in + pads - reach - 1;
    const int64_t expected = room < 0 ? 0 : room / stride + 1;
    if (out != expected) {
      return differ(where,
                    strCat("spatial dimension ", i,
                           " of c against what a, b, strides, pads and "
                           "dilations give"),
                    out, expected);
    }
  }
  return okStatus();
}

}  // namespace

Status verifyMmeShapes(const Op& op, const std::string& where) {
  const MmeDesc& mme = op.mme;
  if (mme.kind > MmeKind::kConvTranspose2d) {
    return dataLoss(strCat(where, " has the unknown MME kind ", mme.kind));
  }
  HPU_RETURN_IF_ERROR(mme.kind == MmeKind::kGemm ? verifyGemm(mme, where) : verifyConv(mme, where));
  // Multiply-accumulates: points of C times what each sums up.
  int64_t points = boundedProduct(mme.c.sizes, kMaxPoints);
  int64_t depth = mme.kind == MmeKind::kGemm
                      ? mme.a.sizes.back()
                      : boundedProduct({mme.a.sizes[1] / mme.groups, mme.b.sizes[2], mme.b.sizes[3]}, kMaxMacs);
  if (depth < 0 || points > kMaxMacs / std::max<int64_t>(depth, 1)) {
    return dataLoss(where + ": more than 2^60 multiply-accumulates");
  }
  return okStatus();
}

}  // namespace hpu::recipe
