// SPDX-License-Identifier: Apache-2.0
// The process-wide recorder that the runtime reports to: host calls, device work, counters, clock
// edges. The one thing to know: guard anything that costs with `if (trace::recording())`; when off,
// that is one relaxed load. Every function may be called from any thread, recording or not (then it
// does nothing).
//
//   Status Stream::synchronize() {
//     trace::HostScope scope("Stream.synchronize", "api");
//     scope.arg("stream", id);
//     ...
//   }
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "arch/TargetDesc.h"
#include "hpu/trace.h"
#include "perfmodel/Timeline.h"
#include "recipe/Recipe.h"

namespace hpu::trace {

namespace internal {
extern std::atomic<bool> gRecording;
}

/// True between hpu::trace::start and stop/cancel.
inline bool recording() {
  return internal::gRecording.load(std::memory_order_relaxed);
}
/// How much device work to report; recordLaunch keeps to it by itself.
Level recordingLevel();

/// The host clock of all host events: std::chrono::steady_clock in nanoseconds.
int64_t hostNowNs();

// ---- Host
// -----------------------------------------------------------------------------------------

/// A named value of an event: an integer or a text. Key and text need only live during the call.
struct Arg {
  Arg() = default;
  Arg(std::string_view k, int64_t v) : key(k), number(v) {}
  Arg(std::string_view k, std::string_view v) : key(k), text(v), isText(true) {}
  std::string_view key;
  int64_t number = 0;
  std::string_view text;
  bool isText = false;
};

/// One host event of the calling thread: [startNs, endNs] on hostNowNs(). Names are interned by
/// content.
void recordHost(std::string_view name, std::string_view category, int64_t startNs, int64_t endNs,
                std::initializer_list<Arg> args = {});
void recordHost(std::string_view name, std::string_view category, int64_t startNs, int64_t endNs, const Arg* args,
                size_t numArgs);
/// The same on a track of the program's own instead of the calling thread's.
void recordOnTrack(std::string_view track, std::string_view name, std::string_view category, int64_t startNs,
                   int64_t endNs, const Arg* args, size_t numArgs);
/// A sample of a host-side quantity ("queue depth"), now.
void recordHostCounter(std::string_view name, int64_t value);
/// The calling thread's name in traces; kept for later recordings too.
void nameThread(std::string_view name);

/// Times its own scope. `name` and `category` are usually literals and must outlive the scope.
class HostScope {
 public:
  explicit HostScope(std::string_view name, std::string_view category = "api") {
    if (!recording()) return;
    name_ = name;
    category_ = category;
    startNs_ = hostNowNs();
  }
  ~HostScope() {
    if (startNs_ >= 0) finish();
  }
  HostScope(const HostScope&) = delete;
  HostScope& operator=(const HostScope&) = delete;
  bool active() const { return startNs_ >= 0; }
  /// At most kMaxArgs integers; more are ignored. The key must outlive the scope (a literal).
  void arg(std::string_view key, int64_t value) {
    if (startNs_ >= 0 && numArgs_ < kMaxArgs) args_[numArgs_++] = {key, value};
  }
  static constexpr size_t kMaxArgs = 8;

 private:
  void finish();
  struct Pair {
    std::string_view key;
    int64_t value;
  };
  int64_t startNs_ = -1;
  std::string_view name_, category_;
  size_t numArgs_ = 0;
  std::array<Pair, kMaxArgs> args_;
};

// ---- Device
// --------------------------------------------------------------------------------------- Device
// events carry device time in picoseconds since the device was opened. Report them when they are
// final, in an order that depends only on the work (under the device's own lock): their bytes in
// the file are then equal for equal runs.

/// Where device work shows: an engine, or the host link. Work of the network may overlap.
enum class Track : uint8_t {
  kMme = 0,
  kTpc = 1,
  kDma = 2,
  kNic = 3,
  kHostToDevice = 4,
  kDeviceToHost = 5,
  kNetwork = 6  ///< What spans of the NIC consist of: drawn, but counted nowhere.
};
inline constexpr int kNumTracks = 6;  ///< That are counted.
constexpr std::string_view trackName(Track track) {
  constexpr std::string_view names[] = {"mme", "tpc", "dma", "nic", "h2d", "d2h", "network"};
  return static_cast<unsigned>(track) < std::size(names) ? names[static_cast<unsigned>(track)] : "unknown";
}

/// What a device is. Once per device and recording, before its other events; later calls are
/// ignored.
void recordDevice(uint32_t device, Target target, std::string_view name, std::string_view clockProfile);

/// One launch of a program, resolved. Pointers need only live during the call; `program` is kept.
struct LaunchRecord {
  uint32_t device = 0;
  uint64_t launch = 0;  ///< Unique on the device, for example the driver's ticket.
  uint32_t queue = 0;   ///< Driver queue (stream) that it was submitted to.
  std::string_view queueName;
  std::string_view label;  ///< SubmitOptions::label, or the program's name.
  std::shared_ptr<const recipe::Program> program;
  /// As given to simulate(), and its result for this launch: (*intervals)[queue][command]. Both may
  /// be null: then only the launch itself is recorded.
  const std::vector<perfmodel::TimedQueue>* queues = nullptr;
  const std::vector<std::vector<perfmodel::Interval>>* intervals = nullptr;
  perfmodel::Picoseconds start = 0, end = 0;
  perfmodel::Picoseconds offset = 0;  ///< Added to the intervals' times (not to start and end).
};
void recordLaunch(const LaunchRecord& launch);

/// Device work that no recipe describes: a copy, a fill, a collective's step.
struct SpanRecord {
  uint32_t device = 0;
  Track track = Track::kDma;
  uint32_t queue = 0;
  std::string_view queueName;
  uint64_t launch = 0;        ///< The driver's ticket.
  std::string_view name;      ///< "copy to device"
  std::string_view category;  ///< A named runtime cause: "copy", "fill", "sync", "collective", "constants".
  perfmodel::Picoseconds ready = 0, start = 0, end = 0;
  perfmodel::Bytes bytes;  ///< Moved in HBM and SRAM.
  /// Sum = end - ready; else (all zero, say) the whole span counts as ideal, start - ready as sync.
  std::array<perfmodel::Picoseconds, perfmodel::kNumTerms> terms{};
};
void recordSpan(const SpanRecord& span);

/// A sample of a device quantity ("hbm used") at a device time.
void recordDeviceCounter(uint32_t device, std::string_view name, perfmodel::Picoseconds time, int64_t value);

/// The host saw the device clock: what is known about how the two clocks lie to each other. Edges
/// are host data (they differ from run to run) and are never used to convert times silently.
enum class ClockEdge : uint8_t { kSubmit = 0, kComplete = 1 };
void recordClockEdge(uint32_t device, uint64_t launch, ClockEdge edge, int64_t hostNs,
                     perfmodel::Picoseconds deviceTime);

/// Events dropped because of Options::maxEvents in this recording.
int64_t droppedEvents();

}  // namespace hpu::trace
