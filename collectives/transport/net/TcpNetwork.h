// SPDX-License-Identifier: Apache-2.0
// TcpNetwork: links over TCP sockets, with one thread a process that reads them all.
// The one thing to know: data goes from the caller's memory into the socket, and from the socket into the window it is
// for, without a copy between; who sends writes to the socket himself as far as it takes it.
#pragma once

#include <memory>

#include "collectives/transport/net/Network.h"

namespace hpu::collectives::net {

/// Of this process and local address (port 0: any): the same object as long as somebody has it; in a forked child its
/// own. Errors: kNotFound (not an address of this machine), kResourceExhausted, kUnavailable.
StatusOr<std::shared_ptr<Network>> tcpNetwork(const Address& local);

}  // namespace hpu::collectives::net
