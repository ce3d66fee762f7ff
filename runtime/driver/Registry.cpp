// SPDX-License-Identifier: Apache-2.0
// The drivers that this build has; a driver for silicon adds its line here.
#include "runtime/driver/Driver.h"
#include "runtime/driver/null/NullDevice.h"
#include "runtime/driver/sim/SimDevice.h"

namespace hpu::driver {

const std::vector<DriverEntry>& registeredDrivers() {
  // Never destroyed: exit handlers may open devices.
  static const auto* entries =
      new std::vector<DriverEntry>{{"sim", openSimDevice, /*owned=*/true}, {"null", openNullDevice}};
  return *entries;
}

}  // namespace hpu::driver
