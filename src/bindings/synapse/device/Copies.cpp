// SPDX-License-Identifier: Apache-2.0
// Entry points that enqueue copies and memsets.
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/Format.h"
#include "base/HostMemory.h"
#include "bindings/synapse/api/EntryPoint.h"
#include "bindings/synapse/api/Library.h"
#include "bindings/synapse/device/HostRange.h"

using hpu::base::hostPointer;
using hpu::synapse::badArgument;
using hpu::synapse::guarded;
using hpu::synapse::Result;
using hpu::synapse::StreamObject;

namespace {

/// That all of the range is memory of this process, so that a wrong address (or a device address in the place of a
/// host address) is an error of the call. What the program has mapped with the device is known to be, and is not asked
/// about. Whether it may be read or written shows when the copy runs, as an error of the stream.
Result checkHost(const hpu::Device& device, uint64_t address, int64_t bytes, const char* side) {
  if (address == 0) return badArgument(std::string(side) + " is a null host address");
  if (device.findHost(hostPointer(address)).ok()) return {};  // The copy checks the range.
  return hpu::synapse::checkMapped(side, address, static_cast<uint64_t>(bytes));
}

Result checkDirection(synDmaDir direction) {
  if (direction == HOST_TO_DRAM || direction == DRAM_TO_HOST || direction == DRAM_TO_DRAM) return {};
  return badArgument(hpu::base::strCat("there is no direction ", static_cast<int>(direction)));
}

/// As the words of a copy's error say it: an address in no allocation is one that is not mapped.
Result ofCopy(const hpu::Status& status) {
  if (status.code() == hpu::StatusCode::kNotFound) return {synMappingNotFound, status.message()};
  return hpu::synapse::ofEnqueue(status);
}

Result checkCopy(const StreamObject& stream, uint64_t src, uint64_t size, uint64_t dst, synDmaDir direction) {
  if (size > INT64_MAX) return badArgument(hpu::base::strCat(size, " bytes are more than there can be"));
  if (size == 0) return {};
  auto bytes = static_cast<int64_t>(size);
  if (direction == HOST_TO_DRAM) return checkHost(stream.device->device(), src, bytes, "src");
  if (direction == DRAM_TO_HOST) return checkHost(stream.device->device(), dst, bytes, "dst");
  return {};
}

/// What a copy reads and writes.
void addUses(uint64_t src, uint64_t size, uint64_t dst, synDmaDir direction,
             std::vector<hpu::synapse::MemoryUse>& uses) {
  uses.push_back({src, src + size, false, direction == HOST_TO_DRAM});
  uses.push_back({dst, dst + size, true, direction == DRAM_TO_HOST});
}

/// `enqueue() -> Status` behind what other streams do with the memory, where the program wants that order.
template <typename Enqueue>
Result enqueueCopies(StreamObject& stream, std::span<const uint64_t> src, std::span<const uint64_t> size,
                     std::span<const uint64_t> dst, synDmaDir direction, Enqueue&& enqueue) {
  hpu::synapse::AddressOrder& order = stream.device->order();
  if (!order.isEnabled()) return ofCopy(enqueue());
  std::vector<hpu::synapse::MemoryUse> uses;
  for (size_t i = 0; i < src.size(); ++i)
    if (size[i] > 0) addUses(src[i], size[i], dst[i], direction, uses);
  return ofCopy(order.inOrder(stream.stream, uses, std::forward<Enqueue>(enqueue)));
}

Result fill(const synStreamHandle streamHandle, uint64_t address, uint32_t value, int elementBytes, uint64_t count) {
  SYN_FIND(stream, hpu::synapse::streams(), streamHandle);
  if (count > INT64_MAX) return badArgument(hpu::base::strCat(count, " elements are more than there can be"));
  const hpu::synapse::MemoryUse use{address, address + count * static_cast<uint64_t>(elementBytes), true, false};
  return ofCopy(stream->device->order().inOrder(stream->stream, {&use, 1}, [&] {
    return stream->stream.fill(address, value, elementBytes, static_cast<int64_t>(count));
  }));
}

}  // namespace

synStatus synMemCopyAsync(const synStreamHandle streamHandle, const uint64_t src, const uint64_t size,
                          const uint64_t dst, const synDmaDir direction) {
  return guarded("synMemCopyAsync", [&]() -> Result {
    SYN_FIND(stream, hpu::synapse::streams(), streamHandle);
    SYN_RETURN_IF_ERROR(checkDirection(direction));
    SYN_RETURN_IF_ERROR(checkCopy(*stream, src, size, dst, direction));
    auto bytes = static_cast<int64_t>(size);
    return enqueueCopies(*stream, {&src, 1}, {&size, 1}, {&dst, 1}, direction, [&] {
      switch (direction) {
        case HOST_TO_DRAM:
          return stream->stream.copyToDevice(dst, hostPointer(src), bytes);
        case DRAM_TO_HOST:
          return stream->stream.copyToHost(hostPointer(dst), src, bytes);
        default:
          return stream->stream.copyOnDevice(dst, src, bytes);
      }
    });
  });
}

synStatus synMemCopyAsyncMultiple(const synStreamHandle streamHandle, const uint64_t* src, const uint64_t* size,
                                  const uint64_t* dst, const synDmaDir direction, const uint64_t numCopies) {
  return guarded("synMemCopyAsyncMultiple", [&]() -> Result {
    SYN_FIND(stream, hpu::synapse::streams(), streamHandle);
    SYN_RETURN_IF_ERROR(checkDirection(direction));
    if (numCopies == 0) return {};
    SYN_REQUIRE(src);
    SYN_REQUIRE(size);
    SYN_REQUIRE(dst);
    std::vector<hpu::CopyRange> ranges(numCopies);
    for (uint64_t i = 0; i < numCopies; ++i) {
      Result checked = checkCopy(*stream, src[i], size[i], dst[i], direction);
      if (!checked.ok()) return {checked.status(), hpu::base::strCat("copy ", i, ": ", checked.text())};
      ranges[i] = {dst[i], src[i], static_cast<int64_t>(size[i])};
    }
    hpu::CopyDirection way = direction == HOST_TO_DRAM   ? hpu::CopyDirection::kToDevice
                             : direction == DRAM_TO_HOST ? hpu::CopyDirection::kToHost
                                                         : hpu::CopyDirection::kOnDevice;
    return enqueueCopies(*stream, {src, numCopies}, {size, numCopies}, {dst, numCopies}, direction,
                         [&] { return stream->stream.copyMany(way, ranges); });
  });
}

synStatus synMemsetD8Async(uint64_t pDeviceMem, const unsigned char value, const uint64_t numOfElements,
                           const synStreamHandle streamHandle) {
  return guarded("synMemsetD8Async",
                 [&]() -> Result { return fill(streamHandle, pDeviceMem, value, 1, numOfElements); });
}

synStatus synMemsetD16Async(uint64_t pDeviceMem, const uint16_t value, const uint64_t numOfElements,
                            const synStreamHandle streamHandle) {
  return guarded("synMemsetD16Async",
                 [&]() -> Result { return fill(streamHandle, pDeviceMem, value, 2, numOfElements); });
}

synStatus synMemsetD32Async(uint64_t pDeviceMem, const uint32_t value, const uint64_t numOfElements,
                            const synStreamHandle streamHandle) {
  return guarded("synMemsetD32Async",
                 [&]() -> Result { return fill(streamHandle, pDeviceMem, value, 4, numOfElements); });
}
