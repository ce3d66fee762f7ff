// SPDX-License-Identifier: Apache-2.0
#include "hpu/eager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <new>
#include <set>
#include <thread>
#include <vector>

#include "TinyProgram.h"
#include "hpu/device.h"
#include "hpu/stream.h"

namespace hpu {
namespace {

using testing::fillProgram;
using ::testing::HasSubstr;
using testing::toRecipe;

EagerKey fillKey(int64_t count, uint32_t value) {
  return EagerKey::Builder().add("fill").add(count).add(value).build();
}

Device openSmall(int index = 0) {
  DeviceOptions options;
  options.index = index;
  options.hbmBytes = 16 << 20;
  return Device::open(options).value();
}

/// Compiles fills and counts how often.
struct Compiler {
  std::atomic<int> calls{0};
  EagerCache::Compile fill(int64_t count, uint32_t value) {
    return [this, count, value]() -> StatusOr<Recipe> {
      ++calls;
      return toRecipe(fillProgram(count, value));
    };
  }
};

TEST(EagerKey, DifferentSequencesAreDifferentKeys) {
  using B = EagerKey::Builder;
  std::vector<EagerKey> keys = {
      EagerKey(),
      B().add("a").build(),
      B().add("b").build(),
      B().add("ab").build(),
      B().add("a").add("b").build(),
      B().add("").build(),
      B().add("").add("").build(),
      B().add(0).build(),
      B().add(1).build(),
      B().add(0).add(0).build(),
      B().addReal(0.0).build(),
      B().addReal(-0.0).build(),
      B().add("a", 1).build(),
      B().add("ab", 2).build(),
      B().add("ab", 1).add("").build(),
  };
  for (size_t i = 0; i < keys.size(); ++i)
    for (size_t j = 0; j < keys.size(); ++j) {
      EXPECT_EQ(keys[i] == keys[j], i == j) << i << " " << j;
      if (i == j) continue;
      EXPECT_NE(keys[i].hash(), keys[j].hash()) << i << " " << j;
    }
  EXPECT_EQ(B().add("x").add(7).build(), B().add("x").add(int16_t{7}).build());
  EXPECT_EQ(B().build(), EagerKey());
}

TEST(EagerKey, OperandsOfAnySizeAreOneKey) {
  auto key = [](ElementType element, Shape shape) {
    return EagerKey::Builder().add("add").addUnsized({element, std::move(shape)}).build();
  };
  const EagerKey some = key(ElementType::kF32, {5, 3});
  for (const Shape& same : {Shape{3, 5}, Shape{2, 2}, Shape{40, 7000}, Shape{kDynamic, 4}})
    EXPECT_TRUE(key(ElementType::kF32, same) == some);
  for (const Shape& other : {Shape{5, 1}, Shape{1, 3}, Shape{0, 3}, Shape{5}, Shape{5, 3, 2}, Shape{}})
    EXPECT_FALSE(key(ElementType::kF32, other) == some);
  EXPECT_FALSE(key(ElementType::kBF16, {5, 3}) == some);
  // Operands are told apart, and from plain numbers.
  EXPECT_FALSE(EagerKey::Builder().addUnsized({ElementType::kF32, {2}}).addUnsized({ElementType::kF32, {1}}).build() ==
               EagerKey::Builder().addUnsized({ElementType::kF32, {2, 1}}).build());
  EXPECT_FALSE(EagerKey::Builder().addUnsized({ElementType::kF32, {}}).build() ==
               EagerKey::Builder().add(static_cast<int>(ElementType::kF32)).add(0).build());
}

TEST(EagerCache, CompilesAStructureOnceAndRunsIt) {
  Device device = openSmall();
  Stream stream = Stream::create(device).value();
  EagerCache cache;
  Compiler compiler;
  Buffer out = device.allocate(400).value();
  for (int round = 0; round < 3; ++round) {
    for (uint32_t value : {5u, 6u}) {
      Executable op = cache.executable(device, fillKey(100, value), compiler.fill(100, value)).value();
      std::vector<uint32_t> data(100);
      ASSERT_TRUE(op.launch(stream, {}, {out}).ok());
      ASSERT_TRUE(stream.copyToHost(data.data(), out, 400).ok());
      ASSERT_TRUE(stream.synchronize().ok());
      EXPECT_EQ(data, std::vector<uint32_t>(100, value));
    }
  }
  EXPECT_EQ(compiler.calls, 2);
  EagerStatistics statistics = cache.statistics();
  EXPECT_EQ(statistics.misses, 2);
  EXPECT_EQ(statistics.hits, 4);
  EXPECT_EQ(statistics.entries, 2);
  EXPECT_GT(statistics.compileNs, 0);
  // The recipe alone is a hit as well.
  EXPECT_EQ(cache.recipe(fillKey(100, 5), compiler.fill(100, 5)).value().name(), "fill");
  EXPECT_EQ(compiler.calls, 2);
}

TEST(EagerCache, IsLoadedOncePerDeviceAndForgotten) {
  Device first = openSmall(0), second = openSmall(1);
  EagerCache cache;
  Compiler compiler;
  int64_t before = first.memoryInfo().usedBytes;
  auto compile = [&]() -> StatusOr<Recipe> {
    ++compiler.calls;
    return toRecipe(testing::copyProgram(1000));  // Has a workspace.
  };
  EagerKey key = EagerKey::Builder().add("copy").build();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(cache.executable(first, key, compile).ok());
    ASSERT_TRUE(cache.executable(second, key, compile).ok());
  }
  EXPECT_EQ(compiler.calls, 1);
  int64_t loaded = first.memoryInfo().usedBytes;
  EXPECT_GT(loaded, before);
  EXPECT_LT(loaded, before + 2 * 4096);
  cache.forget(first);
  EXPECT_EQ(first.memoryInfo().usedBytes, before);
  EXPECT_GT(second.memoryInfo().usedBytes, 0);
  ASSERT_TRUE(cache.executable(first, key, compile).ok());
  EXPECT_EQ(compiler.calls, 1);
  cache.clear();
  EXPECT_EQ(first.memoryInfo().usedBytes, before);
  EXPECT_EQ(cache.statistics().entries, 0);
}

// As a thread does that closes a device while another one compiles for it.
TEST(EagerCache, ACallThatMeetsForgetDoesNotKeepTheDevice) {
  EagerCache cache;
  Compiler compiler;
  Device device = openSmall(3);
  {
    auto compile = [&]() -> StatusOr<Recipe> {
      cache.forget(device);
      return compiler.fill(16, 1)();
    };
    auto executable = cache.executable(device, fillKey(16, 1), compile);
    ASSERT_TRUE(executable.ok()) << executable.status().message();
  }
  device = Device();
  DeviceOptions other;
  other.index = 3;
  other.target = Target::kGaudi3;
  auto reopened = Device::open(other);
  EXPECT_TRUE(reopened.ok()) << reopened.status().message();
  EXPECT_EQ(cache.statistics().entries, 1) << "the recipe stays";
}

TEST(EagerCache, TheLeastRecentlyUsedGo) {
  EagerOptions options;
  options.maxEntries = 3;
  EagerCache cache(options);
  Compiler compiler;
  auto use = [&](uint32_t value) {
    int before = compiler.calls;
    EXPECT_TRUE(cache.recipe(fillKey(10, value), compiler.fill(10, value)).ok());
    return compiler.calls > before;
  };
  EXPECT_TRUE(use(1));
  EXPECT_TRUE(use(2));
  EXPECT_TRUE(use(3));
  EXPECT_FALSE(use(1));
  EXPECT_TRUE(use(4));  // 2 goes.
  EXPECT_FALSE(use(1));
  EXPECT_FALSE(use(3));
  EXPECT_TRUE(use(2));
  EXPECT_EQ(cache.statistics().evictions, 2);
  EXPECT_EQ(cache.statistics().entries, 3);
}

TEST(EagerCache, AFailureIsReportedAndNotKept) {
  Device device = openSmall();
  EagerCache cache;
  EagerKey key = EagerKey::Builder().add("odd").build();
  int calls = 0;
  auto fails = [&]() -> StatusOr<Recipe> {
    ++calls;
    return unimplemented("no such op");
  };
  EXPECT_THAT(cache.recipe(key, fails).status().message(), HasSubstr("no such op"));
  EXPECT_EQ(cache.executable(device, key, fails).status().code(), StatusCode::kUnimplemented);
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(cache.statistics().failures, 2);
  EXPECT_EQ(cache.statistics().entries, 0);
  EXPECT_FALSE(cache.recipe(key, {}).ok());
  // A mistake of the program's, not of ours.
  const auto empty = [] { return StatusOr<Recipe>(Recipe()); };
  EXPECT_EQ(cache.recipe(key, empty).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(cache.executable(device, key, empty).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(cache.recipe(key, []() -> StatusOr<Recipe> { throw std::bad_alloc(); }).status().code(),
            StatusCode::kResourceExhausted);
  EXPECT_EQ(cache.executable(Device(), key, fails).status().code(), StatusCode::kFailedPrecondition);
  Compiler compiler;
  EXPECT_TRUE(cache.recipe(key, compiler.fill(10, 1)).ok());
}

TEST(EagerCache, ACompilationThatAsksForItselfIsRefusedAtOnce) {
  EagerCache cache;
  EagerKey key = fillKey(10, 1);
  Compiler compiler;
  auto itself = [&] { return cache.recipe(key, compiler.fill(10, 1)); };
  Status status = cache.recipe(key, itself).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("the structure that it compiles"));
  // Another structure is fine, and nothing is left of the refused one.
  auto other = [&] {
    EXPECT_TRUE(cache.recipe(fillKey(10, 2), compiler.fill(10, 2)).ok());
    return compiler.fill(10, 1)();
  };
  EXPECT_TRUE(cache.recipe(key, other).ok());
}

TEST(EagerCache, CompilationsThatAskForEachOthersStructureAreRefusedAtOnce) {
  // In one cache, and in two.
  for (bool same : {true, false}) {
    EagerCache first, second;
    EagerCache& other = same ? first : second;
    Compiler compiler;
    std::atomic<int> begun{0};
    Status inner[2], outer[2];
    auto meet = [&] {
      ++begun;
      while (begun < 2) std::this_thread::yield();
    };
    std::thread thread([&] {
      outer[0] = first
                     .recipe(fillKey(10, 1),
                             [&]() -> StatusOr<Recipe> {
                               meet();
                               inner[0] = other.recipe(fillKey(10, 2), compiler.fill(10, 2)).status();
                               return compiler.fill(10, 1)();
                             })
                     .status();
    });
    outer[1] = other
                   .recipe(fillKey(10, 2),
                           [&]() -> StatusOr<Recipe> {
                             meet();
                             inner[1] = first.recipe(fillKey(10, 1), compiler.fill(10, 1)).status();
                             return compiler.fill(10, 2)();
                           })
                   .status();
    thread.join();
    // One of them closes the circle and is told; the other one gets what it waits for.
    EXPECT_NE(inner[0].ok(), inner[1].ok());
    const Status& refused = inner[0].ok() ? inner[1] : inner[0];
    EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition) << refused.message();
    EXPECT_THAT(refused.message(), HasSubstr("waits for"));
    EXPECT_TRUE(outer[0].ok() && outer[1].ok());
  }
}

TEST(EagerCache, ThreadsThatMissTheSameKeyCompileItOnce) {
  Device device = openSmall();
  EagerCache cache;
  std::atomic<int> calls{0}, failed{0};
  auto slow = [&](bool fails) {
    return [&calls, fails]() -> StatusOr<Recipe> {
      ++calls;
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      if (fails) return internalError("as asked");
      return toRecipe(fillProgram(10, 1));
    };
  };
  auto all = [&](const EagerKey& key, bool fails) {
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t)
      threads.emplace_back([&] {
        if (!cache.executable(device, key, slow(fails)).ok()) ++failed;
      });
    for (auto& thread : threads) thread.join();
  };
  all(fillKey(10, 1), false);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(failed, 0);
  all(fillKey(10, 2), true);
  EXPECT_GE(failed, 1);
  EXPECT_EQ(failed, 8);
}

TEST(EagerCache, ThreadsMixWithEvictionForgettingAndClearing) {
  Device device = openSmall();
  EagerOptions options;
  options.maxEntries = 4;
  EagerCache cache(options);
  Compiler compiler;
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      Stream stream = Stream::create(device).value();
      Device mine = device;
      Buffer out = mine.allocate(40).value();
      for (uint32_t i = 0; i < 200; ++i) {
        uint32_t value = (i * (t + 1)) % 9;
        auto op = cache.executable(device, fillKey(10, value), compiler.fill(10, value));
        ASSERT_TRUE(op.ok()) << op.status().message();
        uint32_t seen = 99;
        ASSERT_TRUE(op->launch(stream, {}, {out}).ok());
        ASSERT_TRUE(stream.copyToHost(&seen, out, 4).ok());
        *op = Executable();
        ASSERT_TRUE(stream.synchronize().ok());
        ASSERT_EQ(seen, value);
        if (i % 50 == 17) cache.forget(device);
        if (i % 70 == 23) cache.clear();
        ASSERT_LE(cache.statistics().entries, 4 + 4);
      }
    });
  for (auto& thread : threads) thread.join();
}

}  // namespace
}  // namespace hpu
