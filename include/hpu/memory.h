// SPDX-License-Identifier: Apache-2.0
// Buffer: a piece of a device's HBM.
// The one thing to know: its address is a device address; host code reads and writes it only by copies
// on a Stream.
#pragma once

#include <cstdint>
#include <memory>

#include "hpu/status.h"

namespace hpu {

class BufferState;

/// A shared handle; the memory is freed with the last one. Any thread may use it.
class HPU_API Buffer {
 public:
  Buffer();
  ~Buffer();
  bool valid() const { return state_ != nullptr; }
  uint64_t address() const;  ///< Device address.
  int64_t size() const;      ///< Bytes asked for.

  const std::shared_ptr<BufferState>& state() const { return state_; }
  explicit Buffer(std::shared_ptr<BufferState> state);

 private:
  std::shared_ptr<BufferState> state_;
};

}  // namespace hpu
