// SPDX-License-Identifier: Apache-2.0
#include "hpu/event.h"

#include <utility>

#include "base/Format.h"
#include "base/ProcessOwned.h"
#include "base/StatusMacros.h"
#include "runtime/event/EventState.h"
#include "runtime/trace/Recorder.h"

namespace hpu {
namespace {

/// An event that may be used: it is this process's.
Status check(const std::shared_ptr<EventState>& event) {
  return event->checkProcess();
}

/// An event that the host may ask about: it may be used, and was not recorded in a capture, where nothing is done yet.
Status checkAskable(const std::shared_ptr<EventState>& event, std::string_view call) {
  HPU_RETURN_IF_ERROR(check(event));
  CapturedPoint point = event->captured();
  if (!point.set) return okStatus();
  if (auto capture = point.capture.lock(); capture && capture->active())
    return capture->refuse(call, "the event was recorded in the capture and is not done in it");
  return failedPrecondition(base::strCat(call,
                                         ": the event was recorded in a capture, where it only orders the streams; "
                                         "record it outside of one"));
}

/// The ticket of an event whose device time is asked for.
StatusOr<std::shared_ptr<TicketHandle>> doneTicket(const EventState& event, std::string_view which) {
  std::shared_ptr<TicketHandle> ticket = event.ticket();
  if (!ticket)
    return failedPrecondition(base::strCat("the ", which, " was never recorded; Stream::record gives it a time"));
  if (!ticket->done())
    return failedPrecondition(base::strCat("the ", which, " is not done; synchronize before asking for its time"));
  return ticket;
}

}  // namespace

Status EventState::checkProcess() const {
  if (birthplace_.isHere()) return okStatus();
  return failedPrecondition(
      "the event was made by the process that this one was forked from, whose alone it is; make one in this process");
}

void EventState::set(std::shared_ptr<TicketHandle> ticket, const std::shared_ptr<StreamState>& stream) {
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

CapturedPoint EventState::captured() const {
  std::lock_guard lock(mutex_);
  return captured_;
}

std::shared_ptr<TicketHandle> EventState::ticket() const {
  std::lock_guard lock(mutex_);
  return ticket_;
}

std::shared_ptr<StreamState> EventState::stream() const {
  std::lock_guard lock(mutex_);
  return stream_.lock();
}

Event::Event() : state_(base::makeProcessOwned<EventState>()) {}
Event::~Event() = default;

StatusOr<bool> Event::query() const {
  trace::HostScope scope("Event.query");
  HPU_RETURN_IF_ERROR(checkAskable(state_, "Event::query"));
  std::shared_ptr<TicketHandle> ticket = state_->ticket();
  if (!ticket) return true;
  if (!ticket->done()) return false;
  auto observed = ticket->observeEndNs();
  HPU_RETURN_IF_ERROR(ticket->failure());
  HPU_RETURN_IF_ERROR(observed.status());
  return true;
}

bool Event::isSeen() const {
  if (!check(state_).ok()) return false;
  std::shared_ptr<TicketHandle> ticket = state_->ticket();
  return ticket && ticket->seen();
}

bool Event::isDone() const {
  if (!check(state_).ok() || state_->captured().set) return false;
  std::shared_ptr<TicketHandle> ticket = state_->ticket();
  return !ticket || ticket->done();
}

Status Event::synchronize(int64_t deadlineMs) const {
  trace::HostScope scope("Event.synchronize");
  HPU_RETURN_IF_ERROR(checkAskable(state_, "Event::synchronize"));
  std::shared_ptr<TicketHandle> ticket = state_->ticket();
  if (!ticket) return okStatus();
  HPU_RETURN_IF_ERROR(ticket->wait(deadlineMs));
  Status failure = ticket->failure();
  if (auto stream = state_->stream()) {
    Status taken = stream->takeError(ticket->ticket());
    if (failure.ok()) failure = std::move(taken);
  }
  auto observed = ticket->observeEndNs();
  return failure.ok() ? observed.status() : failure;
}

StatusOr<int64_t> Event::elapsedNsSince(const Event& start) const {
  trace::HostScope scope("Event.elapsedNsSince");
  HPU_RETURN_IF_ERROR(checkAskable(state_, "Event::elapsedNsSince"));
  HPU_RETURN_IF_ERROR(checkAskable(start.state_, "Event::elapsedNsSince"));
  HPU_ASSIGN(auto last, doneTicket(*state_, "end event"));
  HPU_ASSIGN(auto first, doneTicket(*start.state_, "start event"));
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
  HPU_RETURN_IF_ERROR(checkAskable(state_, "Event::deviceTimeNs"));
  HPU_ASSIGN(auto ticket, doneTicket(*state_, "event"));
  return ticket->observeEndNs();
}

}  // namespace hpu
