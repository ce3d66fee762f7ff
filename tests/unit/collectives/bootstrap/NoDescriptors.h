// SPDX-License-Identifier: Apache-2.0
// NoDescriptors: a process that has run out of them.
// The one thing to know: one of these lives at a time. UBSan, which looks at an unknown object's
// class through a pipe(), still gets its pipes: their descriptors are above the limit, so that
// nobody else can have them.
#pragma once

#include <sys/resource.h>

#include <vector>

namespace hpu::collectives {

/// While it lives the process can open `left` descriptors more.
class NoDescriptors {
 public:
  explicit NoDescriptors(int left = 0);
  ~NoDescriptors();
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

 private:
  void drop();
  rlimit before_{};
  std::vector<int> taken_;
};

}  // namespace hpu::collectives
