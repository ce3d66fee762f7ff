// SPDX-License-Identifier: Apache-2.0
// RailNetwork: links over several networks of one kind, one an interface ("rail"): each link takes one of them, links
// are spread over all, and what is not acknowledged when a rail goes down goes over another one.
// The one thing to know: the first rail of one end is connected with the first one of the other end, and so on; what
// one end has more than the other one is not used. A link ends when no rail reaches the peer any more; a peer whose
// process has ended refuses at once on all of them.
//
//   HPU_ASSIGN(std::shared_ptr<Network> network, railNetwork({tcp0, tcp1}, {.spread = rank}));
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "collectives/transport/net/Network.h"

namespace hpu::collectives::net {

/// Of a network.
inline constexpr size_t kMostNetworkRails = 8;

struct RailOptions {
  /// The rail of the first link that is dialled; the next one takes the next rail.
  int spread = 0;
  /// Of the doors where links that are up are dialled again, on another rail or after an outage.
  Secret secret{};
  /// Between two looks at what only time can tell: who is silent, what is tried again. Nothing else waits for it.
  std::chrono::milliseconds tick{50};
};

/// Both ends of a link must have one, if with a single rail. Its name is that of the rails, its local() that of the
/// first one. A hello may have up to 232 bytes, a door's address has up to 1,040. Errors: kInvalidArgument (no rails,
/// or too many, or of several kinds), kResourceExhausted, those of Network::open.
StatusOr<std::shared_ptr<Network>> railNetwork(std::vector<std::shared_ptr<Network>> rails,
                                               const RailOptions& options = {});

}  // namespace hpu::collectives::net
