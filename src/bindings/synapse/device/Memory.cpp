// SPDX-License-Identifier: Apache-2.0
// Entry points that allocate and map memory.
#include <cstdint>

#include "base/Format.h"
#include "bindings/synapse/api/EntryPoint.h"
#include "bindings/synapse/api/Library.h"
#include "bindings/synapse/device/HostRange.h"
#include "hpu/host_memory.h"

using hpu::synapse::badArgument;
using hpu::synapse::guarded;
using hpu::synapse::guardedCreate;
using hpu::synapse::Result;

namespace {

Result checkSize(uint64_t size) {
  if (size > INT64_MAX) return badArgument(hpu::base::strCat(size, " bytes are more than there can be"));
  return {};
}

/// An allocation of nothing is one of the smallest size: it has an address of its own, and is freed as others are.
int64_t allocatedBytes(uint64_t size) {
  return size == 0 ? 1 : static_cast<int64_t>(size);
}

/// `own` is the flag of synMemFlags that says what the function does anyway.
Result checkFlags(uint32_t flags, uint32_t own) {
  if ((flags & ~own) == 0) return {};
  return badArgument("the flags " + hpu::base::formatHex(flags) + " have no meaning here; give 0");
}

}  // namespace

synStatus synDeviceMalloc(const synDeviceId deviceId, const uint64_t size, uint64_t reqAddr, const uint32_t flags,
                          uint64_t* buffer) {
  return guardedCreate("synDeviceMalloc", buffer, [&]() -> Result {
    SYN_REQUIRE(buffer);
    SYN_RETURN_IF_ERROR(checkSize(size));
    SYN_RETURN_IF_ERROR(checkFlags(flags, synMemDevice));
    SYN_FIND_DEVICE(device, deviceId);
    hpu::Device handle = device->device();
    hpu::AllocateOptions options;
    options.label = "synDeviceMalloc";
    options.requestedAddress = reqAddr;
    hpu::StatusOr<hpu::Buffer> allocated = handle.allocate(allocatedBytes(size), options);
    if (!allocated.ok()) {
      // What is taken at a requested address is memory that cannot be had, as SynapseAI has it.
      if (allocated.status().code() == hpu::StatusCode::kAlreadyExists)
        return {synFailedToAllocateDeviceMemory, allocated.status().message()};
      return allocated.status();
    }
    *buffer = allocated->address();
    device->keep(std::move(*allocated));
    return {};
  });
}

synStatus synDeviceFree(const synDeviceId deviceId, const uint64_t buffer, const uint32_t flags) {
  return guarded("synDeviceFree", [&]() -> Result {
    SYN_RETURN_IF_ERROR(checkFlags(flags, synMemDevice));
    SYN_FIND_DEVICE(device, deviceId);
    return device->free(buffer);
  });
}

synStatus synHostMalloc(const synDeviceId deviceId, const uint64_t size, const uint32_t flags, void** buffer) {
  return guardedCreate("synHostMalloc", buffer, [&]() -> Result {
    SYN_REQUIRE(buffer);
    SYN_RETURN_IF_ERROR(checkSize(size));
    SYN_RETURN_IF_ERROR(checkFlags(flags, synMemHost));
    SYN_FIND_DEVICE(device, deviceId);
    hpu::Device handle = device->device();
    hpu::StatusOr<hpu::HostMemory> memory = handle.allocateHost(allocatedBytes(size), "synHostMalloc");
    if (!memory.ok()) {
      if (memory.status().code() == hpu::StatusCode::kResourceExhausted)
        return {synOutOfHostMemory, memory.status().message()};
      return memory.status();
    }
    *buffer = memory->data;
    return {};
  });
}

synStatus synHostFree(const synDeviceId deviceId, const void* buffer, const uint32_t flags) {
  return guarded("synHostFree", [&]() -> Result {
    SYN_REQUIRE(buffer);
    SYN_RETURN_IF_ERROR(checkFlags(flags, synMemHost));
    SYN_FIND_DEVICE(device, deviceId);
    hpu::Device handle = device->device();
    hpu::Status status = handle.freeHost(buffer);
    if (status.code() == hpu::StatusCode::kNotFound) return badArgument(status.message());
    return status;
  });
}

synStatus synHostMap(const synDeviceId deviceId, const uint64_t size, const void* buffer) {
  return guarded("synHostMap", [&]() -> Result {
    SYN_REQUIRE(buffer);
    SYN_RETURN_IF_ERROR(checkSize(size));
    SYN_FIND_DEVICE(device, deviceId);
    if (size == 0) return {};
    SYN_RETURN_IF_ERROR(hpu::synapse::checkMapped("buffer", reinterpret_cast<uintptr_t>(buffer), size));
    hpu::Device handle = device->device();
    return device->mappings().map(handle, reinterpret_cast<uintptr_t>(buffer), size);
  });
}

synStatus synHostUnmap(const synDeviceId deviceId, const void* buffer) {
  return guarded("synHostUnmap", [&]() -> Result {
    SYN_REQUIRE(buffer);
    SYN_FIND_DEVICE(device, deviceId);
    hpu::Device handle = device->device();
    hpu::Status status = device->mappings().unmap(handle, reinterpret_cast<uintptr_t>(buffer));
    if (status.code() == hpu::StatusCode::kFailedPrecondition) return {synBusy, status.message()};
    return status;
  });
}
