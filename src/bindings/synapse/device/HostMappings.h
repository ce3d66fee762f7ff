// SPDX-License-Identifier: Apache-2.0
// HostMappings: the ranges of a program's memory that synHostMap was given, of one device.
// The one thing to know: a range may be mapped as often as a program likes, and ranges may overlap; the runtime, which
// takes every byte once, is given the parts that it does not know yet.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "hpu/device.h"
#include "hpu/status.h"

namespace hpu::synapse {

/// Any thread may call anything.
class HostMappings {
 public:
  /// Errors: as Device::mapHost, but kAlreadyExists.
  Status map(hpu::Device& device, uintptr_t begin, uint64_t bytes);
  /// Takes back one map() of a range that begins there; what is not mapped is left as it is. Errors:
  /// kFailedPrecondition while enqueued work uses the memory; the range stays mapped then.
  Status unmap(hpu::Device& device, uintptr_t begin);

 private:
  struct Range {
    uint64_t bytes = 0;            ///< Of the longest that begins here.
    uint64_t count = 0;            ///< Of map() calls.
    std::vector<uintptr_t> parts;  ///< Where what the runtime was given for it begins.
  };
  static Status addParts(hpu::Device& device, uintptr_t begin, uint64_t bytes, Range& range);

  std::mutex mutex_;                   // Guards ranges_.
  std::map<uintptr_t, Range> ranges_;  ///< By their begin.
};

}  // namespace hpu::synapse
