// SPDX-License-Identifier: Apache-2.0
// Eight processes have the eight devices and compute; one after the other is killed at random. Its
// device is free within a second, nothing is left of it, and the others compute on.
// NODE_KILLS is how often (20).
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "WorkerProcess.h"
#include "hpu/node.h"
#include "runtime/node/Ownership.h"

namespace hpu {
namespace {

using testing::WorkerProcess;
using Clock = std::chrono::steady_clock;

// Freeing is the kernel's closing of a dead process's descriptors: milliseconds, and on a machine
// whose cores are all taken as long as the dead process waits for one of them.
constexpr std::chrono::milliseconds kFreeWithin(1000);

int kills() {
  const char* text = std::getenv("NODE_KILLS");
  return text ? std::atoi(text) : 20;
}

std::set<std::string> listing(const std::string& folder) {
  std::set<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error))
    names.insert(folder + "/" + entry.path().filename().string());
  return names;
}

/// What of shared memory and temporary files could be ours. Others use /tmp too: there only names
/// that say so count.
std::set<std::string> sharedFiles() {
  std::set<std::string> names = listing("/dev/shm");
  for (const std::string& name : listing("/tmp"))
    if (name.find("hpu") != std::string::npos) names.insert(name);
  return names;
}

/// New files that stay: other programs' come and go while we look.
std::set<std::string> leftOver(const std::set<std::string>& before) {
  std::set<std::string> left;
  for (int i = 0; i < 100; ++i) {
    std::set<std::string> now = sharedFiles();
    left.clear();
    std::set_difference(now.begin(), now.end(), before.begin(), before.end(), std::inserter(left, left.end()));
    if (left.empty()) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return left;
}

/// What the test itself was started with; workers inherit it.
std::set<std::string> inherited() {
  std::set<std::string> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error))
    files.insert(std::filesystem::read_symlink(entry.path(), error).string());
  return files;
}

/// Files with a name, in folders that outlive processes, that the process has open or mapped.
std::string namedFiles(pid_t pid, const std::set<std::string>& except) {
  std::string found;
  const std::string process = "/proc/" + std::to_string(pid);
  std::error_code error;
  // The tree may be built in one of these folders.
  const std::string program = std::filesystem::read_symlink(process + "/exe", error).string();
  auto note = [&](const std::string& file) {
    if (except.count(file) || file == program) return;
    for (const char* folder : {"/tmp/", "/dev/shm/", "/var/tmp/", "/run/"})
      if (file.rfind(folder, 0) == 0 && file.find(" (deleted)") == std::string::npos) found += file + " ";
  };
  for (const auto& entry : std::filesystem::directory_iterator(process + "/fd", error))
    note(std::filesystem::read_symlink(entry.path(), error).string());
  std::ifstream maps(process + "/maps");
  for (std::string line; std::getline(maps, line);)
    if (size_t path = line.find('/'); path != std::string::npos) note(line.substr(path));
  return found;
}

/// Names of this node's devices that some process has bound.
std::vector<std::string> boundNames() {
  std::vector<std::string> names;
  std::string mine = "/" + node::query().value().identity + "/";
  std::ifstream sockets("/proc/net/unix");
  for (std::string line; std::getline(sockets, line);)
    if (line.find("@openhpu/node/") != std::string::npos && line.find(mine) != std::string::npos) names.push_back(line);
  return names;
}

struct Check {
  long rounds = -1, wrong = -1;
};
Check check(WorkerProcess& worker) {
  Check result;
  std::string reply = worker.ask("check");
  EXPECT_EQ(std::sscanf(reply.c_str(), "rounds %ld wrong %ld", &result.rounds, &result.wrong), 2)
      << "process " << worker.pid() << " says '" << reply << "'";
  EXPECT_EQ(result.wrong, 0) << reply;
  return result;
}

/// Waits until the worker has computed something more than before.
void expectProgress(WorkerProcess& worker) {
  long before = check(worker).rounds;
  for (int i = 0; i < 6000; ++i) {
    if (check(worker).rounds > before) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ADD_FAILURE() << "process " << worker.pid() << " computes no more";
}

/// How long after the kill the device was last seen in the dead process's hands. Looking asks the
/// kernel and waits for nobody.
std::chrono::microseconds timeUntilFree(int index, int64_t deadPid, Clock::time_point killed) {
  Clock::time_point lastOwned = killed;
  while (Clock::now() - killed < std::chrono::seconds(60)) {
    Clock::time_point looked = Clock::now();
    if (node::ownerPid(index) != deadPid) break;
    lastOwned = looked;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return std::chrono::duration_cast<std::chrono::microseconds>(lastOwned - killed);
}

std::unique_ptr<WorkerProcess> start(int index) {
  // It does not wait for the device: it is free, or this fails.
  return std::make_unique<WorkerProcess>(std::vector<std::string>{"--index", std::to_string(index), "--run"},
                                         std::vector<std::string>{"HPU_ACQUIRE_TIMEOUT_MS=0"});
}

TEST(NodeKill, OneOfEightIsKilledAgainAndAgain) {
  const std::set<std::string> filesBefore = sharedFiles();
  const std::set<std::string> ours = inherited();
  std::vector<std::unique_ptr<WorkerProcess>> workers;
  std::vector<std::string> descriptors;
  for (int i = 0; i < node::kDevices; ++i) {
    workers.push_back(start(i));
    ASSERT_EQ(workers.back()->index(), i) << workers.back()->hello();
    descriptors.push_back(workers.back()->ask("descriptors"));
  }
  unsigned seed = std::random_device{}();
  RecordProperty("seed", std::to_string(seed));
  std::mt19937 random(seed);
  std::chrono::microseconds slowest(0);
  for (int round = 0; round < kills(); ++round) {
    auto victim = static_cast<size_t>(random() % node::kDevices);
    SCOPED_TRACE("seed " + std::to_string(seed) + " round " + std::to_string(round) + " device " +
                 std::to_string(victim));
    // In the middle of whatever it does.
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 5000));
    EXPECT_EQ(namedFiles(workers[victim]->pid(), ours), "");
    pid_t pid = workers[victim]->pid();
    Clock::time_point killed = Clock::now();
    workers[victim]->signal(SIGKILL);
    auto free = timeUntilFree(static_cast<int>(victim), pid, killed);
    EXPECT_LT(free, kFreeWithin);
    slowest = std::max(slowest, free);
    workers[victim] = start(static_cast<int>(victim));
    ASSERT_EQ(workers[victim]->index(), static_cast<int>(victim)) << workers[victim]->hello();
    descriptors[victim] = workers[victim]->ask("descriptors");
    for (const auto& worker : workers) (void)check(*worker);
  }
  RecordProperty("slowest_free_us", std::to_string(slowest.count()));
  for (const auto& worker : workers) expectProgress(*worker);
  for (size_t i = 0; i < workers.size(); ++i)
    EXPECT_EQ(workers[i]->ask("descriptors"), descriptors[i]) << "device " << i;
  for (const auto& worker : workers) EXPECT_EQ(worker->quit(), 0);
  node::NodeStatus after = node::query().value();
  for (const node::DeviceStatus& device : after.devices) EXPECT_EQ(device.owner.pid, 0) << "device " << device.index;
  EXPECT_TRUE(boundNames().empty());
  for (const std::string& file : leftOver(filesBefore)) ADD_FAILURE() << file << " was left";
}

}  // namespace
}  // namespace hpu
