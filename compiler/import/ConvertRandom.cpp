// SPDX-License-Identifier: Apache-2.0
// Random numbers. The one thing to know: they follow from the seed and the position alone. A node without a seed has
// one of its own, made of its name, so a model gives the same numbers in each launch.
#include <bit>
#include <cmath>
#include <limits>

#include "base/Format.h"
#include "compiler/import/Composed.h"
#include "compiler/import/OpTable.h"
#include "compose/Random.h"

namespace hpu::importer {
namespace {

using base::strCat;
using compose::Emitter;
using Values = std::vector<hpu::Value>;

/// FNV-1a.
uint32_t hashOf(llvm::StringRef text) {
  uint32_t hash = 2166136261u;
  for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return hash;
}

uint32_t seedOf(NodeContext& node) {
  const NodeAttribute* given = node.find("seed");
  if (!given) return hashOf(node.def().name);
  // A whole number is a seed as it is written; others by their bits. Dropout's is an integer.
  const double seed = given->kind == NodeAttribute::Kind::kInt ? static_cast<double>(given->i) : given->f;
  if (seed >= 0 && seed <= UINT32_MAX && seed == std::floor(seed)) return static_cast<uint32_t>(seed);
  return std::bit_cast<uint32_t>(static_cast<float>(seed));
}

/// The type that an attribute names; kInvalid, and a failure, for one that OpenHPU does not have.
ElementType typeNamed(NodeContext& node, const char* attribute, ElementType otherwise) {
  if (!node.hasAttribute(attribute)) return otherwise;
  const ElementType type = elementOfOnnxType(static_cast<int32_t>(node.integer(attribute, 0)));
  if (type == ElementType::kInvalid) node.unsupported(strCat("elements of the type that '", attribute, "' names"));
  return type;
}

hpu::Value numbersOf(Emitter& e, const Shape& shape, uint32_t seed, bool isNormal, double a, double b) {
  const compose::RandomWords words = compose::randomWords(e, shape, compose::seedNumber(e, seed));
  if (isNormal) return e.add(e.mul(compose::normalOf(e, words), b), a);
  return e.add(e.mul(compose::uniformOf(e, words.first), b - a), a);
}

/// RandomUniform and RandomNormal of a shape that an attribute says, or of their operand's.
void convertNumbers(NodeContext& node) {
  const bool isNormal = llvm::StringRef(node.def().op).starts_with("RandomNormal"), isLike = node.numInputs() > 0;
  const double a = isNormal ? node.number("mean", 0) : node.number("low", 0),
               b = isNormal ? node.number("scale", 1) : node.number("high", 1);
  const uint32_t seed = seedOf(node);
  if (!isLike) {
    const Ints sizes = node.integers("shape");
    const ElementType type = typeNamed(node, "dtype", ElementType::kF32);
    if (!node.hasAttribute("shape")) return node.invalid("'shape' is missing");
    int64_t elements = 1;
    for (int64_t size : sizes)
      if (size < 0 || __builtin_mul_overflow(elements, std::max<int64_t>(size, 1), &elements) || elements > UINT32_MAX)
        return node.invalid("its shape has a negative size, or more than 2^32 elements");
    return composed(node, {}, [&](Emitter& e, const Values&) -> Values {
      return {e.cast(numbersOf(e, Shape(sizes.begin(), sizes.end()), seed, isNormal, a, b), type)};
    });
  }
  Value like = node.input(0);
  if (!like) return;
  const ElementType type = typeNamed(node, "dtype", ir::elementType(node.elementOf(like)));
  composed(node, {like}, [&](Emitter& e, const Values& in) -> Values {
    return {e.cast(numbersOf(e, e.shape(in[0]), seed, isNormal, a, b), type)};
  });
}

void convertBernoulli(NodeContext& node) {
  Value x = node.input(0);
  if (!x) return;
  const ElementType type = typeNamed(node, "dtype", ir::elementType(node.elementOf(x)));
  const uint32_t seed = seedOf(node);
  composed(node, {x}, [&](Emitter& e, const Values& in) -> Values {
    hpu::Value u = numbersOf(e, e.shape(in[0]), seed, /*isNormal=*/false, 0, 1);
    return {e.cast(e.op("less", {u, e.toF32(in[0])}), type)};
  });
}

void convertMultinomial(NodeContext& node) {
  Value x = node.input(0);
  if (!x) return;
  const int64_t samples = node.integer("sample_size", 1);
  if (samples < 0) return node.invalid("a negative sample_size");
  const ElementType type = typeNamed(node, "dtype", ElementType::kI32);
  const uint32_t seed = seedOf(node);
  composed(node, {x}, [&](Emitter& e, const Values& in) -> Values {
    return {e.cast(compose::drawClasses(e, e.toF32(in[0]), samples, compose::seedNumber(e, seed)), type)};
  });
}

/// Without training everything is kept. `training` may be an input of the model.
void convertDropout(NodeContext& node) {
  const bool hasInputs = node.opset() >= 12, mayTrain = hasInputs && node.has(2);
  const std::optional<double> known = mayTrain ? node.constantNumber(2) : std::nullopt;
  const bool keepsAll = mayTrain && node.has(1) && node.constantNumber(1) == 0.0;
  if (mayTrain && !keepsAll && known != 0.0) {
    std::vector<Value> operands = {node.input(0), node.has(1) ? node.input(1) : Value(), node.input(2)};
    if (!operands[0] || !operands[2] || (node.has(1) && !operands[1])) return;
    const uint32_t seed = seedOf(node);
    return composed(node, operands, [&](Emitter& e, const Values& in) -> Values {
      const ElementType type = e.element(in[0]);
      hpu::Value u = numbersOf(e, e.shape(in[0]), seed, /*isNormal=*/false, 0, 1);
      hpu::Value ratio = in[1].handle ? e.reshape(e.toF32(in[1]), {}) : e.scalar(0.5, ElementType::kF32);
      hpu::Value trains = e.reshape(e.toBool(in[2]), {});
      hpu::Value kept = e.op("or", {e.op("greater_equal", {u, ratio}), e.op("not", {trains})});
      // All may be dropped: then nothing is scaled.
      hpu::Value rest = e.sub(e.scalarLike(ratio, 1), ratio);
      hpu::Value isNone = e.op("equal", {rest, e.scalarLike(rest, 0)});
      hpu::Value one = e.scalarLike(rest, 1);
      hpu::Value scale = e.where(trains, e.div(one, e.where(isNone, one, rest)), one);
      hpu::Value scaled = e.mul(e.toF32(in[0]), scale);
      return {e.cast(e.where(kept, scaled, e.scalarLike(scaled, 0)), type), kept};
    });
  }
  node.forward(0);
  if (!node.wants(1)) return;
  RankedTensorType type = node.inputType(0);
  if (!type) return node.invalid("input 0 has no type");
  if (llvm::any_of(ir::symShape(type), [](const ir::SymDim& dim) { return dim.isFree() && !dim.isNamed(); }))
    return node.needsSize("the mask of a tensor whose size has no name");
  // The mask keeps everything; before opset 10 it had the input's type.
  ElementType element = node.opset() >= 10 ? ElementType::kBool : ir::elementType(type.getElementType());
  mlir::Type maskType = ir::mlirElementType(node.context(), element);
  node.setOutput(1, node.expand(node.scalar(maskType, 1), ir::symShape(type)));
}

constexpr const char* kSameNumbers = "without a seed: the same numbers in each launch";

constexpr OpRow kRows[] = {
    {"RandomUniform", 1, kNewestOpset, convertNumbers, "", kSameNumbers},
    {"RandomUniformLike", 1, kNewestOpset, convertNumbers, "", kSameNumbers},
    {"RandomNormal", 1, kNewestOpset, convertNumbers, "", kSameNumbers},
    {"RandomNormalLike", 1, kNewestOpset, convertNumbers, "", kSameNumbers},
    {"Bernoulli", 15, kNewestOpset, convertBernoulli, "", kSameNumbers},
    {"Multinomial", 7, kNewestOpset, convertMultinomial, "", kSameNumbers},
    {"Dropout", 6, kNewestOpset, convertDropout, "", "training: from opset 12 on"},
};

}  // namespace

llvm::ArrayRef<OpRow> randomRows() {
  return kRows;
}

}  // namespace hpu::importer
