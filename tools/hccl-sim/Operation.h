// SPDX-License-Identifier: Apache-2.0
// Operation: what hccl-sim prices, in nccl-tests' terms: the collectives, messages around a ring, and an incast.
// The one thing to know: sizes are rounded down to what all ranks can share, as in hccl-perf; a Work says what was
// asked for and what is priced.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "collectives/fabric/Fabric.h"
#include "collectives/scaleout/Program.h"
#include "hpu/status.h"
#include "hpu/types.h"

namespace hpu::tools {

enum class SimOp : uint8_t {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kBroadcast,
  kReduce,
  kGather,
  kScatter,
  kBarrier,
  kSendRecv,  ///< Every rank sends to the one `shift` behind it and receives from the one before.
  kIncast,    ///< Several ranks of other nodes send to one.
};
const std::vector<std::string>& simOpNames();
/// Errors: kInvalidArgument, naming all of them.
StatusOr<SimOp> parseSimOp(const std::string& name);

struct Work {
  SimOp op = SimOp::kAllReduce;
  ElementType type = ElementType::kF32;
  collectives::Problem problem;
  int64_t askedBytes = 0;
  int32_t shift = 1;             ///< Of kSendRecv.
  std::vector<int32_t> senders;  ///< Of kIncast; the receiver is the problem's destination.

  /// Plans of messages are this tool's; those of collectives are chosen.
  bool isMessages() const { return op == SimOp::kSendRecv || op == SimOp::kIncast; }
  bool rooted() const;
  /// S of nccl-tests; of messages: of one of them.
  int64_t bytes() const;
  /// busbw = algbw times this: nccl-tests' factors; of an incast the senders, so that busbw is what the receiver gets.
  double busFactor() const;
};

/// What is asked for besides the size.
struct WorkOptions {
  SimOp op = SimOp::kAllReduce;
  ElementType type = ElementType::kF32;
  int64_t root = 0, shift = 1, senders = 8;
};
/// Errors: kInvalidArgument (a root that is no rank; senders that are not there; more bytes than a device holds).
StatusOr<Work> workOf(const WorkOptions& options, const collectives::RankMap& map, int64_t bytes);

/// The plan of messages. The map must outlive it.
std::unique_ptr<collectives::Plan> messagePlan(const Work& work, const collectives::RankMap& map);
/// The least time that links and rails allow a plan's messages: bytes over the rate of the busiest, without headers and
/// latency.
int64_t messagesBoundPs(const collectives::Plan& plan, const collectives::Fabric& fabric);

}  // namespace hpu::tools
