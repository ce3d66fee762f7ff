// SPDX-License-Identifier: Apache-2.0
// What the runtime reports, encoded into the streams of its threads and devices.
#include "runtime/trace/Recorder.h"

#include <algorithm>
#include <numeric>

#include "runtime/trace/Session.h"

namespace hpu::trace {
namespace {

using format::Encoder;
using format::Tag;
using perfmodel::Picoseconds;

// Slots of EventStream::last.
constexpr size_t kTimeSlot = 0, kCommandSlot = 1, kCounterSlot = 2;

// Arguments of a host event that are kept; far above what the runtime gives.
constexpr size_t kMaxRecordedArgs = 32;

uint64_t nonNegative(int64_t value) {
  return static_cast<uint64_t>(std::max<int64_t>(value, 0));
}

void writeDelta(EventStream& stream, Encoder& record, size_t slot, int64_t value) {
  record.signedVarint(value - stream.last(slot));
  stream.last(slot) = value;
}

/// A bit for each term that is not zero, then those.
void writeTerms(Encoder& record, const std::array<Picoseconds, perfmodel::kNumTerms>& terms) {
  uint64_t mask = 0;
  for (int t = 0; t < perfmodel::kNumTerms; ++t)
    if (terms[static_cast<size_t>(t)] > 0) mask |= uint64_t{1} << t;
  record.varint(mask);
  for (Picoseconds term : terms)
    if (term > 0) record.varint(static_cast<uint64_t>(term));
}

/// The program's index in the device's stream; written when it is new there.
uint32_t programIndex(DeviceLog& log, const std::shared_ptr<const recipe::Program>& program,
                      const std::vector<perfmodel::TimedQueue>* queues) {
  auto [entry, isNew] =
      log.programs.try_emplace({program.get(), queues != nullptr}, static_cast<uint32_t>(log.programs.size()));
  if (!isNew) return entry->second;
  log.keep.push_back(program);
  EventStream& stream = *log.stream;
  // Strings may be interned while the record is open: they go to a chunk of their own, before this
  // one.
  uint32_t name = stream.intern(program->name);
  Encoder record = stream.beginRecord(Tag::kProgram);
  record.varint(name);
  record.varint(program->ops.size());
  for (const recipe::Op& op : program->ops) {
    record.varint(static_cast<uint64_t>(op.engine));
    record.varint(stream.intern(op.name));
    record.varint(op.provenance.size());
    for (uint32_t node : op.provenance) {
      bool known = node < program->sourceNodes.size();
      record.varint(known ? stream.intern(program->sourceNodes[node].name) : 0);
      record.varint(known ? stream.intern(program->sourceNodes[node].op) : 0);
    }
  }
  record.varint(program->bundles.size());
  for (const recipe::Bundle& bundle : program->bundles) record.varint(stream.intern(bundle.name));
  size_t numQueues = queues ? std::min(queues->size(), program->queues.size()) : 0;
  record.varint(numQueues);
  for (size_t q = 0; q < numQueues; ++q) {
    const recipe::Queue& queue = program->queues[q];
    size_t commands = std::min(queue.commands.size(), (*queues)[q].commands.size());
    record.varint(static_cast<uint64_t>(queue.engine));
    record.varint(commands);
    for (size_t c = 0; c < commands; ++c) {
      const recipe::Command& command = queue.commands[c];
      const perfmodel::Cost& cost = (*queues)[q].commands[c].cost;
      record.varint(command.op);
      record.varint(command.bundle == recipe::kNone ? 0 : uint64_t{command.bundle} + 1);
      record.varint(command.slice);
      record.varint(nonNegative(cost.bytes.hbm));
      record.varint(nonNegative(cost.bytes.sram));
      writeTerms(record, cost.terms);
    }
  }
  stream.endRecord();
  return entry->second;
}

void writeSpan(EventStream& stream, const SpanRecord& span, uint32_t programPlusOne, uint32_t op) {
  uint32_t queueName = stream.intern(span.queueName), name = stream.intern(span.name);
  uint32_t category = stream.intern(span.category);
  Encoder record = stream.beginRecord(Tag::kSpan);
  record.varint(static_cast<uint64_t>(span.track));
  record.varint(span.queue);
  record.varint(queueName);
  record.varint(span.launch);
  record.varint(name);
  record.varint(category);
  record.varint(programPlusOne);
  record.varint(op);
  Picoseconds ready = std::min(span.ready, span.start);
  writeDelta(stream, record, kTimeSlot, ready);
  record.varint(nonNegative(span.start - ready));
  record.varint(nonNegative(span.end - span.start));
  record.varint(nonNegative(span.bytes.hbm));
  record.varint(nonNegative(span.bytes.sram));
  // Terms that do not add up to the span say nothing.
  std::array<Picoseconds, perfmodel::kNumTerms> terms = span.terms;
  bool negative = std::any_of(terms.begin(), terms.end(), [](Picoseconds t) { return t < 0; });
  if (negative || std::accumulate(terms.begin(), terms.end(), Picoseconds{0}) != span.end - ready) {
    terms = {};
    terms[static_cast<size_t>(perfmodel::Term::kIdeal)] = std::max<Picoseconds>(span.end - span.start, 0);
    terms[static_cast<size_t>(perfmodel::Term::kSync)] = span.start - ready;
  }
  writeTerms(record, terms);
  stream.endRecord();
}

/// Every command of the launch.
void writeCommands(EventStream& stream, const LaunchRecord& launch) {
  int64_t index = 0;
  for (size_t q = 0; q < launch.intervals->size() && q < launch.queues->size(); ++q) {
    const std::vector<perfmodel::Interval>& intervals = (*launch.intervals)[q];
    for (const perfmodel::Interval& i : intervals) {
      Encoder record = stream.beginRecord(Tag::kCommand);
      writeDelta(stream, record, kCommandSlot, index++);
      writeDelta(stream, record, kTimeSlot, i.ready + launch.offset);
      record.varint(nonNegative(i.start - i.ready));
      record.varint(nonNegative(i.end - i.start));
      stream.last(kTimeSlot) = i.end + launch.offset;
      stream.endRecord();
    }
  }
}

int64_t countCommands(const LaunchRecord& launch) {
  size_t count = 0;
  for (const auto& queue : *launch.intervals) count += queue.size();
  return static_cast<int64_t>(count);
}

/// Commands of one operation that follow each other without a gap, as one span.
std::vector<SpanRecord> operationSpans(const LaunchRecord& launch, std::vector<uint32_t>& ops) {
  std::vector<SpanRecord> spans;
  const recipe::Program& program = *launch.program;
  for (size_t q = 0; q < launch.intervals->size() && q < launch.queues->size(); ++q) {
    if (q >= program.queues.size()) break;
    const recipe::Queue& queue = program.queues[q];
    bool open = false;
    for (size_t c = 0; c < (*launch.intervals)[q].size() && c < queue.commands.size(); ++c) {
      const perfmodel::Interval& i = (*launch.intervals)[q][c];
      const perfmodel::Cost& cost = (*launch.queues)[q].commands[c].cost;
      uint32_t op = queue.commands[c].op;
      if (!open || ops.back() != op || spans.back().end != i.ready + launch.offset) {
        SpanRecord& span = spans.emplace_back();
        span.track = static_cast<Track>(queue.engine);
        span.queue = launch.queue;
        span.queueName = launch.queueName;
        span.launch = launch.launch;
        span.name = op < program.ops.size() ? std::string_view(program.ops[op].name) : "";
        span.ready = i.ready + launch.offset;
        span.start = i.start + launch.offset;
        ops.push_back(op);
        open = true;
      }
      SpanRecord& span = spans.back();
      span.end = i.end + launch.offset;
      span.bytes.hbm += cost.bytes.hbm;
      span.bytes.sram += cost.bytes.sram;
      for (size_t t = 0; t < span.terms.size(); ++t) span.terms[t] += i.terms[t];
    }
  }
  return spans;
}

}  // namespace

namespace {
/// Room for an event of the calling thread. When there is none, no later event will write out what the thread recorded
/// before.
bool roomOnThread(Session& session) {
  if (session.reserve(1)) return true;
  if (session.eachLaunch()) session.withThread([](EventStream&) {});
  return false;
}
/// The same for a device, whose log is locked.
bool roomOnDevice(Session& session, DeviceLog& log) {
  if (session.reserve(1)) return true;
  if (session.eachLaunch()) log.stream->flush();
  return false;
}
}  // namespace

Level recordingLevel() {
  return Session::instance().level();
}
int64_t droppedEvents() {
  return Session::instance().dropped();
}
void nameThread(std::string_view name) {
  Session::instance().nameThread(name);
}

namespace {

void writeHostEvent(EventStream& stream, std::string_view name, std::string_view category, int64_t startNs,
                    int64_t endNs, const Arg* args, size_t numArgs) {
  uint32_t nameId = stream.intern(name), categoryId = stream.intern(category);
  uint32_t ids[2 * kMaxRecordedArgs] = {};
  numArgs = std::min(numArgs, kMaxRecordedArgs);
  for (size_t i = 0; i < numArgs; ++i) {
    ids[2 * i] = stream.intern(args[i].key);
    if (args[i].isText) ids[2 * i + 1] = stream.intern(args[i].text);
  }
  Encoder record = stream.beginRecord(Tag::kHostEvent);
  record.varint(nameId);
  record.varint(categoryId);
  writeDelta(stream, record, kTimeSlot, startNs - Session::instance().startNs());
  record.varint(nonNegative(endNs - startNs));
  record.varint(numArgs);
  for (size_t i = 0; i < numArgs; ++i) {
    record.varint(uint64_t{ids[2 * i]} << 1 | (args[i].isText ? 1 : 0));
    if (args[i].isText)
      record.varint(ids[2 * i + 1]);
    else
      record.signedVarint(args[i].number);
  }
  stream.endRecord();
}

}  // namespace

void recordHost(std::string_view name, std::string_view category, int64_t startNs, int64_t endNs, const Arg* args,
                size_t numArgs) {
  if (!recording()) return;
  Session& session = Session::instance();
  if (!roomOnThread(session)) return;
  session.withThread(
      [&](EventStream& stream) { writeHostEvent(stream, name, category, startNs, endNs, args, numArgs); });
}

void recordOnTrack(std::string_view track, std::string_view name, std::string_view category, int64_t startNs,
                   int64_t endNs, const Arg* args, size_t numArgs) {
  if (!recording()) return;
  Session& session = Session::instance();
  if (!session.reserve(1)) return;
  session.withTrack(
      track, [&](EventStream& stream) { writeHostEvent(stream, name, category, startNs, endNs, args, numArgs); });
}

void recordHost(std::string_view name, std::string_view category, int64_t startNs, int64_t endNs,
                std::initializer_list<Arg> args) {
  recordHost(name, category, startNs, endNs, args.begin(), args.size());
}

void HostScope::finish() {
  int64_t endNs = hostNowNs();
  Arg args[kMaxArgs];
  size_t numArgs = std::min(numArgs_, kMaxArgs);
  for (size_t i = 0; i < numArgs; ++i) args[i] = Arg(args_[i].key, args_[i].value);
  recordHost(name_, category_, startNs_, endNs, args, numArgs);
}

void recordHostCounter(std::string_view name, int64_t value) {
  if (!recording()) return;
  Session& session = Session::instance();
  if (!roomOnThread(session)) return;
  int64_t now = hostNowNs();
  session.withThread([&](EventStream& stream) {
    uint32_t nameId = stream.intern(name);
    Encoder record = stream.beginRecord(Tag::kHostCounter);
    record.varint(nameId);
    writeDelta(stream, record, kTimeSlot, now - session.startNs());
    record.signedVarint(value);
    stream.endRecord();
  });
}

void recordClockEdge(uint32_t device, uint64_t launch, ClockEdge edge, int64_t hostNs, Picoseconds deviceTime) {
  if (!recording()) return;
  Session& session = Session::instance();
  if (!roomOnThread(session)) return;
  session.withThread([&](EventStream& stream) {
    Encoder record = stream.beginRecord(Tag::kClockEdge);
    record.varint(device);
    record.varint(launch);
    record.varint(static_cast<uint64_t>(edge));
    writeDelta(stream, record, kTimeSlot, hostNs - session.startNs());
    record.signedVarint(deviceTime);
    stream.endRecord();
  });
}

void recordDevice(uint32_t device, Target target, std::string_view name, std::string_view clockProfile) {
  if (!recording()) return;
  Session::instance().withDevice(device, [&](DeviceLog& log) {
    if (log.described) return;
    log.described = true;
    uint32_t nameId = log.stream->intern(name), clockId = log.stream->intern(clockProfile);
    Encoder record = log.stream->beginRecord(Tag::kDevice);
    record.varint(static_cast<uint64_t>(target));
    record.varint(nameId);
    record.varint(clockId);
    log.stream->endRecord();
  });
}

void recordLaunch(const LaunchRecord& launch) {
  if (!recording()) return;
  Session& session = Session::instance();
  Level level = session.level();
  bool detailed = level != Level::kApi && launch.program && launch.queues && launch.intervals;
  session.withDevice(launch.device, [&](DeviceLog& log) {
    std::vector<SpanRecord> spans;
    std::vector<uint32_t> ops;
    if (detailed && level == Level::kNode) spans = operationSpans(launch, ops);
    int64_t events = !detailed ? 0 : level == Level::kNode ? static_cast<int64_t>(spans.size()) : countCommands(launch);
    // The launch itself, then its commands all or none: a partial launch must not look like a whole
    // one.
    bool roomForLaunch = roomOnDevice(session, log), room = events > 0 && session.reserve(events);
    if (!roomForLaunch) return;
    EventStream& stream = *log.stream;
    uint32_t program = 0;
    if (launch.program)
      program = 1 + programIndex(log, launch.program, room && level == Level::kSlice ? launch.queues : nullptr);
    uint32_t queueName = stream.intern(launch.queueName), label = stream.intern(launch.label);
    Encoder record = stream.beginRecord(Tag::kLaunch);
    record.varint(launch.launch);
    record.varint(launch.queue);
    record.varint(queueName);
    record.varint(label);
    record.varint(program);
    record.signedVarint(launch.start);
    record.varint(nonNegative(launch.end - launch.start));
    stream.endRecord();
    if (room && level == Level::kSlice) writeCommands(stream, launch);
    if (room && level == Level::kNode)
      for (size_t s = 0; s < spans.size(); ++s) writeSpan(stream, spans[s], program, ops[s]);
    // Where the chunks end must depend on the work alone, so devices do not go by the clock.
    if (session.eachLaunch()) stream.flush();
  });
}

void recordSpan(const SpanRecord& span) {
  if (!recording()) return;
  Session& session = Session::instance();
  session.withDevice(span.device, [&](DeviceLog& log) {
    if (roomOnDevice(session, log)) writeSpan(*log.stream, span, 0, 0);
  });
}

void recordDeviceCounter(uint32_t device, std::string_view name, Picoseconds time, int64_t value) {
  if (!recording()) return;
  Session& session = Session::instance();
  session.withDevice(device, [&](DeviceLog& log) {
    if (!roomOnDevice(session, log)) return;
    uint32_t nameId = log.stream->intern(name);
    Encoder record = log.stream->beginRecord(Tag::kDeviceCounter);
    record.varint(nameId);
    writeDelta(*log.stream, record, kCounterSlot, time);
    record.signedVarint(value);
    log.stream->endRecord();
  });
}

}  // namespace hpu::trace
