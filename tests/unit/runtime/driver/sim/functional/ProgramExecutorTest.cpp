// SPDX-License-Identifier: Apache-2.0
#include "runtime/driver/sim/functional/ProgramExecutor.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "Reference.h"
#include "base/CpuFeatures.h"

namespace hpu::sim::testing {
namespace {

using recipe::CpuVariant;

#if defined(__x86_64__)
/// A kernel in machine code: *(uint32_t*)buffers[0] = value.
std::vector<uint8_t> storeImage(uint32_t value) {
  std::vector<uint8_t> code{0x90, 0x90,                 // Two bytes before the entry.
                            0x48, 0x8b, 0x07,           // mov rax, [rdi]      (args->buffers)
                            0x48, 0x8b, 0x00,           // mov rax, [rax]      (buffers[0])
                            0xc7, 0x00, 0,    0, 0, 0,  // mov dword [rax], value
                            0xc3};                      // ret
  std::memcpy(code.data() + 10, &value, 4);
  return code;
}

/// A program of one kernel that stores `value` from an image for each of `variants`.
std::shared_ptr<recipe::Program> imageProgram(TestProgram& test, recipe::Operand& out,
                                              const std::vector<std::pair<CpuVariant, uint32_t>>& variants) {
  out = test.tensor(ElementType::kF32, {1});
  test.addTpc(test.addKernel(nullptr, 0, 1, 1), {}, {out});
  auto program = std::make_shared<recipe::Program>(test.program);
  for (auto [cpu, value] : variants) {
    auto code = std::make_shared<std::vector<uint8_t>>(storeImage(value));
    recipe::KernelImage image;
    image.cpu = cpu;
    image.entries = {2};
    image.data = code->data();
    image.bytes = code->size();
    image.owner = code;
    program->images.push_back(image);
  }
  return program;
}

std::vector<std::byte*> bases(TestProgram& test) {
  std::vector<std::byte*> list;
  for (auto& section : test.memory) list.push_back(section.data());
  return list;
}

TEST(ProgramExecutor, RunsTheBestKernelImageThatTheCpuHas) {
  base::CpuLevel cpu = base::detectCpuLevel();
  auto usable = base::usableCpuLevel();
  ASSERT_TRUE(usable.ok());
  cpu = *usable;
  if (cpu < base::CpuLevel::kV3) GTEST_SKIP() << "this CPU runs no kernel image";
  TestProgram test;
  recipe::Operand out;
  auto program = imageProgram(test, out, {{CpuVariant::kX86_64_v4, 4}, {CpuVariant::kX86_64_v3, 3}});
  auto executor = ProgramExecutor::create(program, {1});
  ASSERT_TRUE(executor.ok()) << executor.status().message();
  ASSERT_TRUE((*executor)->run(bases(test)).ok());
  uint32_t value = 0;
  std::memcpy(&value, test.at(out), 4);
  EXPECT_EQ(value, cpu >= base::CpuLevel::kV4 ? 4u : 3u);
}

TEST(ProgramExecutor, NamesTheMendWhenNoImageFits) {
  TestProgram test;
  recipe::Operand out;
  auto program = imageProgram(test, out, {});
  auto executor = ProgramExecutor::create(program, {1});
  ASSERT_FALSE(executor.ok());
  EXPECT_EQ(executor.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(executor.status().message().find("CompileOptions::cpu = native"), std::string::npos);
}

TEST(ProgramExecutor, RefusesAnEntryOutsideOfItsImage) {
  TestProgram test;
  recipe::Operand out;
  auto program = imageProgram(test, out, {{CpuVariant::kX86_64_v3, 3}});
  program->images[0].entries[0] = program->images[0].bytes;
  auto executor = ProgramExecutor::create(program, {1});
  ASSERT_FALSE(executor.ok());
  if (base::usableCpuLevel().value() >= base::CpuLevel::kV3) {
    EXPECT_EQ(executor.status().code(), StatusCode::kDataLoss);
  }
}
#endif

TEST(ProgramExecutor, RunsOpsInHostOrderAndRepeatedly) {
  TestProgram test;
  recipe::Operand a = test.tensor(ElementType::kF32, {100}), b = test.tensor(ElementType::kF32, {100});
  recipe::DmaDesc fill, copy;
  fill.fill = true;
  fill.fillPattern = 0x40400000;  // 3.0f
  fill.dst = a;
  copy.src = a;
  copy.dst = b;
  test.addDma(copy);
  test.addDma(fill);
  test.program.hostOrder = {1, 0};
  for (int i = 0; i < 3; ++i) {
    Random random(static_cast<uint32_t>(i));
    test.fillRandom(a, random);
    test.run(1);
    EXPECT_EQ(test.get(b, {99}), 3.0f);
  }
}

/// With other rows, and the constant that the first one packed: what became of its bytes since plays no part.
TEST(ProgramExecutor, InstancesShareThePackedWeights) {
  TestProgram test;
  test.packedIsConstant = true;
  Random random(3);
  recipe::MmeDesc mme;
  mme.a = test.tensor(ElementType::kF32, {70, 33});
  mme.b = test.tensor(ElementType::kF32, {33, 130});
  mme.c = test.tensor(ElementType::kF32, {70, 130});
  test.fillRandom(mme.a, random);
  test.fillRandom(mme.b, random);
  const std::vector<float> expected = referenceMme(test, mme);
  mme.packing = recipe::BPacking::kBlocked;
  mme.b = test.packed(mme, mme.b);
  test.addMme(mme);
  auto first = test.executor(1);
  ASSERT_TRUE(first.ok()) << first.status().message();
  ASSERT_EQ(test.program.constants.size(), 1u);
  std::memset(const_cast<uint8_t*>(test.program.constants[0].data), 0, test.program.constants[0].bytes);
  std::memset(test.at(mme.b), 0, test.program.constants[0].bytes);
  for (int64_t rows : {1, 5, 64}) {
    SCOPED_TRACE(rows);
    auto program = std::make_shared<recipe::Program>(test.program);
    recipe::Op& op = program->ops[0];
    op.space[0] = op.mme.a.sizes[0] = op.mme.c.sizes[0] = rows;
    auto executor = ProgramExecutor::create(program, {1}, **first);
    ASSERT_TRUE(executor.ok()) << executor.status().message();
    ASSERT_TRUE((*executor)->run(bases(test)).ok());
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t column = 0; column < 130; ++column)
        ASSERT_EQ(test.get(mme.c, {row, column}), expected[static_cast<size_t>(row * 130 + column)]);
  }
}

TEST(PreparedWeights, AreKeptAsLongAsSomebodyHasThem) {
  PreparedWeights weights;
  int filled = 0;
  auto get = [&](const std::vector<int64_t>& key) {
    return weights.get(key, 4096, [&](std::byte* bytes) { bytes[0] = static_cast<std::byte>(++filled); }).value();
  };
  auto first = get({1, 2});
  EXPECT_EQ(get({1, 2}), first);
  EXPECT_EQ(filled, 1);
  EXPECT_NE(get({1, 3}), first);
  EXPECT_EQ(filled, 2);
  first = nullptr;
  EXPECT_EQ(get({1, 2})->data()[0], std::byte{3});
}

TEST(ProgramExecutor, SaysWhichSectionHasNoMemory) {
  TestProgram test;
  recipe::DmaDesc fill;
  fill.fill = true;
  fill.dst = test.tensor(ElementType::kF32, {100});
  test.addDma(fill);
  auto executor = test.executor(1);
  ASSERT_TRUE(executor.ok());
  Status status = (*executor)->run({nullptr, nullptr});
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("section 1"), std::string::npos);
  EXPECT_FALSE((*executor)->run({}).ok());
}

TEST(ProgramExecutor, SerialisesConcurrentRuns) {
  TestProgram test;
  Random random(1);
  recipe::MmeDesc mme;
  mme.a = test.tensor(ElementType::kBF16, {64, 200});
  mme.b = test.tensor(ElementType::kBF16, {200, 96});
  mme.c = test.tensor(ElementType::kF32, {64, 96});
  test.fillRandom(mme.a, random);
  test.fillRandom(mme.b, random);
  test.addMme(mme);
  auto executor = test.executor(2);
  ASSERT_TRUE(executor.ok());
  std::vector<std::vector<std::vector<std::byte>>> memories(4, test.memory);
  std::vector<std::thread> threads;
  for (auto& memory : memories)
    threads.emplace_back([&] {
      std::vector<std::byte*> sections;
      for (auto& section : memory) sections.push_back(section.data());
      for (int i = 0; i < 20; ++i) (*executor)->run(sections).ignore();
    });
  for (std::thread& thread : threads) thread.join();
  std::vector<float> expected = referenceMme(test, mme);
  for (auto& memory : memories) {
    test.memory = memory;
    size_t i = 0, wrong = 0;
    forEachPoint(mme.c.sizes, [&](const std::vector<int64_t>& p) { wrong += test.get(mme.c, p) != expected[i++]; });
    EXPECT_EQ(wrong, 0u);
  }
}

}  // namespace
}  // namespace hpu::sim::testing
