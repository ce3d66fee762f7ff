// SPDX-License-Identifier: Apache-2.0
// What happens inside of a launch, and beside it: events of single outputs, launches that overlap,
// priorities.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "TinyProgram.h"
#include "hpu/device.h"
#include "hpu/event.h"
#include "hpu/executable.h"
#include "hpu/stream.h"

namespace hpu {
namespace {

using testing::copyProgram;
using testing::copyThenMultiplyProgram;
using ::testing::ElementsAre;
using testing::fanOutProgram;
using ::testing::HasSubstr;
using testing::toRecipe;

constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kN = 256;
constexpr int64_t kBytes = kN * kN * 4;

class LaunchEventTest : public ::testing::Test {
 protected:
  void SetUp() override {
    DeviceOptions options;
    options.hbmBytes = 64 * kMiB;
    device = Device::open(options).value();
    stream = Stream::create(device).value();
    side = Stream::create(device).value();
  }
  /// Lives as long as the test: launches by address need live allocations.
  Buffer buffer(int64_t bytes = kBytes) {
    buffers.push_back(device.allocate(bytes).value());
    return buffers.back();
  }
  Executable load(std::shared_ptr<const recipe::Program> program) {
    return Executable::load(device, toRecipe(std::move(program))).value();
  }
  static LaunchArguments arguments(const std::vector<Buffer>& inputs, const std::vector<Buffer>& outputs) {
    LaunchArguments result;
    for (const Buffer& buffer : inputs) result.inputs.push_back(buffer.address());
    for (const Buffer& buffer : outputs) result.outputs.push_back(buffer.address());
    return result;
  }

  Device device;
  Stream stream, side;
  std::vector<Buffer> buffers;
};

TEST_F(LaunchEventTest, AnOutputIsDoneBeforeItsLaunchAndReadByAnotherStream) {
  Executable program = load(copyThenMultiplyProgram(kN));
  Buffer in = buffer(), first = buffer(), second = buffer();
  std::vector<float> data(kN * kN, 2.0f), copied(kN * kN), product(kN * kN);
  Event start, done, end;
  LaunchArguments launch = arguments({in}, {first, second});
  Event firstDone, secondDone;
  launch.events = {{1, secondDone}, {0, firstDone}};
  ASSERT_TRUE(stream.copyToDevice(in, data.data(), kBytes).ok());
  ASSERT_TRUE(stream.record(start).ok());
  ASSERT_TRUE(program.launch(stream, launch).ok());
  ASSERT_TRUE(stream.record(end).ok());
  ASSERT_TRUE(side.wait(firstDone).ok());
  ASSERT_TRUE(side.record(done).ok());
  ASSERT_TRUE(side.copyToHost(copied.data(), first, kBytes).ok());
  ASSERT_TRUE(side.wait(secondDone).ok());
  ASSERT_TRUE(side.copyToHost(product.data(), second, kBytes).ok());
  ASSERT_TRUE(side.synchronize().ok());
  EXPECT_EQ(copied, data);
  EXPECT_EQ(product, std::vector<float>(kN * kN, 4.0f * kN));
  ASSERT_TRUE(stream.synchronize().ok());
  int64_t copy = firstDone.elapsedNsSince(start).value(), both = end.elapsedNsSince(start).value();
  EXPECT_GT(copy, 0);
  EXPECT_LT(copy, both);
  EXPECT_EQ(secondDone.elapsedNsSince(start).value(), both);
  // The other stream went on in the middle of the launch, in device time.
  EXPECT_EQ(done.deviceTimeNs().value(), firstDone.deviceTimeNs().value());
  EXPECT_TRUE(firstDone.query().value());
  EXPECT_TRUE(firstDone.synchronize(0).ok());
}

TEST_F(LaunchEventTest, TheOrderOfOutputsIsThatOfTheirEvents) {
  Recipe recipe = toRecipe(fanOutProgram(kN * kN, {2, 0, 1}));
  std::vector<int> order = Executable::outputOrder(recipe).value();
  EXPECT_THAT(order, ElementsAre(2, 0, 1));
  EXPECT_THAT(Executable::outputOrder(toRecipe(copyThenMultiplyProgram(kN))).value(), ElementsAre(0, 1));
  EXPECT_FALSE(Executable::outputOrder(Recipe()).ok());
  Executable fan = Executable::load(device, recipe).value();
  std::vector<Event> events(3);
  LaunchArguments launch = arguments({buffer()}, {buffer(), buffer(), buffer()});
  for (int i = 0; i < 3; ++i) launch.events.push_back({i, events[static_cast<size_t>(i)]});
  ASSERT_TRUE(fan.launch(stream, launch).ok());
  ASSERT_TRUE(stream.synchronize().ok());
  std::vector<int64_t> times;
  for (int output : order) times.push_back(events[static_cast<size_t>(output)].deviceTimeNs().value());
  EXPECT_LT(times[0], times[1]);
  EXPECT_LT(times[1], times[2]);
}

TEST_F(LaunchEventTest, AnInPlaceOutputIsDoneWhenItIsCopiedBack) {
  Executable copy = load(copyProgram(kN * kN));
  Buffer weights = buffer();
  std::vector<int32_t> data(kN * kN, 7), out(kN * kN);
  ASSERT_TRUE(stream.copyToDevice(weights, data.data(), kBytes).ok());
  Event written, end;
  LaunchArguments launch = arguments({weights}, {weights});
  launch.events = {{0, written}};
  ASSERT_TRUE(copy.launch(stream, launch).ok());
  ASSERT_TRUE(stream.record(end).ok());
  ASSERT_TRUE(side.wait(written).ok());
  ASSERT_TRUE(side.copyToHost(out.data(), weights, kBytes).ok());
  ASSERT_TRUE(side.synchronize().ok());
  ASSERT_TRUE(stream.synchronize().ok());
  EXPECT_EQ(out, data);
  EXPECT_EQ(written.deviceTimeNs().value(), end.deviceTimeNs().value());
}

TEST_F(LaunchEventTest, AnEventForAnOutputThatIsNotThereIsRefused) {
  Executable copy = load(copyProgram(kN * kN));
  LaunchArguments launch = arguments({buffer()}, {buffer()});
  launch.events = {{1, Event()}};
  Status status = copy.launch(stream, launch);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("output 1"));
}

/// d: the DMA's part of one launch, m: the MME's. Two launches on two streams end after
/// max(2 d, d + m) + m when they overlap, 2 (d + m) when they do not.
TEST_F(LaunchEventTest, LaunchesOfOneExecutableOverlapWhereEnginesAreFree) {
  Executable program = load(copyThenMultiplyProgram(kN));
  Buffer in = buffer();
  ASSERT_TRUE(stream.fill(in, 0, kBytes).ok());
  std::vector<LaunchArguments> launches;
  for (int i = 0; i < 2; ++i) launches.push_back(arguments({in}, {buffer(), buffer()}));
  auto run = [&](bool parallel) {
    EXPECT_TRUE(device.synchronize().ok());
    Event start, first, other, end;
    launches[0].events = {{0, first}};
    EXPECT_TRUE(stream.record(start).ok());
    EXPECT_TRUE(side.wait(start).ok());
    EXPECT_TRUE(program.launch(stream, launches[0]).ok());
    EXPECT_TRUE(program.launch(parallel ? side : stream, launches[1]).ok());
    EXPECT_TRUE(side.record(other).ok());
    EXPECT_TRUE(stream.wait(other).ok());
    EXPECT_TRUE(stream.record(end).ok());
    EXPECT_TRUE(stream.synchronize().ok());
    return std::pair(first.elapsedNsSince(start).value(), end.elapsedNsSince(start).value());
  };
  auto [d, serial] = run(false);
  int64_t m = serial / 2 - d;
  ASSERT_GT(d, 100);
  ASSERT_GT(m, 100);
  auto [again, parallel] = run(true);
  EXPECT_EQ(again, d);
  EXPECT_NEAR(static_cast<double>(parallel), static_cast<double>(std::max(2 * d, d + m) + m), 3.0);
  EXPECT_LT(parallel, serial - std::min(d, m) / 2);
}

TEST_F(LaunchEventTest, OwnWorkspacesOverlapAndTheSharedOneDoesNot) {
  Executable program = load(copyThenMultiplyProgram(kN, /*throughWorkspace=*/true));
  Executable parts = load(copyThenMultiplyProgram(kN));
  Buffer in = buffer();
  ASSERT_TRUE(stream.fill(in, 0, kBytes).ok());
  // The same commands with the copy as an output tell its time.
  Event start, copied, end;
  LaunchArguments launch = arguments({in}, {buffer(), buffer()});
  launch.events = {{0, copied}};
  ASSERT_TRUE(stream.synchronize().ok());
  ASSERT_TRUE(stream.record(start).ok());
  ASSERT_TRUE(parts.launch(stream, launch).ok());
  ASSERT_TRUE(stream.record(end).ok());
  ASSERT_TRUE(stream.synchronize().ok());
  const int64_t d = copied.elapsedNsSince(start).value(), m = end.elapsedNsSince(copied).value();
  auto run = [&](bool own) {
    EXPECT_TRUE(device.synchronize().ok());
    Event begin, other, last;
    EXPECT_TRUE(stream.record(begin).ok());
    EXPECT_TRUE(side.wait(begin).ok());
    for (Stream* target : {&stream, &side}) {
      LaunchArguments mine = arguments({in}, {buffer()});
      if (own) mine.workspace = buffer(program.workspaceBytes()).address();
      EXPECT_TRUE(program.launch(*target, mine).ok());
    }
    EXPECT_TRUE(side.record(other).ok());
    EXPECT_TRUE(stream.wait(other).ok());
    EXPECT_TRUE(stream.record(last).ok());
    EXPECT_TRUE(stream.synchronize().ok());
    return last.elapsedNsSince(begin).value();
  };
  EXPECT_NEAR(static_cast<double>(run(false)), 2.0 * static_cast<double>(d + m), 3.0);
  EXPECT_NEAR(static_cast<double>(run(true)), static_cast<double>(std::max(2 * d, d + m) + m), 3.0);
}

TEST_F(LaunchEventTest, PriorityDecidesAmongWorkThatMayStartAtTheSameTime) {
  Stream low = Stream::create(device, {"low", 0}).value();
  Stream high = Stream::create(device, {"high", 5}).value();
  Stream lowest = Stream::create(device, {"lowest", -3}).value();
  Executable copy = load(copyProgram(kN * kN));
  auto run = [&](const std::vector<Stream*>& order) {
    EXPECT_TRUE(device.synchronize().ok());
    Event go;
    EXPECT_TRUE(stream.fill(buffer(), 1, kBytes).ok());
    EXPECT_TRUE(stream.record(go).ok());
    std::vector<Event> ends(order.size());
    for (size_t i = 0; i < order.size(); ++i) {
      EXPECT_TRUE(order[i]->wait(go).ok());
      LaunchArguments launch = arguments({buffer()}, {buffer()});
      launch.workspace = buffer(copy.workspaceBytes()).address();
      EXPECT_TRUE(copy.launch(*order[i], launch).ok());
      EXPECT_TRUE(order[i]->record(ends[i]).ok());
    }
    EXPECT_TRUE(device.synchronize().ok());
    std::vector<int64_t> times;
    for (const Event& end : ends) times.push_back(end.elapsedNsSince(go).value());
    return times;
  };
  std::vector<int64_t> times = run({&lowest, &low, &high});
  EXPECT_LT(times[2], times[1]);
  EXPECT_LT(times[1], times[0]);
  // The order of the calls plays no part: the same device times.
  std::vector<int64_t> reversed = run({&high, &low, &lowest});
  std::reverse(reversed.begin(), reversed.end());
  EXPECT_EQ(times, reversed);
}

}  // namespace
}  // namespace hpu
