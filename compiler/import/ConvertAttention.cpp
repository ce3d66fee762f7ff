// SPDX-License-Identifier: Apache-2.0
// Attention and rotary positions as ONNX has them from opset 23 on.
#include <limits>

#include "compiler/import/Composed.h"
#include "compiler/import/OpTable.h"
#include "compose/Attention.h"
#include "compose/Indexing.h"

namespace hpu::importer {
namespace {

using compose::Emitter;
using Values = std::vector<hpu::Value>;

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

hpu::Value biasWhere(Emitter& e, hpu::Value isSeen) {
  return e.where(isSeen, e.scalar(0, ElementType::kF32), e.scalar(kMinusInfinity, ElementType::kF32));
}

/// The mask as what is added, for `columns` keys; keys that it does not reach are not seen.
hpu::Value biasOfMask(Emitter& e, hpu::Value mask, int64_t columns) {
  if (!mask.handle) return {};
  const int64_t rank = e.rank(mask), own = e.dim(mask, -1);
  hpu::Value bias = e.element(mask) == ElementType::kBool ? biasWhere(e, mask) : e.toF32(mask);
  if (own >= columns || own == 0) return bias;
  std::vector<int64_t> low(static_cast<size_t>(rank), 0), high(low);
  high.back() = columns - own;
  return e.pad(bias, low, high, kMinusInfinity);
}

/// Q, K, V, attn_mask, past_key, past_value, nonpad_kv_seqlen -> Y, present_key, present_value, qk_matmul_output
void convertAttention(NodeContext& node) {
  const int64_t heads = node.integer("q_num_heads", 0), groups = node.integer("kv_num_heads", 0);
  const int64_t mode = node.integer("qk_matmul_output_mode", 0);
  const bool isCausal = node.integer("is_causal", 0) != 0;
  if (mode < 0 || mode > 3) return node.invalid("unknown qk_matmul_output_mode");
  if (node.has(4) != node.has(5)) return node.invalid("it has past keys without values, or the other way round");
  if (node.has(4) && node.has(6)) return node.invalid("it has both past keys and nonpad_kv_seqlen");
  // Without a mask or lengths every row sees a key.
  const compose::AttentionOptions options{node.number("scale", 0), node.number("softcap", 0), false,
                                          node.has(3) || node.has(6)};
  composed(node, node.operands(7), [&](Emitter& e, const Values& in) -> Values {
    const ElementType type = e.element(in[0]);
    const bool isFlat = e.rank(in[0]) == 3;
    if (isFlat && (heads < 1 || groups < 1)) return {e.fail("q_num_heads and kv_num_heads are missing")};
    auto headsOf = [&](hpu::Value x, int64_t count) { return e.rank(x) == 3 ? compose::splitHeads(e, x, count) : x; };
    hpu::Value q = headsOf(in[0], heads), k = headsOf(in[1], groups), v = headsOf(in[2], groups);
    if (in[4].handle) k = e.concat({in[4], k}, 2), v = e.concat({in[5], v}, 2);
    if (!e.ok()) return {};
    const int64_t batch = e.dim(q, 0), rows = e.dim(q, 2), columns = e.dim(k, 2);
    hpu::Value bias = biasOfMask(e, in[3], columns);
    auto alsoSeen = [&](hpu::Value isSeen) {
      hpu::Value own = biasWhere(e, isSeen);
      bias = bias.handle ? e.add(bias, own) : own;
    };
    hpu::Value column = compose::counter(e, columns, 3, 4), row = compose::counter(e, rows, 2, 4), lengths;
    if (in[6].handle) lengths = e.reshape(e.cast(in[6], ElementType::kI32), {batch, 1, 1, 1});
    if (isCausal) {
      // Rows follow the keys that there were.
      hpu::Value first = lengths.handle ? e.sub(lengths, static_cast<double>(rows))
                                        : e.scalarLike(row, in[4].handle ? static_cast<double>(e.dim(in[4], 2)) : 0);
      alsoSeen(e.op("less_equal", {column, e.add(row, first)}));
    }
    if (lengths.handle) alsoSeen(e.op("less", {column, lengths}));
    const compose::AttentionSteps steps = compose::attentionSteps(
        e, q, compose::sharedHeads(e, k, e.dim(q, 1)), compose::sharedHeads(e, v, e.dim(q, 1)), bias, options);
    const hpu::Value shown[] = {steps.products, steps.capped, steps.biased, steps.weights};
    return {isFlat ? compose::joinHeads(e, steps.result) : steps.result, k, v, e.cast(shown[mode], type)};
  });
}

/// X, cos_cache, sin_cache, position_ids: rows of the caches for the positions, or for each element of the batch.
void convertRotaryEmbedding(NodeContext& node) {
  const bool isInterleaved = node.integer("interleaved", 0) != 0;
  const int64_t given = node.integer("rotary_embedding_dim", 0), heads = node.integer("num_heads", 0);
  composed(node, node.operands(4), [&](Emitter& e, const Values& in) -> Values {
    const bool isFlat = e.rank(in[0]) == 3;
    if (isFlat && heads < 1) return {e.fail("num_heads is missing")};
    hpu::Value x = isFlat ? compose::splitHeads(e, in[0], heads) : in[0];
    if (!e.ok()) return {};
    if (e.rank(x) != 4) return {e.fail("its input has another rank than 3 or 4")};
    const int64_t width = given > 0 ? given : e.dim(x, 3), batch = e.dim(x, 0), steps = e.dim(x, 2);
    auto of = [&](hpu::Value cache) {
      hpu::Value rows = in[3].handle ? e.gather(cache, in[3], 0) : cache;
      const int64_t half = e.dim(rows, -1);
      if (half < width / 2) return e.fail("its caches are narrower than half of what is turned");
      rows = e.reshape(rows, {batch, 1, steps, half});
      return e.sliceDim(rows, 3, 0, width / 2);
    };
    hpu::Value turned = compose::rotated(e, x, of(in[1]), of(in[2]), width, isInterleaved);
    return {isFlat ? compose::joinHeads(e, turned) : turned};
  });
}

constexpr OpRow kRows[] = {
    {"Attention", 23, kNewestOpset, convertAttention, "", "a softmax in f32"},
    {"RotaryEmbedding", 23, kNewestOpset, convertRotaryEmbedding},
};

}  // namespace

llvm::ArrayRef<OpRow> attentionRows() {
  return kRows;
}

}  // namespace hpu::importer
