// SPDX-License-Identifier: Apache-2.0
// What the devices of this process have been told of their ports (hpu/ports.h).
#pragma once

#include "hpu/node.h"

namespace hpu::ports {

/// A device begins.
void clear(int device);
/// Its links, rail and network.
void report(int device, node::DeviceStatus& status);

}  // namespace hpu::ports
