// SPDX-License-Identifier: Apache-2.0
#include "runtime/capture/ReplayState.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "runtime/executable/ExecutableState.h"
#include "runtime/memory/BufferState.h"
#include "runtime/stream/StreamState.h"

namespace hpu {
namespace {

constexpr uint32_t kNone = driver::BatchItem::kNone;

bool overlap(uint64_t a, int64_t aBytes, uint64_t b, int64_t bBytes) {
  return aBytes > 0 && bBytes > 0 && a < b + static_cast<uint64_t>(bBytes) &&
         b < a + static_cast<uint64_t>(aBytes);
}

bool within(uint64_t a, int64_t aBytes, uint64_t outer, int64_t outerBytes) {
  return a >= outer && aBytes <= outerBytes &&
         a - outer <= static_cast<uint64_t>(outerBytes - aBytes);
}

uint64_t number(const void* pointer) {
  return static_cast<uint64_t>(reinterpret_cast<uintptr_t>(pointer));
}

}  // namespace

ReplayState::ReplayState(std::shared_ptr<const CapturedWork> work) : work_(std::move(work)) {}

ReplayState::~ReplayState() {
  for (driver::QueueId queue : queues_)
    if (queue != 0) work_->device->driver()->destroyQueue(queue);
}

StatusOr<std::shared_ptr<ReplayState>> ReplayState::create(
    std::shared_ptr<const CapturedWork> work) {
  auto state = std::make_shared<ReplayState>(work);
  for (size_t b = 0; b < work->branches.size(); ++b) {
    driver::QueueId queue = 0;
    if (b > 0) {
      const std::string& name = work->branches[b].name;
      HPU_ASSIGN(queue, work->device->driver()->createQueue(
                            name.empty() ? base::strCat("graph branch ", b)
                                         : base::strCat("graph branch ", b, " (", name, ")")));
    }
    state->queues_.push_back(queue);
  }
  auto plan = std::make_shared<Plan>();
  for (const CapturedWork::Operation& operation : work->operations) {
    driver::BatchItem item;
    item.queue = state->queues_[operation.branch];
    item.priority = work->branches[operation.branch].priority;
    item.work = operation.work;
    item.label = operation.label;
    item.waitItem = operation.waitOperation;
    item.waitSignal = operation.waitSignal;
    plan->items.push_back(std::move(item));
    plan->owners.push_back(operation.owners);
  }
  if (!plan->items.empty()) plan->items.back().kept = true;
  state->plan_ = std::move(plan);
  return state;
}

Status ReplayState::replay(StreamState& stream) {
  if (stream.device() != work_->device)
    return invalidArgument(base::strCat("the graph was captured on device ",
                                        work_->device->info().index,
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
  locks.reserve(work_->ordered.size());
  for (const auto& executable : work_->ordered) locks.emplace_back(executable->order().mutex);
  driver::Ticket waited = 0;
  auto waitFor = [&](const std::shared_ptr<TicketHandle>& ticket, driver::QueueId queue) -> Status {
    if (!ticket || queue == stream.queue() || ticket->ticket() == waited) return okStatus();
    waited = ticket->ticket();
    return stream.submit(driver::WaitFor{waited, nullptr}, {}, {}).status();
  };
  HPU_RETURN_IF_ERROR(waitFor(last_, lastQueue_));
  for (const auto& executable : work_->ordered)
    HPU_RETURN_IF_ERROR(waitFor(executable->order().last, executable->order().lastQueue));
  HPU_ASSIGN(auto ticket, stream.submitBatch(plan_->items, plan_));
  for (const auto& executable : work_->ordered) {
    previous.push_back(std::exchange(executable->order().last, ticket));
    executable->order().lastQueue = stream.queue();
  }
  previous.push_back(std::exchange(last_, std::move(ticket)));
  lastQueue_ = stream.queue();
  return okStatus();
}

void ReplayState::forEachDeviceRange(size_t item, driver::Work& work, Range range) const {
  if (auto* copy = std::get_if<driver::CopyToDevice>(&work)) {
    range(copy->dst, copy->bytes);
  } else if (auto* copy = std::get_if<driver::CopyToHost>(&work)) {
    range(copy->src, copy->bytes);
  } else if (auto* copy = std::get_if<driver::CopyOnDevice>(&work)) {
    range(copy->dst, copy->bytes);
    range(copy->src, copy->bytes);
  } else if (auto* fill = std::get_if<driver::Fill>(&work)) {
    range(fill->dst, fill->bytes);
  } else if (auto* copies = std::get_if<driver::CopyMany>(&work)) {
    for (CopyRange& one : copies->ranges) {
      if (copies->direction != CopyDirection::kToHost) range(one.dst, one.bytes);
      if (copies->direction != CopyDirection::kToDevice) range(one.src, one.bytes);
    }
  } else if (auto* launch = std::get_if<driver::Launch>(&work)) {
    const ExecutableState& executable = *work_->operations[item].executable;
    for (size_t s = 0; s < launch->sections.size(); ++s) {
      int64_t bytes = executable.boundBytes(s);
      if (bytes > 0) range(launch->sections[s], bytes);
    }
  }
}

void ReplayState::forEachHostRange(driver::Work& work, HostSide side, Range range) {
  const bool source = side == HostSide::kSource;
  if (auto* copy = std::get_if<driver::CopyToDevice>(&work); copy && source) {
    uint64_t address = number(copy->src);
    range(address, copy->bytes);
    copy->src = reinterpret_cast<const void*>(static_cast<uintptr_t>(address));
  } else if (auto* copy = std::get_if<driver::CopyToHost>(&work); copy && !source) {
    uint64_t address = number(copy->dst);
    range(address, copy->bytes);
    copy->dst = reinterpret_cast<void*>(static_cast<uintptr_t>(address));
  } else if (auto* copies = std::get_if<driver::CopyMany>(&work)) {
    if (copies->direction != (source ? CopyDirection::kToDevice : CopyDirection::kToHost)) return;
    for (CopyRange& one : copies->ranges) range(source ? one.src : one.dst, one.bytes);
  }
}

StatusOr<int> ReplayState::move(Plan& plan, uint64_t from, uint64_t to, int64_t fromBytes,
                                int64_t toBytes, bool host, HostSide side, const Owner& newOwner) {
  int moved = 0;
  for (size_t i = 0; i < plan.items.size(); ++i) {
    bool changed = false;
    Status status;
    auto range = [&](uint64_t& address, int64_t bytes) {
      if (!overlap(address, bytes, from, fromBytes)) return;
      const uint64_t offset = address - from;
      if (!within(address, bytes, from, fromBytes)) {
        status = outOfRange(base::strCat("uses ", bytes, " bytes at ", base::formatHex(address),
                                         ", of which only a part is to be bound to other memory"));
      } else if (!within(offset, bytes, 0, toBytes)) {
        status = outOfRange(base::strCat("uses ", bytes, " bytes at offset ", offset,
                                         ", and the new memory has ", toBytes));
      } else {
        address = to + offset;
        changed = true;
        ++moved;
      }
    };
    driver::Work& work = plan.items[i].work;
    if (host)
      forEachHostRange(work, side, range);
    else
      forEachDeviceRange(i, work, range);
    if (auto* launch = std::get_if<driver::Launch>(&work); launch && changed && status.ok())
      status = checkLaunch(i, *launch);
    if (!status.ok()) return status.withContext(base::strCat("operation ", i, " of the graph"));
    if (!changed) continue;
    if (newOwner) plan.owners[i].push_back(newOwner);
  }
  return moved;
}

/// The capture staged the outputs that overwrite inputs; others must not begin to.
Status ReplayState::checkLaunch(size_t item, const driver::Launch& launch) const {
  return work_->operations[item].executable->checkSections(launch.sections);
}

Status ReplayState::rebindDevice(uint64_t from, uint64_t to, int64_t fromBytes, int64_t toBytes) {
  if (fromBytes <= 0)
    return outOfRange(base::strCat("rebind: ", fromBytes, " bytes; give the size of the range"));
  HPU_ASSIGN(auto target, work_->device->memory().find(to, toBytes, "rebind"));
  Owner oldOwner;
  if (auto old = work_->device->memory().find(from); old.ok()) oldOwner = (*old)->allocation();
  std::lock_guard lock(mutex_);
  auto plan = std::make_shared<Plan>(*plan_);
  HPU_ASSIGN(int moved, move(*plan, from, to, fromBytes, toBytes, false, HostSide::kSource,
                             target->allocation()));
  if (moved == 0)
    return notFound(base::strCat("rebind: no operation of the graph uses ", fromBytes, " bytes at ",
                                 base::formatHex(from)));
  // What no longer uses the old memory lets it go.
  for (size_t i = 0; oldOwner && i < plan->items.size(); ++i) {
    const auto* allocation = static_cast<const Allocation*>(oldOwner.get());
    bool used = false;
    forEachDeviceRange(i, plan->items[i].work, [&](uint64_t& address, int64_t bytes) {
      used |= overlap(address, bytes, allocation->address(), allocation->bytes());
    });
    if (!used) std::erase(plan->owners[i], oldOwner);
  }
  plan_ = std::move(plan);
  return okStatus();
}

Status ReplayState::rebindHost(HostSide side, const void* from, const void* to, int64_t bytes) {
  std::string_view what = side == HostSide::kSource ? "rebindSource" : "rebindDestination";
  if (!from || !to) return invalidArgument(base::strCat(what, ": a host address is null"));
  if (bytes <= 0)
    return outOfRange(base::strCat(what, ": ", bytes, " bytes; give the size of the range"));
  HPU_ASSIGN(Owner owner, work_->device->host().use(to, bytes, what));
  std::lock_guard lock(mutex_);
  auto plan = std::make_shared<Plan>(*plan_);
  HPU_ASSIGN(int moved, move(*plan, number(from), number(to), bytes, bytes, true, side, owner));
  if (moved == 0)
    return notFound(base::strCat(what, ": no copy of the graph uses these ", bytes, " bytes"));
  plan_ = std::move(plan);
  return okStatus();
}

}  // namespace hpu
