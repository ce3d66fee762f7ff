// SPDX-License-Identifier: Apache-2.0
#include "tools/common/FreeSizes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <numeric>

#include "DynamicSample.h"
#include "recipe/Recipe.h"
#include "tools/common/Inputs.h"
#include "tools/common/Session.h"

namespace hpu::tools {
namespace {

using recipe::testing::DynamicBuilder;
using recipe::testing::Num;
using ::testing::HasSubstr;

/// x [batch, seq] and k [past + seq, 8]; y is a copy of k.
Recipe recipeOf() {
  DynamicBuilder b;
  const Num batch = b.symbol("batch", 1, 4, 2), past = b.symbol("past", 0, 64, 3), seq = b.symbol("seq", 1, 32, 4);
  const Num all = b.add(past, seq), width = b.number(8);
  const DynamicBuilder::View x = b.input("x", {batch, seq}), k = b.input("k", {all, width});
  b.unit({{b.copy("copy", k, b.output("y", {all, width}))}});
  b.unit({{b.copy("other", x, b.output("z", {batch, seq}))}});
  return Recipe(std::make_shared<const recipe::Program>(b.finish()));
}

StatusOr<std::vector<Shape>> shapesOf(const std::vector<std::string>& dims, const std::vector<std::string>& shapes) {
  auto sizes = parseFreeSizes(dims, shapes);
  return sizes.ok() ? inputShapesFor(recipeOf(), *sizes) : sizes.status();
}
std::string errorOf(const std::vector<std::string>& dims, const std::vector<std::string>& shapes) {
  auto found = shapesOf(dims, shapes);
  EXPECT_EQ(found.status().code(), StatusCode::kInvalidArgument);
  return found.status().message();
}

TEST(FreeSizes, ComeByNameByShapeOrBoth) {
  const std::vector<Shape> expected = {{2, 5}, {12, 8}};
  EXPECT_EQ(shapesOf({"batch=2", "past=7", "seq=5"}, {}).value(), expected);
  EXPECT_EQ(shapesOf({"past=7"}, {"x=2x5"}).value(), expected);
  EXPECT_EQ(shapesOf({}, {"x=2x5", "k=12x8"}).value(), expected);
  EXPECT_EQ(shapesOf({"past=7", "seq=1:32"}, {"x=2x5"}).value(), expected);
}

/// The elements of an input that say sizes come by name, or with its file.
TEST(FreeSizes, AreValuesOfInputs) {
  const Recipe recipe(std::make_shared<const recipe::Program>(recipe::testing::valuedSample()));
  const std::vector<Shape> shapes = {{6, 64}, {5, 64}, {11}, {2}};
  const InputValues values = {{}, {}, {}, {5, 6}};
  FreeSizes byName, byFile;
  byName.dims = {{"past", 5}, {"seq", 6}};
  byFile.values = {{"sizes", {5, 6}}};
  FreeSizes byAll = byFile;
  byAll.shapes = {{"x", shapes[0]}, {"cache", shapes[1]}, {"mask", shapes[2]}, {"sizes", shapes[3]}};
  for (const FreeSizes& sizes : {byName, byFile, byAll}) {
    auto launch = launchSizesFor(recipe, sizes);
    ASSERT_TRUE(launch.ok()) << launch.status().toString();
    EXPECT_EQ(launch->shapes, shapes);
    EXPECT_EQ(launch->values, values);
  }
  byFile.dims = {{"past", 7}};
  EXPECT_THAT(launchSizesFor(recipe, byFile).status().message(),
              HasSubstr("'past' is 5 by input 'sizes' (element 0), and 7 by input 'cache'"));
  byAll.values["sizes"] = {5, 7};
  EXPECT_THAT(launchSizesFor(recipe, byAll).status().message(),
              HasSubstr("'seq' is 7 by input 'sizes' (element 1), and 6 by input 'x'"));
}

TEST(FreeSizes, WhatDoesNotFitIsNamed) {
  EXPECT_EQ(errorOf({"batch=2", "past=7"}, {}),
            "dimension 'seq' has no size; give --dim seq=SIZE between 1 and 32, or an input's --shape or file");
  EXPECT_THAT(errorOf({"batch=2", "past=7", "seq=33"}, {}), HasSubstr("dimension 'seq' is 33, outside of its bounds"));
  EXPECT_THAT(errorOf({"batchs=2"}, {}), HasSubstr("' has no free dimension 'batchs'; it has batch, past, seq"));
  EXPECT_THAT(errorOf({"batchs=2"}, {}), ::testing::StartsWith("--dim: recipe '"));
  EXPECT_THAT(errorOf({}, {"w=2x5"}), HasSubstr("--shape: the recipe has no input 'w'; it has x, k"));
  EXPECT_EQ(errorOf({"past=7"}, {"x=2x5", "k=11x8"}), "dimension 'past' is 7 by --dim, and 6 by the inputs");
  EXPECT_EQ(errorOf({"past=7", "seq=4"}, {"x=2x5"}), "input 'x' is [batch, seq] = 2x4, but 2x5 was given");
  EXPECT_EQ(errorOf({"seq"}, {}), "--dim seq is not NAME=VALUE");
  EXPECT_EQ(errorOf({"seq=x"}, {}), "--dim: 'seq=x' is not NAME=SIZE");
  EXPECT_EQ(errorOf({"seq=2", "seq=3"}, {}), "--dim: 'seq' is 2 and 3");
}

TEST(FreeSizes, SweepsLieWithinTheBounds) {
  const Recipe recipe = recipeOf();
  const ShapeSweep sweep = parseShapeSweep("seq=2:32:5", recipe).value();
  EXPECT_EQ(sweep.dim, "seq");
  EXPECT_EQ(sweep.first, 2);
  EXPECT_EQ(sweep.last, 32);
  EXPECT_EQ(sweep.step, 5);
  EXPECT_EQ(parseShapeSweep("past=0:64", recipe).value().step, 1);
  for (const char* wrong : {"seq", "seq=1", "seq=4:2", "seq=1:8:0", "seq=1:8:2:3", "seq=0:8", "seq=1:33", "sex=1:8"})
    EXPECT_EQ(parseShapeSweep(wrong, recipe).status().code(), StatusCode::kInvalidArgument) << wrong;
  EXPECT_EQ(parseShapeSweep("seq=1:33", recipe).status().message(),
            "--shape-sweep: dimension 'seq' goes from 1 to 32, not from 1 to 33");
}

TEST(Session, TakesTheSizesOfItsInputs) {
  Session session = Session::open(recipeOf(), {}).value();
  for (const auto& [batch, past, seq] :
       std::vector<std::tuple<int64_t, int64_t, int64_t>>{{1, 0, 1}, {4, 60, 32}, {2, 3, 5}}) {
    const HostTensor x = randomTensor({ElementType::kF32, {batch, seq}}, 1).value();
    const HostTensor k = randomTensor({ElementType::kF32, {past + seq, 8}}, 2).value();
    auto outputs = session.run({x, k});
    ASSERT_TRUE(outputs.ok()) << outputs.status().message();
    EXPECT_EQ((*outputs)[0].type.shape, (Shape{past + seq, 8}));
    EXPECT_EQ((*outputs)[0].bytes, k.bytes);
    EXPECT_EQ((*outputs)[1].bytes, x.bytes);
  }
  const HostTensor x = randomTensor({ElementType::kF32, {1, 33}}, 1).value();
  const HostTensor k = randomTensor({ElementType::kF32, {40, 8}}, 2).value();
  EXPECT_THAT(session.run({x, k}).status().message(), HasSubstr("dimension 'seq' is 33 by input 'x' (dimension 1)"));
}

}  // namespace
}  // namespace hpu::tools
