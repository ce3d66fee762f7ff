// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/net/Descriptor.h"

#include <unistd.h>

#include <cerrno>
#include <mutex>
#include <vector>

#include "base/AtFork.h"

namespace hpu::collectives::net {
namespace {

struct Sockets {
  std::mutex mutex;         // Guards all. Descriptors come and go under it, so that a fork knows them all.
  std::vector<bool> isOne;  ///< By number.
};
Sockets& sockets() {
  static Sockets* instance = new Sockets;  // Threads may outlive statics.
  return *instance;
}

void closeAllInChild() {
  std::vector<bool>& isOne = sockets().isOne;
  for (size_t fd = 0; fd < isOne.size(); ++fd) {
    if (!isOne[fd]) continue;
    ::close(static_cast<int>(fd));
    isOne[fd] = false;
  }
  sockets().mutex.unlock();
}

}  // namespace

Status Descriptor::prepare() {
  static constexpr base::ForkHandlers kHandlers = {[] { sockets().mutex.lock(); }, [] { sockets().mutex.unlock(); },
                                                   closeAllInChild};
  if (base::atFork(base::ForkRank::kSockets, kHandlers)) return okStatus();
  return resourceExhausted("cannot register a fork handler");
}

Descriptor Descriptor::open(base::FunctionRef<int()> make) {
  Descriptor made;
  auto& all = sockets();
  std::lock_guard lock(all.mutex);
  const int fd = make();
  if (fd < 0) return made;
  if (static_cast<size_t>(fd) >= all.isOne.size()) all.isOne.resize(static_cast<size_t>(fd) + 1);
  all.isOne[static_cast<size_t>(fd)] = true;
  made.fd_ = fd;
  return made;
}

void Descriptor::close() noexcept {
  if (fd_ < 0) return;
  const int fd = std::exchange(fd_, -1);
  if (!birthplace_.isHere()) return;
  auto& all = sockets();
  std::lock_guard lock(all.mutex);
  all.isOne[static_cast<size_t>(fd)] = false;
  ::close(fd);
}

void Descriptor::release() noexcept {
  if (fd_ < 0) return;
  const int fd = std::exchange(fd_, -1);
  if (!birthplace_.isHere()) return;
  auto& all = sockets();
  std::lock_guard lock(all.mutex);
  all.isOne[static_cast<size_t>(fd)] = false;
}

}  // namespace hpu::collectives::net
