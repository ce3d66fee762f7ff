// SPDX-License-Identifier: Apache-2.0
// Launches of one recipe with many sizes: products and copies of hand-made programs, against numbers computed on the
// host and against the program written for the sizes.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <thread>

#include "DynamicSample.h"
#include "Gate.h"
#include "LaunchFixture.h"
#include "base/Cpus.h"
#include "base/Settings.h"
#include "base/StatusMacros.h"
#include "hpu/capture.h"
#include "hpu/trace.h"
#include "recipe/RecipeVerifier.h"
#include "recipe/Variants.h"
#include "runtime/executable/InstanceCache.h"
#include "runtime/trace/Reader.h"

namespace hpu {
namespace {

using recipe::Program;
using recipe::testing::DynamicBuilder;
using recipe::testing::Num;
using ::testing::HasSubstr;

constexpr int64_t kWidth = 16;
constexpr int64_t kMaxSeq = 300;
constexpr float kWeight = 0.5f;

/// x [batch, 16], z [seq, 16]: s = x W z^T, through the workspace, and y = s z. All elements of W are `weight`.
std::shared_ptr<const Program> attention(int64_t batch = 2, int64_t seq = 4, float weight = kWeight,
                                         bool seqIsFixed = false) {
  DynamicBuilder b;
  const Num rows = b.symbol("batch", 0, 8, batch);
  const Num columns = seqIsFixed ? b.number(seq) : b.symbol("seq", 1, kMaxSeq, seq);
  const Num width = b.number(kWidth);
  const DynamicBuilder::View x = b.input("x", {rows, width}), z = b.input("z", {columns, width});
  const DynamicBuilder::View weights = b.constant({kWidth, kWidth});
  const DynamicBuilder::View hidden = b.workspace({rows, width}), scores = b.workspace({rows, columns});
  const DynamicBuilder::View s = b.output("s", {rows, columns}), y = b.output("y", {rows, width});
  b.unit({{b.gemm("project", x, weights, hidden)}});
  b.unit({{b.gemm("scores", hidden, b.transposed(z), scores)}});
  b.unit({{b.copy("keep", scores, s)}});
  b.unit({{b.gemm("sum", scores, z, y)}});
  Program program = b.finish();
  auto values = std::make_shared<std::vector<float>>(kWidth * kWidth, weight);
  program.constants[0].data = reinterpret_cast<const uint8_t*>(values->data());
  program.constants[0].owner = values;
  return std::make_shared<const Program>(std::move(program));
}

/// The program for some sizes as a compiler for fixed sizes would make it.
std::shared_ptr<const Program> fixedAttention(int64_t batch, int64_t seq, float weight = kWeight) {
  Program program = *attention(batch, seq, weight);
  program.dynamic = nullptr;
  return std::make_shared<const Program>(std::move(program));
}

std::vector<Shape> shapesFor(int64_t batch, int64_t seq) {
  return {{batch, kWidth}, {seq, kWidth}};
}

std::vector<float> numbers(int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = static_cast<float>(static_cast<int>(random() % 7) - 3);
  return values;
}

/// Buffers for the largest sizes, and what is in them.
class Launcher {
 public:
  Launcher(Device& device, Executable executable)
      : executable_(std::move(executable)), stream_(Stream::create(device).value()) {
    for (int64_t count : {8 * kWidth, kMaxSeq * kWidth}) inputs_.push_back(device.allocate(count * 4).value());
    for (int64_t count : {8 * kMaxSeq, 8 * kWidth}) outputs_.push_back(device.allocate(count * 4).value());
  }

  /// s, then y. `byAddress`: with LaunchArguments.
  StatusOr<std::vector<float>> run(int64_t batch, int64_t seq, unsigned seed, bool byAddress = false,
                                   bool giveShapes = true) {
    const std::vector<float> x = numbers(batch * kWidth, seed), z = numbers(seq * kWidth, seed + 1);
    HPU_RETURN_IF_ERROR(stream_.fill(outputs_[0], 0xff, outputs_[0].size()));
    if (batch > 0) HPU_RETURN_IF_ERROR(stream_.copyToDevice(inputs_[0], x.data(), batch * kWidth * 4));
    HPU_RETURN_IF_ERROR(stream_.copyToDevice(inputs_[1], z.data(), seq * kWidth * 4));
    const std::vector<Shape> shapes = giveShapes ? shapesFor(batch, seq) : std::vector<Shape>();
    if (byAddress) {
      LaunchArguments arguments;
      for (const Buffer& buffer : inputs_) arguments.inputs.push_back(buffer.address());
      for (const Buffer& buffer : outputs_) arguments.outputs.push_back(buffer.address());
      arguments.inputShapes = shapes;
      HPU_RETURN_IF_ERROR(executable_.launch(stream_, arguments));
    } else {
      HPU_RETURN_IF_ERROR(executable_.launch(stream_, inputs_, outputs_, shapes));
    }
    std::vector<float> result(static_cast<size_t>(batch * seq + batch * kWidth));
    if (batch > 0) {
      HPU_RETURN_IF_ERROR(stream_.copyToHost(result.data(), outputs_[0], batch * seq * 4));
      HPU_RETURN_IF_ERROR(stream_.copyToHost(result.data() + batch * seq, outputs_[1], batch * kWidth * 4));
    }
    HPU_RETURN_IF_ERROR(stream_.synchronize());
    return result;
  }

  Stream& stream() { return stream_; }
  std::vector<Buffer>& inputs() { return inputs_; }
  std::vector<Buffer>& outputs() { return outputs_; }

 private:
  Executable executable_;
  Stream stream_;
  std::vector<Buffer> inputs_, outputs_;
};

/// On the host; all sums are exact.
void expectAttention(const std::vector<float>& result, int64_t batch, int64_t seq, unsigned seed) {
  const std::vector<float> x = numbers(batch * kWidth, seed), z = numbers(seq * kWidth, seed + 1);
  ASSERT_EQ(result.size(), static_cast<size_t>(batch * seq + batch * kWidth));
  for (int64_t b = 0; b < batch; ++b) {
    float sum = 0;
    for (int64_t k = 0; k < kWidth; ++k) sum += x[static_cast<size_t>(b * kWidth + k)];
    std::vector<float> y(kWidth, 0);
    for (int64_t q = 0; q < seq; ++q) {
      const float* row = &z[static_cast<size_t>(q * kWidth)];
      float score = 0;
      for (int64_t k = 0; k < kWidth; ++k) score += sum * kWeight * row[k];
      ASSERT_EQ(result[static_cast<size_t>(b * seq + q)], score);
      for (size_t k = 0; k < y.size(); ++k) y[k] += score * row[k];
    }
    for (size_t k = 0; k < y.size(); ++k) ASSERT_EQ(result[static_cast<size_t>(batch * seq + b * kWidth) + k], y[k]);
  }
}

class DynamicLaunch : public testing::LaunchFixture {
 protected:
  void SetUp() override {
    LaunchFixture::SetUp();
    program = attention();
    ASSERT_TRUE(recipe::verifyProgram(*program).ok());
    executable = Executable::load(device, Recipe(program)).value();
  }
  std::shared_ptr<const Program> program;
  Executable executable;
};

TEST_F(DynamicLaunch, TheRecipeSaysWhatIsFree) {
  const Recipe& recipe = executable.recipe();
  ASSERT_EQ(recipe.dims().size(), 2u);
  EXPECT_EQ(recipe.dims()[1].name, "seq");
  EXPECT_EQ(recipe.dims()[1].bounds.min, 1);
  EXPECT_EQ(recipe.dims()[1].bounds.max, kMaxSeq);
  EXPECT_EQ(recipe.inputs()[0].type.shape, (Shape{kDynamic, kWidth}));
  EXPECT_EQ(recipe.outputs()[0].type.shape, (Shape{kDynamic, kDynamic}));
  EXPECT_EQ(recipe.inputText(1), "[seq, 16]");
  EXPECT_EQ(recipe.outputText(0), "[batch, seq]");
  EXPECT_EQ(recipe.outputText(2), "");
  // Through another handle of the same program, too; the program inside has its representatives.
  EXPECT_EQ(Recipe(recipe.program()).inputs()[0].type.shape, (Shape{kDynamic, kWidth}));
  EXPECT_EQ(recipe.program()->inputs[0].type.shape, (Shape{2, kWidth}));
  const Recipe fixed(fixedAttention(3, 5));
  EXPECT_TRUE(fixed.dims().empty());
  EXPECT_EQ(fixed.inputs()[0].type.shape, (Shape{3, kWidth}));
  EXPECT_EQ(fixed.inputText(0), "[3, 16]");
}

TEST_F(DynamicLaunch, ShapesFollowFromNamedSizes) {
  const Recipe& recipe = executable.recipe();
  EXPECT_EQ(recipe.inputShapes({{"batch", 3}, {"seq", 7}}).value(), shapesFor(3, 7));
  EXPECT_EQ(recipe.inputShapes({{"batch", 3}}).status().message(),
            "dimension 'seq' has no size; give one between 1 and 300");
  EXPECT_EQ(recipe.inputShapes({{"batch", 3}, {"seq", 301}}).status().message(),
            "dimension 'seq' is 301, outside of its bounds 1 to 300");
  EXPECT_THAT(recipe.inputShapes({{"batch", 3}, {"seq", 3}, {"sqe", 3}}).status().message(),
              HasSubstr("has no free dimension 'sqe'; it has batch, seq"));
}

TEST_F(DynamicLaunch, AnySizesInAnyOrderGiveTheNumbersOfTheFixedProgram) {
  Launcher launcher(device, executable);
  std::mt19937 random(3);
  for (int i = 0; i < 60; ++i) {
    const int64_t batch = static_cast<int64_t>(random() % 9), seq = 1 + static_cast<int64_t>(random() % kMaxSeq);
    SCOPED_TRACE("batch " + std::to_string(batch) + ", seq " + std::to_string(seq));
    const auto seed = static_cast<unsigned>(i);
    auto result = launcher.run(batch, seq, seed, i % 2 == 0);
    ASSERT_TRUE(result.ok()) << result.status().message();
    ASSERT_NO_FATAL_FAILURE(expectAttention(*result, batch, seq, seed));
    if (batch == 0) continue;  // No program without any points is written by hand.
    Launcher fixed(device, Executable::load(device, Recipe(fixedAttention(batch, seq))).value());
    EXPECT_EQ(*result, fixed.run(batch, seq, seed, false, false).value());
  }
}

TEST_F(DynamicLaunch, ThreadsLaunchDifferentSizes) {
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      Launcher launcher(device, executable);
      std::mt19937 random(t);
      for (unsigned i = 0; i < 40; ++i) {
        const int64_t batch = 1 + static_cast<int64_t>(random() % 8), seq = 1 + static_cast<int64_t>(random() % 40);
        auto result = launcher.run(batch, seq, i, t % 2 == 0);
        if (!result.ok()) {
          ++wrong;
          continue;
        }
        expectAttention(*result, batch, seq, i);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(DynamicLaunch, WrongShapesAreRefusedAndNothingIsLaunched) {
  Launcher launcher(device, executable);
  const int64_t before = device.counters().launches;
  auto message = [&](const std::vector<Shape>& shapes) {
    Status status = executable.launch(launcher.stream(), launcher.inputs(), launcher.outputs(), shapes);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(executable.outputs(shapes).status().code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(executable.workspaceBytes(shapes).status().code(), StatusCode::kInvalidArgument);
    return status.message();
  };
  EXPECT_EQ(message({}), "recipe '" + program->name +
                             "' has free dimensions (batch, seq): a launch gives the shapes of its 2 inputs");
  EXPECT_EQ(message({{2, kWidth}}), "the launch has 1 inputs, the recipe needs 2");
  EXPECT_EQ(message(shapesFor(2, 301)),
            "dimension 'seq' is 301 by input 'z' (dimension 0), outside of its bounds 1 to 300");
  EXPECT_EQ(message({{2, 17}, {4, kWidth}}), "input 'x' has size 17 in dimension 1, the recipe needs 16");
  EXPECT_EQ(message({{2, kWidth, 1}, {4, kWidth}}),
            "input 'x' has the shape 2x16x1 of rank 3, the recipe needs rank 2");
  ASSERT_TRUE(launcher.stream().synchronize().ok());
  EXPECT_EQ(device.counters().launches, before);
}

/// x [seq, 64] behind the rows of a state, and y, all rows: launch by launch, with more rows each time.
TEST_F(DynamicLaunch, LaunchesOfAllSizesChangeAStateInPlace) {
  const Recipe recipe(std::make_shared<const Program>(recipe::testing::statesSample()));
  ASSERT_EQ(recipe.states().size(), 1u);
  const StateInfo state = recipe.states()[0];
  EXPECT_EQ(state.input, 1u);
  EXPECT_EQ(state.output, 0u);
  EXPECT_EQ(state.capacity.toString(), "24x64xf32");
  auto executable = Executable::load(device, recipe);
  ASSERT_TRUE(executable.ok()) << executable.status().message();
  auto stream = Stream::create(device).value();
  const Buffer x = device.allocate(16 * 64 * 4).value(), cache = device.allocate(state.capacity.bytes()).value();
  const Buffer y = device.allocate(24 * 64 * 4).value();
  ASSERT_TRUE(stream.fill(cache, 0xff, cache.size()).ok());
  std::vector<float> rows;
  for (int64_t seq : {5, 1, 2, 16}) {
    const auto past = static_cast<int64_t>(rows.size() / 64);
    const std::vector<float> more = numbers(seq * 64, static_cast<unsigned>(past));
    rows.insert(rows.end(), more.begin(), more.end());
    ASSERT_TRUE(stream.copyToDevice(x, more.data(), seq * 64 * 4).ok());
    Status launched = executable->launch(stream, {x, cache}, {cache, y}, {{seq, 64}, {past, 64}});
    ASSERT_TRUE(launched.ok()) << launched.message();
    std::vector<float> seen(rows.size()), kept(rows.size());
    ASSERT_TRUE(stream.copyToHost(seen.data(), y, static_cast<int64_t>(seen.size() * 4)).ok());
    ASSERT_TRUE(stream.copyToHost(kept.data(), cache, static_cast<int64_t>(kept.size() * 4)).ok());
    ASSERT_TRUE(stream.synchronize().ok());
    EXPECT_EQ(seen, rows);
    EXPECT_EQ(kept, rows);
  }
  // Beyond the bounds, and memory that cannot be a state.
  auto refusal = [&](const std::vector<Buffer>& inputs, const std::vector<Buffer>& outputs, int64_t past) {
    Status status = executable->launch(stream, inputs, outputs, {{1, 64}, {past, 64}});
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return status.message();
  };
  EXPECT_THAT(refusal({x, cache}, {cache, y}, 9), HasSubstr("dimension 'past' is 9"));
  const Buffer other = device.allocate(state.capacity.bytes()).value(), small = device.allocate(23 * 64 * 4).value();
  EXPECT_THAT(refusal({x, cache}, {other, y}, 2), HasSubstr("give both the same memory"));
  EXPECT_THAT(refusal({x, small}, {small, y}, 2), HasSubstr("needs 6144 bytes"));
  EXPECT_THAT(refusal({cache, cache}, {cache, y}, 2), HasSubstr("lies over another input"));
  EXPECT_THAT(refusal({x, cache}, {cache, cache}, 2), HasSubstr("use the same memory"));
}

/// Rows and columns that there are, and what the sizes must not say.
TEST_F(DynamicLaunch, TheLastOutputSaysSizesThatDependOnData) {
  const Recipe recipe(std::make_shared<const Program>(recipe::testing::dataSizesSample()));
  ASSERT_EQ(recipe.dataSizes().size(), 2u);
  EXPECT_EQ(recipe.dataSizes()[0].output, 0u);
  EXPECT_EQ(recipe.dataSizes()[0].dim, 0u);
  EXPECT_EQ(recipe.dataSizes()[0].element, 1u);
  auto executable = Executable::load(device, recipe);
  ASSERT_TRUE(executable.ok()) << executable.status().message();
  auto stream = Stream::create(device).value();
  const Buffer x = device.allocate(16 * 64 * 4).value(), counts = device.allocate(16).value();
  const Buffer y = device.allocate(16 * 64 * 4).value(), sizes = device.allocate(16).value();
  const std::vector<TensorInfo> outputs = executable->outputs({{7, 64}, {2}}).value();
  auto found = [&](std::vector<int64_t> columnsAndRows) {
    std::vector<int64_t> read(2);
    EXPECT_TRUE(stream.copyToDevice(counts, columnsAndRows.data(), 16).ok());
    Status launched = executable->launch(stream, {x, counts}, {y, sizes}, {{7, 64}, {2}});
    EXPECT_TRUE(launched.ok()) << launched.message();
    EXPECT_TRUE(stream.copyToHost(read.data(), sizes, 16).ok());
    EXPECT_TRUE(stream.synchronize().ok());
    return recipe.trueOutputs(outputs, read.data(), read.size());
  };
  for (const std::vector<int64_t>& some : {std::vector<int64_t>{64, 7}, {0, 0}, {3, 5}}) {
    auto types = found(some);
    ASSERT_TRUE(types.ok()) << types.status().message();
    ASSERT_EQ(types->size(), 1u);
    EXPECT_EQ((*types)[0].type.shape, (Shape{some[1], some[0]}));
  }
  EXPECT_EQ(found({3, 8}).status().code(), StatusCode::kOutOfRange);
  EXPECT_THAT(found({-1, 2}).status().message(), HasSubstr("dimension 1 of output 'y' has 64 elements at most, and its "
                                                           "size is -1"));
  const int64_t one = 1;
  EXPECT_EQ(recipe.trueOutputs(outputs, &one, 1).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(recipe.trueOutputs({outputs[0]}, &one, 1).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(DynamicLaunch, BuffersMustHaveRoomForTheSizesOfTheLaunch) {
  std::vector<Buffer> inputs = {vector(2 * kWidth), vector(4 * kWidth)}, outputs = {vector(2 * 4), vector(2 * kWidth)};
  EXPECT_TRUE(executable.launch(stream, inputs, outputs, shapesFor(2, 4)).ok());
  Status status = executable.launch(stream, inputs, outputs, shapesFor(2, 5));
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "input 1: 'z' is 5x16xf32 and needs 320 bytes; its buffer has 256");
  EXPECT_TRUE(stream.synchronize().ok());
}

TEST_F(DynamicLaunch, FixedRecipesTakeTheirOwnShapesOrNone) {
  Executable fixed = Executable::load(device, Recipe(fixedAttention(3, 5))).value();
  Launcher launcher(device, fixed);
  for (const std::vector<Shape>& shapes : {std::vector<Shape>(), shapesFor(3, 5)}) {
    EXPECT_TRUE(fixed.launch(launcher.stream(), launcher.inputs(), launcher.outputs(), shapes).ok());
    EXPECT_EQ(fixed.outputs(shapes).value()[0].type.shape, (Shape{3, 5}));
    EXPECT_EQ(fixed.workspaceBytes(shapes).value(), fixed.workspaceBytes());
  }
  EXPECT_EQ(fixed.launch(launcher.stream(), launcher.inputs(), launcher.outputs(), shapesFor(3, 6)).message(),
            "input 'z' has size 6 in dimension 0, the recipe needs 5");
  EXPECT_TRUE(launcher.stream().synchronize().ok());
}

TEST_F(DynamicLaunch, OutputsAndWorkspaceFollowFromTheShapes) {
  auto outputs = executable.outputs(shapesFor(3, 7));
  ASSERT_TRUE(outputs.ok());
  EXPECT_EQ((*outputs)[0].name, "s");
  EXPECT_EQ((*outputs)[0].type.shape, (Shape{3, 7}));
  EXPECT_EQ((*outputs)[1].type.shape, (Shape{3, kWidth}));
  EXPECT_EQ(executable.outputs(shapesFor(0, 7)).value()[0].type.bytes(), 0);
  EXPECT_EQ(executable.workspaceBytes(), 0);
  const int64_t small = executable.workspaceBytes(shapesFor(1, 4)).value();
  const int64_t large = executable.workspaceBytes(shapesFor(8, kMaxSeq)).value();
  EXPECT_GE(small, (kWidth + 4) * 4);
  EXPECT_GE(large, 8 * kMaxSeq * 4);
  Launcher launcher(device, executable);
  ASSERT_TRUE(launcher.run(8, kMaxSeq, 1).ok());
  EXPECT_EQ(executable.workspaceBytes(), large);
  ASSERT_TRUE(launcher.run(1, 4, 1).ok());
  EXPECT_EQ(executable.workspaceBytes(), large);
}

TEST_F(DynamicLaunch, WithoutAReservedWorkspaceTheLaunchBringsIt) {
  LoadOptions options;
  options.reserveWorkspace = false;
  Executable bare = Executable::load(device, Recipe(program), options).value();
  Launcher launcher(device, executable);
  EXPECT_THAT(bare.launch(launcher.stream(), launcher.inputs(), launcher.outputs(), shapesFor(2, 9)).message(),
              HasSubstr("was loaded without a workspace and needs one of"));
  const auto expected = launcher.run(2, 9, 5);
  ASSERT_TRUE(expected.ok());
  LaunchArguments arguments;
  for (const Buffer& buffer : launcher.inputs()) arguments.inputs.push_back(buffer.address());
  for (const Buffer& buffer : launcher.outputs()) arguments.outputs.push_back(buffer.address());
  arguments.inputShapes = shapesFor(2, 9);
  const int64_t bytes = bare.workspaceBytes(arguments.inputShapes).value();
  Buffer workspace = device.allocate(bytes).value(), tooSmall = device.allocate(bytes - 256).value();
  arguments.workspace = tooSmall.address();
  ASSERT_TRUE(launcher.stream().fill(launcher.outputs()[1], 0, launcher.outputs()[1].size()).ok());
  EXPECT_EQ(bare.launch(launcher.stream(), arguments).code(), StatusCode::kOutOfRange);
  arguments.workspace = workspace.address();
  ASSERT_TRUE(bare.launch(launcher.stream(), arguments).ok());
  std::vector<float> y(2 * kWidth);
  ASSERT_TRUE(launcher.stream().copyToHost(y.data(), launcher.outputs()[1], 2 * kWidth * 4).ok());
  ASSERT_TRUE(launcher.stream().synchronize().ok());
  EXPECT_EQ(y, std::vector<float>(expected->begin() + 2 * 9, expected->end()));
}

TEST_F(DynamicLaunch, TheWorkspaceGrowsWhileALaunchUsesIt) {
  for (int round = 0; round < 3; ++round) {
    Executable fresh = Executable::load(device, Recipe(program)).value();
    Launcher small(device, fresh), large(device, fresh);
    const std::vector<float> x = numbers(2 * kWidth, 1), z = numbers(4 * kWidth, 2);
    ASSERT_TRUE(small.stream().copyToDevice(small.inputs()[0], x.data(), 2 * kWidth * 4).ok());
    ASSERT_TRUE(small.stream().copyToDevice(small.inputs()[1], z.data(), 4 * kWidth * 4).ok());
    testing::Gate gate;
    gate.hold(small.stream());
    ASSERT_TRUE(fresh.launch(small.stream(), small.inputs(), small.outputs(), shapesFor(2, 4)).ok());
    const int64_t before = fresh.workspaceBytes();
    // On another stream, behind the one that is held.
    ASSERT_TRUE(fresh.launch(large.stream(), large.inputs(), large.outputs(), shapesFor(8, kMaxSeq)).ok());
    EXPECT_GT(fresh.workspaceBytes(), before);
    gate.release();
    ASSERT_TRUE(large.stream().synchronize().ok());
    std::vector<float> result(2 * 4 + 2 * kWidth);
    ASSERT_TRUE(small.stream().copyToHost(result.data(), small.outputs()[0], 2 * 4 * 4).ok());
    ASSERT_TRUE(small.stream().copyToHost(result.data() + 8, small.outputs()[1], 2 * kWidth * 4).ok());
    ASSERT_TRUE(small.stream().synchronize().ok());
    ASSERT_NO_FATAL_FAILURE(expectAttention(result, 2, 4, 1));
  }
}

/// That a variant has run shows in its numbers: its weights are others, by which s and y are larger.
TEST_F(DynamicLaunch, AVariantRunsLaunchesOfItsSizes) {
  recipe::VariantLinker linker(*program);
  ASSERT_TRUE(linker.add({{"seq", 32}}, *attention(2, 32, 2 * kWeight, true)).ok());
  ASSERT_TRUE(linker.add({{"batch", 3}, {"seq", 32}}, *fixedAttention(3, 32, 4 * kWeight)).ok());
  const std::shared_ptr<const Program> linked = linker.finish();
  ASSERT_TRUE(recipe::verifyProgram(*linked).ok()) << recipe::verifyProgram(*linked).message();
  Launcher plain(device, executable), launcher(device, Executable::load(device, Recipe(linked)).value());
  struct Case {
    int64_t batch, seq;
    float factor;
  };
  for (const Case& each :
       {Case{3, 31, 1}, Case{3, 32, 4}, Case{5, 32, 2}, Case{2, 33, 1}, Case{3, 32, 4}, Case{0, 32, 2}})
    for (bool byAddress : {false, true}) {
      SCOPED_TRACE("batch " + std::to_string(each.batch) + ", seq " + std::to_string(each.seq));
      auto result = launcher.run(each.batch, each.seq, 3, byAddress), expected = plain.run(each.batch, each.seq, 3);
      ASSERT_TRUE(result.ok()) << result.status().message();
      for (float& value : *expected) value *= each.factor;
      EXPECT_EQ(*result, *expected);
    }
}

TEST_F(DynamicLaunch, CapturesKeepTheirSizes) {
  Launcher launcher(device, executable);
  const auto expected = launcher.run(3, 11, 7);
  ASSERT_TRUE(expected.ok());
  CaptureSession session = CaptureSession::begin(launcher.stream()).value();
  ASSERT_TRUE(executable.launch(launcher.stream(), launcher.inputs(), launcher.outputs(), shapesFor(3, 11)).ok());
  CapturedGraph graph = session.end().value();
  GraphInstance replayed = graph.instantiate().value();
  // Others take the cache's places, and a larger workspace.
  Launcher other(device, executable);
  for (int64_t seq = 1; seq <= static_cast<int64_t>(InstanceCache::kMost) + 2; ++seq)
    ASSERT_TRUE(other.run(1, seq, 1).ok());
  ASSERT_TRUE(other.run(8, kMaxSeq, 1).ok());
  ASSERT_TRUE(launcher.stream().fill(launcher.outputs()[0], 0, launcher.outputs()[0].size()).ok());
  ASSERT_TRUE(launcher.stream().fill(launcher.outputs()[1], 0, launcher.outputs()[1].size()).ok());
  ASSERT_TRUE(replayed.replay(launcher.stream()).ok());
  std::vector<float> result(3 * 11 + 3 * kWidth);
  ASSERT_TRUE(launcher.stream().copyToHost(result.data(), launcher.outputs()[0], 3 * 11 * 4).ok());
  ASSERT_TRUE(launcher.stream().copyToHost(result.data() + 33, launcher.outputs()[1], 3 * kWidth * 4).ok());
  ASSERT_TRUE(launcher.stream().synchronize().ok());
  EXPECT_EQ(result, *expected);
}

/// What a recorded trace has, by name and, of spans of the host, sizes.
struct Traced {
  std::map<std::string, int> spans, launches;
};

Traced stopTrace() {
  const std::string path = ::testing::TempDir() + "/DynamicLaunch." + std::to_string(getpid()) + ".hputrace";
  Traced found;
  EXPECT_TRUE(trace::stop(path).ok());
  auto trace = trace::readTraceFile(path);
  std::filesystem::remove(path);
  EXPECT_TRUE(trace.ok()) << trace.status().message();
  if (!trace.ok()) return found;
  for (const trace::HostThread& thread : trace->threads)
    for (const trace::HostEvent& event : thread.events) {
      std::string text(trace->text(event.name));
      for (uint32_t a = 0; a < event.numArgs; ++a) {
        const trace::HostArg& arg = thread.args[event.firstArg + a];
        text += " " + std::string(trace->text(arg.key)) + "=" + std::to_string(arg.value);
      }
      ++found.spans[text];
    }
  for (const trace::TracedDevice& traced : trace->devices)
    for (const trace::LaunchEvent& launch : traced.launches) ++found.launches[std::string(trace->text(launch.label))];
  return found;
}

/// The host's spans have the sizes as numbers, the device's launches in their labels.
TEST_F(DynamicLaunch, TracesNameTheSizes) {
  Launcher launcher(device, executable);
  ASSERT_TRUE(trace::start().ok());
  ASSERT_TRUE(launcher.run(2, 100, 1).ok());
  ASSERT_TRUE(launcher.run(2, 100, 1).ok());
  ASSERT_TRUE(launcher.run(3, 7, 1).ok());
  Traced found = stopTrace();
  EXPECT_EQ(found.spans["instantiate " + program->name + " batch=2 seq=100"], 1);
  EXPECT_EQ(found.spans["instantiate " + program->name + " batch=3 seq=7"], 1);
  EXPECT_EQ(found.spans["Executable.launch batch=2 seq=100"], 2);
  EXPECT_EQ(found.spans["Executable.launch batch=3 seq=7"], 1);
  EXPECT_EQ(found.launches[program->name + " (batch = 2, seq = 100)"], 2);
  EXPECT_EQ(found.launches[program->name + " (batch = 3, seq = 7)"], 1);
}

TEST_F(DynamicLaunch, ASequenceThatGrowsHasItsBucketsPlannedAhead) {
  if (base::allowedCpus() < 2) GTEST_SKIP() << "one CPU makes nothing ahead";
  // How many buckets were planned ahead while a sequence went through several; each result is right.
  auto plannedAhead = [&](Executable fresh) {
    Launcher launcher(device, std::move(fresh));
    EXPECT_TRUE(trace::start().ok());
    for (int64_t seq = 20; seq < 130; ++seq) {
      const auto result = launcher.run(2, seq, 3);
      EXPECT_TRUE(result.ok());
      if (result.ok()) expectAttention(*result, 2, seq, 3);
    }
    int count = 0;
    for (const auto& [text, times] : stopTrace().spans)
      if (text.starts_with("plan ahead " + program->name + " batch=2 seq=")) count += times;
    return count;
  };
  ASSERT_TRUE(settings::set(Setting::HPU_PREPARE_AHEAD, "0").ok());
  EXPECT_EQ(plannedAhead(Executable::load(device, Recipe(program)).value()), 0);
  ASSERT_TRUE(settings::set(Setting::HPU_PREPARE_AHEAD, "").ok());
  // On a busy machine the thread may have no time before the sequence is over.
  int count = 0;
  for (int attempt = 0; attempt < 200 && count < 3; ++attempt)
    count = plannedAhead(Executable::load(device, Recipe(program)).value());
  EXPECT_GE(count, 3);
}

TEST_F(DynamicLaunch, AnExecutableMayEndWhileABucketIsPlannedForIt) {
  for (int64_t round = 0; round < 60; ++round) {
    Launcher launcher(device, Executable::load(device, Recipe(program)).value());
    for (int64_t seq = 100 + round; seq < 105 + round; ++seq) ASSERT_TRUE(launcher.run(2, seq, 1).ok());
  }
}

TEST_F(DynamicLaunch, InstancesUsedLastAreKept) {
  InstanceCache cache(device.state(), Instance::load(device.state(), program).value(), program);
  const auto first = cache.get(shapesFor(1, 1)).value();
  const std::weak_ptr<Instance> second = cache.get(shapesFor(1, 2)).value();
  // Used at two times, as all that follow.
  EXPECT_EQ(cache.get(shapesFor(1, 1)).value(), first);
  ASSERT_FALSE(cache.get(shapesFor(1, 2)).value() == first);
  const auto most = static_cast<int64_t>(InstanceCache::kMost);
  for (int64_t seq = 3; seq <= most; ++seq)
    for (int64_t used : {seq, int64_t{1}, seq}) ASSERT_TRUE(cache.get(shapesFor(1, used)).ok());
  EXPECT_FALSE(second.expired());
  EXPECT_EQ(cache.get(shapesFor(1, 1)).value(), first);
  ASSERT_TRUE(cache.get(shapesFor(1, most + 1)).ok());
  EXPECT_TRUE(second.expired());
  EXPECT_EQ(cache.get(shapesFor(1, 1)).value(), first);
}

/// A sequence that grows asks for each size once, and leaves what is used again where it is.
TEST_F(DynamicLaunch, InstancesUsedOnceTakeFewPlaces) {
  InstanceCache cache(device.state(), Instance::load(device.state(), program).value(), program);
  const auto kept = cache.get(shapesFor(1, 1)).value();
  ASSERT_TRUE(cache.get(shapesFor(1, 20)).ok());
  EXPECT_EQ(cache.get(shapesFor(1, 1)).value(), kept);
  std::vector<std::weak_ptr<Instance>> once;
  const auto most = static_cast<int64_t>(InstanceCache::kMostNew);
  for (int64_t seq = 2; seq <= most + 3; ++seq) {
    once.push_back(cache.get(shapesFor(1, seq)).value());
    ASSERT_EQ(cache.get(shapesFor(1, seq)).value(), once.back().lock()) << "its workspace was asked for before";
  }
  EXPECT_TRUE(once[0].expired() && once[1].expired());
  for (size_t i = 2; i < once.size(); ++i) EXPECT_FALSE(once[i].expired()) << i;
  EXPECT_EQ(cache.get(shapesFor(1, 1)).value(), kept);
  // Sizes that come again stay longer.
  const std::weak_ptr<Instance> again = cache.get(shapesFor(1, 2)).value();
  for (int64_t seq = 30; seq < 30 + 2 * most; ++seq) ASSERT_TRUE(cache.get(shapesFor(1, seq)).ok());
  EXPECT_FALSE(again.expired());
}

TEST_F(DynamicLaunch, OutputsOverInputsAreStagedForTheirSizes) {
  // y over x: it is as large.
  Launcher plain(device, executable);
  for (int64_t batch : {1, 8, 3}) {
    const auto expected = plain.run(batch, 9, 4);
    ASSERT_TRUE(expected.ok());
    const std::vector<float> x = numbers(batch * kWidth, 4), z = numbers(9 * kWidth, 5);
    ASSERT_TRUE(plain.stream().copyToDevice(plain.inputs()[0], x.data(), batch * kWidth * 4).ok());
    ASSERT_TRUE(plain.stream().copyToDevice(plain.inputs()[1], z.data(), 9 * kWidth * 4).ok());
    ASSERT_TRUE(
        executable.launch(plain.stream(), plain.inputs(), {plain.outputs()[0], plain.inputs()[0]}, shapesFor(batch, 9))
            .ok());
    std::vector<float> y(static_cast<size_t>(batch * kWidth));
    ASSERT_TRUE(plain.stream().copyToHost(y.data(), plain.inputs()[0], batch * kWidth * 4).ok());
    ASSERT_TRUE(plain.stream().synchronize().ok());
    EXPECT_EQ(y, std::vector<float>(expected->begin() + batch * 9, expected->end()));
  }
}

}  // namespace
}  // namespace hpu
