// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/collectives/bootstrap/NoDescriptors.h"

#include <fcntl.h>
#include <unistd.h>
#ifdef __SANITIZE_ADDRESS__
#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#endif

namespace hpu::collectives {
namespace {

#ifdef __SANITIZE_ADDRESS__
[[noreturn]] void stop(const char* what) {
  std::perror(what);
  std::abort();
}

/// Ends of one pipe, numbered above the limit: what is closed there is free for nobody.
struct UbsansPipes {
  static constexpr int kCount = 128;  // A class is looked at once.
  int ends[kCount][2];
  std::atomic<int> used{kCount};

  void make(int from) {
    int made[2];
    if (::pipe2(made, O_CLOEXEC) != 0) stop("cannot make UBSan's pipe");
    for (auto& pair : ends)
      for (int end : {0, 1}) {
        pair[end] = ::fcntl(made[end], F_DUPFD_CLOEXEC, from);
        if (pair[end] < 0) stop("cannot keep UBSan's descriptors");
      }
    for (int fd : made) ::close(fd);
    used = 0;
  }
  bool take(int out[2]) {
    int next = used.fetch_add(1);
    if (next >= kCount) return false;
    std::memcpy(out, ends[next], sizeof ends[next]);
    return true;
  }
  void end() {
    for (int i = used.exchange(kCount); i < kCount; ++i)
      for (int fd : ends[i]) ::close(fd);
  }
} ubsansPipes;

bool isUbsan(const void* code) {
  Dl_info info{};
  return ::dladdr(code, &info) != 0 && info.dli_fname && std::strstr(info.dli_fname, "libubsan");
}
#endif

}  // namespace

NoDescriptors::NoDescriptors(int left) {
  ::getrlimit(RLIMIT_NOFILE, &before_);
  int first = ::dup(0);
  // Above all that are open: none of the program's own is there.
  rlimit few{static_cast<rlim_t>(first) + 64, before_.rlim_max};
  taken_.push_back(first);
#ifdef __SANITIZE_ADDRESS__
  ubsansPipes.make(static_cast<int>(few.rlim_cur));
#endif
  ::setrlimit(RLIMIT_NOFILE, &few);
  for (int fd = ::dup(0); fd >= 0; fd = ::dup(0)) taken_.push_back(fd);
  for (; left > 0; --left) drop();
}

NoDescriptors::~NoDescriptors() {
  while (!taken_.empty()) drop();
#ifdef __SANITIZE_ADDRESS__
  ubsansPipes.end();
#endif
  ::setrlimit(RLIMIT_NOFILE, &before_);
}

void NoDescriptors::drop() {
  ::close(taken_.back());
  taken_.pop_back();
}

}  // namespace hpu::collectives

#ifdef __SANITIZE_ADDRESS__
/// In the place of the C library's, which libubsan would call.
extern "C" __attribute__((visibility("default"))) int pipe(int ends[2]) noexcept {
  using hpu::collectives::ubsansPipes;
  if (hpu::collectives::isUbsan(__builtin_return_address(0)) && ubsansPipes.take(ends)) return 0;
  return ::pipe2(ends, 0);
}
#endif
