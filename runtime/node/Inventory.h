// SPDX-License-Identifier: Apache-2.0
// Inventory: what never changes of a node's devices: slots, PCI addresses, names, identities.
// The one thing to know: it follows from the node's identity and the index alone; nothing is asked.
#pragma once

#include <string>

#include "hpu/device.h"
#include "hpu/node.h"
#include "hpu/status.h"

namespace hpu::node {

/// HPU_NODE. Errors: kInvalidArgument (empty parts, characters that a name cannot have, too long).
StatusOr<std::string> identity();

struct Slot {
  int index = 0;
  uint32_t moduleId = 0;
  std::string pciAddress, uuid, serial;
};
/// `index` is 0 to kDevices - 1.
Slot slot(const std::string& identity, int index);

/// What can be found wrong with options by themselves. Errors: kInvalidArgument, naming the option and its value.
Status checkOptions(const DeviceOptions& options);

/// The index that options name by index, module id or PCI address; kAnyDevice when by none. Errors:
/// kNotFound (no such device; the message lists what there is), kInvalidArgument (they disagree; as checkOptions).
StatusOr<int> requestedIndex(const DeviceOptions& options);

/// The type that HPU_NODE_TARGET gives all devices, else `wanted`. Errors: kFailedPrecondition when
/// the two differ and `strict`.
StatusOr<Target> targetOf(Target wanted, bool strict);

/// A device as a free one is reported: identity, type and size, no owner.
StatusOr<DeviceStatus> freeDevice(const std::string& identity, int index);

}  // namespace hpu::node
