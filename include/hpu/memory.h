// SPDX-License-Identifier: Apache-2.0
// Buffer: a piece of a device's HBM.
// The one thing to know: its address is a device address; host code reads and writes it only by
// copies on a Stream.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "hpu/status.h"

namespace hpu {

class BufferState;

struct AllocateOptions {
  std::string label;              ///< Names the holder in statistics and errors.
  uint64_t requestedAddress = 0;  ///< 0: any. Else this address (a multiple of 256), or kAlreadyExists.
};

enum class CopyDirection : uint8_t { kToDevice, kToHost, kOnDevice };
/// One copy of many. A side on the host is a pointer as a number.
struct CopyRange {
  uint64_t dst = 0, src = 0;
  int64_t bytes = 0;
};

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
