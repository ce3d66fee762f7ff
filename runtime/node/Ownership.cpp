// SPDX-License-Identifier: Apache-2.0
#include "runtime/node/Ownership.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <utility>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "runtime/node/Client.h"
#include "runtime/node/Inventory.h"
#include "runtime/node/Protocol.h"
#include "runtime/node/Service.h"

namespace hpu::node {
namespace {

// Callers that the kernel keeps until the owner's thread has time for them.
constexpr int kBacklog = 128;

/// The bound name of a device; not valid when somebody has it.
StatusOr<Fd> bindName(const std::string& identity, int index, int name) {
  Fd listener(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener.valid()) return internalError("cannot create a socket to own a device with: " + base::errnoText(errno));
  sockaddr_un address;
  uint32_t bytes = socketAddress(socketName(identity, index, name), address);
  if (::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), bytes) != 0) {
    if (errno == EADDRINUSE) return Fd();
    return internalError(
        base::strCat("cannot own device ", index, " of node '", identity, "': ", base::errnoText(errno)));
  }
  if (::listen(listener.get(), kBacklog) != 0)
    return internalError(
        base::strCat("cannot listen for device ", index, " of node '", identity, "': ", base::errnoText(errno)));
  return listener;
}

Status heldByOthers(const std::string& identity, int index) {
  std::string users;
  for (int name = 0; name < kNames; ++name) {
    auto holder = holderOf(socketName(identity, index, name));
    const std::string user = holder.ok() && *holder ? base::strCat(**holder) : "?";
    if (users.find(user) == std::string::npos) users += base::strCat(users.empty() ? "" : ", ", user);
  }
  return Status(StatusCode::kPermissionDenied,
                base::strCat("all ", kNames, " names of device ", index, " of node '", identity,
                             "' are held by other users (", users, "); use another node (HPU_NODE)"));
}

/// The device's listening name; not valid when a process of ours has the device. Two of ours may bind two of the names
/// at a time, when another user held the first of them for a while: so a process that has bound one looks at the
/// others, and gives up when it finds one of ours. Both listen before they look, so at least one sees the other.
StatusOr<Fd> tryBind(const std::string& identity, int index) {
  std::minstd_rand random(
      static_cast<uint32_t>(::getpid() ^ std::chrono::steady_clock::now().time_since_epoch().count()));
  constexpr int kAttempts = 8;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    Fd listener;
    int name = 0;
    for (; name < kNames; ++name) {
      HPU_ASSIGN(listener, bindName(identity, index, name));
      if (listener.valid()) break;
      auto holder = holderOf(socketName(identity, index, name));
      // Where the kernel does not tell, it is one of ours as far as we know.
      if (!holder.ok()) {
        auto owner = contact(identity, index);
        if (owner.status().code() != StatusCode::kNotFound) return Fd();
        continue;
      }
      if (!*holder) {
        --name;  // Just let go of.
        if (++attempt >= kAttempts) return Fd();
        continue;
      }
      if (isOurs(**holder)) return Fd();
    }
    if (!listener.valid()) return heldByOthers(identity, index);
    if (contact(identity, index, name).status().code() == StatusCode::kNotFound) return listener;
    listener.reset();
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 5000));
  }
  return Fd();
}

/// The process that holds a device whose name is taken.
std::string holder(const std::string& identity, int index) {
  auto owner = contact(identity, index);
  if (owner.ok()) return describe(owner->owner);
  if (owner.status().code() == StatusCode::kNotFound) return "a process that has just ended";
  return owner.status().message();
}

Status taken(const std::string& identity, int index) {
  return unavailable(
      base::strCat("device ", index, " of node '", identity, "' is in use by ", holder(identity, index),
                   ". Ask for any device, end that process, wait (HPU_ACQUIRE_TIMEOUT_MS) or use another node "
                   "(HPU_NODE)"));
}

Status allTaken(const std::string& identity) {
  std::string owners;
  for (int i = 0; i < kDevices; ++i) owners += base::strCat(i ? ", " : "", i, " by ", holder(identity, i));
  return resourceExhausted(
      base::strCat("all ", kDevices, " devices of node '", identity, "' are in use: ", owners,
                   ". End one of these, wait (HPU_ACQUIRE_TIMEOUT_MS) or use another node (HPU_NODE)"));
}

StatusOr<std::unique_ptr<OwnedDevice>> own(Fd listener, int index, Target target) {
  HPU_ASSIGN(uint64_t key, Service::instance().add(std::move(listener), index, target));
  return std::make_unique<OwnedDevice>(index, key);
}

}  // namespace

OwnedDevice::~OwnedDevice() {
  Service::instance().remove(key_);
}

void OwnedDevice::serve(DeviceReporter* reporter, const SharedMemory& memory) {
  Service::instance().setReporter(key_, reporter, memory);
}

void OwnedDevice::stopServing() {
  Service::instance().setReporter(key_, nullptr, SharedMemory());
}

StatusOr<std::unique_ptr<OwnedDevice>> acquire(const DeviceOptions& options) {
  HPU_ASSIGN(std::string name, identity());
  HPU_ASSIGN(int wanted, requestedIndex(options));
  HPU_ASSIGN(Target target, targetOf(options.target, /*strict=*/true));
  if (wanted != kAnyDevice) {
    HPU_ASSIGN(Fd listener, tryBind(name, wanted));
    if (!listener.valid()) return taken(name, wanted);
    return own(std::move(listener), wanted, target);
  }
  Status denied;
  for (int index = 0; index < kDevices; ++index) {
    auto listener = tryBind(name, index);
    if (listener.status().code() == StatusCode::kPermissionDenied) {
      denied = listener.status();  // Others hold this one; the next may do.
      continue;
    }
    if (!listener.ok()) return listener.status();
    if (listener->valid()) return own(std::move(*listener), index, target);
  }
  return denied.ok() ? allTaken(name) : denied;
}

Status waitUntilFree(const DeviceOptions& options, const base::Deadline& deadline) {
  HPU_ASSIGN(std::string name, identity());
  HPU_ASSIGN(int wanted, requestedIndex(options));
  return waitUntilFree(name, wanted, deadline);
}

int64_t ownerPid(int index) {
  auto name = identity();
  if (!name.ok()) return -1;
  auto owner = contact(*name, index);
  if (owner.status().code() == StatusCode::kNotFound) return 0;
  return owner.ok() && owner->owner.pid > 0 ? owner->owner.pid : -1;
}

}  // namespace hpu::node
