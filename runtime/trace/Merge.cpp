// SPDX-License-Identifier: Apache-2.0
// Devices' chunks are copied under their new index; threads are written anew with shifted times.
#include "runtime/trace/Merge.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/StatusMacros.h"
#include "hpu/version.h"
#include "runtime/trace/EventStream.h"
#include "runtime/trace/Reader.h"

namespace hpu::trace {
namespace {

using format::ChunkType;
using format::DomainKind;
using format::Encoder;
using format::Tag;

/// A process of an input, with where it goes.
struct Source {
  size_t input = 0, process = 0;
  int64_t offset = 0;  ///< Of its start in the merged trace.
  bool exact = true;
};

class Merger {
 public:
  Merger(const std::vector<MergeInput>& inputs, Align align) : inputs_(inputs), align_(align) {}

  StatusOr<Merged> merge() {
    if (inputs_.empty()) return invalidArgument("there is no trace to merge");
    for (size_t i = 0; i < inputs_.size(); ++i)
      for (size_t p = 0; p < trace(i).processes.size(); ++p) sources_.push_back({i, p, 0, true});
    HPU_RETURN_IF_ERROR(refuseTwins());
    HPU_RETURN_IF_ERROR(alignClocks());
    numberDevices();
    writeSession();
    for (size_t i = 0; i < inputs_.size(); ++i) writeDevices(i);
    for (size_t i = 0; i < inputs_.size(); ++i) HPU_RETURN_IF_ERROR(writeThreads(i));
    for (const Source& s : sources_) writeProcess(s);
    writeEnd();
    // What is written must be readable: sums of times of crafted files may not be.
    HPU_RETURN_IF_ERROR(readTrace(out_.bytes.data(), out_.bytes.size(), nullptr, "the merged trace").status());
    return std::move(out_);
  }

 private:
  const TraceData& trace(size_t input) const { return *inputs_[input].trace; }
  const TracedProcess& process(const Source& s) const { return trace(s.input).processes[s.process]; }
  const std::string& path(const Source& s) const { return inputs_[s.input].path; }

  Status refuseTwins() const {
    for (size_t a = 0; a < sources_.size(); ++a)
      for (size_t b = a + 1; b < sources_.size(); ++b) {
        const TracedProcess &x = process(sources_[a]), &y = process(sources_[b]);
        if (x.pid == y.pid && x.host == y.host && x.wallNs == y.wallNs && x.clockNs == y.clockNs)
          return invalidArgument("'" + path(sources_[a]) + "' and '" + path(sources_[b]) +
                                 "' hold the same recording (process " + std::to_string(x.pid) + "); give each once");
      }
    return okStatus();
  }

  /// Offsets from the first process, then from the earliest.
  Status alignClocks() {
    const Source& first = sources_[0];
    std::map<std::string_view, const Source*> known;  // By machine.
    for (Source& s : sources_) {
      const TracedProcess& p = process(s);
      if (align_ == Align::kStart) {
        s.offset = p.startNs;
        s.exact = s.input == first.input;
        continue;
      }
      // The same machine's clock; else what the file that both are in says.
      const Source *sameHost = nullptr, *sameFile = nullptr;
      if (auto found = known.find(p.host); !p.host.empty() && found != known.end()) sameHost = found->second;
      for (const Source& other : sources_)
        if (!sameFile && &other < &s && other.input == s.input) sameFile = &other;
      if (const Source* mate = sameHost ? sameHost : sameFile) {
        const TracedProcess& q = process(*mate);
        bool far = sameHost ? __builtin_sub_overflow(p.clockNs, q.clockNs, &s.offset)
                            : __builtin_sub_overflow(p.startNs, q.startNs, &s.offset);
        if (far || __builtin_add_overflow(s.offset, mate->offset, &s.offset)) return tooFar(s);
        s.exact = mate->exact;
      } else if (&s != &first) {
        HPU_RETURN_IF_ERROR(alignByWall(s, first));
      }
      if (!p.host.empty()) known.emplace(p.host, &s);
    }
    int64_t least = earliest().offset;
    for (Source& s : sources_)
      if (__builtin_sub_overflow(s.offset, least, &s.offset)) return tooFar(s);
    return okStatus();
  }

  Status alignByWall(Source& s, const Source& first) const {
    const TracedProcess &p = process(s), &q = process(first);
    bool unknown = p.host.empty() || q.host.empty();
    if (align_ != Align::kWall)
      return failedPrecondition(
          "'" + path(first) + "' and '" + path(s) + "' " +
          (unknown ? "do not both say which machine recorded them" : "were recorded on different machines or boots") +
          ", so how their host clocks lie to each other is not known; --align wall goes by the "
          "machines' wall clocks, --align start lets all begin at 0");
    if (!p.wallNs || !q.wallNs)
      return failedPrecondition("'" + path(p.wallNs ? first : s) +
                                "' does not say when it was recorded (an older OpenHPU wrote it); "
                                "--align start lets all begin at 0");
    s.exact = false;
    return __builtin_sub_overflow(p.wallNs, q.wallNs, &s.offset) ? tooFar(s) : okStatus();
  }
  Status tooFar(const Source& s) const {
    return outOfRange("'" + path(s) + "' lies too far from '" + path(sources_[0]) + "' in time for one trace");
  }

  /// A device keeps its index when no earlier recording has it; others get the smallest free one.
  void numberDevices() {
    std::set<uint32_t> used;
    devices_.resize(inputs_.size());
    for (size_t i = 0; i < inputs_.size(); ++i)
      for (const TracedDevice& d : trace(i).devices)
        if (used.insert(d.index).second) devices_[i][d.index] = d.index;
    uint32_t next = 0;
    for (size_t i = 0; i < inputs_.size(); ++i)
      for (const TracedDevice& d : trace(i).devices) {
        if (devices_[i].count(d.index)) continue;
        while (!used.insert(next).second) ++next;
        devices_[i][d.index] = next;
        out_.renumbered.push_back({i, d.index, next});
      }
  }

  /// What has to be added to host times of the process.
  int64_t shift(const Source& s) const { return sum(s.offset, -process(s).startNs); }
  /// Saturates: the reader refuses such times.
  static int64_t sum(int64_t a, int64_t b) {
    int64_t out = 0;
    return __builtin_add_overflow(a, b, &out) ? (b < 0 ? INT64_MIN : INT64_MAX) : out;
  }
  const Source& earliest() const {
    return *std::min_element(sources_.begin(), sources_.end(),
                             [](const Source& a, const Source& b) { return a.offset < b.offset; });
  }

  void writeSession() {
    const TracedProcess& p = process(earliest());
    auto level = Level::kSlice;
    int64_t maxEvents = 0;
    for (const MergeInput& input : inputs_) {
      level = std::min(level, input.trace->level);
      if (__builtin_add_overflow(maxEvents, input.trace->maxEvents, &maxEvents)) maxEvents = INT64_MAX;
    }
    std::vector<uint8_t> payload;
    Encoder e(payload);
    e.text("OpenHPU " HPU_VERSION_STRING);
    e.varint(p.pid);
    e.varint(static_cast<uint64_t>(level));
    e.varint(static_cast<uint64_t>(maxEvents));
    e.signedVarint(p.clockNs);
    e.text(p.host);
    e.signedVarint(p.wallNs);
    e.text(p.name);
    format::appendFileHeader(out_.bytes);
    format::appendChunk(out_.bytes, ChunkType::kSession, 0, 1, payload);
  }

  void writeDevices(size_t input) {
    format::forEachChunk(trace(input).bytes, trace(input).fileBytes,
                         [&](ChunkType type, uint32_t domain, uint32_t records, const uint8_t* data, size_t bytes) {
                           if (type != ChunkType::kStrings && type != ChunkType::kRecords) return;
                           if (format::domainKind(domain) != DomainKind::kDevice) return;
                           uint32_t index = devices_[input][format::domainIndex(domain)];
                           format::appendChunk(out_.bytes, type, format::domainId(DomainKind::kDevice, index), records,
                                               std::vector<uint8_t>(data, data + bytes));
                         });
  }

  Status writeThreads(size_t input) {
    const TraceData& t = trace(input);
    for (const HostThread& thread : t.threads) {
      const Source& source = sourceOf(input, thread.process);
      uint32_t index = nextThread_++;
      threads_[{input, thread.process}].push_back(index);
      EventStream stream(format::domainId(DomainKind::kThread, index));
      if (!writeThread(t, thread, shift(source), devices_[input], stream)) return tooFar(source);
      stream.flush();
      out_.bytes.insert(out_.bytes.end(), stream.finished().begin(), stream.finished().end());
    }
    return okStatus();
  }

  /// False when a time leaves the range of numbers.
  static bool writeThread(const TraceData& t, const HostThread& thread, int64_t shift,
                          const std::map<uint32_t, uint32_t>& devices, EventStream& stream) {
    bool fits = true;
    auto time = [&](Encoder& record, int64_t value) {
      int64_t shifted = 0, delta = 0;
      fits &=
          !__builtin_add_overflow(value, shift, &shifted) && !__builtin_sub_overflow(shifted, stream.last(0), &delta);
      record.signedVarint(delta);
      stream.last(0) = shifted;
    };
    uint32_t threadName = stream.intern(t.text(thread.name));
    Encoder head = stream.beginRecord(Tag::kThread);
    head.varint(static_cast<uint64_t>(thread.tid));
    head.varint(threadName);
    stream.endRecord();
    for (const HostEvent& e : thread.events) {
      uint32_t name = stream.intern(t.text(e.name)), category = stream.intern(t.text(e.category));
      Encoder record = stream.beginRecord(Tag::kHostEvent);
      record.varint(name);
      record.varint(category);
      time(record, e.start);
      record.varint(static_cast<uint64_t>(e.end - e.start));
      record.varint(e.numArgs);
      for (uint32_t a = 0; a < e.numArgs; ++a) {
        const HostArg& arg = thread.args[e.firstArg + a];
        record.varint(uint64_t{stream.intern(t.text(arg.key))} << 1 | (arg.isText ? 1 : 0));
        if (arg.isText)
          record.varint(stream.intern(t.text(static_cast<StringId>(arg.value))));
        else
          record.signedVarint(arg.value);
      }
      stream.endRecord();
    }
    for (const CounterSample& c : thread.counters) {
      uint32_t name = stream.intern(t.text(c.name));
      Encoder record = stream.beginRecord(Tag::kHostCounter);
      record.varint(name);
      time(record, c.time);
      record.signedVarint(c.value);
      stream.endRecord();
    }
    for (const ClockEdgeEvent& e : thread.edges) {
      auto device = devices.find(e.device);
      if (device == devices.end()) continue;  // Of a device that recorded nothing.
      Encoder record = stream.beginRecord(Tag::kClockEdge);
      record.varint(device->second);
      record.varint(e.launch);
      record.varint(static_cast<uint64_t>(e.edge));
      time(record, e.hostTime);
      record.signedVarint(e.deviceTime);
      stream.endRecord();
    }
    return fits;
  }

  const Source& sourceOf(size_t input, size_t process) const {
    for (const Source& s : sources_)
      if (s.input == input && s.process == process) return s;
    return sources_[0];
  }

  void writeProcess(const Source& s) {
    const TracedProcess& p = process(s);
    std::vector<uint8_t> payload;
    Encoder e(payload);
    e.varint(p.pid);
    e.text(p.producer);
    e.text(p.name);
    e.text(p.host);
    e.varint(static_cast<uint64_t>(p.level));
    e.varint(static_cast<uint64_t>(p.dropped));
    e.varint(p.stopped ? 1 : 0);
    e.signedVarint(s.offset);
    e.signedVarint(sum(p.endNs, shift(s)));
    e.signedVarint(p.clockNs);
    e.signedVarint(p.wallNs);
    const std::vector<uint32_t>& threads = threads_[{s.input, s.process}];
    e.varint(threads.size());
    for (uint32_t thread : threads) e.varint(thread);
    std::vector<const TracedDevice*> devices;
    for (const TracedDevice& d : trace(s.input).devices)
      if (d.process == s.process) devices.push_back(&d);
    e.varint(devices.size());
    for (const TracedDevice* d : devices) {
      e.varint(devices_[s.input][d->index]);
      e.varint(d->indexThere);
    }
    format::appendChunk(out_.bytes, ChunkType::kProcess, 0, 1, payload);
    out_.processes.push_back({s.input, p.pid, std::string(p.name), s.offset, s.exact});
  }

  void writeEnd() {
    int64_t dropped = 0, recorded = 0, last = 0;
    for (const MergeInput& input : inputs_) {
      if (__builtin_add_overflow(dropped, input.trace->dropped, &dropped)) dropped = INT64_MAX;
      recorded += input.trace->numEvents();
    }
    for (const Source& s : sources_) last = std::max(last, sum(process(s).endNs, shift(s)));
    std::vector<uint8_t> payload;
    Encoder e(payload);
    e.varint(static_cast<uint64_t>(dropped));
    e.varint(static_cast<uint64_t>(recorded));
    e.signedVarint(sum(process(earliest()).clockNs, last));
    format::appendChunk(out_.bytes, ChunkType::kEnd, 0, 1, payload);
  }

  const std::vector<MergeInput>& inputs_;
  Align align_;
  std::vector<Source> sources_;
  std::vector<std::map<uint32_t, uint32_t>> devices_;                   ///< By input: old index to new.
  std::map<std::pair<size_t, size_t>, std::vector<uint32_t>> threads_;  ///< By input and process.
  uint32_t nextThread_ = 0;
  Merged out_;
};

}  // namespace

StatusOr<Merged> mergeTraces(const std::vector<MergeInput>& inputs, Align align) {
  return Merger(inputs, align).merge();
}

}  // namespace hpu::trace
