// SPDX-License-Identifier: Apache-2.0
// Empty handles (docs/embedding.md, "Handles"): every call of one, and every call that one is given to, is an error
// that names it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "hpu/capture.h"
#include "hpu/device.h"
#include "hpu/dlpack.h"
#include "hpu/eager.h"
#include "hpu/event.h"
#include "hpu/executable.h"
#include "hpu/health.h"
#include "hpu/memory_pool.h"
#include "hpu/stream.h"

namespace hpu {
namespace {

using ::testing::AnyOf;
using ::testing::Eq;
using ::testing::HasSubstr;

struct Call {
  const char* name;
  Status status;
};

/// All are errors, and say which handle was empty.
void expectRefused(const std::vector<Call>& calls) {
  for (const auto& [name, status] : calls) {
    EXPECT_THAT(status.code(), AnyOf(Eq(StatusCode::kFailedPrecondition), Eq(StatusCode::kInvalidArgument)))
        << name << ": " << status.toString();
    EXPECT_THAT(status.message(), HasSubstr("empty")) << name;
  }
}

Device openDevice() {
  DeviceOptions options;
  options.index = 0;
  options.hbmBytes = 64 << 20;
  return Device::open(options).value();
}

struct NoWork final : ExternalWork {
  std::string name() const override { return "nothing"; }
  void start(std::shared_ptr<ExternalTurn> turn) override { turn->complete(okStatus(), 0); }
  void skipped(const Status&) override {}
  void cancel(const Status&) override {}
};
struct NoRepeat final : RepeatableWork {
  std::string name() const override { return "nothing"; }
  Status enqueue(const Stream&, const std::vector<WorkMemory>&) override { return okStatus(); }
};

TEST(EmptyHandle, OfADevice) {
  Device none;
  EXPECT_FALSE(none.valid());
  int byte = 0;
  expectRefused({{"allocate", none.allocate(1).status()},
                 {"allocate options", none.allocate(1, AllocateOptions()).status()},
                 {"find", none.find(kHbmBase).status()},
                 {"allocateHost", none.allocateHost(1).status()},
                 {"freeHost", none.freeHost(&byte)},
                 {"mapHost", none.mapHost(&byte, 1)},
                 {"unmapHost", none.unmapHost(&byte)},
                 {"findHost", none.findHost(&byte).status()},
                 {"importHost", none.importHost(0, 0, 1).status()},
                 {"exportHost", none.exportHost(&byte).status()},
                 {"memoryFile", none.memoryFile(kHbmBase, 1).status()},
                 {"checkWrite", none.checkWrite(kHbmBase, 1)},
                 {"setMemoryHooks", none.setMemoryHooks({})},
                 {"setHealthHook", none.setHealthHook({})},
                 {"synchronize", none.synchronize()},
                 {"reset", none.reset()},
                 {"Stream::create", Stream::create(none).status()},
                 {"MemoryPool::create", MemoryPool::create(none).status()},
                 {"MemoryPool::defaultOf", MemoryPool::defaultOf(none).status()},
                 {"Executable::load", Executable::load(none, Recipe()).status()},
                 {"EagerCache::executable",
                  EagerCache().executable(none, EagerKey(), [] { return StatusOr<Recipe>(Recipe()); }).status()}});
  EXPECT_EQ(none.info().hbmBytes, 0);
  EXPECT_EQ(none.memoryInfo().totalBytes, 0);
  EXPECT_TRUE(none.memoryHolders().empty());
  EXPECT_EQ(none.counters().launches, 0);
  EXPECT_EQ(none.workDone(), 0u);
  none.resetPeakMemory();
  reportHealth(none, {HealthEvent::Kind::kRankLost, "", aborted("by hand")});
  EagerCache().forget(none);
}

TEST(EmptyHandle, OfAStream) {
  Device device = openDevice();
  Buffer buffer = device.allocate(4).value();
  MemoryPool pool = MemoryPool::create(device).value();
  Stream none;
  Event event;
  int32_t data = 0;
  const uint64_t address = buffer.address();
  expectRefused({{"copyToDevice", none.copyToDevice(buffer, &data, 4)},
                 {"copyToHost", none.copyToHost(&data, buffer, 4)},
                 {"copyOnDevice", none.copyOnDevice(buffer, 0, buffer, 0, 4)},
                 {"fill", none.fill(buffer, 0, 4)},
                 {"copyToDevice by address", none.copyToDevice(address, &data, 4)},
                 {"copyToHost by address", none.copyToHost(&data, address, 4)},
                 {"copyOnDevice by address", none.copyOnDevice(address, address, 4)},
                 {"fill by address", none.fill(address, 0, 4, 1)},
                 {"copyMany", none.copyMany(CopyDirection::kOnDevice, {})},
                 {"copyFromDevice", none.copyFromDevice(buffer, 0, buffer, 0, 4)},
                 {"allocate", none.allocate(4).status()},
                 {"free", none.free(buffer)},
                 {"enqueue", none.enqueue(std::make_shared<NoWork>())},
                 {"enqueue with event", none.enqueue(std::make_shared<NoWork>(), event)},
                 {"enqueueRepeatable", none.enqueueRepeatable(std::make_shared<NoRepeat>())},
                 {"callHost", none.callHost([] { return okStatus(); })},
                 {"onDone", none.onDone([](const Status&) {})},
                 {"record", none.record(event)},
                 {"wait", none.wait(event)},
                 {"waitInOrder", none.waitInOrder(event)},
                 {"query", none.query().status()},
                 {"error", none.error()},
                 {"synchronize", none.synchronize()},
                 {"pool allocate", pool.allocate(4, none).status()},
                 {"pool free", pool.free(buffer, none)},
                 {"CaptureSession::begin", CaptureSession::begin(none).status()}});
  EXPECT_FALSE(none.device().valid());
  EXPECT_EQ(CaptureSession::of(none), 0u);
  std::vector<int64_t> ready;
  EXPECT_FALSE(none.extend(NoWork(), {}, ready));
  none.seal();
}

TEST(EmptyHandle, OfABufferThatWasMovedFrom) {
  Device device = openDevice();
  Stream stream = Stream::create(device).value();
  MemoryPool pool = MemoryPool::create(device).value();
  Buffer first = device.allocate(4).value();
  Buffer second = std::move(first);
  int32_t data = 0;
  const Buffer& none = first;  // NOLINT(bugprone-use-after-move)
  EXPECT_FALSE(none.valid());
  EXPECT_EQ(none.address(), 0u);
  EXPECT_EQ(none.size(), 0);
  expectRefused({{"slice", none.slice(0, 0).status()},
                 {"hostView", none.hostView().status()},
                 {"copyToDevice", stream.copyToDevice(none, &data, 4)},
                 {"copyToHost", stream.copyToHost(&data, none, 4)},
                 {"copyOnDevice to", stream.copyOnDevice(none, 0, second, 0, 4)},
                 {"copyOnDevice from", stream.copyOnDevice(second, 0, none, 0, 4)},
                 {"copyFromDevice to", stream.copyFromDevice(none, 0, second, 0, 4)},
                 {"copyFromDevice from", stream.copyFromDevice(second, 0, none, 0, 4)},
                 {"fill", stream.fill(none, 0, 4)},
                 {"free", stream.free(none)},
                 {"pool free", pool.free(none, stream)},
                 {"SharedTensor", SharedTensor::ofBuffer(none, ElementType::kF32, {1}).status()}});
  EXPECT_EQ(second.size(), 4);
}

TEST(EmptyHandle, OfWhatRunsOnAStream) {
  Device device = openDevice();
  Stream stream = Stream::create(device).value();
  Executable executable;
  MemoryPool pool;
  CapturedGraph graph;
  GraphInstance instance;
  int byte = 0;
  EXPECT_FALSE(pool.valid() || graph.valid() || instance.valid());
  Buffer buffer = device.allocate(4).value();
  CaptureSession session = CaptureSession::begin(stream).value();
  CaptureSession moved = std::move(session);
  const Status ended = session.end().status();  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(ended.code(), StatusCode::kFailedPrecondition);
  EXPECT_FALSE(session.active());
  EXPECT_TRUE(moved.end().ok());
  expectRefused({{"load", Executable::load(device, Recipe()).status()},
                 {"outputOrder", Executable::outputOrder(Recipe()).status()},
                 {"launch", executable.launch(stream, std::vector<Buffer>(), std::vector<Buffer>())},
                 {"launch by address", executable.launch(stream, LaunchArguments())},
                 {"pool allocate", pool.allocate(4, stream).status()},
                 {"pool free", pool.free(buffer, stream)},
                 {"instantiate", graph.instantiate().status()},
                 {"replay", instance.replay(stream)},
                 {"rebind", instance.rebind(kHbmBase, kHbmBase, 1)},
                 {"rebind buffer", instance.rebind(buffer, buffer)},
                 {"rebindSource", instance.rebindSource(&byte, &byte, 1)},
                 {"rebindDestination", instance.rebindDestination(&byte, &byte, 1)}});
  EXPECT_FALSE(executable.recipe().valid());
  EXPECT_EQ(executable.workspaceBytes(), 0);
  EXPECT_EQ(pool.trim(), 0);
  EXPECT_EQ(pool.info().allocations, 0);
  pool.resetPeaks();
  EXPECT_EQ(graph.operations() + graph.launches() + graph.branches(), 0);
  EXPECT_TRUE(graph.describe().empty());
}

TEST(EmptyHandle, OfARecipeOrTensor) {
  Recipe none;
  expectRefused({{"save", none.save("/nowhere")},
                 {"serialize", none.serialize().status()},
                 {"signedWith", none.signedWith("/nowhere").status()}});
  EXPECT_EQ(none.name() + none.signer(), "");
  EXPECT_TRUE(none.inputs().empty() && none.outputs().empty());
  EXPECT_EQ(none.workspaceBytes() + none.constantBytes(), 0);
  EXPECT_EQ(none.estimatedDeviceTimeUs(), 0);
  SharedTensor tensor;
  EXPECT_EQ(tensor.type(), ElementType::kInvalid);
  EXPECT_TRUE(tensor.shape().empty());
  EXPECT_EQ(tensor.bytes(), 0);
  EXPECT_FALSE(tensor.valid() || tensor.onDevice() || tensor.buffer().valid());
  EXPECT_EQ(tensor.data(), nullptr);
  expectRefused({{"toDlpack", toDlpack(tensor).status()}});
}

/// These have no move of their own: a moved one is copied, and stays what it was.
TEST(MovedHandle, OfADeviceStreamOrEventStaysWhatItWas) {
  Device device = openDevice();
  Device device2 = std::move(device);
  EXPECT_TRUE(device.valid());  // NOLINT(bugprone-use-after-move)
  Stream stream = Stream::create(device).value();
  Stream stream2 = std::move(stream);
  Event event;
  Event event2 = std::move(event);
  EXPECT_TRUE(stream.record(event).ok());  // NOLINT(bugprone-use-after-move)
  EXPECT_TRUE(event2.synchronize().ok());
  EXPECT_TRUE(stream2.synchronize().ok());
}

}  // namespace
}  // namespace hpu
