// SPDX-License-Identifier: Apache-2.0
// UdpSocket: batches of datagrams out and in, on one local address.
// The one thing to know: IPv6 datagrams go in trains (UDP_SEGMENT, UDP_GRO) where the system has them; IPv4 ones go one
// by one, unfragmented and with identification 0, since their ICRC covers the identification and each of a train would
// have another one. Nothing blocks. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/FunctionRef.h"
#include "collectives/bootstrap/Address.h"
#include "hpu/status.h"

namespace hpu::roce {

using collectives::Address;

struct UdpOptions {
  Address local;              ///< Not a wildcard: the ICRC covers it. Port 0: any that is free.
  int bufferBytes = 4 << 20;  ///< Of the kernel, each way; it may grant less.
  bool offload = true;        ///< Trains, where the system has them.
};

/// Datagrams to one address behind each other, all of `segmentBytes` but for the last, which may be shorter.
struct Train {
  const Address* to = nullptr;
  std::span<const uint8_t> bytes;
  uint32_t segmentBytes = 0;
};

struct Arrival {
  const Address& from;
  std::span<uint8_t> datagram;  ///< Until the next call.
  bool congested = false;       ///< A router marked it (ECN).
};

class UdpSocket {
 public:
  static constexpr size_t kMostTrainBytes = 65'000, kMostSegments = 64;  // UDP_MAX_SEGMENTS of Linux.

  /// Errors: kInvalidArgument (a wildcard), kUnavailable (the address is not this machine's, or the port is taken, and
  /// by which rule), kResourceExhausted.
  static StatusOr<UdpSocket> open(const UdpOptions& options);
  UdpSocket(UdpSocket&& other) noexcept;
  UdpSocket& operator=(UdpSocket&&) = delete;
  ~UdpSocket();

  const Address& local() const { return local_; }
  int descriptor() const { return descriptor_; }
  /// Payload bytes that the kernel takes in before it drops.
  int64_t receiveBytes() const { return receiveBytes_; }
  bool trains() const { return trains_; }

  /// How many were taken; fewer than all: send the rest when the socket is writable. A train that cannot reach its
  /// address counts as taken (the peer's silence ends the connection), and `lastError()` says why.
  size_t send(std::span<const Train> trains);
  /// Hands out what has come, up to a batch; false: there was nothing.
  bool receive(base::FunctionRef<void(const Arrival&)> take);
  /// The last receive() has handed out a whole batch, so there may be more.
  bool mayHaveMore() const { return mayHaveMore_; }
  const Status& lastError() const { return lastError_; }

 private:
  struct Buffers;
  explicit UdpSocket(int descriptor);
  void sendOneByOne(const Train& train);
  int descriptor_ = -1;
  Address local_;
  int64_t receiveBytes_ = 0;
  bool trains_ = false, mayHaveMore_ = false;
  Status lastError_;
  std::unique_ptr<Buffers> buffers_;
};

/// The MTU of the interface that has the address; 1500 when none has.
int interfaceMtu(const Address& address);

}  // namespace hpu::roce
