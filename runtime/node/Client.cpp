// SPDX-License-Identifier: Apache-2.0
#include "runtime/node/Client.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>
#include <vector>

#include "base/Format.h"
#include "base/StatusMacros.h"

namespace hpu::node {
namespace {

// While waiting for an owner's end nothing has to be asked again; this only bounds the harm of an
// owner whose queue of callers was full.
constexpr int64_t kRetryMs = 50;
// How long a place among an owner's callers is waited for.
constexpr int64_t kCrowdedMs = 200;

int remaining(const base::Deadline& deadline, int64_t atMost = 60000) {
  return static_cast<int>(std::min(deadline.remainingMs(), atMost));
}

}  // namespace

namespace {

/// As contact(), under one of the names. Errors: also kPermissionDenied (somebody else's).
StatusOr<Contact> contactAt(const std::string& identity, int index, int name) {
  Contact result;
  result.socket = Fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!result.socket.valid())
    return resourceExhausted("cannot create a socket to ask a device's owner: " + base::errnoText(errno));
  sockaddr_un address;
  uint32_t bytes = socketAddress(socketName(identity, index, name), address);
  int status;
  // Of an owner that strangers keep busy a place becomes free every moment.
  const base::Deadline patience = base::Deadline::afterMs(kCrowdedMs);
  do {
    status = ::connect(result.socket.get(), reinterpret_cast<sockaddr*>(&address), bytes);
    if (status == 0 || errno != EAGAIN) continue;
    auto holder = holderOf(socketName(identity, index, name));
    if (holder.ok() && *holder && !isOurs(**holder))
      return Status(StatusCode::kPermissionDenied, base::strCat("user ", **holder, " holds the name"));
    if (patience.expired()) {
      errno = EAGAIN;
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    errno = EINTR;
  } while (status != 0 && errno == EINTR);
  if (status != 0) {
    int error = errno;
    if (error == ECONNREFUSED || error == ENOENT)
      return notFound(base::strCat("nobody owns device ", index, " of node '", identity, "'"));
    if (error == EAGAIN)
      return unavailable(
          base::strCat("the owner of device ", index, " of node '", identity, "' has too many callers; ask again"));
    return internalError(base::strCat("cannot connect to the owner of device ", index, " of node '", identity,
                                      "': ", base::errnoText(error)));
  }
  HPU_ASSIGN(result.owner, peerOf(result.socket.get()));
  if (!isOurs(result.owner.uid))
    return Status(StatusCode::kPermissionDenied,
                  base::strCat("device ", index, " of node '", identity, "' is held by ", describe(result.owner),
                               " of user ", result.owner.uid, "; use another node (HPU_NODE)"));
  return result;
}

}  // namespace

StatusOr<Contact> contact(const std::string& identity, int index, int except) {
  Status unknown;
  for (int name = 0; name < kNames; ++name) {
    if (name == except) continue;
    auto found = contactAt(identity, index, name);
    if (found.ok()) return found;
    const StatusCode code = found.status().code();
    // What another user holds is none of our devices.
    if (code == StatusCode::kNotFound || code == StatusCode::kPermissionDenied) continue;
    if (code != StatusCode::kUnavailable) return found.status();
    unknown = found.status();
  }
  if (!unknown.ok()) return unknown;
  return notFound(base::strCat("nobody owns device ", index, " of node '", identity, "'"));
}

Status awaitReply(const Contact& contact, const base::Deadline& deadline, std::string& reply, Fd* fd) {
  while (true) {
    HPU_ASSIGN(bool arrived, receivePacket(contact.socket.get(), reply, fd));
    if (arrived) return okStatus();
    pollfd event{contact.socket.get(), POLLIN, 0};
    int ready = ::poll(&event, 1, remaining(deadline));
    if (ready < 0 && errno != EINTR)
      return internalError("cannot wait for a device's owner: " + base::errnoText(errno));
    if (ready == 0 && deadline.expired())
      return deadlineExceeded(base::strCat(describe(contact.owner), ", the owner of the device, did not answer within ",
                                           deadline.totalMs(), " ms; it is stopped or very busy"));
  }
}

Status ask(const Contact& contact, const Request& request, const base::Deadline& deadline, std::string& reply, Fd* fd) {
  HPU_RETURN_IF_ERROR(sendPacket(contact.socket.get(), &request, sizeof request));
  return awaitReply(contact, deadline, reply, fd);
}

std::string describe(const Peer& owner) {
  if (owner.pid == ::getpid()) return "this process";
  if (owner.pid <= 0) return "a process of another pid namespace";
  std::string name = programName(owner.pid);
  return base::strCat("process ", owner.pid, name.empty() ? "" : base::strCat(" (", name, ")"));
}

Status waitUntilFree(const std::string& identity, int index, const base::Deadline& deadline) {
  int first = index == kAnyDevice ? 0 : index, last = index == kAnyDevice ? kDevices - 1 : index;
  while (true) {
    std::vector<Contact> owners;
    bool full = false;
    for (int i = first; i <= last; ++i) {
      auto owner = contact(identity, i);
      if (owner.ok()) {
        owners.push_back(std::move(*owner));
      } else if (owner.status().code() == StatusCode::kNotFound) {
        return okStatus();
      } else if (owner.status().code() == StatusCode::kUnavailable) {
        full = true;
      } else {
        return owner.status();
      }
    }
    // The kernel hangs up on us when the owner's socket goes, whether it has accepted us or not.
    std::vector<pollfd> events;
    for (const Contact& owner : owners) events.push_back({owner.socket.get(), POLLIN, 0});
    int ready = ::poll(events.data(), events.size(), remaining(deadline, full ? kRetryMs : 60000));
    if (ready < 0 && errno != EINTR)
      return internalError("cannot wait for a device's owner: " + base::errnoText(errno));
    if (deadline.expired())
      return deadlineExceeded(base::strCat("no device became free within ", deadline.totalMs(), " ms"));
  }
}

}  // namespace hpu::node
