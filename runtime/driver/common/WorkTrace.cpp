// SPDX-License-Identifier: Apache-2.0
#include "runtime/driver/common/WorkTrace.h"

#include <algorithm>
#include <string>

#include "runtime/driver/WorkVisitor.h"
#include "runtime/trace/Recorder.h"

namespace hpu::driver {
namespace {

// The trace names the same resources in the same order.
static_assert(static_cast<int>(trace::Track::kDeviceToHost) == static_cast<int>(Resource::kDeviceToHost) &&
              static_cast<int>(trace::Track::kMme) == static_cast<int>(Resource::kMme) &&
              trace::kNumTracks == kNumResources);

void traceLaunch(uint32_t device, const ResolvedWork& work, const TimedProgram& launch) {
  if (!launch.program) return;                                // It was submitted when nothing was recorded.
  if (!work.part && !launch.timeline->parts.empty()) return;  // Each iteration has been recorded.
  const LaunchTimeline& timeline = work.part ? *work.part->part.timeline : *launch.timeline;
  trace::LaunchRecord record;
  record.device = device;
  record.launch = work.item.ticket;
  record.queue = work.item.queue;
  record.queueName = work.queueName;
  const std::string& name = work.item.label.empty() ? launch.program->name : work.item.label;
  std::string label;  // With the sizes: one recipe's launches differ in them.
  if (launch.sizes) label = name + " (" + *launch.sizes + ")";
  if (work.part) label = (launch.sizes ? label : name) + "/" + work.part->path;
  record.label = launch.sizes || work.part ? label : name;
  record.program = work.part ? work.part->part.program : launch.program;
  record.start = work.start;
  record.end = work.end;
  if (work.placement) {
    record.queues = &timeline.queues;
    record.intervals = &work.placement->intervals(timeline);
    record.offset = work.placement->offset;
  }
  trace::recordLaunch(record);
}

trace::SpanRecord spanOf(uint32_t device, const ResolvedWork& work) {
  trace::SpanRecord record;
  record.device = device;
  record.queue = work.item.queue;
  record.queueName = work.queueName;
  record.launch = work.item.ticket;
  return record;
}

void traceLink(uint32_t device, const ResolvedWork& work) {
  auto part = [&](trace::Track track, std::string_view name, const perfmodel::Cost& cost, Picoseconds ready,
                  Picoseconds start) {
    trace::SpanRecord record;
    record.device = device;
    record.queue = work.item.queue;
    record.queueName = work.queueName;
    record.launch = work.item.ticket;
    record.track = track;
    record.name = name;
    record.category = "copy";
    record.ready = ready;
    record.start = start;
    record.end = start + cost.alone;
    record.bytes = cost.bytes;
    record.terms = cost.terms;
    record.terms[static_cast<size_t>(perfmodel::Term::kSync)] += start - ready;
    trace::recordSpan(record);
  };
  const LinkUse& link = *work.link;
  if (link.readBytes > 0) part(trace::Track::kHostToDevice, "read host memory", link.read, work.ready, work.readStart);
  if (link.writtenBytes > 0)
    part(trace::Track::kDeviceToHost, "write host memory", link.written, work.writeStart, work.writeStart);
}

void traceExternal(uint32_t device, const ResolvedWork& work) {
  trace::SpanRecord record = spanOf(device, work);
  record.track = trace::Track::kNic;
  record.name = work.item.label;
  record.category = "external";
  record.ready = record.start = work.start;
  record.end = work.end;
  trace::recordSpan(record);
  if (trace::recordingLevel() == trace::Level::kApi) return;
  record.track = trace::Track::kNetwork;
  for (const ExternalSpan& span : work.external->spans) {
    record.name = span.name;
    record.start = std::clamp<Picoseconds>(span.startPs, work.start, work.end);
    record.end = std::clamp<Picoseconds>(span.endPs, record.start, work.end);
    record.ready = record.start;
    trace::recordSpan(record);
  }
}

void traceTransfer(uint32_t device, const ResolvedWork& work, const TimedTransfer& transfer) {
  trace::SpanRecord record = spanOf(device, work);
  record.track = static_cast<trace::Track>(transfer.resource);
  record.name = transfer.what;
  record.category = work.item.label.empty() ? std::string_view(transfer.what == "fill" ? "fill" : "copy")
                                            : std::string_view(work.item.label);
  record.ready = work.ready;
  record.start = work.start;
  record.end = work.end;
  if (work.link) {
    if (transfer.cost.alone == 0) return;  // The link did all of it.
    if (work.link->writtenBytes > 0) record.end = work.writeStart;
    record.start = record.end - transfer.cost.alone;
    record.ready = record.start;
  }
  record.bytes = transfer.cost.bytes;
  record.terms = transfer.cost.terms;
  record.terms[static_cast<size_t>(perfmodel::Term::kSync)] += record.start - record.ready;
  trace::recordSpan(record);
}

}  // namespace

void traceWork(const DeviceInfo& device, std::string_view clockProfile, const ResolvedWork& work) {
  if (!trace::recording()) return;
  const auto index = static_cast<uint32_t>(device.index);
  trace::recordDevice(index, device.target, device.name, clockProfile);
  if (work.link) traceLink(index, work);
  visitWork(
      work.item.work, [&](const TimedProgram& launch) { traceLaunch(index, work, launch); },
      [&](const TimedExternal&) { traceExternal(index, work); },
      [&](const TimedTransfer& transfer) { traceTransfer(index, work, transfer); }, [](const TimedWait&) {},
      [](const TimedMarker&) {});
}

}  // namespace hpu::driver
