// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "SampleProgram.h"
#include "hpu/recipe.h"
#include "tests/unit/base/TemporaryFolder.h"

namespace hpu {
namespace {

using recipe::testing::samePrograms;
using recipe::testing::sampleProgram;
using ::testing::HasSubstr;

Recipe sampleRecipe() {
  return Recipe(std::make_shared<const recipe::Program>(sampleProgram()));
}

TEST(Recipe, SavesAndLoadsWhatItHolds) {
  base::TemporaryFolder folder;
  ASSERT_TRUE(sampleRecipe().save(folder.file("a.recipe")).ok());
  auto loaded = Recipe::load(folder.file("a.recipe"));
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  EXPECT_TRUE(samePrograms(*loaded->program(), sampleProgram()));
  EXPECT_EQ(loaded->name(), "sample");
  EXPECT_EQ(loaded->target(), Target::kGaudi2);
  ASSERT_EQ(loaded->inputs().size(), 1u);
  EXPECT_EQ(loaded->inputs()[0].type.toString(), "4x8x6x6xf32");
  EXPECT_EQ(loaded->outputs().size(), 2u);
  EXPECT_EQ(loaded->workspaceBytes(), 2 * 4 * 576 * 4 + 256);
  EXPECT_EQ(loaded->constantBytes(), 9 * 8 * 64 * 4 + 256 + 576 * 10 * 4);
  EXPECT_EQ(loaded->estimatedDeviceTimeUs(), 12.5);
}

TEST(Recipe, DeserializesACopyOfTheBytes) {
  auto bytes = sampleRecipe().serialize();
  ASSERT_TRUE(bytes.ok());
  auto copy = Recipe::deserialize(bytes->data(), bytes->size());
  ASSERT_TRUE(copy.ok()) << copy.status().message();
  std::fill(bytes->begin(), bytes->end(), 0);
  EXPECT_TRUE(samePrograms(*copy->program(), sampleProgram()));
  // Kernel images are page-aligned in memory, too.
  EXPECT_EQ(reinterpret_cast<uintptr_t>(copy->program()->images[0].data) % 4096, 0u);
}

TEST(Recipe, AnEmptyHandleAnswersWithoutAProgram) {
  Recipe empty;
  EXPECT_FALSE(empty.valid());
  EXPECT_EQ(empty.name(), "");
  EXPECT_TRUE(empty.inputs().empty());
  EXPECT_EQ(empty.workspaceBytes(), 0);
  EXPECT_EQ(empty.save("/tmp/never.recipe").code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(empty.serialize().status().code(), StatusCode::kFailedPrecondition);
}

TEST(Recipe, RefusesBytesThatAreNoRecipe) {
  EXPECT_EQ(Recipe::deserialize(nullptr, 0).status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(Recipe::deserialize(nullptr, 5).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Recipe::deserialize("hello", 5).status().code(), StatusCode::kDataLoss);
  auto missing = Recipe::load("/no/such.recipe");
  EXPECT_EQ(missing.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(missing.status().message(), HasSubstr("/no/such.recipe"));
}

}  // namespace
}  // namespace hpu
