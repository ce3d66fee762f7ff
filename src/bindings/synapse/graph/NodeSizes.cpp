// SPDX-License-Identifier: Apache-2.0
#include "bindings/synapse/graph/NodeSizes.h"

#include <algorithm>
#include <cstring>

#include "base/Format.h"

namespace hpu::synapse {

using base::strCat;

bool OperandSizes::operator==(const OperandSizes& other) const {
  return rank == other.rank && std::equal(sizes.begin(), sizes.begin() + rank, other.sizes.begin());
}

namespace {

std::string text(const OperandSizes& sizes) {
  std::string list = "{";
  for (uint32_t d = 0; d < sizes.rank; ++d) list += strCat(d ? ", " : "", sizes.sizes[d]);
  return list + "}";
}

/// The product; saturates.
uint64_t count(const OperandSizes& sizes) {
  unsigned __int128 product = 1;
  for (uint32_t d = 0; d < sizes.rank; ++d) product = std::min<unsigned __int128>(product * sizes.sizes[d], UINT64_MAX);
  return static_cast<uint64_t>(product);
}

const OperandSizes* known(const std::vector<OperandSizes>& list, size_t i) {
  return i < list.size() && list[i].isKnown && !list[i].isShape ? &list[i] : nullptr;
}
bool hasShapeOperand(const SizedNode& node) {
  return std::any_of(node.inputs.begin(), node.inputs.end(), [](const OperandSizes& s) { return s.isShape; });
}

template <typename P>
bool read(const SizedNode& node, P& params) {
  if (node.params.size() != sizeof(P)) return false;
  std::memcpy(static_cast<void*>(&params), node.params.data(), sizeof(P));
  return true;
}

Result mustBe(const OperandSizes* result, const OperandSizes& wanted) {
  if (!result || *result == wanted) return {};
  return badArgument(strCat("output 0 has sizes ", text(*result), ", the operands give ", text(wanted)));
}

using Rule = Result (*)(const SizedNode&);

// ---- elementwise ---------------------------------------------------------------------------------

Result elementwise(const SizedNode& node) {
  OperandSizes all;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const OperandSizes* one = known(node.inputs, i);
    if (!one) return {};
    for (uint32_t d = 0; d < one->rank; ++d) {
      if (d >= all.rank) all.sizes[all.rank++] = 1;
      if (one->sizes[d] == 1 || one->sizes[d] == all.sizes[d]) continue;
      if (all.sizes[d] != 1)
        return badArgument(strCat("size ", d, " of input ", i, " is ", one->sizes[d],
                                  ", and that of the operands before it ", all.sizes[d]));
      all.sizes[d] = one->sizes[d];
    }
  }
  return mustBe(known(node.outputs, 0), all);
}

// ---- products ------------------------------------------------------------------------------------

enum class Product { kForward, kDedx, kDedw };

template <Product kind, bool batched>
Result product(const SizedNode& node) {
  const OperandSizes *a = known(node.inputs, 0), *b = known(node.inputs, 1), *c = known(node.outputs, 0);
  if (!a || !b) return {};
  synGEMMParams params{kind == Product::kDedw, kind == Product::kDedx};
  if (!node.params.empty() && !read(node, params)) return {};
  unsigned char flags[2];
  std::memcpy(flags, &params, 2);
  const bool ta = flags[0] != 0, tb = flags[1] != 0;
  if ((*a)[ta ? 1 : 0] != (*b)[tb ? 0 : 1])
    return badArgument(strCat("the common sizes differ: ", (*a)[ta ? 1 : 0], " of input 0 and ", (*b)[tb ? 0 : 1],
                              " of input 1 (after the transposes)"));
  OperandSizes wanted;
  wanted.rank = std::max({a->rank, b->rank, 2u});
  wanted.sizes[0] = (*b)[tb ? 1 : 0];
  wanted.sizes[1] = (*a)[ta ? 0 : 1];
  if (kind == Product::kDedw) std::swap(wanted.sizes[0], wanted.sizes[1]);
  for (uint32_t d = 2; d < wanted.rank; ++d) {
    const uint64_t one = (*a)[d], other = (*b)[d];
    if (!batched && (one != 1 || other != 1))
      return badArgument(strCat("size ", d, " is ", std::max(one, other), ", must be 1 (use batch_gemm)"));
    if (one != other && one != 1 && other != 1)
      return badArgument(strCat("size ", d, " is ", one, " of input 0 and ", other, " of input 1"));
    wanted.sizes[d] = one == 1 ? other : one;
  }
  if (!c) return {};
  for (uint32_t d = 0; d < std::max(c->rank, wanted.rank); ++d)
    if ((*c)[d] != wanted[d]) return mustBe(c, wanted);
  return {};
}

// ---- convolutions --------------------------------------------------------------------------------

struct Window {
  int64_t kernel[3], stride[3], dilation[3], pads[3];
  int64_t groups = 1;
  bool same = false;
};

bool readWindow(const SizedNode& node, bool is3d, Window& w) {
  if (is3d) {
    synConvolution3DParamsV2 p;
    if (!read(node, p) && !read(node, static_cast<synConvolution3DParams&>(p))) return false;
    for (size_t d = 0; d < 3; ++d) {
      w.kernel[d] = p.kernel[d], w.stride[d] = p.stride[d], w.dilation[d] = p.dilation[d];
      w.pads[d] = int64_t{p.padding[2 * d]} + p.padding[2 * d + 1];
    }
    w.groups = p.nGroups, w.same = p.paddingType == PADDING_SAME;
    return true;
  }
  synConvolutionParamsV2 p;
  if (!read(node, p) && !read(node, static_cast<synConvolutionParams&>(p))) return false;
  w = {{p.kW, p.kH, 1}, {p.dW, p.dH, 1}, {p.dilW, p.dilH, 1}, {int64_t{p.padL} + p.padR, int64_t{p.padT} + p.padB, 0}};
  w.groups = p.nGroups, w.same = p.paddingType == PADDING_SAME;
  return true;
}

/// x {C, W, H, [D], N}, w {K, C / groups, S, R, [Q]}, y {K, W', H', [D'], N}; any may be null.
Result window(const SizedNode& node, bool is3d, const OperandSizes* x, const OperandSizes* w, const OperandSizes* y) {
  Window p;
  if (node.hasLayouts || !readWindow(node, is3d, p)) return {};
  const uint32_t rank = is3d ? 5 : 4, spatial = rank - 2;
  for (const OperandSizes* one : {x, w, y})
    if (one && one->rank != rank) return badArgument(strCat("sizes ", text(*one), " of a tensor that has ", rank));
  for (uint32_t d = 0; d < spatial; ++d) {
    if (p.kernel[d] < 1 || p.stride[d] < 1 || p.dilation[d] < 1) return {};  // The compiler has the words.
    if (w && w->sizes[d + 2] != static_cast<uint64_t>(p.kernel[d]))
      return badArgument(strCat("the parameters' kernel is ", p.kernel[d], " along size ", d + 1, ", the weights have ",
                                w->sizes[d + 2]));
    if (!x || !y) continue;
    const auto size = static_cast<int64_t>(x->sizes[d + 1]);
    const int64_t room = size + p.pads[d] - ((p.kernel[d] - 1) * p.dilation[d] + 1);
    const int64_t wanted =
        p.same ? (size + p.stride[d] - 1) / p.stride[d] : std::max<int64_t>(0, room < 0 ? 0 : room / p.stride[d] + 1);
    if (y->sizes[d + 1] != static_cast<uint64_t>(wanted))
      return badArgument(strCat("size ", d + 1, " of the forward result is ", y->sizes[d + 1],
                                ", the parameters and the data give ", wanted));
  }
  if (x && y && (*x)[rank - 1] != (*y)[rank - 1])
    return badArgument(strCat("the batches differ: ", (*x)[rank - 1], " and ", (*y)[rank - 1]));
  if (w && y && w->sizes[0] != y->sizes[0])
    return badArgument(strCat("the weights give ", w->sizes[0], " channels, the result has ", y->sizes[0]));
  if (x && w && p.groups >= 1 && x->sizes[0] != w->sizes[1] * static_cast<uint64_t>(p.groups))
    return badArgument(
        strCat("the data have ", x->sizes[0], " channels, the weights ", w->sizes[1], " in ", p.groups, " group(s)"));
  return {};
}

template <bool is3d>
Result convolution(const SizedNode& node) {
  return window(node, is3d, known(node.inputs, 0), known(node.inputs, 1), known(node.outputs, 0));
}
template <bool is3d>
Result dedx(const SizedNode& node) {
  return window(node, is3d, known(node.outputs, 0), known(node.inputs, 1), known(node.inputs, 0));
}
template <bool is3d>
Result dedw(const SizedNode& node) {
  return window(node, is3d, known(node.inputs, 1), known(node.outputs, 0), known(node.inputs, 0));
}

// ---- movement ------------------------------------------------------------------------------------

Result transpose(const SizedNode& node) {
  const OperandSizes *x = known(node.inputs, 0), *y = known(node.outputs, 0);
  if (!x || !y) return {};
  synTransposeParamsNDims params = {};
  synTransposeParams narrow;
  if (read(node, narrow)) {
    params.tensorDim = narrow.tensorDim;
    for (size_t i = 0; i < MAX_DIMENSIONS_NUM; ++i) params.permutation[i] = narrow.permutation[i];
  } else if (!read(node, params)) {
    return {};
  }
  if (params.tensorDim != x->rank)
    return badArgument(strCat("tensorDim is ", params.tensorDim, ", the operand has rank ", x->rank));
  OperandSizes wanted;
  wanted.rank = x->rank;
  for (uint32_t d = 0; d < x->rank; ++d) {
    if (params.permutation[d] >= x->rank)
      return badArgument(strCat("the permutation is none: entry ", d, " is ", params.permutation[d]));
    wanted.sizes[d] = x->sizes[params.permutation[d]];
  }
  return mustBe(y, wanted);
}

Result reshape(const SizedNode& node) {
  const OperandSizes *x = known(node.inputs, 0), *y = known(node.outputs, 0);
  if (!x || !y || count(*x) == count(*y)) return {};
  return badArgument(strCat("cannot reshape ", text(*x), " to ", text(*y)));
}

Result broadcast(const SizedNode& node) {
  const OperandSizes *x = known(node.inputs, 0), *y = known(node.outputs, 0);
  if (!x || !y || hasShapeOperand(node)) return {};
  bool fits = x->rank <= y->rank;
  for (uint32_t d = 0; fits && d < x->rank; ++d) fits = x->sizes[d] == 1 || x->sizes[d] == y->sizes[d];
  return fits ? Result() : badArgument(strCat("cannot broadcast ", text(*x), " to ", text(*y)));
}

/// Of a concatenation and a split: the pieces have the whole's sizes but along the axis, where they sum up to it.
Result pieces(const std::vector<OperandSizes>& list, const OperandSizes* whole, const SizedNode& node,
              const char* what) {
  synAxisParams params;
  if (!read(node, params)) return {};
  const OperandSizes* first = whole;
  uint64_t total = 0;
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i].isShape) continue;
    const OperandSizes* one = known(list, i);
    if (!one) return {};
    if (!first) first = one;
    if (params.axis >= first->rank)
      return badArgument(strCat("axis ", params.axis, " is outside of rank ", first->rank));
    bool fits = one->rank == first->rank;
    for (uint32_t d = 0; fits && d < one->rank; ++d) fits = d == params.axis || one->sizes[d] == first->sizes[d];
    if (!fits)
      return badArgument(strCat(what, " ", i, " has sizes ", text(*one), ", which do not fit ", text(*first),
                                " but along axis ", params.axis));
    total += one->sizes[params.axis];
  }
  if (!whole || total == whole->sizes[params.axis]) return {};
  return badArgument(strCat("the ", what, "s have together ", total, " along axis ", params.axis, ", the whole has ",
                            whole->sizes[params.axis]));
}

Result concat(const SizedNode& node) {
  return pieces(node.inputs, known(node.outputs, 0), node, "input");
}
Result split(const SizedNode& node) {
  const OperandSizes* whole = known(node.inputs, 0);
  return whole ? pieces(node.outputs, whole, node, "output") : Result();
}

Result expandDims(const SizedNode& node) {
  const OperandSizes* x = known(node.inputs, 0);
  synAxisParams params;
  if (!x || x->rank >= HABANA_DIM_MAX || !read(node, params)) return {};
  if (params.axis > x->rank) return badArgument(strCat("axis ", params.axis, " is outside of rank ", x->rank + 1));
  OperandSizes wanted = *x;
  wanted.sizes[wanted.rank++] = 1;
  std::rotate(wanted.sizes.begin() + params.axis, wanted.sizes.begin() + x->rank, wanted.sizes.begin() + wanted.rank);
  return mustBe(known(node.outputs, 0), wanted);
}

Result squeeze(const SizedNode& node) {
  const OperandSizes *x = known(node.inputs, 0), *y = known(node.outputs, 0);
  synAxisParams params;
  if (!x) return {};
  if (!read(node, params))
    return y && count(*x) != count(*y) ? badArgument(strCat("cannot squeeze ", text(*x), " to ", text(*y))) : Result();
  if (params.axis >= x->rank) return badArgument(strCat("axis ", params.axis, " is outside of rank ", x->rank));
  if (x->sizes[params.axis] != 1)
    return badArgument(strCat("axis ", params.axis, " has size ", x->sizes[params.axis], ", must have 1"));
  if (x->rank == 1) return {};
  OperandSizes wanted = *x;
  std::copy(x->sizes.begin() + params.axis + 1, x->sizes.begin() + x->rank, wanted.sizes.begin() + params.axis);
  --wanted.rank;
  return mustBe(y, wanted);
}

Result flatten(const SizedNode& node) {
  const OperandSizes* x = known(node.inputs, 0);
  synAxisParams params;
  if (!x || !read(node, params)) return {};
  if (params.axis >= x->rank) return badArgument(strCat("axis ", params.axis, " is outside of rank ", x->rank));
  OperandSizes wanted;
  wanted.rank = 2;
  wanted.sizes[0] = wanted.sizes[1] = 1;
  for (uint32_t d = 0; d < x->rank; ++d) wanted.sizes[d > params.axis] *= x->sizes[d];
  return mustBe(known(node.outputs, 0), wanted);
}

Result alike(const SizedNode& node) {
  const OperandSizes* x = known(node.inputs, 0);
  return x ? mustBe(known(node.outputs, 0), *x) : Result();
}

// ---- slices --------------------------------------------------------------------------------------

Result sliceAxis(const SizedNode& node) {
  const OperandSizes* x = known(node.inputs, 0);
  synSliceAxisParamsV2 params = {};
  synSliceAxisParams narrow;
  if (read(node, narrow))
    params.axis = narrow.axis, params.begin = narrow.begin, params.end = narrow.end;
  else if (!read(node, params))
    return {};
  if (!x || hasShapeOperand(node)) return {};
  if (params.axis >= x->rank) return badArgument(strCat("axis ", params.axis, " is outside of rank ", x->rank));
  const uint64_t size = x->sizes[params.axis];
  if (params.begin > params.end || params.begin > size)
    return badArgument(strCat("begin ", params.begin, " and end ", params.end, " do not fit the size ", size,
                              " of axis ", params.axis));
  OperandSizes wanted = *x;
  wanted.sizes[params.axis] = std::min<uint64_t>(params.end, size) - params.begin;
  return mustBe(known(node.outputs, 0), wanted);
}

/// A slice is nowhere larger than what it is of.
Result inside(const OperandSizes* piece, const OperandSizes* whole) {
  if (!piece || !whole) return {};
  bool fits = piece->rank == whole->rank;
  for (uint32_t d = 0; fits && d < piece->rank; ++d) fits = piece->sizes[d] <= whole->sizes[d];
  return fits ? Result() : badArgument(strCat("sizes ", text(*piece), " are no slice of ", text(*whole)));
}
Result slice(const SizedNode& node) {
  return inside(known(node.outputs, 0), known(node.inputs, 0));
}
Result sliceGrad(const SizedNode& node) {
  return inside(known(node.inputs, 0), known(node.outputs, 0));
}
Result sliceInsert(const SizedNode& node) {
  Result result = alike(node);
  return result.ok() ? inside(known(node.inputs, 1), known(node.inputs, 0)) : result;
}

/// Elements at the strides of `view` must be those of `whole`.
Result reaches(const SizedNode& node, const OperandSizes* view, const OperandSizes* whole) {
  synStridedOpParams params;
  if (!view || !whole || hasShapeOperand(node) || !read(node, params) || count(*view) == 0) return {};
  unsigned __int128 last = params.baseOffset;
  for (uint32_t d = 0; d < view->rank; ++d)
    last += static_cast<unsigned __int128>(view->sizes[d] - 1) * params.strides[d];
  if (last < count(*whole)) return {};
  return badArgument(
      strCat("the view of sizes ", text(*view), " reaches beyond the ", count(*whole), " elements of ", text(*whole)));
}
Result stridedView(const SizedNode& node) {
  return reaches(node, known(node.outputs, 0), known(node.inputs, 0));
}
Result stridedInsert(const SizedNode& node) {
  Result result = alike(node);
  return result.ok() ? reaches(node, known(node.inputs, 1), known(node.inputs, 0)) : result;
}

struct Entry {
  std::string_view name;
  Rule rule;
};

constexpr auto sortedRules() {
  std::array rules = {
      Entry{"gemm", product<Product::kForward, false>},
      Entry{"gemm_dedx", product<Product::kDedx, false>},
      Entry{"gemm_dedw", product<Product::kDedw, false>},
      Entry{"batch_gemm", product<Product::kForward, true>},
      Entry{"batch_gemm_dedx", product<Product::kDedx, true>},
      Entry{"batch_gemm_dedw", product<Product::kDedw, true>},
      Entry{"spatial_convolution", convolution<false>},
      Entry{"spatial_convolution3d", convolution<true>},
      Entry{"dedx", dedx<false>},
      Entry{"dedx3d", dedx<true>},
      Entry{"dedw", dedw<false>},
      Entry{"dedw3d", dedw<true>},
      Entry{"transpose", transpose},
      Entry{"transpose_dma", transpose},
      Entry{"reshape", reshape},
      Entry{"static_reshape", reshape},
      Entry{"broadcast", broadcast},
      Entry{"concat", concat},
      Entry{"physical_concat", concat},
      Entry{"concat_logical_internal", concat},
      Entry{"split", split},
      Entry{"expand_dims", expandDims},
      Entry{"squeeze", squeeze},
      Entry{"flatten", flatten},
      Entry{"identity", alike},
      Entry{"memcpy", alike},
      Entry{"serialize_dma", alike},
      Entry{"deserialize_dma", alike},
      Entry{"slice_axis", sliceAxis},
      Entry{"slice", slice},
      Entry{"strided_slice_grad", sliceGrad},
      Entry{"slice_insert", sliceInsert},
      Entry{"strided_view", stridedView},
      Entry{"strided_insert", stridedInsert},
      Entry{"cast", elementwise},
      Entry{"abs_fwd", elementwise},
      Entry{"neg_fwd", elementwise},
      Entry{"exp_fwd", elementwise},
      Entry{"log_fwd", elementwise},
      Entry{"sqrt_fwd", elementwise},
      Entry{"rsqrt_fwd", elementwise},
      Entry{"reciprocal_fwd", elementwise},
      Entry{"relu_fwd", elementwise},
      Entry{"gelu_fwd", elementwise},
      Entry{"sigmoid_fwd", elementwise},
      Entry{"tanh_fwd", elementwise},
      Entry{"silu_fwd", elementwise},
      Entry{"not", elementwise},
      Entry{"add_fwd", elementwise},
      Entry{"sub_fwd", elementwise},
      Entry{"mult_fwd", elementwise},
      Entry{"div_fwd", elementwise},
      Entry{"max_fwd", elementwise},
      Entry{"min_fwd", elementwise},
      Entry{"pow_fwd", elementwise},
      Entry{"mod_fwd", elementwise},
      Entry{"rem_fwd", elementwise},
      Entry{"equal_fwd", elementwise},
      Entry{"not_equal_fwd", elementwise},
      Entry{"less_fwd", elementwise},
      Entry{"less_equal_fwd", elementwise},
      Entry{"greater_fwd", elementwise},
      Entry{"greater_equal_fwd", elementwise},
      Entry{"and", elementwise},
      Entry{"or", elementwise},
      Entry{"xor", elementwise},
      Entry{"where_fwd", elementwise},
  };
  std::sort(rules.begin(), rules.end(), [](const Entry& a, const Entry& b) { return a.name < b.name; });
  return rules;
}
constexpr auto kRules = sortedRules();

Rule ruleFor(std::string_view name) {
  auto at = std::lower_bound(kRules.begin(), kRules.end(), name,
                             [](const Entry& e, std::string_view n) { return e.name < n; });
  return at != kRules.end() && at->name == name ? at->rule : nullptr;
}

}  // namespace

bool hasSizeRule(const GuidInfo& info) {
  return ruleFor(info.name) != nullptr;
}

Result checkSizes(const GuidInfo& info, const SizedNode& node) {
  const Rule rule = ruleFor(info.name);
  return rule ? rule(node) : Result();
}

}  // namespace hpu::synapse
