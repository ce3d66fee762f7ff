// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>

#include "Reference.h"
#include "runtime/driver/sim/functional/MmeUnit.h"

namespace hpu::sim::testing {
namespace {

using recipe::MmeDesc;
using recipe::MmeKind;
using recipe::Operand;

/// A kernel whose operands' strides are known to it, as they are in compiled ones: Id tells several
/// apart.
template <int Id>
struct TestKernel {
  static inline std::vector<Operand> operands;  // Inputs, then one output.
  static inline float (*function)(const float* inputs) = nullptr;
  static inline std::atomic<int> calls{0};
  static inline std::atomic<bool> wholeRows{true};  // Every call had all of the last dimension.

  static void call(const HpuKernelArgs* args) {
    ++calls;
    const std::vector<int64_t>& space = operands.back().sizes;
    size_t rank = space.size();
    if (args->lo[rank - 1] != 0 || args->hi[rank - 1] != space[rank - 1]) wholeRows = false;
    std::vector<int64_t> box(rank);
    for (size_t d = 0; d < rank; ++d) box[d] = args->hi[d] - args->lo[d];
    auto address = [&](size_t i) { return static_cast<std::byte*>(args->buffers[i]); };
    forEachPoint(box, [&](std::vector<int64_t> p) {
      for (size_t d = 0; d < rank; ++d) p[d] += args->lo[d];
      float inputs[4];
      for (size_t i = 0; i + 1 < operands.size(); ++i)
        inputs[i] = readElement(address(i), operands[i].type, elementIndex(operands[i], p));
      writeElement(address(operands.size() - 1), operands.back().type, elementIndex(operands.back(), p),
                   function(inputs));
    });
  }

  static uint32_t add(TestProgram& program, std::vector<Operand> all, float (*f)(const float*),
                      uint32_t wholeDims = 0) {
    operands = all;
    function = f;
    calls = 0;
    wholeRows = true;
    Operand out = all.back();
    all.pop_back();
    uint32_t kernel = program.addKernel(&call, static_cast<uint32_t>(all.size()), 1,
                                        static_cast<uint32_t>(out.sizes.size()), wholeDims);
    return program.addTpc(kernel, std::move(all), {out});
  }
};

std::vector<int64_t> seenDims;

void noteDims(const HpuKernelArgs* args) {
  if (args->dims) seenDims.assign(args->dims, args->dims + 1);
}

TEST(Bundle, GivesKernelsTheirSizes) {
  TestProgram program;
  MmeDesc mme;
  mme.a = program.tensor(ElementType::kF32, {4, 8});
  mme.b = program.tensor(ElementType::kF32, {8, 16});
  mme.c = program.ring(ElementType::kF32, {4, 16}, 0, 4, 1);
  const uint32_t gemm = program.addMme(mme), kernel = program.addKernel(noteDims, 1, 1, 2);
  program.program.kernels[kernel].dims = {77};
  const uint32_t tpc = program.addTpc(kernel, {mme.c}, {program.tensor(ElementType::kF32, {4, 16})});
  program.addBundle({gemm, tpc});
  program.addSlices(0, gemm, 0, 4);
  program.addSlices(0, tpc, 0, 4);
  program.run(1);
  EXPECT_EQ(seenDims, std::vector<int64_t>{77});
}

float addRelu(const float* in) {
  return std::max(in[0] + in[1], 0.0f);
}
float addAll(const float* in) {
  return in[0] + in[1];
}
float twice(const float* in) {
  return 2 * in[0];
}

Operand broadcast(Operand vector, const std::vector<int64_t>& sizes, size_t dim) {
  vector.sizes = sizes;
  vector.strides.assign(sizes.size(), 0);
  vector.strides[dim] = 1;
  return vector;
}

MmeDesc conv3x3(TestProgram& program, Random& random, int64_t n, int64_t in, int64_t out, int64_t size) {
  MmeDesc mme;
  mme.kind = MmeKind::kConv2d;
  mme.a = program.tensor(ElementType::kF32, {n, in, size, size}, {0, 2, 3, 1});
  mme.b = program.tensor(ElementType::kF32, {out, in, 3, 3});
  mme.padBegin[0] = mme.padBegin[1] = mme.padEnd[0] = mme.padEnd[1] = 1;
  program.fillRandom(mme.a, random);
  program.fillRandom(mme.b, random);
  return mme;
}

TEST(Bundle, RunsTheEpilogueOnEachBlockOfAConvolution) {
  for (int64_t images : {1, 3}) {
    Random random(1);
    TestProgram program;
    MmeDesc mme = conv3x3(program, random, images, 40, 100, 28);
    const std::vector<int64_t> sizes{images, 100, 28, 28};
    // The ring's images are as far apart as a slot's rows: blocks of several images would collide.
    mme.c = program.ring(ElementType::kF32, sizes, 2, 4, 2, {0, 2, 3, 1});
    Operand bias = program.tensor(ElementType::kF32, {100});
    program.fillRandom(bias, random);
    Operand wideBias = broadcast(bias, sizes, 1);
    Operand residual = program.tensor(ElementType::kF32, sizes, {0, 2, 3, 1});
    program.fillRandom(residual, random);
    Operand middle = program.ring(ElementType::kBF16, sizes, 2, 4, 2, {0, 2, 3, 1});
    Operand out = program.tensor(ElementType::kF32, sizes, {0, 2, 3, 1});
    uint32_t conv = program.addMme(mme);
    uint32_t first = TestKernel<0>::add(program, {mme.c, wideBias, middle}, addRelu);
    uint32_t second = TestKernel<1>::add(program, {middle, residual, out}, addAll);
    program.addBundle({conv, first, second});
    program.run();
    EXPECT_GT(TestKernel<0>::calls, 1);

    // The reference needs a C that exists in memory.
    MmeDesc plain = mme;
    plain.c = program.tensor(ElementType::kF32, sizes);
    std::vector<float> expected = referenceMme(program, plain);
    size_t i = 0, wrong = 0;
    forEachPoint(sizes, [&](const std::vector<int64_t>& p) {
      float value = std::max(expected[i++] + program.get(bias, {p[1]}), 0.0f);
      std::byte rounded[2];
      writeElement(rounded, ElementType::kBF16, 0, value);
      float want = readElement(rounded, ElementType::kBF16, 0) + program.get(residual, p);
      wrong += program.get(out, p) != want;
    });
    EXPECT_EQ(wrong, 0u);
  }
}

TEST(Bundle, IsOneUnitWhenMerged) {
  Random random(2);
  TestProgram program;
  MmeDesc mme = conv3x3(program, random, 1, 16, 64, 14);
  const std::vector<int64_t> sizes{1, 64, 14, 14};
  mme.c = program.ring(ElementType::kF32, sizes, 2, 7, 2, {0, 2, 3, 1});
  Operand out = program.tensor(ElementType::kF32, sizes, {0, 2, 3, 1});
  uint32_t conv = program.addMme(mme);
  uint32_t relu = TestKernel<0>::add(program, {mme.c, out}, twice);
  program.addBundle({conv, relu});
  auto executor = program.executor(1);
  ASSERT_TRUE(executor.ok()) << executor.status().message();
  EXPECT_EQ((*executor)->units().size(), 1u);
}

TEST(Bundle, GivesKernelsTheirWholeDimensions) {
  Random random(3);
  TestProgram program;
  const std::vector<int64_t> sizes{3, 90, 200};
  MmeDesc mme;
  mme.a = program.tensor(ElementType::kF32, {3, 90, 32});
  mme.b = program.tensor(ElementType::kF32, {3, 32, 200});
  mme.c = program.ring(ElementType::kF32, sizes, 1, 30, 2);
  program.fillRandom(mme.a, random);
  program.fillRandom(mme.b, random);
  Operand out = program.tensor(ElementType::kF32, sizes);
  uint32_t gemm = program.addMme(mme);
  uint32_t rows = TestKernel<0>::add(program, {mme.c, out}, twice, /*wholeDims=*/4);
  program.addBundle({gemm, rows});
  program.run();
  EXPECT_TRUE(TestKernel<0>::wholeRows);
  MmeDesc plain = mme;
  plain.c = program.tensor(ElementType::kF32, sizes);
  std::vector<float> expected = referenceMme(program, plain);
  size_t i = 0, wrong = 0;
  forEachPoint(sizes, [&](const std::vector<int64_t>& p) { wrong += program.get(out, p) != 2 * expected[i++]; });
  EXPECT_EQ(wrong, 0u);
}

TEST(Bundle, RunsAProducerAheadOfTheMmeSliceBySlice) {
  Random random(4);
  TestProgram program;
  const std::vector<int64_t> aSizes{130, 48}, cSizes{130, 70};
  Operand source = program.tensor(ElementType::kF32, aSizes);
  program.fillRandom(source, random);
  MmeDesc mme;
  mme.a = program.ring(ElementType::kF32, aSizes, 0, 32, 2);
  mme.b = program.tensor(ElementType::kF32, {48, 70});
  mme.c = program.ring(ElementType::kF32, cSizes, 0, 32, 2);
  program.fillRandom(mme.b, random);
  Operand out = program.tensor(ElementType::kF32, cSizes);
  uint32_t before = TestKernel<0>::add(program, {source, mme.a}, twice);
  uint32_t gemm = program.addMme(mme);
  uint32_t after = TestKernel<1>::add(program, {mme.c, out}, twice);
  program.addBundle({before, gemm, after});
  for (uint32_t op : {before, gemm, after}) program.addSlices(0, op, 0, 32);
  program.run();
  MmeDesc plain = mme;
  plain.a = source;
  plain.c = program.tensor(ElementType::kF32, cSizes);
  std::vector<float> expected = referenceMme(program, plain);
  size_t i = 0, wrong = 0;
  forEachPoint(cSizes, [&](const std::vector<int64_t>& p) { wrong += program.get(out, p) != 4 * expected[i++]; });
  EXPECT_EQ(wrong, 0u);
}

TEST(Bundle, SlicesConvolutionsThatCannotBeMerged) {
  // The epilogue reads its input through another view (rows upside down are not possible, columns
  // exchanged are): every ring slot has to be there as the device has it.
  for (bool transposed : {false, true}) {
    Random random(5);
    TestProgram program;
    MmeDesc mme;
    mme.kind = transposed ? MmeKind::kConvTranspose2d : MmeKind::kConv2d;
    mme.a = program.tensor(ElementType::kF32, {2, 20, 9, 9}, {0, 2, 3, 1});
    mme.b = program.tensor(ElementType::kF32,
                           transposed ? std::vector<int64_t>{20, 70, 3, 3} : std::vector<int64_t>{70, 20, 3, 3});
    mme.strides[0] = mme.strides[1] = 2;
    mme.padBegin[0] = mme.padBegin[1] = mme.padEnd[0] = mme.padEnd[1] = 1;
    int64_t size = transposed ? 17 : 5;
    const std::vector<int64_t> sizes{2, 70, size, size};
    program.fillRandom(mme.a, random);
    program.fillRandom(mme.b, random);
    mme.c = program.ring(ElementType::kF32, sizes, 2, 3, 3, {0, 2, 3, 1});
    Operand swapped = mme.c;
    std::swap(swapped.strides[0], swapped.strides[1]);
    std::swap(swapped.sizes[0], swapped.sizes[1]);
    Operand out = program.tensor(ElementType::kF32, swapped.sizes);
    uint32_t conv = program.addMme(mme);
    uint32_t after = TestKernel<0>::add(program, {swapped, out}, twice);
    program.addBundle({conv, after});
    program.addSlices(0, conv, 2, 3);
    program.addSlices(0, after, 2, 3);
    program.run();
    MmeDesc plain = mme;
    plain.c = program.tensor(ElementType::kF32, sizes);
    std::vector<float> expected = referenceMme(program, plain);
    size_t i = 0, wrong = 0;
    forEachPoint(sizes, [&](const std::vector<int64_t>& p) {
      wrong += program.get(out, {p[1], p[0], p[2], p[3]}) != 2 * expected[i++];
    });
    EXPECT_EQ(wrong, 0u);
  }
}

TEST(Bundle, WithoutRingsRunsOpByOpWhereViewsDiffer) {
  Random random(6);
  TestProgram program;
  MmeDesc mme;
  mme.a = program.tensor(ElementType::kF32, {96, 30});
  mme.b = program.tensor(ElementType::kF32, {30, 96});
  mme.c = program.tensor(ElementType::kF32, {96, 96});
  program.fillRandom(mme.a, random);
  program.fillRandom(mme.b, random);
  Operand transposed = mme.c;
  std::swap(transposed.strides[0], transposed.strides[1]);
  Operand out = program.tensor(ElementType::kF32, {96, 96});
  uint32_t gemm = program.addMme(mme);
  uint32_t add = TestKernel<0>::add(program, {mme.c, transposed, out}, addAll);
  program.addBundle({gemm, add});
  program.run();
  std::vector<float> expected = referenceMme(program, mme);
  size_t wrong = 0;
  for (int64_t i = 0; i < 96; ++i)
    for (int64_t j = 0; j < 96; ++j)
      wrong += program.get(out, {i, j}) !=
               expected[static_cast<size_t>(i * 96 + j)] + expected[static_cast<size_t>(j * 96 + i)];
  EXPECT_EQ(wrong, 0u);
}

TEST(Bundle, MergesIntoItsPartOfAConcatenation) {
  // DenseNet: a conv reads the first channels of a buffer and its epilogue writes the next ones.
  Random random(7);
  TestProgram program;
  Operand whole = program.tensor(ElementType::kF32, {1, 96, 12, 12}, {0, 2, 3, 1});
  MmeDesc mme;
  mme.kind = MmeKind::kConv2d;
  mme.a = whole;
  mme.a.sizes[1] = 64;
  program.fillRandom(mme.a, random);
  mme.b = program.tensor(ElementType::kF32, {32, 64, 1, 1});
  program.fillRandom(mme.b, random);
  const std::vector<int64_t> sizes{1, 32, 12, 12};
  mme.c = program.ring(ElementType::kF32, sizes, 2, 4, 2, {0, 2, 3, 1});
  Operand out = whole;
  out.sizes = sizes;
  out.offset += 64 * 4;
  uint32_t conv = program.addMme(mme);
  uint32_t relu = TestKernel<0>::add(program, {mme.c, out}, twice);
  program.addBundle({conv, relu});
  auto executor = program.executor(1);
  ASSERT_TRUE(executor.ok()) << executor.status().message();
  EXPECT_EQ((*executor)->units().size(), 1u);
  MmeDesc plain = mme;
  plain.c = program.tensor(ElementType::kF32, sizes);
  std::vector<float> expected = referenceMme(program, plain);
  program.run();
  size_t i = 0, wrong = 0;
  forEachPoint(sizes, [&](const std::vector<int64_t>& p) { wrong += program.get(out, p) != 2 * expected[i++]; });
  EXPECT_EQ(wrong, 0u);
}

TEST(Bundle, MustNotBeTornApartInTheHostOrder) {
  Random random(8);
  TestProgram program;
  MmeDesc mme;
  mme.a = program.tensor(ElementType::kF32, {8, 8});
  mme.b = program.tensor(ElementType::kF32, {8, 8});
  mme.c = program.ring(ElementType::kF32, {8, 8}, 0, 4, 2);
  Operand out = program.tensor(ElementType::kF32, {8, 8});
  uint32_t gemm = program.addMme(mme);
  recipe::DmaDesc fill;
  fill.fill = true;
  fill.dst = program.tensor(ElementType::kF32, {4});
  program.addDma(fill);
  uint32_t relu = TestKernel<0>::add(program, {mme.c, out}, twice);
  program.addBundle({gemm, relu});
  auto executor = program.executor(1);
  ASSERT_FALSE(executor.ok());
  EXPECT_EQ(executor.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(executor.status().message().find("host order"), std::string::npos);
}

TEST(Bundle, ThatNeedsSlicesNeedsCommands) {
  TestProgram program;
  MmeDesc mme;
  mme.a = program.ring(ElementType::kF32, {8, 8}, 0, 4, 2);
  mme.b = program.tensor(ElementType::kF32, {8, 8});
  mme.c = program.tensor(ElementType::kF32, {8, 8});
  Operand source = program.tensor(ElementType::kF32, {8, 8});
  uint32_t producer = TestKernel<0>::add(program, {source, mme.a}, twice);
  uint32_t gemm = program.addMme(mme, "late gemm");
  program.addBundle({producer, gemm});
  auto executor = program.executor(1);
  ASSERT_FALSE(executor.ok());
  EXPECT_EQ(executor.status().code(), StatusCode::kInvalidArgument);
}

/// Two products in a row, as in attention: gemm, kernel over whole rows, gemm, kernel. What passes between lies in
/// rings of two tiles along `dim`, with the dims in the memory order `order`.
void expectChain(uint32_t dim, int64_t tile, const std::vector<int>& order, bool bySlices) {
  Random random(9);
  TestProgram program;
  const std::vector<int64_t> scores{4, 50, 70}, sizes{4, 50, 40};
  MmeDesc first, second;
  first.a = program.tensor(ElementType::kF32, {4, 50, 24});
  first.b = program.tensor(ElementType::kF32, {4, 24, 70});
  first.c = program.ring(ElementType::kF32, scores, dim, tile, 2, order);
  second.a = program.ring(ElementType::kF32, scores, dim, tile, 2, order);
  second.b = program.tensor(ElementType::kF32, {4, 70, 40});
  second.c = program.ring(ElementType::kF32, sizes, dim, tile, 2);
  Operand out = program.tensor(ElementType::kF32, sizes);
  for (const Operand* operand : {&first.a, &first.b, &second.b}) program.fillRandom(*operand, random);
  std::vector<uint32_t> ops = {program.addMme(first),
                               TestKernel<0>::add(program, {first.c, second.a}, twice, /*wholeDims=*/4),
                               program.addMme(second), TestKernel<1>::add(program, {second.c, out}, twice)};
  program.addBundle(ops);
  for (uint32_t op : ops) program.addSlices(0, op, dim, tile);
  auto executor = program.executor(2);
  ASSERT_TRUE(executor.ok()) << executor.status().message();
  const size_t slices = (sizes[dim] + tile - 1) / tile;
  EXPECT_EQ((*executor)->units().size(), bySlices ? 4 * slices : 2);
  program.run();

  MmeDesc plain = first;
  plain.c = program.tensor(ElementType::kF32, scores);
  std::vector<float> products = referenceMme(program, plain);
  plain = second;
  plain.a = program.tensor(ElementType::kF32, scores);
  plain.c = program.tensor(ElementType::kF32, sizes);
  size_t i = 0, wrong = 0;
  forEachPoint(scores, [&](const std::vector<int64_t>& p) {
    writeElement(program.at(plain.a), ElementType::kF32, elementIndex(plain.a, p), 2 * products[i++]);
  });
  std::vector<float> expected = referenceMme(program, plain);
  i = 0;
  forEachPoint(sizes, [&](const std::vector<int64_t>& p) { wrong += program.get(out, p) != 2 * expected[i++]; });
  EXPECT_EQ(wrong, 0u);
}

TEST(Bundle, RunsAChainOfProductsStageByStage) {
  expectChain(0, 1, {}, false);
  expectChain(0, 3, {}, false);          // A shorter last slice.
  expectChain(1, 16, {1, 0, 2}, false);  // Cut along rows, which are the slowest in memory.
}

TEST(Bundle, RunsAChainSliceBySliceWhereTilesDoNotLieOneBehindTheOther) {
  expectChain(1, 16, {}, true);
}

}  // namespace
}  // namespace hpu::sim::testing
