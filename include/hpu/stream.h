// SPDX-License-Identifier: Apache-2.0
// Stream: a queue of device work, in order within, concurrent with other streams.
// The one thing to know: every enqueue returns at once; a failure of the work itself is sticky to the
// stream and is reported by the next wait on it.
//
//   HPU_ASSIGN(auto stream, hpu::Stream::create(device));
//   HPU_RETURN_IF_ERROR(stream.copyToDevice(buffer, data, bytes));
//   HPU_RETURN_IF_ERROR(executable.launch(stream, {buffer}, {out}));
//   HPU_RETURN_IF_ERROR(stream.copyToHost(result, out, bytes));
//   HPU_RETURN_IF_ERROR(stream.synchronize());
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "hpu/device.h"
#include "hpu/event.h"
#include "hpu/memory.h"
#include "hpu/status.h"

namespace hpu {

class StreamState;

struct StreamOptions {
  std::string name;
  int priority = 0;  ///< Higher first among operations that may start at the same device time.
};

/// A shared handle; any thread may enqueue (each call is atomic in the order of arrival).
class HPU_API Stream {
 public:
  Stream();
  ~Stream();
  static StatusOr<Stream> create(const Device& device, const StreamOptions& options = {});

  /// Copies; `offset` is into the buffer, in bytes. The host memory must stay valid until the copy is
  /// done (synchronize or an event). Errors: kOutOfRange, kInvalidArgument (another device's buffer).
  Status copyToDevice(const Buffer& dst, const void* src, int64_t bytes, int64_t offset = 0);
  Status copyToHost(void* dst, const Buffer& src, int64_t bytes, int64_t offset = 0);
  Status copyOnDevice(const Buffer& dst, int64_t dstOffset, const Buffer& src, int64_t srcOffset,
                      int64_t bytes);
  Status fill(const Buffer& dst, uint8_t value, int64_t bytes, int64_t offset = 0);

  Status record(const Event& event);
  Status wait(const Event& event);

  /// True when everything enqueued so far is done.
  StatusOr<bool> query() const;
  /// Waits for everything enqueued so far; deadlineMs < 0: HPU_WAIT_TIMEOUT_MS (default 600,000).
  /// Returns the stream's sticky error, once; kDeadlineExceeded leaves the stream as it is.
  Status synchronize(int64_t deadlineMs = -1) const;

  const std::shared_ptr<StreamState>& state() const { return state_; }

 private:
  std::shared_ptr<StreamState> state_;
};

}  // namespace hpu
