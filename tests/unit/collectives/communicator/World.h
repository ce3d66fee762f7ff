// SPDX-License-Identifier: Apache-2.0
// World: the ranks of a communicator as threads of one process, each with a device and a stream.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "hpu/collectives.h"
#include "hpu/device.h"
#include "hpu/stream.h"

namespace hpu::collectives {

struct World {
  std::vector<Device> devices;
  std::vector<Communicator> comms;
  std::vector<Stream> streams;
  int size() const { return static_cast<int>(comms.size()); }

  static World make(int ranks, const CommunicatorOptions& options = {}, int64_t hbmBytes = 64 << 20) {
    World world;
    world.devices = openDevices(ranks, hbmBytes);
    auto made = Communicator::createAll(world.devices, options);
    EXPECT_TRUE(made.ok()) << made.status().toString();
    if (made.ok()) world.comms = std::move(*made);
    for (const Device& device : world.devices) world.streams.push_back(Stream::create(device).value());
    return world;
  }
  static std::vector<Device> openDevices(int count, int64_t hbmBytes = 64 << 20) {
    std::vector<Device> devices;
    for (int index = 0; index < count; ++index) {
      DeviceOptions options;
      options.index = index;
      options.hbmBytes = hbmBytes;
      options.threads = 1;
      auto device = Device::open(options);
      EXPECT_TRUE(device.ok()) << device.status().toString();
      devices.push_back(device.ok() ? *device : Device());
    }
    return devices;
  }

  /// `body(rank)` on a thread for each rank; by rank, what they returned.
  std::vector<Status> each(const std::function<Status(int)>& body) {
    std::vector<Status> results(comms.size());
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size(); ++rank)
      threads.emplace_back([&, rank] { results[static_cast<size_t>(rank)] = body(rank); });
    for (std::thread& thread : threads) thread.join();
    return results;
  }
  /// The same; all must be ok.
  void all(const std::function<Status(int)>& body) {
    std::vector<Status> results = each(body);
    for (size_t rank = 0; rank < results.size(); ++rank)
      EXPECT_TRUE(results[rank].ok()) << "rank " << rank << ": " << results[rank].toString();
  }

  template <typename T>
  Buffer put(int rank, const std::vector<T>& values) {
    auto bytes = static_cast<int64_t>(values.size() * sizeof(T));
    Buffer buffer = devices[static_cast<size_t>(rank)].allocate(std::max<int64_t>(bytes, 1)).value();
    Stream& stream = streams[static_cast<size_t>(rank)];
    EXPECT_TRUE(bytes == 0 || stream.copyToDevice(buffer, values.data(), bytes).ok());
    EXPECT_TRUE(stream.synchronize().ok());
    return buffer;
  }
  template <typename T>
  std::vector<T> get(int rank, const Buffer& buffer, size_t count) {
    std::vector<T> values(count);
    Stream& stream = streams[static_cast<size_t>(rank)];
    auto bytes = static_cast<int64_t>(count * sizeof(T));
    EXPECT_TRUE(bytes == 0 || stream.copyToHost(values.data(), buffer, bytes).ok());
    EXPECT_TRUE(stream.synchronize().ok());
    return values;
  }
};

}  // namespace hpu::collectives
