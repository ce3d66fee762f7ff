// SPDX-License-Identifier: Apache-2.0
// What libtorch asks of a device type: its allocator and its guard (current device, streams, events).
#include <algorithm>
#include <functional>
#include <numeric>

#include <c10/core/Allocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "pytorch/device/Memory.h"
#include "pytorch/device/Streams.h"
#include "pytorch/record/Flush.h"

namespace hpu_torch {
namespace {

void deleteBlock(void* context) {
  if (!context) return;
  auto* block = static_cast<Block*>(context);
  block->segment->owner->free(block);
}

/// Host code that reads such an address by mistake ends there, and does not go on with wrong data.
class HpuAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) const override {
    const c10::DeviceIndex index = currentDevice();
    const c10::Device device(kHpu, index);
    if (bytes == 0) return {nullptr, nullptr, &deleteBlock, device};
    OpenDevice& at = open(index);
    Block* block = at.memory->allocate(static_cast<int64_t>(bytes), currentStreamId(index));
    return {storageAddress(block->address, index), block, &deleteBlock, device};
  }
};

HpuAllocator& hpuAllocator() {
  static HpuAllocator& instance = *new HpuAllocator;
  return instance;
}

class HpuGuard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return kHpu; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device old = getDevice();
    if (device.index() != old.index()) setDevice(device);
    return old;
  }
  c10::Device getDevice() const override { return {kHpu, currentDevice()}; }
  void setDevice(c10::Device device) const override {
    TORCH_CHECK(device.is_hpu(), "not an hpu device: ", device);
    setCurrentDevice(checkedIndex(device.index()));
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.index() >= 0) setCurrentDevice(device.index());
  }
  c10::DeviceIndex deviceCount() const noexcept override { return hpu_torch::deviceCount(); }

  c10::Stream getStream(c10::Device device) const noexcept override {
    const c10::DeviceIndex index = device.index() < 0 ? currentDevice() : device.index();
    return c10::Stream(c10::Stream::UNSAFE, {kHpu, index}, currentStreamId(index));
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::DEFAULT, {kHpu, checkedIndex(device.index())});
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool highPriority) const override {
    const c10::DeviceIndex index = checkedIndex(device.index());
    return c10::Stream(c10::Stream::UNSAFE, {kHpu, index}, open(index).streams->fromPool(highPriority));
  }
  c10::Stream exchangeStream(c10::Stream stream) const noexcept override {
    const c10::Stream old = getStream(stream.device());
    setCurrentStreamId(stream.device_index(), stream.id());
    return old;
  }
  bool queryStream(const c10::Stream& stream) const override {
    OpenDevice* device = openOrNull(stream.device_index());
    return !device || device->streams->query(stream.id());
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    if (OpenDevice* device = openOrNull(stream.device_index())) {
      flush(stream.device_index(), "synchronize");
      device->streams->synchronize(stream.id());
    }
  }

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex,
              const c10::EventFlag flag) const override {
    if (!*event) {
      auto* made = new TorchEvent;
      made->timed = flag == c10::EventFlag::BACKEND_DEFAULT;
      *event = made;
    }
    hpu_torch::record(*static_cast<TorchEvent*>(*event), stream.device_index(), stream.id());
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event) hpu_torch::block(*static_cast<TorchEvent*>(event), stream.device_index(), stream.id());
  }
  bool queryEvent(void* event) const override { return !event || query(*static_cast<TorchEvent*>(event)); }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    delete static_cast<TorchEvent*>(event);
  }
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override {
    Block* block = blockOf(data);
    if (!block) return;
    TORCH_CHECK(data.device() == stream.device(), "memory of ", data.device(), " cannot be recorded on ", stream);
    block->segment->owner->recordStream(block, stream.id());
  }
};

// Both live as long as the process: libtorch has plain pointers to them.
[[maybe_unused]] const bool registered = [] {
  c10::SetAllocator(kHpu, &hpuAllocator());
  new c10::impl::DeviceGuardImplRegistrar(kHpu, new HpuGuard);
  return true;
}();

}  // namespace

c10::Allocator* allocator() {
  return &hpuAllocator();
}
void noteSizes(const c10::Storage& storage, c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  Block* block = sizes.size() < 2 ? nullptr : blockOf(storage.data_ptr());
  if (!block) return;
  block->sizes.assign(sizes.begin(), sizes.end());
  if (std::is_sorted(strides.begin(), strides.end(), std::greater<>())) return;  // Nearly always.
  c10::SmallVector<size_t, 5> order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return strides[a] > strides[b]; });
  for (size_t d = 0; d < order.size(); ++d) block->sizes[d] = sizes[order[d]];
}
Block* blockOf(const c10::DataPtr& data) {
  return data.get_deleter() == &deleteBlock ? static_cast<Block*>(data.get_context()) : nullptr;
}

}  // namespace hpu_torch
