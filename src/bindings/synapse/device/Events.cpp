// SPDX-License-Identifier: Apache-2.0
// Entry points of events.
#include "base/Format.h"
#include "base/StatusMacros.h"
#include "bindings/synapse/api/EntryPoint.h"
#include "bindings/synapse/api/Library.h"

using hpu::synapse::badArgument;
using hpu::synapse::EventObject;
using hpu::synapse::guarded;
using hpu::synapse::guardedCreate;
using hpu::synapse::Library;
using hpu::synapse::Result;

namespace {

/// That an event has a device time: synUnavailable, synObjectNotInitialized, synBusy.
Result checkTime(const EventObject& event, const char* name) {
  if (!event.collectsTime) return {synUnavailable, std::string(name) + " was created without EVENT_COLLECT_TIME"};
  if (!event.recorded) return {synObjectNotInitialized, std::string(name) + " was not recorded"};
  hpu::StatusOr<bool> done = event.event.query();
  // A failure is reported by queries and waits; the event has its time all the same.
  if (done.ok() && !*done) return {synBusy, std::string("the work before ") + name + " is not done"};
  return {};
}

Result elapsed(const EventObject& start, const EventObject* end, uint64_t* nanoseconds) {
  SYN_RETURN_IF_ERROR(checkTime(start, "eventHandleStart"));
  if (!end) {
    hpu::StatusOr<int64_t> time = start.event.deviceTimeNs();
    if (!time.ok()) return {synUnavailable, time.status().message()};
    *nanoseconds = static_cast<uint64_t>(*time);
    return {};
  }
  SYN_RETURN_IF_ERROR(checkTime(*end, "eventHandleEnd"));
  if (start.device != end->device)
    return badArgument(hpu::base::strCat("the events are of devices ", start.device->id(), " and ", end->device->id(),
                                         ", whose clocks differ"));
  hpu::StatusOr<int64_t> time = end->event.elapsedNsSince(start.event);
  if (!time.ok()) return {synUnavailable, time.status().message()};
  if (*time < 0) return badArgument(hpu::base::strCat("the end event is ", -*time, " ns before the start event"));
  *nanoseconds = static_cast<uint64_t>(*time);
  return {};
}

}  // namespace

synStatus synEventCreate(synEventHandle* pEventHandler, const synDeviceId deviceId, const uint32_t flags) {
  return guardedCreate("synEventCreate", pEventHandler, [&]() -> Result {
    SYN_REQUIRE(pEventHandler);
    if ((flags & ~static_cast<uint32_t>(EVENT_COLLECT_TIME)) != 0)
      return badArgument(hpu::base::strCat("flags is ", flags, "; give 0 or EVENT_COLLECT_TIME"));
    SYN_FIND_DEVICE(device, deviceId);
    auto event = std::make_shared<EventObject>();
    event->device = device;
    event->collectsTime = (flags & EVENT_COLLECT_TIME) != 0;
    synEventHandle created = hpu::synapse::events().insert(std::move(event));
    if (!created) return hpu::synapse::events().full();
    if (!Library::get().owns(device)) {
      (void)hpu::synapse::events().remove(created);
      return Library::get().missingDevice(deviceId);
    }
    *pEventHandler = created;
    return {};
  });
}

synStatus synEventDestroy(synEventHandle eventHandle) {
  return guarded("synEventDestroy", [&]() -> Result {
    if (!hpu::synapse::events().remove(eventHandle)) return hpu::synapse::events().missing(eventHandle);
    return {};
  });
}

synStatus synEventRecord(synEventHandle eventHandle, const synStreamHandle streamHandle) {
  return guarded("synEventRecord", [&]() -> Result {
    SYN_FIND(event, hpu::synapse::events(), eventHandle);
    SYN_FIND(stream, hpu::synapse::streams(), streamHandle);
    if (event->device != stream->device)
      return badArgument(hpu::base::strCat("the event is one of device ", event->device->id(),
                                           ", and the stream of device ", stream->device->id()));
    SYN_RETURN_IF_ERROR(hpu::synapse::ofEnqueue(stream->stream.record(event->event)));
    event->recorded = true;
    return {};
  });
}

synStatus synEventQuery(const synEventHandle eventHandle) {
  return guarded("synEventQuery", [&]() -> Result {
    SYN_FIND(event, hpu::synapse::events(), eventHandle);
    return hpu::synapse::ofQuery(event->event.query());
  });
}

synStatus synEventSynchronize(const synEventHandle eventHandle) {
  return guarded("synEventSynchronize", [&]() -> Result {
    SYN_FIND(event, hpu::synapse::events(), eventHandle);
    return hpu::synapse::ofWork(event->event.synchronize());
  });
}

synStatus synEventElapsedTime(uint64_t* pNanoSeconds, const synEventHandle eventHandleStart,
                              const synEventHandle eventHandleEnd) {
  return guarded("synEventElapsedTime", [&]() -> Result {
    SYN_REQUIRE(pNanoSeconds);
    SYN_FIND(start, hpu::synapse::events(), eventHandleStart);
    if (!eventHandleEnd) return elapsed(*start, nullptr, pNanoSeconds);
    SYN_FIND(end, hpu::synapse::events(), eventHandleEnd);
    return elapsed(*start, end.get(), pNanoSeconds);
  });
}
