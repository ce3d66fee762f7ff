// SPDX-License-Identifier: Apache-2.0
#include "ShmRank.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "Threads.h"

namespace hpu::testing {
using namespace collectives;

std::vector<Device> openDevices(int count) {
  std::vector<Device> devices;
  for (int i = 0; i < count; ++i) {
    DeviceOptions options;
    options.index = i;
    options.hbmBytes = 16 << 20;
    auto device = Device::open(options);
    EXPECT_TRUE(device.ok()) << device.status().message();
    if (device.ok()) devices.push_back(*device);
  }
  return devices;
}

std::vector<StatusOr<std::shared_ptr<Transport>>> createRanks(int ranks, const std::vector<Device>& devices,
                                                              const std::function<void(ShmOptions&)>& change) {
  ThreadGather gather(ranks);
  std::vector<StatusOr<std::shared_ptr<Transport>>> results(static_cast<size_t>(ranks), internalError("not created"));
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      ShmOptions options;
      options.identity = "test";
      options.rank = r;
      options.ranks = ranks;
      if (!devices.empty()) options.deviceIndex = devices[static_cast<size_t>(r) % devices.size()].info().index;
      options.timeoutMs = 60000;
      options.allGather = [&, r](const std::string&, const std::string& mine) -> StatusOr<std::vector<std::string>> {
        return gather(r, mine);
      };
      if (change) change(options);
      results[static_cast<size_t>(r)] = createShmTransport(options);
    });
  for (std::thread& thread : threads) thread.join();
  return results;
}

Holdings holdings() {
  Holdings result;
  auto count = [](const char* folder) {
    std::error_code error;
    return static_cast<int>(std::distance(std::filesystem::directory_iterator(folder, error), {}));
  };
  result.descriptors = count("/proc/self/fd") - 1;
  result.threads = count("/proc/self/task");
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    ++result.mappings;
    result.segments += line.find("hpu-communicator") != std::string::npos;
  }
  return result;
}

}  // namespace hpu::testing
