// SPDX-License-Identifier: Apache-2.0
// The runtime is a guest of the program's process: what the program does there (its memory, signals, floating-point
// environment, files and forks) ends in errors where it must, and changes no result.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <immintrin.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "LaunchFixture.h"
#include "hpu/capture.h"
#include "hpu/event.h"
#include "hpu/executable.h"
#include "tests/unit/base/ForkOften.h"
#include "tests/unit/base/TemporaryFolder.h"

namespace hpu {
namespace {

using ::testing::HasSubstr;
using testing::toRecipe;

constexpr int64_t kMiB = 1 << 20;

DeviceOptions sized(int64_t bytes) {
  DeviceOptions options;
  options.hbmBytes = bytes;
  return options;
}

// ---- Host memory that goes while it is copied ----------------------------------------------------------

/// Pages of the program's own.
struct Pages {
  explicit Pages(int64_t bytes)
      : size(static_cast<size_t>(bytes)),
        data(static_cast<uint8_t*>(::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
  }
  ~Pages() { ::munmap(data, size); }
  /// Takes the last quarter away, which leaves no hole that others could fill.
  void loseTail() { ::mprotect(data + size / 4 * 3, size / 4, PROT_NONE); }
  const size_t size;
  uint8_t* const data;
};

/// Waits until a byte has this value, then lets `then` happen.
template <typename Then>
std::thread whenWritten(const uint8_t* byte, uint8_t value, Then then) {
  return std::thread([=] {
    while (*const_cast<const volatile uint8_t*>(byte) != value) {
    }
    then();
  });
}

TEST(Guest, HostMemoryThatGoesDuringACopyIsAnErrorOfTheStream) {
  constexpr int64_t kBytes = 96 * kMiB;
  Device device = Device::open(sized(128 * kMiB)).value();
  Stream stream = Stream::create(device).value();
  Buffer buffer = device.allocate(kBytes).value();
  const int file = device.memoryFile(buffer.address(), kBytes).value();
  auto* seen = static_cast<uint8_t*>(
      ::mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, file, static_cast<off_t>(buffer.address() - kHbmBase)));
  ASSERT_NE(static_cast<void*>(seen), MAP_FAILED);
  for (uint8_t round = 1; round <= 3; ++round) {
    Pages pages(kBytes);
    std::memset(pages.data, round, pages.size);
    std::thread other = whenWritten(seen, round, [&] { pages.loseTail(); });
    ASSERT_TRUE(stream.copyToDevice(buffer, pages.data, kBytes).ok());
    Status status = stream.synchronize();
    other.join();
    // The copy may have been faster.
    EXPECT_THAT(status.ok() ? "not readable" : status.message(), HasSubstr("not readable"));
    EXPECT_TRUE(status.ok() || status.code() == StatusCode::kNotFound) << status.message();
  }
  for (int round = 1; round <= 3; ++round) {
    ASSERT_TRUE(stream.fill(buffer, static_cast<uint8_t>(round), kBytes).ok());
    ASSERT_TRUE(stream.synchronize().ok());
    Pages pages(kBytes);
    std::thread other = whenWritten(pages.data, static_cast<uint8_t>(round), [&] { pages.loseTail(); });
    ASSERT_TRUE(stream.copyToHost(pages.data, buffer, kBytes).ok());
    Status status = stream.synchronize();
    other.join();
    EXPECT_THAT(status.ok() ? "not writable" : status.message(), HasSubstr("not writable"));
    EXPECT_TRUE(status.ok() || status.code() == StatusCode::kNotFound) << status.message();
  }
  ::munmap(seen, kBytes);
  ::close(file);
}

TEST(Guest, ARecipeDoesNotDependOnItsFileOnceItIsLoaded) {
  base::TemporaryFolder folder;
  const std::string path = folder.file("a.recipe");
  std::vector<int32_t> values(1 << 18);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int32_t>(i * 7);
  Device device = Device::open(sized(64 * kMiB)).value();
  Stream stream = Stream::create(device).value();
  auto constantsOf = [&](const Recipe& recipe) {
    std::vector<int32_t> out(values.size());
    auto program = Executable::load(device, recipe);
    EXPECT_TRUE(program.ok()) << program.status().message();
    if (!program.ok()) return out;
    Buffer buffer = device.allocate(static_cast<int64_t>(values.size()) * 4).value();
    EXPECT_TRUE(program->launch(stream, {}, {buffer}).ok());
    EXPECT_TRUE(stream.copyToHost(out.data(), buffer, buffer.size()).ok());
    EXPECT_TRUE(stream.synchronize().ok());
    return out;
  };
  ASSERT_TRUE(toRecipe(testing::constantProgram(values)).save(path).ok());
  Recipe changed = Recipe::load(path).value();
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(4096);
    for (int i = 0; i < 1 << 20; ++i) file.put('x');
  }
  EXPECT_TRUE(constantsOf(changed) == values) << "the file was written to";
  ASSERT_TRUE(toRecipe(testing::constantProgram(values)).save(path).ok());
  Recipe truncated = Recipe::load(path).value();
  ASSERT_EQ(::truncate(path.c_str(), 100), 0);
  EXPECT_TRUE(constantsOf(truncated) == values) << "the file was truncated";
  EXPECT_TRUE(truncated.save(folder.file("b.recipe")).ok());
}

// ---- The host-memory budget ----------------------------------------------------------------------------

class GuestBudget : public ::testing::Test {
 protected:
  void open(const char* budget) {
    setenv("HPU_SIM_HOST_BYTES", budget, 1);
    device = Device::open(sized(64 * kMiB)).value();
    unsetenv("HPU_SIM_HOST_BYTES");
    stream = Stream::create(device).value();
  }
  int64_t resident(const Buffer& buffer) {
    const int file = device.memoryFile(buffer.address(), buffer.size()).value();
    struct stat info{};
    EXPECT_EQ(::fstat(file, &info), 0);
    ::close(file);
    return static_cast<int64_t>(info.st_blocks) * 512;
  }
  Device device;
  Stream stream;
};

TEST_F(GuestBudget, SmallWritesCountTowardsIt) {
  open("1M");
  Buffer buffer = device.allocate(8 * kMiB).value();
  std::vector<uint8_t> data(64 << 10, 7);
  for (int kind = 0; kind < 3; ++kind) {
    for (int64_t at = 0; at < 8 * kMiB; at += 64 << 10) {
      // The last: from what is written to what is not.
      Status status = kind == 0   ? stream.fill(buffer, 1, 64 << 10, at)
                      : kind == 1 ? stream.copyToDevice(buffer, data.data(), 64 << 10, at)
                                  : stream.copyOnDevice(buffer, at, buffer, 0, 64 << 10);
      ASSERT_TRUE(status.ok()) << status.message();
    }
    Status status = stream.synchronize();
    EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << kind;
    EXPECT_THAT(status.message(), HasSubstr("HPU_SIM_HOST_BYTES")) << kind;
    EXPECT_LE(resident(buffer), kMiB) << kind;
  }
  // What is written already may be written again as often as one likes.
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(stream.fill(buffer, 2, 64 << 10).ok());
  EXPECT_TRUE(stream.synchronize().ok());
}

TEST_F(GuestBudget, ReadingWhatWasNeverWrittenTakesNothing) {
  open("1M");
  Buffer buffer = device.allocate(8 * kMiB).value();
  std::vector<uint8_t> out(64 << 10, 7);
  for (int64_t at = 0; at < 8 * kMiB; at += 64 << 10) {
    ASSERT_TRUE(stream.copyToHost(out.data(), buffer, 64 << 10, at).ok());
    ASSERT_TRUE(stream.fill(buffer, 0, 64 << 10, at).ok());
    ASSERT_TRUE(stream.copyOnDevice(buffer, at, buffer, (at + 4 * kMiB) % (8 * kMiB), 64 << 10).ok());
  }
  EXPECT_TRUE(stream.synchronize().ok());
  EXPECT_THAT(out, ::testing::Each(0));
  EXPECT_EQ(resident(buffer), 0);
}

TEST_F(GuestBudget, InputsThatALaunchReadsCountTowardsIt) {
  open("5M");
  constexpr int64_t kCount = 512 << 10;  // 2 MiB each.
  Executable swap = Executable::load(device, toRecipe(testing::swapProgram(kCount))).value();
  std::vector<Buffer> in, out;
  for (int i = 0; i < 2; ++i) {
    in.push_back(device.allocate(kCount * 4).value());
    out.push_back(device.allocate(kCount * 4).value());
    ASSERT_TRUE(stream.fill(out.back(), 1, kCount * 4).ok());
  }
  ASSERT_TRUE(stream.synchronize().ok());
  // Its outputs are there; reading inputs that never were written makes them.
  ASSERT_TRUE(swap.launch(stream, in, out).ok());
  Status status = stream.synchronize();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << status.message();
  EXPECT_LE(resident(in[0]), 5 * kMiB);
}

// ---- Floating point ------------------------------------------------------------------------------------

/// Everything that a thread may set: flush to zero, denormals are zero, round up.
struct OddFloats {
  OddFloats() { _mm_setcsr(0x1f80 | 0x8040 | 0x4000); }
  ~OddFloats() { _mm_setcsr(saved); }
  const unsigned saved = _mm_getcsr();
};

TEST(Guest, ResultsAndTimesDoNotDependOnTheCallersFloatingPointEnvironment) {
  constexpr int64_t kN = 96;
  std::vector<float> a(kN * kN);
  std::mt19937 random(3);
  std::uniform_real_distribution<float> some(-1, 1);
  for (size_t i = 0; i < a.size(); ++i) a[i] = i % 5 ? some(random) : some(random) * 1e-39f;
  auto run = [&](int64_t* ns) {
    // Its workers are made by this thread, and this thread may do the work itself.
    Device device = Device::open(sized(64 * kMiB)).value();
    Stream stream = Stream::create(device).value();
    Executable program = Executable::load(device, toRecipe(testing::copyThenMultiplyProgram(kN))).value();
    Buffer in = device.allocate(kN * kN * 4).value();
    Buffer copy = device.allocate(kN * kN * 4).value(), out = device.allocate(kN * kN * 4).value();
    std::vector<float> result(a.size());
    EXPECT_TRUE(stream.copyToDevice(in, a.data(), in.size()).ok());
    EXPECT_TRUE(program.launch(stream, {in}, {copy, out}).ok());
    EXPECT_TRUE(stream.copyToHost(result.data(), out, out.size()).ok());
    EXPECT_TRUE(stream.synchronize().ok());
    *ns = device.counters().deviceNs;
    return result;
  };
  int64_t plainNs = 0, oddNs = 0;
  const std::vector<float> plain = run(&plainNs);
  std::vector<float> odd;
  unsigned after = 0;
  {
    OddFloats floats;
    const unsigned before = _mm_getcsr();
    odd = run(&oddNs);
    after = _mm_getcsr();
    EXPECT_EQ(after & ~0x3fu, before & ~0x3fu) << "the thread keeps its own";
  }
  EXPECT_EQ(std::memcmp(plain.data(), odd.data(), plain.size() * 4), 0);
  EXPECT_EQ(plainNs, oddNs);
}

// ---- Signals -------------------------------------------------------------------------------------------

TEST(Guest, ThreadsOfTheSdkTakeNoSignalsOfTheProgram) {
  Device device = Device::open(sized(256 * kMiB)).value();
  Stream stream = Stream::create(device).value();
  Buffer buffer = device.allocate(128 * kMiB).value();
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(stream.fill(buffer, static_cast<uint8_t>(i), buffer.size()).ok());
    ASSERT_TRUE(stream.synchronize().ok());
  }
  int threads = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    if (task.path().filename() == std::to_string(::gettid())) continue;
    std::ifstream status(task.path() / "status");
    unsigned long long blocked = 0;
    std::string name;
    for (std::string line; std::getline(status, line);) {
      if (line.rfind("Name:", 0) == 0) name = line;
      if (line.rfind("SigBlk:", 0) == 0) blocked = std::strtoull(line.c_str() + 7, nullptr, 16);
    }
#ifdef __SANITIZE_THREAD__
    if (blocked >> (SIGSEGV - 1) & 1) continue;  // The sanitizer's own.
#endif
    ++threads;
    for (int signal : {SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM, SIGPROF, SIGCHLD, SIGHUP, SIGPIPE, SIGRTMIN})
      EXPECT_TRUE(blocked >> (signal - 1) & 1) << name << " takes signal " << signal;
    for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP})
      EXPECT_FALSE(blocked >> (signal - 1) & 1) << name << " blocks its own signal " << signal;
  }
  EXPECT_GT(threads, 1);
}

// ---- Forks ---------------------------------------------------------------------------------------------

TEST(Guest, AChildLetsGoOfWhatItInheritedWhateverTheParentsThreadsDo) {
  if (!base::kMayForkWhenBusy) GTEST_SKIP() << "not under a sanitizer";
  Device device = Device::open(sized(64 * kMiB)).value();
  Stream idle = Stream::create(device).value();
  Buffer buffer = device.allocate(4096).value();
  Event event;
  Executable program = Executable::load(device, toRecipe(testing::fillProgram(16, 1))).value();
  ASSERT_TRUE(program.launch(idle, {}, {buffer}).ok());
  ASSERT_TRUE(idle.record(event).ok());
  auto work = [&] {
    Stream own = Stream::create(device).value();
    Buffer some = device.allocate(512).value();
    ASSERT_TRUE(own.fill(some, 1, 512).ok());
    ASSERT_TRUE(own.record(event).ok());
    ASSERT_TRUE(own.synchronize().ok());
  };
  work();
  base::BusyThreads threads({work, work, work});
  base::forkOften(150, [&] {
    idle = Stream();
    event = Event();
    program = Executable();
    buffer = Buffer();
    device = Device();
    return 0;
  });
}

TEST(Guest, CallsOnWhatAChildInheritedAreErrorsAtOnce) {
  if (!base::kMayForkWhenBusy) GTEST_SKIP() << "not under a sanitizer";
  Device device = Device::open(sized(64 * kMiB)).value();
  Stream stream = Stream::create(device).value();
  Buffer buffer = device.allocate(4096).value();
  Event event;
  Executable program = Executable::load(device, toRecipe(testing::fillProgram(16, 1))).value();
  ASSERT_TRUE(stream.record(event).ok());
  // They hold the locks of all that the child asks.
  auto work = [&] {
    ASSERT_TRUE(stream.fill(buffer, 1, 512).ok());
    ASSERT_TRUE(stream.record(event).ok());
    ASSERT_TRUE(event.synchronize().ok());
    ASSERT_TRUE(device.synchronize().ok());
  };
  work();
  base::BusyThreads threads({work, work, work});
  base::forkOften(100, [&] {
    Event own;
    const Status calls[] = {stream.fill(buffer, 1, 512),
                            stream.record(own),
                            stream.wait(event),
                            stream.query().status(),
                            stream.error(),
                            stream.synchronize(500),
                            event.query().status(),
                            event.synchronize(500),
                            device.allocate(64).status(),
                            device.synchronize(500),
                            device.reset(500),
                            Stream::create(device).status(),
                            CaptureSession::begin(stream).status(),
                            program.launch(stream, {}, {buffer}),
                            Executable::load(device, program.recipe()).status()};
    int wrong = 0;
    for (const Status& status : calls) {
      ++wrong;
      if (status.code() != StatusCode::kFailedPrecondition) return wrong;
    }
    // It may have what it opens itself.
    return event.isDone() || !own.query().ok() ? 99 : 0;
  });
}

}  // namespace
}  // namespace hpu
