// SPDX-License-Identifier: Apache-2.0
// A recording as plain data: the events and tracks of hpu/trace.h.
// The one thing to know: tracks are numbered as in the Chrome format: threads from 1; engines of a device from 1
// and its queues from 100.
#include <map>
#include <memory>

#include "base/StatusMacros.h"
#include "hpu/trace.h"
#include "runtime/trace/ExportTracks.h"
#include "runtime/trace/Reader.h"

namespace hpu::trace {
namespace {

constexpr uint32_t kQueueTrack = 100;

StatusOr<TraceData> parse(const Recording& recording) {
  return readTrace(recording.bytes.data(), recording.bytes.size(), nullptr, "the recording");
}

uint32_t trackOf(const HostThread& thread) {
  return thread.index + 1;
}
uint32_t trackOf(Track track) {
  return static_cast<uint32_t>(track) + 1;
}

void addHost(const TraceData& trace, const HostThread& thread, std::vector<Event>& events) {
  for (const HostEvent& e : thread.events) {
    Event event;
    event.track = trackOf(thread);
    event.name = trace.text(e.name);
    event.category = trace.text(e.category);
    event.startPs = e.start * 1000;
    event.durationPs = (e.end - e.start) * 1000;
    for (uint32_t i = 0; i < e.numArgs; ++i) {
      const HostArg& arg = thread.args[e.firstArg + i];
      event.arguments.push_back(
          {std::string(trace.text(arg.key)),
           arg.isText ? std::string(trace.text(static_cast<StringId>(arg.value))) : std::to_string(arg.value)});
    }
    events.push_back(std::move(event));
  }
  for (const CounterSample& c : thread.counters) {
    Event event;
    event.kind = Event::Kind::kCounter;
    event.track = trackOf(thread);
    event.name = trace.text(c.name);
    event.startPs = c.time * 1000;
    event.value = c.value;
    events.push_back(std::move(event));
  }
}

void addDevice(const TraceData& trace, const TracedDevice& device, std::vector<Event>& events) {
  auto index = static_cast<int32_t>(device.index);
  for (const LaunchEvent& e : device.launches) {
    Event event;
    event.device = index;
    event.track = kQueueTrack + e.queue;
    event.name = trace.text(e.label);
    event.category = "launch";
    event.startPs = e.start;
    event.durationPs = e.end - e.start;
    event.launch = e.launch;
    event.queue = e.queue;
    if (e.program) event.program = trace.text(device.programs[e.program - 1].name);
    events.push_back(std::move(event));
  }
  forEachSlice(device, [&](const EngineSlice& s) {
    Event event;
    event.device = index;
    event.track = trackOf(s.track);
    event.name = trace.text(s.name);
    event.category = s.category ? trace.text(s.category) : trackName(s.track);
    event.startPs = s.start;
    event.durationPs = s.end - s.start;
    event.launch = s.launch;
    event.queue = s.queue;
    event.program = trace.text(s.program);
    if (s.nodes) event.arguments.push_back({"nodes", nodeNames(trace, s.nodes)});
    if (s.bundle) {
      event.arguments.push_back({"bundle", std::string(trace.text(s.bundle))});
      event.arguments.push_back({"slice", std::to_string(s.slice)});
    }
    if (s.bytes.hbm) event.arguments.push_back({"hbm_bytes", std::to_string(s.bytes.hbm)});
    if (s.bytes.sram) event.arguments.push_back({"sram_bytes", std::to_string(s.bytes.sram)});
    events.push_back(std::move(event));
  });
  for (const CounterSample& c : device.counters) {
    Event event;
    event.kind = Event::Kind::kCounter;
    event.device = index;
    event.name = trace.text(c.name);
    event.startPs = c.time;
    event.value = c.value;
    events.push_back(std::move(event));
  }
}

}  // namespace

StatusOr<std::vector<Event>> events(const Recording& recording) {
  HPU_ASSIGN(TraceData trace, parse(recording));
  std::vector<Event> result;
  result.reserve(static_cast<size_t>(trace.numEvents()));
  for (const HostThread& thread : trace.threads) addHost(trace, thread, result);
  for (const TracedDevice& device : trace.devices) addDevice(trace, device, result);
  return result;
}

StatusOr<std::vector<TrackName>> trackNames(const Recording& recording) {
  HPU_ASSIGN(TraceData trace, parse(recording));
  std::vector<TrackName> result;
  for (const HostThread& thread : trace.threads)
    result.push_back({-1, trackOf(thread), hostTitle(trace, thread.process), std::string(trace.text(thread.name))});
  for (const TracedDevice& device : trace.devices) {
    auto index = static_cast<int32_t>(device.index);
    std::string title = deviceTitle(trace, device);
    for (int t = 0; t < kNumTracks; ++t)
      result.push_back({index, static_cast<uint32_t>(t) + 1, title, std::string(trackName(static_cast<Track>(t)))});
    std::map<uint32_t, StringId> queues;
    for (const LaunchEvent& e : device.launches) queues.emplace(e.queue, e.queueName);
    for (auto [queue, name] : queues)
      result.push_back({index, kQueueTrack + queue, title,
                        trace.text(name).empty() ? "queue " + std::to_string(queue) : std::string(trace.text(name))});
  }
  return result;
}

}  // namespace hpu::trace
