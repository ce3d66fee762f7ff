// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/net/TcpWindows.h"

#include <sys/random.h>

#include "base/Format.h"

namespace hpu::collectives::net::tcp {
namespace {

/// Windows that were closed before they were written are known as such, so that the write that is on its way is told
/// from nonsense; of so many, and of older ones it is nonsense.
constexpr size_t kMostClosed = 4096;

}  // namespace

void TcpWindows::randomKeys(std::span<uint32_t> keys) {
  // Up to 256 bytes are always given. A peer knows the windows that it was told of by their numbers; the keys are for
  // those that it was not.
  (void)!::getrandom(keys.data(), keys.size_bytes(), 0);
}

uint32_t TcpWindows::newKey() {
  if (keysLeft_ == 0) {
    keySource_(keys_);
    keysLeft_ = keys_.size();
  }
  return keys_[--keysLeft_];
}

Window TcpWindows::open(std::byte* data, int64_t bytes) {
  const uint64_t id = next_++;
  const uint32_t key = newKey();
  windows_[id] = {data, static_cast<uint64_t>(bytes > 0 && data ? bytes : 0), key};
  return {id, key};
}

void TcpWindows::close(const Window& window) {
  if (window.address == current_) target_ = nullptr;
  auto it = windows_.find(window.address);
  if (it == windows_.end() || it->second.key != window.key || !it->second.data) return;
  it->second.data = nullptr;
  closed_.push_back(window.address);
  // Most have been written meanwhile.
  while (closed_.size() > kMostClosed) {
    windows_.erase(closed_.front());
    closed_.pop_front();
  }
}

void TcpWindows::closeAll() {
  windows_.clear();
  closed_.clear();
  target_ = nullptr;
}

Status TcpWindows::begin(const Header& header) {
  auto it = windows_.find(header.window.address);
  if (it == windows_.end() || it->second.key != header.window.key)
    return invalidArgument("a write into a window that it does not have");
  const Open window = it->second;
  if (header.bytes > window.bytes)
    return invalidArgument(base::strCat("a write of ", header.bytes, " bytes into a window of ", window.bytes));
  windows_.erase(it);
  current_ = header.window.address;
  target_ = window.data;
  return okStatus();
}

void TcpWindows::end() {
  current_ = 0;
  target_ = nullptr;
}

}  // namespace hpu::collectives::net::tcp
