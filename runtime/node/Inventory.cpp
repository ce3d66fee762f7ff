// SPDX-License-Identifier: Apache-2.0
#include "runtime/node/Inventory.h"

#include <array>
#include <cstdio>
#include <string_view>

#include "arch/TargetDesc.h"
#include "base/CheckEnum.h"
#include "base/Format.h"
#include "base/Hash.h"
#include "base/PciAddress.h"
#include "base/Settings.h"
#include "base/StatusMacros.h"
#include "hpu/telemetry.h"

namespace hpu::node {
namespace {

// Two devices behind each of four PCIe switches. Which slot of the board a bus leads to is the
// board's own affair: programs that take one for the other are wrong on real nodes too.
constexpr std::array<std::string_view, kDevices> kPciAddresses = {"0000:19:00.0", "0000:1a:00.0", "0000:33:00.0",
                                                                  "0000:34:00.0", "0000:9a:00.0", "0000:9b:00.0",
                                                                  "0000:b3:00.0", "0000:b4:00.0"};
constexpr std::array<uint32_t, kDevices> kModuleIds = {6, 7, 4, 5, 3, 2, 1, 0};

// A socket's name has 107 bytes; this leaves room for the rest of it.
constexpr size_t kMaxIdentity = 64;

bool isNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
}

std::string moduleList() {
  std::string text;
  for (int i = 0; i < kDevices; ++i) text += base::strCat(i ? ", " : "", kModuleIds[i], " (device ", i, ")");
  return text;
}

std::string addressList() {
  std::string text;
  for (int i = 0; i < kDevices; ++i) text += base::strCat(i ? ", " : "", kPciAddresses[i]);
  return text;
}

StatusOr<int> indexOfModule(int moduleId) {
  for (int i = 0; i < kDevices; ++i)
    if (static_cast<int>(kModuleIds[i]) == moduleId) return i;
  return notFound(
      base::strCat("there is no device with module id ", moduleId, "; the node's modules are ", moduleList()));
}

StatusOr<int> indexOfAddress(const std::string& address) {
  for (int i = 0; i < kDevices; ++i)
    if (base::samePciAddress(address, kPciAddresses[i])) return i;
  return notFound(
      base::strCat("there is no device at PCI address '", address, "'; the node's devices are at ", addressList()));
}

constexpr std::string_view waitPolicyName(WaitPolicy policy) {
  constexpr std::string_view names[] = {"default", "help", "block", "spin", "yield"};
  return names[static_cast<size_t>(policy)];
}

}  // namespace

StatusOr<std::string> identity() {
  HPU_ASSIGN(std::string name, settings::getString(Setting::HPU_NODE));
  bool valid = !name.empty() && name.size() <= kMaxIdentity;
  for (char c : name) valid = valid && isNameCharacter(c);
  if (valid) return name;
  return invalidArgument(base::strCat("HPU_NODE=", name, " is not valid: a node's name has 1 to ", kMaxIdentity,
                                      " letters, digits, '.', '_' and '-'"));
}

Slot slot(const std::string& identity, int index) {
  // "simulated" is part of what is hashed so that no text of a user gives another thing's number.
  auto hash = static_cast<uint32_t>(base::hash64("simulated node " + identity));
  char text[64];
  Slot result;
  result.index = index;
  result.moduleId = kModuleIds[static_cast<size_t>(index)];
  result.pciAddress = kPciAddresses[static_cast<size_t>(index)];
  std::snprintf(text, sizeof text, "OHPU-SIM0-%08x-%02d", hash, index);
  result.uuid = text;
  std::snprintf(text, sizeof text, "SIM%08x%02d", hash, index);
  result.serial = text;
  return result;
}

Status checkOptions(const DeviceOptions& options) {
  HPU_RETURN_IF_ERROR(base::checkEnum("DeviceOptions::target", options.target,
                                      {Target::kGaudi1, Target::kGaudi2, Target::kGaudi3}, targetName));
  using W = WaitPolicy;
  HPU_RETURN_IF_ERROR(base::checkEnum("DeviceOptions::wait", options.wait,
                                      {W::kDefault, W::kHelp, W::kBlock, W::kSpin, W::kYield}, waitPolicyName));
  if (options.moduleId < -1)
    return invalidArgument(
        base::strCat("DeviceOptions::moduleId is ", options.moduleId, "; it is a slot of the board, or -1 for none"));
  if (options.hbmBytes < 0)
    return invalidArgument(base::strCat("DeviceOptions::hbmBytes is ", options.hbmBytes,
                                        "; it is a number of bytes, or 0 for the target's own"));
  if (options.threads < 0)
    return invalidArgument(base::strCat("DeviceOptions::threads is ", options.threads,
                                        "; it is a number of threads, or 0 for HPU_NUM_THREADS or all cores"));
  return okStatus();
}

StatusOr<int> requestedIndex(const DeviceOptions& options) {
  HPU_RETURN_IF_ERROR(checkOptions(options));
  int index = options.index;
  if (index != kAnyDevice && (index < 0 || index >= kDevices))
    return notFound(base::strCat("there is no device ", index, ": a node has devices 0 to ", kDevices - 1, ", and ",
                                 kAnyDevice, " takes any free one"));
  std::string_view first = "index";
  auto merge = [&](int found, std::string_view what) -> Status {
    if (index != kAnyDevice && index != found)
      return invalidArgument(base::strCat("the device options name two devices: ", index, " by ", first, " and ", found,
                                          " by ", what, "; give one of them"));
    index = found;
    first = what;
    return okStatus();
  };
  if (options.moduleId >= 0) {
    HPU_ASSIGN(int found, indexOfModule(options.moduleId));
    HPU_RETURN_IF_ERROR(merge(found, "module id"));
  }
  if (!options.pciAddress.empty()) {
    HPU_ASSIGN(int found, indexOfAddress(options.pciAddress));
    HPU_RETURN_IF_ERROR(merge(found, "PCI address"));
  }
  return index;
}

StatusOr<Target> targetOf(Target wanted, bool strict) {
  HPU_ASSIGN(std::string name, settings::getString(Setting::HPU_NODE_TARGET));
  if (name == "any") return wanted;
  HPU_ASSIGN(Target fixed, parseTarget(name));
  if (strict && fixed != wanted)
    return failedPrecondition(base::strCat("the devices of this node are ", targetName(fixed),
                                           " (HPU_NODE_TARGET), and a ", targetName(wanted),
                                           " was asked for; ask for the node's type, or change the setting"));
  return fixed;
}

StatusOr<DeviceStatus> freeDevice(const std::string& identity, int index) {
  DeviceStatus device;
  Slot where = slot(identity, index);
  device.index = index;
  device.moduleId = where.moduleId;
  device.pciAddress = where.pciAddress;
  device.uuid = where.uuid;
  device.serial = where.serial;
  HPU_ASSIGN(device.target, targetOf(Target::kGaudi2, /*strict=*/false));
  device.name = telemetry::board(device.target).name;
  HPU_ASSIGN(device.totalBytes, settings::getInt(Setting::HPU_SIM_HBM_BYTES));
  if (device.totalBytes == 0) device.totalBytes = arch::targetDesc(device.target).hbmBytes;
  return device;
}

}  // namespace hpu::node
