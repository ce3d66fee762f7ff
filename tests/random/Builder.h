// SPDX-License-Identifier: Apache-2.0
// Grows a random model node by node. The one thing to know: a node that the reference refuses is not added, so a
// generator of an op may draw freely from what the op's definition allows.
#pragma once

#include <set>

#include "tests/random/Evaluate.h"

namespace hpu::randomtest {

using Types = std::vector<ElementType>;

inline const Types kFloats = {ElementType::kF32, ElementType::kF32, ElementType::kF32,
                              ElementType::kF32, ElementType::kF32, ElementType::kF32,
                              ElementType::kF32, ElementType::kF16, ElementType::kF64};
inline const Types kIntegers = {ElementType::kI32, ElementType::kI64, ElementType::kI8,  ElementType::kU8,
                                ElementType::kI16, ElementType::kU16, ElementType::kU32, ElementType::kU64};
inline const Types kBools = {ElementType::kBool};
Types operator+(const Types& a, const Types& b);
inline const Types kNumbers = kFloats + kFloats + kIntegers;
inline const Types kAll = kNumbers + kBools + Types{ElementType::kBF16};

/// What numbers a new tensor has.
enum class Numbers {
  kAny,       ///< Normal draws, whole numbers, ties, wide ranges and extremes, by chance.
  kPlain,     ///< In [-1, 1); integers of a few units.
  kPositive,  ///< In (0, 2).
  kUnit,      ///< In [-1, 1], with the ends.
};

struct Wanted {
  Types types = kFloats;
  int64_t minRank = 0, maxRank = 8;
  Numbers numbers = Numbers::kAny;
  int64_t maxCount = 20000;
  bool empty = false;  ///< One without elements will do: its generator draws nothing below one of its sizes.
};

class Builder {
 public:
  static constexpr int64_t kMaxRank = 8, kMaxCount = 40000;

  Builder(uint64_t seed, int64_t opset, Evaluator& evaluator) : rng(seed), evaluator_(evaluator) {
    model.opset = opset;
  }

  Rng rng;
  Model model;
  std::map<std::string, int64_t> refusals;  ///< Nodes that the reference did not take, by op.

  int64_t opset() const { return model.opset; }
  Precision precision() const { return evaluator_.precision(); }
  const HostTensor& tensor(const std::string& name) const { return model.values.at(name).tensor; }
  const Shape& shape(const std::string& name) const { return tensor(name).type.shape; }
  int64_t rank(const std::string& name) const { return static_cast<int64_t>(shape(name).size()); }
  ElementType element(const std::string& name) const { return tensor(name).type.element; }

  HostTensor draw(ElementType type, const Shape& shape, Numbers numbers = Numbers::kAny);
  Shape drawShape(int64_t minRank, int64_t maxRank, int64_t maxCount = 20000);
  int64_t drawSize();

  std::string input(HostTensor tensor);
  std::string constant(HostTensor tensor);
  std::string ints(const Ints& values, ElementType type = ElementType::kI64);
  std::string scalar(ElementType type, double value, bool isVector = false);
  std::string floats(const std::vector<double>& values);
  /// Known at import: by an initializer, or by a Constant node.
  std::string fixed(HostTensor tensor);

  /// An existing value or a new one.
  std::string operand(const Wanted& wanted);
  /// One of exactly this type; a constant by chance.
  std::string operand(ElementType type, const Shape& shape, Numbers numbers = Numbers::kAny);
  /// One that broadcasts with `other`, to a shape of no more than kMaxCount elements.
  std::string broadcastable(const std::string& other, Numbers numbers = Numbers::kAny);
  /// A weight: of this shape, constant more often than not.
  std::string weight(ElementType type, const Shape& shape, Numbers numbers = Numbers::kPlain);

  /// Adds a node; false when the reference refuses it or its results are not worth having.
  bool emit(const std::string& op, const std::vector<std::string>& inputs, const Local& local,
            const Attributes& attributes = {}, size_t outputs = 1);
  const std::vector<std::string>& last() const { return model.nodes.back().outputs; }
  /// A dimension of a rank, from the front or from the back.
  int64_t axis(int64_t rank);

 private:
  std::string add(const char* prefix, HostTensor tensor);
  double drawNumber(ElementType type, Numbers numbers, int style);
  bool isWorthHaving(const Evaluated& results);

  Evaluator& evaluator_;
  int names_ = 0;
};

/// A generator of nodes of an op: false when nothing suitable came of it.
struct Generator {
  const char* op;
  bool (*make)(Builder& builder, const std::string& op);
};
const std::vector<Generator>& elementwiseGenerators();
const std::vector<Generator>& movementGenerators();
const std::vector<Generator>& shapeGenerators();
const std::vector<Generator>& productGenerators();
const std::vector<Generator>& reductionGenerators();
const std::vector<Generator>& samplingGenerators();
const std::vector<Generator>& controlGenerators();
const std::vector<Generator>& detectionGenerators();
const std::vector<Generator>& microsoftGenerators();
/// Their names begin with "pattern:".
const std::vector<Generator>& patternGenerators();
std::vector<Generator> allGenerators();

/// The model of a seed: of the ops that are asked for (empty: all).
Model generate(uint64_t seed, const std::set<std::string>& ops, Evaluator& evaluator,
               std::map<std::string, int64_t>* refusals);

}  // namespace hpu::randomtest
