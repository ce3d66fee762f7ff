// SPDX-License-Identifier: Apache-2.0
#include "runtime/driver/common/TimedDevice.h"

#include <algorithm>
#include <atomic>
#include <new>
#include <utility>

#include "base/FloatEnvironment.h"
#include "base/Format.h"
#include "base/HandedOver.h"
#include "base/HostMemory.h"
#include "base/Parallel.h"
#include "base/Settings.h"
#include "base/Spin.h"
#include "base/StatusMacros.h"
#include "perfmodel/EngineCost.h"
#include "recipe/OpText.h"
#include "runtime/driver/HostWindow.h"
#include "runtime/driver/WorkCalls.h"
#include "runtime/driver/WorkVisitor.h"
#include "runtime/driver/common/WorkTrace.h"
#include "runtime/trace/Recorder.h"

namespace hpu::driver {
namespace {

using base::hostPointer;

// Pieces of work that run at a time. More than a few only fight for the same cores: each is
// parallel.
constexpr int kMaxWorkers = 4;
constexpr Picoseconds kPsPerNs = 1000;
// 46 days of device time; beyond it sums of picoseconds could overflow.
constexpr int64_t kMaxNs = int64_t{4} * 1000 * 1000 * 1000 * 1000 * 1000;

// Of one piece of work: its cost in picoseconds stays far from overflow.
constexpr int64_t kMaxCopyBytes = int64_t{1} << 48;

std::string deviceName(const DeviceInfo& info) {
  return base::strCat("device ", info.index, " (", info.name, ")");
}

int64_t nsUp(Picoseconds ps) {
  return (ps + kPsPerNs - 1) / kPsPerNs;
}

/// The turn of one piece of external work. It may outlive the device.
class Turn final : public ExternalTurn {
 public:
  Turn(std::shared_ptr<DeviceClock> clock, std::shared_ptr<ExternalTime> time, QueueExecutor::Complete complete)
      : clock_(std::move(clock)), time_(std::move(time)), complete_(std::move(complete)) {}
  ~Turn() override {
    if (!ended_.load()) end(internalError("the work was let go without having ended"), 0, {});
  }
  int64_t arrivalPs() override { return clock_->arrival(*time_); }
  void complete(Status status, int64_t endPs, std::vector<ExternalSpan> spans) override {
    end(std::move(status), endPs, std::move(spans));
  }

 private:
  void end(Status status, Picoseconds endPs, std::vector<ExternalSpan> spans) {
    if (ended_.exchange(true)) return;
    // Before anybody can see that the work is done.
    clock_->end(*time_, std::min(endPs, kMaxNs * kPsPerNs), std::move(spans));
    std::exchange(complete_, nullptr)(std::move(status));
  }
  const std::shared_ptr<DeviceClock> clock_;
  const std::shared_ptr<ExternalTime> time_;
  QueueExecutor::Complete complete_;
  std::atomic<bool> ended_{false};
};

/// The outcome of one launch. When the launch is let go without having run, it takes no time.
class Outcome final : public LaunchOutcome {
 public:
  Outcome(std::shared_ptr<DeviceClock> clock, std::shared_ptr<ExternalTime> time)
      : clock_(std::move(clock)), time_(std::move(time)) {}
  ~Outcome() override {
    if (!ended_) clock_->skip(*time_);
  }
  /// The launch has run.
  void end() {
    clock_->end(*time_, std::move(iterations));
    ended_ = true;
  }

 private:
  const std::shared_ptr<DeviceClock> clock_;
  const std::shared_ptr<ExternalTime> time_;
  bool ended_ = false;
};

/// What a launch keeps alive until it is done.
struct LaunchHold {
  std::shared_ptr<const void> user, program, outcome;
};

}  // namespace

StatusOr<arch::ClockProfile> TimedDevice::clockProfile(Target target) {
  HPU_ASSIGN(std::string name, settings::getString(Setting::HPU_SIM_CLOCK));
  auto profile = arch::targetDesc(target).findClock(name);
  if (!profile.ok()) return profile.status().withContext("HPU_SIM_CLOCK");
  return *profile;
}

StatusOr<WaitPolicy> TimedDevice::waitPolicy(WaitPolicy wanted) {
  if (wanted != WaitPolicy::kDefault) return wanted;
  HPU_ASSIGN(std::string name, settings::getString(Setting::HPU_WAIT_POLICY));
  return name == "block"   ? WaitPolicy::kBlock
         : name == "spin"  ? WaitPolicy::kSpin
         : name == "yield" ? WaitPolicy::kYield
                           : WaitPolicy::kHelp;
}

TimedDevice::TimedDevice(DeviceInfo info, MemoryRange memory, const arch::ClockProfile& clock, int threads)
    : info_(std::move(info)),
      memory_(memory),
      target_(arch::targetDesc(info_.target)),
      clockProfile_(clock),
      threads_(threads),
      executor_(std::make_unique<QueueExecutor>(
          deviceName(info_), kMaxWorkers,
          [this](const Work& work, const std::string& label, QueueExecutor::Signal signal) {
            return runWork(work, label, signal);
          },
          [this](const Work& work) { return neverEnds(work); },
          QueueExecutor::ExternalHooks{
              [this](const External& work, Ticket ticket, QueueExecutor::Complete complete) {
                return beginExternal(work, ticket, std::move(complete));
              },
              [this](const External& work, Ticket ticket, const Status& why) { skipExternal(work, ticket, why); }},
          info_.index)) {
  clock_->setObserver([this](const ResolvedWork& work) { traceWork(info_, clockProfile_.name, work); });
}

TimedDevice::~TimedDevice() {
  clock_->setObserver(nullptr);
}

// ---- Programs
// --------------------------------------------------------------------------------------

StatusOr<ProgramId> TimedDevice::loadProgram(std::shared_ptr<const recipe::Program> program) {
  return load(std::move(program), nullptr, {});
}

StatusOr<ProgramId> TimedDevice::loadInstance(std::shared_ptr<const recipe::Program> program, ProgramId like,
                                              std::string sizes) {
  const std::shared_ptr<Loaded> known = findLoaded(like);
  if (!known) return notFound(base::strCat(deviceName(info_), " has no program ", like));
  return load(std::move(program), known.get(), std::move(sizes));
}

StatusOr<ProgramId> TimedDevice::load(std::shared_ptr<const recipe::Program> program, const Loaded* like,
                                      std::string sizes) {
  base::FloatScope floats;
  if (!program) return invalidArgument("cannot load a program that is null");
  if (program->target != info_.target)
    return failedPrecondition(base::strCat("program '", program->name, "' was compiled for ",
                                           targetName(program->target), ", and ", deviceName(info_), " is a ",
                                           targetName(info_.target)));
  auto loaded = std::make_shared<Loaded>();
  loaded->costs = like ? like->costs : std::make_shared<perfmodel::CostMemo>();
  HPU_ASSIGN(loaded->timeline,
             LaunchTimeline::create(*program, target_, clockProfile_, loaded->costs.get(), saysIterations()));
  HPU_ASSIGN(loaded->functional, prepare(program, like ? like->functional : nullptr));
  loaded->program = std::move(program);
  loaded->isInstance = like != nullptr;
  if (!sizes.empty()) loaded->sizes = std::make_shared<const std::string>(std::move(sizes));
  std::lock_guard lock(programsMutex_);
  std::erase_if(everLoaded_, [](const auto& entry) { return entry.second.expired(); });
  ProgramId id = nextProgram_++;
  everLoaded_.emplace(id, loaded);
  programs_.emplace(id, std::move(loaded));
  return id;
}

void TimedDevice::unloadProgram(ProgramId id) {
  std::shared_ptr<Loaded> last;  // Destroyed after the lock is gone.
  std::lock_guard lock(programsMutex_);
  auto it = programs_.find(id);
  if (it == programs_.end()) return;
  last = std::move(it->second);
  programs_.erase(it);
}

std::shared_ptr<TimedDevice::Loaded> TimedDevice::findLoaded(ProgramId id) const {
  auto lock = base::lockSoon(programsMutex_);
  auto it = programs_.find(id);
  return it == programs_.end() ? nullptr : it->second;
}

// ---- Work
// ------------------------------------------------------------------------------------------

StatusOr<QueueId> TimedDevice::createQueue(const std::string& name) {
  HPU_ASSIGN(QueueId id, executor_->createQueue(name));
  clock_->addQueue(id, name.empty() ? "queue " + std::to_string(id) : name);
  return id;
}

void TimedDevice::destroyQueue(QueueId queue) {
  executor_->destroyQueue(queue);
  clock_->closeQueue(queue);
}

Status TimedDevice::checkRange(DeviceAddress address, int64_t bytes) const {
  if (bytes >= 0 && address >= memory_.base && bytes <= memory_.bytes &&
      address - memory_.base <= static_cast<uint64_t>(memory_.bytes - bytes))
    return okStatus();
  return outOfRange(base::strCat(bytes, " bytes at ", base::formatHex(address), " are outside of the memory of ",
                                 deviceName(info_), ", ", base::formatHex(memory_.base), " to ",
                                 base::formatHex(memory_.base + memory_.bytes)));
}

/// What programs, fills and copies on the device may use.
Status TimedDevice::checkRangeOrHost(DeviceAddress address, int64_t bytes) const {
  return isInHost(address, bytes) ? okStatus() : checkRange(address, bytes);
}

Status TimedDevice::checkHost(const void* pointer, int64_t bytes) const {
  if (pointer || bytes == 0) return okStatus();
  return invalidArgument("the host address of a copy is null");
}

Status TimedDevice::checkCopy(CopyDirection direction, const CopyRange& range) const {
  if (direction == CopyDirection::kOnDevice) {
    HPU_RETURN_IF_ERROR(checkRangeOrHost(range.dst, range.bytes));
    return checkRangeOrHost(range.src, range.bytes);
  }
  HPU_RETURN_IF_ERROR(direction == CopyDirection::kToHost ? checkHost(hostPointer(range.dst), range.bytes)
                                                          : checkRange(range.dst, range.bytes));
  return direction == CopyDirection::kToDevice ? checkHost(hostPointer(range.src), range.bytes)
                                               : checkRange(range.src, range.bytes);
}

Status TimedDevice::checkMany(const CopyMany& copies) const {
  int64_t total = 0;
  for (size_t i = 0; i < copies.ranges.size(); ++i) {
    const CopyRange& range = copies.ranges[i];
    Status status = checkCopy(copies.direction, range);
    if (status.ok() && range.bytes > kMaxCopyBytes - total)
      status = outOfRange("the copies have too many bytes together");
    if (!status.ok()) return status.withContext(base::strCat("copy ", i));
    total += range.bytes;
  }
  return okStatus();
}

Status TimedDevice::checkFill(const Fill& fill) const {
  const int32_t element = fill.elementBytes;
  if (element != 1 && element != 2 && element != 4)
    return invalidArgument(base::strCat("a fill's pattern has 1, 2 or 4 bytes, not ", element));
  HPU_RETURN_IF_ERROR(checkRangeOrHost(fill.dst, fill.bytes));
  if (fill.bytes % element == 0) return okStatus();
  return invalidArgument(base::strCat("a fill of ", fill.bytes, " bytes is no multiple of its pattern of ", element));
}

Status TimedDevice::checkLaunch(const Launch& launch, const Loaded* loaded) const {
  if (!loaded) return notFound(base::strCat(deviceName(info_), " has no program ", launch.program));
  const recipe::Program& program = *loaded->program;
  if (launch.sections.size() != program.sections.size())
    return invalidArgument(base::strCat("program '", program.name, "' has ", program.sections.size(), " sections, and ",
                                        launch.sections.size(), " addresses were given"));
  for (uint32_t output : launch.signals)
    if (output >= program.outputs.size())
      return invalidArgument(base::strCat("program '", program.name, "' has ", program.outputs.size(),
                                          " outputs, and output ", output, " is to signal"));
  for (size_t i = 0; i < program.sections.size(); ++i) {
    if (program.sections[i].kind == recipe::SectionKind::kSram) continue;
    const recipe::SectionKind kind = program.sections[i].kind;
    const bool bound = kind == recipe::SectionKind::kInput || kind == recipe::SectionKind::kOutput;
    const auto bytes = static_cast<int64_t>(program.sections[i].bytes);
    Status status = bound ? checkRangeOrHost(launch.sections[i], bytes) : checkRange(launch.sections[i], bytes);
    if (!status.ok()) return status.withContext(base::strCat("section ", i, " of program '", program.name, "'"));
  }
  return okStatus();
}

Status TimedDevice::check(const Work& work, const Loaded* loaded) const {
  return visitWork(
      work, [&](const CopyMany& copies) { return checkMany(copies); },
      [&](const Fill& fill) { return checkFill(fill); },
      [&](const Launch& launch) { return checkLaunch(launch, loaded); },
      [](const External& external) {
        return external.work ? okStatus() : invalidArgument("cannot enqueue external work that is null");
      },
      [&](const auto&) {
        return forEachCopy(
            work, [&](CopyDirection direction, const CopyRange& range) { return checkCopy(direction, range); });
      });
}

/// A copy, or several in one direction, of `bytes` bytes together.
TimedTransfer TimedDevice::timedCopy(CopyDirection direction, int64_t bytes, std::string_view what) const {
  switch (direction) {
    case CopyDirection::kToDevice:
      return {Resource::kHostToDevice, perfmodel::hostCopyCost(target_, bytes), bytes, what};
    case CopyDirection::kToHost:
      return {Resource::kDeviceToHost, perfmodel::hostCopyCost(target_, bytes), bytes, what};
    case CopyDirection::kOnDevice:
      break;
  }
  return {copyEngine(), perfmodel::dmaCost(target_, clockProfile_, perfmodel::Bytes{2 * bytes, 0}), bytes, what};
}

/// Null: nothing crosses the link.
std::shared_ptr<const LinkUse> TimedDevice::linkUse(int64_t readBytes, int64_t writtenBytes,
                                                    std::vector<uint32_t> outputs) const {
  if (readBytes == 0 && writtenBytes == 0) return nullptr;
  auto link = std::make_shared<LinkUse>();
  link->readBytes = readBytes;
  link->writtenBytes = writtenBytes;
  if (readBytes > 0) link->read = perfmodel::hostCopyCost(target_, readBytes);
  if (writtenBytes > 0) link->written = perfmodel::hostCopyCost(target_, writtenBytes);
  link->outputs = std::move(outputs);
  return link;
}

/// Each input and output in host memory crosses once, however often ops touch it.
std::shared_ptr<const LinkUse> TimedDevice::linkUse(const Launch& launch, const recipe::Program& program) const {
  int64_t read = 0, written = 0;
  std::vector<uint32_t> outputs;
  for (size_t s = 0; s < launch.sections.size(); ++s) {
    const recipe::Section& section = program.sections[s];
    const bool isOutput = section.kind == recipe::SectionKind::kOutput;
    if ((!isOutput && section.kind != recipe::SectionKind::kInput) || !isInHost(launch.sections[s])) continue;
    const TensorInfo& tensor = (isOutput ? program.outputs : program.inputs)[section.binding];
    auto bytes = static_cast<int64_t>(section.bytes);
    if (numElements(tensor.type.shape) != kDynamic) bytes = std::min(bytes, tensor.type.bytes());
    // Far beyond what any host has; a sum that overflows would be no time.
    int64_t& sum = isOutput ? written : read;
    sum = std::min(sum + std::min(bytes, kMaxCopyBytes), kMaxCopyBytes);
    if (isOutput) outputs.push_back(section.binding);
  }
  return linkUse(read, written, std::move(outputs));
}

/// Copies on the device, of which parts may cross the host link.
TimedTransfer TimedDevice::timedOnDevice(const std::vector<CopyRange>& ranges, std::string_view what) const {
  int64_t within = 0, read = 0, written = 0;
  for (const CopyRange& range : ranges) {
    if (isInHost(range.src)) read += range.bytes;
    if (isInHost(range.dst)) written += range.bytes;
    if (!isInHost(range.src) && !isInHost(range.dst)) within += range.bytes;
  }
  if (read == 0 && written == 0) return timedCopy(CopyDirection::kOnDevice, within, what);
  if (within == 0 && written == 0) return timedCopy(CopyDirection::kToDevice, read, what);
  if (within == 0 && read == 0) return timedCopy(CopyDirection::kToHost, written, what);
  TimedTransfer transfer{copyEngine(), {}, within, what};
  if (within > 0) transfer = timedCopy(CopyDirection::kOnDevice, within, what);
  transfer.link = linkUse(read, written, {});
  return transfer;
}

StatusOr<TimedWork> TimedDevice::timedWait(const WaitFor& wait) const {
  // Another kind of device has no time that could be compared with ours; the work is ordered only.
  auto other = std::dynamic_pointer_cast<TimedDevice>(wait.other);
  if (wait.other && !other) return TimedWait{};
  const TimedDevice& of = other ? *other : *this;
  if (other) other->executor_->sealSoon();
  auto node = other ? other->clock_->nodeForOther(wait.ticket) : clock_->node(wait.ticket);
  if (!node)
    return notFound(base::strCat("cannot wait for ticket ", wait.ticket, " of ", deviceName(of.info_),
                                 ": it was never submitted or is forgotten"));
  return TimedWait{std::move(node), other ? other->clock_ : nullptr};
}

StatusOr<TimedWork> TimedDevice::timedWork(const Work& work, const std::shared_ptr<Loaded>& loaded) const {
  using Result = StatusOr<TimedWork>;
  return visitWork(
      work,
      [&](const CopyToDevice& copy) -> Result {
        return timedCopy(CopyDirection::kToDevice, copy.bytes, "copy to device");
      },
      [&](const CopyToHost& copy) -> Result { return timedCopy(CopyDirection::kToHost, copy.bytes, "copy to host"); },
      [&](const CopyOnDevice& copy) -> Result {
        if (!isInHost(copy.dst) && !isInHost(copy.src))
          return timedCopy(CopyDirection::kOnDevice, copy.bytes, "copy on device");
        return timedOnDevice({{copy.dst, copy.src, copy.bytes}}, "copy on device");
      },
      [&](const CopyMany& copies) -> Result {
        constexpr std::string_view kWhat[] = {"copies to device", "copies to host", "copies on device"};
        if (copies.direction == CopyDirection::kOnDevice) return timedOnDevice(copies.ranges, kWhat[2]);
        int64_t total = 0;
        for (const CopyRange& range : copies.ranges) total += range.bytes;
        return timedCopy(copies.direction, total, kWhat[copies.direction == CopyDirection::kToDevice ? 0 : 1]);
      },
      [&](const Fill& fill) -> Result {
        if (isInHost(fill.dst)) return timedCopy(CopyDirection::kToHost, fill.bytes, "fill");
        return TimedTransfer{copyEngine(),
                             perfmodel::dmaCost(target_, clockProfile_, perfmodel::Bytes{fill.bytes, 0}, fill.bytes),
                             fill.bytes, "fill"};
      },
      [&](const Launch& launch) -> Result {
        // That of an instance becomes another instance's when the launch is over: only a trace looks at it later.
        const bool keeps = !loaded->isInstance || trace::recording();
        return TimedProgram{loaded->timeline, keeps ? loaded->program : nullptr,
                            launch.signals,   linkUse(launch, *loaded->program),
                            loaded->sizes,    loaded->isInstance};
      },
      [&](const WaitFor& wait) -> Result { return timedWait(wait); },
      [](const External& away) -> Result {
        HPU_ASSIGN(ExternalPorts ports, portsOf(*away.work));
        return TimedExternal{std::move(ports)};
      },
      [](const Marker&) -> Result { return TimedMarker{}; }, [](const Fault&) -> Result { return TimedMarker{}; });
}

/// Of a launch whose time depends on how often its parts run; null: it has its time without that. Whoever submits the
/// launch keeps it until the work is done.
std::shared_ptr<LaunchOutcome> TimedDevice::awaitOutcome(Work& work, TimedWork& timed) const {
  auto* program = std::get_if<TimedProgram>(&timed);
  if (!program || !program->timeline->isAwaited) return nullptr;
  program->outcome = std::make_shared<ExternalTime>();
  auto outcome = std::make_shared<Outcome>(clock_, program->outcome);
  std::get<Launch>(work).outcome = outcome.get();
  return outcome;
}

/// A target without DMA engines copies on its TPCs.
Resource TimedDevice::copyEngine() const {
  return target_.numDmas > 0 ? Resource::kDma : Resource::kTpc;
}

StatusOr<Ticket> TimedDevice::submit(QueueId queue, Work work, SubmitOptions options) {
  base::FloatScope floats;
  std::shared_ptr<Loaded> loaded;
  if (auto* launch = std::get_if<Launch>(&work)) {
    loaded = findLoaded(launch->program);
    if (loaded) launch->workPs = loaded->timeline->work;
  }
  HPU_RETURN_IF_ERROR(check(work, loaded.get()));
  HPU_RETURN_IF_ERROR(checkEarliest(options.earliestStartNs));
  if (auto* wait = std::get_if<WaitFor>(&work); wait && wait->other.get() == this) wait->other.reset();
  HPU_ASSIGN(TimedWork timed, timedWork(work, loaded));
  std::shared_ptr<LaunchOutcome> outcome = awaitOutcome(work, timed);

  const int64_t earliestNs = options.earliestStartNs;
  ClockItem item;
  item.queue = queue;
  item.priority = options.priority;
  item.earliest = (options.earliestStartNs + clockProfile_.submitNs) * kPsPerNs;
  item.work = std::move(timed);
  if (!loaded || options.label != loaded->program->name) item.label = options.label;  // Else the trace knows it.
  std::shared_ptr<ExternalWork> external;
  bool beginNow = false;
  if (const auto* away = std::get_if<External>(&work)) {
    external = away->work;
    HPU_ASSIGN(beginNow, startsInEnqueue(*external));
    beginNow = beginNow && deviceFailure(work).ok();
  }
  std::shared_ptr<const void> keepAlive = std::move(options.keepAlive);
  if (loaded)
    keepAlive = base::makeHandedOver<LaunchHold>(LaunchHold{std::move(keepAlive), loaded, std::move(outcome)});
  return executor_->submit(
      queue, std::move(work), std::move(keepAlive), std::move(options.label),
      [&](Ticket ticket, const ExternalWork* before) {
        item.ticket = ticket;
        const Picoseconds earliest = item.earliest;
        if (trace::recording())
          trace::recordClockEdge(static_cast<uint32_t>(info_.index), ticket, trace::ClockEdge::kSubmit,
                                 trace::hostNowNs(), earliest);
        std::vector<Picoseconds> ports = clock_->submit(std::move(item));
        if (external && !ports.empty()) tellPortsReserved(*external, std::move(ports));
        if (external && before) tellBehind(*external, *before, earliest);
      },
      beginNow, earliestNs);
}

bool TimedDevice::extend(QueueId queue, const ExternalWork& work, int64_t earliestStartNs, const ExternalPorts& ports,
                         std::vector<int64_t>& readyPs) {
  return deviceFailure(External{}).ok() && executor_->extend(queue, work, earliestStartNs, [&](Ticket ticket) {
    clock_->extend(ticket, queue, ports, readyPs);
  });
}

StatusOr<std::vector<Ticket>> TimedDevice::submitBatch(const std::vector<BatchItem>& items, BatchOptions options) {
  base::FloatScope floats;
  HPU_RETURN_IF_ERROR(checkEarliest(options.earliestStartNs));
  std::vector<QueueExecutor::Entry> entries;
  std::vector<ClockItem> timed;
  std::vector<DeviceClock::BatchWait> waits(items.size());
  std::vector<bool> kept(items.size());
  entries.reserve(items.size());
  timed.reserve(items.size());
  const Picoseconds earliest = (options.earliestStartNs + clockProfile_.submitNs) * kPsPerNs;
  for (size_t i = 0; i < items.size(); ++i) {
    const BatchItem& item = items[i];
    const bool own = item.queue == 0;
    QueueExecutor::Entry entry;
    entry.queue = own ? options.queue : item.queue;
    entry.work = item.work;
    entry.label = item.label;
    entry.kept = item.kept;
    std::shared_ptr<Loaded> loaded;
    if (auto* launch = std::get_if<Launch>(&entry.work)) {
      loaded = findLoaded(launch->program);
      if (loaded) launch->workPs = loaded->timeline->work;
    }
    ClockItem clockItem;
    std::shared_ptr<LaunchOutcome> outcome;
    Status status = check(item.work, loaded.get());
    if (item.waitItem != BatchItem::kNone) {
      const auto* launch = item.waitItem < i ? std::get_if<Launch>(&items[item.waitItem].work) : nullptr;
      if (!std::holds_alternative<WaitFor>(item.work) || item.waitItem >= i)
        status = invalidArgument("only a wait may name an item, one before it");
      else if (item.waitSignal != BatchItem::kNone && (!launch || item.waitSignal >= launch->signals.size()))
        status = invalidArgument(base::strCat("there is no signal ", item.waitSignal, " of item ", item.waitItem));
      entry.waitItem = waits[i].item = item.waitItem;
      entry.waitSignal = waits[i].signal = item.waitSignal;
      clockItem.work = TimedWait{};
    } else if (status.ok()) {
      if (auto* wait = std::get_if<WaitFor>(&entry.work); wait && wait->other.get() == this) wait->other.reset();
      auto work = timedWork(entry.work, loaded);
      if (work.ok()) {
        outcome = awaitOutcome(entry.work, *work);
        clockItem.work = std::move(*work);
      } else {
        status = work.status();
      }
    }
    if (!status.ok()) return status.withContext(base::strCat("item ", i));
    kept[i] = item.kept;
    clockItem.queue = entry.queue;
    clockItem.priority = own ? options.priority : item.priority;
    clockItem.earliest = earliest;
    clockItem.label = item.label;
    timed.push_back(std::move(clockItem));
    std::shared_ptr<const void> user;
    if (i + 1 == items.size()) user = std::move(options.keepAlive);
    if (loaded && (user || outcome))
      entry.keepAlive =
          base::makeHandedOver<LaunchHold>(LaunchHold{std::move(user), std::move(loaded), std::move(outcome)});
    else if (loaded)
      entry.keepAlive = std::move(loaded);
    else
      entry.keepAlive = std::move(user);
    entries.push_back(std::move(entry));
  }
  auto accepted = [&](const std::vector<Ticket>& tickets) {
    for (size_t i = 0; i < tickets.size(); ++i) {
      timed[i].ticket = tickets[i];
      if (trace::recording())
        trace::recordClockEdge(static_cast<uint32_t>(info_.index), tickets[i], trace::ClockEdge::kSubmit,
                               trace::hostNowNs(), earliest);
    }
    clock_->submitBatch(std::move(timed), waits, kept);
  };
  return executor_->submitBatch(std::move(entries), options.queue, accepted);
}

Status TimedDevice::checkEarliest(int64_t earliestStartNs) const {
  if (earliestStartNs >= 0 && earliestStartNs <= kMaxNs) return okStatus();
  return outOfRange(base::strCat("earliest start ", earliestStartNs, " ns is outside of the device clock's range"));
}

Status TimedDevice::runWork(const Work& work, const std::string& label, QueueExecutor::Signal signal) {
  // Threads of the program that wait work here, too.
  base::FloatScope floats;
  Status status = deviceFailure(work);
  if (status.ok())
    status = runSound(work, label, signal);
  else
    status = atPlace(work, status);
  if (!status.ok()) workFailed(work, label, status);
  // A thread that enqueues a long backlog does not resolve its times: the workers do.
  clock_->catchUp();
  return status;
}

Status TimedDevice::beginExternal(const External& work, Ticket ticket, QueueExecutor::Complete complete) {
  base::FloatScope floats;
  if (Status failed = deviceFailure(work); !failed.ok()) {
    skipExternal(work, ticket, failed);
    const StatusOr<std::string> name = nameOf(*work.work);
    workFailed(work, name.ok() ? *name : "external work", failed);
    return failed;
  }
  trace::HostScope scope("external work", "functional");
  std::shared_ptr<ExternalTime> time = clock_->takeExternal(ticket);
  std::shared_ptr<Turn> turn;
  try {
    turn = std::make_shared<Turn>(clock_, time, std::move(complete));
  } catch (const std::bad_alloc&) {
    Status failed = resourceExhausted("out of host memory");
    clock_->skip(*time);
    skipWork(*work.work, failed);
    return failed;
  }
  startWork(*work.work, std::move(turn));
  return okStatus();
}

void TimedDevice::skipExternal(const External& work, Ticket ticket, const Status& why) {
  // Before anybody can see that the work is done.
  if (auto time = clock_->takeExternal(ticket)) clock_->skip(*time);
  skipWork(*work.work, why);
}

/// The failure of work as a whole, with where it is: "... (at node 'conv1' (Conv) on the mme)", "... (on the dma)".
Status TimedDevice::atPlace(const Work& work, const Status& status) const {
  const auto on = [&](std::string_view place) {
    return Status::because(status, status.code(), base::strCat(status.message(), " (on the ", place, ")"));
  };
  const auto copy = [&](CopyDirection direction) {
    if (direction != CopyDirection::kOnDevice) return on("host link");
    return on(copyEngine() == Resource::kDma ? "dma" : "tpc");
  };
  return visitWork(
      work,
      [&](const Launch& launch) {
        auto loaded = findLoaded(launch.program);
        if (!loaded || loaded->program->hostOrder.empty()) return status;
        const recipe::Program& program = *loaded->program;
        return recipe::failedAt(status, program, program.ops[program.hostOrder.front()]);
      },
      [&](const CopyToDevice&) { return copy(CopyDirection::kToDevice); },
      [&](const CopyToHost&) { return copy(CopyDirection::kToHost); },
      [&](const CopyOnDevice&) { return copy(CopyDirection::kOnDevice); },
      [&](const CopyMany& copies) { return copy(copies.direction); },
      [&](const Fill&) { return copy(CopyDirection::kOnDevice); }, [&](const Marker&) { return status; },
      [&](const WaitFor&) { return status; }, [&](const External&) { return status; },
      [&](const Fault&) { return status; });
}

Status TimedDevice::runSound(const Work& work, const std::string& label, QueueExecutor::Signal signal) {
  if (std::holds_alternative<Marker>(work)) return okStatus();
  if (const auto* fault = std::get_if<Fault>(&work)) return fault->status;
  trace::HostScope scope(label.empty() ? workName(work) : std::string_view(label), "functional");
  base::ThreadLimit limit(threads_);
  std::shared_ptr<Loaded> loaded;
  if (const auto* launch = std::get_if<Launch>(&work)) {
    std::lock_guard lock(programsMutex_);
    loaded = everLoaded_[launch->program].lock();
  }
  Status status = execute(work, loaded ? loaded->functional.get() : nullptr, signal);
  // Before anybody can see that the launch is done.
  if (const auto* launch = std::get_if<Launch>(&work); launch && launch->outcome)
    static_cast<Outcome*>(launch->outcome)->end();
  return status;
}

// ---- Device time
// -----------------------------------------------------------------------------------

Status TimedDevice::reset(int64_t deadlineMs) {
  interrupt();
  Status status = executor_->reset(deadlineMs, [&](const std::vector<Ticket>& dropped) { clock_->drop(dropped); });
  resume();
  return status;
}

void TimedDevice::setHealthSink(HealthSink sink) {
  healthSink_ = std::move(sink);
  executor_->setFailed([sink = healthSink_](const std::string& queue, const Status& error) {
    sink(HealthEvent::Kind::kWorkFailed, queue, error);
  });
}

void TimedDevice::forget(Ticket ticket) {
  executor_->forget(ticket);
  clock_->forget(ticket);
}

StatusOr<DriverDevice::DeviceSpan> TimedDevice::deviceSpan(Ticket ticket) {
  base::FloatScope floats;
  if (!executor_->done(ticket))
    return failedPrecondition(base::strCat("ticket ", ticket, " of ", deviceName(info_),
                                           " is not done; wait for it before asking for its time"));
  HPU_ASSIGN(DeviceClock::Span span, clock_->span(ticket));
  if (trace::recording())
    trace::recordClockEdge(static_cast<uint32_t>(info_.index), ticket, trace::ClockEdge::kComplete, trace::hostNowNs(),
                           span.end);
  // Rounded up: a time that was observed is never before what it stands for.
  return DeviceSpan{span.start / kPsPerNs, nsUp(span.end)};
}

DeviceCounters TimedDevice::counters() {
  executor_->seal();
  base::FloatScope floats;
  return countersOf(clock_->totals());
}

DeviceCounters TimedDevice::countersOf(const DeviceClock::Totals& totals) {
  DeviceCounters result;
  for (int e = 0; e < kNumEngines; ++e) result.busyNs[e] = totals.busy[e] / kPsPerNs;
  result.deviceNs = nsUp(totals.end);
  result.launches = totals.launches;
  result.commands = totals.commands;
  result.h2dBytes = totals.hostToDeviceBytes;
  result.d2hBytes = totals.deviceToHostBytes;
  return result;
}

}  // namespace hpu::driver
