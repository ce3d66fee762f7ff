// SPDX-License-Identifier: Apache-2.0
// Random numbers by their statistics: means and deviations within five standard errors, other seeds other numbers.
#include <cmath>
#include <numeric>

#include "tests/unit/compiler/import/ImporterFixture.h"

namespace hpu::importer {
namespace {

constexpr int64_t kCount = 20000;

class RandomNumbers : public Computes {
 protected:
  using Attributes = std::vector<std::pair<std::string, BuilderAttribute>>;

  std::vector<float> drawn(const std::string& op, Attributes attributes, float seed) {
    OnnxBuilder builder;
    attributes.emplace_back("seed", seed);
    attributes.emplace_back("shape", std::vector<int64_t>{100, kCount / 100});
    builder.node(op, "draw", {}, {"y"}, attributes).output("y");
    return floats(builder, {});
  }
  static double meanOf(const std::vector<float>& values) {
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  }
  static double deviationOf(const std::vector<float>& values) {
    const double mean = meanOf(values);
    double sum = 0;
    for (float value : values) sum += (value - mean) * (value - mean);
    return std::sqrt(sum / static_cast<double>(values.size()));
  }
  /// Between elements and those behind them, which independent ones do not have.
  static double correlationOf(const std::vector<float>& values) {
    const double mean = meanOf(values);
    double sum = 0;
    for (size_t i = 0; i + 1 < values.size(); ++i) sum += (values[i] - mean) * (values[i + 1] - mean);
    return sum / static_cast<double>(values.size()) / std::pow(deviationOf(values), 2);
  }
};

const double kError = 5 / std::sqrt(static_cast<double>(kCount));

TEST_F(RandomNumbers, UniformOnesFillTheirRange) {
  const std::vector<float> values = drawn("RandomUniform", {{"low", -2.0f}, {"high", 4.0f}}, 7);
  ASSERT_EQ(values.size(), static_cast<size_t>(kCount));
  const double deviation = 6 / std::sqrt(12.0);
  EXPECT_NEAR(meanOf(values), 1, kError * deviation);
  EXPECT_NEAR(deviationOf(values), deviation, kError * deviation);
  EXPECT_NEAR(correlationOf(values), 0, kError);
  EXPECT_GE(*std::min_element(values.begin(), values.end()), -2);
  EXPECT_LT(*std::max_element(values.begin(), values.end()), 4);
}

TEST_F(RandomNumbers, NormalOnesHaveTheirMoments) {
  const std::vector<float> values = drawn("RandomNormal", {{"mean", 3.0f}, {"scale", 2.0f}}, 7);
  EXPECT_NEAR(meanOf(values), 3, kError * 2);
  EXPECT_NEAR(deviationOf(values), 2, kError * 2);
  EXPECT_NEAR(correlationOf(values), 0, kError);
  const auto beyond = std::count_if(values.begin(), values.end(), [](float x) { return std::abs(x - 3) > 4; });
  EXPECT_NEAR(static_cast<double>(beyond) / kCount, 0.0455, kError);
}

TEST_F(RandomNumbers, ThoseLikeATensorHaveItsShapeAndAreTheSame) {
  for (const std::string op : {"RandomUniformLike", "RandomNormalLike"}) {
    OnnxBuilder builder;
    builder.input("x", ElementType::kF32, {100, kCount / 100});
    builder.node(op, "draw", {"x"}, {"y"}, {{"seed", 7.0f}}).output("y");
    const std::vector<float> zeros(kCount, 0.0f);
    const std::vector<float> values =
        floats(builder, {interp::Tensor::of<float>(ElementType::kF32, {100, kCount / 100}, zeros)});
    EXPECT_EQ(values, drawn(op.substr(0, op.size() - 4), {}, 7));
  }
}

TEST_F(RandomNumbers, FollowFromTheSeed) {
  const std::vector<float> one = drawn("RandomUniform", {}, 1), again = drawn("RandomUniform", {}, 1),
                           other = drawn("RandomUniform", {}, 2);
  EXPECT_EQ(one, again);
  size_t equal = 0;
  for (size_t i = 0; i < one.size(); ++i) equal += one[i] == other[i];
  EXPECT_LT(equal, 10u);
}

TEST_F(RandomNumbers, ClassesComeAsOftenAsTheirLogitsSay) {
  OnnxBuilder builder;
  builder.input("x", ElementType::kF32, {1, 3});
  builder.node("Multinomial", "draw", {"x"}, {"i"}, {{"sample_size", kCount}, {"seed", 5.0f}});
  builder.node("Cast", "cast", {"i"}, {"y"}, {{"to", int64_t{1}}}).output("y");
  const std::vector<float> logits = {std::log(0.2f), std::log(0.7f), std::log(0.1f)};
  const std::vector<float> drawn = floats(builder, {interp::Tensor::of<float>(ElementType::kF32, {1, 3}, logits)});
  for (int k = 0; k < 3; ++k)
    EXPECT_NEAR(static_cast<double>(std::count(drawn.begin(), drawn.end(), static_cast<float>(k))) / kCount,
                std::exp(logits[static_cast<size_t>(k)]), kError * 0.5);
}

TEST_F(RandomNumbers, BernoulliAndDropoutKeepTheirShare) {
  OnnxBuilder builder;
  builder.input("x", ElementType::kF32, {kCount}).node("Bernoulli", "draw", {"x"}, {"y"}, {{"seed", 3.0f}}).output("y");
  const std::vector<float> probabilities(kCount, 0.3f);
  const interp::Tensor x = interp::Tensor::of<float>(ElementType::kF32, {kCount}, probabilities);
  EXPECT_NEAR(meanOf(floats(builder, {x})), 0.3, kError * 0.5);

  OnnxBuilder dropout;  // What is kept is scaled so that the mean stays.
  dropout.input("x", ElementType::kF32, {kCount})
      .input("training", ElementType::kBool, {})
      .floats("ratio", {}, {0.25f});
  dropout.node("Dropout", "drop", {"x", "ratio", "training"}, {"y"}, {{"seed", int64_t{4}}}).output("y");
  for (uint8_t trains : {uint8_t{0}, uint8_t{1}}) {
    interp::Tensor flag = interp::Tensor::zeros({ElementType::kBool, {}});
    flag.writable()[0] = trains;
    const std::vector<float> kept = floats(dropout, {x, flag});
    const auto zeros = std::count(kept.begin(), kept.end(), 0.0f);
    EXPECT_NEAR(static_cast<double>(zeros) / kCount, trains ? 0.25 : 0, trains ? kError * 0.5 : 0);
    EXPECT_NEAR(meanOf(kept), 0.3, kError * 0.3);
  }
}

}  // namespace
}  // namespace hpu::importer
