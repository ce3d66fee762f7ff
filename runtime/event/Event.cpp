// SPDX-License-Identifier: Apache-2.0
#include "hpu/event.h"

#include <optional>
#include <utility>

#include "base/Deadline.h"
#include "base/Format.h"
#include "base/Grown.h"
#include "base/ProcessOwned.h"
#include "base/ProgramCall.h"
#include "base/StatusMacros.h"
#include "hpu/stream.h"
#include "runtime/driver/Callback.h"
#include "runtime/event/EventState.h"
#include "runtime/event/EventWatcher.h"
#include "runtime/trace/Recorder.h"

namespace hpu {
namespace {

/// An event that may be used: it is this process's.
Status check(const std::shared_ptr<EventState>& event) {
  return event->checkProcess();
}

/// What an event stands for that the host asks about: it may be used, and was not recorded in a capture, where nothing
/// is done yet.
StatusOr<Recorded> recordedForHost(const std::shared_ptr<EventState>& event, std::string_view call) {
  HPU_RETURN_IF_ERROR(check(event));
  Recorded recorded = event->recorded();
  if (!recorded.captured.set) return recorded;
  if (auto capture = recorded.captured.capture.lock(); capture && capture->active())
    return capture->refuse(call, "the event was recorded in the capture and is not done in it");
  return failedPrecondition(base::strCat(call,
                                         ": the event was recorded in a capture, where it only orders the streams; "
                                         "record it outside of one"));
}

/// The ticket of an event whose device time is asked for.
StatusOr<std::shared_ptr<TicketHandle>> doneTicket(const std::shared_ptr<EventState>& event, std::string_view call,
                                                   std::string_view which) {
  HPU_ASSIGN(Recorded recorded, recordedForHost(event, call));
  if (event->shared() || event->opened())
    return failedPrecondition(base::strCat("the ", which,
                                           " is shared between processes and has no device time; record one that is "
                                           "not shared (Event()) beside it"));
  if (!event->timed())
    return failedPrecondition(base::strCat("the ", which,
                                           " was made without a device time (EventOptions::timed is false); record one "
                                           "that has it (Event())"));
  if (!recorded.ticket)
    return failedPrecondition(base::strCat("the ", which, " was never recorded; Stream::record gives it a time"));
  if (!recorded.ticket->done())
    return failedPrecondition(base::strCat("the ", which, " is not done; synchronize before asking for its time"));
  return std::move(recorded.ticket);
}

}  // namespace

Status EventState::checkProcess() const {
  if (birthplace_.isHere()) return okStatus();
  return failedPrecondition(
      "the event was made by the process that this one was forked from, whose alone it is; make one in this process");
}

Status EventState::checkRecordable(std::string_view call) const {
  HPU_RETURN_IF_ERROR(checkProcess());
  if (!opened_) return okStatus();
  return failedPrecondition(base::strCat(call,
                                         ": the event was opened by its handle (Event::open): only the process that "
                                         "made it records it; share one of this process in the other direction"));
}

void EventState::set(std::shared_ptr<TicketHandle> ticket, const std::shared_ptr<StreamState>& stream) {
  std::unique_lock<std::mutex> sharing;
  if (shared_ && ticket) {
    sharing = std::unique_lock(sharing_);
    shared_->recorded(ticket);
  }
  // The replaced ticket is let go after the lock.
  std::lock_guard lock(mutex_);
  ticket_.swap(ticket);
  stream_ = stream;
  captured_ = CapturedPoint();
}

void EventState::setCaptured(CapturedPoint point) {
  std::shared_ptr<TicketHandle> ticket;  // Let go after the lock.
  std::lock_guard lock(mutex_);
  ticket_.swap(ticket);
  stream_.reset();
  captured_ = std::move(point);
}

Recorded EventState::recorded() const {
  std::lock_guard lock(mutex_);
  return {ticket_, stream_, captured_};
}

Event::Event() : state_(base::makeProcessOwned<EventState>()) {}
Event::~Event() = default;

StatusOr<Event> Event::create(const EventOptions& options, size_t optionsBytes) {
  trace::HostScope scope("Event.create");
  HPU_ASSIGN(base::Grown<EventOptions> given,
             base::grown("EventOptions", options, optionsBytes, &EventOptions::timed, &EventOptions::shared));
  Event event;
  if (given->timed && !given->shared) return event;
  std::shared_ptr<SharedEvent> shared;
  if (given->shared) {
    HPU_ASSIGN(shared, SharedEvent::create());
  }
  event.state_ = base::makeProcessOwned<EventState>(std::move(shared));
  return event;
}

StatusOr<EventHandle> Event::handle() const {
  HPU_RETURN_IF_ERROR(check(state_));
  if (state_->shared()) return state_->shared()->handle();
  if (state_->opened()) return failedPrecondition("Event::handle: the event was opened by a handle; pass that one on");
  return failedPrecondition(
      "Event::handle: the event was not made to be shared; make it by Event::create with EventOptions::shared");
}

StatusOr<Event> Event::open(const EventHandle& handle) {
  trace::HostScope scope("Event.open");
  HPU_ASSIGN(std::shared_ptr<OpenedEvent> opened, OpenedEvent::open(handle));
  Event event;
  event.state_ = base::makeProcessOwned<EventState>(std::move(opened));
  return event;
}

StatusOr<bool> Event::query() const {
  trace::HostScope scope("Event.query");
  HPU_ASSIGN(Recorded recorded, recordedForHost(state_, "Event::query"));
  if (const OpenedEvent* opened = state_->opened().get()) {
    std::optional<Status> outcome = opened->outcomeOrGone(opened->latest());
    if (!outcome) return false;
    HPU_RETURN_IF_ERROR(*outcome);
    return true;
  }
  const std::shared_ptr<TicketHandle>& ticket = recorded.ticket;
  if (!ticket) return true;
  if (!ticket->done()) return false;
  auto observed = ticket->observeEndNs();
  HPU_RETURN_IF_ERROR(ticket->failure());
  HPU_RETURN_IF_ERROR(observed.status());
  return true;
}

Status Event::onDone(std::function<void(const Status&)> told) const {
  trace::HostScope scope("Event.onDone");
  if (!told) return invalidArgument("Event::onDone: the function is empty");
  HPU_ASSIGN(Recorded recorded, recordedForHost(state_, "Event::onDone"));
  if (const std::shared_ptr<OpenedEvent>& opened = state_->opened()) {
    const uint64_t record = opened->latest();
    if (record > 0)
      tellWhenOver(opened, record, std::move(told));
    else
      base::callProgramOrLog("Event::onDone", [&] { told(okStatus()); });
    return okStatus();
  }
  const std::shared_ptr<TicketHandle>& ticket = recorded.ticket;
  if (!ticket) {
    base::callProgramOrLog("Event::onDone", [&] { told(okStatus()); });
    return okStatus();
  }
  // A queue of its own, so that what the event's stream does later is not waited for.
  HPU_ASSIGN(Stream waiter, Stream::create(Device(ticket->device()), {"completion"}));
  HPU_RETURN_IF_ERROR(waiter.state()->waitFor(ticket, /*onlyOrder=*/false));
  return waiter.onDone(std::move(told));
}

bool Event::isSeen() const {
  if (!check(state_).ok()) return false;
  const Recorded recorded = state_->recorded();
  return recorded.ticket && recorded.ticket->seen();
}

bool Event::isDone() const {
  if (!check(state_).ok()) return false;
  const Recorded recorded = state_->recorded();
  if (recorded.captured.set) return false;
  if (state_->opened()) return state_->opened()->outcome(state_->opened()->latest()).has_value();
  return !recorded.ticket || recorded.ticket->done();
}

Status Event::synchronize(int64_t deadlineMs) const {
  constexpr std::string_view kCall = "Event::synchronize";
  trace::HostScope scope("Event.synchronize");
  HPU_ASSIGN(Recorded recorded, recordedForHost(state_, kCall));
  if (const OpenedEvent* opened = state_->opened().get()) {
    HPU_ASSIGN(base::Deadline deadline, base::Deadline::fromMs(deadlineMs));
    const uint64_t record = opened->latest();
    if (std::optional<Status> outcome = opened->outcome(record)) return *outcome;
    HPU_RETURN_IF_ERROR(refuseInCallback(kCall));
    if (std::optional<Status> outcome = opened->await(record, deadline.time())) return *outcome;
    return deadlineExceeded(base::strCat("the event of another process was not done within ", deadline.totalMs(),
                                         " ms; wait longer (HPU_WAIT_TIMEOUT_MS) or look for what that process's "
                                         "stream waits for"));
  }
  const std::shared_ptr<TicketHandle>& ticket = recorded.ticket;
  if (!ticket) return okStatus();
  HPU_RETURN_IF_ERROR(ticket->wait(deadlineMs, kCall));
  Status failure = ticket->failure();
  if (auto stream = recorded.stream.lock()) {
    Status taken = stream->takeError(ticket->ticket());
    if (failure.ok()) failure = std::move(taken);
  }
  auto observed = ticket->observeEndNs();
  return failure.ok() ? observed.status() : failure;
}

StatusOr<int64_t> Event::elapsedNsSince(const Event& start) const {
  trace::HostScope scope("Event.elapsedNsSince");
  HPU_ASSIGN(auto last, doneTicket(state_, "Event::elapsedNsSince", "end event"));
  HPU_ASSIGN(auto first, doneTicket(start.state_, "Event::elapsedNsSince", "start event"));
  if (last->device() != first->device())
    return invalidArgument(base::strCat("the events were recorded on device ", first->device()->info().index,
                                        " and device ", last->device()->info().index,
                                        "; elapsed time needs one device"));
  HPU_ASSIGN(int64_t from, first->observeEndNs());
  HPU_ASSIGN(int64_t to, last->observeEndNs());
  return to - from;
}

StatusOr<int64_t> Event::deviceTimeNs() const {
  trace::HostScope scope("Event.deviceTimeNs");
  HPU_ASSIGN(auto ticket, doneTicket(state_, "Event::deviceTimeNs", "event"));
  return ticket->observeEndNs();
}

}  // namespace hpu
