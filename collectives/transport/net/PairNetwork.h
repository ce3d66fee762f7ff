// SPDX-License-Identifier: Apache-2.0
// PairNetwork: a network whose links are queue pairs of some engine and meet over TCP: its doors and handles.
// The one thing to know: the networks "roce" and "verbs" are this one with different engines, and do not mix: the
// address of a door begins with its network's name.
#pragma once

#include <memory>
#include <string>

#include "base/FunctionRef.h"
#include "collectives/transport/net/Network.h"
#include "collectives/transport/net/PairEngine.h"

namespace hpu::collectives::net {

/// The network of this process with that key, made when nobody has it; a forked child has its own.
StatusOr<std::shared_ptr<Network>> pairNetwork(const std::string& key,
                                               base::FunctionRef<StatusOr<std::shared_ptr<Network>>()> make);

/// A new one. Ends meet over `tcp`. Errors: kResourceExhausted, kFailedPrecondition (the program is ending).
StatusOr<std::shared_ptr<Network>> makePairNetwork(std::shared_ptr<Network> tcp, std::unique_ptr<PairEngine> engine,
                                                   const PairOptions& options);

/// What all of them in this process have counted so far. Any thread.
roce::Endpoint::Counters pairCounters();

}  // namespace hpu::collectives::net
