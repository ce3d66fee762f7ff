// SPDX-License-Identifier: Apache-2.0
// Memory in the order of a stream: reuse without a wait, pools and their limits, and what happens to memory that is
// never given back.
#include "hpu/memory_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "../ExternalProbe.h"
#include "hpu/capture.h"
#include "hpu/event.h"

namespace hpu {
namespace {

using ::testing::AllOf;
using testing::ExternalProbe;
using ::testing::HasSubstr;

constexpr int64_t kMiB = 1 << 20, kKiB = 1 << 10;

/// Frees a buffer with its last handle.
Status give(Stream& stream, Buffer& buffer) {
  Status status = stream.free(buffer);
  buffer = Buffer();
  return status;
}

class StreamOrderedAllocation : public ::testing::Test {
 protected:
  static Device open(int64_t hbmBytes = 64 * kMiB) {
    DeviceOptions options;
    options.hbmBytes = hbmBytes;
    return Device::open(options).value();
  }
  /// The stream stands still until release().
  std::shared_ptr<ExternalProbe> hold(Stream& stream) {
    auto probe = std::make_shared<ExternalProbe>("what holds the stream");
    EXPECT_TRUE(stream.enqueue(probe).ok());
    EXPECT_TRUE(probe->awaitStart());
    return probe;
  }
  static void release(const std::shared_ptr<ExternalProbe>& probe) {
    probe->complete(okStatus(), probe->turn()->arrivalPs());
  }
  MemoryPoolInfo info() { return MemoryPool::defaultOf(device).value().info(); }

  Device device = open();
  Stream stream = Stream::create(device, {"main"}).value(), other = Stream::create(device, {"other"}).value();
};

TEST_F(StreamOrderedAllocation, ReusesMemoryWithoutAWait) {
  auto probe = hold(stream);
  std::vector<uint8_t> first(64 * kKiB), second(64 * kKiB);
  Buffer a = stream.allocate(64 * kKiB).value();
  const uint64_t address = a.address();
  ASSERT_TRUE(stream.fill(a, 1, 64 * kKiB).ok());
  ASSERT_TRUE(stream.copyToHost(first.data(), a, 64 * kKiB).ok());
  ASSERT_TRUE(give(stream, a).ok());
  // Another stream must not have it: the work is still to come.
  EXPECT_NE(other.allocate(64 * kKiB).value().address(), address);
  Buffer b = stream.allocate(60 * kKiB).value();
  EXPECT_EQ(b.address(), address);
  EXPECT_EQ(b.size(), 60 * kKiB);
  EXPECT_FALSE(stream.query().value());
  ASSERT_TRUE(stream.fill(b, 2, 60 * kKiB).ok());
  ASSERT_TRUE(stream.copyToHost(second.data(), address, 60 * kKiB).ok());  // It is found by its address.
  EXPECT_EQ(info().reusedInOrder, 1);
  release(probe);
  ASSERT_TRUE(stream.synchronize().ok());
  EXPECT_EQ(first, std::vector<uint8_t>(64 * kKiB, 1));
  second.resize(60 * kKiB);
  EXPECT_EQ(second, std::vector<uint8_t>(60 * kKiB, 2));
}

TEST_F(StreamOrderedAllocation, AnotherStreamGetsMemoryWhoseWorkIsDone) {
  auto probe = hold(stream);
  Buffer a = stream.allocate(kMiB).value();
  const uint64_t address = a.address();
  ASSERT_TRUE(stream.fill(a, 1, kMiB).ok());
  ASSERT_TRUE(give(stream, a).ok());
  Buffer early = other.allocate(kMiB).value();
  EXPECT_NE(early.address(), address);
  release(probe);
  ASSERT_TRUE(stream.synchronize().ok());
  Buffer late = other.allocate(kMiB).value();
  EXPECT_EQ(late.address(), address);
  EXPECT_EQ(info().reusedDone, 1);
  EXPECT_EQ(info().reusedInOrder, 0);
  EXPECT_EQ(info().allocations, 3);
  EXPECT_EQ(info().usedBytes, 2 * kMiB);
  EXPECT_EQ(info().reservedBytes, 2 * kMiB);
}

TEST_F(StreamOrderedAllocation, MemoryThatIsLetGoComesBackWhenItsWorkIsDone) {
  auto probe = hold(stream);
  Buffer a = stream.allocate(kMiB).value();
  const uint64_t address = a.address();
  ASSERT_TRUE(stream.fill(a, 1, kMiB).ok());
  a = Buffer();
  EXPECT_EQ(info().usedBytes, 0);
  EXPECT_NE(stream.allocate(kMiB).value().address(), address);  // In no stream's order.
  EXPECT_EQ(device.find(address).status().code(), StatusCode::kNotFound);
  release(probe);
  ASSERT_TRUE(stream.synchronize().ok());
  Buffer again = stream.allocate(kMiB).value(), more = stream.allocate(kMiB).value();
  EXPECT_TRUE(again.address() == address || more.address() == address);
  EXPECT_EQ(info().reservedBytes, 2 * kMiB);
}

TEST_F(StreamOrderedAllocation, OtherHandlesAndViewsKeepTheMemory) {
  auto probe = hold(stream);
  Buffer a = stream.allocate(kMiB).value(), handle = a;
  const uint64_t address = a.address();
  ASSERT_TRUE(stream.fill(a, 1, kMiB).ok());
  ASSERT_TRUE(give(stream, a).ok());
  EXPECT_EQ(stream.free(handle).code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(stream.allocate(kMiB).value().address(), address);
  Buffer view = handle.slice(kKiB, kKiB).value();
  handle = Buffer();
  release(probe);
  ASSERT_TRUE(stream.synchronize().ok());
  Buffer b = stream.allocate(kMiB).value(), c = stream.allocate(kMiB).value();
  EXPECT_NE(b.address(), address);
  EXPECT_NE(c.address(), address);
  view = Buffer();
  EXPECT_EQ(stream.allocate(kMiB).value().address(), address);
}

TEST_F(StreamOrderedAllocation, SaysWhatIsWrong) {
  MemoryPool pool = MemoryPool::create(device, {"activations"}).value();
  Buffer plain = device.allocate(kKiB).value(), a = pool.allocate(kKiB, stream).value();
  EXPECT_EQ(stream.free(Buffer()).code(), StatusCode::kInvalidArgument);
  Status status = stream.free(plain);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("is of no pool"));
  status = pool.free(a.slice(0, 16).value(), stream);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("is a view"));
  status = MemoryPool::defaultOf(device).value().free(a, stream);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("another pool, 'activations'"));
  EXPECT_TRUE(stream.free(a).ok());  // Of any pool.
  status = pool.free(a, stream);
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("freed already"));

  DeviceOptions null;
  null.driver = "null";
  null.hbmBytes = 16 * kMiB;
  Device second = Device::open(null).value();
  Stream elsewhere = Stream::create(second).value();
  EXPECT_EQ(pool.allocate(kKiB, elsewhere).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(elsewhere.free(pool.allocate(kKiB, stream).value()).code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(elsewhere.free(elsewhere.allocate(kKiB).value()).ok());

  EXPECT_EQ(stream.allocate(0).status().code(), device.allocate(0).status().code());
  EXPECT_EQ(stream.allocate(-1).status().code(), device.allocate(-1).status().code());
  EXPECT_EQ(stream.allocate(INT64_MAX).status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(Stream().allocate(1).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(Stream().free(plain).code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(MemoryPool().allocate(1, stream).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(pool.allocate(1, Stream()).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(MemoryPool::create(Device()).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(MemoryPool::defaultOf(Device()).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(MemoryPool::create(device, {"less", -1}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_FALSE(MemoryPool().valid());
  EXPECT_EQ(MemoryPool().trim(), 0);
}

TEST_F(StreamOrderedAllocation, HoldsNoMoreThanMaxBytes) {
  MemoryPool pool = MemoryPool::create(device, {"small", 4 * kMiB}).value();
  Buffer a = pool.allocate(2 * kMiB, stream).value(), b = pool.allocate(2 * kMiB, stream).value();
  auto c = pool.allocate(kKiB, stream);
  EXPECT_EQ(c.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(c.status().message(), AllOf(HasSubstr("'small'"), HasSubstr("may hold 4"), HasSubstr("maxBytes")));
  ASSERT_TRUE(give(stream, b).ok());
  // What is unused makes room for another size.
  Buffer d = pool.allocate(kMiB, stream).value();
  EXPECT_LE(pool.info().reservedBytes, 4 * kMiB);
  EXPECT_EQ(pool.info().peakReservedBytes, 4 * kMiB);
  // Behind work that is not done the whole block will do, as large as it is.
  auto probe = hold(stream);
  ASSERT_TRUE(stream.fill(a, 1, kMiB).ok());
  ASSERT_TRUE(give(stream, a).ok());
  ASSERT_TRUE(stream.fill(d, 1, kMiB).ok());
  Buffer e = pool.allocate(kMiB, stream).value(), f = pool.allocate(kMiB, stream).value();
  EXPECT_LE(pool.info().reservedBytes, 4 * kMiB);
  release(probe);
  ASSERT_TRUE(stream.synchronize().ok());
}

TEST_F(StreamOrderedAllocation, KeepsNoMoreThanKeepBytesAndTrims) {
  MemoryPool pool = MemoryPool::create(device, {"kept", 0, kMiB}).value();
  std::vector<Buffer> buffers;
  for (int i = 0; i < 4; ++i) buffers.push_back(pool.allocate(kMiB, stream).value());
  EXPECT_EQ(device.memoryInfo().usedBytes, 4 * kMiB);
  for (Buffer& buffer : buffers) ASSERT_TRUE(give(stream, buffer).ok());
  EXPECT_EQ(pool.info().reservedBytes, kMiB);
  EXPECT_EQ(device.memoryInfo().usedBytes, kMiB);
  EXPECT_EQ(pool.trim(-1), 0);
  EXPECT_EQ(pool.trim(2 * kMiB), 0);
  EXPECT_EQ(pool.trim(), kMiB);
  EXPECT_EQ(device.memoryInfo().usedBytes, 0);
  EXPECT_EQ(pool.info().peakReservedBytes, 4 * kMiB);
  EXPECT_EQ(pool.info().peakUsedBytes, 4 * kMiB);
  pool.resetPeaks();
  EXPECT_EQ(pool.info().peakReservedBytes, 0);
  EXPECT_EQ(pool.info().peakUsedBytes, 0);
}

TEST_F(StreamOrderedAllocation, MemoryGoesBackWithTheLastHandleAndTheLastBuffer) {
  MemoryPool pool = MemoryPool::create(device, {"short"}).value();
  Buffer a = pool.allocate(kMiB, stream).value(), b = pool.allocate(kMiB, stream).value();
  ASSERT_TRUE(give(stream, b).ok());
  pool = MemoryPool();
  EXPECT_EQ(device.memoryInfo().usedBytes, 2 * kMiB);
  ASSERT_EQ(device.memoryHolders().size(), 1u);
  EXPECT_EQ(device.memoryHolders()[0].label, "short");
  a = Buffer();
  EXPECT_EQ(device.memoryInfo().usedBytes, 0);
}

TEST_F(StreamOrderedAllocation, GivesUpWhatIsUnusedWhenTheDeviceIsFull) {
  std::atomic<int> asked{0};
  MemoryHooks hooks;
  hooks.outOfMemory = [&](int64_t) {
    ++asked;
    return false;
  };
  ASSERT_TRUE(device.setMemoryHooks(hooks).ok());
  const int64_t most = device.memoryInfo().totalBytes - device.memoryInfo().usedBytes;
  Buffer a = stream.allocate(most / 2).value();
  ASSERT_TRUE(give(stream, a).ok());
  AllocateOptions now;
  now.wait = false;
  EXPECT_TRUE(device.allocate(most - kMiB, now).ok());
  EXPECT_EQ(asked, 0);
  EXPECT_EQ(info().reservedBytes, 0);

  // Behind work that is not done: the allocation waits for it.
  auto probe = hold(stream);
  Buffer b = stream.allocate(most / 2).value();
  ASSERT_TRUE(stream.fill(b, 1, 16).ok());
  ASSERT_TRUE(give(stream, b).ok());
  EXPECT_EQ(device.allocate(most - kMiB, now).status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(asked, 1);
  auto waiting = std::async(std::launch::async, [&] { return device.allocate(most - kMiB).status(); });
  release(probe);
  EXPECT_TRUE(waiting.get().ok());

  // All of the device, whatever the classes of sizes are, and blocks that are too large by far when there is nothing
  // else.
  Buffer all = stream.allocate(most - most % 256).value();
  probe = hold(stream);
  ASSERT_TRUE(stream.fill(all, 1, 16).ok());
  const uint64_t address = all.address();
  ASSERT_TRUE(give(stream, all).ok());
  EXPECT_EQ(stream.allocate(kKiB).value().address(), address);
  release(probe);
  ASSERT_TRUE(stream.synchronize().ok());
  ASSERT_TRUE(device.setMemoryHooks({}).ok());
}

TEST_F(StreamOrderedAllocation, MemoryOfFailedStreamsAndOfResetDevicesIsUsedAgain) {
  ASSERT_TRUE(stream.callHost([] { return unavailable("no more"); }).ok());
  Buffer a = stream.allocate(kMiB).value();
  const uint64_t address = a.address();
  ASSERT_TRUE(stream.fill(a, 1, kMiB).ok());
  ASSERT_TRUE(give(stream, a).ok());
  EXPECT_EQ(stream.synchronize().code(), StatusCode::kUnavailable);
  Buffer b = other.allocate(kMiB).value();
  EXPECT_EQ(b.address(), address);
  auto probe = std::make_shared<ExternalProbe>("stuck");
  probe->onCancel = [&](const Status& why) { probe->complete(why, 0); };
  ASSERT_TRUE(other.enqueue(probe).ok());
  ASSERT_TRUE(probe->awaitStart());
  ASSERT_TRUE(other.fill(b, 1, kMiB).ok());
  ASSERT_TRUE(give(other, b).ok());
  ASSERT_TRUE(device.reset().ok());
  EXPECT_EQ(stream.allocate(kMiB).value().address(), address);
}

TEST_F(StreamOrderedAllocation, StreamsMayGoBeforeTheirMemory) {
  uint64_t address = 0;
  std::shared_ptr<ExternalProbe> probe;
  {
    Stream brief = Stream::create(device, {"brief"}).value();
    probe = hold(brief);
    Buffer a = brief.allocate(kMiB).value();
    address = a.address();
    ASSERT_TRUE(brief.fill(a, 7, kMiB).ok());
    ASSERT_TRUE(give(brief, a).ok());
  }
  Stream next = Stream::create(device, {"next"}).value();
  EXPECT_NE(next.allocate(kMiB).value().address(), address);
  release(probe);
  ASSERT_TRUE(device.synchronize().ok());
  Buffer b = next.allocate(kMiB).value(), c = next.allocate(kMiB).value();
  EXPECT_TRUE(b.address() == address || c.address() == address);
}

TEST_F(StreamOrderedAllocation, TakesNoDeviceTime) {
  Event before, after;
  ASSERT_TRUE(stream.record(before).ok());
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(stream.free(stream.allocate(kMiB).value()).ok());
  ASSERT_TRUE(stream.record(after).ok());
  ASSERT_TRUE(stream.synchronize().ok());
  EXPECT_EQ(after.elapsedNsSince(before).value(), 0);
}

TEST_F(StreamOrderedAllocation, InACaptureMemoryIsTheGraphs) {
  std::vector<uint8_t> first(kKiB), second(kKiB);
  GraphInstance instance;
  uint64_t address = 0;
  {
    Buffer before = stream.allocate(64 * kKiB).value();  // Is not for the graph: another stream may replay it.
    const uint64_t outside = before.address();
    auto probe = hold(stream);
    ASSERT_TRUE(stream.fill(before, 1, kKiB).ok());
    ASSERT_TRUE(give(stream, before).ok());
    CaptureSession capture = CaptureSession::begin(stream).value();
    Buffer a = stream.allocate(64 * kKiB).value();
    address = a.address();
    EXPECT_NE(address, outside);
    ASSERT_TRUE(stream.fill(a, 3, kKiB).ok());
    ASSERT_TRUE(stream.copyToHost(first.data(), a, kKiB).ok());
    ASSERT_TRUE(give(stream, a).ok());
    Buffer b = stream.allocate(64 * kKiB).value();
    EXPECT_EQ(b.address(), address);
    ASSERT_TRUE(stream.fill(b, 4, kKiB).ok());
    ASSERT_TRUE(stream.copyToHost(second.data(), b, kKiB).ok());
    ASSERT_TRUE(give(stream, b).ok());
    instance = capture.end().value().instantiate().value();
    release(probe);
  }
  ASSERT_TRUE(stream.synchronize().ok());
  Buffer mine = stream.allocate(64 * kKiB).value(), more = stream.allocate(64 * kKiB).value();
  EXPECT_NE(mine.address(), address);
  EXPECT_NE(more.address(), address);
  ASSERT_TRUE(stream.fill(mine, 9, kKiB).ok());
  for (int i = 0; i < 2; ++i) {
    first.assign(kKiB, 0);
    second.assign(kKiB, 0);
    ASSERT_TRUE(instance.replay(other).ok());
    ASSERT_TRUE(other.synchronize().ok());
    EXPECT_EQ(first, std::vector<uint8_t>(kKiB, 3));
    EXPECT_EQ(second, std::vector<uint8_t>(kKiB, 4));
  }
  instance = GraphInstance();
  EXPECT_EQ(stream.allocate(64 * kKiB).value().address(), address);
}

TEST_F(StreamOrderedAllocation, MemoryOfACaptureThatIsFreedBehindItStaysTheGraphs) {
  CaptureSession capture = CaptureSession::begin(stream).value();
  Buffer a = stream.allocate(kKiB).value();
  const uint64_t address = a.address();
  ASSERT_TRUE(stream.fill(a, 3, kKiB).ok());
  GraphInstance instance = capture.end().value().instantiate().value();
  ASSERT_TRUE(give(stream, a).ok());
  EXPECT_NE(stream.allocate(kKiB).value().address(), address);
  EXPECT_TRUE(instance.replay(stream).ok());
  EXPECT_TRUE(stream.synchronize().ok());
}

TEST_F(StreamOrderedAllocation, AForkedChildIsRefusedAndMayLetGo) {
  MemoryPool pool = MemoryPool::create(device, {"parent"}).value();
  Buffer a = pool.allocate(kMiB, stream).value();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    bool good = pool.allocate(kKiB, stream).status().code() == StatusCode::kFailedPrecondition &&
                stream.allocate(kKiB).status().code() == StatusCode::kFailedPrecondition &&
                stream.free(a).code() == StatusCode::kFailedPrecondition &&
                a.slice(0, 1).status().code() == StatusCode::kFailedPrecondition &&
                a.hostView().status().code() == StatusCode::kFailedPrecondition && pool.info().usedBytes == 0 &&
                pool.trim() == 0;
    a = Buffer();
    pool = MemoryPool();
    ::_exit(good ? 0 : 1);
  }
  int result = -1;
  ASSERT_EQ(::waitpid(child, &result, 0), child);
  EXPECT_EQ(result, 0);
  EXPECT_EQ(pool.info().usedBytes, kMiB);
  EXPECT_TRUE(give(stream, a).ok());
}

/// Live buffers of all streams: no two of them may overlap.
class LiveRanges {
 public:
  void add(const Buffer& buffer) {
    std::lock_guard lock(mutex_);
    const uint64_t begin = buffer.address(), end = begin + static_cast<uint64_t>(buffer.size());
    auto next = ranges_.lower_bound(begin);
    EXPECT_TRUE(next == ranges_.end() || next->first >= end);
    EXPECT_TRUE(next == ranges_.begin() || std::prev(next)->second <= begin);
    ranges_[begin] = end;
  }
  void remove(const Buffer& buffer) {
    std::lock_guard lock(mutex_);
    ranges_.erase(buffer.address());
  }

 private:
  std::mutex mutex_;
  std::map<uint64_t, uint64_t> ranges_;
};

TEST_F(StreamOrderedAllocation, RandomUseByManyStreamsKeepsDataApart) {
  MemoryPool pool = MemoryPool::create(device, {"random", 24 * kMiB, kMiB}).value();
  LiveRanges live;
  auto use = [&](unsigned seed) {
    std::mt19937 random(seed);
    Stream mine = Stream::create(device, {"random"}).value();
    struct Held {
      Buffer buffer;
      uint8_t value;
    };
    struct Seen {
      std::vector<uint8_t> data;
      uint8_t value;
    };
    std::vector<Held> held;
    std::deque<Seen> seen;  // Where copies go.
    constexpr int64_t kProbe = 32;
    for (int step = 0; step < 600; ++step) {
      const bool grow = held.size() < 2 || (held.size() < 12 && random() % 2 == 0);
      if (grow) {
        const int64_t bytes = kProbe + static_cast<int64_t>(random() % (random() % 8 == 0 ? 256 * kKiB : 8 * kKiB));
        Held one{pool.allocate(bytes, mine).value(), static_cast<uint8_t>(random())};
        live.add(one.buffer);
        ASSERT_TRUE(mine.fill(one.buffer, one.value, bytes).ok());
        held.push_back(std::move(one));
      } else {
        std::swap(held[random() % held.size()], held.back());
        Held one = std::move(held.back());
        held.pop_back();
        for (int64_t offset : {int64_t{0}, one.buffer.size() - kProbe}) {
          seen.push_back({std::vector<uint8_t>(kProbe), one.value});
          ASSERT_TRUE(mine.copyToHost(seen.back().data.data(), one.buffer, kProbe, offset).ok());
        }
        live.remove(one.buffer);
        if (random() % 4 != 0) {
          ASSERT_TRUE(give(mine, one.buffer).ok());
        }
      }
      if (random() % 64 == 0) pool.trim(static_cast<int64_t>(random() % kMiB));
      if (random() % 100 == 0) {
        ASSERT_TRUE(mine.synchronize().ok());
      }
    }
    ASSERT_TRUE(mine.synchronize().ok());
    for (const Seen& one : seen) EXPECT_EQ(one.data, std::vector<uint8_t>(kProbe, one.value));
    for (const Held& one : held) live.remove(one.buffer);
  };
  std::vector<std::thread> threads;
  for (unsigned seed = 1; seed <= 3; ++seed) threads.emplace_back(use, seed);
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(device.synchronize().ok());
  EXPECT_EQ(pool.info().usedBytes, 0);
  EXPECT_LE(pool.info().reservedBytes, kMiB);
  EXPECT_GT(pool.info().reusedInOrder, 0);
}

TEST_F(StreamOrderedAllocation, ThreadsUnderMemoryPressureGetWhatOthersLetGo) {
  stream = other = Stream();
  device = Device();
  device = open(16 * kMiB);
  auto use = [&](unsigned seed) {
    std::mt19937 random(seed);
    MemoryPool pool = MemoryPool::create(device, {"pressed"}).value();
    Stream mine = Stream::create(device).value();
    for (int step = 0; step < 60; ++step) {
      const int64_t bytes = kMiB + static_cast<int64_t>(random() % (kMiB * 3 / 2));
      auto allocated = pool.allocate(bytes, mine);
      // What others use just now, or are just giving back, is not waited for.
      for (int attempt = 0; attempt < 1000 && !allocated.ok(); ++attempt) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        allocated = pool.allocate(bytes, mine);
      }
      ASSERT_TRUE(allocated.ok()) << allocated.status().message();
      Buffer buffer = std::move(*allocated);
      ASSERT_TRUE(mine.fill(buffer, 1, kKiB).ok());
      ASSERT_TRUE(give(mine, buffer).ok());
    }
  };
  // At most three live buffers of less than 3 MiB: wherever two of them lie, the third fits.
  std::vector<std::thread> threads;
  for (unsigned seed = 1; seed <= 3; ++seed) threads.emplace_back(use, seed);
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(device.synchronize().ok());
  EXPECT_EQ(device.memoryInfo().usedBytes, 0);
}

}  // namespace
}  // namespace hpu
