// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline/RecipeCache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>

#include "base/File.h"
#include "compiler/import/OnnxOutline.h"
#include "compiler/pipeline/BuildId.h"
#include "tests/unit/base/TemporaryFolder.h"
#include "tests/unit/compiler/import/OnnxBuilder.h"
#include "tests/unit/recipe/SampleProgram.h"

namespace hpu::pipeline {
namespace {

namespace fs = std::filesystem;
using importer::OnnxBuilder;
using importer::outlineOnnx;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Recipe sampleRecipe() {
  return Recipe(std::make_shared<const recipe::Program>(recipe::testing::sampleProgram()));
}

class Cache : public ::testing::Test {
 protected:
  std::string cacheFolder() const { return folder_.file("cache"); }
  RecipeCache cache(int64_t limit = 0) const { return RecipeCache(cacheFolder(), limit); }
  void setUsed(const std::string& key, int secondsAgo) {
    fs::last_write_time(cache().path(key), fs::file_time_type::clock::now() - std::chrono::seconds(secondsAgo));
  }
  int64_t recipes() const {
    int64_t count = 0;
    for (const auto& entry : fs::directory_iterator(cacheFolder())) count += entry.path().extension() == ".recipe";
    return count;
  }
  std::string model(const std::string& name = "model.onnx", float weight = 1) {
    OnnxBuilder builder;
    builder.input("x", ElementType::kF32, {int64_t{2}}).floats("w", {2}, {weight, 2}).output("y");
    builder.node("Add", "add", {"x", "w"}, {"y"});
    return builder.save(folder_.file(name));
  }
  base::TemporaryFolder folder_;
};

TEST_F(Cache, GivesBackWhatWasStored) {
  EXPECT_EQ(cache().find("k").status().code(), StatusCode::kNotFound);
  ASSERT_TRUE(cache().store("k", sampleRecipe()).ok());
  StatusOr<Recipe> found = cache().find("k");
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_TRUE(recipe::testing::samePrograms(*found->program(), recipe::testing::sampleProgram()));
}

TEST_F(Cache, RunsNothingThatAnotherUserCouldHaveWritten) {
  const mode_t mask = ::umask(0);  // A careless one: what is stored is the user's own all the same.
  ASSERT_TRUE(cache().store("k", sampleRecipe()).ok());
  ::umask(mask);
  EXPECT_TRUE(cache().find("k").ok());
  auto refused = [&](const char* why) {
    Status status = cache().find("k").status();
    EXPECT_EQ(status.code(), StatusCode::kPermissionDenied) << status.message();
    EXPECT_THAT(status.message(), HasSubstr(why));
  };
  ASSERT_EQ(::chmod(cache().path("k").c_str(), 0664), 0);
  refused("others may write it");
  ASSERT_EQ(::chmod(cache().path("k").c_str(), 0644), 0);
  EXPECT_TRUE(cache().find("k").ok());
  ASSERT_EQ(::chmod(cacheFolder().c_str(), 0777), 0);
  refused("others may write its folder");
  EXPECT_EQ(cache().store("other", sampleRecipe()).code(), StatusCode::kPermissionDenied);
  ASSERT_EQ(::chmod(cacheFolder().c_str(), 01777), 0);
  EXPECT_TRUE(cache().find("k").ok()) << "a sticky folder: nobody else replaces a file";
  // A link that another user may have made, and a file of his.
  fs::rename(cache().path("k"), folder_.file("elsewhere"));
  fs::create_symlink(folder_.file("elsewhere"), cache().path("k"));
  refused("no regular file");
  fs::remove(cache().path("k"));
  fs::copy(folder_.file("elsewhere"), cache().path("k"));
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown(cache().path("k").c_str(), 61002, 61002), 0);
    refused("of user 61002");
  }
}

TEST_F(Cache, AFolderThatTakesNoFilesIsSaidToBeTheCache) {
  Status status = RecipeCache("/proc/self", 0).store("k", sampleRecipe());
  EXPECT_THAT(status.message(), HasSubstr("not kept in the cache: cannot create '/proc/self/k"));
  EXPECT_THAT(status.message(), HasSubstr("; choose another "));
}

TEST_F(Cache, RefusesEveryDamagedByteAndTruncation) {
  ASSERT_TRUE(cache().store("k", sampleRecipe()).ok());
  auto good = base::readFile(cache().path("k"));
  ASSERT_TRUE(good.ok());
  for (size_t at = 0; at < good->size(); at += 97) {
    std::vector<uint8_t> bad = *good;
    bad[at] ^= 0x10;
    ASSERT_TRUE(base::writeFileAtomic(cache().path("k"), bad.data(), bad.size()).ok());
    StatusOr<Recipe> found = cache().find("k");
    ASSERT_FALSE(found.ok()) << "byte " << at;
    ASSERT_NE(found.status().code(), StatusCode::kNotFound) << "byte " << at;
  }
  ASSERT_TRUE(base::writeFileAtomic(cache().path("k"), good->data(), good->size() / 2).ok());
  EXPECT_FALSE(cache().find("k").ok());
  ASSERT_TRUE(cache().store("k", sampleRecipe()).ok());
  EXPECT_TRUE(cache().find("k").ok());
}

TEST_F(Cache, EvictsWhatWasNotUsedForLongest) {
  ASSERT_TRUE(cache().store("a", sampleRecipe()).ok());
  auto bytes = static_cast<int64_t>(fs::file_size(cache().path("a")));
  ASSERT_TRUE(cache().store("b", sampleRecipe()).ok());
  ASSERT_TRUE(cache().store("c", sampleRecipe()).ok());
  setUsed("a", 300);
  setUsed("b", 200);
  setUsed("c", 100);
  ASSERT_TRUE(cache().find("a").ok());  // used now
  ASSERT_TRUE(cache(3 * bytes).store("d", sampleRecipe()).ok());
  EXPECT_TRUE(cache().find("a").ok());
  EXPECT_FALSE(cache().find("b").ok());
  EXPECT_TRUE(cache().find("c").ok());
  EXPECT_TRUE(cache().find("d").ok());
  ASSERT_TRUE(cache(bytes).store("e", sampleRecipe()).ok());
  EXPECT_EQ(recipes(), 1);
  EXPECT_TRUE(cache().find("e").ok());
}

TEST_F(Cache, DoesNotEmptyItselfForARecipeBeyondTheLimit) {
  ASSERT_TRUE(cache().store("a", sampleRecipe()).ok());
  Status status = cache(1000).store("b", sampleRecipe());
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("HPU_CACHE_BYTES"));
  EXPECT_TRUE(cache().find("a").ok());
  EXPECT_FALSE(cache().find("b").ok());
}

TEST_F(Cache, IsSharedByProcessesThatStoreFindAndEvictAtOnce) {
  ASSERT_TRUE(cache().store("k0", sampleRecipe()).ok());
  auto bytes = static_cast<int64_t>(fs::file_size(cache().path("k0")));
  std::vector<pid_t> children;
  for (int child = 0; child < 4; ++child) {
    pid_t pid = fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      int wrong = 0;
      for (int i = 0; i < 40; ++i) {
        std::string key = "k" + std::to_string((i + child) % 5);
        if (!cache(3 * bytes).store(key, sampleRecipe()).ok()) wrong |= 1;
        StatusOr<Recipe> found = cache(3 * bytes).find(key);
        // Evicted by another process is fine, half written is not.
        if (!found.ok() && found.status().code() != StatusCode::kNotFound) wrong |= 2;
      }
      _exit(wrong);
    }
    children.push_back(pid);
  }
  for (pid_t pid : children) {
    int status = 0;
    waitpid(pid, &status, 0);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);
  }
  EXPECT_LE(recipes(), 4);
  for (const auto& entry : fs::directory_iterator(cacheFolder()))
    EXPECT_EQ(entry.path().extension(), ".recipe") << "left behind: " << entry.path();
}

TEST_F(Cache, KeysDifferWithEveryOptionThatShapesTheRecipe) {
  std::string path = model();
  std::set<std::string> keys;
  int made = 0;
  auto add = [&](const std::function<void(CompileOptions&)>& change) {
    CompileOptions options;
    change(options);
    StatusOr<std::string> key = cache().key(path, options);
    ASSERT_TRUE(key.ok()) << key.status().message();
    keys.insert(*key);
    ++made;
  };
  add([](CompileOptions&) {});
  add([](CompileOptions& o) { o.target = Target::kGaudi3; });
  add([](CompileOptions& o) { o.precision = Precision::kBF16; });
  add([](CompileOptions& o) { o.optLevel = 1; });
  add([](CompileOptions& o) { o.cpu = "native"; });
  add([](CompileOptions& o) { o.searchEffort = 10; });
  add([](CompileOptions& o) { o.unrollLimit = 0; });
  add([](CompileOptions& o) { o.shapes["x"] = {2}; });
  add([](CompileOptions& o) { o.shapes["x"] = {2, 1}; });
  add([](CompileOptions& o) { o.dims["x"] = 2; });
  const std::string plugin = folder_.file("ops.mlir");
  for (const char* text : {"one", "two"}) {
    std::ofstream(plugin) << text;
    add([&](CompileOptions& o) { o.plugins = {plugin}; });
  }
  EXPECT_EQ(static_cast<int>(keys.size()), made);
  CompileOptions elsewhere;
  elsewhere.cacheDir = "/elsewhere";
  elsewhere.onPhase = [](const PhaseInfo&) {};
  EXPECT_EQ(*cache().key(path, elsewhere), *cache().key(path, {}))
      << "where the cache is says nothing about the recipe";
}

TEST_F(Cache, KeysFollowTheModelsContentAndNotItsAge) {
  std::string path = model();
  std::string key = *cache().key(path, {});
  fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(5));
  EXPECT_EQ(*cache().key(path, {}), key);
  model("model.onnx", 3);
  EXPECT_NE(*cache().key(path, {}), key);
  model("model.onnx", 1);
  EXPECT_EQ(*cache().key(path, {}), key);
  EXPECT_FALSE(cache().key(folder_.file("none.onnx"), {}).ok());
}

TEST_F(Cache, KeysFollowExternalDataAndNoOtherNeighbour) {
  OnnxBuilder builder;
  builder.input("x", ElementType::kF32, {int64_t{2}}).external("w", {2}, "w.bin", 0, 8).output("y");
  builder.node("Add", "add", {"x", "w"}, {"y"});
  std::string path = builder.save(folder_.file("model.onnx"));
  std::string missing = *cache().key(path, {});
  std::ofstream(folder_.file("w.bin")) << "12345678";
  std::string key = *cache().key(path, {});
  EXPECT_NE(key, missing);
  std::ofstream(folder_.file("notes.txt")) << "w.bin";
  EXPECT_EQ(*cache().key(path, {}), key);
  std::ofstream(folder_.file("w.bin")) << "123456789";
  EXPECT_NE(*cache().key(path, {}), key);
}

TEST_F(Cache, HashesLargeModelsAlikeOnAnyNumberOfThreads) {
  std::string path = folder_.file("large.onnx");
  std::string bytes(9'000'001, 'x');
  for (size_t i = 0; i < bytes.size(); i += 4099) bytes[i] = static_cast<char>(i);
  std::ofstream(path) << bytes;
  std::string key = *cache().key(path, {});
  setenv("HPU_NUM_THREADS", "1", 1);
  EXPECT_EQ(*cache().key(path, {}), key);
  unsetenv("HPU_NUM_THREADS");
  bytes[8'999'999] ^= 1;
  std::ofstream(path) << bytes;
  EXPECT_NE(*cache().key(path, {}), key);
}

TEST(BuildId, NamesThisBuild) {
  EXPECT_GT(buildId().size(), 12u) << buildId();
  EXPECT_EQ(buildId(), buildId());
  EXPECT_NE(cpuText("native"), "native");
  EXPECT_EQ(cpuText(""), "");
}

class Outline : public ::testing::Test {
 protected:
  std::vector<uint8_t> bytes(const OnnxBuilder& builder) {
    auto read = base::readFile(builder.save(folder_.file("m.onnx")));
    return read.ok() ? *read : std::vector<uint8_t>();
  }
  base::TemporaryFolder folder_;
};

TEST_F(Outline, FindsExternalFilesInSubgraphsTooEachOnce) {
  auto branch = std::make_shared<OnnxBuilder>();
  branch->external("b", {2}, "inner.bin", 0, 8).output("b");
  OnnxBuilder builder;
  builder.input("c", ElementType::kBool, {})
      .external("v", {2}, "a.bin", 0, 8)
      .external("w", {2}, "a.bin", 8, 8)
      .output("y");
  builder.node("If", "if", {"c"}, {"y"}, {{"then_branch", branch}, {"else_branch", branch}});
  std::vector<uint8_t> model = bytes(builder);
  importer::OnnxOutline outline = outlineOnnx(model.data(), model.size());
  EXPECT_TRUE(outline.complete);
  EXPECT_THAT(outline.externalFiles, ElementsAre("a.bin", "inner.bin"));
}

TEST_F(Outline, TellsFreeDimensionsOfInputsThatAreNoInitializers) {
  auto isFree = [&](const OnnxBuilder& builder) {
    std::vector<uint8_t> model = bytes(builder);
    importer::OnnxOutline outline = outlineOnnx(model.data(), model.size());
    EXPECT_TRUE(outline.complete);
    return outline.freeInputs;
  };
  OnnxBuilder fixed, named, anonymous, given;
  EXPECT_FALSE(isFree(fixed.input("x", ElementType::kF32, {int64_t{2}, int64_t{3}})));
  EXPECT_TRUE(isFree(named.input("x", ElementType::kF32, {int64_t{2}, std::string("n")})));
  EXPECT_TRUE(isFree(anonymous.input("x", ElementType::kF32, {std::string()})));
  EXPECT_FALSE(isFree(given.input("x", ElementType::kF32, {std::string("n")}).floats("x", {1}, {1})));
}

TEST_F(Outline, EndsAtAnyTruncationAndSurvivesAnyDamage) {
  OnnxBuilder builder;
  builder.input("x", ElementType::kF32, {std::string("n")}).external("w", {2}, "w.bin", 0, 8).output("y");
  builder.node("Add", "add", {"x", "w"}, {"y"});
  std::vector<uint8_t> model = bytes(builder);
  int incomplete = 0;
  for (size_t size = 0; size < model.size(); ++size) {
    // A copy of its own, so that a read beyond the end is one that tools can see.
    std::vector<uint8_t> part(model.begin(), model.begin() + static_cast<std::ptrdiff_t>(size));
    incomplete += !outlineOnnx(part.data(), part.size()).complete;
  }
  EXPECT_GT(incomplete, static_cast<int>(model.size()) / 2);
  for (size_t at = 0; at < model.size(); ++at)
    for (uint8_t value : {uint8_t{0xff}, uint8_t{0x80}, uint8_t{0x7f}}) {
      std::vector<uint8_t> bad = model;
      bad[at] = value;
      outlineOnnx(bad.data(), bad.size());
    }
}

TEST(OptionsText, TellsRangesAndNamesApartThatNearlyRead) {
  auto text = [](auto change) {
    CompileOptions options;
    change(options);
    return optionsText(options);
  };
  using Options = CompileOptions&;
  // Ranges that differ behind the sixth decimal.
  EXPECT_NE(text([](Options o) { o.ranges["x:0"] = 1e-7; }), text([](Options o) { o.ranges["x:0"] = 4e-7; }));
  // Names that read as the text between two names.
  EXPECT_NE(text([](Options o) { o.keepF32 = {"a", "b"}; }), text([](Options o) { o.keepF32 = {"a|f32 b"}; }));
  EXPECT_NE(text([](Options o) { o.keepF32 = {"a", "b"}; }), text([](Options o) { o.keepF32 = {"a|1:b"}; }));
  EXPECT_NE(text([](Options o) { o.dims = {{"a", 1}, {"b", 2}}; }), text([](Options o) { o.dims["a:1|b"] = 2; }));
  EXPECT_NE(text([](Options o) { o.shapes["a"] = {3}; }), text([](Options o) { o.dims["a"] = 3; }));
  EXPECT_EQ(text([](Options o) { o.ranges["x:0"] = 0.1; }), text([](Options o) { o.ranges["x:0"] = 0.1; }));
  // Variants: which there are, and which sizes belong to one.
  EXPECT_NE(text([](Options) {}), text([](Options o) { o.specialize = {{{"a", 1}}}; }));
  EXPECT_NE(text([](Options o) { o.specialize = {{{"a", 1}, {"b", 2}}}; }),
            text([](Options o) { o.specialize = {{{"a", 1}}, {{"b", 2}}}; }));
}

}  // namespace
}  // namespace hpu::pipeline
