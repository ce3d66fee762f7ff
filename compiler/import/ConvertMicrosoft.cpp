// SPDX-License-Identifier: Apache-2.0
// Ops of ONNX Runtime's own domain, com.microsoft, that its optimiser and exporters write: Transformers' fused parts.
#include <algorithm>

#include "base/Format.h"
#include "compiler/import/Composed.h"
#include "compiler/import/OpTable.h"
#include "compose/Attention.h"
#include "compose/Indexing.h"
#include "compose/Quantized.h"

namespace hpu::importer {
namespace {

using base::strCat;
using compose::Emitter;
using Values = std::vector<hpu::Value>;

constexpr const char* kDomain = "com.microsoft";

/// Operands that OpenHPU does not take. False, and a failure, where one is given.
bool lacks(NodeContext& node, std::initializer_list<std::pair<size_t, const char*>> inputs) {
  for (const auto& [index, name] : inputs)
    if (node.has(index)) return node.unsupported(strCat("input ", index, " (", name, ")")), false;
  return true;
}

// ---- activations ---------------------------------------------------------------------------------

void convertGelu(NodeContext& node) {
  Value x = node.input(0);
  if (node.has(1)) x = node.op("add", {x, node.input(1)});
  const bool isFast = node.def().op == "FastGelu";
  if (x) node.setOutput(0, node.op("gelu", x, {{"tanh_approximation", isFast}}));
}
void convertQuickGelu(NodeContext& node) {  // x * sigmoid(alpha x)
  Value x = node.input(0);
  if (!x) return;
  Value scaled = node.op("mul", {x, node.scalarLike(x, node.number("alpha", 1.702))});
  node.setOutput(0, node.op("mul", {x, node.op("sigmoid", scaled)}));
}

// ---- normalisations ------------------------------------------------------------------------------

/// input, skip, gamma, beta (not of the simplified one), bias -> result, mean, inverse deviation, their sum
void convertSkipNormalization(NodeContext& node) {
  const bool isSimple = node.def().op == "SkipSimplifiedLayerNormalization";
  std::vector<Value> operands = node.operands(5);
  if (isSimple) operands[4] = std::exchange(operands[3], Value());
  const double epsilon = node.number("epsilon", 1e-12);
  composed(node, operands, [&](Emitter& e, const Values& in) -> Values {
    const ElementType type = e.element(in[0]);
    hpu::Value sum = e.add(e.toF32(in[0]), e.toF32(in[1]));
    if (in[4].handle) sum = e.add(sum, e.toF32(in[4]));
    const compose::Normalized n = isSimple ? compose::rootMeanSquareNormalized(e, sum, in[2], epsilon)
                                           : compose::normalized(e, sum, in[2], in[3], epsilon);
    return {e.cast(n.result, type), n.mean, n.inverseDeviation, e.cast(sum, type)};
  });
}

/// input_ids, segment_ids, words, positions, segments, gamma, beta, mask, position_ids -> result, mask_index, sum
void convertEmbedNormalization(NodeContext& node) {
  if (node.wants(1) && node.has(7)) return node.unsupported("the output mask_index of a mask");
  std::vector<Value> operands = node.operands(9);
  operands[7] = Value();
  const double epsilon = node.number("epsilon", 1e-12);
  composed(node, operands, [&](Emitter& e, const Values& in) -> Values {
    const ElementType type = e.element(in[2]);
    const Shape ids = e.shape(in[0]);
    if (ids.size() != 2) return {e.fail("input_ids must be [batch, sequence]")};
    hpu::Value sum = e.toF32(e.gather(in[2], in[0], 0));
    hpu::Value positions = in[8].handle ? e.gather(in[3], in[8], 0) : e.sliceDim(in[3], 0, 0, ids[1]);
    sum = e.add(sum, e.toF32(positions));
    if (in[1].handle && in[4].handle) sum = e.add(sum, e.toF32(e.gather(in[4], in[1], 0)));
    const compose::Normalized n = compose::normalized(e, sum, in[5], in[6], epsilon);
    return {e.cast(n.result, type), e.full({ElementType::kI32, {ids[0]}}, 0), e.cast(sum, type)};
  });
}

// ---- products ------------------------------------------------------------------------------------

/// alpha A B, each of the two transposed in its last dimensions.
void convertFusedMatMul(NodeContext& node) {
  if (node.integer("transBatchA", 0) || node.integer("transBatchB", 0))
    return node.unsupported("transBatchA and transBatchB");
  Value a = node.input(0), b = node.input(1);
  if (!a || !b) return;
  auto turned = [&](Value x, const char* attribute) {
    if (!node.integer(attribute, 0) || node.rank(x) < 2) return x;
    Ints perm;
    for (int64_t d = 0; d < node.rank(x); ++d) perm.push_back(d);
    std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
    return node.transpose(x, perm);
  };
  Value product = node.op("matmul", {turned(a, "transA"), turned(b, "transB")});
  const double alpha = node.number("alpha", 1);
  if (alpha != 1 && product) product = node.op("mul", {product, node.scalarLike(product, alpha)});
  node.setOutput(0, product);
}

/// A [.., K] times a weight of N rows of K 4-bit numbers, in blocks along K: (number - zero point) * scale.
void convertMatMulNBits(NodeContext& node) {
  const int64_t k = node.integer("K", 0), n = node.integer("N", 0), block = node.integer("block_size", 0);
  const int64_t bits = node.integer("bits", 4);
  if (!lacks(node, {{4, "g_idx"}})) return;
  if (bits != 4) return node.unsupported(strCat("weights of ", bits, " bits"));
  if (k < 1 || n < 1 || block < 16 || (block & (block - 1)) != 0)
    return node.invalid("K, N and block_size must be positive, the latter a power of 2 from 16 on");
  if (node.has(3) && !node.inputType(3).getElementType().isInteger(8))
    return node.unsupported("zero points that are not packed");
  std::vector<Value> operands = node.operands(6);
  composed(node, operands, [&](Emitter& e, const Values& in) -> Values {
    const ElementType type = e.element(in[0]);
    const int64_t blocks = (k + block - 1) / block;
    // Two numbers in a byte, the low one first.
    auto unpacked = [&](hpu::Value bytes, int64_t rows, int64_t columns) {
      hpu::Value wide = e.cast(e.reshape(bytes, {rows, columns, 1}), ElementType::kI32),
                 sixteen = e.scalarLike(wide, 16);
      hpu::Value high = e.div(wide, sixteen), low = e.sub(wide, e.mul(high, sixteen));
      return e.toF32(e.reshape(e.concat({low, high}, 2), {rows, columns * 2}));
    };
    if (numElements(e.shape(in[1])) != n * blocks * block / 2 || numElements(e.shape(in[2])) != n * blocks)
      return {e.fail("its weights or scales do not fit K, N and block_size")};
    hpu::Value weights = e.reshape(unpacked(in[1], n, blocks * block / 2), {n, blocks, block});
    hpu::Value zero = e.scalarLike(weights, 8);
    if (in[3].handle) {
      const int64_t bytes = (blocks + 1) / 2;
      if (numElements(e.shape(in[3])) != n * bytes) return {e.fail("its zero points do not fit K, N and block_size")};
      zero = e.reshape(e.sliceDim(unpacked(in[3], n, bytes), 1, 0, blocks), {n, blocks, 1});
    }
    weights = e.mul(e.sub(weights, zero), e.reshape(e.toF32(in[2]), {n, blocks, 1}));
    weights = e.sliceDim(e.reshape(weights, {n, blocks * block}), 1, 0, k);
    hpu::Value product = e.matmul(in[0], e.cast(e.transpose(weights, {1, 0}), type));
    return {in[5].handle ? e.add(product, in[5]) : product};
  });
}

// ---- attention -----------------------------------------------------------------------------------

/// What is added to the products, from a mask that says which keys are there: [B] (how many), [B, T] or [B, S, T].
hpu::Value biasOfMask(Emitter& e, hpu::Value mask, int64_t batch, int64_t columns, double filter) {
  if (!mask.handle) return {};
  const Shape s = e.shape(mask);
  hpu::Value isThere;
  if (s == Shape{batch}) {
    hpu::Value count = e.reshape(e.cast(mask, ElementType::kI32), {batch, 1, 1, 1});
    isThere = e.op("less", {e.cast(compose::counter(e, columns, 3, 4), ElementType::kI32), count});
  } else if (s == Shape{batch, columns}) {
    isThere = e.toBool(e.reshape(mask, {batch, 1, 1, columns}));
  } else if (s.size() == 3 && s[0] == batch && s[2] == columns) {
    isThere = e.toBool(e.reshape(mask, {batch, 1, s[1], columns}));
  } else {
    return e.unsupported("a mask that is neither [batch], [batch, keys] nor [batch, queries, keys]");
  }
  return e.where(isThere, e.scalar(0, ElementType::kF32), e.scalar(filter, ElementType::kF32));
}
hpu::Value sumOf(Emitter& e, hpu::Value a, hpu::Value b) {
  return !a.handle ? b : !b.handle ? a : e.add(e.toF32(a), e.toF32(b));
}
hpu::Value behind(Emitter& e, hpu::Value past, hpu::Value x) {
  return past.handle ? e.concat({past, x}, 2) : x;
}

/// input, weights, bias, mask_index, past, attention_bias -> result, present
void convertAttention(NodeContext& node) {
  if (node.def().op == "Attention" && !lacks(node, {{6, "past_sequence_length"}})) return;
  if (node.integer("do_rotary", 0)) return node.unsupported("rotary positions");
  const int64_t heads = node.integer("num_heads", 0);
  const double filter = node.number("mask_filter_value", -10000);
  const compose::AttentionOptions options{node.number("scale", 0), 0, node.integer("unidirectional", 0) != 0};
  Ints widths = node.integers("qkv_hidden_sizes");
  if (heads < 1) return node.invalid("num_heads is missing");
  if (!widths.empty() && widths.size() != 3) return node.invalid("qkv_hidden_sizes needs three numbers");
  const bool isQuantized = node.def().op == "QAttention";
  composed(node, node.operands(isQuantized ? 9 : 6), [&](Emitter& e, const Values& given) -> Values {
    hpu::Value all;
    Values in = given;
    if (isQuantized) {  // input, weights, bias, their scales, mask, their zero points, past
      all = compose::quantizedProduct(e, in[0], in[3], in[6], in[1], in[4], in[7]);
      in[3] = given[5], in[4] = given[8], in[5] = {};
    } else {
      all = e.matmul(in[0], in[1]);
    }
    if (in[2].handle) all = e.add(all, in[2]);
    const int64_t batch = e.dim(all, 0), width = e.dim(all, 2);
    Ints parts = widths;
    if (parts.empty()) parts.assign(3, width / 3);
    if (!e.ok()) return {};
    if (parts[0] + parts[1] + parts[2] != width) return {e.fail("its weights do not fit qkv_hidden_sizes")};
    hpu::Value q = compose::splitHeads(e, e.sliceDim(all, 2, 0, parts[0]), heads);
    hpu::Value k = compose::splitHeads(e, e.sliceDim(all, 2, parts[0], parts[1]), heads);
    hpu::Value v = compose::splitHeads(e, e.sliceDim(all, 2, parts[0] + parts[1], parts[2]), heads);
    if (in[4].handle) {
      k = behind(e, compose::removeDim(e, e.sliceDim(in[4], 0, 0, 1), 0), k);
      v = behind(e, compose::removeDim(e, e.sliceDim(in[4], 0, 1, 1), 0), v);
    }
    hpu::Value bias = sumOf(e, biasOfMask(e, in[3], batch, e.dim(k, 2), filter), in[5]);
    hpu::Value result = compose::joinHeads(e, compose::attention(e, q, k, v, bias, options));
    if (!node.wants(1)) return {result};
    return {result, e.concat({compose::insertDim(e, k, 0), compose::insertDim(e, v, 0)}, 0)};
  });
}

/// query, key, value, bias, key_padding_mask, attention_bias, past_key, past_value -> result, present_key,
/// present_value
void convertMultiHeadAttention(NodeContext& node) {
  if (!lacks(node, {{8, "past_sequence_length"}, {9, "cache_indirection"}})) return;
  const int64_t heads = node.integer("num_heads", 0);
  const double filter = node.number("mask_filter_value", -10000);
  const compose::AttentionOptions options{node.number("scale", 0), 0, node.integer("unidirectional", 0) != 0};
  if (heads < 1) return node.invalid("num_heads is missing");
  if (!node.has(1) || !node.has(2)) return node.unsupported("a query with its keys and values packed behind");
  composed(node, node.operands(8), [&](Emitter& e, const Values& in) -> Values {
    if (e.rank(in[0]) != 3) return {e.unsupported("a query of another rank than 3")};
    int64_t first = 0;
    // A part of the bias for each; keys and values may come as heads already, without one.
    auto headsOf = [&](hpu::Value x) {
      if (e.rank(x) == 4) return x;
      const int64_t width = e.dim(x, 2);
      if (in[3].handle) x = e.add(x, e.sliceDim(in[3], 0, first, width));
      first += width;
      return compose::splitHeads(e, x, heads);
    };
    hpu::Value q = headsOf(in[0]), k = headsOf(in[1]), v = headsOf(in[2]);
    k = behind(e, in[6], k);
    v = behind(e, in[7], v);
    hpu::Value bias = sumOf(e, biasOfMask(e, in[4], e.dim(q, 0), e.dim(k, 2), filter), in[5]);
    return {compose::joinHeads(e, compose::attention(e, q, k, v, bias, options)), k, v};
  });
}

/// query, key, value, past_key, past_value, seqlens_k, total_sequence_length, cos_cache, sin_cache, position_ids ->
/// result, present_key, present_value. Several heads of the query share one of keys and values.
void convertGroupQueryAttention(NodeContext& node) {
  if (!lacks(node, {{10, "attention_bias"}, {11, "head_sink"}})) return;
  const int64_t heads = node.integer("num_heads", 0), groups = node.integer("kv_num_heads", 0);
  const int64_t window = node.integer("local_window_size", -1);
  const bool isRotary = node.integer("do_rotary", 0) != 0, isInterleaved = node.integer("rotary_interleaved", 0) != 0;
  const compose::AttentionOptions options{node.number("scale", 0), node.number("softcap", 0), false};
  if (heads < 1 || groups < 1 || heads % groups != 0)
    return node.invalid("num_heads must be a multiple of kv_num_heads");
  if (node.integer("smooth_softmax", 0) > 0) return node.unsupported("a smooth softmax");
  if (node.has(1) != node.has(2)) return node.invalid("it has keys without values, or the other way round");
  if (!node.has(5)) return node.invalid("seqlens_k is missing");
  if (isRotary && (!node.has(7) || !node.has(8))) return node.invalid("rotary positions need both caches");
  const std::optional<double> total = node.has(6) ? node.constantNumber(6) : std::nullopt;
  std::vector<Value> operands = node.operands(10);
  operands[6] = Value();
  composed(node, operands, [&](Emitter& e, const Values& in) -> Values {
    const ElementType type = e.element(in[0]);
    hpu::Value query = in[0], key = in[1], value = in[2];
    const int64_t batch = e.dim(query, 0), steps = e.dim(query, 1);
    if (!key.handle) {  // Keys and values are packed behind the query.
      const int64_t depth = e.dim(query, 2) / (heads + 2 * groups);
      key = e.sliceDim(in[0], 2, heads * depth, groups * depth);
      value = e.sliceDim(in[0], 2, (heads + groups) * depth, groups * depth);
      query = e.sliceDim(in[0], 2, 0, heads * depth);
    }
    hpu::Value q = compose::splitHeads(e, query, heads), k = compose::splitHeads(e, key, groups),
               v = compose::splitHeads(e, value, groups);
    const int64_t depth = e.dim(q, 3), past = in[3].handle ? e.dim(in[3], 2) : 0;
    // Where `total` is not known it is what there was and what is new.
    const int64_t known = total ? static_cast<int64_t>(*total) : past + steps;
    const int64_t columns = std::max(past, known);
    const bool isFirst = known == steps;
    if (!e.ok()) return {};
    if (columns < steps) return {e.fail("total_sequence_length is less than the query's")};
    // Where each batch element's new keys go.
    hpu::Value lengths = e.reshape(e.cast(in[5], ElementType::kI32), {batch, 1, 1, 1});
    hpu::Value begin =
        isFirst ? e.full({ElementType::kI32, {batch, 1, 1, 1}}, 0) : e.add(lengths, static_cast<double>(1 - steps));
    hpu::Value rows = e.add(compose::counter(e, steps, 2, 4), begin);  // [batch, 1, steps, 1]
    if (isRotary) {
      const int64_t half = e.dim(in[7], 1);
      hpu::Value positions = in[9].handle ? e.cast(in[9], ElementType::kI32) : e.reshape(rows, {batch, steps});
      auto of = [&](hpu::Value cache) {
        return e.cast(e.reshape(e.gather(cache, positions, 0), {batch, 1, steps, half}), type);
      };
      hpu::Value cosines = of(in[7]), sines = of(in[8]);
      q = compose::rotated(e, q, cosines, sines, 2 * half, isInterleaved);
      k = compose::rotated(e, k, cosines, sines, 2 * half, isInterleaved);
    }
    auto present = [&](hpu::Value before, hpu::Value now) {
      if (!before.handle && columns == steps) return now;
      hpu::Value room = before.handle ? e.pad(before, {0, 0, 0, 0}, {0, 0, columns - past, 0})
                                      : e.full({type, {batch, groups, columns, depth}}, 0);
      return e.op("scatter_elements", {room, begin, now}, {{"axis", int64_t{2}}, {"advance", int64_t{1}}});
    };
    hpu::Value keys = present(in[3], k), values = present(in[4], v);
    hpu::Value column = compose::counter(e, columns, 3, 4);
    hpu::Value isSeen = e.op("less_equal", {column, rows});
    if (window > 0) isSeen = e.op("and", {isSeen, e.op("greater", {column, e.sub(rows, static_cast<double>(window))})});
    hpu::Value bias = e.where(isSeen, e.scalar(0, ElementType::kF32), e.scalar(-1e30, ElementType::kF32));
    // The queries of a group are rows of one product.
    const int64_t shared = heads / groups;
    q = e.reshape(q, {batch, groups, shared * steps, depth});
    bias = e.reshape(e.expand(e.reshape(bias, {batch, 1, 1, steps, columns}), {batch, 1, shared, steps, columns}),
                     {batch, 1, shared * steps, columns});
    hpu::Value result = compose::attention(e, q, keys, values, bias, options);
    return {compose::joinHeads(e, e.reshape(result, {batch, heads, steps, depth})), keys, values};
  });
}

/// input, position_ids, cos_cache, sin_cache: rows of the caches for the positions.
void convertRotaryEmbedding(NodeContext& node) {
  const bool isInterleaved = node.integer("interleaved", 0) != 0;
  const int64_t given = node.integer("rotary_embedding_dim", 0), heads = node.integer("num_heads", 0);
  if (node.number("scale", 1) != 1 || node.integer("is_packed_batching", 0))
    return node.unsupported("a scale, and packed batches");
  composed(node, node.operands(4), [&](Emitter& e, const Values& in) -> Values {
    const int64_t half = e.dim(in[2], 1), width = given > 0 ? given : 2 * half;
    hpu::Value x = in[0];
    const bool isFlat = e.rank(x) == 3;
    if (isFlat) {
      const int64_t count = heads > 0 ? heads : e.dim(x, 2) / width;
      x = compose::splitHeads(e, x, count);
    }
    const int64_t batch = e.dim(x, 0), steps = e.dim(x, 2);
    hpu::Value positions = in[1];
    if (!e.ok()) return {};
    if (numElements(e.shape(positions)) == 1) {  // The first one; the others follow it.
      positions = e.reshape(e.cast(positions, ElementType::kI32), {1, 1});
      positions = e.add(positions, e.cast(compose::counter(e, steps, 1, 2), ElementType::kI32));
    }
    const int64_t rows = e.dim(positions, 0);
    if (rows != 1 && rows != batch) return {e.fail("position_ids must be [batch, sequence] or one number")};
    auto of = [&](hpu::Value cache) { return e.reshape(e.gather(cache, positions, 0), {rows, 1, steps, half}); };
    hpu::Value turned = compose::rotated(e, x, of(in[2]), of(in[3]), width, isInterleaved);
    return {isFlat ? compose::joinHeads(e, turned) : turned};
  });
}

constexpr OpRow kRows[] = {
    {"Gelu", 1, 1, convertGelu, "", "", kDomain},
    {"BiasGelu", 1, 1, convertGelu, "", "", kDomain},
    {"FastGelu", 1, 1, convertGelu, "", "", kDomain},
    {"QuickGelu", 1, 1, convertQuickGelu, "", "", kDomain},
    {"SkipLayerNormalization", 1, 1, convertSkipNormalization, "", "", kDomain},
    {"SkipSimplifiedLayerNormalization", 1, 1, convertSkipNormalization, "", "no output mean", kDomain},
    {"EmbedLayerNormalization", 1, 1, convertEmbedNormalization, "", "no output mask_index of a mask", kDomain},
    {"FusedMatMul", 1, 1, convertFusedMatMul, "", "batches as they are", kDomain},
    {"MatMulNBits", 1, 1, convertMatMulNBits, "", "4 bits, no g_idx", kDomain},
    {"Attention", 1, 1, convertAttention, "", "masks of keys and of pairs; no rotary positions", kDomain},
    {"QAttention", 1, 1, convertAttention, "", "masks of keys and of pairs", kDomain},
    {"GroupQueryAttention", 1, 1, convertGroupQueryAttention, "", "no bias, no sink; caches that grow", kDomain},
    {"MultiHeadAttention", 1, 1, convertMultiHeadAttention, "", "queries, keys and values apart", kDomain},
    {"RotaryEmbedding", 1, 1, convertRotaryEmbedding, "", "no packed batches", kDomain},
};

}  // namespace

llvm::ArrayRef<OpRow> microsoftRows() {
  return kRows;
}

}  // namespace hpu::importer
