// SPDX-License-Identifier: Apache-2.0
// Client: talks to the owner of a device.
// The one thing to know: a connection is made without the owner's help, so who owns a device is
// known even when the owner is stopped or busy; only its answer takes its cooperation, and a
// deadline.
#pragma once

#include <string>

#include "base/Deadline.h"
#include "hpu/status.h"
#include "runtime/node/Protocol.h"

namespace hpu::node {

struct Contact {
  Fd socket;
  Peer owner;
};
/// Connects to the owner of a device. Errors: kNotFound (nobody owns it), kUnavailable (its queue
/// of callers is full), kPermissionDenied (another user has taken the name), kInternal.
/// Whichever of the names the owner has, but `except`. What other users hold is passed over.
StatusOr<Contact> contact(const std::string& identity, int index, int except = -1);

/// Waits for the reply to what was sent. Errors: kDeadlineExceeded, kUnavailable.
Status awaitReply(const Contact& contact, const base::Deadline& deadline, std::string& reply, Fd* fd = nullptr);

/// Sends and waits.
Status ask(const Contact& contact, const Request& request, const base::Deadline& deadline, std::string& reply,
           Fd* fd = nullptr);

/// "process 4711 (python3)", "this process".
std::string describe(const Peer& owner);

/// Waits until nobody owns the device (kAnyDevice: until one of the node is free). Errors:
/// kDeadlineExceeded and those of contact.
Status waitUntilFree(const std::string& identity, int index, const base::Deadline& deadline);

}  // namespace hpu::node
