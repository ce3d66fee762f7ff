// SPDX-License-Identifier: Apache-2.0
#include "bindings/synapse/profiler/TraceBuffer.h"

#include <algorithm>
#include <cstring>

#include "base/StatusMacros.h"

namespace hpu::synapse {
namespace {

// Processes of the viewer: the host, then the devices.
constexpr uint32_t kHostProcess = 1;
uint32_t processOf(int32_t device) {
  return device < 0 ? kHostProcess : kHostProcess + 1 + static_cast<uint32_t>(device);
}

bool wanted(int32_t device, synTraceType type, int32_t asked) {
  if (device < 0) return type != synTraceDevice;
  return type != synTraceHost && device == asked;
}

}  // namespace

uint64_t TraceBuffer::intern(const std::string& text) {
  auto [found, isNew] = offsets_.emplace(text, texts_.size());
  if (isNew) texts_.append(text.c_str(), text.size() + 1);
  return found->second;
}

StatusOr<TraceBuffer> TraceBuffer::make(const trace::Recording& recording, synTraceType type, int32_t device) {
  HPU_ASSIGN(std::vector<trace::Event> events, trace::events(recording));
  HPU_ASSIGN(std::vector<trace::TrackName> tracks, trace::trackNames(recording));
  TraceBuffer buffer;
  buffer.intern("");  // At offset 0: what an entry has when it says nothing.
  // Both clocks are drawn from the recording's start: the host's times are those of synProfilerGetCurrentTimeNS.
  const int64_t originPs = recording.startNs * 1000;
  for (const trace::Event& event : events) {
    if (!wanted(event.device, type, device)) continue;
    Entry entry;
    entry.type = event.kind == trace::Event::Kind::kCounter ? 'C' : 'X';
    entry.name = buffer.intern(event.name);
    entry.category = buffer.intern(event.category);
    entry.startPs = originPs + event.startPs;
    entry.durationPs = event.durationPs;
    entry.process = processOf(event.device);
    entry.track = event.track;
    entry.launch = event.launch;
    entry.queue = event.queue;
    entry.value = static_cast<uint64_t>(event.value);
    entry.program = buffer.intern(event.program);
    entry.firstArgument = buffer.arguments_.size();
    entry.numArguments = std::min<size_t>(event.arguments.size(), UINT8_MAX);
    for (size_t i = 0; i < entry.numArguments; ++i)
      buffer.arguments_.push_back({buffer.intern(event.arguments[i].key), buffer.intern(event.arguments[i].text)});
    buffer.events_.push_back(entry);
  }
  for (const trace::TrackName& track : tracks) {
    if (!wanted(track.device, type, device)) continue;
    for (bool process : {true, false}) {
      Entry entry;
      entry.type = 'M';
      entry.name = buffer.intern(process ? "process_name" : "thread_name");
      entry.process = processOf(track.device);
      entry.track = process ? 0 : track.track;
      entry.program = buffer.intern(process ? track.process : track.name);
      entry.group = buffer.intern(track.process);
      buffer.events_.push_back(entry);
    }
  }
  return buffer;
}

uint64_t TraceBuffer::bytes() const {
  uint64_t texts = (texts_.size() + 7) & ~uint64_t{7};
  return events_.size() * sizeof(synTraceEvent) + arguments_.size() * sizeof(synTraceEventArg) + texts +
         2 * sizeof(uint64_t);
}

void TraceBuffer::writeTo(void* buffer) const {
  auto* out = static_cast<char*>(buffer);
  std::memset(out, 0, bytes());
  char* arguments = out + events_.size() * sizeof(synTraceEvent);
  char* texts = arguments + arguments_.size() * sizeof(synTraceEventArg);
  // The buffer is the caller's and may lie anywhere: it is written by memcpy.
  for (size_t i = 0; i < arguments_.size(); ++i) {
    synTraceEventArg argument{};
    argument.key = texts + arguments_[i].key;
    argument.type = synTraceEventArg::TYPE_CHAR_PTR;
    argument.value.str = texts + arguments_[i].text;
    std::memcpy(arguments + i * sizeof(argument), &argument, sizeof(argument));
  }
  for (size_t i = 0; i < events_.size(); ++i) {
    const Entry& entry = events_[i];
    synTraceEvent event;
    std::memset(&event, 0, sizeof(event));
    event.name = texts + entry.name;
    event.category = texts + entry.category;
    event.type = entry.type;
    event.timestamp = static_cast<long double>(entry.startPs) / 1e6L;
    event.duration = static_cast<long double>(entry.durationPs) / 1e6L;
    event.engineType = entry.process;
    event.engineIndex = entry.track;
    event.contextId = entry.launch;
    if (entry.type == 'M') {
      event.arguments.name = texts + entry.program;
      event.arguments.group = texts + entry.group;
    } else if (entry.type == 'C') {
      event.arguments.value = entry.value;
    } else {
      event.arguments.dataType = texts;
      event.arguments.operation = texts + entry.name;
      event.arguments.recipeName = texts + entry.program;
      event.arguments.streamHandle = entry.queue;
      event.arguments.extraArgs.count = static_cast<uint8_t>(entry.numArguments);
      event.arguments.extraArgs.args =
          reinterpret_cast<const synTraceEventArg*>(arguments + entry.firstArgument * sizeof(synTraceEventArg));
    }
    std::memcpy(out + i * sizeof(event), &event, sizeof(event));
  }
  std::memcpy(texts, texts_.data(), texts_.size());
  uint64_t tail[2] = {events_.size(), kVersion};
  std::memcpy(out + bytes() - sizeof(tail), tail, sizeof(tail));
}

}  // namespace hpu::synapse
