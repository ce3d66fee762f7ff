// SPDX-License-Identifier: Apache-2.0
// Operators of opsets that other runtimes do not have yet, against results by hand.
#include <bit>

#include "tests/unit/compiler/import/ImporterFixture.h"

namespace hpu::importer {
namespace {

class NewerOps : public Computes {
 protected:
  std::vector<float> product(std::vector<std::pair<std::string, BuilderAttribute>> attributes, int64_t axis) {
    OnnxBuilder builder(26);
    builder.input("x", ElementType::kF32, {2, 3}).ints("axis", {}, {axis});
    builder.node("CumProd", "product", {"x", "axis"}, {"y"}, std::move(attributes)).output("y");
    return floats(builder, {interp::Tensor::of<float>(ElementType::kF32, {2, 3}, {2, 3, 4, 5, 6, 7})});
  }
};

TEST_F(NewerOps, ProductsRunAlongAnAxisFromEitherEnd) {
  using Attributes = std::vector<std::pair<std::string, BuilderAttribute>>;
  const std::pair<std::string, BuilderAttribute> exclusive = {"exclusive", int64_t{1}},
                                                 reverse = {"reverse", int64_t{1}};
  EXPECT_EQ(product({}, 1), (std::vector<float>{2, 6, 24, 5, 30, 210}));
  EXPECT_EQ(product({}, 0), (std::vector<float>{2, 3, 4, 10, 18, 28}));
  EXPECT_EQ(product(Attributes{exclusive}, -1), (std::vector<float>{1, 2, 6, 1, 5, 30}));
  EXPECT_EQ(product(Attributes{reverse}, 1), (std::vector<float>{24, 12, 4, 210, 42, 7}));
  EXPECT_EQ(product(Attributes{exclusive, reverse}, 1), (std::vector<float>{12, 4, 1, 42, 7, 1}));
}

TEST_F(NewerOps, BitsStayWhatTheyAre) {
  OnnxBuilder builder(26);
  builder.input("x", ElementType::kI32, {3});
  builder.node("BitCast", "bits", {"x"}, {"y"}, {{"to", int64_t{1}}}).output("y");
  const std::vector<float> wanted = {1.5f, -0.0f, 3e-39f};
  std::vector<int32_t> bits;
  for (float number : wanted) bits.push_back(std::bit_cast<int32_t>(number));
  const std::vector<float> given = floats(builder, {interp::Tensor::of<int32_t>(ElementType::kI32, {3}, bits)});
  ASSERT_EQ(given.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_EQ(std::bit_cast<int32_t>(given[i]), bits[i]);
}

TEST_F(NewerOps, BitsOfAnotherWidthAreRefused) {
  OnnxBuilder builder(26);
  builder.input("x", ElementType::kI32, {3});
  builder.node("BitCast", "bits", {"x"}, {"y"}, {{"to", int64_t{10}}}).output("y");
  auto module = import(builder);
  ASSERT_FALSE(module.ok());
  EXPECT_THAT(module.status().message(), ::testing::HasSubstr("elements of 4 bytes as ones of 2"));
}

}  // namespace
}  // namespace hpu::importer
