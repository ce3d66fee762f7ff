// SPDX-License-Identifier: Apache-2.0
#include "runtime/capture/ReplayState.h"

#include <algorithm>
#include <map>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "base/Format.h"
#include "base/PerThread.h"
#include "base/ProcessOwned.h"
#include "base/StatusMacros.h"
#include "runtime/driver/WorkCalls.h"
#include "runtime/executable/ExecutableState.h"
#include "runtime/memory/BufferState.h"
#include "runtime/stream/StreamState.h"

namespace hpu {
namespace {

bool within(uint64_t a, int64_t aBytes, uint64_t outer, int64_t outerBytes) {
  return a >= outer && aBytes <= outerBytes && a - outer <= static_cast<uint64_t>(outerBytes - aBytes);
}

uint64_t number(const void* pointer) {
  return static_cast<uint64_t>(reinterpret_cast<uintptr_t>(pointer));
}

/// The calling thread is in a replay: what repeatable work calls must not be another one, which could wait for it.
struct InReplay {
  bool now = false;
};
bool& inReplay() {
  return base::perThread<InReplay>().now;
}

Status refuseInReplay(std::string_view call) {
  if (!inReplay()) return okStatus();
  return failedPrecondition(base::strCat(call,
                                         " was called by repeatable work while it is enqueued by a replay; work "
                                         "of a graph must not replay or change graphs"));
}

}  // namespace

ReplayState::ReplayState(const CapturedWork& work)
    : device_(work.device), ordered_(work.ordered), repeats_(work.repeats) {}

ReplayState::~ReplayState() {
  if (plan_) retire(std::move(plan_));
  for (driver::QueueId queue : queues_)
    if (queue != 0) device_->driver()->destroyQueue(queue);
}

/// Batches keep their plan themselves. Repeatable work is given addresses only, and may not know whose they are.
void ReplayState::retire(std::shared_ptr<const Plan> plan) {
  if (!repeats_ || !last_ || last_->done()) return;
  device_->memory().workBegins();
  // Not the device: it owns the driver, which calls.
  std::weak_ptr<DeviceState> device = device_;
  device_->driver()->whenDone(last_->ticket(), [plan = std::move(plan), device]() mutable {
    plan.reset();
    if (auto alive = device.lock()) alive->memory().workEnded();
  });
}

Status ReplayState::makeStreams(const CapturedWork& work) {
  for (size_t b = 0; b < work.branches.size(); ++b) {
    const CapturedWork::Branch& branch = work.branches[b];
    std::string name = base::strCat("graph branch ", b);
    if (!branch.name.empty()) name += base::strCat(" (", branch.name, ")");
    driver::QueueId queue = 0;
    Stream stream;
    if (b > 0 && repeats_) {
      StreamOptions options;
      options.name = std::move(name);
      options.priority = branch.priority;
      HPU_ASSIGN(stream, Stream::create(Device(device_), options));
    } else if (b > 0) {
      HPU_ASSIGN(queue, device_->driver()->createQueue(name));
    }
    queues_.push_back(queue);
    streams_.push_back(std::move(stream));
  }
  return okStatus();
}

/// With repeatable work a batch is what follows each other on one branch: all failures are those of the branch's
/// stream then, so that nothing of the branch runs behind one, as without the capture.
void ReplayState::makeSteps(const CapturedWork& work, Plan& plan) {
  const auto& operations = work.operations;
  std::map<std::pair<uint32_t, uint32_t>, size_t> points;  // Of operations and their signals.
  if (repeats_)
    for (const auto& operation : operations)
      if (operation.waitOperation != driver::BatchItem::kNone)
        points.emplace(std::pair(operation.waitOperation, operation.waitSignal), points.size());
  points_ = points.size();
  for (uint32_t i = 0; i < operations.size(); ++i) {
    const CapturedWork::Operation& operation = operations[i];
    using Kind = Step::Kind;
    Kind kind = Kind::kBatch;
    if (repeats_ && operation.repeatable) kind = Kind::kWork;
    if (repeats_ && operation.waitOperation != driver::BatchItem::kNone) kind = Kind::kWait;
    const bool joins = kind == Kind::kBatch && !steps_.empty() && steps_.back().kind == kind &&
                       (!repeats_ || steps_.back().branch == operation.branch);
    if (!joins) {
      Step& step = steps_.emplace_back();
      step.kind = kind;
      step.branch = operation.branch;
      step.operation = i;
      if (kind == Kind::kWait) step.point = points.at({operation.waitOperation, operation.waitSignal});
      plan.steps.emplace_back();
    }
    Step& step = steps_.back();
    driver::BatchItem& item = plan.steps.back().emplace_back();
    item.queue = queues_[operation.branch];
    item.priority = work.branches[operation.branch].priority;
    item.work = operation.work;
    item.label = operation.label;
    if (!repeats_) {
      item.waitItem = operation.waitOperation;
      item.waitSignal = operation.waitSignal;
    }
    const size_t at = plan.steps.back().size() - 1;
    for (auto point = points.lower_bound({i, 0}); point != points.end() && point->first.first == i; ++point) {
      step.given.push_back({at, point->first.second, point->second});
      item.kept = true;
    }
    // One that is kept for the sake of its signals is to be forgotten, too.
    if (item.kept && !points.contains({i, driver::BatchItem::kNone}))
      step.given.push_back({at, driver::BatchItem::kNone, points_++});
    if (operation.executable && !std::count(step.ordered.begin(), step.ordered.end(), operation.executable) &&
        std::binary_search(ordered_.begin(), ordered_.end(), operation.executable))
      step.ordered.push_back(operation.executable);
    places_.push_back({plan.steps.size() - 1, at});
    executables_.push_back(operation.executable);
    instances_.push_back(operation.instance);
    repeatable_.push_back(operation.repeatable);
    calls_.push_back(operation.calls);
    plan.owners.push_back(operation.owners);
    plan.memory.push_back(operation.memory);
  }
  for (Step& step : steps_) std::sort(step.ordered.begin(), step.ordered.end());
  for (auto& items : plan.steps) items.back().kept = true;
}

StatusOr<std::shared_ptr<ReplayState>> ReplayState::create(const CapturedWork& work) {
  auto state = base::makeProcessOwned<ReplayState>(work);
  HPU_RETURN_IF_ERROR(state->makeStreams(work));
  auto plan = std::make_shared<Plan>();
  state->makeSteps(work, *plan);
  state->plan_ = std::move(plan);
  return state;
}

Status ReplayState::replay(const Stream& stream) {
  StreamState& state = *stream.state();
  if (state.device() != device_)
    return invalidArgument(base::strCat("the graph was captured on device ", device_->info().index,
                                        ", and the stream belongs to "
                                        "device ",
                                        state.device()->info().index));
  HPU_RETURN_IF_ERROR(refuseInReplay("GraphInstance::replay"));
  if (auto capture = state.capture())
    return capture->refuse("GraphInstance::replay", "a graph cannot be part of another one");
  return repeats_ ? replaySteps(stream) : replayWhole(state);
}

Status ReplayState::replayWhole(StreamState& stream) {
  std::vector<std::shared_ptr<TicketHandle>> previous;  // Let go after the locks.
  std::lock_guard lock(mutex_);
  if (plan_->steps.empty()) return okStatus();
  // All replays take them in the order of addresses, so that no two wait for each other.
  std::vector<std::unique_lock<std::mutex>> locks;
  locks.reserve(ordered_.size());
  for (const auto& executable : ordered_) locks.emplace_back(executable->order().mutex);
  driver::Ticket waited = 0;
  auto waitFor = [&](const std::shared_ptr<TicketHandle>& ticket, driver::QueueId queue) -> Status {
    if (!ticket || queue == stream.queue() || ticket->ticket() == waited) return okStatus();
    waited = ticket->ticket();
    return stream.submit(driver::WaitFor{waited, nullptr, true}, {}, {}).status();
  };
  HPU_RETURN_IF_ERROR(waitFor(last_, lastQueue_));
  for (const auto& executable : ordered_)
    HPU_RETURN_IF_ERROR(waitFor(executable->order().last, executable->order().lastQueue));
  HPU_ASSIGN(auto ticket, stream.submitBatch(plan_->steps.front(), plan_));
  for (const auto& executable : ordered_) {
    previous.push_back(std::exchange(executable->order().last, ticket));
    executable->order().lastQueue = stream.queue();
  }
  previous.push_back(std::exchange(last_, std::move(ticket)));
  lastQueue_ = stream.queue();
  return okStatus();
}

Status ReplayState::replaySteps(const Stream& stream) {
  std::shared_ptr<TicketHandle> previous;  // Let go after the lock.
  Points points(points_);
  std::lock_guard lock(mutex_);
  StreamState& main = *stream.state();
  if (last_ && lastQueue_ != main.queue())
    HPU_RETURN_IF_ERROR(main.submit(driver::WaitFor{last_->ticket(), nullptr, true}, {}, last_, nullptr).status());
  // A branch's failure went to the stream of its replay, by the joins. What is enqueued behind a failure that nobody
  // has taken there fails by the forks.
  for (const Stream& branch : streams_)
    if (auto last = branch.state() ? branch.state()->last() : nullptr)
      branch.state()->takeError(last->ticket()).ignore();
  Status status;
  for (size_t i = 0; i < steps_.size() && status.ok(); ++i) {
    status = enqueueStep(i, stream, points);
    if (status.ok()) continue;
    const Step& step = steps_[i];
    const driver::BatchItem& item = plan_->steps[i].front();
    std::string name(item.label.empty() ? driver::workName(item.work) : item.label);
    status = status.withContext(base::strCat("operation ", step.operation, " of the graph ('", name,
                                             "'; what comes before it was enqueued, it and what follows were not)"));
    joinBranches(main);
  }
  // What other threads have enqueued meanwhile on the stream may be waited for, too.
  previous = std::exchange(last_, main.last());
  lastQueue_ = main.queue();
  return status;
}

void ReplayState::joinBranches(StreamState& stream) {
  for (const Stream& branch : streams_) {
    if (!branch.state()) continue;
    auto ticket = branch.state()->submit(driver::Marker{}, {}, nullptr, nullptr);
    if (!ticket.ok()) continue;
    stream.submit(driver::WaitFor{(*ticket)->ticket(), nullptr, false}, {}, *ticket, nullptr).status().ignore();
  }
}

Status ReplayState::enqueueStep(size_t index, const Stream& stream, Points& points) try {
  const Step& step = steps_[index];
  const Stream& on = step.branch == 0 ? stream : streams_[step.branch];
  StreamState& state = *on.state();
  if (step.kind == Step::Kind::kBatch) return enqueueBatch(index, state, points);
  if (step.kind == Step::Kind::kWait) {
    // The wait keeps the ticket, so that its failure is known when the wait ends.
    const auto& ticket = points[step.point];
    return state.submit(driver::WaitFor{ticket->ticket(), nullptr, false}, {}, ticket, nullptr).status();
  }
  {
    std::lock_guard calls(*calls_[step.operation]);
    struct Scope {
      Scope() { inReplay() = true; }
      ~Scope() { inReplay() = false; }
    } scope;
    HPU_RETURN_IF_ERROR(driver::enqueueWork(*repeatable_[step.operation], on, plan_->memory[step.operation]));
  }
  for (const Step::Given& given : step.given) {
    HPU_ASSIGN(points[given.point], state.submit(driver::Marker{}, {}, nullptr, nullptr));
  }
  return okStatus();
} catch (const std::bad_alloc&) {
  return resourceExhausted("out of host memory: the work was not enqueued");
}

Status ReplayState::enqueueBatch(size_t index, StreamState& stream, Points& points) {
  const Step& step = steps_[index];
  std::vector<std::shared_ptr<TicketHandle>> previous;  // Let go after the locks.
  std::vector<StreamState::BatchTicket> wanted;
  for (const Step::Given& given : step.given) {
    points[given.point] = base::makeProcessOwned<TicketHandle>(device_, 0);
    wanted.push_back({given.item, given.signal, points[given.point]});
  }
  // Not for longer: repeatable work may launch executables. Their launches on one branch are in order.
  std::vector<std::unique_lock<std::mutex>> locks;
  for (const auto& executable : step.ordered) locks.emplace_back(executable->order().mutex);
  for (const auto& executable : step.ordered) {
    const auto& order = executable->order();
    if (!order.last || order.lastQueue == stream.queue()) continue;
    driver::WaitFor wait{order.last->ticket(), nullptr, true};
    HPU_RETURN_IF_ERROR(stream.submit(std::move(wait), {}, order.last, nullptr).status());
  }
  HPU_ASSIGN(auto ticket, stream.submitBatch(plan_->steps[index], plan_, wanted));
  for (const auto& executable : step.ordered) {
    previous.push_back(std::exchange(executable->order().last, ticket));
    executable->order().lastQueue = stream.queue();
  }
  return okStatus();
}

StatusOr<int> ReplayState::move(Plan& plan, uint64_t from, uint64_t to, int64_t fromBytes, int64_t toBytes,
                                const HostSide* side, const KeptOwner& newOwner) const {
  int moved = 0;
  for (size_t i = 0; i < places_.size(); ++i) {
    bool changed = false;
    Status status;
    auto range = [&](uint64_t& address, int64_t bytes) {
      if (!rangesMeet(address, bytes, from, fromBytes)) return;
      const uint64_t offset = address - from;
      if (!within(address, bytes, from, fromBytes)) {
        status = outOfRange(base::strCat("uses ", bytes, " bytes at ", base::formatHex(address),
                                         ", of which only a part is to be bound to other memory"));
      } else if (!within(offset, bytes, 0, toBytes)) {
        status =
            outOfRange(base::strCat("uses ", bytes, " bytes at offset ", offset, ", and the new memory has ", toBytes));
      } else {
        address = to + offset;
        changed = true;
        ++moved;
      }
    };
    driver::Work& work = plan.steps[places_[i].step][places_[i].item].work;
    if (side) {
      forEachHostRange(work, *side, range);
    } else {
      forEachDeviceRange(work, instances_[i].get(), range);
      forEachDeviceRange(plan.memory[i], range);
    }
    // The capture staged the outputs that overwrite inputs; others must not begin to.
    if (auto* launch = std::get_if<driver::Launch>(&work); launch && changed && status.ok())
      status = instances_[i]->checkSections(launch->sections);
    if (!status.ok()) return status.withContext(base::strCat("operation ", i, " of the graph"));
    if (changed && newOwner.owner) plan.owners[i].push_back(newOwner);
    dropUnused(work, instances_[i].get(), plan.memory[i], plan.owners[i]);
  }
  return moved;
}

Status ReplayState::rebindDevice(uint64_t from, uint64_t to, int64_t fromBytes, int64_t toBytes) {
  if (fromBytes <= 0) return outOfRange(base::strCat("rebind: ", fromBytes, " bytes; give the size of the range"));
  HPU_RETURN_IF_ERROR(refuseInReplay("GraphInstance::rebind"));
  HPU_ASSIGN(auto target, device_->memory().find(to, toBytes, "rebind"));
  const auto& allocation = target->allocation();
  KeptOwner owner{allocation, allocation->address(), allocation->bytes(), false};
  if (repeats_) owner.owner = target;    // As CaptureState::addRepeatable.
  std::shared_ptr<const Plan> previous;  // Lets memory go after the lock.
  std::lock_guard lock(mutex_);
  auto plan = std::make_shared<Plan>(*plan_);
  HPU_ASSIGN(int moved, move(*plan, from, to, fromBytes, toBytes, nullptr, owner));
  if (moved == 0)
    return notFound(
        base::strCat("rebind: no operation of the graph uses ", fromBytes, " bytes at ", base::formatHex(from)));
  previous = std::exchange(plan_, std::move(plan));
  retire(previous);
  return okStatus();
}

Status ReplayState::rebindHost(HostSide side, const void* from, const void* to, int64_t bytes) {
  std::string_view what = side == HostSide::kSource ? "rebindSource" : "rebindDestination";
  if (!from || !to) return invalidArgument(base::strCat(what, ": a host address is null"));
  if (bytes <= 0) return outOfRange(base::strCat(what, ": ", bytes, " bytes; give the size of the range"));
  HPU_RETURN_IF_ERROR(refuseInReplay(what));
  HPU_ASSIGN(auto block, device_->host().use(to, bytes, what));
  KeptOwner owner;
  if (block) owner = {block, number(block->memory().data), block->memory().bytes, true};
  block.reset();
  std::shared_ptr<const Plan> previous;  // Lets memory go after the lock.
  std::lock_guard lock(mutex_);
  auto plan = std::make_shared<Plan>(*plan_);
  HPU_ASSIGN(int moved, move(*plan, number(from), number(to), bytes, bytes, &side, owner));
  if (moved == 0) return notFound(base::strCat(what, ": no copy of the graph uses these ", bytes, " bytes"));
  previous = std::exchange(plan_, std::move(plan));
  retire(previous);
  return okStatus();
}

}  // namespace hpu
