// SPDX-License-Identifier: Apache-2.0
#include "hpu/capture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "TinyProgram.h"
#include "hpu/device.h"
#include "hpu/event.h"
#include "hpu/executable.h"
#include "hpu/node.h"

namespace hpu {
namespace {

using testing::copyProgram;
using testing::delayProgram;
using ::testing::ElementsAre;
using testing::fanOutProgram;
using ::testing::HasSubstr;
using testing::toRecipe;

constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kCount = 10000;
constexpr int64_t kBytes = kCount * 4;

std::vector<int32_t> ramp(int32_t first, int64_t count = kCount) {
  std::vector<int32_t> data(static_cast<size_t>(count));
  std::iota(data.begin(), data.end(), first);
  return data;
}

class CaptureTest : public ::testing::Test {
 protected:
  void SetUp() override {
    DeviceOptions options;
    options.hbmBytes = 64 * kMiB;
    device = Device::open(options).value();
    stream = Stream::create(device, {"main", 0}).value();
    side = Stream::create(device, {"side", 0}).value();
    copy = Executable::load(device, toRecipe(copyProgram(kCount, 2))).value();
    in = buffer();
    middle = buffer();
    out = buffer();
  }
  /// Host memory keeps its place: the graph has its address.
  static void set(std::vector<int32_t>& data, int32_t first) { std::iota(data.begin(), data.end(), first); }
  Buffer buffer(int64_t bytes = kBytes) { return device.allocate(bytes).value(); }
  std::vector<int32_t> download(const Buffer& from, int64_t count = kCount) {
    std::vector<int32_t> data(static_cast<size_t>(count), -1);
    EXPECT_TRUE(stream.copyToHost(data.data(), from, count * 4).ok());
    EXPECT_TRUE(stream.synchronize().ok());
    return data;
  }
  static CapturedGraph finish(CaptureSession& session) {
    auto graph = session.end();
    EXPECT_TRUE(graph.ok()) << graph.status().message();
    return graph.ok() ? *graph : CapturedGraph();
  }
  static GraphInstance instantiate(const CapturedGraph& graph) {
    auto instance = graph.instantiate();
    EXPECT_TRUE(instance.ok()) << instance.status().message();
    return instance.ok() ? *instance : GraphInstance();
  }
  /// Device time of what `work` enqueues on `stream`, which starts on idle engines.
  template <typename Work>
  int64_t deviceTime(const Work& work) {
    EXPECT_TRUE(device.synchronize().ok());
    Event start, end;
    EXPECT_TRUE(stream.record(start).ok());
    work();
    EXPECT_TRUE(stream.record(end).ok());
    EXPECT_TRUE(stream.synchronize().ok());
    return end.elapsedNsSince(start).value();
  }

  Device device;
  Stream stream, side;
  Executable copy;
  Buffer in, middle, out;
};

TEST_F(CaptureTest, RecordsInsteadOfDoingAndReplaysManyTimes) {
  std::vector<int32_t> data = ramp(5), result(kCount, -1);
  CaptureSession session = CaptureSession::begin(stream).value();
  EXPECT_TRUE(session.active());
  ASSERT_TRUE(stream.copyToDevice(in, data.data(), kBytes).ok());
  ASSERT_TRUE(copy.launch(stream, {in}, {out}).ok());
  ASSERT_TRUE(stream.fill(out, 0xff, 4).ok());
  ASSERT_TRUE(stream.copyToHost(result.data(), out, kBytes).ok());
  CapturedGraph graph = finish(session);
  EXPECT_FALSE(session.active());
  EXPECT_EQ(graph.operations(), 4);
  EXPECT_EQ(graph.launches(), 1);
  EXPECT_EQ(graph.branches(), 1);
  EXPECT_THAT(graph.describe(), ElementsAre("branch 0: copy to device", "branch 0: launch 'copy'", "branch 0: fill",
                                            "branch 0: copy to host"));
  ASSERT_TRUE(stream.synchronize().ok());
  EXPECT_EQ(result, std::vector<int32_t>(kCount, -1));
  EXPECT_EQ(device.counters().launches, 0);

  GraphInstance instance = instantiate(graph);
  for (int round = 0; round < 3; ++round) {
    set(data, round * 100);
    ASSERT_TRUE(instance.replay(stream).ok());
    ASSERT_TRUE(stream.synchronize().ok());
    data[0] = -1;
    EXPECT_EQ(result, data);
  }
  EXPECT_EQ(device.counters().launches, 3);
  // On another stream, too.
  set(data, 7000);
  ASSERT_TRUE(instance.replay(side).ok());
  ASSERT_TRUE(side.synchronize().ok());
  EXPECT_EQ(result[1], 7001);
}

TEST_F(CaptureTest, BranchesForkAndJoinThroughEvents) {
  std::vector<int32_t> data = ramp(1), left(kCount, -1), right(kCount, -1);
  CaptureSession session = CaptureSession::begin(stream).value();
  Event forked, joined;
  ASSERT_TRUE(stream.copyToDevice(in, data.data(), kBytes).ok());
  ASSERT_TRUE(stream.record(forked).ok());
  ASSERT_TRUE(side.wait(forked).ok());
  ASSERT_TRUE(side.copyToHost(left.data(), in, kBytes).ok());
  ASSERT_TRUE(side.record(joined).ok());
  ASSERT_TRUE(copy.launch(stream, {in}, {out}).ok());
  ASSERT_TRUE(stream.wait(joined).ok());
  ASSERT_TRUE(stream.copyToHost(right.data(), out, kBytes).ok());
  CapturedGraph graph = finish(session);
  EXPECT_EQ(graph.branches(), 2);
  EXPECT_THAT(graph.describe(),
              ElementsAre("branch 0: copy to device", "branch 0: marker", "branch 1: wait for operation 1",
                          "branch 1: copy to host", "branch 1: marker", "branch 0: launch 'copy'",
                          "branch 0: wait for operation 4", "branch 0: copy to host"));
  GraphInstance instance = instantiate(graph);
  for (int round = 0; round < 20; ++round) {
    set(data, round);
    ASSERT_TRUE(instance.replay(stream).ok());
    ASSERT_TRUE(stream.synchronize().ok());
    ASSERT_EQ(left, data);
    ASSERT_EQ(right, data);
  }
  // The streams work as before.
  ASSERT_TRUE(side.synchronize().ok());
  EXPECT_EQ(download(out), data);
}

TEST_F(CaptureTest, TakesTheDeviceTimeOfTheSameCalls) {
  std::vector<int32_t> data = ramp(1), left(kCount), right(kCount);
  auto work = [&] {
    Event forked, joined;
    ASSERT_TRUE(stream.copyToDevice(in, data.data(), kBytes).ok());
    for (int i = 0; i < 10; ++i) ASSERT_TRUE(copy.launch(stream, {in}, {middle}).ok());
    ASSERT_TRUE(stream.record(forked).ok());
    ASSERT_TRUE(side.wait(forked).ok());
    ASSERT_TRUE(side.copyToHost(left.data(), in, kBytes).ok());
    ASSERT_TRUE(side.record(joined).ok());
    ASSERT_TRUE(stream.fill(out, 3, kBytes).ok());
    ASSERT_TRUE(stream.wait(joined).ok());
    ASSERT_TRUE(stream.copyToHost(right.data(), out, kBytes).ok());
  };
  int64_t uncaptured = deviceTime(work);
  CaptureSession session = CaptureSession::begin(stream).value();
  work();
  GraphInstance instance = instantiate(finish(session));
  int64_t replayed = deviceTime([&] { ASSERT_TRUE(instance.replay(stream).ok()); });
  EXPECT_EQ(replayed, uncaptured);
  EXPECT_GT(replayed, 0);
}

TEST_F(CaptureTest, NewInputsAreBoundByBufferAddressAndHostPointer) {
  std::vector<int32_t> data = ramp(1), other = ramp(500), result(kCount, -1), elsewhere(kCount, -1);
  CaptureSession session = CaptureSession::begin(stream).value();
  ASSERT_TRUE(stream.copyToDevice(in, data.data(), kBytes).ok());
  ASSERT_TRUE(copy.launch(stream, {in}, {middle}).ok());
  ASSERT_TRUE(stream.copyOnDevice(out, 400, middle, 400, kBytes - 400).ok());
  ASSERT_TRUE(stream.copyToHost(result.data(), out, kBytes).ok());
  CapturedGraph graph = finish(session);
  GraphInstance instance = instantiate(graph);
  ASSERT_TRUE(instance.rebindSource(data.data(), other.data(), kBytes).ok());
  ASSERT_TRUE(instance.rebindDestination(result.data(), elsewhere.data(), kBytes).ok());
  Buffer newOut = buffer(), newMiddle = buffer(kBytes * 2);
  ASSERT_TRUE(instance.rebind(out, newOut).ok());
  // By address, into the middle of a buffer.
  ASSERT_TRUE(instance.rebind(middle.address(), newMiddle.address() + 1024, kBytes).ok());
  ASSERT_TRUE(stream.fill(out, 0x11, kBytes).ok());
  ASSERT_TRUE(stream.fill(middle, 0x22, kBytes).ok());
  ASSERT_TRUE(stream.fill(newOut, 0, kBytes).ok());
  ASSERT_TRUE(instance.replay(stream).ok());
  ASSERT_TRUE(stream.synchronize().ok());
  EXPECT_EQ(std::vector<int32_t>(elsewhere.begin() + 100, elsewhere.end()),
            std::vector<int32_t>(other.begin() + 100, other.end()));
  EXPECT_EQ(elsewhere[0], 0);
  EXPECT_EQ(result, std::vector<int32_t>(kCount, -1));
  EXPECT_EQ(download(out), std::vector<int32_t>(kCount, 0x11111111));
  EXPECT_EQ(download(middle), std::vector<int32_t>(kCount, 0x22222222));
  EXPECT_EQ(download(newOut)[100], 600);
  // The captured graph itself is as it was.
  GraphInstance again = instantiate(graph);
  ASSERT_TRUE(again.replay(stream).ok());
  ASSERT_TRUE(stream.synchronize().ok());
  EXPECT_EQ(result[100], 101);
}

TEST_F(CaptureTest, RebindingThatCannotBeChangesNothing) {
  std::vector<int32_t> data = ramp(1), result(kCount, -1);
  CaptureSession session = CaptureSession::begin(stream).value();
  ASSERT_TRUE(stream.copyToDevice(in, data.data(), kBytes).ok());
  ASSERT_TRUE(copy.launch(stream, {in}, {out}).ok());
  ASSERT_TRUE(stream.copyToHost(result.data(), out, kBytes).ok());
  GraphInstance instance = instantiate(finish(session));
  Status status = instance.rebind(middle, out);
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  status = instance.rebind(out, in);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("operation 1 of the graph: output 0 of recipe 'copy'"));
  status = instance.rebind(in, buffer(kBytes - 400));
  EXPECT_EQ(status.code(), StatusCode::kOutOfRange);
  EXPECT_THAT(status.message(), HasSubstr("uses 40000 bytes at offset 0, and the new memory has"));
  EXPECT_EQ(instance.rebind(in.address() + 4, middle.address(), kBytes - 4).code(), StatusCode::kOutOfRange);
  EXPECT_EQ(instance.rebind(in.address(), 0x1234, kBytes).code(), StatusCode::kNotFound);
  EXPECT_EQ(instance.rebind(in.address(), middle.address(), 0).code(), StatusCode::kOutOfRange);
  EXPECT_EQ(instance.rebind(Buffer(), middle).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(instance.rebindSource(result.data(), data.data(), kBytes).code(), StatusCode::kNotFound);
  EXPECT_EQ(instance.rebindSource(data.data(), nullptr, kBytes).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(GraphInstance().rebind(in, out).code(), StatusCode::kFailedPrecondition);
  ASSERT_TRUE(instance.replay(stream).ok());
  ASSERT_TRUE(stream.synchronize().ok());
  EXPECT_EQ(result, data);
}

TEST_F(CaptureTest, MemoryLivesAsLongAsTheGraphUsesIt) {
  std::vector<int32_t> data = ramp(1);
  int64_t before = device.memoryInfo().usedBytes;
  GraphInstance instance;
  {
    Buffer a = buffer(), b = buffer();
    CaptureSession session = CaptureSession::begin(stream).value();
    ASSERT_TRUE(stream.copyToDevice(a, data.data(), kBytes).ok());
    ASSERT_TRUE(stream.copyOnDevice(out, 0, a, 0, kBytes).ok());
    ASSERT_TRUE(stream.copyOnDevice(b, 0, a, 0, kBytes).ok());
    CapturedGraph graph = finish(session);
    instance = instantiate(graph);
    ASSERT_TRUE(instance.rebind(b, middle).ok());
  }
  // `a` is still used; `b` was given back when it was bound to other memory.
  EXPECT_GT(device.memoryInfo().usedBytes, before);
  EXPECT_LT(device.memoryInfo().usedBytes, before + 2 * kBytes);
  ASSERT_TRUE(instance.replay(stream).ok());
  instance = GraphInstance();  // While it may still run.
  ASSERT_TRUE(stream.synchronize().ok());
  EXPECT_EQ(device.memoryInfo().usedBytes, before);
  EXPECT_EQ(download(middle), data);
}

TEST_F(CaptureTest, HostMemoryIsLetGoWhenNothingUsesItAnyMore) {
  std::vector<int32_t> first = ramp(1), second = ramp(7), result = ramp(0), other = ramp(0);
  for (auto* data : {&first, &second, &result, &other}) ASSERT_TRUE(device.mapHost(data->data(), kBytes).ok());
  GraphInstance instance;
  {
    CaptureSession session = CaptureSession::begin(stream).value();
    ASSERT_TRUE(stream.copyToDevice(in, first.data(), kBytes).ok());
    ASSERT_TRUE(stream.copyToHost(result.data(), in, kBytes).ok());
    instance = instantiate(finish(session));
  }
  EXPECT_EQ(device.unmapHost(first.data()).code(), StatusCode::kFailedPrecondition);
  ASSERT_TRUE(instance.rebindSource(first.data(), second.data(), kBytes).ok());
  ASSERT_TRUE(instance.rebindDestination(result.data(), other.data(), kBytes).ok());
  EXPECT_TRUE(device.unmapHost(first.data()).ok());
  EXPECT_TRUE(device.unmapHost(result.data()).ok());
  ASSERT_TRUE(instance.replay(stream).ok());
  ASSERT_TRUE(stream.synchronize().ok());
  EXPECT_EQ(other, ramp(7));
  EXPECT_EQ(device.unmapHost(second.data()).code(), StatusCode::kFailedPrecondition);
  instance = GraphInstance();
  EXPECT_TRUE(device.unmapHost(second.data()).ok());
  EXPECT_TRUE(device.unmapHost(other.data()).ok());
}

// One block of host memory is kept as long as any of its ranges is used, also when it was freed.
TEST_F(CaptureTest, AHalfThatIsBoundElsewhereKeepsTheOther) {
  HostMemory both = device.allocateHost(2 * kBytes).value();
  auto* data = static_cast<int32_t*>(both.data);
  std::iota(data, data + 2 * kCount, 1);
  std::vector<int32_t> other = ramp(500);
  CaptureSession session = CaptureSession::begin(stream).value();
  ASSERT_TRUE(
      stream
          .copyMany(CopyDirection::kToDevice, {{in.address(), reinterpret_cast<uintptr_t>(data), kBytes},
                                               {middle.address(), reinterpret_cast<uintptr_t>(data + kCount), kBytes}})
          .ok());
  GraphInstance instance = instantiate(finish(session));
  ASSERT_TRUE(device.freeHost(both.data).ok());
  ASSERT_TRUE(instance.rebindSource(data, other.data(), kBytes).ok());
  ASSERT_TRUE(instance.replay(stream).ok());
  EXPECT_EQ(download(in), ramp(500));
  EXPECT_EQ(download(middle), ramp(1 + kCount));
}

TEST_F(CaptureTest, SaysWhatCannotBeCapturedAndFailsAsAWhole) {
  using Call = std::function<Status()>;
  Event outside, inside;
  ASSERT_TRUE(side.record(outside).ok());
  Recipe recipe = toRecipe(copyProgram(10));
  std::vector<std::pair<std::string, Call>> calls = {
      {"Stream::synchronize", [&] { return stream.synchronize(); }},
      {"Stream::query", [&] { return stream.query().status(); }},
      {"Device::synchronize", [&] { return device.synchronize(); }},
      {"Device::allocate", [&] { return device.allocate(100).status(); }},
      {"Executable::load", [&] { return Executable::load(device, recipe).status(); }},
      {"Event::synchronize", [&] { return inside.synchronize(); }},
      {"Event::query", [&] { return inside.query().status(); }},
      {"Event::deviceTimeNs", [&] { return inside.deviceTimeNs().status(); }},
      {"Stream::wait", [&] { return stream.wait(outside); }},
  };
  for (auto& [name, call] : calls) {
    CaptureSession session = CaptureSession::begin(stream).value();
    ASSERT_TRUE(stream.fill(out, 1, 100).ok());
    ASSERT_TRUE(stream.record(inside).ok());
    Status status = call();
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition) << name;
    EXPECT_THAT(status.message(), HasSubstr(name + " cannot be captured")) << name;
    // A program that ignores it is told at the end.
    EXPECT_EQ(session.end().status().message(), status.message()) << name;
    // Afterwards the call is as good as ever, but for the event of the capture.
    if (name.find("Event") == std::string::npos) {
      EXPECT_TRUE(call().ok()) << name;
    } else {
      EXPECT_THAT(call().message(), HasSubstr("recorded in a capture")) << name;
    }
  }
  // Other threads allocate as they like.
  CaptureSession session = CaptureSession::begin(stream).value();
  std::thread([&] { EXPECT_TRUE(device.allocate(100).ok()); }).join();
  EXPECT_TRUE(session.end().ok());
}

TEST_F(CaptureTest, AStreamThatIsNotWaitedForIsNamed) {
  CaptureSession session = CaptureSession::begin(stream).value();
  Event forked;
  ASSERT_TRUE(stream.record(forked).ok());
  ASSERT_TRUE(side.wait(forked).ok());
  ASSERT_TRUE(side.fill(out, 1, 100).ok());
  Status status = session.end().status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("stream 'side' joined the capture"));
  // Both are free again.
  EXPECT_TRUE(side.synchronize().ok());
  EXPECT_TRUE(CaptureSession::begin(side).ok());
}

TEST_F(CaptureTest, SessionsEndOnceAndDoNotNest) {
  EXPECT_EQ(CaptureSession::begin(Stream()).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(CaptureSession().end().status().code(), StatusCode::kFailedPrecondition);
  CaptureSession session = CaptureSession::begin(stream).value();
  Status again = CaptureSession::begin(stream).status();
  EXPECT_THAT(again.message(), HasSubstr("stream 'main' is captured already"));
  GraphInstance empty = instantiate(finish(session));
  EXPECT_EQ(session.end().status().code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(empty.replay(stream).ok());
  // A session that is gone gives its capture up.
  {
    CaptureSession dropped = CaptureSession::begin(stream).value();
  }
  EXPECT_TRUE(stream.synchronize().ok());
  // A graph is not part of another one, nor of another device.
  session = CaptureSession::begin(stream).value();
  EXPECT_THAT(empty.replay(stream).message(), HasSubstr("a graph cannot be part of another one"));
  EXPECT_FALSE(session.end().ok());
  DeviceOptions options;
  options.index = device.info().index == 0 ? 1 : 0;
  options.hbmBytes = 16 * kMiB;
  Device second = Device::open(options).value();
  Stream foreign = Stream::create(second).value();
  EXPECT_EQ(empty.replay(foreign).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(GraphInstance().replay(stream).code(), StatusCode::kFailedPrecondition);
  // A stream of another device cannot join.
  session = CaptureSession::begin(stream).value();
  Event forked;
  ASSERT_TRUE(stream.record(forked).ok());
  EXPECT_THAT(foreign.wait(forked).message(), HasSubstr("capture a graph for each device"));
}

TEST_F(CaptureTest, LaunchesThatShareAWorkspaceStayInOrderInsideAndOutside) {
  // Output = the input of the launch before: only a strict order gives these numbers.
  Executable delay = Executable::load(device, toRecipe(delayProgram(kCount))).value();
  std::vector<int32_t> first = ramp(100), second = ramp(200), third = ramp(300);
  Buffer a = buffer(), b = buffer(), c = buffer(), x = buffer(), y = buffer(), z = buffer();
  ASSERT_TRUE(stream.copyToDevice(a, first.data(), kBytes).ok());
  ASSERT_TRUE(stream.copyToDevice(b, second.data(), kBytes).ok());
  ASSERT_TRUE(stream.copyToDevice(c, third.data(), kBytes).ok());
  ASSERT_TRUE(stream.synchronize().ok());
  CaptureSession session = CaptureSession::begin(stream).value();
  Event forked, joined;
  ASSERT_TRUE(stream.record(forked).ok());
  ASSERT_TRUE(side.wait(forked).ok());
  ASSERT_TRUE(delay.launch(stream, {a}, {x}).ok());
  ASSERT_TRUE(delay.launch(side, {b}, {y}).ok());
  ASSERT_TRUE(side.record(joined).ok());
  ASSERT_TRUE(stream.wait(joined).ok());
  GraphInstance instance = instantiate(finish(session));
  for (int round = 0; round < 10; ++round) {
    ASSERT_TRUE(instance.replay(stream).ok());
    ASSERT_TRUE(delay.launch(side, {c}, {z}).ok());  // Outside, on another stream.
    ASSERT_TRUE(instance.replay(stream).ok());
    ASSERT_TRUE(stream.synchronize().ok());
    ASSERT_TRUE(side.synchronize().ok());
    ASSERT_EQ(download(x), third) << round;
    ASSERT_EQ(download(y), first) << round;
    ASSERT_EQ(download(z), second) << round;
  }
}

TEST_F(CaptureTest, AFailureOfABranchIsAnErrorOfTheReplaysStream) {
  std::vector<int32_t> result(kCount);
  CaptureSession session = CaptureSession::begin(stream).value();
  Event forked, joined;
  ASSERT_TRUE(stream.record(forked).ok());
  ASSERT_TRUE(side.wait(forked).ok());
  ASSERT_TRUE(side.copyToHost(result.data(), in, kBytes).ok());
  ASSERT_TRUE(side.record(joined).ok());
  ASSERT_TRUE(stream.wait(joined).ok());
  GraphInstance instance = instantiate(finish(session));
  ASSERT_TRUE(instance.replay(stream).ok());
  ASSERT_TRUE(stream.synchronize().ok());
  // The next work that reads device memory fails: the copy of the branch.
  ASSERT_TRUE(node::inject(device.info().index, node::Fault::kUncorrectedEcc).ok());
  ASSERT_TRUE(instance.replay(stream).ok());
  Status status = stream.synchronize();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(status.message(), HasSubstr("copy to host on queue 'graph branch 1 (side)'"));
  EXPECT_TRUE(side.synchronize().ok());
}

TEST_F(CaptureTest, ReplaysOfOneInstanceFollowEachOtherOnAnyStreams) {
  std::vector<int32_t> data = ramp(1);
  CaptureSession session = CaptureSession::begin(stream).value();
  ASSERT_TRUE(stream.copyToDevice(in, data.data(), kBytes).ok());
  ASSERT_TRUE(stream.copyOnDevice(out, 0, in, 0, kBytes).ok());
  GraphInstance instance = instantiate(finish(session));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      Stream mine = Stream::create(device).value();
      for (int i = 0; i < 50; ++i) ASSERT_TRUE(instance.replay(mine).ok());
      ASSERT_TRUE(mine.synchronize().ok());
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(download(out), data);
  ASSERT_TRUE(instance.replay(stream).ok());
  ASSERT_TRUE(stream.synchronize().ok());
  // In device time as well: two replays on two streams do not overlap.
  int64_t one = deviceTime([&] { ASSERT_TRUE(instance.replay(stream).ok()); });
  int64_t two = deviceTime([&] {
    ASSERT_TRUE(instance.replay(stream).ok());
    Event event;
    ASSERT_TRUE(instance.replay(side).ok());
    ASSERT_TRUE(side.record(event).ok());
    ASSERT_TRUE(stream.wait(event).ok());
  });
  EXPECT_NEAR(static_cast<double>(two), 2.0 * static_cast<double>(one), 2.0);
}

TEST_F(CaptureTest, OutputEventsForkInTheMiddleOfALaunch) {
  Executable fan = Executable::load(device, toRecipe(fanOutProgram(kCount, {1, 0}))).value();
  std::vector<int32_t> data = ramp(9), early(kCount, -1);
  CaptureSession session = CaptureSession::begin(stream).value();
  Event written, joined;
  ASSERT_TRUE(stream.copyToDevice(in, data.data(), kBytes).ok());
  LaunchArguments arguments;
  arguments.inputs = {in.address()};
  arguments.outputs = {middle.address(), out.address()};
  arguments.events = {{1, written}};
  ASSERT_TRUE(fan.launch(stream, arguments).ok());
  ASSERT_TRUE(side.wait(written).ok());
  ASSERT_TRUE(side.copyToHost(early.data(), out, kBytes).ok());
  ASSERT_TRUE(side.record(joined).ok());
  ASSERT_TRUE(stream.wait(joined).ok());
  CapturedGraph graph = finish(session);
  EXPECT_EQ(graph.describe()[2], "branch 1: wait for operation 1, output 1");
  GraphInstance instance = instantiate(graph);
  for (int i = 0; i < 5; ++i) {
    set(data, i);
    ASSERT_TRUE(instance.replay(stream).ok());
    ASSERT_TRUE(stream.synchronize().ok());
    ASSERT_EQ(early, data);
  }
}

}  // namespace
}  // namespace hpu
