// SPDX-License-Identifier: Apache-2.0
// What the users of the TCP network have in hand. The one thing to know: connections live in the progress thread; a
// link ends with its handle, and the thread with the last one.
#pragma once

#include <memory>

#include "collectives/transport/net/Network.h"

namespace hpu::collectives::net {
class ProgressThread;
namespace tcp {

class TcpLink;
std::shared_ptr<Link> makeLinkHandle(std::shared_ptr<ProgressThread> thread, std::shared_ptr<TcpLink> link);

}  // namespace tcp
}  // namespace hpu::collectives::net
