// SPDX-License-Identifier: Apache-2.0
// Instances that share what their bucket has: they are as right as those that are made alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdio>
#include <map>
#include <random>
#include <thread>

#include "InstanceChecks.h"
#include "plan/Instantiate.h"

namespace hpu::plan {
namespace {

using namespace testing;

/// The commands of a bucket serve what is near, or are made anew: in both cases the schedule is proved.
TEST(Instances, OfOneBucketAreRightWhateverTheirSizes) {
  std::mt19937 random(5);
  uint64_t alike = 0, made = 0;
  for (unsigned seed = 0; seed < 150; ++seed) {
    const Program program = RandomProgram(seed).make();
    arch::TargetDesc target = gaudi2();
    if (seed % 3 == 0) target.sramBytes = std::uniform_int_distribution<int64_t>(0, 20000)(random);
    Instances instances(std::make_shared<const Program>(program), target);
    Sizes last;
    for (const recipe::Symbol& symbol : program.dynamic->symbols)
      last.push_back(std::uniform_int_distribution<int64_t>(symbol.min, symbol.max)(random));
    for (int i = 0; i < 12; ++i) {
      Sizes sizes = last;
      for (size_t s = 0; s < sizes.size(); ++s)
        sizes[s] =
            std::max(program.dynamic->symbols[s].min, sizes[s] - std::uniform_int_distribution<int64_t>(0, 4)(random));
      SCOPED_TRACE("seed " + std::to_string(seed) + ": " + recipe::sizesText(*program.dynamic, sizes));
      auto instance = instances.get(sizes);
      ASSERT_TRUE(instance.ok()) << instance.status().message();
      ASSERT_NO_FATAL_FAILURE(expectRight(program, sizes, **instance));
      auto alone = instantiate(program, sizes, target);
      ASSERT_TRUE(alone.ok()) << alone.status().message();
      ASSERT_EQ((*instance)->kernels.size(), (*alone)->kernels.size());
      for (size_t k = 0; k < (*alone)->kernels.size(); ++k)
        EXPECT_EQ((*instance)->kernels[k].dims, (*alone)->kernels[k].dims);
      ASSERT_EQ((*instance)->ops.size(), (*alone)->ops.size());
      for (size_t op = 0; op < (*alone)->ops.size(); ++op)
        EXPECT_EQ((*instance)->ops[op].space, (*alone)->ops[op].space);
      ++made;
    }
    alike += instances.stats().alike;
  }
  // Else this looks at nothing.
  EXPECT_GT(alike, made / 4);
}

/// Rows [0, m) by the MME and [n, n + m) by the TPC: they meet where m is larger than n, and nothing orders them where
/// it is not.
Program twoWriters() {
  DynamicBuilder b;
  const Num n = b.symbol("n", 1, 40, 24), m = b.symbol("m", 1, 40, 23), width = b.number(32), zero = b.number(0);
  const uint32_t relu = b.kernel("relu", 1, 2, 0, {m});
  b.readsPointwise(relu, 0, 2);
  using View = DynamicBuilder::View;
  const View x = b.input("x", {m, width}), hidden = b.workspace({b.add(n, m), width});
  b.input("n", {n});
  b.unit({{b.gemm("first", x, b.constant({32, 32}), b.part(hidden, 0, zero, m))}});
  b.unit({{b.tpc("second", relu, {x}, b.part(hidden, 0, n, m))}});
  b.unit({{b.copy("out", b.part(hidden, 0, n, m), b.output("y", {m, width}))}});
  return b.finish();
}

TEST(Instances, WaitForWhatMeetsAtTheirSizesOnly) {
  const auto program = std::make_shared<const Program>(twoWriters());
  ASSERT_TRUE(recipe::verifyProgram(*program).ok()) << recipe::verifyProgram(*program).message();
  Instances instances(program, gaudi2());
  auto waitsOfSecond = [&](const Program& instance) {
    for (const recipe::Queue& queue : instance.queues)
      for (const recipe::Command& command : queue.commands)
        if (instance.ops[command.op].name == "second") return command.waits.size();
    return size_t{99};
  };
  // All of one bucket, that of 20 and 20, where the two do not meet.
  for (const auto& [sizes, meets] : std::vector<std::pair<Sizes, bool>>{
           {{20, 20}, false}, {{19, 17}, false}, {{17, 20}, true}, {{18, 18}, false}, {{18, 19}, true}}) {
    SCOPED_TRACE(recipe::sizesText(*program->dynamic, sizes));
    const uint64_t before = instances.stats().alike;
    auto instance = instances.get(sizes);
    ASSERT_TRUE(instance.ok()) << instance.status().message();
    ASSERT_NO_FATAL_FAILURE(expectRight(*program, sizes, **instance));
    EXPECT_EQ(waitsOfSecond(**instance), meets ? 1u : 0u);
    // That of the bucket's end is planned, and found again for the others.
    if (sizes != Sizes{20, 20}) {
      EXPECT_EQ(instances.stats().alike - before, meets ? 0u : 1u);
    }
  }
}

/// A program that nobody uses any more becomes the next one of its bucket; one that is in use stays as it is.
TEST(Instances, TakeUpProgramsThatAreNotInUse) {
  const auto program = std::make_shared<const Program>(dynamicSample());
  Instances instances(program, gaudi2());
  auto first = instances.get({40, 64}), kept = instances.get({40, 60});
  ASSERT_TRUE(first.ok() && kept.ok());
  auto released = instances.get({40, 59});
  ASSERT_TRUE(released.ok());
  const Program* address = released->get();
  *released = nullptr;
  auto next = instances.get({40, 61});
  ASSERT_TRUE(next.ok());
  EXPECT_EQ(next->get(), address);
  ASSERT_NO_FATAL_FAILURE(expectRight(*program, {40, 61}, **next));
  ASSERT_NO_FATAL_FAILURE(expectNumbersOf(dynamicSample(40, 61), **next));
  ASSERT_NO_FATAL_FAILURE(expectNumbersOf(dynamicSample(40, 60), **kept));
  ASSERT_NO_FATAL_FAILURE(expectRight(*program, {40, 60}, **kept));
}

/// All numbers of an op of an instance, of its commands and of its kernel.
std::vector<int64_t> numbersOf(const Program& instance, uint32_t index) {
  const recipe::Op& op = instance.ops[index];
  std::vector<int64_t> numbers;
  auto add = [&](const std::vector<int64_t>& list) {
    numbers.push_back(static_cast<int64_t>(list.size()));
    numbers.insert(numbers.end(), list.begin(), list.end());
  };
  add(op.space);
  for (uint32_t o = 0; const recipe::Operand* operand = recipe::operandAt(op, o); ++o) {
    add(operand->sizes);
    add(operand->strides);
    add({static_cast<int64_t>(operand->section), static_cast<int64_t>(operand->offset), operand->ring.slots,
         operand->ring.dim, static_cast<int64_t>(operand->ring.slotBytes)});
  }
  add({op.mme.packingFactor});
  if (op.engine == Engine::kTpc) {
    const recipe::Kernel& kernel = instance.kernels[op.tpc.kernel];
    add(kernel.dims);
    add({static_cast<int64_t>(kernel.scratchBytes)});
    for (double cost : {kernel.cost.loads, kernel.cost.stores, kernel.cost.vectorOps, kernel.cost.scalarOps})
      numbers.push_back(std::bit_cast<int64_t>(cost));
  }
  for (const recipe::Queue& queue : instance.queues)
    for (const recipe::Command& command : queue.commands)
      if (command.op == index) {
        add(command.lo);
        add(command.hi);
        add({command.slice});
        for (const recipe::Wait& wait : command.waits) add({wait.signal, wait.value});
      }
  return numbers;
}

/// Of one that was another one before only what differs is set and verified.
TEST(Instances, ThatWereOthersAreAsThoseMadeAnew) {
  std::mt19937 random(17);
  uint64_t alike = 0;
  size_t sameContent = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    const auto program = std::make_shared<const Program>(RandomProgram(seed).make());
    Instances instances(program, gaudi2());
    std::map<uint64_t, std::vector<int64_t>> contents;
    for (int i = 0; i < 30; ++i) {
      Sizes sizes;
      for (const recipe::Symbol& symbol : program->dynamic->symbols)
        sizes.push_back(
            std::uniform_int_distribution<int64_t>(std::max(symbol.min, symbol.max - 9), symbol.max)(random));
      SCOPED_TRACE("seed " + std::to_string(seed) + ": " + recipe::sizesText(*program->dynamic, sizes));
      Instances anew(program, gaudi2());
      const auto instance = instances.get(sizes), expected = anew.get(sizes);
      ASSERT_TRUE(instance.ok() && expected.ok());
      ASSERT_EQ((*instance)->ops.size(), (*expected)->ops.size());
      for (uint32_t op = 0; op < (*instance)->ops.size(); ++op) {
        const std::vector<int64_t> numbers = numbersOf(**instance, op);
        ASSERT_EQ(numbers, numbersOf(**expected, op)) << (*instance)->ops[op].name;
        const uint64_t content = (*instance)->ops[op].content;
        if (content == 0) continue;
        const auto [known, isNew] = contents.emplace(content, numbers);
        ASSERT_EQ(known->second, numbers) << (*instance)->ops[op].name;
        sameContent += !isNew;
      }
    }
    alike += instances.stats().alike;
  }
  EXPECT_GT(alike, 600u);
  EXPECT_GT(sameContent, 100u);
}

// ---- Buckets -----------------------------------------------------------------------------------------

TEST(Instances, BucketsAreFourAnOctaveAndNotNarrowerThanFour) {
  for (int64_t size : {0, 1, 2, 3, 4}) EXPECT_EQ(bucketEnd(size), size);
  for (const auto& [size, end] : std::map<int64_t, int64_t>{
           {5, 8}, {8, 8}, {9, 12}, {16, 16}, {17, 20}, {32, 32}, {33, 40}, {129, 160}, {160, 160}})
    EXPECT_EQ(bucketEnd(size), end);
  for (int64_t size = 1; size < 5000; ++size) {
    EXPECT_GE(bucketEnd(size), size);
    EXPECT_LE(bucketEnd(size), size + std::max<int64_t>(size / 4, 3));
    EXPECT_EQ(bucketEnd(bucketEnd(size)), bucketEnd(size));
  }
}

TEST(Instances, PlanOncePerBucket) {
  const auto program = std::make_shared<const Program>(dynamicSample());
  Instances instances(program, gaudi2());
  for (int64_t seq : {57, 64, 60, 59}) {
    auto instance = instances.get({40, seq});
    ASSERT_TRUE(instance.ok()) << instance.status().message();
    ASSERT_NO_FATAL_FAILURE(expectRight(*program, {40, seq}, **instance));
    ASSERT_NO_FATAL_FAILURE(expectNumbersOf(dynamicSample(40, seq), **instance));
    EXPECT_EQ((*instance)->kernels[1].dims, (std::vector<int64_t>{seq, 40 + seq}));
  }
  EXPECT_EQ(instances.stats().reused + instances.stats().planned, 4u);
  EXPECT_GE(instances.stats().reused, 3u);
}

TEST(Instances, BucketsMayBePlannedAhead) {
  const auto program = std::make_shared<const Program>(dynamicSample());
  Instances instances(program, gaudi2()), others(program, gaudi2());
  const Sizes sizes = {40, 59};
  instances.prepare(sizes);
  EXPECT_EQ(instances.stats().buckets, 1u);
  instances.prepare({40, 61});  // The same bucket.
  instances.prepare({1 << 30, 59});
  instances.prepare({40});
  EXPECT_EQ(instances.stats().buckets, 1u);
  const auto made = instances.get(sizes), expected = others.get(sizes);
  ASSERT_TRUE(made.ok() && expected.ok());
  EXPECT_EQ(instances.stats().buckets, 1u);
  for (uint32_t op = 0; op < (*made)->ops.size(); ++op)
    EXPECT_EQ(numbersOf(**made, op), numbersOf(**expected, op)) << (*made)->ops[op].name;
}

TEST(Instances, ThreadsPlanABucketOnce) {
  const auto program = std::make_shared<const Program>(layersProgram(40));
  Instances instances(program, gaudi2());
  std::vector<std::thread> threads;
  for (int64_t t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (int64_t seq : {1001, 2001, 3001}) {
        if (t % 2 == 0) instances.prepare({2, seq + t});
        EXPECT_TRUE(instances.get({2, seq + t}).ok());
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(instances.stats().buckets, 3u);
}

TEST(Instances, OfAKnownBucketAreMadeMoreQuickly) {
  using Clock = std::chrono::steady_clock;
  auto microseconds = [](Clock::time_point from) {
    return std::chrono::duration<double, std::micro>(Clock::now() - from).count();
  };
  for (int64_t layers : {17, 170}) {
    const auto program = std::make_shared<const Program>(layersProgram(layers));
    const int64_t commands = layers * 6;
    std::vector<double> planned, again, direct;
    Instances instances(program, gaudi2());
    for (int64_t seq = 100; seq < 4000; seq += seq / 3) {
      auto start = Clock::now();
      ASSERT_TRUE(instances.get({2, seq}).ok());
      planned.push_back(microseconds(start));
      for (int64_t near : {seq, bucketEnd(seq)}) {
        start = Clock::now();
        ASSERT_TRUE(instances.get({2, near}).ok());
        again.push_back(microseconds(start));
      }
      start = Clock::now();
      ASSERT_TRUE(instantiate(*program, {2, seq}, gaudi2()).ok());
      direct.push_back(microseconds(start));
    }
    auto median = [](std::vector<double>& times) {
      std::sort(times.begin(), times.end());
      return times[times.size() / 2];
    };
    std::printf("%lld commands: first sizes of a bucket %.0f us, others %.0f us, without buckets %.0f us\n",
                static_cast<long long>(commands), median(planned), median(again), median(direct));
    EXPECT_GT(instances.stats().reused, instances.stats().planned);
    EXPECT_LT(median(again), median(planned));  // Which holds on busy machines and with sanitizers, too.
  }
}

}  // namespace
}  // namespace hpu::plan
