// SPDX-License-Identifier: Apache-2.0
#include "runtime/driver/common/DeviceSize.h"

#include "arch/TargetDesc.h"
#include "base/Format.h"
#include "base/Settings.h"
#include "base/StatusMacros.h"
#include "runtime/node/Inventory.h"

namespace hpu::driver {

StatusOr<DeviceInfo> deviceInfo(const std::string& driver, const DeviceOptions& options, int index) {
  HPU_RETURN_IF_ERROR(node::checkOptions(options));
  const arch::TargetDesc& target = arch::targetDesc(options.target);
  int64_t bytes = options.hbmBytes;
  if (bytes == 0) {
    HPU_ASSIGN(bytes, settings::getInt(Setting::HPU_SIM_HBM_BYTES));
  }
  if (bytes == 0) bytes = target.hbmBytes;
  DeviceInfo info;
  info.driver = driver;
  info.name = base::strCat(driver, " ", target.name);
  info.target = options.target;
  info.index = index;
  HPU_ASSIGN(std::string node, node::identity());
  node::Slot slot = node::slot(node, index);
  info.moduleId = slot.moduleId;
  info.pciAddress = slot.pciAddress;
  info.hbmBytes = bytes;
  info.sramBytes = target.sramBytes;
  return info;
}

}  // namespace hpu::driver
