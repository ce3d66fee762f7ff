// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "SampleProgram.h"
#include "base/File.h"
#include "base/Settings.h"
#include "hpu/recipe.h"
#include "recipe/Container.h"
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

class Signed : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(Recipe::makeSigningKey(key).ok());
    ASSERT_TRUE(Recipe::makeSigningKey(other).ok());
  }
  void TearDown() override { EXPECT_TRUE(settings::set(Setting::HPU_RECIPE_KEYS, "").ok()); }
  /// Only what these files' keys have signed is loaded from now on.
  void trust(const std::vector<std::string>& keys) {
    std::string list = "# keys\n\n";
    for (const std::string& one : keys) list += base::readTextFile(one + ".pub").value();
    const std::string path = folder.file("keys");
    ASSERT_TRUE(base::writeFileAtomic(path, list).ok());
    ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
    ASSERT_TRUE(settings::set(Setting::HPU_RECIPE_KEYS, path).ok());
  }
  std::string save(const Recipe& recipe) {
    const std::string path = folder.file("a.recipe");
    EXPECT_TRUE(recipe.save(path).ok());
    return path;
  }
  base::TemporaryFolder folder;
  const std::string key = folder.file("key"), other = folder.file("other");
};

TEST_F(Signed, KeepsItsSignatureAndLoadsWhereItsKeyIsTrusted) {
  Recipe recipe = sampleRecipe().signedWith(key).value();
  const std::string path = save(recipe);
  auto loaded = Recipe::load(path);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  EXPECT_TRUE(samePrograms(*loaded->program(), sampleProgram()));
  EXPECT_EQ(loaded->signer(), recipe.signer());
  EXPECT_THAT(base::readTextFile(key + ".pub").value(), HasSubstr(recipe.signer()));
  EXPECT_EQ(sampleRecipe().signer(), "");
  // Saved again it is the same file.
  EXPECT_EQ(loaded->serialize().value(), base::readFile(path).value());
  trust({other, key});
  EXPECT_TRUE(Recipe::load(path).ok());
  trust({other});
  Status status = Recipe::load(path).status();
  EXPECT_EQ(status.code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(status.message(), HasSubstr(recipe.signer()));
}

TEST_F(Signed, UnsignedOnesAreRefusedWhereKeysAreAskedFor) {
  const std::string path = save(sampleRecipe());
  EXPECT_TRUE(Recipe::load(path).ok());
  trust({key});
  Status status = Recipe::load(path).status();
  EXPECT_EQ(status.code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(status.message(), HasSubstr("not signed"));
  auto bytes = sampleRecipe().serialize().value();
  EXPECT_EQ(Recipe::deserialize(bytes.data(), bytes.size()).status().code(), StatusCode::kPermissionDenied);
  EXPECT_TRUE(Recipe::deserializeOwn(bytes.data(), bytes.size()).ok());
}

TEST_F(Signed, NoByteCanBeChanged) {
  const auto good = sampleRecipe().signedWith(key).value().serialize().value();
  ASSERT_TRUE(Recipe::deserialize(good.data(), good.size()).ok());
  for (size_t at = 0; at < good.size(); at += at < 2048 ? 1 : 61) {
    std::vector<uint8_t> bad = good;
    bad[at] ^= 0x10;
    // Checksums are no protection from changes on purpose: they can be made to fit.
    recipe::resealRecipe(bad).ignore();
    if (bad == good) continue;  // A byte of a checksum.
    // A signature that is taken away leaves a recipe that nobody has signed.
    auto loaded = Recipe::deserialize(bad.data(), bad.size());
    EXPECT_TRUE(!loaded.ok() || loaded->signer().empty()) << "byte " << at;
  }
}

TEST_F(Signed, TheSignatureIsOfOneRecipe) {
  auto program = sampleProgram();
  program.signature = sampleRecipe().signedWith(key).value().program()->signature;
  program.name = "another";
  auto bytes = Recipe(std::make_shared<const recipe::Program>(program)).serialize().value();
  Status status = Recipe::deserialize(bytes.data(), bytes.size()).status();
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr("signature"));
}

TEST_F(Signed, KeysAreForTheirOwnersAlone) {
  EXPECT_EQ(Recipe::makeSigningKey(key).code(), StatusCode::kAlreadyExists);
  ASSERT_EQ(::chmod(key.c_str(), 0640), 0);
  EXPECT_EQ(sampleRecipe().signedWith(key).status().code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(sampleRecipe().signedWith(key + ".pub").status().code(), StatusCode::kPermissionDenied);
  ASSERT_EQ(::chmod((key + ".pub").c_str(), 0600), 0);
  EXPECT_EQ(sampleRecipe().signedWith(key + ".pub").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(sampleRecipe().signedWith(folder.file("none")).status().code(), StatusCode::kNotFound);
  // A list that others may write says nothing.
  trust({other});
  const std::string path = save(sampleRecipe().signedWith(other).value());
  EXPECT_TRUE(Recipe::load(path).ok());
  ASSERT_EQ(::chmod(folder.file("keys").c_str(), 0666), 0);
  EXPECT_EQ(Recipe::load(path).status().code(), StatusCode::kPermissionDenied);
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
