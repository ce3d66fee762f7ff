// SPDX-License-Identifier: Apache-2.0
#include "hpu/collectives.h"

#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "base/Format.h"
#include "base/Grown.h"
#include "base/Hash.h"
#include "base/StatusMacros.h"
#include "base/Thread.h"
#include "collectives/bootstrap/Address.h"
#include "collectives/bootstrap/Bootstrap.h"
#include "collectives/bootstrap/Wire.h"
#include "collectives/communicator/Call.h"
#include "collectives/communicator/Captured.h"
#include "collectives/communicator/CommunicatorState.h"
#include "collectives/communicator/Problems.h"

namespace hpu::collectives {
namespace {

/// A communicator that may be used: there is one, and it is this process's.
Status check(const std::shared_ptr<CommunicatorState>& state) {
  return state ? state->checkProcess() : failedPrecondition("an empty Communicator");
}

/// It stands in errors, so nothing of the id's secret is in it.
std::string identityOf(const UniqueId& id) {
  auto where = decodeId(id);
  if (!where.ok() || isZero(id)) where = environmentId();
  if (!where.ok()) return "?";  // Which the meeting finds, too.
  const uint64_t facts[] = {where->label, base::hash64(where->address.text())};
  return base::formatHex(base::hash64(facts, sizeof facts));
}

/// `interrupt`: also ends the wait for the others.
Creation creationOf(const UniqueId& id, int rank, int ranks,
                    std::shared_ptr<Interrupt> interrupt = std::make_shared<Interrupt>()) {
  Creation creation;
  creation.interrupt = interrupt;
  creation.rank = rank;
  creation.ranks = ranks;
  creation.identity = identityOf(id);
  creation.meet = [=](int64_t timeoutMs) {
    return Bootstrap::join(id, rank, ranks, {.timeoutMs = timeoutMs, .interrupt = interrupt});
  };
  creation.decline = [=](const Status& why) { Bootstrap::decline(id, rank, ranks, why).ignore(); };
  return creation;
}

StatusOr<base::Grown<CommunicatorOptions>> asKnown(const CommunicatorOptions& options, size_t bytes) {
  using O = CommunicatorOptions;
  return base::grown("CommunicatorOptions", options, bytes, &O::name, &O::initTimeoutMs, &O::timeoutMs, &O::deadlineMs,
                     &O::tunerTable, &O::blocking);
}

Communicator handleOf(std::shared_ptr<CommunicatorState> state) {
  return state ? Communicator(std::move(state)) : Communicator();
}

}  // namespace

Communicator::Communicator() = default;
Communicator::~Communicator() = default;
Communicator::Communicator(std::shared_ptr<CommunicatorState> state) : state_(std::move(state)) {}

StatusOr<Communicator> Communicator::create(const UniqueId& id, int rank, int ranks, const Device& device,
                                            const CommunicatorOptions& options, size_t optionsBytes) {
  const auto given = asKnown(options, optionsBytes);
  Status wrong = given.status();
  if (ranks < 1 || ranks > wire::kMaxRanks)
    wrong = invalidArgument(base::strCat(ranks, " ranks: a communicator has 1 to ", wire::kMaxRanks));
  else if (rank < 0 || rank >= ranks)
    wrong = invalidArgument(base::strCat("rank ", rank, " of ", ranks, ": ranks count from 0"));
  if (!wrong.ok()) {
    // The others would wait for it. Where nobody can be told, the call's own error says enough.
    Bootstrap::decline(id, rank, ranks, wrong).ignore();
    return wrong;
  }
  HPU_ASSIGN(auto state, CommunicatorState::create(creationOf(id, rank, ranks), device, **given));
  return Communicator(std::move(state));
}

StatusOr<std::vector<Communicator>> Communicator::createAll(const std::vector<Device>& devices,
                                                            const CommunicatorOptions& options, size_t optionsBytes) {
  HPU_ASSIGN(const base::Grown<CommunicatorOptions> given, asKnown(options, optionsBytes));
  if (devices.empty()) return invalidArgument("createAll needs at least one device");
  for (size_t rank = 0; rank < devices.size(); ++rank)
    if (!devices[rank].valid())
      return invalidArgument(base::strCat("createAll: the device of rank ", rank, " is empty"));
  // An id of its own, whatever the environment says: all ranks are here.
  HPU_ASSIGN(CoordinatorId where, Coordinator::instance()->open());
  UniqueId id = encodeId(where);
  int ranks = static_cast<int>(devices.size());
  std::vector<std::shared_ptr<CommunicatorState>> made(devices.size());
  auto interrupt = std::make_shared<Interrupt>();
  std::mutex mutex;  // Guards the failure.
  Status failure;
  std::vector<std::thread> threads;
  threads.reserve(devices.size());
  auto fail = [&](const Status& why) {
    {
      std::lock_guard lock(mutex);
      if (failure.ok()) failure = why;
    }
    // The others wait for this one.
    interrupt->raise(why);
  };
  for (int rank = 0; rank < ranks; ++rank) {
    auto create = [&, rank] {
      auto at = static_cast<size_t>(rank);
      auto one = CommunicatorState::create(creationOf(id, rank, ranks, interrupt), devices[at], *given);
      if (one.ok())
        made[at] = std::move(*one);
      else
        fail(one.status());
    };
    try {
      threads.push_back(base::startThread("hpu-create", create));
    } catch (const std::system_error&) {
      fail(resourceExhausted("createAll: cannot start a thread for each rank"));
      break;
    }
  }
  for (std::thread& thread : threads) thread.join();
  HPU_RETURN_IF_ERROR(failure);
  std::vector<Communicator> result;
  for (auto& one : made) result.push_back(Communicator(std::move(one)));
  return result;
}

Status Communicator::decline(const UniqueId& id, int rank, int ranks, const Status& why) {
  if (why.ok()) return invalidArgument("a rank declines with a reason; this one is ok");
  return Bootstrap::decline(id, rank, ranks, why);
}

int Communicator::rank() const {
  return state_ ? state_->rank() : -1;
}
int Communicator::ranks() const {
  return state_ ? state_->ranks() : 0;
}
const Device& Communicator::device() const {
  static const Device empty;
  return state_ ? state_->device() : empty;
}
Status Communicator::ready() const {
  HPU_RETURN_IF_ERROR(check(state_));
  return state_->ready();
}
bool Communicator::pending() const {
  return check(state_).ok() && state_->pending();
}
Status Communicator::asyncError() const {
  HPU_RETURN_IF_ERROR(check(state_));
  return state_->asyncError();
}

// ---- Operations ---------------------------------------------------------------------------------

namespace {
Status collective(const std::shared_ptr<CommunicatorState>& state, const CollectiveArguments& arguments,
                  const Stream& stream) {
  if (state) HPU_RETURN_IF_ERROR(state->checkProcess());  // An empty one is an error of its group.
  if (state && !inGroup() && enqueueRepeated(state, arguments, stream)) return okStatus();
  StatusOr<Call> call = makeCollective(state, arguments, stream);
  if (!call.ok()) failCapture(stream, call.status());
  return enqueueOrKeep(std::move(call));
}
Status transfers(const std::shared_ptr<CommunicatorState>& state, std::string_view name, std::vector<Transfer> list,
                 const Stream& stream) {
  if (state) HPU_RETURN_IF_ERROR(state->checkProcess());
  StatusOr<Call> call = makeTransfers(state, name, std::move(list), stream);
  if (!call.ok()) failCapture(stream, call.status());
  return enqueueOrKeep(std::move(call));
}
}  // namespace

Status Communicator::allReduce(uint64_t input, uint64_t output, int64_t count, ElementType type, ReduceOp op,
                               const Stream& stream) {
  return collective(state_, {Operation::kAllReduce, input, output, count, type, op}, stream);
}
Status Communicator::reduceScatter(uint64_t input, uint64_t output, int64_t outputCount, ElementType type, ReduceOp op,
                                   const Stream& stream) {
  return collective(state_, {Operation::kReduceScatter, input, output, outputCount, type, op}, stream);
}
Status Communicator::reduce(uint64_t input, uint64_t output, int64_t count, ElementType type, ReduceOp op, int root,
                            const Stream& stream) {
  return collective(state_, {Operation::kReduce, input, output, count, type, op, 1, root}, stream);
}
Status Communicator::allGather(uint64_t input, uint64_t output, int64_t inputCount, ElementType type,
                               const Stream& stream) {
  return collective(state_, {Operation::kAllGather, input, output, inputCount, type}, stream);
}
Status Communicator::allToAll(uint64_t input, uint64_t output, int64_t count, ElementType type, const Stream& stream) {
  return collective(state_, {Operation::kAllToAll, input, output, count, type}, stream);
}
Status Communicator::broadcast(uint64_t input, uint64_t output, int64_t count, ElementType type, int root,
                               const Stream& stream) {
  return collective(state_, {Operation::kBroadcast, input, output, count, type, ReduceOp::kSum, 1, root}, stream);
}
Status Communicator::gather(uint64_t input, uint64_t output, int64_t inputCount, ElementType type, int root,
                            const Stream& stream) {
  return collective(state_, {Operation::kGather, input, output, inputCount, type, ReduceOp::kSum, 1, root}, stream);
}
Status Communicator::scatter(uint64_t input, uint64_t output, int64_t outputCount, ElementType type, int root,
                             const Stream& stream) {
  return collective(state_, {Operation::kScatter, input, output, outputCount, type, ReduceOp::kSum, 1, root}, stream);
}
Status Communicator::barrier(const Stream& stream) {
  return collective(state_, {Operation::kBarrier}, stream);
}
Status Communicator::relay(uint64_t input, uint64_t output, int64_t count, ElementType type, int from, int to,
                           const Stream& stream) {
  return collective(state_, {Operation::kPointToPoint, input, output, count, type, ReduceOp::kSum, 1, from, to},
                    stream);
}
Status Communicator::send(uint64_t input, int64_t count, ElementType type, int peer, const Stream& stream) {
  return transfers(state_, "send", {{true, peer, input, count, type}}, stream);
}
Status Communicator::receive(uint64_t output, int64_t count, ElementType type, int peer, const Stream& stream) {
  return transfers(state_, "receive", {{false, peer, output, count, type}}, stream);
}

Status Communicator::allToAllV(uint64_t input, const std::vector<int64_t>& inputCounts,
                               const std::vector<int64_t>& inputDisplacements, uint64_t output,
                               const std::vector<int64_t>& outputCounts,
                               const std::vector<int64_t>& outputDisplacements, ElementType type,
                               const Stream& stream) {
  HPU_RETURN_IF_ERROR(check(state_));
  auto all = static_cast<size_t>(state_->ranks());
  auto wrong = [&](const std::string& what) {
    Status why = invalidArgument(base::strCat("all-to-all-v of ", state_->title(), ": ", what));
    failCapture(stream, why);
    return enqueueOrKeep(std::move(why));
  };
  if (inputCounts.size() != all || inputDisplacements.size() != all || outputCounts.size() != all ||
      outputDisplacements.size() != all)
    return wrong(base::strCat("counts and displacements are lists of ", all, " numbers"));
  std::vector<Transfer> list;
  int64_t size = elementSize(type);
  constexpr int64_t kMost = int64_t{1} << 52;
  for (size_t peer = 0; peer < all; ++peer) {
    if (inputDisplacements[peer] < 0 || outputDisplacements[peer] < 0 || inputDisplacements[peer] > kMost ||
        outputDisplacements[peer] > kMost)
      return wrong(base::strCat("a displacement for rank ", peer, " is out of range"));
    // Empty ones too: the other side may think otherwise, and is told.
    list.push_back({true, static_cast<int>(peer), input + static_cast<uint64_t>(inputDisplacements[peer] * size),
                    inputCounts[peer], type});
    list.push_back({false, static_cast<int>(peer), output + static_cast<uint64_t>(outputDisplacements[peer] * size),
                    outputCounts[peer], type});
  }
  return transfers(state_, "all-to-all-v", std::move(list), stream);
}

Status Communicator::allReduceScaled(uint64_t input, uint64_t output, int64_t count, ElementType type, ReduceOp op,
                                     double scale, const Stream& stream) {
  return collective(state_, {Operation::kAllReduce, input, output, count, type, op, scale}, stream);
}
Status Communicator::reduceScatterScaled(uint64_t input, uint64_t output, int64_t outputCount, ElementType type,
                                         ReduceOp op, double scale, const Stream& stream) {
  return collective(state_, {Operation::kReduceScatter, input, output, outputCount, type, op, scale}, stream);
}

StatusOr<Prediction> Communicator::predict(Operation operation, int64_t count, ElementType type) const {
  HPU_RETURN_IF_ERROR(check(state_));
  if (static_cast<unsigned>(operation) > static_cast<unsigned>(Operation::kPointToPoint))
    return invalidArgument(base::strCat(static_cast<int>(operation), " is not an operation"));
  Problem problem = problemOf(operation, state_->ranks(), count, type, 0, state_->ranks() - 1);
  Status wrong = checkProblem(problem, count, type);
  if (!wrong.ok()) return wrong.withContext(collectiveName(problem.collective));
  HPU_ASSIGN(auto choice, state_->tuner().choose(problem));
  Prediction prediction;
  prediction.algorithm = choice->schedule->algorithm;
  prediction.reason = choice->reason;
  prediction.slices = choice->schedule->slices;
  prediction.predictedNs = (choice->timer->predictPs() + 999) / 1000;
  prediction.lowerBoundNs = (choice->lowerBoundPs + 999) / 1000;
  return prediction;
}

// ---- Life ---------------------------------------------------------------------------------------

StatusOr<Communicator> Communicator::split(int color, int key, const CommunicatorOptions& options,
                                           size_t optionsBytes) const {
  HPU_RETURN_IF_ERROR(check(state_));
  HPU_ASSIGN(const base::Grown<CommunicatorOptions> given, asKnown(options, optionsBytes));
  HPU_ASSIGN(auto state, state_->split(color, key, *given));
  return handleOf(std::move(state));
}
StatusOr<Communicator> Communicator::shrink(const std::vector<int>& excluded, const CommunicatorOptions& options,
                                            size_t optionsBytes) const {
  HPU_RETURN_IF_ERROR(check(state_));
  HPU_ASSIGN(const base::Grown<CommunicatorOptions> given, asKnown(options, optionsBytes));
  HPU_ASSIGN(auto state, state_->shrink(excluded, *given));
  return handleOf(std::move(state));
}
Status Communicator::finalize(int64_t deadlineMs) {
  HPU_RETURN_IF_ERROR(check(state_));
  return state_->finalize(deadlineMs);
}
Status Communicator::abort(const std::string& why) {
  HPU_RETURN_IF_ERROR(check(state_));
  return state_->abort(why);
}

}  // namespace hpu::collectives
