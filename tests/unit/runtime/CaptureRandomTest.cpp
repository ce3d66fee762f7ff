// SPDX-License-Identifier: Apache-2.0
// Random work on forked streams, done directly and by replay: the same bytes and the same device
// time.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "TinyProgram.h"
#include "hpu/capture.h"
#include "hpu/device.h"
#include "hpu/event.h"
#include "hpu/executable.h"

namespace hpu {
namespace {

constexpr int kStreams = 3;
constexpr int64_t kCount = 4096;
constexpr int64_t kBytes = kCount * 4;

class RandomWork {
 public:
  RandomWork() {
    DeviceOptions options;
    options.hbmBytes = 64 << 20;
    device_ = Device::open(options).value();
    copy_ = Executable::load(device_, testing::toRecipe(testing::copyProgram(kCount, 2))).value();
    fan_ = Executable::load(device_, testing::toRecipe(testing::fanOutProgram(kCount, {1, 0}))).value();
    for (int s = 0; s < kStreams; ++s) {
      streams_.push_back(Stream::create(device_, {"s" + std::to_string(s), s % 2}).value());
      for (int b = 0; b < 2; ++b) buffers_.push_back(device_.allocate(kBytes).value());
    }
    for (int i = 0; i < 4; ++i) host_.push_back(std::vector<int32_t>(kCount, 1000 + i));
  }

  /// The same calls for the same seed; all streams are joined at the end.
  void enqueue(uint64_t seed, int operations) {
    std::mt19937_64 random(seed);
    auto pick = [&](uint64_t count) { return static_cast<size_t>(random() % count); };
    for (int s = 1; s < kStreams; ++s) order(0, static_cast<size_t>(s));
    for (int i = 0; i < operations; ++i) {
      size_t s = pick(kStreams), other = (s + 1 + pick(kStreams - 1)) % kStreams;
      Stream& stream = streams_[s];
      Buffer &a = buffers_[2 * s], &b = buffers_[2 * s + 1];
      int64_t offset = static_cast<int64_t>(pick(kCount / 2)) * 4;
      switch (pick(7)) {
        case 0:
          EXPECT_TRUE(stream.fill(a, static_cast<uint8_t>(random()), kBytes - offset, offset).ok());
          break;
        case 1:
          EXPECT_TRUE(stream.copyOnDevice(b, offset, a, 0, kBytes - offset).ok());
          break;
        case 2:
          EXPECT_TRUE(stream.copyToDevice(a, host_[pick(4)].data(), kBytes - offset, offset).ok());
          break;
        case 3:
          EXPECT_TRUE(copy_.launch(stream, {a}, {b}).ok());
          break;
        case 4:
          EXPECT_TRUE(copy_.launch(stream, {b}, {b}).ok());  // In place.
          break;
        case 5: {
          // Another stream's buffer, in order with that stream.
          order(other, s);
          EXPECT_TRUE(stream.copyOnDevice(a, 0, buffers_[2 * other], 0, kBytes).ok());
          order(s, other);
          break;
        }
        case 6: {
          // The first output is read by the other stream while the launch goes on.
          LaunchArguments arguments;
          Buffer &first = scratch(2 * s), &second = scratch(2 * s + 1);
          arguments.inputs = {a.address()};
          arguments.outputs = {first.address(), second.address()};
          Event written;
          arguments.events = {{1, written}};
          EXPECT_TRUE(fan_.launch(stream, arguments).ok());
          EXPECT_TRUE(streams_[other].wait(written).ok());
          EXPECT_TRUE(streams_[other].copyOnDevice(buffers_[2 * other + 1], 0, second, 0, kBytes).ok());
          order(other, s);
          break;
        }
      }
    }
    for (size_t s = 1; s < kStreams; ++s) order(s, 0);
  }

  void clear() {
    for (Buffer& buffer : buffers_) EXPECT_TRUE(streams_[0].fill(buffer, 0, kBytes).ok());
    for (size_t s = 1; s < kStreams; ++s) order(0, s);
    for (Stream& stream : streams_) EXPECT_TRUE(stream.synchronize().ok());
  }
  std::vector<std::vector<int32_t>> contents() {
    std::vector<std::vector<int32_t>> result(buffers_.size(), std::vector<int32_t>(kCount));
    for (size_t b = 0; b < buffers_.size(); ++b)
      EXPECT_TRUE(streams_[0].copyToHost(result[b].data(), buffers_[b], kBytes).ok());
    EXPECT_TRUE(streams_[0].synchronize().ok());
    return result;
  }
  template <typename Work>
  int64_t deviceTime(const Work& work) {
    Event start, end;
    EXPECT_TRUE(streams_[0].record(start).ok());
    work();
    EXPECT_TRUE(streams_[0].record(end).ok());
    EXPECT_TRUE(streams_[0].synchronize().ok());
    return end.elapsedNsSince(start).value();
  }
  Stream& origin() { return streams_[0]; }

 private:
  void order(size_t first, size_t then) {
    Event event;
    EXPECT_TRUE(streams_[first].record(event).ok());
    EXPECT_TRUE(streams_[then].wait(event).ok());
  }
  Buffer& scratch(size_t index) {
    while (scratch_.size() <= 2 * kStreams) scratch_.push_back(device_.allocate(kBytes).value());
    return scratch_[index];
  }

  Device device_;
  Executable copy_, fan_;
  std::vector<Stream> streams_;
  std::vector<Buffer> buffers_, scratch_;
  std::vector<std::vector<int32_t>> host_;
};

TEST(CaptureRandom, AReplayDoesWhatTheCallsDoInTheSameDeviceTime) {
  RandomWork work;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const int operations = 10 + static_cast<int>(seed) * 2;
    work.clear();
    int64_t direct = work.deviceTime([&] { work.enqueue(seed, operations); });
    auto expected = work.contents();
    auto session = CaptureSession::begin(work.origin());
    ASSERT_TRUE(session.ok()) << session.status().message();
    work.enqueue(seed, operations);
    auto graph = session->end();
    ASSERT_TRUE(graph.ok()) << graph.status().message();
    EXPECT_EQ(graph->branches(), kStreams);
    GraphInstance instance = graph->instantiate().value();
    for (int round = 0; round < 2; ++round) {
      work.clear();
      int64_t replayed = work.deviceTime([&] { EXPECT_TRUE(instance.replay(work.origin()).ok()); });
      ASSERT_EQ(work.contents(), expected) << "seed " << seed << " round " << round;
      ASSERT_EQ(replayed, direct) << "seed " << seed << " round " << round;
    }
  }
}

}  // namespace
}  // namespace hpu
