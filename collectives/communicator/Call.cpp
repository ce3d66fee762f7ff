// SPDX-License-Identifier: Apache-2.0
#include "collectives/communicator/Call.h"

#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "base/Format.h"
#include "base/PerThread.h"
#include "base/StatusMacros.h"
#include "collectives/communicator/Captured.h"
#include "collectives/communicator/Overlaps.h"
#include "collectives/communicator/Problems.h"

namespace hpu::collectives {
namespace {

bool isFloat(ElementType type) {
  switch (type) {
    case ElementType::kF32:
    case ElementType::kF16:
    case ElementType::kBF16:
    case ElementType::kF8E4M3:
    case ElementType::kF8E5M2:
    case ElementType::kF8E4M3Ieee:
    case ElementType::kF64:
      return true;
    default:
      return false;
  }
}

Status checkStream(const CommunicatorState& state, const Stream& stream) {
  if (!stream.state()) return invalidArgument("the stream is empty");
  if (stream.device().state() != state.device().state())
    return invalidArgument("the stream is of another device than the communicator " + state.title());
  return okStatus();
}

/// The allocation of [address, address + bytes), which the call uses; it must lie in one live one.
StatusOr<Buffer> bufferOf(const Call& call, const char* what, uint64_t address, int64_t bytes) {
  auto buffer = call.state->device().find(address);
  if (!buffer.ok()) return invalidArgument(base::strCat("its ", what, ": ", buffer.status().message()));
  uint64_t end = buffer->address() + static_cast<uint64_t>(buffer->size());
  if (static_cast<uint64_t>(bytes) > end - address)
    return invalidArgument(base::strCat("its ", what, " of ", bytes, " bytes at ", base::formatHex(address), " ends ",
                                        static_cast<uint64_t>(bytes) - (end - address),
                                        " bytes behind its allocation at ", base::formatHex(buffer->address()), " of ",
                                        buffer->size(), " bytes"));
  return buffer;
}

Status useOperand(Call& call, size_t which, uint64_t address, int64_t bytes) {
  if (bytes == 0) return okStatus();
  HPU_ASSIGN(call.operands[which], bufferOf(call, which == 0 ? "input" : "output", address, bytes));
  call.operandAccesses[which] = {address, address + static_cast<uint64_t>(bytes), which == 1};
  return okStatus();
}

Status checkOverlap(const Call& call, int rank, int64_t inputBytes, int64_t outputBytes) {
  if (inputBytes == 0 || outputBytes == 0) return okStatus();
  uint64_t inputEnd = call.input + static_cast<uint64_t>(inputBytes);
  uint64_t outputEnd = call.output + static_cast<uint64_t>(outputBytes);
  if (inputEnd <= call.output || outputEnd <= call.input) return okStatus();
  std::optional<int64_t> offset = inPlaceOffset(call.problem, rank);
  if (!offset) return invalidArgument("its input and output overlap, and it has no form in place here");
  // Element i of the input is element i + offset of the output.
  int64_t wanted = *offset * call.problem.elementBytes;
  if (call.output + static_cast<uint64_t>(wanted) != call.input)
    return invalidArgument(base::strCat("its input at ", base::formatHex(call.input), " and output at ",
                                        base::formatHex(call.output), " overlap, but in place the input is ", wanted,
                                        " bytes from the output"));
  return okStatus();
}

Status fillCollective(Call& call, const CollectiveArguments& arguments) {
  const CommunicatorState& state = *call.state;
  HPU_RETURN_IF_ERROR(state.usable());
  HPU_RETURN_IF_ERROR(checkStream(state, call.stream));
  HPU_RETURN_IF_ERROR(checkProblem(call.problem, arguments.count, arguments.type));
  if (isReducing(call.problem.collective)) {
    if (static_cast<unsigned>(arguments.op) > static_cast<unsigned>(ReduceOp::kAverage))
      return invalidArgument(base::strCat(static_cast<int>(arguments.op), " is not a reduction"));
    bool scaled = arguments.scale != 1;
    if (scaled && !(std::isfinite(arguments.scale) && isFloat(arguments.type)))
      return invalidArgument(base::strCat("a scale of ", arguments.scale, " for elements of type ",
                                          elementTypeName(arguments.type),
                                          ": only floating-point ones are scaled, by a finite one"));
    if (scaled && arguments.op != ReduceOp::kSum && arguments.op != ReduceOp::kAverage)
      return invalidArgument("only sums and averages are scaled");
  }
  int64_t inputBytes = inputElements(call.problem, state.rank()) * int64_t{call.problem.elementBytes};
  int64_t outputBytes = outputElements(call.problem, state.rank()) * int64_t{call.problem.elementBytes};
  HPU_RETURN_IF_ERROR(useOperand(call, 0, call.input, inputBytes));
  HPU_RETURN_IF_ERROR(useOperand(call, 1, call.output, outputBytes));
  return checkOverlap(call, state.rank(), inputBytes, outputBytes);
}

Status fillTransfers(Call& call) {
  const CommunicatorState& state = *call.state;
  HPU_RETURN_IF_ERROR(state.usable());
  HPU_RETURN_IF_ERROR(checkStream(state, call.stream));
  for (const Transfer& transfer : call.transfers) {
    int64_t size = elementSize(transfer.type);
    if (size == 0) return invalidArgument(base::strCat(static_cast<int>(transfer.type), " is not an element type"));
    if (transfer.count < 0 || transfer.count > (int64_t{1} << 56) / size)
      return invalidArgument(base::strCat("a count of ", transfer.count));
    if (transfer.peer < 0 || transfer.peer >= state.ranks())
      return invalidArgument(base::strCat("the peer ", transfer.peer, " is not a rank of ", state.ranks()));
    const int64_t bytes = transfer.count * size;
    if (bytes == 0) continue;
    HPU_ASSIGN(Buffer buffer,
               bufferOf(call, transfer.send ? "data to send" : "memory to receive into", transfer.address, bytes));
    call.accesses.push_back({transfer.address, transfer.address + static_cast<uint64_t>(bytes), !transfer.send});
    call.buffers.push_back(std::move(buffer));
  }
  return checkOverlaps(call.transfers, state.rank());
}

}  // namespace

Status inCall(std::string_view name, const CommunicatorState& state, const Status& status) {
  if (status.message().find(state.title()) != std::string::npos) return status.withContext(name);
  return status.withContext(base::strCat(name, " of ", state.title()));
}

StatusOr<Call> makeCollective(const std::shared_ptr<CommunicatorState>& state, const CollectiveArguments& arguments,
                              const Stream& stream) {
  if (!state) return failedPrecondition("an empty Communicator");
  Call call;
  call.state = state;
  call.stream = stream;
  call.type = arguments.type;
  call.problem = problemOf(arguments.operation, state->ranks(), arguments.count, arguments.type, arguments.root,
                           arguments.destination);
  call.op = arguments.op;
  call.scale = arguments.scale;
  call.arguments = arguments;
  call.input = arguments.input;
  call.output = arguments.output;
  Status status = fillCollective(call, arguments);
  if (!status.ok()) return inCall(collectiveName(call.problem.collective), *state, status);
  return call;
}

StatusOr<Call> makeTransfers(const std::shared_ptr<CommunicatorState>& state, std::string_view name,
                             std::vector<Transfer> transfers, const Stream& stream) {
  if (!state) return failedPrecondition("an empty Communicator");
  Call call;
  call.state = state;
  call.stream = stream;
  call.transfers = std::move(transfers);
  call.isTransfer = true;
  if (!call.transfers.empty()) call.type = call.transfers.front().type;
  Status status = fillTransfers(call);
  if (!status.ok()) return inCall(name, *state, status);
  return call;
}

// ---- Groups -------------------------------------------------------------------------------------

namespace {

struct Group {
  int depth = 0;
  std::vector<Call> calls;
  Status error;  ///< Of the first call that was wrong.
};
Group& threadGroup() {
  return base::perThread<Group>();  // Statics' destructors have groups, too.
}

/// The transfers of one communicator go on together, whatever their streams.
Status checkTransfers(const std::vector<Call>& calls) {
  std::map<const CommunicatorState*, std::vector<Transfer>> transfers;
  for (const Call& call : calls)
    transfers[call.state.get()].insert(transfers[call.state.get()].end(), call.transfers.begin(), call.transfers.end());
  for (const auto& [state, list] : transfers) {
    Status status = checkOverlaps(list, state->rank());
    if (!status.ok()) return inCall("sends and receives", *state, status);
  }
  return okStatus();
}

}  // namespace

Status enqueueOrKeep(StatusOr<Call> call) {
  Group& group = threadGroup();
  if (group.depth == 0) {
    return call.ok() ? enqueueCall(std::move(*call)) : call.status();
  }
  if (!call.ok()) {
    groupFail(call.status());
    return call.status();
  }
  group.calls.push_back(std::move(*call));
  return okStatus();
}

bool inGroup() {
  return threadGroup().depth > 0;
}

Status groupStart() {
  ++threadGroup().depth;
  return okStatus();
}

bool groupFail(const Status& why) {
  Group& group = threadGroup();
  if (group.depth == 0) return false;
  if (group.error.ok()) group.error = why;
  return true;
}

Status groupEnd() {
  Group& group = threadGroup();
  if (group.depth == 0) return failedPrecondition("groupEnd without a groupStart of the same thread");
  if (--group.depth > 0) return okStatus();
  std::vector<Call> calls = std::exchange(group.calls, {});
  Status error = std::exchange(group.error, okStatus());
  if (error.ok()) error = checkTransfers(calls);
  if (!error.ok()) {
    for (const Call& call : calls) failCapture(call.stream, error);
    return error.withContext("nothing of the group was enqueued");
  }
  return enqueueCalls(std::move(calls));
}

}  // namespace hpu::collectives
