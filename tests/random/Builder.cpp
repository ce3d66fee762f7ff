// SPDX-License-Identifier: Apache-2.0
#include "tests/random/Builder.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "tests/random/Elements.h"

namespace hpu::randomtest {
namespace {

constexpr int64_t kSizes[] = {1,  1,  2,  2,  3,  3,  4,  5,  7,  8,   9,   11, 13,
                              15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 129, 257};
constexpr int64_t kSmallSizes[] = {1, 1, 2, 2, 3, 4, 5};
constexpr int kRankWeights[] = {3, 6, 10, 10, 10, 4, 3, 2, 2};
constexpr double kInfinity = std::numeric_limits<double>::infinity();

const double kExtremes[] = {0.0,
                            -0.0,
                            kInfinity,
                            -kInfinity,
                            std::numeric_limits<double>::quiet_NaN(),
                            0x1p-149,
                            -0x1p-149,
                            0x1p-126,
                            -0x1p-127,
                            1.17549421e-38,
                            3.40282347e38,
                            -3.40282347e38,
                            1.0,
                            -1.0,
                            0.5,
                            -0.5,
                            1.5,
                            2.5,
                            -2.5,
                            0x1p23,
                            0x1p24,
                            16777217.0,
                            0x1p31,
                            -0x1p31,
                            0x1p32,
                            0x1p63,
                            65504.0,
                            -65504.0,
                            65520.0,
                            0x1p-24,
                            88.7228,
                            88.8,
                            -87.4,
                            -103.9,
                            1e-20,
                            1e20,
                            -1e20,
                            1e30,
                            0.99999994,
                            1.00000012};

bool isSigned(ElementType type) {
  return type == ElementType::kI8 || type == ElementType::kI16 || type == ElementType::kI32 ||
         type == ElementType::kI64;
}

}  // namespace

Types operator+(const Types& a, const Types& b) {
  Types sum = a;
  sum.insert(sum.end(), b.begin(), b.end());
  return sum;
}

double Builder::drawNumber(ElementType type, Numbers numbers, int style) {
  if (type == ElementType::kBool) return static_cast<double>(rng.below(2));
  if (!isFloat(type)) {
    if (numbers == Numbers::kPositive) return static_cast<double>(rng.between(1, 5));
    if (numbers != Numbers::kAny || style < 4)
      return static_cast<double>(rng.between(isSigned(type) ? -6 : 0, isSigned(type) ? 6 : 12));
    if (style < 6) return static_cast<double>(rng.between(isSigned(type) ? -128 : 0, isSigned(type) ? 127 : 255));
    double width = type == ElementType::kI8 || type == ElementType::kU8     ? 0x1p8
                   : type == ElementType::kI16 || type == ElementType::kU16 ? 0x1p16
                   : type == ElementType::kI32 || type == ElementType::kU32 ? 0x1p32
                                                                            : 0x1p64;
    double low = isSigned(type) ? -width / 2 : 0;
    switch (rng.below(6)) {
      case 0:
        return low;
      case 1:
        return low + width;  // Clamped to the largest.
      case 2:
        return low + 1;
      case 3:
        return static_cast<double>(rng.between(-1, 1));
      default:
        return low + width * rng.uniform();
    }
  }
  switch (numbers) {
    case Numbers::kPlain:
      return rng.uniform(-1, 1);
    case Numbers::kPositive:
      return rng.uniform(0, 2) + 1e-3;
    case Numbers::kUnit:
      return rng.chance(0.1) ? static_cast<double>(rng.between(-1, 1)) : rng.uniform(-1, 1);
    case Numbers::kAny:
      break;
  }
  switch (style) {
    case 0:
    case 1:
      return rng.uniform(-1, 1);
    case 2:
      return 3 * rng.normal();
    case 3:
      return static_cast<double>(rng.between(-8, 8));
    case 4:
      return static_cast<double>(rng.between(-16, 16)) / 2;
    case 5:
      return rng.normal() * std::pow(10, rng.uniform(-4, 4));
    case 6:
      return rng.normal() * 30;
    default:
      return rng.chance(0.3) ? kExtremes[rng.below(std::size(kExtremes))] : rng.normal();
  }
}

HostTensor Builder::draw(ElementType type, const Shape& shape, Numbers numbers) {
  HostTensor tensor;
  tensor.type = {type, shape};
  tensor.bytes.resize(static_cast<size_t>(tensor.type.bytes()));
  int style = static_cast<int>(rng.below(8));
  // Extremes once in two such draws: what is not a number stays so in all that follows.
  if (style == 7 && rng.chance(0.5)) style = 0;
  for (int64_t k = 0; k < tensor.count(); ++k) setNumber(tensor, k, drawNumber(type, numbers, style));
  return tensor;
}

int64_t Builder::drawSize() {
  return kSizes[rng.below(std::size(kSizes))];
}

Shape Builder::drawShape(int64_t minRank, int64_t maxRank, int64_t maxCount) {
  int total = 0;
  for (int64_t r = minRank; r <= maxRank; ++r) total += kRankWeights[r];
  int64_t at = rng.below(total), rank = minRank;
  while (at >= kRankWeights[rank]) at -= kRankWeights[rank++];
  Shape shape;
  int64_t count = 1;
  for (int64_t d = 0; d < rank; ++d) {
    int64_t size = rank > 4 ? kSmallSizes[rng.below(std::size(kSmallSizes))] : drawSize();
    if (count * size > maxCount) size = 1 + rng.below(3);
    if (count * size > maxCount) size = 1;
    shape.push_back(size);
    count *= size;
  }
  rng.shuffle(shape);
  return shape;
}

std::string Builder::add(const char* prefix, HostTensor tensor) {
  std::string name = prefix + std::to_string(names_++);
  model.values[name].tensor = std::move(tensor);
  return name;
}

std::string Builder::input(HostTensor tensor) {
  model.inputs.push_back(add("in", std::move(tensor)));
  return model.inputs.back();
}

std::string Builder::constant(HostTensor tensor) {
  model.constants.push_back(add("const", std::move(tensor)));
  return model.constants.back();
}

std::string Builder::fixed(HostTensor tensor) {
  if (rng.chance(0.8)) return constant(std::move(tensor));
  HostTensor value = tensor;
  std::string name = add("const", std::move(tensor));
  model.nodes.push_back({"Constant", {}, {name}, {{"value", std::move(value)}}});
  return name;
}

std::string Builder::ints(const Ints& values, ElementType type) {
  HostTensor tensor;
  tensor.type = {type, {static_cast<int64_t>(values.size())}};
  tensor.bytes.resize(static_cast<size_t>(tensor.type.bytes()));
  for (size_t i = 0; i < values.size(); ++i) {
    if (type == ElementType::kI64)
      memcpy(tensor.bytes.data() + 8 * i, &values[i], 8);
    else
      setNumber(tensor, static_cast<int64_t>(i), static_cast<double>(values[i]));
  }
  return fixed(std::move(tensor));
}

std::string Builder::scalar(ElementType type, double value, bool isVector) {
  HostTensor tensor;
  tensor.type = {type, isVector ? Shape{1} : Shape{}};
  tensor.bytes.resize(static_cast<size_t>(tensor.type.bytes()));
  setNumber(tensor, 0, value);
  return fixed(std::move(tensor));
}

std::string Builder::floats(const std::vector<double>& values) {
  HostTensor tensor;
  tensor.type = {ElementType::kF32, {static_cast<int64_t>(values.size())}};
  tensor.bytes.resize(values.size() * 4);
  for (size_t i = 0; i < values.size(); ++i) setNumber(tensor, static_cast<int64_t>(i), values[i]);
  return fixed(std::move(tensor));
}

std::string Builder::operand(const Wanted& wanted) {
  std::vector<std::string> fitting;
  auto fits = [&](const std::string& name) {
    if (name.empty()) return;
    const TensorType& type = tensor(name).type;
    auto rank = static_cast<int64_t>(type.shape.size());
    if (rank < wanted.minRank || rank > wanted.maxRank || tensor(name).count() > wanted.maxCount) return;
    if (tensor(name).count() == 0 && !wanted.empty) return;
    if (std::find(wanted.types.begin(), wanted.types.end(), type.element) != wanted.types.end())
      fitting.push_back(name);
  };
  for (const std::string& name : model.inputs) fits(name);
  for (const Node& node : model.nodes)
    if (node.op != "Constant")
      for (const std::string& name : node.outputs) fits(name);
  if (!fitting.empty() && rng.chance(0.75)) {
    // The newest ones more often, so that chains grow.
    if (fitting.size() > 3 && rng.chance(0.6)) fitting.erase(fitting.begin(), fitting.end() - 3);
    return rng.pick(fitting);
  }
  ElementType type = rng.pick(wanted.types);
  Shape shape = drawShape(wanted.minRank, wanted.maxRank, wanted.maxCount);
  if (wanted.empty && !shape.empty() && rng.chance(0.02)) (rng.chance(0.5) ? shape.front() : shape.back()) = 0;
  HostTensor tensor = draw(type, shape, wanted.numbers);
  return rng.chance(0.04) ? fixed(std::move(tensor)) : input(std::move(tensor));
}

std::string Builder::operand(ElementType type, const Shape& shape, Numbers numbers) {
  std::vector<std::string> fitting;
  auto fits = [&](const std::string& name) {
    if (!name.empty() && tensor(name).type == TensorType{type, shape}) fitting.push_back(name);
  };
  for (const std::string& name : model.inputs) fits(name);
  for (const Node& node : model.nodes)
    for (const std::string& name : node.outputs) fits(name);
  if (!fitting.empty() && rng.chance(0.5)) return rng.pick(fitting);
  HostTensor tensor = draw(type, shape, numbers);
  return rng.chance(0.4) ? fixed(std::move(tensor)) : input(std::move(tensor));
}

std::string Builder::broadcastable(const std::string& other, Numbers numbers) {
  Shape shape = this->shape(other);
  int64_t count = tensor(other).count();
  if (rng.chance(0.55)) {
    for (int64_t& size : shape) {
      if (rng.chance(0.35)) {
        size = 1;
      } else if (size == 1 && rng.chance(0.4)) {
        int64_t grown = drawSize();
        if (count * grown <= kMaxCount / 2) size = grown, count *= grown;
      }
    }
    if (rng.chance(0.3)) shape.erase(shape.begin(), shape.begin() + rng.between(0, static_cast<int64_t>(shape.size())));
    if (rng.chance(0.15) && static_cast<int64_t>(shape.size()) < kMaxRank)
      shape.insert(shape.begin(), rng.chance(0.5) || count * 2 > kMaxCount / 2 ? 1 : 2);
  }
  return operand(element(other), shape, numbers);
}

std::string Builder::weight(ElementType type, const Shape& shape, Numbers numbers) {
  HostTensor tensor = draw(type, shape, numbers);
  return rng.chance(0.75) ? fixed(std::move(tensor)) : input(std::move(tensor));
}

int64_t Builder::axis(int64_t rank) {
  int64_t axis = rng.below(rank);
  return rng.chance(0.3) ? axis - rank : axis;
}

bool Builder::isWorthHaving(const Evaluated& results) {
  for (size_t out = 0; out < results.tensors.size(); ++out) {
    const HostTensor& tensor = results.tensors[out];
    if (static_cast<int64_t>(tensor.type.shape.size()) > kMaxRank) return false;
    if (tensor.count() > kMaxCount) return false;
    int64_t vague = 0, lost = 0;
    double largest = 0;
    for (int64_t k = 0; k < tensor.count(); ++k)
      if (double y = std::fabs(tensor.number(k)); std::isfinite(y)) largest = std::max(largest, y);
    for (int64_t k = 0; k < tensor.count(); ++k) {
      double error = results.errors[out].empty() ? 0 : results.errors[out][k];
      vague += error > 0.05 * largest;
      lost += !std::isfinite(tensor.number(k));
    }
    // Mostly rounding error, or mostly not numbers: that says little, and what is computed of it says less.
    if (3 * vague > tensor.count()) return false;
    if (2 * lost > tensor.count() && !rng.chance(0.15)) return false;
  }
  return true;
}

bool Builder::emit(const std::string& op, const std::vector<std::string>& inputs, const Local& local,
                   const Attributes& attributes, size_t outputs) {
  Node node{op, inputs, {}, attributes};
  for (size_t i = 0; i < outputs; ++i) node.outputs.push_back("v" + std::to_string(names_ + static_cast<int>(i)));
  StatusOr<Evaluated> results = evaluator_.evaluate(model, node, local, rng);
  if (!results.ok()) {
    ++refusals[op];
    return false;
  }
  if (!isWorthHaving(*results)) return false;
  names_ += static_cast<int>(outputs);
  for (size_t i = 0; i < outputs; ++i)
    model.values[node.outputs[i]] = {std::move(results->tensors[i]), std::move(results->errors[i])};
  model.nodes.push_back(std::move(node));
  return true;
}

std::vector<Generator> allGenerators() {
  std::vector<Generator> all;
  for (const auto* list : {&elementwiseGenerators(), &movementGenerators(), &shapeGenerators(), &productGenerators(),
                           &reductionGenerators(), &samplingGenerators(), &controlGenerators(), &detectionGenerators(),
                           &microsoftGenerators(), &patternGenerators()})
    all.insert(all.end(), list->begin(), list->end());
  return all;
}

Model generate(uint64_t seed, const std::set<std::string>& ops, Evaluator& evaluator,
               std::map<std::string, int64_t>* refusals) {
  std::vector<Generator> generators;
  for (const Generator& generator : allGenerators())
    if (ops.empty() || ops.count(generator.op)) generators.push_back(generator);
  Rng rng(seed * 0x2545f4914f6cdd1d + 1);
  static const std::vector<int64_t> kLengths = {1, 1, 2, 2, 3, 4, 5, 6, 8, 10, 12};
  for (;;) {  // Until something suits.
    Builder builder(rng.next(), rng.between(9, 24), evaluator);
    auto wanted = static_cast<size_t>(rng.pick(kLengths));
    size_t made = 0;
    for (size_t attempt = 0; attempt < 6 * wanted && made < wanted; ++attempt) {
      const Generator& generator = rng.pick(generators);
      made += generator.make(builder, generator.op) ? 1 : 0;
    }
    if (refusals)
      for (const auto& [op, count] : builder.refusals) (*refusals)[op] += count;
    if (made == 0) continue;
    // What nothing reads, sometimes what something reads.
    std::set<std::string> read;
    std::vector<std::string> outputs;
    for (const Node& node : builder.model.nodes) read.insert(node.inputs.begin(), node.inputs.end());
    for (const Node& node : builder.model.nodes)
      for (const std::string& name : node.outputs)
        if (!name.empty() && node.op != "Constant" && (!read.count(name) || rng.chance(0.1))) outputs.push_back(name);
    if (outputs.empty()) continue;
    rng.shuffle(outputs);
    return part(builder.model, builder.model.nodes, outputs);
  }
}

}  // namespace hpu::randomtest
