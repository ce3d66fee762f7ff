// SPDX-License-Identifier: Apache-2.0
// Host memory that launches, fills and copies on the device use in place: HostMemory::deviceAddress.
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "LaunchFixture.h"
#include "arch/TargetDesc.h"
#include "hpu/capture.h"
#include "hpu/event.h"
#include "hpu/executable.h"
#include "perfmodel/EngineCost.h"

namespace hpu {
namespace {

using testing::copyProgram;
using testing::copyThenMultiplyProgram;
using ::testing::HasSubstr;
using testing::swapProgram;
using testing::toRecipe;

constexpr int64_t kN = 64;  // Of matrices of f32.
constexpr int64_t kCount = 50000, kBytes = kCount * 4;

class PinnedHostMemory : public testing::LaunchFixture {
 protected:
  HostMemory pinned(int64_t bytes) { return device.allocateHost(bytes, "pinned").value(); }
  HostMemory pinned(const std::vector<int32_t>& data) {
    HostMemory memory = pinned(static_cast<int64_t>(data.size() * 4));
    std::memcpy(memory.data, data.data(), data.size() * 4);
    return memory;
  }
  static std::vector<int32_t> ints(const HostMemory& memory) {
    std::vector<int32_t> data(static_cast<size_t>(memory.bytes / 4));
    std::memcpy(data.data(), memory.data, data.size() * 4);
    return data;
  }
  Executable load(std::shared_ptr<const recipe::Program> program) {
    return Executable::load(device, toRecipe(std::move(program))).value();
  }
  /// Device time of what `enqueue` enqueues.
  int64_t timeOf(const std::function<Status()>& enqueue) {
    Event before, after;
    EXPECT_TRUE(stream.synchronize().ok());
    EXPECT_TRUE(stream.record(before).ok());
    Status status = enqueue();
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_TRUE(stream.record(after).ok());
    status = stream.synchronize();
    EXPECT_TRUE(status.ok()) << status.message();
    return after.elapsedNsSince(before).value();
  }
  static int64_t linkNs(int64_t bytes) {
    return perfmodel::hostCopyCost(arch::targetDesc(Target::kGaudi2), bytes).alone / 1000;
  }
};

TEST_F(PinnedHostMemory, KernelsReadAndWriteInPlaceWithTheSameBits) {
  std::vector<float> x(kN * kN);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>((i * 7919) % 1000) / 331.0f - 1.5f;
  const auto bytes = static_cast<int64_t>(x.size() * 4);
  Executable program = load(copyThenMultiplyProgram(kN));
  Buffer in = device.allocate(bytes).value(), copied = device.allocate(bytes).value(),
         product = device.allocate(bytes).value();
  ASSERT_TRUE(stream.copyToDevice(in, x.data(), bytes).ok());
  const int64_t inHbm = timeOf([&] { return program.launch(stream, {in}, {copied, product}); });
  std::vector<float> expectCopied(x.size()), expectProduct(x.size());
  ASSERT_TRUE(stream.copyToHost(expectCopied.data(), copied, bytes).ok());
  ASSERT_TRUE(stream.copyToHost(expectProduct.data(), product, bytes).ok());
  ASSERT_TRUE(stream.synchronize().ok());

  HostMemory hostIn = pinned(bytes), hostCopied = pinned(bytes), hostProduct = pinned(bytes);
  ASSERT_NE(hostIn.deviceAddress, 0u);
  std::memcpy(hostIn.data, x.data(), x.size() * 4);
  const LaunchArguments arguments{{hostIn.deviceAddress}, {hostCopied.deviceAddress, hostProduct.deviceAddress}, 0, {}};
  const DeviceCounters before = device.counters();
  const int64_t inHost = timeOf([&] { return program.launch(stream, arguments); });
  EXPECT_EQ(std::memcmp(hostCopied.data, expectCopied.data(), x.size() * 4), 0);
  EXPECT_EQ(std::memcmp(hostProduct.data, expectProduct.data(), x.size() * 4), 0);
  EXPECT_EQ(std::memcmp(hostIn.data, x.data(), x.size() * 4), 0);
  // What the link adds, to the nanosecond that times are rounded to.
  EXPECT_NEAR(static_cast<double>(inHost - inHbm), static_cast<double>(linkNs(bytes) + linkNs(2 * bytes)), 2);
  const DeviceCounters after = device.counters();
  EXPECT_EQ(after.h2dBytes - before.h2dBytes, bytes);
  EXPECT_EQ(after.d2hBytes - before.d2hBytes, 2 * bytes);
  // And again, by the plan that was kept.
  std::memset(hostProduct.data, 0, x.size() * 4);
  EXPECT_EQ(timeOf([&] { return program.launch(stream, arguments); }), inHost);
  EXPECT_EQ(std::memcmp(hostProduct.data, expectProduct.data(), x.size() * 4), 0);
}

TEST_F(PinnedHostMemory, ALaunchMayMixHbmAndHostMemory) {
  Executable swap = load(swapProgram(kCount));
  HostMemory in = pinned(ramp(kCount)), out = pinned(kBytes);
  Buffer hbmIn = upload(ramp(kCount, 1000)), hbmOut = vector(kCount);
  const int64_t alone = timeOf([&] { return swap.launch(stream, {hbmIn, hbmIn}, {hbmOut, vector(kCount)}); });
  const int64_t mixed = timeOf([&] {
    return swap.launch(
        stream, LaunchArguments{{in.deviceAddress, hbmIn.address()}, {out.deviceAddress, hbmOut.address()}, 0, {}});
  });
  EXPECT_EQ(ints(out), ramp(kCount, 1000));
  EXPECT_EQ(download(hbmOut), ramp(kCount));
  EXPECT_NEAR(static_cast<double>(mixed - alone), static_cast<double>(2 * linkNs(kBytes)), 2);
}

TEST_F(PinnedHostMemory, AnOutputMayOverwriteAnInputThere) {
  Executable swap = load(swapProgram(kCount));
  HostMemory a = pinned(ramp(kCount)), b = pinned(ramp(kCount, 7));
  ASSERT_TRUE(
      swap.launch(stream,
                  LaunchArguments{{a.deviceAddress, b.deviceAddress}, {a.deviceAddress, b.deviceAddress}, 0, {}})
          .ok());
  ASSERT_TRUE(stream.synchronize().ok());
  EXPECT_EQ(ints(a), ramp(kCount, 7));
  EXPECT_EQ(ints(b), ramp(kCount));
}

TEST_F(PinnedHostMemory, CopiesAndFillsOnTheDeviceReachItOverTheLink) {
  HostMemory a = pinned(ramp(kCount)), b = pinned(kBytes);
  Buffer hbm = vector(kCount);
  EXPECT_NEAR(static_cast<double>(timeOf([&] { return stream.copyOnDevice(hbm.address(), a.deviceAddress, kBytes); })),
              static_cast<double>(linkNs(kBytes)), 2);
  EXPECT_EQ(download(hbm), ramp(kCount));
  EXPECT_NEAR(static_cast<double>(timeOf([&] { return stream.copyOnDevice(b.deviceAddress, hbm.address(), kBytes); })),
              static_cast<double>(linkNs(kBytes)), 2);
  EXPECT_EQ(ints(b), ramp(kCount));
  // Pattern and odd sizes as in HBM.
  ASSERT_TRUE(stream.fill(a.deviceAddress + 2, 0x1234, 2, 3).ok());
  ASSERT_TRUE(stream.synchronize().ok());
  EXPECT_EQ(ints(a)[0], 0x12340000);
  EXPECT_EQ(ints(a)[1], 0x12341234);
  EXPECT_EQ(ints(a)[2], 2);
  // Host to host, and all kinds at once; overlapping ranges too.
  EXPECT_NEAR(static_cast<double>(
                  timeOf([&] { return stream.copyOnDevice(b.deviceAddress + 4, b.deviceAddress, kBytes - 4); })),
              static_cast<double>(2 * linkNs(kBytes - 4)), 2);
  EXPECT_EQ(ints(b)[1], 0);
  EXPECT_EQ(ints(b).back(), kCount - 2);
  Buffer other = vector(kCount);
  ASSERT_TRUE(stream
                  .copyMany(CopyDirection::kOnDevice, {{other.address(), hbm.address(), kBytes / 2},
                                                       {other.address() + kBytes / 2, b.deviceAddress, kBytes / 2},
                                                       {a.deviceAddress, hbm.address(), kBytes}})
                  .ok());
  EXPECT_EQ(download(other.address() + kBytes / 2, 2), (std::vector<int32_t>{0, 0}));
  EXPECT_EQ(download(other.address(), 3), ramp(3));
  EXPECT_EQ(ints(a), ramp(kCount));
}

TEST_F(PinnedHostMemory, ItLivesUntilTheLaunchThatUsesItIsDone) {
  Executable copy = load(copyProgram(kCount));
  HostMemory in = pinned(ramp(kCount, 3));
  Buffer out = vector(kCount);
  std::atomic<bool> freed{false};
  ASSERT_TRUE(stream
                  .callHost(
                      [&] {
                        freed.wait(false);
                        return okStatus();
                      },
                      "gate")
                  .ok());
  const LaunchArguments arguments{{in.deviceAddress}, {out.address()}, 0, {}};
  Status launched = copy.launch(stream, arguments);
  Status ended = device.freeHost(in.data);
  Status later = copy.launch(stream, arguments);
  freed = true;
  freed.notify_all();
  ASSERT_TRUE(launched.ok() && ended.ok()) << launched.message() << ended.message();
  // The program has it no more, though the first launch has.
  EXPECT_EQ(later.code(), StatusCode::kNotFound);
  EXPECT_THAT(later.message(), HasSubstr("input 0: 'in0'"));
  EXPECT_EQ(download(out), ramp(kCount, 3));
}

TEST_F(PinnedHostMemory, ImportedMemoryIsReachedAndStaysMappedMeanwhile) {
  HostMemory made = pinned(ramp(kCount));
  Device::SharedFile file = device.exportHost(made.data).value();
  HostMemory imported = device.importHost(file.fd, file.offset, file.bytes).value();
  ::close(file.fd);
  Executable copy = load(copyProgram(kCount));
  HostMemory out = pinned(kBytes);
  std::atomic<bool> tried{false};
  ASSERT_TRUE(stream
                  .callHost(
                      [&] {
                        tried.wait(false);
                        return okStatus();
                      },
                      "gate")
                  .ok());
  Status launched = copy.launch(stream, LaunchArguments{{imported.deviceAddress}, {out.deviceAddress}, 0, {}});
  Status early = device.unmapHost(imported.data);
  tried = true;
  tried.notify_all();
  ASSERT_TRUE(launched.ok()) << launched.message();
  EXPECT_EQ(early.code(), StatusCode::kFailedPrecondition);
  ASSERT_TRUE(stream.synchronize().ok());
  EXPECT_EQ(ints(out), ramp(kCount));
  EXPECT_TRUE(device.unmapHost(imported.data).ok());
}

TEST_F(PinnedHostMemory, TensorsAtTheEndOfAPageAndOfTheMemory) {
  const int64_t page = ::sysconf(_SC_PAGESIZE), bytes = 1000 * 4;
  HostMemory memory = pinned(2 * page);
  std::vector<int32_t> data = ramp(1000, 9);
  std::memcpy(static_cast<char*>(memory.data) + 2 * page - bytes, data.data(), static_cast<size_t>(bytes));
  Executable copy = load(copyProgram(1000));
  Buffer out = vector(1000);
  const uint64_t last = memory.deviceAddress + static_cast<uint64_t>(2 * page - bytes);
  ASSERT_TRUE(copy.launch(stream, LaunchArguments{{last}, {out.address()}, 0, {}}).ok());
  EXPECT_EQ(download(out), data);
  auto launch = [&](uint64_t in) { return copy.launch(stream, LaunchArguments{{in}, {out.address()}, 0, {}}); };
  EXPECT_EQ(launch(last + 4).code(), StatusCode::kOutOfRange);
  EXPECT_EQ(launch(memory.deviceAddress + static_cast<uint64_t>(2 * page)).code(), StatusCode::kNotFound);
  EXPECT_EQ(launch(last + 2).code(), StatusCode::kInvalidArgument);
  // The window's ends, and beyond them.
  constexpr uint64_t kWindow = uint64_t{1} << 56;
  for (uint64_t wild : {kWindow - 4, kWindow, 2 * kWindow - 4, 2 * kWindow, UINT64_MAX - 3}) {
    EXPECT_EQ(launch(wild).code(), StatusCode::kNotFound) << std::hex << wild;
    EXPECT_EQ(stream.copyOnDevice(wild, out.address(), 4).code(), StatusCode::kNotFound) << std::hex << wild;
  }
  EXPECT_EQ(stream.copyOnDevice(out.address(), memory.deviceAddress, INT64_MAX).code(), StatusCode::kOutOfRange);
  // Nothing at all may be anywhere.
  EXPECT_TRUE(stream.copyOnDevice(2 * kWindow - 4, memory.deviceAddress, 0).ok());
}

TEST_F(PinnedHostMemory, WhereHbmIsNeededTheErrorSaysSo) {
  Executable copy = load(copyProgram(kCount));
  HostMemory memory = pinned(1 << 20);
  Buffer buffer = vector(kCount);
  auto refused = [&](const Status& status) {
    EXPECT_EQ(status.code(), StatusCode::kNotFound);
    EXPECT_THAT(std::string(status.message()), HasSubstr("host memory, which is no Buffer"));
  };
  std::vector<int32_t> data(kCount);
  refused(device.find(memory.deviceAddress).status());
  refused(device.memoryFile(memory.deviceAddress, 4).status());
  refused(stream.copyToDevice(memory.deviceAddress, data.data(), kBytes));
  refused(stream.copyToHost(data.data(), memory.deviceAddress, kBytes));
  refused(stream.copyMany(CopyDirection::kToHost,
                          {{reinterpret_cast<uint64_t>(data.data()), memory.deviceAddress, kBytes}}));
  refused(
      copy.launch(stream, LaunchArguments{{buffer.address()}, {vector(kCount).address()}, memory.deviceAddress, {}}));
  EXPECT_EQ(device.checkWrite(memory.deviceAddress, 4).code(), StatusCode::kOutOfRange);
  // The program's own memory is not reached.
  ASSERT_TRUE(device.mapHost(data.data(), kBytes, "own").ok());
  EXPECT_EQ(device.findHost(data.data()).value().deviceAddress, 0u);
  const uint64_t address =
      memory.deviceAddress - reinterpret_cast<uint64_t>(memory.data) + reinterpret_cast<uint64_t>(data.data());
  Status own = stream.fill(address, 0, 4, 1);
  EXPECT_EQ(own.code(), StatusCode::kNotFound);
  EXPECT_THAT(own.message(), HasSubstr("'own'"));
}

TEST_F(PinnedHostMemory, AReplayUsesItAndCanBeBoundToHbm) {
  Executable copy = load(copyProgram(kCount));
  HostMemory in = pinned(ramp(kCount)), out = pinned(kBytes);
  CaptureSession session = CaptureSession::begin(stream).value();
  ASSERT_TRUE(copy.launch(stream, LaunchArguments{{in.deviceAddress}, {out.deviceAddress}, 0, {}}).ok());
  auto replay = session.end().value().instantiate().value();
  ASSERT_TRUE(replay.replay(stream).ok());
  ASSERT_TRUE(stream.synchronize().ok());
  EXPECT_EQ(ints(out), ramp(kCount));
  Buffer hbm = upload(ramp(kCount, 50));
  Status toHost = replay.rebind(in.deviceAddress, out.deviceAddress, kBytes);
  EXPECT_EQ(toHost.code(), StatusCode::kNotFound);
  EXPECT_THAT(toHost.message(), HasSubstr("host memory, which is no Buffer"));
  ASSERT_TRUE(replay.rebind(in.deviceAddress, hbm.address(), kBytes).ok());
  // The replay has the memory, which the program gives back.
  ASSERT_TRUE(device.freeHost(in.data).ok());
  ASSERT_TRUE(replay.replay(stream).ok());
  ASSERT_TRUE(stream.synchronize().ok());
  EXPECT_EQ(ints(out), ramp(kCount, 50));
}

TEST_F(PinnedHostMemory, AnOutputsEventIsAtTheEndOfItsTransfer) {
  Executable program = load(copyThenMultiplyProgram(kN));
  const int64_t bytes = kN * kN * 4;
  HostMemory copied = pinned(bytes);
  Buffer in = device.allocate(bytes).value(), product = device.allocate(bytes).value();
  Event early, end;
  ASSERT_TRUE(stream.fill(in, 0, bytes).ok());
  ASSERT_TRUE(
      program
          .launch(stream, LaunchArguments{{in.address()}, {copied.deviceAddress, product.address()}, 0, {{0, early}}})
          .ok());
  ASSERT_TRUE(stream.record(end).ok());
  ASSERT_TRUE(stream.synchronize().ok());
  EXPECT_EQ(early.deviceTimeNs().value(), end.deviceTimeNs().value());
}

TEST(PinnedHostMemoryChecked, TheMemoryCheckerMakesItAnErrorOfTheStream) {
  setenv("HPU_MEMORY_CHECK", "1", 1);
  auto device = Device::open({.hbmBytes = 16 << 20});
  unsetenv("HPU_MEMORY_CHECK");
  ASSERT_TRUE(device.ok());
  Stream stream = Stream::create(*device).value();
  HostMemory memory = device->allocateHost(4096).value();
  ASSERT_TRUE(stream.fill(memory.deviceAddress, 1, 1, 4096).ok());
  ASSERT_TRUE(stream.synchronize().ok());
  ASSERT_TRUE(stream.fill(memory.deviceAddress + 1, 1, 1, 4096).ok());
  EXPECT_EQ(stream.synchronize().code(), StatusCode::kOutOfRange);
  ASSERT_TRUE(device->freeHost(memory.data).ok());
  ASSERT_TRUE(stream.fill(memory.deviceAddress, 1, 1, 4096).ok());
  EXPECT_EQ(stream.synchronize().code(), StatusCode::kNotFound);
}

TEST(PinnedHostMemoryNull, TheNullDriverTimesIt) {
  Device device = Device::open({.driver = "null"}).value();
  Stream stream = Stream::create(device).value();
  HostMemory memory = device.allocateHost(1 << 20).value();
  ASSERT_TRUE(stream.fill(memory.deviceAddress, 1, 1, 1 << 20).ok());
  ASSERT_TRUE(stream.synchronize().ok());
  EXPECT_EQ(device.counters().d2hBytes, 1 << 20);
  EXPECT_EQ(static_cast<char*>(memory.data)[0], 0);
  EXPECT_TRUE(device.freeHost(memory.data).ok());
}

}  // namespace
}  // namespace hpu
