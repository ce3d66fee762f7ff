// SPDX-License-Identifier: Apache-2.0
// Descriptor: a descriptor of the networks (a socket, an epoll set) that no forked child keeps.
// The one thing to know: a peer sees that a process has ended by the end of its sockets, and a child that holds copies
// of them would hide it; what is opened through this class is closed in each child at once.
//
//   auto socket = Descriptor::open([] { return ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); });
//   if (!socket) return resourceExhausted(base::errnoText(errno));
#pragma once

#include <utility>

#include "base/FunctionRef.h"
#include "base/ProcessOwned.h"
#include "hpu/status.h"

namespace hpu::collectives::net {

class Descriptor {
 public:
  Descriptor() = default;
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)), birthplace_(other.birthplace_) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(birthplace_, other.birthplace_);
    return *this;
  }
  ~Descriptor() { close(); }

  /// Before the first one is opened. Errors: kResourceExhausted.
  static Status prepare();
  /// What `make` gives, which must not wait; none when that is less than 0 (then errno is as `make` left it).
  static Descriptor open(base::FunctionRef<int()> make);
  /// In a forked child of the process that opened it: nothing happens.
  void close() noexcept;
  /// Somebody else closes it, right now.
  void release() noexcept;

  int fd() const { return fd_; }  ///< -1: none.
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
  base::Birthplace birthplace_;
};

}  // namespace hpu::collectives::net
