// SPDX-License-Identifier: Apache-2.0
// VerbsNetwork: links over the queue pairs of an RDMA adapter of this host (RoCE v2), by libibverbs. Ranks meet over
// TCP and part as those of RoceNetwork do.
// The one thing to know: libibverbs is looked for when the network is made; without it, or without a device that has
// the local address, that is an error which says what to do.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "collectives/transport/net/Network.h"

namespace hpu::collectives::net {

struct VerbsOptions {
  std::string device;    ///< As ibv_devices names it; empty: the one that has the local address.
  uint32_t pathMtu = 0;  ///< 256 to 4096; 0: the port's active one.
  /// A peer whose process lives, but which does not answer for so long, is given up.
  int64_t silenceMs = 8'000;
  // For tests.
  std::string library = "libibverbs.so.1";
  std::string sysfs = "/sys/class/infiniband";  ///< Where types of GIDs are found.
};

/// Of this process, local address and options: the same object as long as somebody has it. Errors: as tcpNetwork;
/// kUnimplemented (built without the library's headers), and of VerbsLibrary.h and VerbsChoice.h.
StatusOr<std::shared_ptr<Network>> verbsNetwork(const Address& local, const VerbsOptions& options);

}  // namespace hpu::collectives::net
