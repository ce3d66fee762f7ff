// SPDX-License-Identifier: Apache-2.0
#include "hpu/executable.h"

#include <cstring>
#include <vector>

#include "LaunchFixture.h"
#include "hpu/event.h"

namespace hpu {
namespace {

using testing::constantProgram;
using testing::copyProgram;
using testing::delayProgram;
using testing::fillProgram;
using ::testing::HasSubstr;
using testing::toRecipe;

class ExecutableTest : public testing::LaunchFixture {};

TEST_F(ExecutableTest, RunsAProgram) {
  Executable copy = Executable::load(device, toRecipe(copyProgram(1000, 3))).value();
  EXPECT_EQ(copy.recipe().name(), "copy");
  Buffer in = upload(ramp(1000)), out = vector(1000);
  ASSERT_TRUE(copy.launch(stream, {in}, {out}).ok());
  EXPECT_EQ(download(out), ramp(1000));
  EXPECT_EQ(device.counters().launches, 1);
  EXPECT_EQ(device.counters().commands, 6);
  EXPECT_GT(device.counters().busyNs[static_cast<int>(Engine::kDma)], 0);
}

TEST_F(ExecutableTest, UploadsConstants) {
  Executable program = Executable::load(device, toRecipe(constantProgram({7, 8, 9}))).value();
  Buffer out = vector(3);
  ASSERT_TRUE(program.launch(stream, {}, {out}).ok());
  EXPECT_EQ(download(out), (std::vector<int32_t>{7, 8, 9}));
}

TEST_F(ExecutableTest, PersistentMemoryIsZeroAtFirstAndKeptBetweenLaunches) {
  // Memory that is not zero is what the state gets.
  {
    Buffer dirty = device.allocate(32 * kMiB).value();
    ASSERT_TRUE(stream.fill(dirty, 0xff, 32 * kMiB).ok());
    ASSERT_TRUE(stream.synchronize().ok());
  }
  Executable delay = Executable::load(device, toRecipe(delayProgram(10))).value();
  Buffer a = upload(ramp(10, 100)), b = upload(ramp(10, 200)), out = vector(10);
  ASSERT_TRUE(delay.launch(stream, {a}, {out}).ok());
  EXPECT_EQ(download(out), std::vector<int32_t>(10, 0));
  ASSERT_TRUE(delay.launch(stream, {b}, {out}).ok());
  EXPECT_EQ(download(out), ramp(10, 100));
  ASSERT_TRUE(delay.launch(stream, {a}, {out}).ok());
  EXPECT_EQ(download(out), ramp(10, 200));
}

TEST_F(ExecutableTest, LaunchesOnSeveralStreamsTakeTurnsWithTheWorkspace) {
  Executable copy = Executable::load(device, toRecipe(copyProgram(100000))).value();
  std::vector<Stream> streams;
  std::vector<Buffer> ins, outs;
  for (int s = 0; s < 4; ++s) {
    streams.push_back(Stream::create(device).value());
    ins.push_back(upload(ramp(100000, s * 1000)));
    outs.push_back(vector(100000));
  }
  for (int round = 0; round < 10; ++round)
    for (int s = 0; s < 4; ++s) ASSERT_TRUE(copy.launch(streams[s], {ins[s]}, {outs[s]}).ok());
  ASSERT_TRUE(device.synchronize().ok());
  for (int s = 0; s < 4; ++s) ASSERT_EQ(download(outs[s]), ramp(100000, s * 1000));
}

TEST_F(ExecutableTest, LaunchesTakeEqualDeviceTime) {
  Executable copy = Executable::load(device, toRecipe(copyProgram(100000, 4))).value();
  Buffer in = vector(100000), out = vector(100000);
  std::vector<Event> events(5);
  ASSERT_TRUE(stream.record(events[0]).ok());
  for (int i = 1; i < 5; ++i) {
    ASSERT_TRUE(copy.launch(stream, {in}, {out}).ok());
    ASSERT_TRUE(stream.record(events[i]).ok());
  }
  ASSERT_TRUE(stream.synchronize().ok());
  int64_t first = events[1].elapsedNsSince(events[0]).value();
  EXPECT_GT(first, 0);
  for (int i = 2; i < 5; ++i)
    EXPECT_NEAR(static_cast<double>(events[i].elapsedNsSince(events[i - 1]).value()), static_cast<double>(first), 1.0);
}

TEST_F(ExecutableTest, RecipeOfAnotherTargetNamesTheCommandThatMendsIt) {
  Recipe recipe = toRecipe(fillProgram(10, 1, Target::kGaudi1));
  Status status = Executable::load(device, recipe).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("compiled for gaudi1"));
  EXPECT_THAT(status.message(), HasSubstr("hpu::compileFile(MODEL, CompileOptions::target = gaudi2)"));
}

TEST_F(ExecutableTest, WrongBuffersAreRefusedByName) {
  Executable copy = Executable::load(device, toRecipe(copyProgram(1000))).value();
  Buffer in = vector(1000), out = vector(1000), small = vector(999);
  EXPECT_THAT(copy.launch(stream, {}, {out}).message(), HasSubstr("1 inputs, and 0 were given"));
  Status status = copy.launch(stream, {small}, {out});
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("input 0: 'in0' is 1000xi32 and needs 4000 bytes; its "
                                          "buffer has 3996"));
  EXPECT_THAT(copy.launch(stream, {in}, {Buffer()}).message(), HasSubstr("the buffer is empty"));
  DeviceOptions other;
  other.index = 1;
  other.hbmBytes = 16 * kMiB;
  Device second = Device::open(other).value();
  EXPECT_THAT(copy.launch(stream, {second.allocate(4000).value()}, {out}).message(), HasSubstr("belongs to device 1"));
  Stream foreign = Stream::create(second).value();
  EXPECT_EQ(copy.launch(foreign, {in}, {out}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(copy.launch(Stream(), {in}, {out}).code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(Executable().launch(stream, {in}, {out}).code(), StatusCode::kFailedPrecondition);
}

TEST_F(ExecutableTest, MemoryComesBackWhenItIsGone) {
  int64_t before = device.memoryInfo().usedBytes;
  {
    Executable copy = Executable::load(device, toRecipe(copyProgram(100000))).value();
    EXPECT_GE(device.memoryInfo().usedBytes, before + 400000);
    // Enqueued launches keep it loaded.
    Buffer in = vector(100000), out = vector(100000);
    for (int i = 0; i < 20; ++i) ASSERT_TRUE(copy.launch(stream, {in}, {out}).ok());
  }
  ASSERT_TRUE(stream.synchronize().ok());
  EXPECT_EQ(device.memoryInfo().usedBytes, before);
}

TEST_F(ExecutableTest, TooLargeForTheDeviceNamesTheRecipe) {
  Status status = Executable::load(device, toRecipe(copyProgram(32 * kMiB))).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("loading recipe 'copy': out of HBM"));
  EXPECT_EQ(Executable::load(device, Recipe()).status().code(), StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace hpu
