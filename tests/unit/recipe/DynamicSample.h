// SPDX-License-Identifier: Apache-2.0
// Hand-made programs of free dimensions: a builder that writes the numbers at the representatives and the expressions
// side by side, and a sample that has every struct of Dynamic.h.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "recipe/Dynamic.h"
#include "recipe/Recipe.h"

namespace hpu::recipe::testing {

/// A number at the representatives and its expression.
struct Num {
  int64_t value = 0;
  uint32_t expr = 0;
};
using Nums = std::vector<Num>;

class DynamicBuilder {
 public:
  explicit DynamicBuilder(Target target = Target::kGaudi2);

  Num symbol(const std::string& name, int64_t min, int64_t max, int64_t sample);
  Num number(int64_t value);
  Num add(Num a, Num b);
  Num times(Num a, Num b);
  Num times(Num a, int64_t b) { return times(a, number(b)); }
  /// A product of all.
  Num product(const Nums& nums);

  /// A view of memory that ops take; a storage, tile or neither says where.
  struct View {
    uint32_t section = kNone;
    ElementType type = ElementType::kF32;
    Nums sizes, strides;
    Num offset;
    uint32_t storage = kNone, tile = kNone;
    std::vector<uint32_t> tileDims;
  };
  /// Tensors in row-major order.
  View input(const std::string& name, const Nums& sizes);
  View output(const std::string& name, const Nums& sizes);
  /// A constant of sizes that are fixed.
  View constant(const std::vector<int64_t>& sizes);
  View workspace(const Nums& sizes);
  /// A part of a view that begins at `from` along `dim`.
  View part(const View& whole, size_t dim, Num from, Num size);
  View transposed(const View& view);
  /// Tiles, cut along `dim`; the builder finds their unit.
  View tiles(const Nums& sizes, uint32_t dim, uint32_t slots);

  uint32_t kernel(const std::string& name, uint32_t inputs, uint32_t rank, uint32_t wholeDims, const Nums& dims);
  /// Says that input `input` of the kernel is read along with the index space, dimension by dimension.
  void readsPointwise(uint32_t kernel, uint32_t input, uint32_t rank);

  uint32_t gemm(const std::string& name, const View& a, const View& b, const View& c);
  uint32_t tpc(const std::string& name, uint32_t kernel, const std::vector<View>& inputs, const View& output);
  uint32_t copy(const std::string& name, const View& src, const View& dst);
  /// In program order; several parts take turns. `slices` by choice and part.
  void unit(const std::vector<std::vector<uint32_t>>& parts,
            const std::vector<std::vector<std::vector<uint32_t>>>& slices = {});
  /// Sizes up to these, by symbol, before the last choice.
  void choice(const std::vector<int64_t>& max);
  void guard(Guard::Relation relation, Num left, Num right, const std::string& text);

  /// The program, its own memory without reuse and its commands one after another.
  Program finish();

  Dynamic dynamic;
  Program program;

 private:
  View dense(uint32_t section, const Nums& sizes);
  Operand operand(uint32_t op, uint32_t number, const View& view);
  uint32_t expr(SizeExpr::Kind kind, int64_t number, std::vector<uint32_t> args);
  bool isFixed(Num num) const;
  void patch(Patch::Field field, uint32_t index, uint32_t operand, uint32_t dim, Num num);
  void setSpace(uint32_t op, const Nums& sizes);

  uint32_t constants_ = kNone, workspace_ = kNone, sram_ = kNone;
  std::vector<std::vector<std::vector<std::vector<uint32_t>>>> slices_;  ///< By unit, choice, part, dim.
};

/// An attention head that keeps what it has seen: inputs x [seq, 64] and cache [past, 64]. Free dimensions past (0 to
/// 96) and seq (1 to 128) with these representatives, two choices of tiles. It has a copy that is empty when past is, a
/// bundle with tiles in SRAM, a softmax over past + seq, a gemm over K = past, a chain of two gemms through a ring, and
/// a kernel that joins inputs of which one may be empty.
Program dynamicSample(int64_t past = 5, int64_t seq = 6);
/// The same with one more input, whose two elements say the sizes as well.
Program valuedSample();

/// Ops of dynamicSample().
enum DynamicOp : uint32_t {
  kKeepOp,     ///< Copies the cache to where all keys are.
  kProjectOp,  ///< x * W, into tiles.
  kReluOp2,    ///< Writes the keys of x behind the others.
  kScoresOp,   ///< x * all keys, transposed.
  kSoftmaxOp2,
  kOldOp,   ///< Of the scores the first `past` columns * cache.
  kUpOp,    ///< x * W, into a ring of a chain.
  kDownOp,  ///< The ring * W, into an output.
  kJoinOp,  ///< cache and x, one behind the other.
};

/// `layers` of a product with a kernel behind it in two slices, a softmax and an addition: six commands a layer. Inputs
/// x [batch * seq, 256], batch [batch] and seq [seq].
Program layersProgram(int64_t layers);

/// x [seq, 64] * W, and the rows of a table of positions from `past` on. Free dimensions past (0 to 8) and seq (1 to
/// 16); those of `fixed` have this size instead, and when it has both the program has none. Constants lie in another
/// order then, and where `past` is fixed the program has one more.
Program positionsSample(const std::map<std::string, int64_t>& fixed = {}, int64_t past = 3, int64_t seq = 5);

/// A state: x [seq, 64] is written behind the rows of cache [past, 64], and y is all of both. past (0 to 8), seq (1 to
/// 16); the state has room for 24 rows.
Program statesSample();

/// Sizes that depend on data: y [seq, 64] is a copy of x, of which the second of two sizes says how many rows there are
/// and the first how many columns; the sizes are a copy of the input `counts`. seq (1 to 16).
Program dataSizesSample();

/// positionsSample() with variants for seq = 16, and for past = 4, seq = 16.
Program variantsSample();

/// Equal in every field of Dynamic.h.
bool sameDynamics(const Dynamic& a, const Dynamic& b);

}  // namespace hpu::recipe::testing
