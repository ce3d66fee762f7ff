// SPDX-License-Identifier: Apache-2.0
// Entry points that say what a device is: names, sizes, attributes.

#include "arch/TargetDesc.h"
#include "base/Format.h"
#include "base/StatusMacros.h"
#include "bindings/synapse/api/EntryPoint.h"
#include "bindings/synapse/api/Library.h"
#include "bindings/synapse/device/DeviceTypes.h"
#include "habanalabs/hpu_synapse_ext.h"
#include "hpu/node.h"
#include "hpu/telemetry.h"

using hpu::synapse::guarded;
using hpu::synapse::Library;
using hpu::synapse::Result;

namespace hpu::synapse {
namespace {

/// A device address and every block of the allocator are multiples of this.
constexpr uint64_t kAddressAlignment = 256;

/// What the attributes are made of. Sizes are 0 for a type without a device.
struct Facts {
  Target target = Target::kGaudi2;
  std::string clockProfile;
  bool ofDevice = false;
  uint64_t dramBytes = 0, freeBytes = 0;
};

uint64_t tpcMask(Target target) {
  int64_t count = arch::targetDesc(target).numTpcs;
  return count >= 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1;
}

Result attribute(const Facts& facts, synDeviceAttribute attribute, uint64_t* value) {
  const arch::TargetDesc& desc = arch::targetDesc(facts.target);
  switch (attribute) {
    case DEVICE_ATTRIBUTE_SRAM_BASE_ADDRESS:
      *value = 0;
      return {};
    case DEVICE_ATTRIBUTE_DRAM_BASE_ADDRESS:
      *value = kHbmBase;
      return {};
    case DEVICE_ATTRIBUTE_SRAM_SIZE:
      *value = static_cast<uint64_t>(desc.sramBytes);
      return {};
    case DEVICE_ATTRIBUTE_DRAM_SIZE:
      *value = facts.ofDevice ? facts.dramBytes : static_cast<uint64_t>(desc.hbmBytes);
      return {};
    case DEVICE_ATTRIBUTE_DRAM_FREE_SIZE:
      if (!facts.ofDevice) return {synUnsupported, "DEVICE_ATTRIBUTE_DRAM_FREE_SIZE is one of a device, not of a type"};
      *value = facts.freeBytes;
      return {};
    case DEVICE_ATTRIBUTE_TPC_ENABLED_MASK:
      *value = tpcMask(facts.target);
      return {};
    case DEVICE_ATTRIBUTE_DRAM_ENABLED:
      *value = 1;
      return {};
    case DEVICE_ATTRIBUTE_DEVICE_TYPE:
      *value = static_cast<uint64_t>(typeOf(facts.target));
      return {};
    case DEVICE_ATTRIBUTE_CLK_RATE: {
      HPU_ASSIGN(telemetry::Clocks clocks, telemetry::clocks(facts.target, facts.clockProfile));
      *value = static_cast<uint64_t>(clocks.mmeMax);
      return {};
    }
    case DEVICE_ATTRIBUTE_MAX_RMW_SIZE:
      *value = static_cast<uint64_t>(desc.sramBytes);
      return {};
    case DEVICE_ATTRIBUTE_STREAMS_TOTAL_MEM_SIZE:
      *value = 0;
      return {};
    case DEVICE_ATTRIBUTE_ADDRESS_ALIGNMENT_SIZE:
      *value = kAddressAlignment;
      return {};
    case DEVICE_ATTRIBUTE_MAX_DIMS:
      *value = SYN_GAUDI_MAX_TENSOR_DIM;
      return {};
  }
  return badArgument(base::strCat("there is no device attribute ", static_cast<int>(attribute)));
}

Result attributes(const Facts& facts, uint64_t* values, const synDeviceAttribute* wanted, unsigned count) {
  for (unsigned i = 0; i < count; ++i) {
    uint64_t value = 0;
    SYN_RETURN_IF_ERROR(attribute(facts, wanted[i], &value));
    values[i] = value;
  }
  return {};
}

Facts factsOf(const node::DeviceStatus& status) {
  Facts facts;
  facts.target = status.target;
  facts.clockProfile = status.clockProfile;
  facts.ofDevice = true;
  facts.dramBytes = static_cast<uint64_t>(status.totalBytes);
  facts.freeBytes = static_cast<uint64_t>(status.totalBytes - status.usedBytes);
  return facts;
}

StatusOr<Facts> factsOf(const DeviceObject& device) {
  HPU_ASSIGN(node::DeviceStatus status, node::query(device.device().info().index));
  Facts facts = factsOf(status);
  MemoryInfo memory = device.device().memoryInfo();  // Current, where the node's is as last published.
  facts.dramBytes = static_cast<uint64_t>(memory.totalBytes);
  facts.freeBytes = static_cast<uint64_t>(memory.totalBytes - memory.usedBytes);
  return facts;
}

/// The fields that both versions of the structure have.
template <typename Info>
void fillInfo(const DeviceObject& device, Info& info) {
  const hpu::DeviceInfo& own = device.device().info();
  info = {};
  info.dramBaseAddress = kHbmBase;
  info.sramSize = static_cast<uint32_t>(own.sramBytes);
  info.dramSize = static_cast<uint64_t>(own.hbmBytes);
  info.tpcEnabledMask = tpcMask(own.target);
  info.dramEnabled = 1;
  info.deviceId = device.id();
  info.fd = device.descriptor();
  info.deviceType = typeOf(own.target);
}

}  // namespace
}  // namespace hpu::synapse

synStatus synDeviceGetName(char* pName, const int len, const synDeviceId deviceId) {
  return guarded("synDeviceGetName", [&]() -> Result {
    SYN_REQUIRE(pName);
    SYN_FIND_DEVICE(device, deviceId);
    return hpu::synapse::copyText(hpu::synapse::typeName(device->device().info().target), pName, len);
  });
}

synStatus synDeviceGetPCIBusId(char* pPciBusId, const int len, const synDeviceId deviceId) {
  return guarded("synDeviceGetPCIBusId", [&]() -> Result {
    SYN_REQUIRE(pPciBusId);
    SYN_FIND_DEVICE(device, deviceId);
    return hpu::synapse::copyText(device->device().info().pciAddress, pPciBusId, len);
  });
}

synStatus synDeviceGetMemoryInfo(const synDeviceId deviceId, uint64_t* free, uint64_t* total) {
  return guarded("synDeviceGetMemoryInfo", [&]() -> Result {
    SYN_REQUIRE(free);
    SYN_REQUIRE(total);
    SYN_FIND_DEVICE(device, deviceId);
    hpu::MemoryInfo memory = device->device().memoryInfo();
    *free = static_cast<uint64_t>(memory.totalBytes - memory.usedBytes);
    *total = static_cast<uint64_t>(memory.totalBytes);
    return {};
  });
}

synStatus hpuSynDeviceGetMemoryStatistics(synDeviceId deviceId, hpuSynMemoryStatistics* statistics) {
  return guarded("hpuSynDeviceGetMemoryStatistics", [&]() -> Result {
    SYN_REQUIRE(statistics);
    SYN_FIND_DEVICE(device, deviceId);
    hpu::MemoryInfo memory = device->device().memoryInfo();
    statistics->totalBytes = static_cast<uint64_t>(memory.totalBytes);
    statistics->usedBytes = static_cast<uint64_t>(memory.usedBytes);
    statistics->peakBytes = static_cast<uint64_t>(memory.peakBytes);
    statistics->largestFreeBytes = static_cast<uint64_t>(memory.largestFreeBytes);
    statistics->allocations = static_cast<uint64_t>(memory.allocations);
    return {};
  });
}

synStatus synDeviceGetInfo(const synDeviceId deviceId, synDeviceInfo* pDeviceInfo) {
  return guarded("synDeviceGetInfo", [&]() -> Result {
    SYN_REQUIRE(pDeviceInfo);
    SYN_FIND_DEVICE(device, deviceId);
    hpu::synapse::fillInfo(*device, *pDeviceInfo);
    return {};
  });
}

synStatus synDeviceGetInfoV2(const synDeviceId deviceId, synDeviceInfoV2* pDeviceInfo) {
  return guarded("synDeviceGetInfoV2", [&]() -> Result {
    SYN_REQUIRE(pDeviceInfo);
    SYN_FIND_DEVICE(device, deviceId);
    hpu::synapse::fillInfo(*device, *pDeviceInfo);
    pDeviceInfo->deviceIndex = static_cast<uint8_t>(device->device().info().index);
    return {};
  });
}

synStatus synDeviceGetAttribute(uint64_t* retVal, const synDeviceAttribute* deviceAttr, const unsigned querySize,
                                const synDeviceId deviceId) {
  return guarded("synDeviceGetAttribute", [&]() -> Result {
    SYN_REQUIRE(retVal);
    SYN_REQUIRE(deviceAttr);
    SYN_FIND_DEVICE(device, deviceId);
    HPU_ASSIGN(hpu::synapse::Facts facts, hpu::synapse::factsOf(*device));
    return hpu::synapse::attributes(facts, retVal, deviceAttr, querySize);
  });
}

synStatus synDeviceGetAttributeByModuleId(uint64_t* retVal, const synDeviceAttribute* deviceAttr,
                                          const unsigned querySize, const synModuleId moduleId) {
  return guarded("synDeviceGetAttributeByModuleId", [&]() -> Result {
    SYN_REQUIRE(retVal);
    SYN_REQUIRE(deviceAttr);
    HPU_ASSIGN(hpu::node::NodeStatus node, hpu::node::query());
    for (const hpu::node::DeviceStatus& status : node.devices)
      if (status.moduleId == moduleId)
        return hpu::synapse::attributes(hpu::synapse::factsOf(status), retVal, deviceAttr, querySize);
    return {synNoDeviceFound, hpu::base::strCat("there is no device with module id ", moduleId)};
  });
}

synStatus synDeviceTypeGetAttribute(uint64_t* retVal, const synDeviceAttribute* deviceAttr, const unsigned querySize,
                                    const synDeviceType deviceType) {
  return guarded("synDeviceTypeGetAttribute", [&]() -> Result {
    SYN_REQUIRE(retVal);
    SYN_REQUIRE(deviceAttr);
    std::optional<hpu::Target> target = hpu::synapse::targetOf(deviceType);
    if (!target)
      return hpu::synapse::badArgument(hpu::base::strCat("device type ", static_cast<int>(deviceType),
                                                         " is not simulated; there are Gaudi, Gaudi 2 and Gaudi 3"));
    hpu::synapse::Facts facts;
    facts.target = *target;
    return hpu::synapse::attributes(facts, retVal, deviceAttr, querySize);
  });
}
