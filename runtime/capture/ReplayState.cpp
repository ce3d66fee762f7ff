// SPDX-License-Identifier: Apache-2.0
#include "runtime/capture/ReplayState.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/Format.h"
#include "base/ProcessOwned.h"
#include "base/StatusMacros.h"
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

}  // namespace

ReplayState::ReplayState(const CapturedWork& work) : device_(work.device), ordered_(work.ordered) {}

ReplayState::~ReplayState() {
  for (driver::QueueId queue : queues_)
    if (queue != 0) device_->driver()->destroyQueue(queue);
}

StatusOr<std::shared_ptr<ReplayState>> ReplayState::create(const CapturedWork& work) {
  auto state = base::makeProcessOwned<ReplayState>(work);
  for (size_t b = 0; b < work.branches.size(); ++b) {
    driver::QueueId queue = 0;
    if (b > 0) {
      const std::string& name = work.branches[b].name;
      HPU_ASSIGN(queue,
                 work.device->driver()->createQueue(name.empty() ? base::strCat("graph branch ", b)
                                                                 : base::strCat("graph branch ", b, " (", name, ")")));
    }
    state->queues_.push_back(queue);
  }
  auto plan = std::make_shared<Plan>();
  for (const CapturedWork::Operation& operation : work.operations) {
    driver::BatchItem item;
    item.queue = state->queues_[operation.branch];
    item.priority = work.branches[operation.branch].priority;
    item.work = operation.work;
    item.label = operation.label;
    item.waitItem = operation.waitOperation;
    item.waitSignal = operation.waitSignal;
    plan->items.push_back(std::move(item));
    plan->owners.push_back(operation.owners);
    state->executables_.push_back(operation.executable);
  }
  if (!plan->items.empty()) plan->items.back().kept = true;
  state->plan_ = std::move(plan);
  return state;
}

Status ReplayState::replay(StreamState& stream) {
  if (stream.device() != device_)
    return invalidArgument(base::strCat("the graph was captured on device ", device_->info().index,
                                        ", and the stream belongs to "
                                        "device ",
                                        stream.device()->info().index));
  if (auto capture = stream.capture())
    return capture->refuse("GraphInstance::replay", "a graph cannot be part of another one");
  std::vector<std::shared_ptr<TicketHandle>> previous;  // Let go after the locks.
  std::lock_guard lock(mutex_);
  if (plan_->items.empty()) return okStatus();
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
  HPU_ASSIGN(auto ticket, stream.submitBatch(plan_->items, plan_));
  for (const auto& executable : ordered_) {
    previous.push_back(std::exchange(executable->order().last, ticket));
    executable->order().lastQueue = stream.queue();
  }
  previous.push_back(std::exchange(last_, std::move(ticket)));
  lastQueue_ = stream.queue();
  return okStatus();
}

StatusOr<int> ReplayState::move(Plan& plan, uint64_t from, uint64_t to, int64_t fromBytes, int64_t toBytes,
                                const HostSide* side, const KeptOwner& newOwner) const {
  int moved = 0;
  for (size_t i = 0; i < plan.items.size(); ++i) {
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
    driver::Work& work = plan.items[i].work;
    if (side)
      forEachHostRange(work, *side, range);
    else
      forEachDeviceRange(work, executables_[i].get(), range);
    // The capture staged the outputs that overwrite inputs; others must not begin to.
    if (auto* launch = std::get_if<driver::Launch>(&work); launch && changed && status.ok())
      status = executables_[i]->checkSections(launch->sections);
    if (!status.ok()) return status.withContext(base::strCat("operation ", i, " of the graph"));
    if (changed && newOwner.owner) plan.owners[i].push_back(newOwner);
    dropUnused(work, executables_[i].get(), plan.owners[i]);
  }
  return moved;
}

Status ReplayState::rebindDevice(uint64_t from, uint64_t to, int64_t fromBytes, int64_t toBytes) {
  if (fromBytes <= 0) return outOfRange(base::strCat("rebind: ", fromBytes, " bytes; give the size of the range"));
  HPU_ASSIGN(auto target, device_->memory().find(to, toBytes, "rebind"));
  const auto& allocation = target->allocation();
  KeptOwner owner{allocation, allocation->address(), allocation->bytes(), false};
  std::shared_ptr<const Plan> previous;  // Lets memory go after the lock.
  std::lock_guard lock(mutex_);
  auto plan = std::make_shared<Plan>(*plan_);
  HPU_ASSIGN(int moved, move(*plan, from, to, fromBytes, toBytes, nullptr, owner));
  if (moved == 0)
    return notFound(
        base::strCat("rebind: no operation of the graph uses ", fromBytes, " bytes at ", base::formatHex(from)));
  previous = std::exchange(plan_, std::move(plan));
  return okStatus();
}

Status ReplayState::rebindHost(HostSide side, const void* from, const void* to, int64_t bytes) {
  std::string_view what = side == HostSide::kSource ? "rebindSource" : "rebindDestination";
  if (!from || !to) return invalidArgument(base::strCat(what, ": a host address is null"));
  if (bytes <= 0) return outOfRange(base::strCat(what, ": ", bytes, " bytes; give the size of the range"));
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
  return okStatus();
}

}  // namespace hpu
