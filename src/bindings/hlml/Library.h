// SPDX-License-Identifier: Apache-2.0
// Library: what the functions of hlml.h share: initialisation, handles, access to the node, samples.
// The one thing to know: every exported function is `return guarded([&] { ... })`, so nothing that is thrown
// leaves the library.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <string_view>

#include "hpu/node.h"
#include "hpu/telemetry.h"

#pragma GCC visibility push(default)
#include "habanalabs/hlml.h"
#pragma GCC visibility pop

namespace hpu::hlml {

/// Where the library looks. Tests give it a node and a clock of their own.
struct NodeAccess {
  std::function<StatusOr<node::NodeStatus>()> all;
  std::function<StatusOr<node::DeviceStatus>(int)> one;
  std::function<Status(int, node::Fault, int)> inject;
  std::function<int64_t()> nowNs;  ///< Monotonic; of the windows of readings.
};

template <typename Body>
hlml_return_t guarded(Body&& body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return HLML_ERROR_MEMORY;
  } catch (...) {
    return HLML_ERROR_UNKNOWN;
  }
}

/// Any thread may call anything.
class Library {
 public:
  static Library& get();

  /// For tests; between shutdown and initialize.
  void setNodeAccess(NodeAccess access);

  hlml_return_t initialize();
  hlml_return_t shutdown();
  /// 0 when the library is not initialised; otherwise it tells one initialisation from the next.
  uint64_t generation() const;

  hlml_return_t nodeStatus(node::NodeStatus& status) const;
  hlml_device_t handleOf(int index) const;
  /// HLML_ERROR_UNINITIALIZED, or HLML_ERROR_INVALID_ARGUMENT for a handle that is not a device's now.
  hlml_return_t indexOf(hlml_device_t device, int& index) const;
  /// As indexOf, and asks the node.
  hlml_return_t deviceStatus(hlml_device_t device, node::DeviceStatus& status) const;
  /// As deviceStatus; HLML_ERROR_AIP_IS_LOST for a device that is lost, HLML_ERROR_NO_DATA when its owner
  /// has never answered.
  hlml_return_t aliveStatus(hlml_device_t device, node::DeviceStatus& status) const;
  /// A new sample of a device that is not lost, read against an earlier one.
  hlml_return_t readings(hlml_device_t device, telemetry::Readings& readings);
  hlml_return_t inject(hlml_device_t device, node::Fault fault) const;

 private:
  Library();
  NodeAccess access() const;

  struct Samples {
    node::DeviceStatus base, latest;
    int64_t latestAtNs = 0;
  };

  mutable std::mutex mutex_;  // Guards everything below; never held while the node is asked.
  NodeAccess access_;
  uint64_t generation_ = 0;
  bool initialized_ = false;
  int devices_ = 0;
  Samples samples_[node::kDevices];
};

/// HLML_ERROR_UNINITIALIZED outside of hlml_init ... hlml_shutdown, else HLML_SUCCESS.
hlml_return_t checkInitialized();
hlml_return_t codeOf(const Status& status);
/// Copies `text` with its end into `length` characters, or HLML_ERROR_INSUFFICIENT_SIZE.
hlml_return_t copyText(std::string_view text, char* to, unsigned int length);

int64_t monotonicNs();

}  // namespace hpu::hlml

/// Leaves the function with the code of `expression` unless it is HLML_SUCCESS.
#define HLML_RETURN_IF_ERROR(expression) \
  if (hlml_return_t hlmlCode_ = (expression); hlmlCode_ != HLML_SUCCESS) return hlmlCode_
