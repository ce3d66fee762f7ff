// SPDX-License-Identifier: Apache-2.0
// Perfetto's protobuf trace, encoded by hand. Field numbers are those of Perfetto's public .proto
// files (trace_packet, track_event, track_descriptor, interned_data, clock_snapshot).
#include <map>
#include <set>
#include <unordered_map>

#include "base/StatusMacros.h"
#include "runtime/trace/Export.h"
#include "runtime/trace/ExportTracks.h"

namespace hpu::trace {
namespace {

/// A protobuf message under construction.
class Message {
 public:
  void varint(uint32_t field, uint64_t value) {
    raw(uint64_t{field} << 3);
    raw(value);
  }
  void bytes(uint32_t field, std::string_view value) {
    raw(uint64_t{field} << 3 | 2);
    raw(value.size());
    bytes_.append(value);
  }
  void message(uint32_t field, const Message& value) { bytes(field, value.bytes_); }
  void fixed64(uint32_t field, uint64_t value) {
    raw(uint64_t{field} << 3 | 1);
    for (int i = 0; i < 8; ++i) bytes_ += static_cast<char>(value >> (8 * i));
  }
  const std::string& data() const { return bytes_; }
  bool empty() const { return bytes_.empty(); }

 private:
  void raw(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }
  std::string bytes_;
};

namespace field {
constexpr uint32_t kTracePacket = 1;
// TracePacket
constexpr uint32_t kClockSnapshot = 6, kTimestamp = 8, kSequence = 10, kTrackEvent = 11, kInternedData = 12,
                   kSequenceFlags = 13, kTimestampClock = 58, kTrackDescriptor = 60;
// ClockSnapshot, Clock
constexpr uint32_t kClocks = 1, kPrimaryClock = 2, kClockId = 1, kClockTime = 2;
// TrackDescriptor
constexpr uint32_t kUuid = 1, kTrackName = 2, kProcess = 3, kThread = 4, kParent = 5, kCounter = 8;
constexpr uint32_t kPid = 1, kTid = 2, kThreadName = 5, kProcessName = 6;
// TrackEvent
constexpr uint32_t kCategoryIids = 3, kAnnotations = 4, kType = 9, kNameIid = 10, kTrackUuid = 11, kCounterValue = 30;
// DebugAnnotation
constexpr uint32_t kAnnotationNameIid = 1, kAnnotationInt = 4, kAnnotationString = 6;
// InternedData
constexpr uint32_t kCategories = 1, kNames = 2, kAnnotationNames = 3, kIid = 1, kInternedName = 2;
}  // namespace field

constexpr uint64_t kSliceBegin = 1, kSliceEnd = 2, kCounterSample = 4;
constexpr uint64_t kStateCleared = 1, kNeedsState = 2;
// MONOTONIC for the host; ids from 64 on are custom clocks of the sequence that takes their
// snapshot.
constexpr uint64_t kMonotonic = 3, kDeviceClock = 64;

class PerfettoWriter {
 public:
  PerfettoWriter(const TraceData& trace, const Output& out) : trace_(trace), out_(out) {}

  Status write() {
    clockSnapshot(kHostSequence, false, 0);
    std::vector<bool> named(trace_.processes.size());
    for (const HostThread& thread : trace_.threads) {
      if (named[thread.process]) continue;
      named[thread.process] = true;
      processTrack(hostUuid(thread), trace_.processes[thread.process].pid, hostTitle(trace_, thread.process));
    }
    for (const HostThread& thread : trace_.threads) HPU_RETURN_IF_ERROR(hostThread(thread));
    for (const TracedDevice& device : trace_.devices) HPU_RETURN_IF_ERROR(deviceTracks(device));
    return flush(0);
  }

 private:
  /// Of the host side of the thread's process. Threads have 0x1000 and 24 bits more.
  static uint64_t hostUuid(const HostThread& thread) {
    return thread.process == 0 ? 1 : 0x2000000 + uint64_t{thread.process};
  }
  // Packets of one sequence share interned names: the host is 1, the devices follow.
  static constexpr uint64_t kHostSequence = 1;

  /// Names of one sequence. Perfetto numbers each kind from 1.
  struct Interning {
    std::unordered_map<StringId, uint64_t> names, categories;
    std::unordered_map<std::string, uint64_t> keys;
    bool started = false;
  };

  Status flush(size_t least) {
    if (text_.size() <= least) return okStatus();
    Status status = out_(text_);
    text_.clear();
    return status;
  }
  void packet(const Message& body) {
    Message outer;
    outer.message(field::kTracePacket, body);
    text_ += outer.data();
  }

  /// What the sequence's clocks are. Device time 0 is drawn at its process's start, and this is
  /// said once only, since more points would warp device time.
  void clockSnapshot(uint64_t sequence, bool device, int64_t sinceStart) {
    Message snapshot;
    auto add = [&](uint64_t id, uint64_t time) {
      Message clock;
      clock.varint(field::kClockId, id);
      clock.varint(field::kClockTime, time);
      snapshot.message(field::kClocks, clock);
    };
    add(kMonotonic, hostTime(sinceStart));
    if (device) add(kDeviceClock, 0);
    snapshot.varint(field::kPrimaryClock, kMonotonic);
    Message body;
    body.message(field::kClockSnapshot, snapshot);
    body.varint(field::kSequence, sequence);
    packet(body);
  }
  uint64_t hostTime(int64_t sinceStart) const {
    int64_t time = 0;
    if (__builtin_add_overflow(trace_.startNs, sinceStart, &time) || time < 0) return 0;
    return static_cast<uint64_t>(time);
  }
  static uint64_t deviceTime(Picoseconds time) { return time < 0 ? 0 : static_cast<uint64_t>(time / 1000); }

  void descriptor(const Message& track) {
    Message body;
    body.message(field::kTrackDescriptor, track);
    body.varint(field::kSequence, kHostSequence);
    packet(body);
  }
  void processTrack(uint64_t uuid, uint64_t pid, const std::string& name) {
    Message process, track;
    process.varint(field::kPid, pid & 0x7fffffff);
    process.bytes(field::kProcessName, toUtf8(name));
    track.varint(field::kUuid, uuid);
    track.message(field::kProcess, process);
    descriptor(track);
  }
  void namedTrack(uint64_t uuid, uint64_t parent, std::string_view name, bool isCounter = false) {
    Message track;
    track.varint(field::kUuid, uuid);
    track.varint(field::kParent, parent);
    track.bytes(field::kTrackName, toUtf8(name));
    if (isCounter) track.message(field::kCounter, Message());
    descriptor(track);
  }

  uint64_t intern(std::unordered_map<StringId, uint64_t>& table, uint32_t kind, StringId id, Message& interned) {
    auto [entry, isNew] = table.try_emplace(id, table.size() + 1);
    if (isNew) addInterned(kind, entry->second, trace_.text(id).empty() ? "(no name)" : trace_.text(id), interned);
    return entry->second;
  }
  static void addInterned(uint32_t kind, uint64_t iid, std::string_view name, Message& interned) {
    Message entry;
    entry.varint(field::kIid, iid);
    entry.bytes(field::kInternedName, toUtf8(name));
    interned.message(kind, entry);
  }

  /// A TrackEvent with the names that it is the first to use.
  struct Event {
    Message body, interned;
  };
  void annotateNumber(Interning& names, Event& e, const std::string& key, int64_t value) {
    Message annotation;
    annotation.varint(field::kAnnotationNameIid, keyIid(names, e, key));
    annotation.varint(field::kAnnotationInt, static_cast<uint64_t>(value));
    e.body.message(field::kAnnotations, annotation);
  }
  void annotateText(Interning& names, Event& e, const std::string& key, std::string_view value) {
    Message annotation;
    annotation.varint(field::kAnnotationNameIid, keyIid(names, e, key));
    annotation.bytes(field::kAnnotationString, toUtf8(value));
    e.body.message(field::kAnnotations, annotation);
  }
  uint64_t keyIid(Interning& names, Event& e, const std::string& key) {
    auto [entry, isNew] = names.keys.try_emplace(key, names.keys.size() + 1);
    if (isNew) addInterned(field::kAnnotationNames, entry->second, key, e.interned);
    return entry->second;
  }
  Event beginSlice(Interning& names, uint64_t track, StringId name, StringId category) {
    Event e;
    e.body.varint(field::kType, kSliceBegin);
    e.body.varint(field::kTrackUuid, track);
    e.body.varint(field::kNameIid, intern(names.names, field::kNames, name, e.interned));
    if (category)
      e.body.varint(field::kCategoryIids, intern(names.categories, field::kCategories, category, e.interned));
    return e;
  }
  void emit(Interning& names, uint64_t sequence, uint64_t clock, uint64_t time, const Event& e) {
    Message body;
    body.varint(field::kTimestamp, time);
    body.varint(field::kTimestampClock, clock);
    body.varint(field::kSequence, sequence);
    body.varint(field::kSequenceFlags, names.started ? kNeedsState : kStateCleared | kNeedsState);
    names.started = true;
    if (!e.interned.empty()) body.message(field::kInternedData, e.interned);
    body.message(field::kTrackEvent, e.body);
    packet(body);
  }
  void emitEnd(Interning& names, uint64_t sequence, uint64_t clock, uint64_t time, uint64_t track) {
    Event e;
    e.body.varint(field::kType, kSliceEnd);
    e.body.varint(field::kTrackUuid, track);
    emit(names, sequence, clock, time, e);
  }
  void emitCounter(Interning& names, uint64_t sequence, uint64_t clock, uint64_t time, uint64_t track, int64_t value) {
    Event e;
    e.body.varint(field::kType, kCounterSample);
    e.body.varint(field::kTrackUuid, track);
    e.body.varint(field::kCounterValue, static_cast<uint64_t>(value));
    emit(names, sequence, clock, time, e);
  }

  Status hostThread(const HostThread& thread) {
    uint64_t uuid = 0x1000 + thread.index, counters = 0x100000000 + (uint64_t{thread.index} << 16);
    Message inner, track;
    inner.varint(field::kPid, trace_.processes[thread.process].pid & 0x7fffffff);
    inner.varint(field::kTid, static_cast<uint64_t>(thread.tid) & 0x7fffffff);
    inner.bytes(field::kThreadName, toUtf8(trace_.text(thread.name)));
    track.varint(field::kUuid, uuid);
    track.varint(field::kParent, hostUuid(thread));
    track.message(field::kThread, inner);
    descriptor(track);

    // Begin and end events in time order; on a tie what encloses begins first and ends last.
    std::vector<uint32_t> byStart(thread.events.size());
    for (uint32_t i = 0; i < byStart.size(); ++i) byStart[i] = i;
    std::sort(byStart.begin(), byStart.end(), [&](uint32_t a, uint32_t b) {
      const HostEvent &x = thread.events[a], &y = thread.events[b];
      if (x.start != y.start) return x.start < y.start;
      if (x.end != y.end) return x.end > y.end;
      return a > b;
    });
    std::vector<int64_t> open;
    auto closeUntil = [&](int64_t time) {
      while (!open.empty() && open.back() <= time) {
        emitEnd(host_, kHostSequence, kMonotonic, hostTime(open.back()), uuid);
        open.pop_back();
      }
    };
    for (uint32_t i : byStart) {
      const HostEvent& e = thread.events[i];
      closeUntil(e.start);
      Event event = beginSlice(host_, uuid, e.name, e.category);
      for (uint32_t a = 0; a < e.numArgs; ++a) {
        const HostArg& arg = thread.args[e.firstArg + a];
        std::string key(trace_.text(arg.key));
        if (arg.isText)
          annotateText(host_, event, key, trace_.text(static_cast<StringId>(arg.value)));
        else
          annotateNumber(host_, event, key, arg.value);
      }
      emit(host_, kHostSequence, kMonotonic, hostTime(e.start), event);
      // Calls of one thread nest; what a clock's grain makes stick out is cut to its parent.
      open.push_back(open.empty() ? e.end : std::min(e.end, open.back()));
      HPU_RETURN_IF_ERROR(flush(kPieceBytes));
    }
    closeUntil(INT64_MAX);
    HPU_RETURN_IF_ERROR(counterTracks(thread.counters, counters, hostUuid(thread), host_, kHostSequence, kMonotonic,
                                      [&](int64_t time) { return hostTime(time); }));
    return flush(kPieceBytes);
  }

  template <typename Time>
  Status counterTracks(const std::vector<CounterSample>& samples, uint64_t firstUuid, uint64_t parent, Interning& names,
                       uint64_t sequence, uint64_t clock, Time&& time) {
    std::map<StringId, uint64_t> tracks;
    for (const CounterSample& c : samples) {
      auto [entry, isNew] = tracks.try_emplace(c.name, firstUuid + tracks.size());
      if (isNew) namedTrack(entry->second, parent, trace_.text(c.name), true);
      emitCounter(names, sequence, clock, time(c.time), entry->second, c.value);
      HPU_RETURN_IF_ERROR(flush(kPieceBytes));
    }
    return okStatus();
  }

  Status deviceTracks(const TracedDevice& device) {
    uint64_t base = 0x10000000000 + (uint64_t{device.index} << 32);
    uint64_t sequence = 2 + device.index, clock = kDeviceClock;
    clockSnapshot(sequence, true, trace_.processes[device.process].startNs);
    Interning names;
    processTrack(base, 0x40000000 + device.index, deviceTitle(trace_, device) + " device clock");
    TrackRows rows;
    std::set<uint64_t> described;
    Status status;
    auto slice = [&](const EngineSlice& s) {
      if (!status.ok()) return;
      const size_t row = rows.rowOf(s);
      // Further rows lie before the counters' tracks.
      uint64_t uuid = base + 1 + static_cast<uint64_t>(s.track) + (row ? 0x70000000 + row * 16 : 0);
      if (described.insert(uuid).second) namedTrack(uuid, base, rowName(s.track, row));
      Event e = beginSlice(names, uuid, s.name, s.category);
      annotateNumber(names, e, "launch", static_cast<int64_t>(s.launch));
      if (s.nodes) annotateText(names, e, "nodes", nodeNames(trace_, s.nodes));
      if (s.bundle) {
        annotateText(names, e, "bundle", trace_.text(s.bundle));
        annotateNumber(names, e, "slice", s.slice);
      }
      if (s.bytes.hbm) annotateNumber(names, e, "hbm_bytes", s.bytes.hbm);
      if (s.bytes.sram) annotateNumber(names, e, "sram_bytes", s.bytes.sram);
      for (size_t t = 0; t < s.terms.size(); ++t)
        if (s.terms[t])
          annotateNumber(names, e, std::string(perfmodel::termName(static_cast<perfmodel::Term>(t))) + "_ps",
                         s.terms[t]);
      emit(names, sequence, clock, deviceTime(s.start), e);
      emitEnd(names, sequence, clock, deviceTime(s.end), uuid);
      status = flush(kPieceBytes);
    };
    forEachSlice(device, slice, true);
    HPU_RETURN_IF_ERROR(status);
    std::set<uint32_t> queues;
    for (const LaunchEvent& l : device.launches) {
      uint64_t uuid = base + 0x100 + l.queue;
      if (queues.insert(l.queue).second) {
        std::string_view name = trace_.text(l.queueName);
        namedTrack(uuid, base, name.empty() ? "queue " + std::to_string(l.queue) : std::string(name));
      }
      Event e = beginSlice(names, uuid, l.label, 0);
      annotateNumber(names, e, "launch", static_cast<int64_t>(l.launch));
      if (l.program) annotateText(names, e, "program", trace_.text(device.programs[l.program - 1].name));
      emit(names, sequence, clock, deviceTime(l.start), e);
      emitEnd(names, sequence, clock, deviceTime(l.end), uuid);
      HPU_RETURN_IF_ERROR(flush(kPieceBytes));
    }
    return counterTracks(device.counters, base + 0x80000000, base, names, sequence, clock, deviceTime);
  }

  static constexpr size_t kPieceBytes = 1 << 16;
  const TraceData& trace_;
  const Output& out_;
  std::string text_;
  Interning host_;
};

}  // namespace

Status writePerfetto(const TraceData& trace, const Output& out) {
  return PerfettoWriter(trace, out).write();
}

}  // namespace hpu::trace
