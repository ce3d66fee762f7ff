// SPDX-License-Identifier: Apache-2.0
// VerbsChoice: which device, port, GID and path MTU the network "verbs" takes, and why.
// The one thing to know: plain data in and out; VerbsDevice.h asks libibverbs for it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collectives/bootstrap/Address.h"
#include "hpu/status.h"

namespace hpu::collectives::net {

/// An entry of a port's table of GIDs.
struct VerbsGid {
  std::string device;
  uint32_t port = 1, index = 0;
  Address address;        ///< Port and scope 0.
  std::string type;       ///< As sysfs has it: "RoCE v2", "IB/RoCE v1".
  std::string interface;  ///< Of the network; empty: not known.
  bool isEthernet = true;
  bool isUp = true;  ///< The port.
  uint32_t activeMtu = 0;
};

struct VerbsChoice {
  VerbsGid gid;
  uint32_t pathMtu = 0;
  std::string reason;
};

/// The GID for RoCE v2 of `local`, where data goes out. `device`: the only one that may be taken; empty: any.
/// `devices`: all that there are. `wantedMtu`: 0, or that path MTU and no other. Errors, each with what there is and
/// what to do: kNotFound (no such device or GID), kUnavailable (the port is down), kInvalidArgument (the MTU).
StatusOr<VerbsChoice> chooseVerbs(const std::vector<VerbsGid>& gids, const std::vector<std::string>& devices,
                                  const Address& local, const std::string& device, uint32_t wantedMtu);

/// The code of the timeout (4.096 us * 2^code) with which `retries` of them take at least that long: 14 to 22.
uint8_t verbsTimeout(int64_t silenceMs, int retries);

/// 16 bytes, as in a table of GIDs: of IPv4 the mapped address. Network order.
Address addressOfGid(const uint8_t* gid);
void gidOf(const Address& address, uint8_t* gid);

}  // namespace hpu::collectives::net
