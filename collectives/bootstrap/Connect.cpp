// SPDX-License-Identifier: Apache-2.0
// Connecting, in the calling thread.
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "collectives/bootstrap/Connected.h"
#include "collectives/bootstrap/Reactor.h"

namespace hpu::collectives {

namespace {
constexpr int64_t kStopMs = 50;  ///< Between two questions whether to go on.
}  // namespace

StatusOr<int> connectTo(const Address& address, const base::Deadline& deadline, const std::function<Status()>& stop) {
  int fd = ::socket(address.v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return resourceExhausted("cannot create a socket: " + base::errnoText(errno));
  sockaddr_storage storage;
  socklen_t size = toSockaddr(address, storage);
  int error = 0;
  if (::connect(fd, reinterpret_cast<sockaddr*>(&storage), size) != 0) {
    error = errno;
    while (error == EINPROGRESS || error == EINTR) {
      pollfd entry{.fd = fd, .events = POLLOUT, .revents = 0};
      int64_t left = deadline.remainingMs(), most = stop ? kStopMs : int64_t{1} << 30;
      int ready = ::poll(&entry, 1, static_cast<int>(std::min(left, most)));
      if (ready > 0) {
        socklen_t length = sizeof error;
        ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length);
        break;
      }
      // Where somebody answers he can still be told.
      if (Status stopped = ready == 0 && stop ? stop() : okStatus(); !stopped.ok()) {
        ::close(fd);
        return stopped;
      }
      if (ready == 0 && deadline.expired()) {
        ::close(fd);
        return deadlineExceeded(base::strCat("no answer from ", address.text()));
      }
    }
  }
  if (error == 0) {
    if (!isConnectedWithItself(fd)) return fd;
    error = ECONNREFUSED;
  }
  ::close(fd);
  return unavailable(base::strCat("cannot connect to ", address.text(), ": ", base::errnoText(error)));
}

bool isConnectedWithItself(int fd) {
  sockaddr_storage own{}, other{};
  socklen_t ownSize = sizeof own, otherSize = sizeof other;
  return ::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &ownSize) == 0 &&
         ::getpeername(fd, reinterpret_cast<sockaddr*>(&other), &otherSize) == 0 && ownSize == otherSize &&
         std::memcmp(&own, &other, ownSize) == 0;
}

StatusOr<Address> localAddress(int fd) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0)
    return unavailable("a socket without an address: " + base::errnoText(errno));
  HPU_ASSIGN(Address address, fromSockaddr(storage));
  address.port = 0;
  return address;
}

}  // namespace hpu::collectives
