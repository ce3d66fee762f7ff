// SPDX-License-Identifier: Apache-2.0
#include "pytorch/device/Runtime.h"

#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <sstream>
#include <vector>

#include "hpu/node.h"
#include "pytorch/device/CachingAllocator.h"
#include "pytorch/device/Streams.h"

namespace hpu_torch {
namespace {

/// Which devices of the node "hpu:0", "hpu:1", ... are; by module id where HABANA_VISIBLE_MODULES names them.
struct Visible {
  int count = 0;
  std::vector<int> modules;  ///< Empty: index i of the node is hpu:i.
  std::string why;           ///< Why there is none.
};

Visible parseModules(const char* text, int onNode) {
  Visible visible;
  std::stringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    char* end = nullptr;
    const long module = std::strtol(part.c_str(), &end, 10);
    while (*end == ' ') ++end;
    const bool isNumber = end != part.c_str() && *end == 0;
    bool isNew = true;
    for (int other : visible.modules) isNew = isNew && other != module;
    if (!isNumber || module < 0 || module >= onNode || !isNew) {
      visible.modules.clear();
      visible.why = "HABANA_VISIBLE_MODULES=" + std::string(text) + ": '" + part + "' is " +
                    (isNumber && !isNew ? "there twice" : "no module of the node") + "; give different numbers of 0.." +
                    std::to_string(onNode - 1) + ", separated by commas";
      return visible;
    }
    visible.modules.push_back(static_cast<int>(module));
  }
  visible.count = static_cast<int>(visible.modules.size());
  if (visible.count == 0) visible.why = "HABANA_VISIBLE_MODULES is set and names no module";
  return visible;
}

const Visible& visibleDevices() {
  static const Visible& visible = *new Visible([] {
    Visible all;
    hpu::StatusOr<int> count = hpu::Device::count();
    if (!count.ok()) {
      all.why = count.status().message();
      return all;
    }
    const char* modules = std::getenv("HABANA_VISIBLE_MODULES");
    if (modules && *modules && std::string(modules) != "all") return parseModules(modules, *count);
    all.count = std::min(*count, kMaxDevices);
    return all;
  }());
  return visible;
}

struct State {
  std::mutex opening;
  std::atomic<OpenDevice*> devices[kMaxDevices] = {};
  std::atomic<bool> anyOpen{false};
  std::atomic<bool> forked{false};
};
State& state() {
  static State& instance = *new State;
  return instance;
}

/// Processes that a launcher made on one node do not all take hpu:0.
c10::DeviceIndex firstDevice() noexcept {
  for (const char* name : {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"}) {
    const char* text = std::getenv(name);
    if (!text || !*text) continue;
    const int rank = std::atoi(text);
    if (rank < 0 || rank >= kMaxDevices || visibleDevices().count <= 1) return 0;
    return static_cast<c10::DeviceIndex>(rank);
  }
  return 0;
}

thread_local c10::DeviceIndex t_current = -1;  // -1: nobody has said; a launcher's variables may come after the import.

std::atomic<void (*)(const hpu::Status&)> failureInspector{nullptr};

}  // namespace

void setFailureInspector(void (*inspect)(const hpu::Status& status)) noexcept {
  failureInspector = inspect;
}

void raise(const hpu::Status& status, const std::string& what) {
  if (auto* inspect = failureInspector.load()) inspect(status);
  const c10::SourceLocation here = {__func__, __FILE__, static_cast<uint32_t>(__LINE__)};
  const std::string text = what + ": " + status.message();
  switch (status.code()) {
    case hpu::StatusCode::kResourceExhausted:
      throw c10::OutOfMemoryError(here, text);
    case hpu::StatusCode::kUnimplemented:
      throw c10::NotImplementedError(here, text);
    case hpu::StatusCode::kInvalidArgument:
      throw c10::ValueError(here, text);
    case hpu::StatusCode::kOutOfRange:
      throw c10::IndexError(here, text);
    default:
      throw c10::Error(here, text);
  }
}

c10::DeviceIndex deviceCount() noexcept {
  return static_cast<c10::DeviceIndex>(visibleDevices().count);
}
const std::string& whyNoDevice() {
  return visibleDevices().why;
}

c10::DeviceIndex checkedIndex(c10::DeviceIndex index) {
  if (index < 0) index = currentDevice();
  const int count = deviceCount();
  TORCH_CHECK(count > 0, "there is no hpu device: ", whyNoDevice());
  TORCH_CHECK(index < count, "hpu:", static_cast<int>(index), " does not exist: this process has ", count,
              " hpu device(s), hpu:0 to hpu:", count - 1);
  return index;
}

hpu::DeviceOptions optionsOf(c10::DeviceIndex index) {
  hpu::DeviceOptions options;
  const Visible& visible = visibleDevices();
  if (visible.modules.empty()) {
    options.index = index;
  } else {
    options.moduleId = visible.modules[index];
  }
  // A node may be of one type (HPU_NODE_TARGET); its devices open as nothing else.
  hpu::node::Answer<hpu::node::NodeStatus> node = hpu::node::query();
  if (!node.ok()) return options;
  for (const hpu::node::DeviceStatus& one : node->devices)
    if (options.moduleId >= 0 ? static_cast<int>(one.moduleId) == options.moduleId : one.index == options.index)
      options.target = one.target;
  return options;
}

bool isForkedChild() noexcept {
  return state().forked.load(std::memory_order_relaxed);
}

OpenDevice* openOrNull(c10::DeviceIndex index) noexcept {
  if (isForkedChild() || index < 0 || index >= kMaxDevices) return nullptr;
  return state().devices[index].load(std::memory_order_acquire);
}

OpenDevice& open(c10::DeviceIndex index) {
  if (OpenDevice* known = openOrNull(index)) return *known;
  State& all = state();
  TORCH_CHECK(!isForkedChild(),
              "this process was forked from one that had opened hpu devices, and cannot use them: start it with the "
              "method 'spawn' or 'forkserver', or fork before the first use of a device");
  index = checkedIndex(index);
  std::lock_guard<std::mutex> lock(all.opening);
  if (OpenDevice* known = all.devices[index].load(std::memory_order_acquire)) return *known;
  auto* opened = new OpenDevice;
  opened->index = index;
  hpu::StatusOr<hpu::Device> device = hpu::Device::open(optionsOf(index));
  if (!device.ok()) {
    delete opened;
    raise(device.status(), "opening hpu:" + std::to_string(index));
  }
  opened->device = std::move(device).value();
  opened->streams = new StreamTable(opened->device, index);
  opened->memory = new CachingAllocator(opened->device, *opened->streams, index);
  if (!all.anyOpen.exchange(true))
    pthread_atfork([] { state().opening.lock(); }, [] { state().opening.unlock(); },
                   [] {
                     state().opening.unlock();
                     state().forked.store(true, std::memory_order_relaxed);
                   });
  all.devices[index].store(opened, std::memory_order_release);
  return *opened;
}

c10::DeviceIndex currentDevice() noexcept {
  return C10_LIKELY(t_current >= 0) ? t_current : firstDevice();
}
void setCurrentDevice(c10::DeviceIndex index) noexcept {
  t_current = index;
}

}  // namespace hpu_torch
