// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/shm/Process.h"

#include <errno.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>

#include "base/AtFork.h"
#include "base/File.h"
#include "base/Format.h"
#include "runtime/node/ProcessStart.h"

namespace hpu::collectives::shm {
namespace {

uint64_t inodeOf(const char* path) {
  struct stat info{};
  return ::stat(path, &info) == 0 ? static_cast<uint64_t>(info.st_ino) : 0;
}

ProcessCard lookAtMyself() {
  ProcessCard card;
  if (auto text = base::readTextFile("/proc/sys/kernel/random/boot_id", 64); text.ok()) {
    // "8c5b9e8a-....": 32 digits and dashes.
    std::string digits = *text;
    std::erase_if(digits, [](char c) { return !std::isxdigit(static_cast<unsigned char>(c)); });
    for (size_t i = 0; i < sizeof card.bootId && 2 * i + 2 <= digits.size(); ++i)
      card.bootId[i] = static_cast<uint8_t>(std::strtoul(digits.substr(2 * i, 2).c_str(), nullptr, 16));
  }
  card.networkNamespace = inodeOf("/proc/self/ns/net");
  card.pidNamespace = inodeOf("/proc/self/ns/pid");
  card.pid = ::getpid();
  card.startTime = startTimeOf(card.pid);
  card.user = ::geteuid();
  if (::getrandom(&card.token, sizeof card.token, 0) != sizeof card.token)
    card.token = static_cast<uint64_t>(card.pid) << 32 ^ card.startTime;
  return card;
}

}  // namespace

ProcessCard myProcess() {
  static ProcessCard card;
  std::lock_guard lock(base::processMutex());
  if (card.pid != ::getpid()) card = lookAtMyself();
  return card;
}

bool sameMachine(const ProcessCard& a, const ProcessCard& b) {
  return std::memcmp(a.bootId, b.bootId, sizeof a.bootId) == 0 && a.networkNamespace == b.networkNamespace;
}

uint64_t startTimeOf(int64_t pid, char* state) {
  return node::startTimeOf(pid, state);
}

node::Fd openProcess(const ProcessCard& process, bool& gone) {
  gone = false;
  if (process.pidNamespace != myProcess().pidNamespace) return node::Fd();
  node::Fd fd(static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(process.pid), 0)));
  int error = errno;
  if (!fd.valid() && error != ESRCH) return fd;
  // Its number may be another process's by now. (Without /proc nobody can tell.)
  const bool proc = startTimeOf(::getpid()) != 0;
  gone = !fd.valid() || (proc && startTimeOf(process.pid) != process.startTime);
  return gone ? node::Fd() : std::move(fd);
}

}  // namespace hpu::collectives::shm
