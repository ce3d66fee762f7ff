// SPDX-License-Identifier: Apache-2.0
// Congestion: flows that meet at switch ports, packet by packet in virtual time: queues that mark (ECN), receivers that
// notify, senders that slow down and recover (DCQCN), ports that pause what feeds them (PFC), and fixed windows.
// The one thing to know: times are integer picoseconds and the marks come from a seed, so the same problem has the same
// result in every run; the result is one of our model.
//
//     Fabric fabric = standardFabric(Target::kGaudi3, 9);
//     auto problem = incast(fabric, 8, 64 << 20);
//     auto result = simulateCongestion(*problem, congestionOptions(fabric));  // result->flows[0].goodputBytesPerNs
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "collectives/fabric/RankMap.h"
#include "collectives/topology/ModelConstant.h"
#include "hpu/status.h"

namespace hpu::collectives {

/// The queue of a switch in front of one of its links.
struct CongestionPort {
  std::string name;       ///< For errors and people.
  double bytesPerNs = 0;  ///< On the wire.
};

struct CongestionFlow {
  int64_t startPs = 0;
  int64_t bytes = 0;          ///< Payload.
  double lineBytesPerNs = 0;  ///< Of its sender's link, on the wire.
  std::vector<int32_t> path;  ///< Ports in order, each once; at least one.
  int32_t source = -1;        ///< Flows of one source take turns on its link; -1: a link of its own.
};

/// Sizes in bytes on the wire unless they say payload. congestionConstants has intervals and sources of the defaults.
struct CongestionOptions {
  bool control = true;        ///< ECN and DCQCN.
  bool pause = true;          ///< PFC; without it a full queue drops.
  int32_t windowPackets = 0;  ///< Of a flow, sent and not acknowledged; 0: any number.

  int64_t payloadBytes = 8192, overheadBytes = 168;  ///< Of a full packet.
  int64_t hopPs = 600'000;                           ///< Each link with its switch, both ways.

  int64_t kminBytes = 150'000, kmaxBytes = 1'500'000;  ///< Queues that mark the first and every packet ...
  double pmax = 0.01;                                  ///< ... and the probability just below kmax.
  int64_t cnpIntervalPs = 50'000'000;                  ///< A receiver notifies a flow's sender no more often.
  double g = 1.0 / 256;                                ///< Weight of the newest in alpha.
  int64_t alphaTimerPs = 55'000'000;                   ///< Alpha falls when so long no notification came.
  int64_t rateTimerPs = 55'000'000;                    ///< The rate rises so often ...
  int64_t byteCounter = 10'000'000;                    ///< ... and whenever so much was sent.
  int32_t fastRecovery = 5;                            ///< So many rises towards the rate before the cut.
  double additiveShare = 1e-3, hyperShare = 1e-2;      ///< Of the line's rate: what the target then rises by.
  double leastShare = 1e-3;                            ///< Of the line's rate: no sender is slower.

  int64_t xoffBytes = 3'000'000, xonBytes = 2'500'000;  ///< Queues that pause what feeds them, and let it go on.
  int64_t queueBytes = 12'000'000;                      ///< What arrives beyond is dropped, and sent again.

  uint64_t seed = 1;
  int64_t sampleEveryPs = 0;  ///< Fills `samples`; 0: none.
};

struct CongestionResult {
  struct Flow {
    int64_t finishPs = 0;          ///< The last payload is there.
    double goodputBytesPerNs = 0;  ///< Payload over the time from its start.
    int64_t notifications = 0;     ///< CNPs that its receiver sent.
    int64_t resent = 0;            ///< Packets.
    double leastRate = 0;          ///< Bytes a nanosecond that its sender went down to.
    std::vector<int64_t> samples;  ///< Payload that came in each interval, from time 0.
  };
  struct Port {
    int64_t mostQueuedBytes = 0, wireBytes = 0, busyPs = 0;
    int64_t packets = 0, marks = 0, drops = 0;
    int64_t pauses = 0, pausedPs = 0;  ///< What feeds this port was told to pause, and how long in all.
    std::vector<int64_t> samples;      ///< Bytes on the wire that ended in each interval.
  };
  std::vector<Flow> flows;
  std::vector<Port> ports;
  double fairness = 1;  ///< Jain's index of the flows' goodputs: 1 when equal, 1/n when one has all.
  int64_t events = 0;
};

struct CongestionProblem {
  std::vector<CongestionPort> ports;
  std::vector<CongestionFlow> flows;
};

/// Errors: kInvalidArgument (naming the flow, port or option; more than 2^26 packets, or 100 of each dropped; pauses
/// that wait for each other in a circle, which paths with a cycle allow). Cost: about 4 events a packet and port.
StatusOr<CongestionResult> simulateCongestion(const CongestionProblem& problem, const CongestionOptions& options = {});

/// The options' numbers, each with its interval and source.
std::vector<ModelConstant> congestionConstants(const CongestionOptions& options = {});

/// A message between devices of different nodes.
struct FabricFlow {
  Place from, to;
  int64_t bytes = 0, startPs = 0;
};
/// Sources are rails; ports are the leaves' uplinks and downlinks, where there are any, and the rails into nodes.
/// Errors: kInvalidArgument (a place that the fabric does not have, two devices of one node, a node without a rail that
/// is up).
StatusOr<CongestionProblem> fabricFlows(const Fabric& fabric, std::span<const FabricFlow> flows);
/// Packets and latencies of the fabric's rails, and what HCL has by default: a window of 24 packets (Gaudi 3: 32),
/// pauses, no control by notifications. The rest as in CongestionOptions.
CongestionOptions congestionOptions(const Fabric& fabric);
/// Device 0 of nodes 1 to `senders` each send so much payload to device 0 of node 0. Errors: of fabricFlows.
StatusOr<CongestionProblem> incast(const Fabric& fabric, int32_t senders, int64_t bytes);

}  // namespace hpu::collectives
