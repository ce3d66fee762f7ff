// SPDX-License-Identifier: Apache-2.0
#include "runtime/driver/common/DeviceSize.h"

#include "arch/TargetDesc.h"
#include "base/Format.h"
#include "base/Settings.h"
#include "base/StatusMacros.h"

namespace hpu::driver {

StatusOr<DeviceInfo> deviceInfo(const std::string& driver, const DeviceOptions& options) {
  if (options.index < 0 || options.index >= kDevicesPerNode)
    return notFound(base::strCat("there is no device ", options.index, ": a node has devices 0 to ",
                                 kDevicesPerNode - 1));
  if (options.hbmBytes < 0)
    return invalidArgument(base::strCat("hbmBytes is ", options.hbmBytes,
                                        "; it is a number of bytes, or 0 for the target's own"));
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
  info.index = options.index;
  info.hbmBytes = bytes;
  info.sramBytes = target.sramBytes;
  return info;
}

}  // namespace hpu::driver
