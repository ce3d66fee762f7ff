// SPDX-License-Identifier: Apache-2.0
// Instances of a program of free dimensions are executed, with kernels that take their sizes from HpuKernelArgs::dims,
// and compared with a reference that knows the sizes only.
#include <gtest/gtest.h>

#include <algorithm>

#include "DynamicSample.h"
#include "Reference.h"
#include "plan/Instantiate.h"

namespace hpu::sim::testing {
namespace {

using Matrix = std::vector<std::vector<float>>;

constexpr int64_t kWidth = 64;

const float* row(const void* buffer, int64_t at, int64_t stride) {
  return static_cast<const float*>(buffer) + at * stride;
}

/// [seq, 64]; dims: seq.
void relu(const HpuKernelArgs* args) {
  ASSERT_LE(args->hi[0], args->dims[0]);
  for (int64_t i = args->lo[0]; i < args->hi[0]; ++i)
    for (int64_t j = args->lo[1]; j < args->hi[1]; ++j)
      static_cast<float*>(args->buffers[1])[i * kWidth + j] = std::max(row(args->buffers[0], i, kWidth)[j], 0.0f);
}

/// Of each row its first element is taken away: sums of whole numbers, as a softmax' are not. dims: seq, keys.
void centre(const HpuKernelArgs* args) {
  const int64_t keys = args->dims[1];
  for (int64_t i = args->lo[0]; i < args->hi[0]; ++i) {
    const float* from = row(args->buffers[0], i, keys);
    for (int64_t j = 0; j < keys; ++j) static_cast<float*>(args->buffers[1])[i * keys + j] = from[j] - from[0];
  }
}

/// [past, 64] and [seq, 64], one behind the other. dims: past, seq.
void join(const HpuKernelArgs* args) {
  const int64_t past = args->dims[0];
  for (int64_t i = args->lo[0]; i < args->hi[0]; ++i)
    for (int64_t j = args->lo[1]; j < args->hi[1]; ++j)
      static_cast<float*>(args->buffers[2])[i * kWidth + j] =
          i < past ? row(args->buffers[0], i, kWidth)[j] : row(args->buffers[1], i - past, kWidth)[j];
}

Matrix randomMatrix(Random& random, int64_t rows, int64_t columns, int64_t most) {
  Matrix matrix(static_cast<size_t>(rows), std::vector<float>(static_cast<size_t>(columns)));
  for (auto& values : matrix)
    for (float& value : values) value = static_cast<float>(pick(random, -most, most));
  return matrix;
}

Matrix times(const Matrix& a, const Matrix& b, size_t columns) {
  Matrix c(a.size(), std::vector<float>(columns));
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t k = 0; k < b.size(); ++k)
      for (size_t j = 0; j < columns; ++j) c[i][j] += a[i][k] * b[k][j];
  return c;
}

std::vector<float> flat(const Matrix& matrix) {
  std::vector<float> values;
  for (const auto& part : matrix) values.insert(values.end(), part.begin(), part.end());
  return values;
}

/// Runs an instance on random inputs; its outputs are those that the model means. `like`: an executor of the same
/// program, or null. The executor is left in `made`.
void expectRightNumbers(const recipe::Program& instance, int64_t past, int64_t seq, Random& random,
                        const ProgramExecutor* like = nullptr, std::unique_ptr<ProgramExecutor>* made = nullptr) {
  const Matrix x = randomMatrix(random, seq, kWidth, 2), cache = randomMatrix(random, past, kWidth, 2);
  const Matrix w = randomMatrix(random, kWidth, kWidth, 1);
  std::vector<std::vector<std::byte>> memory;
  for (const recipe::Section& section : instance.sections) memory.emplace_back(section.bytes + 64, std::byte{0x7f});
  std::vector<std::byte*> bases;
  for (size_t s = 0; s < memory.size(); ++s) {
    const recipe::Section& section = instance.sections[s];
    auto fill = [&](const Matrix& matrix) {
      const std::vector<float> values = flat(matrix);
      ASSERT_LE(values.size() * 4, section.bytes);
      for (size_t i = 0; i < values.size(); ++i) reinterpret_cast<float*>(memory[s].data())[i] = values[i];
    };
    if (section.kind == recipe::SectionKind::kInput && section.binding == 0) fill(x);
    if (section.kind == recipe::SectionKind::kInput && section.binding == 1) fill(cache);
    if (section.kind == recipe::SectionKind::kConst) fill(w);
    bases.push_back(section.kind == recipe::SectionKind::kSram ? nullptr : memory[s].data());
  }
  const auto own = std::make_shared<recipe::Program>(instance);
  auto executor = like ? ProgramExecutor::create(own, {2}, *like)
                       : ProgramExecutor::create(own, {2}, KernelCode::fromFunctions({relu, centre, join}));
  ASSERT_TRUE(executor.ok()) << executor.status().message();
  Status status = (*executor)->run(bases);
  ASSERT_TRUE(status.ok()) << status.message();

  Matrix keys = times(x, w, kWidth);
  for (auto& values : keys)
    for (float& value : values) value = std::max(value, 0.0f);
  keys.insert(keys.begin(), cache.begin(), cache.end());
  Matrix transposed(kWidth, std::vector<float>(keys.size()));
  for (size_t i = 0; i < keys.size(); ++i)
    for (size_t j = 0; j < static_cast<size_t>(kWidth); ++j) transposed[j][i] = keys[i][j];
  Matrix probs = times(x, transposed, keys.size()), first = probs;
  for (auto& values : probs) {
    const float taken = values[0];
    for (float& value : values) value -= taken;
  }
  for (size_t i = 0; i < probs.size(); ++i) first[i].assign(probs[i].begin(), probs[i].begin() + past);
  Matrix joined = cache;
  joined.insert(joined.end(), x.begin(), x.end());
  const std::vector<std::vector<float>> expected = {flat(probs), flat(times(times(x, w, kWidth), w, kWidth)),
                                                    flat(joined), flat(times(first, cache, kWidth))};
  for (size_t s = 0; s < memory.size(); ++s) {
    const recipe::Section& section = instance.sections[s];
    if (section.kind != recipe::SectionKind::kOutput) continue;
    const auto* values = reinterpret_cast<const float*>(memory[s].data());
    const std::vector<float>& wanted = expected[section.binding];
    ASSERT_EQ(section.bytes, wanted.size() * 4);
    size_t wrong = 0;
    for (size_t i = 0; i < wanted.size(); ++i) wrong += values[i] != wanted[i];
    EXPECT_EQ(wrong, 0u) << "output " << instance.outputs[section.binding].name;
  }
  if (made) *made = std::move(*executor);
}

TEST(Instance, GivesTheNumbersOfItsSizes) {
  Random random(3);
  const auto program = std::make_shared<const recipe::Program>(recipe::testing::dynamicSample());
  arch::TargetDesc small = arch::targetDesc(Target::kGaudi2);
  plan::Instances instances(program, small);
  for (int64_t past : {0, 1, 5, 40})
    for (int64_t seq : {1, 3, 16, 17, 60, 100}) {
      SCOPED_TRACE("past " + std::to_string(past) + ", seq " + std::to_string(seq));
      // All SRAM, some, so that units are cut finer, and none.
      for (int64_t bytes : {arch::targetDesc(Target::kGaudi2).sramBytes, int64_t{4096}, int64_t{0}}) {
        small.sramBytes = bytes;
        auto instance = plan::instantiate(*program, {past, seq}, small);
        ASSERT_TRUE(instance.ok()) << instance.status().message();
        ASSERT_NO_FATAL_FAILURE(expectRightNumbers(**instance, past, seq, random));
        if (::testing::Test::HasFailure()) return;
      }
      small.sramBytes = arch::targetDesc(Target::kGaudi2).sramBytes;
      auto instance = instances.get({past, seq});
      ASSERT_TRUE(instance.ok()) << instance.status().message();
      ASSERT_NO_FATAL_FAILURE(expectRightNumbers(**instance, past, seq, random));
    }
  EXPECT_GT(instances.stats().reused, 0u);
}

TEST(Instance, SharesUnitsOfWhatStays) {
  Random random(5);
  const auto program = std::make_shared<const recipe::Program>(recipe::testing::dynamicSample());
  plan::Instances instances(program, arch::targetDesc(Target::kGaudi2));
  auto first = instances.get({64, 64});
  ASSERT_TRUE(first.ok());
  std::unique_ptr<ProgramExecutor> like, last;
  ASSERT_NO_FATAL_FAILURE(expectRightNumbers(**first, 64, 64, random, nullptr, &like));
  size_t shared = 0, all = 0;
  for (int64_t past : {60, 61, 62, 63, 64, 60, 40}) {
    SCOPED_TRACE("past " + std::to_string(past));
    auto instance = instances.get({past, 64});
    ASSERT_TRUE(instance.ok());
    std::unique_ptr<ProgramExecutor> executor;
    ASSERT_NO_FATAL_FAILURE(expectRightNumbers(**instance, past, 64, random, like.get(), &executor));
    for (const auto& unit : executor->units()) {
      ++all;
      shared += last && std::find(last->units().begin(), last->units().end(), unit) != last->units().end();
    }
    last = std::move(executor);
  }
  // What follows from seq alone; never all.
  EXPECT_GT(shared, 5u);
  EXPECT_LT(shared, all - 6);
}

}  // namespace
}  // namespace hpu::sim::testing
