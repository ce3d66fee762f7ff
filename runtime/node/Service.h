// SPDX-License-Identifier: Apache-2.0
// Service: the thread on which a process answers for the devices that it owns.
// The one thing to know: it sleeps until somebody asks; it begins with the first device of the
// process and ends with the last, and a forked child has neither it nor the devices.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "hpu/node.h"
#include "hpu/status.h"
#include "runtime/node/Ownership.h"
#include "runtime/node/Protocol.h"

namespace hpu::node {

/// Any thread may call anything. Reporters are called under the service's lock.
class Service {
 public:
  /// The process's own; lives for ever.
  static Service& instance();

  /// A device whose name `listener` has bound; gives its key.
  StatusOr<uint64_t> add(Fd listener, int index, Target target);
  /// Closes the name and all connections for the device; it is free on return. A key of before a
  /// fork does nothing.
  void remove(uint64_t key);
  /// What answers for the device and what its memory is; null: nobody, until the next call. No call
  /// of the previous reporter runs on return.
  void setReporter(uint64_t key, DeviceReporter* reporter, const SharedMemory& memory);

 private:
  struct Device {
    int index = 0;
    Target target = Target::kGaudi2;
    Fd listener;
    DeviceReporter* reporter = nullptr;
    SharedMemory memory;
    int64_t acquiredAtNs = 0;
  };
  struct Connection {
    uint64_t device = 0;
    Fd socket;
    Peer peer;
    std::string name;
    bool mapsMemory = false;
    std::optional<MemoryToken> grant;  ///< Whoever shows it may map the memory, while the connection is open.
  };

  Service() = default;
  Status start();
  void loop(int epoll, int wake);
  /// The lock, ahead of the thread, which takes no callers meanwhile: however many there are, whoever opens, closes or
  /// forks waits for a few of them at most.
  std::unique_lock<std::mutex> ahead();
  struct Caller {
    Fd socket;
    Peer peer;
  };
  /// Takes some callers of a device, without the lock; false when there are no descriptors for more of them.
  static bool accept(int listener, std::vector<Caller>& callers);
  void keep(uint64_t key, std::vector<Caller> callers);
  void serve(uint64_t key);
  std::string answer(Connection& connection, const Request& request, int& fd);
  bool isGranted(uint64_t device, const MemoryToken& token) const;
  DeviceStatus report(uint64_t key, const Device& device) const;
  static void prepareFork();
  static void parentAfterFork();
  static void childAfterFork();

  std::mutex lifecycle_;          // Held while the thread is started or stopped; taken before mutex_.
  std::atomic<int> wanted_{0};    // Those who come ahead of the thread.
  mutable std::mutex mutex_;      // Guards everything below.
  std::condition_variable turn_;  // wanted_ is 0, or accepting_ has changed.
  bool accepting_ = false;        // The thread uses a device's listener.
  std::map<uint64_t, Device> devices_;
  std::map<uint64_t, Connection> connections_;
  uint64_t nextKey_ = 1;
  Fd epoll_, wake_;
  std::unique_ptr<std::thread> thread_;
  bool hooked_ = false;
};

}  // namespace hpu::node
