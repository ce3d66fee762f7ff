// SPDX-License-Identifier: Apache-2.0
// Starting, collecting and ending the process's recording.
#include "runtime/trace/Session.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <new>

#include "base/AtFork.h"
#include "base/CheckEnum.h"
#include "base/File.h"
#include "base/PerThread.h"
#include "base/StatusMacros.h"
#include "hpu/version.h"
#include "runtime/trace/Export.h"
#include "runtime/trace/Reader.h"

namespace hpu::trace {

namespace {

/// What tells that two recordings have the same host clock; empty when the kernel does not say.
std::string bootId() {
  StatusOr<std::string> text = base::readTextFile("/proc/sys/kernel/random/boot_id", 256);
  if (!text.ok()) return "";
  return text->substr(0, text->find('\n'));
}

// Never destroyed: threads may record while the process ends.
std::atomic<Session*> current{nullptr};

}  // namespace

namespace internal {
std::atomic<bool> gRecording{false};
}

int64_t hostNowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

Session& Session::instance() {
  [[maybe_unused]] static const bool made = [] {
    static constexpr base::ForkHandlers kHandlers = {nullptr, nullptr, childAfterFork};
    current.store(new Session, std::memory_order_release);
    return base::atFork(base::ForkRank::kTraceSession, kHandlers);
  }();
  return *current.load(std::memory_order_acquire);
}

/// A forked child is another process: it does not write to its parent's file, and does not wait for
/// locks of threads that are not there.
void Session::childAfterFork() {
  internal::gRecording.store(false, std::memory_order_relaxed);
  FileSink::leaveToParent();
  Session* parents = current.load(std::memory_order_relaxed);
  if (auto* own = new (std::nothrow) Session(parents)) current.store(own, std::memory_order_release);
}

bool Session::reserve(int64_t events) {
  if (room_.fetch_sub(events, std::memory_order_relaxed) >= events) return true;
  room_.fetch_add(events, std::memory_order_relaxed);
  dropped_.fetch_add(events, std::memory_order_relaxed);
  if (streams_.load(std::memory_order_relaxed)) noteDropped();
  return false;
}

/// So that a process that is killed leaves the number. Not more often than every millisecond: of a busy program a write
/// each would cost more than recording does.
void Session::noteDropped() {
  constexpr int64_t kSeldomNs = 1'000'000;
  int64_t now = hostNowNs(), last = droppedNotedNs_.load(std::memory_order_relaxed);
  if (now - last < kSeldomNs || !droppedNotedNs_.compare_exchange_strong(last, now, std::memory_order_relaxed)) return;
  std::shared_ptr<FileSink> sink;
  {
    std::lock_guard lock(registry_);
    sink = currentSink_;
  }
  if (sink) sink->noteDropped(dropped());
}

ThreadLog& Session::threadLog() {
  struct Own {
    std::shared_ptr<ThreadLog> log;
    const Session* session = nullptr;  ///< Another one: the thread has forked since.
  };
  auto& own = base::perThread<Own>();
  if (own.session != this) {
    auto log = std::make_shared<ThreadLog>();
    log->tid = syscall(SYS_gettid);
    if (own.log) log->name = own.log->name;
    std::lock_guard lock(registry_);
    threads_.push_back(log);
    own = {std::move(log), this};
  }
  return *own.log;
}

void Session::beginThread(ThreadLog& log, uint64_t epoch) {
  std::shared_ptr<FileSink> sink;
  uint32_t index;
  {
    std::lock_guard lock(registry_);
    index = nextThread_++;
    sink = currentSink_;
  }
  log.epoch = epoch;
  log.stream = std::make_unique<EventStream>(format::domainId(format::DomainKind::kThread, index), sink);
  uint32_t name = log.stream->intern(log.name.empty() ? "thread " + std::to_string(log.tid) : log.name);
  format::Encoder record = log.stream->beginRecord(format::Tag::kThread);
  record.varint(static_cast<uint64_t>(log.tid));
  record.varint(name);
  log.stream->endRecord();
}

void Session::nameThread(std::string_view name) {
  ThreadLog& log = threadLog();
  std::lock_guard lock(log.mutex);
  log.name = name;
  // A new kThread record renames the thread in a recording that already knows it.
  if (!recording() || !log.stream || log.epoch != epoch_.load(std::memory_order_acquire)) return;
  uint32_t id = log.stream->intern(name);
  format::Encoder record = log.stream->beginRecord(format::Tag::kThread);
  record.varint(static_cast<uint64_t>(log.tid));
  record.varint(id);
  log.stream->endRecord();
}

std::shared_ptr<ThreadLog> Session::trackLog(std::string_view name) {
  std::lock_guard lock(registry_);
  if (!recording()) return nullptr;
  auto found = tracks_.find(name);
  if (found != tracks_.end()) return found->second;
  auto log = std::make_shared<ThreadLog>();
  log->name = name;
  threads_.push_back(log);
  return tracks_.emplace(name, std::move(log)).first->second;
}

std::shared_ptr<DeviceLog> Session::deviceLog(uint32_t device) {
  std::lock_guard lock(registry_);
  if (!recording()) return nullptr;
  std::shared_ptr<DeviceLog>& log = devices_[device];
  if (!log) {
    log = std::make_shared<DeviceLog>();
    log->stream = std::make_unique<EventStream>(format::domainId(format::DomainKind::kDevice, device), currentSink_);
  }
  return log;
}

void Session::writeOut(ThreadLog& log) {
  constexpr int64_t kSeldomNs = 20'000'000;
  int64_t now = hostNowNs();
  if (now - log.writtenNs < kSeldomNs) return;
  log.writtenNs = now;
  log.stream->flush();
}

std::vector<uint8_t> Session::sessionChunk() const {
  std::vector<uint8_t> payload, out;
  format::Encoder encoder(payload);
  encoder.text("OpenHPU " HPU_VERSION_STRING);
  encoder.varint(static_cast<uint64_t>(getpid()));
  encoder.varint(static_cast<uint64_t>(options_.level));
  encoder.varint(static_cast<uint64_t>(options_.maxEvents));
  encoder.signedVarint(startNs());
  encoder.text(bootId());
  encoder.signedVarint(wallStartNs_);
  encoder.text(program_invocation_short_name);
  format::appendFileHeader(out);
  format::appendChunk(out, format::ChunkType::kSession, 0, 1, payload);
  return out;
}

std::vector<uint8_t> Session::endChunk(int64_t endNs, int64_t lost) const {
  std::vector<uint8_t> payload, out;
  format::Encoder encoder(payload);
  encoder.varint(static_cast<uint64_t>(dropped() + lost));
  encoder.varint(static_cast<uint64_t>(options_.maxEvents - room_.load(std::memory_order_relaxed) - lost));
  encoder.signedVarint(endNs);
  format::appendChunk(out, format::ChunkType::kEnd, 0, 1, payload);
  return out;
}

Status Session::start(const Options& options) {
  std::lock_guard control(control_);
  if (recording())
    return failedPrecondition("a trace is already being recorded" + (sink_ ? " to '" + sink_->path() + "'" : "") +
                              "; stop or cancel it before starting another (HPU_TRACE, which 'hpu-trace record' sets, "
                              "records by itself)");
  HPU_RETURN_IF_ERROR(base::checkEnum("trace::Options::level", options.level,
                                      {Level::kApi, Level::kNode, Level::kSlice}, [](Level level) {
                                        return level == Level::kApi ? "api" : level == Level::kNode ? "node" : "slice";
                                      }));
  if (options.maxEvents < 1)
    return invalidArgument("a trace needs room for at least one event; maxEvents is " +
                           std::to_string(options.maxEvents));
  std::shared_ptr<FileSink> sink;
  if (!options.streamTo.empty()) {
    HPU_ASSIGN(sink, FileSink::create(options.streamTo));
  }
  options_ = options;
  sink_ = sink;
  startNs_.store(hostNowNs(), std::memory_order_relaxed);
  wallStartNs_ =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  level_.store(options.level, std::memory_order_relaxed);
  eachLaunch_.store(sink && options.eachLaunch, std::memory_order_relaxed);
  streams_.store(sink != nullptr, std::memory_order_relaxed);
  droppedNotedNs_.store(0, std::memory_order_relaxed);
  room_.store(options.maxEvents, std::memory_order_relaxed);
  dropped_.store(0, std::memory_order_relaxed);
  if (sink) sink->append(sessionChunk());
  {
    std::lock_guard lock(registry_);
    currentSink_ = sink;
    nextThread_ = 0;
    devices_.clear();
    tracks_.clear();
    std::erase_if(threads_, [](const std::shared_ptr<ThreadLog>& log) { return log.use_count() == 1; });
  }
  epoch_.fetch_add(1, std::memory_order_release);
  internal::gRecording.store(true, std::memory_order_release);
  return okStatus();
}

/// Closes all streams; gives the whole file, or nothing when they are in the streamed one.
std::vector<uint8_t> Session::collect(int64_t endNs) {
  std::vector<uint8_t> bytes;
  if (!sink_) bytes = sessionChunk();
  std::vector<std::shared_ptr<ThreadLog>> threads;
  std::map<uint32_t, std::shared_ptr<DeviceLog>> devices;
  {
    std::lock_guard lock(registry_);
    threads = threads_;
    devices = devices_;
  }
  auto add = [&](EventStream& stream) {
    stream.flush();
    bytes.insert(bytes.end(), stream.finished().begin(), stream.finished().end());
  };
  for (auto& [index, log] : devices) {
    std::lock_guard lock(log->mutex);
    add(*log->stream);
  }
  uint64_t epoch = epoch_.load(std::memory_order_acquire);
  for (const std::shared_ptr<ThreadLog>& log : threads) {
    std::lock_guard lock(log->mutex);
    if (log->stream && log->epoch == epoch) add(*log->stream);
  }
  if (sink_) return bytes;
  std::vector<uint8_t> end = endChunk(endNs, 0);
  bytes.insert(bytes.end(), end.begin(), end.end());
  return bytes;
}

Status Session::stop(const std::string& path) {
  std::lock_guard control(control_);
  if (!recording()) return failedPrecondition("no trace is being recorded; call hpu::trace::start first");
  bool inPlace = sink_ && (path.empty() || path == sink_->path());
  if (path.empty() && !sink_) return invalidArgument("the trace needs the path of the file to write");
  internal::gRecording.store(false, std::memory_order_release);
  int64_t endNs = hostNowNs();
  std::vector<uint8_t> bytes = collect(endNs);
  Status status;
  if (sink_) {
    status = sink_->finish([&](int64_t lost) { return endChunk(endNs, lost); });
    // The streamed file is complete now; another format or place is made from it.
    if (status.ok() && !inPlace) {
      StatusOr<std::vector<uint8_t>> whole = base::readFile(sink_->path());
      status = whole.ok() ? exportBytes(std::move(*whole), path) : whole.status();
    }
    forget();
    return status;
  }
  status = exportBytes(std::move(bytes), path);
  if (!status.ok()) {
    internal::gRecording.store(true, std::memory_order_release);
    return status;
  }
  forget();
  return okStatus();
}

Status Session::stopToMemory(Recording& recording) {
  std::lock_guard control(control_);
  if (!trace::recording()) return failedPrecondition("no trace is being recorded; call hpu::trace::start first");
  if (sink_)
    return failedPrecondition("the trace is recorded to '" + sink_->path() + "'; stop it with a path or an empty one");
  internal::gRecording.store(false, std::memory_order_release);
  recording.startNs = startNs();
  recording.bytes = collect(hostNowNs());
  recording.dropped = dropped();
  forget();
  return okStatus();
}

void Session::cancel() {
  std::lock_guard control(control_);
  internal::gRecording.store(false, std::memory_order_release);
  forget();
}

void Session::forget() {
  std::vector<std::shared_ptr<ThreadLog>> threads;
  std::map<uint32_t, std::shared_ptr<DeviceLog>> devices;
  {
    std::lock_guard lock(registry_);
    threads = threads_;
    devices.swap(devices_);
    currentSink_ = nullptr;
  }
  for (const std::shared_ptr<ThreadLog>& log : threads) {
    std::lock_guard lock(log->mutex);
    log->stream = nullptr;
  }
  sink_ = nullptr;
}

}  // namespace hpu::trace
