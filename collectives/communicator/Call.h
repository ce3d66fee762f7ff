// SPDX-License-Identifier: Apache-2.0
// Call: one call of the API, checked and ready to be enqueued, now or at the end of its group.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/communicator/CommunicatorState.h"
#include "collectives/communicator/Order.h"
#include "collectives/communicator/Problems.h"
#include "collectives/executor/Executor.h"
#include "collectives/schedule/Schedule.h"
#include "hpu/stream.h"

namespace hpu::collectives {

struct Call {
  std::shared_ptr<CommunicatorState> state;
  Stream stream;
  std::array<Buffer, 2> operands;  ///< Of a collective; their memory is kept until it is done, as that of `buffers`.
  std::array<Access, 2> operandAccesses;
  std::vector<Buffer> buffers;  ///< Of transfers.
  std::vector<Access> accesses;
  ElementType type = ElementType::kF32;
  CollectiveArguments arguments;  ///< Of a collective.

  std::vector<Transfer> transfers;  ///< Sends and receives; none: a collective.
  Problem problem;
  ReduceOp op = ReduceOp::kSum;
  double scale = 1;
  uint64_t input = 0, output = 0;
  bool isTransfer = false;
};

/// Errors: kInvalidArgument, kFailedPrecondition, the communicator's failure.
StatusOr<Call> makeCollective(const std::shared_ptr<CommunicatorState>& state, const CollectiveArguments& arguments,
                              const Stream& stream);
/// Sends and receives that wait for nothing but their peers. `name` is the call's, for errors.
StatusOr<Call> makeTransfers(const std::shared_ptr<CommunicatorState>& state, std::string_view name,
                             std::vector<Transfer> transfers, const Stream& stream);

/// A failure of a call, with the call's name and its communicator, each once.
Status inCall(std::string_view name, const CommunicatorState& state, const Status& status);

/// "all-reduce", "send to 3".
std::string nameOf(const Call& call);

/// What goes to one stream in one place.
struct PlacedCall {
  Call call;
  bool beside = false;  ///< It goes on together with the one before it.
};
/// Collectives as they came, then the transfers, communicator by communicator, those of one stream
/// as one call: ranks list the transfers of a group in different places, and all must enqueue them
/// in the same one.
std::vector<PlacedCall> merged(std::vector<Call> calls);

/// Enqueues calls together, or none of them, or, when their streams are captured, records them. Transfers of one
/// communicator and stream become one operation.
Status enqueueCalls(std::vector<Call> calls);
Status enqueueCall(Call&& call);
/// Enqueues what a replay makes again.
Status enqueuePlaced(PlacedCall&& placed);

/// Adds a collective to the one before it when that was called with the same arguments, which are still right: cheap.
/// Nothing has happened when it says false. Not in a group.
bool enqueueRepeated(const std::shared_ptr<CommunicatorState>& state, const CollectiveArguments& arguments,
                     const Stream& stream);
/// Whether the calling thread keeps calls for the end of a group.
bool inGroup();

/// Enqueues, or keeps for the end of the calling thread's group.
Status enqueueOrKeep(StatusOr<Call> call);

}  // namespace hpu::collectives
