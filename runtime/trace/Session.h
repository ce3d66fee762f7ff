// SPDX-License-Identifier: Apache-2.0
// Session: the process's one recording: its threads' and devices' streams, its limit, its file.
// The one thing to know: every stream has its own lock, which only its thread (or device) and the
// end of the recording take; Recorder.h and Trace.cpp are the two faces of this class.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/trace/EventStream.h"
#include "runtime/trace/Recorder.h"

namespace hpu::trace {

/// A host thread's stream; outlives the thread until the recording ends.
struct ThreadLog {
  std::mutex mutex;
  uint64_t epoch = 0;  ///< Recording that `stream` belongs to. Guarded by mutex, as all below.
  std::unique_ptr<EventStream> stream;
  std::string name;
  int64_t tid = 0;
  int64_t writtenNs = 0;  ///< Host time of the last write, with Options::eachLaunch.
};

/// A device's stream.
struct DeviceLog {
  std::mutex mutex;
  std::unique_ptr<EventStream> stream;  ///< Guarded by mutex, as all below.
  bool described = false;
  /// Programs already in the stream, with or without their commands. Kept alive, so that an address
  /// is one program.
  std::map<std::pair<const recipe::Program*, bool>, uint32_t> programs;
  std::vector<std::shared_ptr<const recipe::Program>> keep;
};

class Session {
 public:
  /// A forked child has one of its own; its parent's, with whatever threads held there, is left.
  static Session& instance();

  Status start(const Options& options);
  Status stop(const std::string& path);
  /// Errors: kFailedPrecondition when not recording, or to a file.
  Status stopToMemory(Recording& recording);
  void cancel();

  /// The recording writes out what it has at every launch.
  bool eachLaunch() const { return eachLaunch_.load(std::memory_order_relaxed); }
  Level level() const { return level_.load(std::memory_order_relaxed); }
  int64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }
  int64_t startNs() const { return startNs_.load(std::memory_order_relaxed); }
  /// Room for `events` more, all or none; what finds no room is counted as dropped, in the file too.
  bool reserve(int64_t events);

  /// Calls `write(stream)` with the calling thread's stream locked, unless the recording has ended.
  template <typename Write>
  void withThread(Write&& write) {
    ThreadLog& log = threadLog();
    std::lock_guard lock(log.mutex);
    if (!recording()) return;
    if (uint64_t epoch = epoch_.load(std::memory_order_acquire); log.epoch != epoch) beginThread(log, epoch);
    write(*log.stream);
    if (eachLaunch()) writeOut(log);
  }
  /// The same for a track of the program's own, which is no thread's.
  template <typename Write>
  void withTrack(std::string_view name, Write&& write) {
    std::shared_ptr<ThreadLog> log = trackLog(name);
    if (!log) return;
    std::lock_guard lock(log->mutex);
    if (!recording()) return;
    if (uint64_t epoch = epoch_.load(std::memory_order_acquire); log->epoch != epoch) beginThread(*log, epoch);
    write(*log->stream);
    if (eachLaunch()) writeOut(*log);
  }
  /// The same for a device.
  template <typename Write>
  void withDevice(uint32_t device, Write&& write) {
    std::shared_ptr<DeviceLog> log = deviceLog(device);
    if (!log) return;
    std::lock_guard lock(log->mutex);
    if (recording()) write(*log);
  }
  void nameThread(std::string_view name);

 private:
  explicit Session(const Session* parents = nullptr) : parents_(parents) {}
  static void childAfterFork();
  void noteDropped();
  ThreadLog& threadLog();
  std::shared_ptr<ThreadLog> trackLog(std::string_view name);
  std::shared_ptr<DeviceLog> deviceLog(uint32_t device);
  void beginThread(ThreadLog& log, uint64_t epoch);
  std::vector<uint8_t> collect(int64_t endNs);
  /// Hands the thread's events to the file when the last time is a while ago.
  static void writeOut(ThreadLog& log);
  std::vector<uint8_t> sessionChunk() const;
  std::vector<uint8_t> endChunk(int64_t endNs, int64_t lost) const;
  void forget();

  [[maybe_unused]] const Session* const parents_;  ///< Reachable for ever, as what it owns.
  std::atomic<uint64_t> epoch_{0};
  std::atomic<Level> level_{Level::kSlice};
  std::atomic<bool> eachLaunch_{false}, streams_{false};
  std::atomic<int64_t> droppedNotedNs_{0};  ///< Host time at which the file was last told.
  std::atomic<int64_t> startNs_{0}, room_{0}, dropped_{0};

  std::mutex control_;  ///< Serialises start, stop and cancel; guards the three below.
  Options options_;
  int64_t wallStartNs_ = 0;
  std::shared_ptr<FileSink> sink_;

  std::mutex registry_;  ///< Guards the lists (not what they point to). Held while no log's mutex
                         ///< is taken.
  std::vector<std::shared_ptr<ThreadLog>> threads_;
  uint32_t nextThread_ = 0;
  std::map<uint32_t, std::shared_ptr<DeviceLog>> devices_;
  std::map<std::string, std::shared_ptr<ThreadLog>, std::less<>> tracks_;  ///< By name; also in threads_.
  std::shared_ptr<FileSink> currentSink_;
};

}  // namespace hpu::trace
