// SPDX-License-Identifier: Apache-2.0
// PortNumber: how those who use a device's links number its ports for its clock (ExternalPorts).
// The one thing to know: collectives and copies between devices take the numbers from here, so that both wait for the
// same port. A link has two, one for each direction.
#pragma once

#include <cstdint>

namespace hpu::arch {

/// `link`: the index of the device at the other end, or node::kRail. The port by which bytes leave the device, or (not
/// `send`) by which they arrive.
constexpr uint32_t portNumber(int32_t link, bool send) {
  return static_cast<uint32_t>(link) * 2 + (send ? 0 : 1);
}
/// The link of a port.
constexpr uint32_t linkOfPort(uint32_t port) {
  return port / 2;
}
/// Bytes leave the device by it.
constexpr bool isSendingPort(uint32_t port) {
  return port % 2 == 0;
}

}  // namespace hpu::arch
