// SPDX-License-Identifier: Apache-2.0
#include "collectives/roce/Verbs.h"

namespace hpu::roce {

std::string_view outcomeName(Outcome outcome) {
  switch (outcome) {
    case Outcome::kSuccess:
      return "success";
    case Outcome::kInvalidRequest:
      return "the peer refused it as invalid";
    case Outcome::kRemoteAccess:
      return "the peer's memory may not be used so";
    case Outcome::kRemoteOperation:
      return "the peer could not do it";
    case Outcome::kRetriesExceeded:
      return "the peer does not answer";
    case Outcome::kReceiverNotReady:
      return "the peer has no receive for it";
    case Outcome::kLocalLength:
      return "the message is longer than its receive";
    case Outcome::kFlushed:
      return "the queue pair had failed before";
  }
  return "?";
}

TimeNs notReadyNs(uint8_t code) {
  // In steps of 10 us.
  static constexpr std::array<int32_t, 32> kSteps = {
      65536, 1,   2,   3,   4,    6,    8,    12,   16,   24,   32,   48,    64,    96,    128,   192,
      256,   384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};
  return TimeNs{kSteps[code & 31]} * 10'000;
}

}  // namespace hpu::roce
