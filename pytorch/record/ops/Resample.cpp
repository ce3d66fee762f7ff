// SPDX-License-Identifier: Apache-2.0
// Images of other sizes, reflected and repeated borders, patches as columns: sums of a few elements along each dim.
#include <algorithm>
#include <cmath>
#include <limits>

#include "compose/AxisTerms.h"
#include "compose/Indexing.h"
#include "pytorch/record/Call.h"
#include "pytorch/record/ops/Families.h"

namespace hpu_torch {
namespace {

using Terms = hpu::compose::AxisTerms;
using hpu::compose::gatherTerms;
using hpu::compose::scatterTerms;

/// Whether an operand has no elements: its result has none, or zeros.
bool isEmpty(Call& c, const Shape& sizes, const Shape& result, ElementType type) {
  if (hpu::numElements(sizes) > 0) return false;
  c.out(0, c.full({type, result}, 0));
  return true;
}

// ---- sizes: in which way is the row's variant -------------------------------------------------------

/// The step between neighbours, in elements of the operand. In f32, as PyTorch.
float stepOf(int64_t in, int64_t out, bool alignsCorners, double scale) {
  if (alignsCorners) return out > 1 ? static_cast<float>(in - 1) / static_cast<float>(out - 1) : 0.0f;
  return scale > 0 ? static_cast<float>(1.0 / scale) : static_cast<float>(in) / static_cast<float>(out);
}

Terms nearestTerms(int64_t in, int64_t out, double scale, bool isExact) {
  Terms terms{in, {Ints()}, {}};
  const float step = stepOf(in, out, false, scale);
  for (int64_t o = 0; o < out; ++o) {
    const float at = (static_cast<float>(o) + (isExact ? 0.5f : 0.0f)) * step;
    int64_t i = static_cast<int64_t>(std::floor(at));
    if (!isExact && out == in) i = o;
    if (!isExact && out == 2 * in) i = o / 2;
    terms.positions[0].push_back(std::clamp<int64_t>(i, 0, in - 1));
  }
  return terms;
}

Terms linearTerms(int64_t in, int64_t out, bool alignsCorners, double scale) {
  Terms terms{in, {Ints(), Ints()}, {{}, {}}};
  const float step = stepOf(in, out, alignsCorners, scale);
  for (int64_t o = 0; o < out; ++o) {
    const auto at = static_cast<float>(o);
    const float source = alignsCorners ? step * at : std::max(0.0f, step * (at + 0.5f) - 0.5f);
    const int64_t low = std::min<int64_t>(static_cast<int64_t>(source), in - 1);
    const float upper = std::clamp(source - static_cast<float>(low), 0.0f, 1.0f);
    terms.positions[0].push_back(low);
    terms.positions[1].push_back(std::min(low + 1, in - 1));
    terms.weights[0].push_back(1.0f - upper);
    terms.weights[1].push_back(upper);
  }
  return terms;
}

double cubic(double x, double a) {
  x = std::abs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}
Terms cubicTerms(int64_t in, int64_t out, bool alignsCorners, double scale) {
  Terms terms{in, std::vector<Ints>(4), std::vector<std::vector<float>>(4)};
  const float step = stepOf(in, out, alignsCorners, scale);
  for (int64_t o = 0; o < out; ++o) {
    const auto at = static_cast<float>(o);
    const float source = alignsCorners ? step * at : step * (at + 0.5f) - 0.5f;
    const float low = std::floor(source), rest = source - low;
    for (int k = 0; k < 4; ++k) {
      const auto u = static_cast<size_t>(k);
      terms.positions[u].push_back(std::clamp<int64_t>(static_cast<int64_t>(low) - 1 + k, 0, in - 1));
      terms.weights[u].push_back(static_cast<float>(cubic(static_cast<double>(rest) + 1 - k, -0.75)));
    }
  }
  return terms;
}

/// Wide windows where an image gets smaller.
Terms smoothTerms(int64_t in, int64_t out, bool alignsCorners, double scale, bool isCubic) {
  const double step = static_cast<double>(stepOf(in, out, alignsCorners, scale)), shrink = std::max(step, 1.0);
  const double support = (isCubic ? 2.0 : 1.0) * shrink;
  Terms terms{in, {}, {}};
  for (int64_t o = 0; o < out; ++o) {
    const double center = step * (static_cast<double>(o) + 0.5);
    const int64_t first = std::max<int64_t>(static_cast<int64_t>(center - support + 0.5), 0);
    const int64_t end = std::min<int64_t>(static_cast<int64_t>(center + support + 0.5), in);
    std::vector<double> weights;
    double total = 0;
    for (int64_t i = first; i < end; ++i) {
      const double x = (static_cast<double>(i) - center + 0.5) / shrink;
      weights.push_back(isCubic ? cubic(x, -0.5) : std::max(0.0, 1 - std::abs(x)));
      total += weights.back();
    }
    while (terms.positions.size() < weights.size()) {
      terms.positions.emplace_back(static_cast<size_t>(out), 0);
      terms.weights.emplace_back(static_cast<size_t>(out), 0.0f);
    }
    for (size_t t = 0; t < weights.size(); ++t) {
      terms.positions[t][static_cast<size_t>(o)] = first + static_cast<int64_t>(t);
      terms.weights[t][static_cast<size_t>(o)] = static_cast<float>(total == 0 ? 0 : weights[t] / total);
    }
  }
  return terms;
}

Terms sizeTerms(std::string_view way, int64_t in, int64_t out, bool alignsCorners, double scale) {
  if (way == "nearest" || way == "exact") return nearestTerms(in, out, scale, way == "exact");
  if (way == "linear") return linearTerms(in, out, alignsCorners, scale);
  if (way == "cubic") return cubicTerms(in, out, alignsCorners, scale);
  return smoothTerms(in, out, alignsCorners, scale, way == "smooth cubic");
}
bool hasCorners(Call& c) {
  return c.variant() != "nearest" && c.variant() != "exact";
}

/// self, output_size, [align_corners], a scale of each dim
void upsample(Call& c) {
  const Shape& sizes = c.meta(0).sizes;
  if (hpu::numElements(sizes) == 0) return (void)c.unsupported("no elements");
  const bool isGather = !hasCorners(c);
  Value x = isGather ? c.in(0) : c.f32(0);
  const Ints out = c.ints(1);
  const size_t first = isGather ? 2 : 3;
  for (size_t i = 0; i < out.size() && c.ok(); ++i) {
    const auto dim = static_cast<int64_t>(sizes.size() - out.size() + i);
    const double scale = c.has(first + i) && !c.isTensor(first + i) ? c.real(first + i) : 0;
    const int64_t in = sizes[static_cast<size_t>(dim)];
    x = gatherTerms(c, x, dim, sizeTerms(c.variant(), in, out[i], !isGather && c.flag(2), scale));
  }
  c.out(0, x, c.meta(0).type);
}
/// input, output_size, scale_factors
void upsampleByFactors(Call& c) {
  const Shape& sizes = c.meta(0).sizes;
  if (hpu::numElements(sizes) == 0) return (void)c.unsupported("no elements");
  Value x = c.in(0);
  const std::vector<double> factors = c.has(2) ? c.reals(2) : std::vector<double>();
  for (size_t i = 0; i + 2 < sizes.size() && c.ok(); ++i) {
    const int64_t in = sizes[i + 2];
    const int64_t out = c.has(1) ? c.ints(1)[i] : static_cast<int64_t>(static_cast<double>(in) * factors.at(i));
    x = gatherTerms(c, x, static_cast<int64_t>(i + 2),
                    sizeTerms(c.variant(), in, out, false, factors.empty() ? 0 : factors[i]));
  }
  c.out(0, x, c.meta(0).type);
}
/// grad_output, output_size, input_size, [align_corners], a scale of each dim
void upsampleBackward(Call& c) {
  Value g = c.f32(0);
  const Ints out = c.ints(1), sizes = c.ints(2);
  if (hpu::numElements(sizes) == 0 || hpu::numElements(c.meta(0).sizes) == 0) return (void)c.unsupported("no elements");
  const bool isGather = !hasCorners(c);
  const size_t first = isGather ? 3 : 4;
  for (size_t i = out.size(); i-- > 0 && c.ok();) {
    const auto dim = static_cast<int64_t>(sizes.size() - out.size() + i);
    const double scale = c.has(first + i) && !c.isTensor(first + i) ? c.real(first + i) : 0;
    g = scatterTerms(c, g, dim,
                     sizeTerms(c.variant(), sizes[static_cast<size_t>(dim)], out[i], !isGather && c.flag(3), scale));
  }
  c.out(0, g, c.meta(0).type);
}
/// grad_output, output_size, input_size, scale_factors
void upsampleByFactorsBackward(Call& c) {
  Value g = c.f32(0);
  const Ints sizes = c.ints(2);
  if (hpu::numElements(sizes) == 0) return (void)c.unsupported("no elements");
  const std::vector<double> factors = c.has(3) ? c.reals(3) : std::vector<double>();
  for (size_t i = sizes.size() - 2; i-- > 0 && c.ok();)
    g = scatterTerms(c, g, static_cast<int64_t>(i + 2),
                     sizeTerms(c.variant(), sizes[i + 2], c.dim(g, static_cast<int64_t>(i + 2)), false,
                               factors.empty() ? 0 : factors[i]));
  c.out(0, g, c.meta(0).type);
}

// ---- borders: padding is {left, right, top, bottom, ..} --------------------------------------------

Terms borderTerms(std::string_view way, int64_t size, int64_t before, int64_t after) {
  Terms terms{size, {Ints()}, {}};
  for (int64_t i = -before; i < size + after; ++i) {
    int64_t at = std::clamp<int64_t>(i, 0, size - 1);
    if (way == "reflect") at = i < 0 ? -i : i >= size ? 2 * (size - 1) - i : i;
    terms.positions[0].push_back(at);
  }
  return terms;
}
void border(Call& c) {  // self, padding
  const Ints padding = c.ints(1);
  Shape padded = c.meta(0).sizes;
  for (size_t i = 0; i * 2 < padding.size(); ++i) padded[padded.size() - 1 - i] += padding[i * 2] + padding[i * 2 + 1];
  if (isEmpty(c, c.meta(0).sizes, padded, c.meta(0).type)) return;
  Value x = c.in(0);
  for (size_t i = 0; i * 2 < padding.size() && c.ok(); ++i) {
    const int64_t dim = c.rank(x) - 1 - static_cast<int64_t>(i);
    x = gatherTerms(c, x, dim, borderTerms(c.variant(), c.dim(x, dim), padding[i * 2], padding[i * 2 + 1]));
  }
  c.out(0, x);
}
void borderBackward(Call& c) {  // grad_output, self, padding
  const Shape& sizes = c.meta(1).sizes;
  if (isEmpty(c, sizes, sizes, c.meta(1).type)) return;
  Value g = c.f32(0);
  const Ints padding = c.ints(2);
  for (size_t i = 0; i * 2 < padding.size() && c.ok(); ++i) {
    const size_t dim = sizes.size() - 1 - i;
    g = scatterTerms(c, g, static_cast<int64_t>(dim),
                     borderTerms(c.variant(), sizes[dim], padding[i * 2], padding[i * 2 + 1]));
  }
  c.out(0, g, c.meta(1).type);
}

// ---- patches: kernel_size, dilation, padding, stride ------------------------------------------------

struct Patches {
  Ints kernel, dilation, padding, stride;
  Shape image;  ///< Padded height and width.
  Ints count;   ///< Of patches, along the height and the width.
  Terms terms(size_t d) const {
    Terms result{image[d], {Ints()}, {}};
    for (int64_t k = 0; k < kernel[d]; ++k)
      for (int64_t o = 0; o < count[d]; ++o) result.positions[0].push_back(o * stride[d] + k * dilation[d]);
    return result;
  }
};
Patches patchesOf(Call& c, size_t first, int64_t height, int64_t width) {
  Patches p{c.ints(first, 2), c.ints(first + 1, 2), c.ints(first + 2, 2), c.ints(first + 3, 2), {}, {}};
  for (size_t d = 0; d < 2; ++d) {
    p.image.push_back((d == 0 ? height : width) + 2 * p.padding[d]);
    p.count.push_back((p.image[d] - p.dilation[d] * (p.kernel[d] - 1) - 1) / p.stride[d] + 1);
  }
  return p;
}
void patchesToColumns(Call& c) {
  Value x = c.in(0);
  const bool isBatch = c.rank(x) == 4;
  if (!isBatch) x = hpu::compose::insertDim(c, x, 0);
  Patches p = patchesOf(c, 1, c.dim(x, 2), c.dim(x, 3));
  const int64_t n = c.dim(x, 0), channels = c.dim(x, 1);
  if (isEmpty(c, c.shape(x), {n, channels * p.kernel[0] * p.kernel[1], p.count[0] * p.count[1]}, c.element(x))) return;
  Ints pads = {0, 0, p.padding[0], p.padding[1]};
  x = gatherTerms(c, gatherTerms(c, c.pad(x, pads, pads), 2, p.terms(0)), 3, p.terms(1));
  x = c.reshape(x, {n, channels, p.kernel[0], p.count[0], p.kernel[1], p.count[1]});
  x = c.reshape(c.transpose(x, {0, 1, 2, 4, 3, 5}), {n, channels * p.kernel[0] * p.kernel[1], p.count[0] * p.count[1]});
  c.out(0, isBatch ? x : hpu::compose::removeDim(c, x, 0));
}
void columnsToPatches(Call& c) {  // self, output_size, then the same
  Value x = c.f32(0);
  const bool isBatch = c.rank(x) == 3;
  if (!isBatch) x = hpu::compose::insertDim(c, x, 0);
  const Ints size = c.ints(1, 2);
  Patches p = patchesOf(c, 2, size[0], size[1]);
  const int64_t n = c.dim(x, 0), channels = c.dim(x, 1) / (p.kernel[0] * p.kernel[1]);
  if (isEmpty(c, c.shape(x), {n, channels, size[0], size[1]}, c.element(x))) return;
  x = c.reshape(x, {n, channels, p.kernel[0], p.kernel[1], p.count[0], p.count[1]});
  x = c.reshape(c.transpose(x, {0, 1, 2, 4, 3, 5}), {n, channels, p.kernel[0] * p.count[0], p.kernel[1] * p.count[1]});
  x = scatterTerms(c, scatterTerms(c, x, 3, p.terms(1)), 2, p.terms(0));
  x = c.slice(x, {0, 0, p.padding[0], p.padding[1]}, {n, channels, size[0], size[1]}, {1, 1, 1, 1});
  c.out(0, isBatch ? x : hpu::compose::removeDim(c, x, 0));
}

}  // namespace

const std::vector<Row>& resampleOps() {
  static const auto& rows = *new std::vector<Row>{
      {"upsample_nearest1d.out upsample_nearest2d.out upsample_nearest3d.out", upsample, "nearest"},
      {"_upsample_nearest_exact1d.out _upsample_nearest_exact2d.out _upsample_nearest_exact3d.out", upsample, "exact"},
      {"upsample_linear1d.out upsample_bilinear2d.out upsample_trilinear3d.out", upsample, "linear"},
      {"upsample_bicubic2d.out", upsample, "cubic"},
      {"_upsample_bilinear2d_aa.out", upsample, "smooth linear"},
      {"_upsample_bicubic2d_aa.out", upsample, "smooth cubic"},
      {"upsample_nearest1d_backward.grad_input upsample_nearest2d_backward.grad_input "
       "upsample_nearest3d_backward.grad_input",
       upsampleBackward, "nearest"},
      {"_upsample_nearest_exact1d_backward.grad_input _upsample_nearest_exact2d_backward.grad_input "
       "_upsample_nearest_exact3d_backward.grad_input",
       upsampleBackward, "exact"},
      {"upsample_linear1d_backward.grad_input upsample_bilinear2d_backward.grad_input "
       "upsample_trilinear3d_backward.grad_input",
       upsampleBackward, "linear"},
      {"upsample_bicubic2d_backward.grad_input", upsampleBackward, "cubic"},
      {"_upsample_bilinear2d_aa_backward.grad_input", upsampleBackward, "smooth linear"},
      {"_upsample_bicubic2d_aa_backward.grad_input", upsampleBackward, "smooth cubic"},
      {"upsample_nearest3d.vec", upsampleByFactors, "nearest", Row::kOwnShapes},
      {"_upsample_nearest_exact3d.vec", upsampleByFactors, "exact", Row::kOwnShapes},
      {"upsample_nearest3d_backward.vec", upsampleByFactorsBackward, "nearest", Row::kOwnShapes},
      {"_upsample_nearest_exact3d_backward.vec", upsampleByFactorsBackward, "exact", Row::kOwnShapes},
      {"reflection_pad1d.out reflection_pad3d.out", border, "reflect"},
      {"reflection_pad2d", border, "reflect", Row::kOwnShapes | Row::kKeepsFormat},
      {"replication_pad1d.out replication_pad2d.out replication_pad3d.out", border, "repeat"},
      {"reflection_pad1d_backward.grad_input reflection_pad3d_backward.grad_input", borderBackward, "reflect"},
      {"reflection_pad2d_backward", borderBackward, "reflect", Row::kOwnShapes},
      {"replication_pad1d_backward.grad_input", borderBackward, "repeat"},
      {"replication_pad2d_backward replication_pad3d_backward", borderBackward, "repeat", Row::kOwnShapes},
      {"im2col im2col.out", patchesToColumns},
      {"col2im col2im.out", columnsToPatches},
  };
  return rows;
}

}  // namespace hpu_torch
