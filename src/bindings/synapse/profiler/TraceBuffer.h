// SPDX-License-Identifier: Apache-2.0
// TraceBuffer: a recording in the form in which synProfilerGetTrace gives it to a caller's buffer:
//   synTraceEvent entries | their arguments and texts | uint64_t number of entries | uint64_t version
// The one thing to know: pointers in the entries point into the caller's buffer.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "habanalabs/synapse_api.h"
#include "hpu/status.h"
#include "hpu/trace.h"

namespace hpu::synapse {

class TraceBuffer {
 public:
  static constexpr uint64_t kVersion = 1;

  /// The events of `device` (hpu::Device's index; ignored for synTraceHost) and, unless synTraceDevice, of the host.
  /// Errors: kDataLoss.
  static StatusOr<TraceBuffer> make(const trace::Recording& recording, synTraceType type, int32_t device);

  uint64_t entries() const { return events_.size(); }
  uint64_t bytes() const;
  /// Writes all of it to `buffer` of bytes(), aligned to 16.
  void writeTo(void* buffer) const;

 private:
  /// An entry whose texts are offsets into texts_ and whose arguments are a range of arguments_.
  struct Entry {
    char type = 'X';
    uint64_t name = 0, category = 0;
    int64_t startPs = 0, durationPs = 0;
    uint32_t process = 0, track = 0;
    uint64_t launch = 0, queue = 0, value = 0;
    uint64_t program = 0, group = 0;
    size_t firstArgument = 0, numArguments = 0;
  };
  struct Argument {
    uint64_t key = 0, text = 0;
  };
  uint64_t intern(const std::string& text);

  std::vector<Entry> events_;
  std::vector<Argument> arguments_;
  std::string texts_;  ///< Each with its end.
  std::unordered_map<std::string, uint64_t> offsets_;
};

}  // namespace hpu::synapse
