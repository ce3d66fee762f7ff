// SPDX-License-Identifier: Apache-2.0
// Programs of parts through the whole runtime: memory, constants, states, errors, captures and traces.
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "LaunchFixture.h"
#include "PartsSample.h"
#include "hpu/capture.h"
#include "hpu/event.h"
#include "hpu/executable.h"
#include "hpu/trace.h"
#include "recipe/RecipeVerifier.h"
#include "recipe/RecipeWriter.h"
#include "runtime/trace/Reader.h"

namespace hpu {
namespace {

using namespace recipe::testing;

constexpr int64_t kCount = 64, kRows = 5;
using Values = std::vector<int32_t>;

class PartsLaunch : public testing::LaunchFixture {
 protected:
  void SetUp() override {
    LaunchFixture::SetUp();
    const recipe::Program sample = partsSample();
    ASSERT_TRUE(recipe::verifyProgram(sample).ok()) << recipe::verifyProgram(sample).message();
    // As a file has it.
    const std::vector<uint8_t> bytes = recipe::writeRecipe(sample).value();
    executable = Executable::load(device, Recipe::deserialize(bytes.data(), bytes.size()).value()).value();
    start = upload(ramp(kCount, 1000));
    slices = upload(ramp(kRows * kCount));
    limit = device.allocate(8).value();
    flags = device.allocate(8).value();
    last = vector(kCount);
    all = vector(kRows * kCount);
    chosen = vector(kCount);
  }
  Status launch() { return executable.launch(stream, {start, slices, limit, flags}, {last, all, chosen}); }
  void decide(int64_t count, uint8_t then, uint8_t first = 1) {
    const std::vector<uint8_t> values = {first, 1, 0, then, 0, 0, 0, 0};
    ASSERT_TRUE(stream.copyToDevice(limit.address(), &count, 8).ok());
    ASSERT_TRUE(stream.copyToDevice(flags.address(), values.data(), 8).ok());
    ASSERT_TRUE(stream.synchronize().ok());
  }

  Executable executable;
  Buffer start, slices, limit, flags, last, all, chosen;
};

Values rowOf(int64_t row) {
  Values values(kCount);
  for (int64_t i = 0; i < kCount; ++i) values[static_cast<size_t>(i)] = static_cast<int32_t>(row * kCount + i);
  return values;
}

TEST_F(PartsLaunch, RunAsDataSays) {
  for (int64_t count : {3, 0, 5, 99, -4})
    for (uint8_t then : {1, 0}) {
      decide(count, then);
      ASSERT_TRUE(stream.fill(all, 0xff, all.size()).ok());
      ASSERT_TRUE(launch().ok());
      const int64_t ran = count < 0 ? 0 : count > kRows ? kRows : count;
      // The loop takes rows from behind.
      const Values carried = ran == 0 ? ramp(kCount, 1000) : rowOf(kRows - ran);
      const Values expected = then ? carried : Values(kCount, 0x07070707);
      EXPECT_EQ(download(chosen), expected) << count;
      EXPECT_EQ(download(last), expected) << count;
      const Values rows = download(all);
      for (int64_t row = 0; row < kRows; ++row) {
        const Values own(rows.begin() + row * kCount, rows.begin() + (row + 1) * kCount);
        EXPECT_EQ(own, row >= ran ? Values(kCount, -1) : row == 0 ? ramp(kCount, 1000) : rowOf(kRows - row)) << count;
      }
    }
}

TEST_F(PartsLaunch, EventsOfOutputsAndLaterWorkComeInOrder) {
  decide(4, 1);
  Stream reader = Stream::create(device).value();
  for (int round = 0; round < 20; ++round) {
    ASSERT_TRUE(launch().ok());
    Event done;
    ASSERT_TRUE(stream.record(done).ok());
    ASSERT_TRUE(reader.wait(done).ok());
    Values read(kCount, -1);
    ASSERT_TRUE(reader.copyToHost(read.data(), chosen.address(), kCount * 4).ok());
    ASSERT_TRUE(reader.synchronize().ok());
    EXPECT_EQ(read, rowOf(kRows - 4));
  }
}

TEST_F(PartsLaunch, TracesNamePartsAndIterations) {
  decide(3, 0);
  ASSERT_TRUE(trace::start().ok());
  ASSERT_TRUE(launch().ok());
  ASSERT_TRUE(stream.synchronize().ok());
  const std::string path = ::testing::TempDir() + "/PartsLaunch." + std::to_string(getpid()) + ".hputrace";
  ASSERT_TRUE(trace::stop(path).ok());
  auto read = trace::readTraceFile(path);
  std::filesystem::remove(path);
  ASSERT_TRUE(read.ok()) << read.status().message();
  std::map<std::string, int> seen;
  std::vector<std::string> nodes;
  int64_t end = 0;
  for (const trace::TracedDevice& traced : read->devices) {
    for (const trace::LaunchEvent& launch : traced.launches) {
      ++seen[std::string(read->text(launch.label))];
      EXPECT_GE(launch.start, end);
      end = launch.end;
    }
    for (const trace::CommandEvent& command : traced.commands)
      for (const trace::TracedNode& node : traced.opOf(command).nodes) nodes.emplace_back(read->text(node.name));
  }
  std::map<std::string, int> expected = {{"parts/part 0 [0]", 1}, {"parts/part 3 [0]", 1}};
  for (int i = 0; i < 3; ++i) expected["parts/part 1 [" + std::to_string(i) + "]"] = 1;
  // Flags end the inner loop after two.
  for (int i = 0; i < 2; ++i) {
    const std::string outer = "parts/part 4 [" + std::to_string(i) + "]";
    expected[outer + "/part 0 [0]"] = expected[outer + "/part 1 [0]"] = expected[outer + "/part 1 [1]"] = 1;
  }
  EXPECT_EQ(seen, expected);
  EXPECT_EQ(nodes.size(), 2u + 3 * 3 + 1 + 2 * 3);
  EXPECT_EQ(std::count(nodes.begin(), nodes.end(), "body op 2"), 3);
}

TEST_F(PartsLaunch, CapturedLaunchesRunAsDataSaysAtEachReplay) {
  auto session = CaptureSession::begin(stream).value();
  ASSERT_TRUE(launch().ok());
  auto instance = session.end().value().instantiate().value();
  for (int64_t count : {2, 5}) {
    decide(count, 1);
    ASSERT_TRUE(instance.replay(stream).ok());
    EXPECT_EQ(download(chosen), rowOf(kRows - count));
  }
}

TEST_F(PartsLaunch, CountersHaveWhatHasRun) {
  decide(1, 1);
  ASSERT_TRUE(launch().ok());
  // Until then nobody knows how often its parts run.
  ASSERT_TRUE(stream.synchronize().ok());
  const DeviceCounters before = device.counters();
  ASSERT_TRUE(launch().ok());
  ASSERT_TRUE(stream.synchronize().ok());
  EXPECT_EQ(device.counters().launches, before.launches + 1);
  // Two copies, three of an iteration, a branch, and two times three.
  EXPECT_EQ(device.counters().commands, before.commands + 2 + 3 + 1 + 6);
}

TEST_F(PartsLaunch, NeedsOneWorkspace) {
  EXPECT_EQ(executable.recipe().workspaceBytes(), 8 * kCount * 4);
}

}  // namespace
}  // namespace hpu
