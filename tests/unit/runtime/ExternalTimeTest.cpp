// SPDX-License-Identifier: Apache-2.0
// Device times and traces of a program with external work do not depend on the host: neither on
// when ends are told, nor on who tells them, nor on how many threads compute.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "ExternalProbe.h"
#include "TinyProgram.h"
#include "hpu/device.h"
#include "hpu/event.h"
#include "hpu/executable.h"
#include "hpu/stream.h"
#include "hpu/trace.h"

namespace hpu {
namespace {

using testing::ExternalProbe;

constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kN = 128;
constexpr int64_t kBytes = kN * kN * 4;

/// Ends work on threads of its own, each after a random moment.
class SlowNetwork {
 public:
  SlowNetwork(int threads, uint32_t seed) : random_(seed) {
    for (int t = 0; t < threads; ++t) threads_.emplace_back([this] { run(); });
  }
  ~SlowNetwork() {
    {
      std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    for (auto& thread : threads_) thread.join();
  }
  /// Work that takes `durationPs`, in two parts that overlap.
  std::shared_ptr<ExternalProbe> work(int64_t durationPs) {
    auto probe = std::make_shared<ExternalProbe>("all-reduce");
    probe->onStartShared = [this, durationPs](std::shared_ptr<ExternalTurn> turn) {
      const int64_t arrival = turn->arrivalPs();
      Job job{
          std::move(turn),
          arrival + durationPs,
          {{"send to 1", arrival, arrival + durationPs / 2}, {"receive from 1", arrival + 10, arrival + durationPs}}};
      std::unique_lock lock(mutex_);
      if (random_() % 4 == 0) {  // Over at once.
        lock.unlock();
        job.turn->complete(okStatus(), job.end, job.spans);
        return;
      }
      jobs_.push_back(std::move(job));
      lock.unlock();
      changed_.notify_one();
    };
    return probe;
  }

 private:
  struct Job {
    std::shared_ptr<ExternalTurn> turn;
    int64_t end = 0;
    std::vector<ExternalSpan> spans;
  };
  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return over_ || !jobs_.empty(); });
      if (jobs_.empty()) return;
      Job job = std::move(jobs_.front());
      jobs_.pop_front();
      const std::chrono::microseconds delay(random_() % 1500);
      lock.unlock();
      std::this_thread::sleep_for(delay);
      job.turn->complete(okStatus(), job.end, std::move(job.spans));
      job = {};
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  std::mt19937 random_;
  bool over_ = false;
  std::vector<std::thread> threads_;
};

struct Result {
  std::vector<int64_t> times;
  std::string deviceTrace;  ///< The device's part of the trace, as CSV.
};

/// A few training steps: launches whose first output starts a collective while the rest goes on,
/// and an update that waits for it; copies beside.
Result run(const std::string& driver, int threads, int networkThreads, uint32_t seed) {
  const std::string file =
      (std::filesystem::temp_directory_path() / ("external_time_" + std::to_string(::getpid()) + ".csv")).string();
  EXPECT_TRUE(trace::start({}).ok());
  Result result;
  {
    DeviceOptions options;
    options.driver = driver;
    options.index = 0;
    options.hbmBytes = 64 * kMiB;
    options.threads = threads;
    Device device = Device::open(options).value();
    Stream compute = Stream::create(device, {.name = "compute"}).value(),
           network = Stream::create(device, {.name = "network"}).value(),
           copies = Stream::create(device, {.name = "copies"}).value();
    Executable layer = Executable::load(device, testing::toRecipe(testing::copyThenMultiplyProgram(kN))).value();
    Executable update = Executable::load(device, testing::toRecipe(testing::copyProgram(kN * kN))).value();
    Buffer in = device.allocate(kBytes).value(), gradient = device.allocate(kBytes).value(),
           rest = device.allocate(kBytes).value(), weights = device.allocate(kBytes).value(),
           scratch = device.allocate(kBytes).value();
    std::vector<float> data(kN * kN, 1.0f), out(kN * kN);
    SlowNetwork links(networkThreads, seed);
    for (int step = 0; step < 4; ++step) {
      std::vector<Event> events;
      for (int i = 0; i < 6; ++i) {
        Event written, summed, copied;
        LaunchArguments launch;
        launch.inputs = {in.address()};
        launch.outputs = {gradient.address(), rest.address()};
        launch.events = {{0, written}};
        EXPECT_TRUE(layer.launch(compute, launch).ok());
        EXPECT_TRUE(network.wait(written).ok());
        EXPECT_TRUE(network.enqueue(links.work(2000000 + 1700000 * (i % 3))).ok());
        EXPECT_TRUE(network.record(summed).ok());
        EXPECT_TRUE(copies.copyToDevice(scratch, data.data(), kBytes).ok());
        EXPECT_TRUE(copies.record(copied).ok());
        events.insert(events.end(), {written, summed, copied});
        if (i % 2 == 1) {
          EXPECT_TRUE(compute.wait(summed).ok());
          EXPECT_TRUE(update.launch(compute, {gradient}, {weights}).ok());
        }
      }
      EXPECT_TRUE(compute.copyToHost(out.data(), weights, kBytes).ok());
      EXPECT_TRUE((step % 2 ? compute : network).synchronize().ok());
      EXPECT_TRUE(device.synchronize().ok());
      for (const Event& event : events) result.times.push_back(event.deviceTimeNs().value());
    }
    DeviceCounters counters = device.counters();
    result.times.push_back(counters.deviceNs);
    for (int64_t busy : counters.busyNs) result.times.push_back(busy);
  }
  Status stopped = trace::stop(file);
  EXPECT_TRUE(stopped.ok()) << stopped.message();
  std::ifstream stream(file);
  result.deviceTrace.assign(std::istreambuf_iterator<char>(stream), {});
  std::filesystem::remove(file);
  return result;
}

TEST(ExternalTime, IsTheSameHoweverFastTheHostIs) {
  for (std::string driver : {"sim", "null"}) {
    Result expected = run(driver, 1, 1, 0);
    EXPECT_NE(expected.deviceTrace.find("nic,all-reduce"), std::string::npos);
    EXPECT_NE(expected.deviceTrace.find("network,receive from 1"), std::string::npos);
    const int64_t network = expected.times[expected.times.size() - 1];
    EXPECT_EQ(network, 4 * 2 * (2000 + 3700 + 5400));
    for (uint32_t seed = 1; seed <= 8; ++seed) {
      Result other = run(driver, 1 + static_cast<int>(seed) % 4, 1 + static_cast<int>(seed) % 3, seed);
      ASSERT_EQ(other.times, expected.times) << driver << ", seed " << seed;
      ASSERT_EQ(other.deviceTrace, expected.deviceTrace) << driver << ", seed " << seed;
    }
  }
}

}  // namespace
}  // namespace hpu
