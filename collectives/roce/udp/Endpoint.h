// SPDX-License-Identifier: Apache-2.0
// Endpoint: RoCE v2 over a UDP socket: many queue pairs of one local address, and the memory that their peers may
// reach. The one thing to know: nothing happens by itself. A progress loop calls progress() when descriptor() is
// readable (or writable, when wantsToWrite()) and when nextTime() has come; posting only queues. Connections without
// work cost nothing. Not thread-safe: its lock is the loop's.
//
//   auto endpoint = Endpoint::open({.local = address});
//   uint32_t number = endpoint->newNumber();                       // told to the peer, with the address and a first
//   PSN endpoint->connect({.number = number, .pathMtu = mtu, .firstPsn = psn}, peer, peerAddress);
//   endpoint->find(number)->post(Request{...});
//   while (...) { endpoint->wait(deadline); endpoint->progress(); ... endpoint->find(number)->poll() ... }
//
// What comes from the network touches nothing but through a queue pair that exists, from the address of its peer, with
// a right ICRC, in sequence, and through a key of memory() for an access that the key allows.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "collectives/roce/Icrc.h"
#include "collectives/roce/MemoryTable.h"
#include "collectives/roce/QueuePair.h"
#include "collectives/roce/udp/Capture.h"
#include "collectives/roce/udp/Faults.h"
#include "collectives/roce/udp/UdpSocket.h"

namespace hpu::roce {

struct EndpointOptions {
  Address local;  ///< Port 0: any that is free, for peers that are told of it; kUdpPort for all others.
  int bufferBytes = 4 << 20;
  bool offload = true;
  std::string capture;  ///< A pcap file of all that is sent and received; empty: none.
  FaultOptions faults;  ///< Of what arrives.
};

class Endpoint {
 public:
  /// Errors: those of UdpSocket::open and Capture::create.
  static StatusOr<std::unique_ptr<Endpoint>> open(const EndpointOptions& options);
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  const Address& local() const { return socket_.local(); }
  MemoryTable& memory() { return memory_; }
  /// The largest path MTU of RoCE (256 to 4096) whose packets fit the local interface.
  uint32_t largestMtu() const;
  /// Packets of that path MTU that the socket's buffer takes, for the sum of all peers' windows.
  uint32_t receiveWindow(uint32_t pathMtu) const;
  /// A number that no queue pair has, random, so that packets to one that is gone hit none. 0: there is none left.
  uint32_t newNumber();

  /// `memory`: what this peer may reach, until remove(); null: memory(). Errors: those of QueuePair::check;
  /// kInvalidArgument (the peer's address is of another family), kAlreadyExists.
  Status connect(const QueuePairOptions& options, const Peer& peer, const Address& address,
                 const MemoryTable* memory = nullptr);
  /// Null: there is none. Valid until remove().
  QueuePair* find(uint32_t number);
  /// What was posted is dropped without completions (close() it first to have them); answers that are not sent are
  /// lost.
  void remove(uint32_t number);

  /// Takes in what has come, up to so many batches, and sends what can be sent. True: something came, or was sent.
  bool progress(int batches = 8);
  /// Sends what was posted, as far as it can be sent now; takes nothing in.
  void send();
  /// A queue pair that has completions to poll(), each once until it has new ones; 0: none.
  uint32_t takeCompleted();
  bool hasCompleted() const { return !completed_.empty(); }
  /// When progress() has something to do though nothing comes.
  std::optional<TimeNs> nextTime() const;
  /// More is to be sent than the socket takes.
  bool wantsToWrite() const { return blocked_; }
  int descriptor() const { return socket_.descriptor(); }
  /// Sleeps until progress() has something to do, or `until` (of now()).
  void wait(TimeNs until) const;
  static TimeNs now();

  struct Counters {
    uint64_t sent = 0, received = 0;      ///< Datagrams.
    uint64_t badIcrc = 0, malformed = 0;  ///< Dropped; of these no queue pair heard.
    uint64_t noQueuePair = 0, wrongPeer = 0;
    uint64_t congestionSeen = 0, congestionTold = 0;  ///< Marked datagrams; notifications that were sent.
    uint64_t faults = 0;                              ///< Datagrams that the injected faults touched.
    /// Of all queue pairs that are or were connected; in total() only.
    struct Pairs {
      uint64_t again = 0, timeouts = 0, notReady = 0, sequenceErrors = 0, missingResponses = 0;  ///< As Requester's.
      uint64_t duplicates = 0, outOfOrder = 0;                                                   ///< As Responder's.
    } pairs;
    Counters& operator+=(const Counters& other);
  };
  const Counters& counters() const { return counters_; }
  /// The same with what the queue pairs have counted.
  Counters total() const;
  /// Why datagrams could not be sent, the last time; ok: they could.
  const Status& lastError() const { return socket_.lastError(); }
  /// The capture's file has all up to now. Without it, progress() writes there what is older than 0.1 s.
  void flushCapture();

 private:
  struct Connection {
    Connection(const QueuePairOptions& options, const Peer& peer, const Address& address, const MemoryTable& memory)
        : pair(options, peer, memory), address(address), number(options.number), peerNumber(peer.number) {}
    QueuePair pair;
    Address address;
    uint32_t number, peerNumber;
    RouteIcrc outIcrc, inIcrc;
    bool congested = false;                  // The peer is to be told.
    std::optional<TimeNs> congestionToldAt;  // At most once a period.
    bool working = false;                    // It is in work_.
    bool completed = false;                  // It is in completed_.
    std::optional<TimeNs> timer;             // In timers_; no later than when it has something to do.
  };

  Endpoint(UdpSocket socket, const EndpointOptions& options) : socket_(std::move(socket)), faults_(options.faults) {}
  void take(const Arrival& arrival, TimeNs now);
  void takeDatagram(const Address& from, std::span<uint8_t> datagram, bool congested, TimeNs now);
  void wake(Connection& connection);
  void advanceAll(TimeNs now);
  bool advance(Connection& connection, TimeNs now);
  void setTimer(Connection& connection);
  bool emit(Connection& connection, const Packet& packet);
  bool flush();
  void record(const Address& from, const Address& to, std::span<const uint8_t> datagram);

  UdpSocket socket_;
  MemoryTable memory_;
  std::unordered_map<uint32_t, std::unique_ptr<Connection>> connections_;
  // Those that something came for or was posted to, or that have more to send than was taken.
  std::vector<Connection*> work_, working_;
  std::set<std::pair<TimeNs, Connection*>> timers_;
  std::deque<uint32_t> completed_;
  std::unique_ptr<Capture> capture_;
  std::optional<TimeNs> captureDue_;  // The file lacks some.
  Faults faults_;
  bool faulty_ = false;  // Some are asked for.
  // Datagrams that were not sent yet: trains lie one behind another in the room.
  std::vector<uint8_t> room_;
  size_t used_ = 0;
  struct Waiting {
    Address to;
    size_t begin, bytes;
    uint32_t segmentBytes, segments;
    bool complete;
  };
  std::vector<Waiting> trains_;
  size_t nextTrain_ = 0;
  std::vector<Train> batch_;
  bool blocked_ = false;
  Counters counters_;
};

}  // namespace hpu::roce
