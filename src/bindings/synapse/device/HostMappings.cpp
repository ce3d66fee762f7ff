// SPDX-License-Identifier: Apache-2.0
#include "bindings/synapse/device/HostMappings.h"

#include <algorithm>

#include "base/HostMemory.h"
#include "base/StatusMacros.h"
#include "hpu/host_memory.h"

namespace hpu::synapse {

Status HostMappings::addParts(hpu::Device& device, uintptr_t begin, uint64_t bytes, Range& range) {
  const uintptr_t end = begin + bytes;
  for (uintptr_t at = begin; at < end;) {
    if (StatusOr<HostMemory> known = device.findHost(base::hostPointer(at)); known.ok()) {
      at = reinterpret_cast<uintptr_t>(known->data) + static_cast<uintptr_t>(known->bytes);
      continue;
    }
    // Up to what is known next: what overlaps is halved until it does not.
    uint64_t part = end - at;
    Status status;
    while (true) {
      status = device.mapHost(base::hostPointer(at), static_cast<int64_t>(part), "synHostMap");
      if (status.code() != StatusCode::kAlreadyExists || part == 1) break;
      part = (part + 1) / 2;
    }
    HPU_RETURN_IF_ERROR(status);
    range.parts.push_back(at);
    at += part;
  }
  return okStatus();
}

Status HostMappings::map(hpu::Device& device, uintptr_t begin, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  Range& range = ranges_[begin];
  Status status = addParts(device, begin, bytes, range);
  if (status.ok()) {
    range.bytes = std::max(range.bytes, bytes);
    ++range.count;
  } else if (range.count == 0) {
    for (uintptr_t part : range.parts) device.unmapHost(base::hostPointer(part)).ignore();
    ranges_.erase(begin);
  }
  return status;
}

Status HostMappings::unmap(hpu::Device& device, uintptr_t begin) {
  std::lock_guard lock(mutex_);
  auto found = ranges_.find(begin);
  if (found == ranges_.end()) return okStatus();
  Range& range = found->second;
  if (range.count > 1) {
    --range.count;
    return okStatus();
  }
  while (!range.parts.empty()) {
    Status status = device.unmapHost(base::hostPointer(range.parts.back()));
    // What was given back to the system unmapped, and allocated anew, is gone from the runtime already.
    if (!status.ok() && status.code() != StatusCode::kNotFound) {
      addParts(device, begin, range.bytes, range).ignore();
      return status;
    }
    range.parts.pop_back();
  }
  const uintptr_t end = begin + range.bytes;
  ranges_.erase(found);
  for (auto& [other, rest] : ranges_)
    if (other < end && begin < other + rest.bytes) addParts(device, other, rest.bytes, rest).ignore();
  return okStatus();
}

}  // namespace hpu::synapse
