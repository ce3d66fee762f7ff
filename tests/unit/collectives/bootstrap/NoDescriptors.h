// SPDX-License-Identifier: Apache-2.0
// NoDescriptors: a process that has run out of them.
#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <vector>

namespace hpu::collectives {

/// While it lives the process can open `left` descriptors more.
class NoDescriptors {
 public:
  explicit NoDescriptors(int left = 0) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    int first = ::dup(0);
    // Above all that are open: none of the program's own is there.
    rlimit few{static_cast<rlim_t>(first) + 64, before_.rlim_max};
    taken_.push_back(first);
    ::setrlimit(RLIMIT_NOFILE, &few);
    for (int fd = ::dup(0); fd >= 0; fd = ::dup(0)) taken_.push_back(fd);
    for (; left > 0; --left) drop();
  }
  ~NoDescriptors() {
    while (!taken_.empty()) drop();
    ::setrlimit(RLIMIT_NOFILE, &before_);
  }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

 private:
  void drop() {
    ::close(taken_.back());
    taken_.pop_back();
  }
  rlimit before_{};
  std::vector<int> taken_;
};

}  // namespace hpu::collectives
