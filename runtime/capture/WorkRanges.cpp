// SPDX-License-Identifier: Apache-2.0
#include "runtime/capture/WorkRanges.h"

#include <utility>

#include "runtime/device/DeviceState.h"
#include "runtime/executable/ExecutableState.h"
#include "runtime/memory/BufferState.h"

namespace hpu {
namespace {

uint64_t number(const void* pointer) {
  return static_cast<uint64_t>(reinterpret_cast<uintptr_t>(pointer));
}

void* pointer(uint64_t address) {
  return reinterpret_cast<void*>(static_cast<uintptr_t>(address));
}

}  // namespace

bool rangesMeet(uint64_t a, int64_t aBytes, uint64_t b, int64_t bBytes) {
  return aBytes > 0 && bBytes > 0 && a < b + static_cast<uint64_t>(bBytes) && b < a + static_cast<uint64_t>(aBytes);
}

void forEachDeviceRange(driver::Work& work, const ExecutableState* executable, WorkRange range) {
  if (auto* copy = std::get_if<driver::CopyToDevice>(&work)) {
    range(copy->dst, copy->bytes);
  } else if (auto* copy = std::get_if<driver::CopyToHost>(&work)) {
    range(copy->src, copy->bytes);
  } else if (auto* copy = std::get_if<driver::CopyOnDevice>(&work)) {
    range(copy->dst, copy->bytes);
    range(copy->src, copy->bytes);
  } else if (auto* fill = std::get_if<driver::Fill>(&work)) {
    range(fill->dst, fill->bytes);
  } else if (auto* copies = std::get_if<driver::CopyMany>(&work)) {
    for (CopyRange& one : copies->ranges) {
      if (copies->direction != CopyDirection::kToHost) range(one.dst, one.bytes);
      if (copies->direction != CopyDirection::kToDevice) range(one.src, one.bytes);
    }
  } else if (auto* launch = std::get_if<driver::Launch>(&work); launch && executable) {
    for (size_t s = 0; s < launch->sections.size(); ++s) {
      int64_t bytes = executable->boundBytes(s);
      if (bytes > 0) range(launch->sections[s], bytes);
    }
  }
}

void forEachHostRange(driver::Work& work, HostSide side, WorkRange range) {
  const bool source = side == HostSide::kSource;
  if (auto* copy = std::get_if<driver::CopyToDevice>(&work); copy && source) {
    uint64_t address = number(copy->src);
    range(address, copy->bytes);
    copy->src = pointer(address);
  } else if (auto* copy = std::get_if<driver::CopyToHost>(&work); copy && !source) {
    uint64_t address = number(copy->dst);
    range(address, copy->bytes);
    copy->dst = pointer(address);
  } else if (auto* copies = std::get_if<driver::CopyMany>(&work)) {
    if (copies->direction != (source ? CopyDirection::kToDevice : CopyDirection::kToHost)) return;
    for (CopyRange& one : copies->ranges) range(source ? one.src : one.dst, one.bytes);
  }
}

std::vector<KeptOwner> tellMemory(DeviceState& device, driver::Work& work, const ExecutableState* executable,
                                  std::vector<std::shared_ptr<const void>> owners, KnownMemory& known) {
  auto isOwner = [&](const void* found) {
    for (const auto& owner : owners)
      if (owner.get() == found) return true;
    return false;
  };
  forEachDeviceRange(work, executable, [&](uint64_t& address, int64_t) {
    auto buffer = device.memory().find(address);
    if (!buffer.ok()) return;
    const auto& allocation = (*buffer)->allocation();
    if (isOwner(allocation.get()))
      known[allocation.get()] = {nullptr, allocation->address(), allocation->bytes(), false};
  });
  for (HostSide side : {HostSide::kSource, HostSide::kDestination})
    forEachHostRange(work, side, [&](uint64_t& address, int64_t bytes) {
      auto block = device.host().use(pointer(address), bytes, "capture");
      if (!block.ok() || !*block || !isOwner(block->get())) return;
      const HostMemory& memory = (*block)->memory();
      known[block->get()] = {nullptr, number(memory.data), memory.bytes, true};
    });
  std::vector<KeptOwner> kept;
  kept.reserve(owners.size());
  for (auto& owner : owners) {
    if (!owner) continue;
    auto it = known.find(owner.get());
    kept.push_back(it == known.end() ? KeptOwner() : it->second);
    kept.back().owner = std::move(owner);
  }
  return kept;
}

void dropUnused(driver::Work& work, const ExecutableState* executable, std::vector<KeptOwner>& owners) {
  std::erase_if(owners, [&](const KeptOwner& kept) {
    if (kept.bytes == 0) return false;
    bool used = false;
    auto range = [&](uint64_t& address, int64_t bytes) {
      used |= rangesMeet(address, bytes, kept.address, kept.bytes);
    };
    if (kept.host) {
      forEachHostRange(work, HostSide::kSource, range);
      forEachHostRange(work, HostSide::kDestination, range);
    } else {
      forEachDeviceRange(work, executable, range);
    }
    return !used;
  });
}

}  // namespace hpu
