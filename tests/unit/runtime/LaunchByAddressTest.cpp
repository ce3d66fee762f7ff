// SPDX-License-Identifier: Apache-2.0
// Launches by device addresses: sub-ranges of an allocation, a workspace of the caller's, outputs
// over inputs.
#include <vector>

#include "LaunchFixture.h"
#include "hpu/event.h"
#include "hpu/executable.h"

namespace hpu {
namespace {

using testing::copyProgram;
using testing::delayProgram;
using testing::fillProgram;
using ::testing::HasSubstr;
using testing::swapProgram;
using testing::toRecipe;

class LaunchByAddressTest : public testing::LaunchFixture {};

TEST_F(LaunchByAddressTest, TensorsMayLieAnywhereInAnAllocation) {
  Executable copy = Executable::load(device, toRecipe(copyProgram(1000, 3))).value();
  Buffer pool = device.allocate(3 * 4000 + 100, "pool").value();
  // 4 bytes behind each other, and not at multiples of any vector.
  uint64_t in = pool.address() + 4, out = in + 4004;
  upload(pool.address(), std::vector<int32_t>(3025, -1));
  upload(in, ramp(1000));
  ASSERT_TRUE(copy.launch(stream, LaunchArguments{{in}, {out}, 0, {}}).ok());
  EXPECT_EQ(download(out, 1000), ramp(1000));
  EXPECT_EQ(download(out - 4, 1), std::vector<int32_t>{-1});
  EXPECT_EQ(download(out + 4000, 1), std::vector<int32_t>{-1});
}

TEST_F(LaunchByAddressTest, AnInputThatIsNotGivenHasItsDefault) {
  auto program = std::make_shared<recipe::Program>(*copyProgram(1000));
  const std::vector<int32_t> values = ramp(1000);
  program->defaults = {{0, reinterpret_cast<const uint8_t*>(values.data()), 4000, nullptr}};
  // Through a file, as others have it.
  const std::vector<uint8_t> bytes = toRecipe(program).serialize().value();
  const Recipe recipe = Recipe::deserializeOwn(bytes.data(), bytes.size()).value();
  ASSERT_TRUE(recipe.inputDefault(0));
  EXPECT_EQ(recipe.inputDefault(1), nullptr);
  Executable copy = Executable::load(device, recipe).value();
  Buffer in = device.allocate(4000).value(), out = device.allocate(4000).value();
  upload(in.address(), std::vector<int32_t>(1000, 5));
  ASSERT_TRUE(copy.launch(stream, LaunchArguments{{0}, {out.address()}, 0, {}}).ok());
  EXPECT_EQ(download(out.address(), 1000), values);
  ASSERT_TRUE(copy.launch(stream, LaunchArguments{{in.address()}, {out.address()}, 0, {}}).ok());
  EXPECT_EQ(download(out.address(), 1000), std::vector<int32_t>(1000, 5));
  ASSERT_TRUE(copy.launch(stream, {Buffer()}, {out}).ok());
  EXPECT_EQ(download(out.address(), 1000), values);
  // Outputs have none.
  EXPECT_THAT(copy.launch(stream, {Buffer()}, {Buffer()}).message(), HasSubstr("the buffer is empty"));
  EXPECT_FALSE(copy.launch(stream, LaunchArguments{{0}, {0}, 0, {}}).ok());
}

TEST_F(LaunchByAddressTest, WrongAddressesAreRefusedByName) {
  Executable copy = Executable::load(device, toRecipe(copyProgram(1000))).value();
  Buffer a = device.allocate(4000, "weights").value(), b = device.allocate(4000).value();
  auto launch = [&](uint64_t in, uint64_t out, uint64_t workspace = 0) {
    return copy.launch(stream, LaunchArguments{{in}, {out}, workspace, {}});
  };
  EXPECT_EQ(launch(12, b.address()).code(), StatusCode::kNotFound);
  EXPECT_THAT(launch(12, b.address()).message(), HasSubstr("input 0: 'in0', 1000xi32"));
  Status status = launch(a.address() + 4, b.address());
  EXPECT_EQ(status.code(), StatusCode::kOutOfRange);
  EXPECT_THAT(status.message(), HasSubstr("'weights', 4000 bytes"));
  EXPECT_EQ(launch(a.address(), b.address() + 2).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(launch(a.address(), b.address(), b.address()).code(), StatusCode::kOutOfRange);
  Buffer both = device.allocate(4096).value();
  EXPECT_EQ(launch(a.address(), both.address(), both.address()).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(launch(both.address(), b.address(), both.address()).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(launch(a.address(), b.address(), b.address() + 4).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(copy.launch(stream, LaunchArguments{{a.address()}, {}, 0, {}}).code(), StatusCode::kInvalidArgument);
  uint64_t stale = a.address();
  a = Buffer();
  EXPECT_EQ(launch(stale, b.address()).code(), StatusCode::kNotFound);
}

/// What was found out about addresses is not used for other memory at the same place.
TEST_F(LaunchByAddressTest, AddressesAreLookedAtAgainWhenMemoryChanged) {
  Executable copy = Executable::load(device, toRecipe(copyProgram(1000))).value();
  Buffer in = device.allocate(4000).value(), out = device.allocate(4000).value();
  uint64_t address = in.address();
  LaunchArguments arguments{{address}, {out.address()}, 0, {}};
  for (int i = 0; i < 20; ++i) {
    upload(address, ramp(1000, i));
    ASSERT_TRUE(copy.launch(stream, arguments).ok());
    EXPECT_EQ(download(out.address(), 1000), ramp(1000, i));
  }
  in = Buffer();
  EXPECT_EQ(copy.launch(stream, arguments).code(), StatusCode::kNotFound);
  in = device.allocate(3999, AllocateOptions{"short", address}).value();
  EXPECT_EQ(copy.launch(stream, arguments).code(), StatusCode::kOutOfRange);
  in = Buffer();
  in = device.allocate(4000, AllocateOptions{"long", address}).value();
  EXPECT_TRUE(copy.launch(stream, arguments).ok());
  // More sets of addresses than are kept.
  Buffer many = device.allocate(20 * 4000).value();
  for (int round = 0; round < 2; ++round)
    for (uint64_t i = 0; i < 20; ++i) {
      arguments.outputs[0] = many.address() + i * 4000;
      ASSERT_TRUE(copy.launch(stream, arguments).ok());
    }
  EXPECT_TRUE(stream.synchronize().ok());
}

TEST_F(LaunchByAddressTest, FreeIsInOrderWithTheLaunch) {
  Executable copy = Executable::load(device, toRecipe(copyProgram(1000))).value();
  Buffer out = device.allocate(4000).value();
  Stream gate = Stream::create(device).value();
  for (int i = 0; i < 50; ++i) {
    Buffer in = device.allocate(4000).value();
    std::vector<int32_t> data = ramp(1000, i);
    upload(in.address(), data);
    ASSERT_TRUE(copy.launch(stream, LaunchArguments{{in.address()}, {out.address()}, 0, {}}).ok());
    in = Buffer();
    // Were it free already, this would be it, and the other stream would not wait.
    Buffer next = device.allocate(4000).value();
    ASSERT_TRUE(gate.fill(next, 0xff, 4000).ok());
    ASSERT_EQ(download(out.address(), 1000), data);
    ASSERT_TRUE(gate.synchronize().ok());
  }
}

TEST_F(LaunchByAddressTest, OutputsMayOverwriteInputs) {
  Executable swap = Executable::load(device, toRecipe(swapProgram(5000))).value();
  Buffer a = device.allocate(20000).value(), b = device.allocate(20000).value();
  upload(a.address(), ramp(5000));
  upload(b.address(), ramp(5000, 70000));
  LaunchArguments inPlace{{a.address(), b.address()}, {a.address(), b.address()}, 0, {}};
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(swap.launch(stream, inPlace).ok());
  EXPECT_EQ(download(a.address(), 5000), ramp(5000, 70000));
  EXPECT_EQ(download(b.address(), 5000), ramp(5000));
  // Buffers mean the same as their addresses.
  ASSERT_TRUE(swap.launch(stream, {a, b}, {a, b}).ok());
  EXPECT_EQ(download(a.address(), 5000), ramp(5000));
}

TEST_F(LaunchByAddressTest, OutputsMayOverlapInputsInPart) {
  Executable swap = Executable::load(device, toRecipe(swapProgram(1000))).value();
  Buffer pool = device.allocate(16000).value();
  uint64_t in0 = pool.address(), in1 = in0 + 4000, out0 = in0 + 400, out1 = out0 + 4000;
  upload(in0, ramp(1000));
  upload(in1, ramp(1000, 5000));
  ASSERT_TRUE(swap.launch(stream, LaunchArguments{{in0, in1}, {out0, out1}, 0, {}}).ok());
  EXPECT_EQ(download(out0, 1000), ramp(1000, 5000));
  EXPECT_EQ(download(out1, 1000), ramp(1000));
  EXPECT_EQ(swap.launch(stream, LaunchArguments{{in0, in1}, {out0, out0 + 3996}, 0, {}}).code(),
            StatusCode::kInvalidArgument);
}

TEST_F(LaunchByAddressTest, InPlaceLaunchesOfTwoStreamsAreInOrder) {
  Executable swap = Executable::load(device, toRecipe(swapProgram(20000))).value();
  Buffer a = device.allocate(80000).value(), b = device.allocate(80000).value();
  upload(a.address(), ramp(20000));
  upload(b.address(), ramp(20000, 70000));
  Stream other = Stream::create(device).value();
  LaunchArguments inPlace{{a.address(), b.address()}, {a.address(), b.address()}, 0, {}};
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(swap.launch(i % 2 ? stream : other, inPlace).ok());
  ASSERT_TRUE(device.synchronize().ok());
  EXPECT_EQ(download(a.address(), 20000), ramp(20000));
  EXPECT_EQ(download(b.address(), 20000), ramp(20000, 70000));
}

TEST_F(LaunchByAddressTest, WorkspaceMayBeTheCallers) {
  int64_t before = device.memoryInfo().usedBytes;
  Executable copy = Executable::load(device, toRecipe(copyProgram(1000)), {.reserveWorkspace = false}).value();
  EXPECT_EQ(device.memoryInfo().usedBytes, before);
  EXPECT_EQ(copy.workspaceBytes(), 4096);
  Buffer in = device.allocate(4000).value(), out = device.allocate(4000).value();
  Buffer workspace = device.allocate(4096).value();
  upload(in.address(), ramp(1000));
  LaunchArguments arguments{{in.address()}, {out.address()}, 0, {}};
  Status status = copy.launch(stream, arguments);
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("4096 bytes"));
  arguments.workspace = workspace.address();
  ASSERT_TRUE(copy.launch(stream, arguments).ok());
  EXPECT_EQ(download(out.address(), 1000), ramp(1000));
  EXPECT_EQ(download(workspace.address(), 1000), ramp(1000));  // It passed through there.
}

TEST_F(LaunchByAddressTest, EventsOfOutputsAreDoneWithTheLaunch) {
  Executable copy = Executable::load(device, toRecipe(copyProgram(1000))).value();
  Buffer in = device.allocate(4000).value(), out = device.allocate(4000).value();
  upload(in.address(), ramp(1000));
  LaunchArguments arguments{{in.address()}, {out.address()}, 0, {{0, Event()}}};
  Event event = arguments.events[0].event;
  Stream reader = Stream::create(device).value();
  std::vector<int32_t> data(1000);
  ASSERT_TRUE(copy.launch(stream, arguments).ok());
  ASSERT_TRUE(reader.wait(event).ok());
  ASSERT_TRUE(reader.copyToHost(data.data(), out.address(), 4000).ok());
  ASSERT_TRUE(reader.synchronize().ok());
  EXPECT_EQ(data, ramp(1000));
  arguments.events[0].output = 1;
  EXPECT_EQ(copy.launch(stream, arguments).code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace hpu
