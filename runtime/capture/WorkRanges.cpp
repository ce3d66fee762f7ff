// SPDX-License-Identifier: Apache-2.0
#include "runtime/capture/WorkRanges.h"

#include <utility>

#include "base/HostMemory.h"
#include "runtime/device/DeviceState.h"
#include "runtime/driver/WorkVisitor.h"
#include "runtime/executable/Instance.h"
#include "runtime/memory/BufferState.h"

namespace hpu {

bool rangesMeet(uint64_t a, int64_t aBytes, uint64_t b, int64_t bBytes) {
  return aBytes > 0 && bBytes > 0 && a < b + static_cast<uint64_t>(bBytes) && b < a + static_cast<uint64_t>(aBytes);
}

void forEachDeviceRange(driver::Work& work, const Instance* instance, WorkRange range) {
  driver::visitWork(
      work, [&](driver::CopyToDevice& copy) { range(copy.dst, copy.bytes); },
      [&](driver::CopyToHost& copy) { range(copy.src, copy.bytes); },
      [&](driver::CopyOnDevice& copy) {
        range(copy.dst, copy.bytes);
        range(copy.src, copy.bytes);
      },
      [&](driver::Fill& fill) { range(fill.dst, fill.bytes); },
      [&](driver::CopyMany& copies) {
        for (CopyRange& one : copies.ranges) {
          if (copies.direction != CopyDirection::kToHost) range(one.dst, one.bytes);
          if (copies.direction != CopyDirection::kToDevice) range(one.src, one.bytes);
        }
      },
      [&](driver::Launch& launch) {
        for (size_t s = 0; instance && s < launch.sections.size(); ++s) {
          int64_t bytes = instance->boundBytes(s);
          if (bytes > 0) range(launch.sections[s], bytes);
        }
      },
      [](const auto&) {});
}

void forEachDeviceRange(std::vector<WorkMemory>& memory, WorkRange range) {
  for (WorkMemory& one : memory) range(one.address, one.bytes);
}

void forEachHostRange(driver::Work& work, HostSide side, WorkRange range) {
  const bool source = side == HostSide::kSource;
  driver::visitWork(
      work,
      [&](driver::CopyToDevice& copy) {
        if (!source) return;
        uint64_t address = base::hostAddress(copy.src);
        range(address, copy.bytes);
        copy.src = base::hostPointer(address);
      },
      [&](driver::CopyToHost& copy) {
        if (source) return;
        uint64_t address = base::hostAddress(copy.dst);
        range(address, copy.bytes);
        copy.dst = base::hostPointer(address);
      },
      [&](driver::CopyMany& copies) {
        if (copies.direction != (source ? CopyDirection::kToDevice : CopyDirection::kToHost)) return;
        for (CopyRange& one : copies.ranges) range(source ? one.src : one.dst, one.bytes);
      },
      [](const auto&) {});
}

std::vector<KeptOwner> tellMemory(DeviceState& device, driver::Work& work, const Instance* instance,
                                  driver::Owners owners, KnownMemory& known) {
  auto isOwner = [&](const void* found) {
    for (const auto& owner : owners)
      if (owner.get() == found) return true;
    return false;
  };
  forEachDeviceRange(work, instance, [&](uint64_t& address, int64_t) {
    auto buffer = device.memory().find(address);
    if (!buffer.ok()) return;
    const auto& allocation = (*buffer)->allocation();
    if (isOwner(allocation.get()))
      known[allocation.get()] = {nullptr, allocation->address(), allocation->bytes(), false};
  });
  for (HostSide side : {HostSide::kSource, HostSide::kDestination})
    forEachHostRange(work, side, [&](uint64_t& address, int64_t bytes) {
      auto block = device.host().use(base::hostPointer(address), bytes, "capture");
      if (!block.ok() || !*block || !isOwner(block->get())) return;
      const HostMemory& memory = (*block)->memory();
      known[block->get()] = {nullptr, base::hostAddress(memory.data), memory.bytes, true};
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

void dropUnused(driver::Work& work, const Instance* instance, std::vector<WorkMemory>& memory,
                std::vector<KeptOwner>& owners) {
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
      forEachDeviceRange(work, instance, range);
      forEachDeviceRange(memory, range);
    }
    return !used;
  });
}

}  // namespace hpu
