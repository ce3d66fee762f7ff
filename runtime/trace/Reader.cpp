// SPDX-License-Identifier: Apache-2.0
// The parser of .hputrace files. Every count is limited by the bytes that are there and every id is
// checked against what the file has defined so far.
#include "runtime/trace/Reader.h"

#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <unordered_map>

#include "base/File.h"
#include "base/MappedFile.h"
#include "base/StatusMacros.h"
#include "runtime/trace/Format.h"

namespace hpu::trace {

Terms TracedDevice::termsOf(const CommandEvent& e) const {
  const TracedCommand& command = commandOf(e);
  Terms terms = command.terms;
  terms[static_cast<size_t>(perfmodel::Term::kMemory)] += std::max<Picoseconds>(e.end - e.start - command.alone, 0);
  // A command cannot be shorter than its cost alone; should a file say so, the sum still is its
  // duration.
  Picoseconds excess = std::max<Picoseconds>(command.alone - (e.end - e.start), 0);
  for (size_t t = terms.size(); t-- > 0 && excess > 0;) {
    Picoseconds cut = std::min(terms[t], excess);
    terms[t] -= cut;
    excess -= cut;
  }
  terms[static_cast<size_t>(perfmodel::Term::kSync)] += e.start - e.ready;
  return terms;
}

int64_t TraceData::numEvents() const {
  size_t count = 0;
  for (const HostThread& t : threads) count += t.events.size() + t.counters.size() + t.edges.size();
  for (const TracedDevice& d : devices)
    count += d.launches.size() + d.commands.size() + d.spans.size() + d.details.size() + d.counters.size();
  return static_cast<int64_t>(count);
}

namespace {

using format::ChunkType;
using format::Decoder;
using format::DomainKind;
using format::Tag;

// Times of a file, and the sum of all its durations, stay below this, so that no addition overflows
// later.
constexpr uint64_t kMaxTime = uint64_t{1} << 61;

/// The strings of one domain, as ids of the whole trace.
struct Domain {
  std::vector<StringId> strings{0};
  size_t at = 0;  ///< Index of the thread or device.
};

class Reader {
 public:
  Reader(const uint8_t* data, size_t bytes, const std::string& where) : data_(data), bytes_(bytes), where_(where) {}

  StatusOr<TraceData> read(std::shared_ptr<const void> owner) {
    trace_.owner = std::move(owner);
    trace_.bytes = data_;
    trace_.fileBytes = bytes_;
    trace_.strings.push_back("");
    HPU_RETURN_IF_ERROR(header());
    size_t at = headerBytes_;
    while (at < bytes_) {
      if (bytes_ - at < format::kChunkHeaderBytes) break;
      const uint8_t* h = data_ + at;
      uint64_t payload = format::getFixed<uint64_t>(h + 16);
      offset_ = at;
      if (format::getFixed<uint32_t>(h) != format::kChunkMagic) return fail("no chunk begins here");
      if (payload > bytes_ - at - format::kChunkHeaderBytes) break;
      auto type = static_cast<ChunkType>(format::getFixed<uint16_t>(h + 4));
      uint32_t domain = format::getFixed<uint32_t>(h + 8), records = format::getFixed<uint32_t>(h + 12);
      const uint8_t* body = h + format::kChunkHeaderBytes;
      if (format::getFixed<uint64_t>(h + 24) != format::chunkChecksum(h, body, payload))
        return fail("the checksum does not match: the file was changed or damaged");
      HPU_RETURN_IF_ERROR(chunk(type, domain, records, Decoder(body, payload)));
      at += format::kChunkHeaderBytes + payload;
      ++trace_.chunks;
    }
    trace_.truncatedBytes = bytes_ - at;
    if (!sawSession_) {
      offset_ = at;
      return fail("the file ends before its session chunk");
    }
    finishProcesses();
    return std::move(trace_);
  }

 private:
  Status fail(const std::string& what) const {
    return dataLoss(where_ + ": chunk " + std::to_string(trace_.chunks) + " at byte " + std::to_string(offset_) + ": " +
                    what);
  }
  Status malformed(const char* record) const {
    return fail(std::string("a ") + record + " record is cut short or has a value out of range");
  }

  /// What a file that is no trace seems to be, and what to do about it.
  std::string whatItIs() const {
    if (bytes_ == 0) return ": it is empty";
    const std::string_view start(reinterpret_cast<const char*>(data_), std::min<size_t>(bytes_, 64));
    constexpr std::string_view kMagicText(format::kMagic, sizeof format::kMagic);
    const size_t first = start.find_first_not_of(" \t\r\n");
    const std::string again = "; to have a trace for hpu-trace, record to a name that ends in .hputrace";
    if (kMagicText.starts_with(start)) return ": it ends within its header";
    if (first != start.npos && (start[first] == '{' || start[first] == '['))
      return ": it is JSON, such as a Chrome trace, which https://ui.perfetto.dev and chrome://tracing show" + again;
    if (where_.ends_with(".pftrace"))
      return ": a Perfetto trace is for https://ui.perfetto.dev and trace_processor" + again;
    if (where_.ends_with(".csv")) return ": it is a table of slices" + again;
    if (start.starts_with("\x1f\x8b")) return ": it is compressed; unpack it with gunzip first";
    return " (it does not begin with HPUTRACE)";
  }

  Status header() {
    if (bytes_ < format::kHeaderBytes || std::memcmp(data_, format::kMagic, sizeof format::kMagic) != 0)
      return invalidArgument(where_ + " is not an .hputrace file" + whatItIs());
    uint16_t major = format::getFixed<uint16_t>(data_ + 8);
    if (major != format::kMajor)
      return failedPrecondition(where_ + " has trace format " + std::to_string(major) +
                                "; this hpu-trace reads format " + std::to_string(format::kMajor) +
                                ": use the one of the OpenHPU that recorded it");
    headerBytes_ = format::getFixed<uint32_t>(data_ + 12);
    // Of a recording that was not ended; a kEnd chunk says the last word.
    trace_.dropped =
        static_cast<int64_t>(std::min(format::getFixed<uint64_t>(data_ + format::kDroppedOffset), kMaxTime));
    if (headerBytes_ < format::kHeaderBytes || headerBytes_ > bytes_) {
      offset_ = 12;
      return fail("the header's size is wrong");
    }
    return okStatus();
  }

  Status chunk(ChunkType type, uint32_t domainId, uint32_t records, Decoder in) {
    if (!sawSession_ && type != ChunkType::kSession) return fail("the session chunk must be the first");
    switch (type) {
      case ChunkType::kSession:
        return session(in);
      case ChunkType::kEnd:
        return end(in);
      case ChunkType::kProcess:
        return process(in);
      case ChunkType::kStrings: {
        HPU_ASSIGN(Domain * domain, domainOf(domainId));
        for (uint32_t i = 0; i < records; ++i) {
          domain->strings.push_back(intern(in.text()));
          if (!in.ok()) return malformed("string");
        }
        return in.done() ? okStatus() : fail("bytes are left over");
      }
      case ChunkType::kRecords: {
        HPU_ASSIGN(Domain * domain, domainOf(domainId));
        bool device = format::domainKind(domainId) == DomainKind::kDevice;
        last_[0] = last_[1] = last_[2] = 0;
        for (uint32_t i = 0; i < records; ++i)
          HPU_RETURN_IF_ERROR(device ? deviceRecord(*domain, in) : threadRecord(*domain, in));
        return in.done() ? okStatus() : fail("bytes are left over");
      }
    }
    return okStatus();  // A chunk type of a later minor version.
  }

  Status session(Decoder in) {
    if (sawSession_) return fail("a second session chunk");
    sawSession_ = true;
    trace_.producer = in.text();
    trace_.pid = in.varint();
    trace_.level = static_cast<Level>(in.upTo(static_cast<uint64_t>(Level::kSlice)));
    trace_.maxEvents = static_cast<int64_t>(in.upTo(INT64_MAX));
    trace_.startNs = trace_.endNs = in.signedVarint();
    if (!in.done()) {
      recorder_.host = in.text();
      recorder_.wallNs = in.signedVarint();
      recorder_.name = in.text();
    }
    return in.ok() ? okStatus() : malformed("session");
  }
  Status process(Decoder in) {
    TracedProcess p;
    p.pid = in.varint();
    p.producer = in.text();
    p.name = in.text();
    p.host = in.text();
    p.level = static_cast<Level>(in.upTo(static_cast<uint64_t>(Level::kSlice)));
    p.dropped = static_cast<int64_t>(in.upTo(kMaxTime));
    p.stopped = in.upTo(1) != 0;
    p.startNs = time(in.signedVarint(), in);
    p.endNs = time(in.signedVarint(), in);
    p.clockNs = in.signedVarint();
    p.wallNs = in.signedVarint();
    auto index = static_cast<uint32_t>(trace_.processes.size());
    // Each of these takes at least a byte.
    uint64_t threads = in.upTo(in.left());
    for (uint64_t i = 0; i < threads && in.ok(); ++i)
      owners_[format::domainId(DomainKind::kThread, u32(in))] = {index, 0};
    uint64_t devices = in.upTo(in.left());
    for (uint64_t i = 0; i < devices && in.ok(); ++i) {
      uint32_t device = format::domainId(DomainKind::kDevice, u32(in));
      owners_[device] = {index, u32(in)};
    }
    if (!in.ok()) return malformed("process");
    trace_.processes.push_back(p);
    return okStatus();
  }
  /// A recording of one process has no process chunk: its session chunk says all.
  void finishProcesses() {
    if (trace_.processes.empty()) {
      recorder_.pid = trace_.pid;
      recorder_.producer = trace_.producer;
      recorder_.level = trace_.level;
      recorder_.dropped = trace_.dropped;
      recorder_.stopped = trace_.stopped;
      recorder_.clockNs = trace_.startNs;
      if (__builtin_sub_overflow(trace_.endNs, trace_.startNs, &recorder_.endNs)) recorder_.endNs = 0;
      trace_.processes.push_back(recorder_);
      for (TracedDevice& d : trace_.devices) d.indexThere = d.index;
      return;
    }
    for (const TracedProcess& p : trace_.processes) trace_.stopped &= p.stopped;
    for (HostThread& t : trace_.threads) t.process = owners_[format::domainId(DomainKind::kThread, t.index)].process;
    for (TracedDevice& d : trace_.devices) {
      const Owner& owner = owners_[format::domainId(DomainKind::kDevice, d.index)];
      d.process = owner.process;
      d.indexThere = owner.indexThere;
    }
  }
  Status end(Decoder in) {
    trace_.dropped = static_cast<int64_t>(in.upTo(INT64_MAX));
    in.varint();
    trace_.endNs = in.signedVarint();
    trace_.stopped = true;
    return in.ok() ? okStatus() : malformed("end");
  }

  StatusOr<Domain*> domainOf(uint32_t id) {
    auto [entry, isNew] = domains_.try_emplace(id);
    Domain& domain = entry->second;
    if (!isNew) return &domain;
    if (domains_.size() > kMaxDomains) return fail("more than 65536 threads and devices");
    switch (format::domainKind(id)) {
      case DomainKind::kThread:
        domain.at = trace_.threads.size();
        trace_.threads.emplace_back().index = format::domainIndex(id);
        return &domain;
      case DomainKind::kDevice:
        domain.at = trace_.devices.size();
        trace_.devices.emplace_back().index = format::domainIndex(id);
        return &domain;
      case DomainKind::kSession:
        break;
    }
    return fail("domain " + std::to_string(id) + " is neither a thread nor a device");
  }

  StringId intern(std::string_view text) {
    if (text.empty()) return 0;
    auto [entry, isNew] = ids_.try_emplace(text, static_cast<StringId>(trace_.strings.size()));
    if (isNew) trace_.strings.push_back(text);
    return entry->second;
  }
  StringId string(const Domain& domain, Decoder& in) {
    uint64_t id = in.varint();
    if (id >= domain.strings.size()) return static_cast<StringId>(in.fail());
    return domain.strings[static_cast<size_t>(id)];
  }
  uint32_t u32(Decoder& in) { return static_cast<uint32_t>(in.upTo(UINT32_MAX)); }
  int64_t amount(Decoder& in) { return static_cast<int64_t>(in.upTo(kMaxTime)); }
  int64_t delta(Decoder& in, size_t slot) {
    int64_t step = in.signedVarint(), sum;
    if (__builtin_add_overflow(last_[slot], step, &sum) || sum > static_cast<int64_t>(kMaxTime) ||
        sum < -static_cast<int64_t>(kMaxTime))
      return static_cast<int64_t>(in.fail());
    return last_[slot] = sum;
  }
  Terms terms(Decoder& in, Picoseconds& total) {
    Terms out{};
    total = 0;
    uint64_t mask = in.upTo((uint64_t{1} << perfmodel::kNumTerms) - 1);
    for (size_t t = 0; t < out.size(); ++t) {
      if (!(mask >> t & 1)) continue;
      out[t] = static_cast<int64_t>(in.upTo(kMaxTime / perfmodel::kNumTerms));
      total += out[t];
    }
    return out;
  }

  Status threadRecord(const Domain& domain, Decoder& in) {
    HostThread& thread = trace_.threads[domain.at];
    switch (static_cast<Tag>(in.varint())) {
      case Tag::kThread:
        thread.tid = static_cast<int64_t>(in.upTo(INT64_MAX));
        thread.name = string(domain, in);
        return in.ok() ? okStatus() : malformed("thread");
      case Tag::kHostEvent: {
        HostEvent e;
        e.name = string(domain, in);
        e.category = string(domain, in);
        e.start = delta(in, 0);
        e.end = e.start + amount(in);
        uint64_t count = in.upTo(in.left());  // An argument takes at least a byte.
        e.firstArg = static_cast<uint32_t>(thread.args.size());
        for (uint64_t i = 0; i < count && in.ok(); ++i) {
          HostArg arg;
          uint64_t key = in.varint();
          arg.isText = key & 1;
          if ((key >> 1) >= domain.strings.size())
            in.fail();
          else
            arg.key = domain.strings[static_cast<size_t>(key >> 1)];
          arg.value = arg.isText ? static_cast<int64_t>(string(domain, in)) : in.signedVarint();
          thread.args.push_back(arg);
        }
        e.numArgs = static_cast<uint32_t>(thread.args.size()) - e.firstArg;
        if (!in.ok() || !countDuration(e.end - e.start)) return malformed("host event");
        thread.events.push_back(e);
        return okStatus();
      }
      case Tag::kHostCounter: {
        CounterSample c;
        c.name = string(domain, in);
        c.time = delta(in, 0);
        c.value = in.signedVarint();
        if (!in.ok()) return malformed("host counter");
        thread.counters.push_back(c);
        return okStatus();
      }
      case Tag::kClockEdge: {
        ClockEdgeEvent e;
        e.device = u32(in);
        e.launch = in.varint();
        e.edge = static_cast<ClockEdge>(in.upTo(static_cast<uint64_t>(ClockEdge::kComplete)));
        e.hostTime = delta(in, 0);
        e.deviceTime = in.signedVarint();
        if (!in.ok()) return malformed("clock edge");
        thread.edges.push_back(e);
        return okStatus();
      }
      default:
        return fail("an unknown record of a thread");
    }
  }

  Status deviceRecord(const Domain& domain, Decoder& in) {
    TracedDevice& device = trace_.devices[domain.at];
    switch (static_cast<Tag>(in.varint())) {
      case Tag::kDevice: {
        uint64_t target = in.varint();
        if (target < 1 || target > 3)
          in.fail();
        else
          device.target = static_cast<Target>(target);
        device.name = string(domain, in);
        device.clockProfile = string(domain, in);
        return in.ok() ? okStatus() : malformed("device");
      }
      case Tag::kProgram:
        return program(domain, device, in);
      case Tag::kLaunch: {
        LaunchEvent e;
        e.launch = in.varint();
        e.queue = u32(in);
        e.queueName = string(domain, in);
        e.label = string(domain, in);
        e.program = static_cast<uint32_t>(in.upTo(device.programs.size()));
        e.start = time(in.signedVarint(), in);
        e.end = e.start + amount(in);
        if (!in.ok() || !countDuration(e.end - e.start)) return malformed("launch");
        device.launches.push_back(e);
        return okStatus();
      }
      case Tag::kCommand: {
        if (device.launches.empty() || device.launches.back().program == 0)
          return fail("a command event that belongs to no launch of a program");
        CommandEvent e;
        e.launch = static_cast<uint32_t>(device.launches.size() - 1);
        const TracedProgram& program = device.programs[device.launches.back().program - 1];
        int64_t command = delta(in, 1);
        if (command < 0 || static_cast<uint64_t>(command) >= program.commands.size())
          return fail("a command event names command " + std::to_string(command) + " of a program with " +
                      std::to_string(program.commands.size()));
        e.command = static_cast<uint32_t>(command);
        e.ready = delta(in, 0);
        e.start = e.ready + amount(in);
        e.end = e.start + amount(in);
        last_[0] = time(e.end, in);
        if (!in.ok() || !countDuration(e.end - e.ready)) return malformed("command");
        device.commands.push_back(e);
        return okStatus();
      }
      case Tag::kSpan: {
        SpanEvent e;
        e.track = static_cast<Track>(in.upTo(static_cast<uint64_t>(Track::kNetwork)));
        e.queue = u32(in);
        e.queueName = string(domain, in);
        e.launch = in.varint();
        e.name = string(domain, in);
        e.category = string(domain, in);
        e.program = static_cast<uint32_t>(in.upTo(device.programs.size()));
        e.op = u32(in);
        if (e.program && e.op >= device.programs[e.program - 1].ops.size()) in.fail();
        e.ready = delta(in, 0);
        e.start = e.ready + amount(in);
        e.end = e.start + amount(in);
        e.bytes.hbm = amount(in);
        e.bytes.sram = amount(in);
        Picoseconds total;
        e.terms = terms(in, total);
        if (!in.ok() || total != e.end - e.ready || !countDuration(total)) return malformed("span");
        (e.track == Track::kNetwork ? device.details : device.spans).push_back(e);
        return okStatus();
      }
      case Tag::kDeviceCounter: {
        CounterSample c;
        c.name = string(domain, in);
        c.time = delta(in, 2);
        c.value = in.signedVarint();
        if (!in.ok()) return malformed("device counter");
        device.counters.push_back(c);
        return okStatus();
      }
      default:
        return fail("an unknown record of a device");
    }
  }

  bool countDuration(int64_t duration) {
    if (duration < 0 || static_cast<uint64_t>(duration) > kMaxTime - durations_) return false;
    durations_ += static_cast<uint64_t>(duration);
    return true;
  }
  /// `value` when it is a time that later sums can bear.
  int64_t time(int64_t value, Decoder& in) {
    bool fits = value <= static_cast<int64_t>(kMaxTime) && value >= -static_cast<int64_t>(kMaxTime);
    return fits ? value : static_cast<int64_t>(in.fail());
  }

  Status program(const Domain& domain, TracedDevice& device, Decoder& in) {
    TracedProgram p;
    p.name = string(domain, in);
    // Each of these takes at least a byte of the record, which limits what a wrong count can
    // reserve.
    uint64_t ops = in.upTo(in.left());
    for (uint64_t i = 0; i < ops && in.ok(); ++i) {
      TracedOp op;
      op.engine = static_cast<uint8_t>(in.upTo(kNumEngines - 1));
      op.name = string(domain, in);
      uint64_t nodes = in.upTo(in.left());
      for (uint64_t n = 0; n < nodes && in.ok(); ++n) {
        TracedNode node;
        node.name = string(domain, in);
        node.op = string(domain, in);
        op.nodes.push_back(node);
      }
      p.ops.push_back(std::move(op));
    }
    uint64_t bundles = in.upTo(in.left());
    for (uint64_t i = 0; i < bundles && in.ok(); ++i) p.bundles.push_back(string(domain, in));
    uint64_t queues = in.upTo(in.left());
    for (uint64_t q = 0; q < queues && in.ok(); ++q) {
      p.queueEngines.push_back(static_cast<uint8_t>(in.upTo(kNumEngines - 1)));
      uint64_t commands = in.upTo(in.left());
      for (uint64_t c = 0; c < commands && in.ok(); ++c) {
        TracedCommand command;
        command.op = u32(in);
        if (command.op >= p.ops.size()) in.fail();
        command.queue = static_cast<uint32_t>(q);
        command.bundle = static_cast<uint32_t>(in.upTo(p.bundles.size()));
        command.slice = u32(in);
        command.bytes.hbm = amount(in);
        command.bytes.sram = amount(in);
        command.terms = terms(in, command.alone);
        if (in.ok()) p.commands.push_back(command);
      }
    }
    if (!in.ok()) return malformed("program");
    device.programs.push_back(std::move(p));
    return okStatus();
  }

  static constexpr size_t kMaxDomains = 65536;
  /// The process of a thread or device in a merged trace.
  struct Owner {
    uint32_t process = 0, indexThere = 0;
  };

  const uint8_t* data_;
  size_t bytes_;
  const std::string& where_;
  size_t headerBytes_ = 0, offset_ = 0;
  bool sawSession_ = false;
  int64_t last_[3] = {};
  uint64_t durations_ = 0;
  std::map<uint32_t, Domain> domains_;
  std::unordered_map<uint32_t, Owner> owners_;
  TracedProcess recorder_;  ///< What the session chunk says of its process.
  std::unordered_map<std::string_view, StringId> ids_;
  TraceData trace_;
};

}  // namespace

StatusOr<TraceData> readTrace(const uint8_t* data, size_t bytes, std::shared_ptr<const void> owner,
                              const std::string& where) {
  return Reader(data, bytes, where).read(std::move(owner));
}

StatusOr<TraceData> readTraceFile(const std::string& path) {
  struct stat info;
  // A pipe cannot be mapped.
  if (stat(path.c_str(), &info) == 0 && S_ISFIFO(info.st_mode)) {
    HPU_ASSIGN(std::vector<uint8_t> bytes, base::readFile(path));
    auto owner = std::make_shared<const std::vector<uint8_t>>(std::move(bytes));
    return readTrace(owner->data(), owner->size(), owner, path);
  }
  HPU_ASSIGN(std::shared_ptr<const base::MappedFile> file, base::MappedFile::open(path));
  return readTrace(file->data(), file->size(), file, path);
}

}  // namespace hpu::trace
