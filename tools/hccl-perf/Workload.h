// SPDX-License-Identifier: Apache-2.0
// Workload: what one line of hccl-perf measures, in nccl-tests' terms.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hpu/collectives.h"
#include "hpu/status.h"
#include "hpu/target.h"
#include "hpu/types.h"

namespace hpu::tools {

enum class PerfOp : uint8_t {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kBroadcast,
  kReduce,
  kSendRecv,  ///< Every rank sends to the next one and receives from the one before.
};
const std::vector<std::string>& perfOpNames();
/// Errors: kInvalidArgument, naming all of them.
StatusOr<PerfOp> parsePerfOp(const std::string& name);

struct Workload {
  PerfOp op = PerfOp::kAllReduce;
  ElementType type = ElementType::kF32;
  collectives::ReduceOp redop = collectives::ReduceOp::kSum;
  int root = 0;
  int ranks = 1;
  /// As HCCL's call counts: of the whole buffer; of one rank's part for all-gather and
  /// reduce-scatter; of what goes to one peer for all-to-all.
  int64_t count = 0;

  bool reduces() const;
  bool rooted() const { return op == PerfOp::kBroadcast || op == PerfOp::kReduce; }
  /// All-to-all has none, nor has a ring of messages.
  bool hasInPlace() const { return op != PerfOp::kAllToAll && op != PerfOp::kSendRecv; }
  int64_t inputElements() const;
  int64_t outputElements() const;
  /// S of nccl-tests: of the largest buffer.
  int64_t bytes() const;
  /// busbw = algbw times this.
  double busFactor() const;
  /// The operation of the tuner; kPointToPoint for messages, which have no schedule.
  collectives::Operation operation() const;
};
/// `bytes` is S; rounded down to what all ranks can share. At least one element each unless `bytes`
/// is 0.
Workload workloadOf(PerfOp op, ElementType type, collectives::ReduceOp redop, int root, int ranks, int64_t bytes);

/// From the smallest to the largest size by a step (0: by a factor). Errors: kInvalidArgument, naming the option.
StatusOr<std::vector<int64_t>> sizesBetween(int64_t minBytes, int64_t maxBytes, int64_t stepBytes, double factor);

/// "float32", "f32", "float" ...; Errors: kInvalidArgument, naming all. fp8 is the target's.
StatusOr<ElementType> parseDataType(const std::string& name, Target target);
/// "float", "bfloat16", "int8" ... as nccl-tests prints them.
std::string dataTypeName(ElementType type);
StatusOr<collectives::ReduceOp> parseReduceOp(const std::string& name);
std::string reduceOpName(collectives::ReduceOp op);
std::vector<std::string> allDataTypeNames();
std::vector<std::string> allReduceOpNames();

}  // namespace hpu::tools
