// SPDX-License-Identifier: Apache-2.0
// Entry points that count, acquire and release devices.
#include "base/Format.h"
#include "base/Settings.h"
#include "base/StatusMacros.h"
#include "bindings/synapse/api/EntryPoint.h"
#include "bindings/synapse/api/Library.h"
#include "bindings/synapse/device/DeviceTypes.h"
#include "habanalabs/hpu_synapse_ext.h"
#include "hpu/node.h"

using hpu::synapse::guarded;
using hpu::synapse::Library;
using hpu::synapse::Result;

namespace hpu::synapse {
namespace {

Result checkType(synDeviceType type) {
  if (targetOf(type)) return {};
  switch (type) {
    case synDeviceGreco:
    case synDeviceEmulator:
      return {synNoDeviceFound,
              "devices of this type are not simulated; there are synDeviceGaudi, synDeviceGaudi2 "
              "and synDeviceGaudi3"};
    default:
      return badArgument(base::strCat("there is no device type ", static_cast<int>(type)));
  }
}

/// How many devices are of a type, or free and can become it, by synDeviceType.
StatusOr<std::vector<uint32_t>> countByType() {
  HPU_ASSIGN(node::NodeStatus node, node::query());
  HPU_ASSIGN(std::string fixed, settings::getString(Setting::HPU_NODE_TARGET));
  std::vector<uint32_t> counts(synDeviceTypeSize);
  for (const node::DeviceStatus& device : node.devices)
    for (Target target : {Target::kGaudi1, Target::kGaudi2, Target::kGaudi3}) {
      bool open = device.owner.pid == 0 && fixed == "any";
      if (open || device.target == target) ++counts[static_cast<size_t>(typeOf(target))];
    }
  return counts;
}

/// The type that a device gets when the caller names none: the one it is reported with while it is free.
StatusOr<Target> usualTarget() {
  HPU_ASSIGN(std::string fixed, settings::getString(Setting::HPU_NODE_TARGET));
  if (fixed == "any") return DeviceOptions{}.target;
  return parseTarget(fixed);
}

}  // namespace
}  // namespace hpu::synapse

synStatus synDeviceGetCount(uint32_t* pCount) {
  return guarded("synDeviceGetCount", [&]() -> Result {
    SYN_REQUIRE(pCount);
    HPU_ASSIGN(hpu::node::NodeStatus node, hpu::node::query());
    *pCount = static_cast<uint32_t>(node.devices.size());
    return {};
  });
}

synStatus synDeviceGetCountByDeviceType(uint32_t* pCount, const synDeviceType deviceType) {
  return guarded("synDeviceGetCountByDeviceType", [&]() -> Result {
    SYN_REQUIRE(pCount);
    if (deviceType < synDeviceGreco || deviceType >= synDeviceTypeInvalid)
      return hpu::synapse::badArgument(hpu::base::strCat("there is no device type ", static_cast<int>(deviceType)));
    HPU_ASSIGN(std::vector<uint32_t> counts, hpu::synapse::countByType());
    *pCount = counts[deviceType];
    return {};
  });
}

synStatus synDeviceCount(uint32_t* count) {
  return guarded("synDeviceCount", [&]() -> Result {
    SYN_REQUIRE(count);
    HPU_ASSIGN(std::vector<uint32_t> counts, hpu::synapse::countByType());
    std::copy(counts.begin(), counts.end(), count);
    return {};
  });
}

synStatus synDeviceGetModuleIDs(uint32_t* pDeviceModuleIds, uint32_t* size) {
  return guarded("synDeviceGetModuleIDs", [&]() -> Result {
    SYN_REQUIRE(pDeviceModuleIds);
    SYN_REQUIRE(size);
    HPU_ASSIGN(hpu::node::NodeStatus node, hpu::node::query());
    auto count = static_cast<uint32_t>(node.devices.size());
    if (*size < count)
      return hpu::synapse::badArgument(
          hpu::base::strCat("the node has ", count, " devices and the array ", *size, " places"));
    for (uint32_t i = 0; i < count; ++i) pDeviceModuleIds[i] = node.devices[i].moduleId;
    *size = count;
    return {};
  });
}

synStatus synDeviceAcquire(synDeviceId* pDeviceId, const char* pciBus) {
  return guarded("synDeviceAcquire", [&]() -> Result {
    SYN_REQUIRE(pDeviceId);
    hpu::DeviceOptions options;
    if (pciBus) options.pciAddress = pciBus;
    if (pciBus && !*pciBus) return hpu::synapse::badArgument("pciBus is empty; null takes any free device");
    HPU_ASSIGN(options.target, hpu::synapse::usualTarget());
    return Library::get().acquire(options, pDeviceId);
  });
}

synStatus synDeviceAcquireByDeviceType(synDeviceId* pDeviceId, const synDeviceType deviceType) {
  return guarded("synDeviceAcquireByDeviceType", [&]() -> Result {
    SYN_REQUIRE(pDeviceId);
    SYN_RETURN_IF_ERROR(hpu::synapse::checkType(deviceType));
    hpu::DeviceOptions options;
    options.target = *hpu::synapse::targetOf(deviceType);
    return Library::get().acquire(options, pDeviceId);
  });
}

synStatus synDeviceAcquireByModuleId(synDeviceId* pDeviceId, const synModuleId moduleId) {
  return guarded("synDeviceAcquireByModuleId", [&]() -> Result {
    SYN_REQUIRE(pDeviceId);
    if (moduleId > INT32_MAX)
      return {synNoDeviceFound, hpu::base::strCat("there is no device with module id ", moduleId)};
    hpu::DeviceOptions options;
    options.moduleId = static_cast<int>(moduleId);
    HPU_ASSIGN(options.target, hpu::synapse::usualTarget());
    return Library::get().acquire(options, pDeviceId);
  });
}

synStatus synDeviceRelease(const synDeviceId deviceId) {
  return guarded("synDeviceRelease", [&]() -> Result { return Library::get().release(deviceId); });
}

synStatus synDeviceSynchronize(const synDeviceId deviceId) {
  return guarded("synDeviceSynchronize", [&]() -> Result {
    SYN_FIND_DEVICE(device, deviceId);
    hpu::Device handle = device->device();
    return hpu::synapse::ofWork(handle.synchronize());
  });
}

synStatus hpuSynDeviceReset(synDeviceId deviceId) {
  return guarded("hpuSynDeviceReset", [&]() -> Result {
    SYN_FIND_DEVICE(device, deviceId);
    hpu::Device handle = device->device();
    hpu::Status status = handle.reset();
    device->order().forget();
    return status;
  });
}
