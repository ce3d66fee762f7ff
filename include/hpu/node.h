// SPDX-License-Identifier: Apache-2.0
// Node: the eight devices of this machine's simulated node, who owns each, and how they do. Reading is
// cheap and needs no device: hpu-smi and HLML live on it.
// The one thing to know: a node is shared by all processes with the same identity (HPU_NODE) in one network
// namespace; a device that nobody owns is idle, and its owner's death frees it at once.
//
//   hpu::node::NodeStatus node = hpu::node::query().value();
//   for (const hpu::node::DeviceStatus& device : node.devices)
//     printf("%s %s\n", device.pciAddress.c_str(), device.owner.pid ? "in use" : "free");
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "hpu/device.h"
#include "hpu/status.h"
#include "hpu/target.h"

namespace hpu::node {

inline constexpr int kDevices = 8;

/// A process that holds memory of a device: its owner, or a peer that maps it.
struct ProcessStatus {
  int64_t pid = 0;  ///< 0: nobody.
  std::string name;
  int64_t usedBytes = 0;  ///< HBM allocated by it, in bytes.
  int32_t streams = 0;
};

/// What can be injected, for tests of code that must survive it.
enum class Fault : uint8_t {
  kCorrectedEcc,    ///< Counted; nothing else happens.
  kUncorrectedEcc,  ///< Counted; the next work that reads device memory fails.
  kNonFatalEvent,   ///< Counted and reported to whoever waits for events.
  kFatalEvent,      ///< Every stream fails until the device is reset.
  kEndlessCommand,  ///< The next launch does not end; its waits run into their deadlines until a reset.
  kLostHeartbeat,   ///< The device is reported lost until a reset.
  kThermal,         ///< Counted as a throttle reason.
};
inline constexpr int kNumFaults = 7;

/// What one direction of a link has carried, as modelled: everything but `busyPs` is a count of whole things.
struct PortTraffic {
  int64_t messages = 0, packets = 0;
  int64_t payloadBytes = 0;
  int64_t bytes = 0;   ///< On the wire: with the headers, and the acknowledgements that the model charges to the data.
  int64_t busyPs = 0;  ///< How long the link was taken, in picoseconds of device time.

  PortTraffic& operator+=(const PortTraffic& other) {
    messages += other.messages;
    packets += other.packets;
    payloadBytes += other.payloadBytes;
    bytes += other.bytes;
    busyPs += other.busyPs;
    return *this;
  }
  bool operator==(const PortTraffic& other) const {
    return messages == other.messages && packets == other.packets && payloadBytes == other.payloadBytes &&
           bytes == other.bytes && busyPs == other.busyPs;
  }
};
struct LinkTraffic {
  PortTraffic sent, received;
  bool operator==(const LinkTraffic& other) const { return sent == other.sent && received == other.received; }
};
/// Of a device: the link to each device of its node, by that one's index (its own: what ranks that share the device
/// tell each other, which leaves it by no port), and the rail to other nodes.
inline constexpr int kRail = kDevices, kLinks = kDevices + 1;

/// What the network below the rails has met: of a process, so the same for all its devices. RoCE counts these; TCP is
/// the kernel's, and counts nothing here.
enum class NetworkCounter : uint8_t {
  kSent,             ///< Datagrams.
  kReceived,         ///< Datagrams.
  kRetransmitted,    ///< Packets that were sent again.
  kTimeouts,         ///< Nothing was heard of what was sent.
  kNaks,             ///< The peer missed a packet, and said so.
  kNotReady,         ///< The peer had no buffer.
  kMissedResponses,  ///< An answer of the peer was missing.
  kBadIcrc,          ///< Received with a wrong checksum, and dropped.
  kMalformed,        ///< Received and no packet of RoCE.
  kStrays,           ///< Received for no connection, or from another than its peer.
  kDuplicates,       ///< Requests received again.
  kOutOfOrder,       ///< Requests received behind one that is missing.
  kCongestionMarks,  ///< Received with a switch's mark of congestion.
};
inline constexpr int kNumNetworkCounters = 13;

/// One device as it is now. Times and counters are since it was acquired, and 0 for a free one.
struct DeviceStatus {
  int index = 0;             ///< 0..7, the order of PCI addresses.
  uint32_t moduleId = 0;     ///< The slot on the node's board, 0..7; not the index on purpose.
  std::string pciAddress;    ///< "0000:19:00.0".
  std::string uuid, serial;  ///< Fixed by the node's identity and the index.
  std::string name;          ///< "HL-225".
  Target target = Target::kGaudi2;
  std::string clockProfile;          ///< "sustained"; empty for a free device, which has the target's first one.
  ProcessStatus owner;               ///< pid 0 when the device is free.
  std::vector<ProcessStatus> peers;  ///< Processes that map its memory.
  int64_t totalBytes = 0, usedBytes = 0, peakBytes = 0;
  DeviceCounters counters;                     ///< Modelled; see device.h.
  LinkTraffic links[kLinks];                   ///< Of operations that are complete and have ended well.
  int32_t railUsers = 0;                       ///< Communicators of several nodes that have a rank on it.
  uint64_t network[kNumNetworkCounters] = {};  ///< By NetworkCounter.
  int64_t acquiredAtNs = 0;                    ///< Host CLOCK_REALTIME nanoseconds.
  int64_t updatedAtNs = 0;                     ///< When the owner last published, same clock.
  int32_t queuedWork = 0;                      ///< Work enqueued and not done.
  uint64_t faults[kNumFaults] = {};            ///< Counts by Fault, since the device was acquired.
  bool lost = false;      ///< A fatal event or a lost heartbeat was injected, and no reset came since.
  std::string lastError;  ///< The last failure of a stream; empty when none.
};

struct NodeStatus {
  std::string identity;               ///< HPU_NODE.
  std::vector<DeviceStatus> devices;  ///< kDevices, by index.
};

/// A StatusOr whose lists cannot be reached through a temporary: `for (auto& d : query()->devices)` would walk a list
/// that is gone, and does not compile. Name the answer and look at ok(), or take the value:
/// `for (auto& d : query().value().devices)` keeps it for the loop.
template <typename T>
class Answer : public StatusOr<T> {
 public:
  using StatusOr<T>::StatusOr;
  Answer(StatusOr<T> from) : StatusOr<T>(std::move(from)) {}  // NOLINT: implicit by design
  T& value() & { return StatusOr<T>::value(); }
  const T& value() const& { return StatusOr<T>::value(); }
  T value() && { return std::move(*this).StatusOr<T>::value(); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T operator*() && { return std::move(*this).value(); }
  T* operator->() & { return &value(); }
  const T* operator->() const& { return &value(); }
  T* operator->() && = delete;
  const T* operator->() const&& = delete;
};

/// Asks every owner; one that does not answer within 100 ms is reported with what is known of it. Any thread
/// may call. Errors: kInvalidArgument (a bad setting), kInternal (the system refuses sockets).
HPU_API Answer<NodeStatus> query();
/// One device of it. Errors: kNotFound.
HPU_API Answer<DeviceStatus> query(int index);
/// Injects a fault into an owned device of any process of this user. Errors: kNotFound,
/// kFailedPrecondition (nobody owns it).
HPU_API Status inject(int index, Fault fault, int count = 1);

}  // namespace hpu::node
