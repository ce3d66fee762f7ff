// SPDX-License-Identifier: Apache-2.0
// The Trace Event Format. Times are printed from integers, so that long traces lose no digits.
#include <map>
#include <vector>

#include "base/StatusMacros.h"
#include "runtime/trace/Export.h"
#include "runtime/trace/ExportTracks.h"

namespace hpu::trace {
namespace {

constexpr size_t kPieceBytes = 1 << 16;
// Process ids in the viewer: the host side of each process, then each device.
constexpr int64_t kHostPid = 1, kDevicePid = 1000;
// Thread ids of a device: engines first, further rows of the network's tracks, then queues.
constexpr int64_t kRowTid = 8, kQueueTid = 100;
static_assert(kRowTid + 2 * TrackRows::kMaxRows <= kQueueTid);

class ChromeWriter {
 public:
  ChromeWriter(const TraceData& trace, const Output& out) : trace_(trace), out_(out) {}

  Status write() {
    text_ = "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"producer\":";
    appendJsonString(text_, trace_.producer);
    text_ += ",\"dropped_events\":" + std::to_string(trace_.dropped) +
             ",\"clocks\":\"host and device times are different clocks; each starts at its own "
             "0\"},\"traceEvents\":[";
    std::vector<bool> named(trace_.processes.size());
    for (const HostThread& thread : trace_.threads) {
      if (named[thread.process]) continue;
      named[thread.process] = true;
      metadata("process_name", hostPid(thread), 0, hostTitle(trace_, thread.process));
    }
    for (const HostThread& thread : trace_.threads) HPU_RETURN_IF_ERROR(hostThread(thread));
    for (const TracedDevice& device : trace_.devices) HPU_RETURN_IF_ERROR(deviceTracks(device));
    text_ += "\n]}\n";
    return flush(0);
  }

 private:
  Status flush(size_t least) {
    if (text_.size() <= least) return okStatus();
    Status status = out_(text_);
    text_.clear();
    return status;
  }
  void begin() {
    text_ += first_ ? "\n" : ",\n";
    first_ = false;
  }
  /// A number of 10^-digits microseconds.
  void microseconds(int64_t value, int digits) {
    if (value < 0) text_ += '-';
    uint64_t magnitude = value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
    std::string number = std::to_string(magnitude);
    auto fraction = static_cast<size_t>(digits);
    if (number.size() <= fraction) number.insert(0, fraction + 1 - number.size(), '0');
    text_.append(number, 0, number.size() - fraction);
    text_ += '.';
    text_.append(number, number.size() - fraction, fraction);
  }
  void metadata(const char* what, int64_t pid, int64_t tid, std::string_view name) {
    begin();
    text_ += std::string("{\"ph\":\"M\",\"name\":\"") + what + "\",\"pid\":" + std::to_string(pid) +
             ",\"tid\":" + std::to_string(tid) + ",\"args\":{\"name\":";
    appendJsonString(text_, name);
    text_ += "}}";
  }
  void complete(int64_t pid, int64_t tid, std::string_view name, std::string_view category, int64_t start,
                int64_t duration, int digits) {
    begin();
    text_ += "{\"ph\":\"X\",\"pid\":" + std::to_string(pid) + ",\"tid\":" + std::to_string(tid) + ",\"name\":";
    appendJsonString(text_, name.empty() ? "(no name)" : name);
    text_ += ",\"cat\":";
    appendJsonString(text_, category);
    text_ += ",\"ts\":";
    microseconds(start, digits);
    text_ += ",\"dur\":";
    microseconds(duration, digits);
    text_ += ",\"args\":{";
  }
  void counter(int64_t pid, const CounterSample& sample, int digits) {
    begin();
    text_ += "{\"ph\":\"C\",\"pid\":" + std::to_string(pid) + ",\"tid\":0,\"name\":";
    appendJsonString(text_, trace_.text(sample.name));
    text_ += ",\"ts\":";
    microseconds(sample.time, digits);
    text_ += ",\"args\":{\"value\":" + std::to_string(sample.value) + "}}";
  }
  void number(const char* key, int64_t value) {
    if (text_.back() != '{') text_ += ',';
    text_ += std::string("\"") + key + "\":" + std::to_string(value);
  }
  void string(std::string_view key, std::string_view value) {
    if (text_.back() != '{') text_ += ',';
    appendJsonString(text_, key);
    text_ += ':';
    appendJsonString(text_, value);
  }

  static int64_t hostPid(const HostThread& thread) { return kHostPid + thread.process; }
  Status hostThread(const HostThread& thread) {
    int64_t tid = static_cast<int64_t>(thread.index) + 1;
    const int64_t pid = hostPid(thread);
    metadata("thread_name", pid, tid, trace_.text(thread.name));
    for (const HostEvent& e : thread.events) {
      complete(pid, tid, trace_.text(e.name), trace_.text(e.category), e.start, e.end - e.start, 3);
      for (uint32_t i = 0; i < e.numArgs; ++i) {
        const HostArg& arg = thread.args[e.firstArg + i];
        if (arg.isText) {
          string(trace_.text(arg.key), trace_.text(static_cast<StringId>(arg.value)));
        } else {
          if (text_.back() != '{') text_ += ',';
          appendJsonString(text_, trace_.text(arg.key));
          text_ += ':' + std::to_string(arg.value);
        }
      }
      text_ += "}}";
      HPU_RETURN_IF_ERROR(flush(kPieceBytes));
    }
    for (const CounterSample& c : thread.counters) counter(pid, c, 3);
    return flush(kPieceBytes);
  }

  Status deviceTracks(const TracedDevice& device) {
    int64_t first = std::max(kDevicePid, kHostPid + static_cast<int64_t>(trace_.processes.size()));
    int64_t pid = first + static_cast<int64_t>(device.index);
    metadata("process_name", pid, 0, deviceTitle(trace_, device) + " device clock");
    TrackRows rows;
    std::map<int64_t, std::string> used;
    Status status;
    auto slice = [&](const EngineSlice& s) {
      if (!status.ok()) return;
      const size_t row = rows.rowOf(s);
      const int64_t tid = row == 0 ? static_cast<int64_t>(s.track) + 1
                                   : kRowTid + 2 * static_cast<int64_t>(row - 1) + (s.track == Track::kNetwork ? 1 : 0);
      used.try_emplace(tid, rowName(s.track, row));
      complete(pid, tid, trace_.text(s.name), s.category ? trace_.text(s.category) : trackName(s.track), s.start,
               s.end - s.start, 6);
      number("launch", static_cast<int64_t>(s.launch));
      if (s.nodes) string("nodes", nodeNames(trace_, s.nodes));
      if (s.program) string("program", trace_.text(s.program));
      if (s.bundle) string("bundle", trace_.text(s.bundle)), number("slice", s.slice);
      if (s.bytes.hbm) number("hbm_bytes", s.bytes.hbm);
      if (s.bytes.sram) number("sram_bytes", s.bytes.sram);
      for (size_t t = 0; t < s.terms.size(); ++t)
        if (s.terms[t])
          number((std::string(perfmodel::termName(static_cast<perfmodel::Term>(t))) + "_ps").c_str(), s.terms[t]);
      text_ += "}}";
      status = flush(kPieceBytes);
    };
    forEachSlice(device, slice, true);
    HPU_RETURN_IF_ERROR(status);
    std::map<uint32_t, StringId> queues;
    for (const LaunchEvent& e : device.launches) {
      queues.emplace(e.queue, e.queueName);
      complete(pid, kQueueTid + static_cast<int64_t>(e.queue), trace_.text(e.label), "launch", e.start, e.end - e.start,
               6);
      number("launch", static_cast<int64_t>(e.launch));
      if (e.program) string("program", trace_.text(device.programs[e.program - 1].name));
      text_ += "}}";
      HPU_RETURN_IF_ERROR(flush(kPieceBytes));
    }
    for (const auto& [tid, name] : used) metadata("thread_name", pid, tid, name);
    for (auto [queue, name] : queues)
      metadata("thread_name", pid, kQueueTid + static_cast<int64_t>(queue),
               trace_.text(name).empty() ? "queue " + std::to_string(queue) : std::string(trace_.text(name)));
    for (const CounterSample& c : device.counters) counter(pid, c, 6);
    return flush(kPieceBytes);
  }

  const TraceData& trace_;
  const Output& out_;
  std::string text_;
  bool first_ = true;
};

}  // namespace

Status writeChrome(const TraceData& trace, const Output& out) {
  return ChromeWriter(trace, out).write();
}

}  // namespace hpu::trace
