// SPDX-License-Identifier: Apache-2.0
// Views of a part of a buffer, and a buffer's bytes as the host sees them.
#include <cstdlib>
#include <cstring>

#include "../LaunchFixture.h"
#include "hpu/capture.h"
#include "hpu/executable.h"

namespace hpu {
namespace {

using ::testing::HasSubstr;

using BufferView = testing::LaunchFixture;
using testing::copyProgram;
using testing::toRecipe;

TEST_F(BufferView, SharesTheMemoryAndKeepsIt) {
  Buffer whole = device.allocate(4096, "whole").value();
  ASSERT_TRUE(stream.fill(whole, 1, 4096).ok());
  Buffer view = whole.slice(1024, 2048).value(), inner = view.slice(512, 256).value();
  EXPECT_EQ(view.address(), whole.address() + 1024);
  EXPECT_EQ(view.size(), 2048);
  EXPECT_EQ(inner.address(), whole.address() + 1536);
  ASSERT_TRUE(stream.fill(inner, 2, 256).ok());
  ASSERT_TRUE(stream.fill(view, 3, 16, 2032).ok());
  EXPECT_EQ(stream.fill(view, 3, 17, 2032).code(), StatusCode::kOutOfRange);
  const uint64_t address = whole.address();
  whole = view = Buffer();
  EXPECT_EQ(device.memoryInfo().usedBytes, 4096);
  EXPECT_EQ(device.find(address).value().size(), 4096);  // An address finds the whole.
  std::vector<uint8_t> seen(4096), expected(4096, 1);
  std::memset(expected.data() + 1536, 2, 256);
  std::memset(expected.data() + 3056, 3, 16);
  ASSERT_TRUE(stream.copyToHost(seen.data(), address, 4096).ok());
  ASSERT_TRUE(stream.synchronize().ok());
  EXPECT_EQ(seen, expected);
  inner = Buffer();
  EXPECT_EQ(device.memoryInfo().usedBytes, 0);
}

TEST_F(BufferView, RefusesRangesOutsideOfTheBuffer) {
  Buffer whole = device.allocate(1000).value();
  EXPECT_EQ(Buffer().slice(0, 0).status().code(), StatusCode::kFailedPrecondition);
  for (auto [offset, bytes] : std::vector<std::pair<int64_t, int64_t>>{
           {-1, 1}, {0, -1}, {0, 1001}, {1000, 1}, {1001, 0}, {INT64_MAX, 1}, {1, INT64_MAX}, {INT64_MIN, INT64_MIN}})
    EXPECT_EQ(whole.slice(offset, bytes).status().code(), StatusCode::kOutOfRange) << offset << " " << bytes;
  EXPECT_EQ(whole.slice(1000, 0).value().size(), 0);
  Buffer view = whole.slice(500, 100).value();
  EXPECT_EQ(view.slice(50, 51).status().code(), StatusCode::kOutOfRange);
  EXPECT_TRUE(stream.fill(whole.slice(1000, 0).value(), 1, 0).ok());
}

TEST_F(BufferView, IsBoundToLaunches) {
  Executable copy = Executable::load(device, toRecipe(copyProgram(8))).value();
  Buffer in = upload(ramp(32)), out = vector(32);
  ASSERT_TRUE(copy.launch(stream, {in.slice(32, 32).value()}, {out.slice(64, 32).value()}).ok());
  EXPECT_EQ(download(out.address() + 64, 8), ramp(8, 8));
  // Not smaller than the tensor, and where elements may lie.
  EXPECT_EQ(copy.launch(stream, {in.slice(32, 28).value()}, {out}).code(), StatusCode::kInvalidArgument);
  Status status = copy.launch(stream, {in.slice(33, 40).value()}, {out});
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("no multiple"));
  // A launch keeps the memory of a view whose handles are gone.
  ASSERT_TRUE(copy.launch(stream, {upload(ramp(16, 40)).slice(32, 32).value()}, {out}).ok());
  EXPECT_EQ(download(out.address(), 8), ramp(8, 48));
}

TEST_F(BufferView, IsRebound) {
  Executable copy = Executable::load(device, toRecipe(copyProgram(8))).value();
  Buffer in = upload(ramp(32)), out = vector(32), elsewhere = vector(32);
  CaptureSession capture = CaptureSession::begin(stream).value();
  ASSERT_TRUE(copy.launch(stream, {in.slice(0, 32).value()}, {out.slice(0, 32).value()}).ok());
  GraphInstance instance = capture.end().value().instantiate().value();
  ASSERT_TRUE(instance.rebind(in.slice(0, 32).value(), in.slice(64, 32).value()).ok());
  ASSERT_TRUE(instance.rebind(out.slice(0, 32).value(), elsewhere.slice(32, 32).value()).ok());
  EXPECT_EQ(instance.rebind(in.slice(64, 16).value(), in.slice(0, 16).value()).code(), StatusCode::kOutOfRange);
  ASSERT_TRUE(instance.replay(stream).ok());
  EXPECT_EQ(download(elsewhere.address() + 32, 8), ramp(8, 16));
}

using HostView = testing::LaunchFixture;

TEST_F(HostView, SeesTheDevicesBytesAndWorkSeesItsWrites) {
  Executable copy = Executable::load(device, toRecipe(copyProgram(8))).value();
  Buffer in = upload(ramp(8)), out = vector(8);
  auto* view = static_cast<int32_t*>(in.hostView().value());
  EXPECT_EQ(view[5], 5);
  view[5] = 500;
  ASSERT_TRUE(copy.launch(stream, {in}, {out}).ok());
  ASSERT_TRUE(stream.synchronize().ok());
  const auto* result = static_cast<const int32_t*>(out.hostView().value());
  EXPECT_EQ(std::vector<int32_t>(result, result + 8), (std::vector<int32_t>{0, 1, 2, 3, 4, 500, 6, 7}));
  EXPECT_EQ(in.slice(20, 4).value().hostView().value(), view + 5);
  EXPECT_EQ(in.hostView().value(), view);
  // Never written: zeros.
  EXPECT_EQ(*static_cast<uint8_t*>(device.allocate(kMiB).value().hostView().value()), 0);
}

TEST_F(HostView, IsRefusedWhereThereIsNone) {
  EXPECT_EQ(Buffer().hostView().status().code(), StatusCode::kFailedPrecondition);
  DeviceOptions options;
  options.driver = "null";
  options.hbmBytes = 16 * kMiB;
  Status status = Device::open(options).value().allocate(64).value().hostView().status();
  EXPECT_EQ(status.code(), StatusCode::kUnimplemented);
  EXPECT_THAT(status.message(), HasSubstr("'null'"));
}

TEST_F(HostView, StaysInTheBudgetOfHostMemory) {
  stream = Stream();
  device = Device();
  setenv("HPU_SIM_HOST_BYTES", "4M", 1);
  DeviceOptions options;
  options.hbmBytes = 64 * kMiB;
  device = Device::open(options).value();
  unsetenv("HPU_SIM_HOST_BYTES");
  Buffer large = device.allocate(8 * kMiB).value();
  Status status = large.hostView().status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("HPU_SIM_HOST_BYTES"));
  // What a view was given for counts, written or not.
  ASSERT_TRUE(large.slice(0, 3 * kMiB).value().hostView().ok());
  EXPECT_EQ(large.slice(3 * kMiB, 2 * kMiB).value().hostView().status().code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(large.slice(0, 3 * kMiB).value().hostView().ok());
}

}  // namespace
}  // namespace hpu
