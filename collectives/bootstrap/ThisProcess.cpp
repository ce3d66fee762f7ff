// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/ThisProcess.h"

#include <sys/random.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <mutex>

#include "base/AtFork.h"
#include "base/Format.h"
#include "base/Hash.h"
#include "base/Settings.h"

namespace hpu::collectives {

std::string hostName() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "?";
  return name.data();
}

std::string nodeName() {
  return settings::isSet(Setting::HPU_NODE) ? settings::rawText(Setting::HPU_NODE) : std::string();
}

uint64_t processToken() {
  static uint64_t token = 0;  // Guarded by processMutex(), as the next.
  static int64_t pid = 0;
  std::lock_guard lock(base::processMutex());
  if (pid == ::getpid()) return token;
  pid = ::getpid();
  token = 0;
  // Without random numbers it is still told from all others of this machine.
  if (::getrandom(&token, sizeof token, GRND_NONBLOCK) != sizeof token || token == 0) {
    const int64_t mine[] = {pid, std::chrono::steady_clock::now().time_since_epoch().count()};
    token = base::hash64(mine, sizeof mine, base::hash64(hostName())) | 1;
  }
  return token;
}

std::string processText(int64_t pid, std::string_view host, std::string_view node) {
  return base::strCat("process ", pid, " on ", host, node.empty() ? "" : ", node ", node);
}

std::string processText() {
  return processText(::getpid(), hostName(), nodeName());
}

}  // namespace hpu::collectives
