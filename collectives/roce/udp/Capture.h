// SPDX-License-Identifier: Apache-2.0
// Capture: a pcap file of an endpoint's datagrams, as tcpdump and Wireshark read it.
// The one thing to know: IP and UDP headers are written as they are on the wire between peers, but for the checksum,
// which is left out (0). Records stand in the file in the order in which this process sent and received.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collectives/bootstrap/Address.h"
#include "hpu/status.h"

namespace hpu::roce {

class Capture {
 public:
  /// A new file; one that is there is overwritten, but not one that another capture is writing. Errors: kUnavailable
  /// (it cannot be written), kAlreadyExists.
  static StatusOr<std::unique_ptr<Capture>> create(const std::string& path);
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  /// BTH to ICRC. `timeNs`: since 1970. What the disk does not take is left out, and counted.
  void record(int64_t timeNs, const collectives::Address& from, const collectives::Address& to,
              std::span<const uint8_t> datagram);
  /// Records that the disk did not take.
  uint64_t lost() const { return lost_; }
  /// The file has what was recorded.
  void flush();

 private:
  explicit Capture(int file) : file_(file) {}
  void put(const void* bytes, size_t count);
  const int file_;
  std::vector<uint8_t> buffer_;  // Not stdio's: a forked child would write it once more when it ends.
  uint64_t buffered_ = 0;        // Records in it.
  uint64_t lost_ = 0;
};

}  // namespace hpu::roce
