// SPDX-License-Identifier: Apache-2.0
// Connected: what a socket that connect() has connected may turn out to be.
// The one thing to know: it is to be asked before anything is sent.
#pragma once

namespace hpu::collectives {

/// Where nobody listens on a port of the range that the system gives out, it may connect a socket with itself: that is
/// as if the connection had been refused.
bool isConnectedWithItself(int fd);

}  // namespace hpu::collectives
