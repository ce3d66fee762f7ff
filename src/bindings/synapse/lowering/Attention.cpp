// SPDX-License-Identifier: Apache-2.0
// TPC-named attention: scaled dot products, forward and backward, with and without the stored probabilities, and rotary
// embeddings. The one thing to know: q [.., L, E], k [.., S, E], v [.., S, Ev] in the framework's order; a causal row i
// sees the columns 0..i; a mask of floats is added, one of i8 chooses.
#include "bindings/synapse/lowering/Lowering.h"
#include "bindings/synapse/lowering/RandomBits.h"
#include "compose/Indexing.h"
#include "habanalabs/perf_lib_layer_params.h"

namespace hpu::synapse {
namespace {

constexpr double kMasked = -1e30;  // Finite, so that a row without any element seen is no NaN.

Value transposed(NodeContext& c, Value v) {
  std::vector<int64_t> perm;
  for (int64_t d = 0; d < c.rank(v); ++d) perm.push_back(d);
  if (perm.size() > 1) std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return c.transpose(v, perm);
}

ns_Sdpa::ParamsV3 sdpaParams(NodeContext& c) {
  ns_Sdpa::ParamsV3 params{};
  params.scale = 1;
  params = c.versionedParams<ns_Sdpa::ParamsV3, ns_Sdpa::ParamsV2, ns_Sdpa::Params>(params, /*optional=*/false);
  if (params.softmax_mode != SDPA_DEFAULT_SOFTMAX) c.unsupported("softmax modes for fp8");
  if (params.flags != 0) c.unsupported(strCat("flags ", params.flags, " (fp8 scales)"));
  if (!(params.dropout.ratio >= 0 && params.dropout.ratio < 1)) c.fail(strCat("dropout ratio ", params.dropout.ratio));
  return params;
}

void refuse(NodeContext& c, size_t first, size_t last, std::string_view what) {
  for (size_t i = first; i <= last; ++i)
    if (c.hasInput(i)) c.unsupported(strCat("input ", i, " (", what, ")"));
}

struct Heads {
  Value q, k, v;
};

Heads headsOf(NodeContext& c, size_t first) {
  Heads h{c.input(first), c.input(first + 1), c.input(first + 2)};
  if (!c.ok()) return h;
  for (Value x : {h.q, h.k, h.v})
    if (c.rank(x) < 2) c.fail("q, k and v must have rank 2 or more");
  if (c.ok() && c.dim(h.q, -1) != c.dim(h.k, -1)) c.fail("q and k have different widths");
  if (c.ok() && c.dim(h.k, -2) != c.dim(h.v, -2)) c.fail("k and v have different lengths");
  return h;
}

/// q k^T * scale with what is masked out, f32.
Value scoresOf(NodeContext& c, const Heads& h, const ns_Sdpa::ParamsV3& params, size_t maskInput) {
  Value s = c.mul(c.toF32(c.matmul(h.q, transposed(c, h.k))), params.scale);
  if (!s.handle) return s;
  if (c.hasInput(maskInput)) {
    if (isFloat(c.inputType(maskInput)))
      s = c.add(s, c.toF32(c.input(maskInput)));
    else
      s = c.where(c.condition(maskInput), s, c.scalarLike(s, kMasked));
  }
  if (isSet(params.is_causal)) {
    Value seen = c.op("less_equal", {counter(c, c.dim(s, -1), 1, 2), counter(c, c.dim(s, -2), 0, 2)});
    s = c.where(seen, s, c.scalarLike(s, kMasked));
  }
  return s;
}

Value dropped(NodeContext& c, Value p, Value kept, double ratio) {
  return c.where(kept, c.mul(p, 1 / (1 - ratio)), c.scalarLike(p, 0));
}

struct Softmax {
  Value p, largest, inverseSum;
};

Softmax softmaxOf(NodeContext& c, Value s) {
  if (!s.handle) return {};
  int64_t last = c.rank(s) - 1;
  Value largest = c.reduceMax(s, {last}, true), e = c.op("exp", {c.sub(s, largest)});
  Value inverse = c.op("reciprocal", {c.reduceSum(e, {last}, true)});
  return {c.mul(e, inverse), largest, inverse};
}

void lowerSdpa(NodeContext& c) {
  auto params = sdpaParams(c);
  bool recomputes = c.row().argument == "recompute";
  Heads h = headsOf(c, 0);
  refuse(c, 5, 10, "a scale for fp8");
  refuse(c, 11, 11, "valid sequence lengths");
  if (!c.ok()) return;
  double ratio = params.dropout.ratio;
  Value s = scoresOf(c, h, params, 3);
  Softmax soft;
  if (recomputes)
    soft = softmaxOf(c, s);
  else
    soft.p = c.op("softmax", {s}, {{"axis", c.rank(s) - 1}});
  if (!c.ok()) return;
  Value used = soft.p, kept;
  if (ratio > 0) {
    kept = keptMask(c, c.shape(soft.p), seedOf(c, 4, params.dropout.seed), 1 - ratio);
    used = dropped(c, soft.p, kept, ratio);
  }
  c.output(0, c.matmul(c.cast(used, c.element(h.v)), h.v));
  if (recomputes) {
    c.outputAs(1, soft.largest, ElementType::kF32);
    c.outputAs(2, soft.inverseSum, ElementType::kF32);
    if (c.wantsOutput(3)) c.output(3, c.reshape(c.cast(seedOf(c, 4, params.dropout.seed), ElementType::kI32), {1}));
    return;
  }
  c.outputAs(1, soft.p, c.dataType());
  if (c.wantsOutput(2)) {
    if (!kept.handle) return (void)c.fail(strCat(c.outputName(2), " without dropout"));
    c.output(2, kept);
  }
}

/// `p` and `kept` are the forward pass's; kept is null without dropout.
void sdpaGradients(NodeContext& c, const Heads& h, Value dOut, Value p, Value kept, const ns_Sdpa::ParamsV3& params) {
  if (!c.ok()) return;
  double ratio = params.dropout.ratio;
  ElementType type = c.element(h.q);
  Value used = kept.handle ? dropped(c, p, kept, ratio) : p;
  Value dP = c.toF32(c.matmul(dOut, transposed(c, h.v)));
  if (kept.handle) dP = dropped(c, dP, kept, ratio);
  Value dS = c.mul(c.mul(p, c.sub(dP, c.reduceSum(c.mul(dP, p), {c.rank(p) - 1}, true))), params.scale);
  dS = c.cast(dS, type);
  c.output(0, c.sumTo(c.matmul(dS, h.k), c.shape(h.q)));
  if (c.wantsOutput(1)) c.output(1, c.sumTo(c.matmul(transposed(c, dS), h.q), c.shape(h.k)));
  if (c.wantsOutput(2)) c.output(2, c.sumTo(c.matmul(transposed(c, c.cast(used, type)), dOut), c.shape(h.v)));
}

void lowerSdpaBwd(NodeContext& c) {
  auto params = sdpaParams(c);
  Heads h = headsOf(c, 1);
  refuse(c, 6, 13, "a scale for fp8");
  Value dOut = c.input(0), p = c.toF32(c.input(4)), kept;
  if (params.dropout.ratio > 0) kept = c.condition(5);
  sdpaGradients(c, h, dOut, p, kept, params);
}

void lowerSdpaRecomputeBwd(NodeContext& c) {
  auto params = sdpaParams(c);
  Heads h = headsOf(c, 1);
  Value dOut = c.input(0), s = scoresOf(c, h, params, 4);
  Value p = c.mul(c.op("exp", {c.sub(s, c.toF32(c.input(5)))}), c.toF32(c.input(6))), kept;
  if (!c.ok()) return;
  if (params.dropout.ratio > 0)
    kept = keptMask(c, c.shape(p), seedOf(c, 7, params.dropout.seed), 1 - static_cast<double>(params.dropout.ratio));
  sdpaGradients(c, h, dOut, p, kept, params);
}

// ---- rotary embeddings ---------------------------------------------------------------------------

/// Each pair (a, b) as (-b, a), or as (b, -a): pairs are the two halves, or neighbours.
Value rotated(NodeContext& c, Value x, bool pairwise, bool back) {
  if (!x.handle) return x;
  Shape shape = c.shape(x), split = shape;
  int64_t half = shape.back() / 2;
  split.back() = pairwise ? half : 2;
  split.push_back(pairwise ? 2 : half);
  Value pairs = c.reshape(x, split);
  int64_t dim = static_cast<int64_t>(split.size()) - (pairwise ? 1 : 2);
  Value a = c.sliceDim(pairs, dim, 0, 1), b = c.sliceDim(pairs, dim, 1, 1);
  Value turned = back ? c.concat({b, c.neg(a)}, dim) : c.concat({c.neg(b), a}, dim);
  return c.reshape(turned, shape);
}

/// sin or cos for x: rows chosen by position ids, or from the offset on.
Value table(NodeContext& c, size_t input, Value x, const ns_RoPESt2::ParamsV2& params) {
  Value t = c.input(input);
  if (!c.ok()) return {};
  if (c.hasInput(3)) {
    Value ids = c.input(3);
    int64_t width = c.dim(t, -1), rows = width ? numElements(c.shape(t)) / width : 0;
    Value picked = c.gather(c.reshape(t, {rows, width}), c.cast(ids, ElementType::kI32), 0);  // [batch, length, width]
    if (!picked.handle) return {};
    Shape shape = c.shape(picked);
    while (static_cast<int64_t>(shape.size()) < c.rank(x)) shape.insert(shape.end() - 2, 1);
    return c.cast(c.reshape(picked, shape), c.element(x));
  }
  if (c.rank(t) >= 2 && c.rank(x) >= 2 && c.dim(t, -2) > c.dim(x, -2)) {
    int64_t length = c.dim(x, -2);
    if (static_cast<int64_t>(params.offset) + length > c.dim(t, -2))
      return c.fail(strCat("offset ", params.offset, " and ", length, " rows leave the table of ", c.dim(t, -2)));
    t = c.sliceDim(t, c.rank(t) - 2, params.offset, length);
  }
  return c.cast(t, c.element(x));
}

void lowerRope(NodeContext& c) {
  ns_RoPESt2::ParamsV2 params{};
  params = c.versionedParams<ns_RoPESt2::ParamsV2, ns_RoPESt2::Params>(params);
  bool back = c.row().argument == "back", pairwise = params.mode == ROTARY_POS_EMBEDDING_MODE_PAIRWISE;
  Value x = c.input(0);
  if (!c.ok()) return;
  if (c.rank(x) < 1 || c.dim(x, -1) % 2) return (void)c.fail(strCat(c.inputName(0), " must have an even width"));
  Value sin = table(c, 1, x, params), cos = table(c, 2, x, params);
  Value turned = back ? rotated(c, c.mul(x, sin), pairwise, true) : c.mul(rotated(c, x, pairwise, false), sin);
  c.output(0, c.add(c.mul(x, cos), turned));
}

constexpr std::string_view kFloats = "f32 bf16 f16", kSdpa = "ns_Sdpa::Params, ParamsV2 or ParamsV3";
constexpr std::string_view kSdpaIn =
    "q, k, v, [mask], [seed], [scale of q], [scale of k], [scale of v], [scale of s], [scale of out], [scale of s "
    "back], [lengths]";
constexpr std::string_view kRope = "ns_RoPESt2::Params or ParamsV2?";

// clang-format off
constexpr GuidRow kRows[] = {
    {"sdpa_fwd", kSdpaIn, "out, [P], [dropout mask], [largest]", kSdpa, kFloats, lowerSdpa},
    {"sdpa_bwd", "dOut, q, k, v, P, [dropout mask], [s0], [s1], [s2], [s3], [s4], [s5], [s6], [s7], [out]", "dQ, [dK], [dV], [largest]", kSdpa, kFloats, lowerSdpaBwd},
    {"sdpa_recomp_fwd", kSdpaIn, "out, [m], [inverse sum], [seed], [largest], [largest out]", kSdpa, kFloats, lowerSdpa, "recompute"},
    {"sdpa_recomp_bwd", "dOut, q, k, v, [mask], m, inverse sum, [seed], [out]", "dQ, [dK], [dV]", kSdpa, kFloats, lowerSdpaRecomputeBwd},
    {"rotary_pos_embedding_fwd", "x, sin, cos, [position ids]", "y", kRope, kFloats, lowerRope},
    {"rotary_pos_embedding_bwd", "dY, sin, cos, [position ids]", "dX", kRope, kFloats, lowerRope, "back"},
};
// clang-format on

}  // namespace

std::span<const GuidRow> attentionGuids() {
  return kRows;
}

}  // namespace hpu::synapse
