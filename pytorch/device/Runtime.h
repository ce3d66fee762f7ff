// SPDX-License-Identifier: Apache-2.0
// Runtime: the node's devices as PyTorch's "hpu:0", "hpu:1", ...
// The one thing to know: a device is opened by the first call that needs it and stays open until the process ends;
// asking how many there are, or which one is current, opens none.
#pragma once

#include <c10/core/Device.h>
#include <c10/util/Exception.h>

#include <string>
#include <utility>

#include "hpu/device.h"
#include "hpu/status.h"
#include "hpu_torch/api.h"

namespace hpu_torch {

class CachingAllocator;
class StreamTable;

inline constexpr auto kHpu = c10::DeviceType::HPU;
inline constexpr int kMaxDevices = 16;

/// Throws what PyTorch calls the failure: c10::OutOfMemoryError, c10::NotImplementedError, c10::ValueError,
/// c10::IndexError, else c10::Error; `what` is what was being done ("copying 4 KiB to hpu:0").
[[noreturn]] HPU_TORCH_API void raise(const hpu::Status& status, const std::string& what);

/// Asked before `raise` throws: may throw something that says more.
HPU_TORCH_API void setFailureInspector(void (*inspect)(const hpu::Status& status)) noexcept;

inline void check(const hpu::Status& status, const char* what) {
  if (C10_UNLIKELY(!status.ok())) raise(status, what);
}
template <typename T>
T take(hpu::StatusOr<T> value, const char* what) {
  if (C10_UNLIKELY(!value.ok())) raise(value.status(), what);
  return std::move(value).value();
}

/// An open device with what belongs to it. It is never destroyed.
struct OpenDevice {
  c10::DeviceIndex index = 0;
  hpu::Device device;
  CachingAllocator* memory = nullptr;
  StreamTable* streams = nullptr;
};

/// How many devices this process may use: those of HABANA_VISIBLE_MODULES, in its order, else all of the node. 0 where
/// there is none or the setting is wrong; whyNoDevice() says why.
HPU_TORCH_API c10::DeviceIndex deviceCount() noexcept;
HPU_TORCH_API const std::string& whyNoDevice();
/// Throws unless `index` is a device; -1 is the calling thread's current one.
HPU_TORCH_API c10::DeviceIndex checkedIndex(c10::DeviceIndex index);

/// Opens it when it is not open. Throws when it cannot be opened (who has it is named), and in a forked child of a
/// process that had opened a device: there is no way to give the child the parent's memory.
HPU_TORCH_API OpenDevice& open(c10::DeviceIndex index);
/// The same without opening: null when it is not open.
HPU_TORCH_API OpenDevice* openOrNull(c10::DeviceIndex index) noexcept;
/// What `open` will ask the runtime for, for those who describe a device without opening it.
HPU_TORCH_API hpu::DeviceOptions optionsOf(c10::DeviceIndex index);
/// True in a process whose devices are a parent's: nothing of them may be touched.
HPU_TORCH_API bool isForkedChild() noexcept;

/// The calling thread's current device. It begins as that of LOCAL_RANK (or OMPI_COMM_WORLD_LOCAL_RANK), when a
/// launcher made the process and it sees more than one device; else as hpu:0. The variables are read until the thread
/// sets one.
HPU_TORCH_API c10::DeviceIndex currentDevice() noexcept;
HPU_TORCH_API void setCurrentDevice(c10::DeviceIndex index) noexcept;

}  // namespace hpu_torch
