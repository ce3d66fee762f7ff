// SPDX-License-Identifier: Apache-2.0
// TimedDevice: what the simulated and the null device share: queues, tickets, programs and device
// time. The one thing to know: a subclass only says what work does to memory; its destructor must
// call shutDown() first, because workers call it until then.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "arch/TargetDesc.h"
#include "runtime/driver/Driver.h"
#include "runtime/driver/clock/DeviceClock.h"
#include "runtime/driver/common/QueueExecutor.h"

namespace hpu::driver {

/// What a driver keeps about a loaded program besides its times.
class LoadedProgram {
 public:
  virtual ~LoadedProgram() = default;
};

class TimedDevice : public DriverDevice {
 public:
  ~TimedDevice() override;
  const DeviceInfo& info() const override { return info_; }
  MemoryRange memory() const override { return memory_; }
  StatusOr<ProgramId> loadProgram(std::shared_ptr<const recipe::Program> program) override;
  StatusOr<ProgramId> loadInstance(std::shared_ptr<const recipe::Program> program, ProgramId like,
                                   std::string sizes) override;
  void unloadProgram(ProgramId id) override;
  StatusOr<QueueId> createQueue(const std::string& name) override;
  void destroyQueue(QueueId queue) override;
  StatusOr<Ticket> submit(QueueId queue, Work work, SubmitOptions options) override;
  StatusOr<std::vector<Ticket>> submitBatch(const std::vector<BatchItem>& items, BatchOptions options) override;
  bool extend(QueueId queue, const ExternalWork& work, int64_t earliestStartNs, const ExternalPorts& ports,
              std::vector<int64_t>& readyPs) override;
  void seal() override { executor_->seal(); }
  bool done(Ticket ticket) override { return executor_->done(ticket); }
  Status wait(Ticket ticket, int64_t deadlineMs) override { return executor_->wait(ticket, deadlineMs); }
  void setHealthSink(HealthSink sink) override;
  void whenDone(Ticket ticket, std::function<void()> callback) override {
    executor_->whenDone(ticket, std::move(callback));
  }
  Status takeError(QueueId queue, Ticket upTo) override { return executor_->takeError(queue, upTo); }
  Status error(QueueId queue, Ticket upTo) override { return executor_->error(queue, upTo); }
  Status failure(Ticket ticket) override { return executor_->failure(ticket); }
  Status reset(int64_t deadlineMs) override;
  void forget(Ticket ticket) override;
  StatusOr<DeviceSpan> deviceSpan(Ticket ticket) override;
  bool seen(Ticket ticket) const override { return clock_->seen(ticket); }
  DeviceCounters counters() override;
  uint64_t workDone() override { return executor_->workDone(); }
  Motion motion() override { return executor_->motion(); }

  const std::shared_ptr<DeviceClock>& clock() const { return clock_; }

 protected:
  /// `info.index`, `target`, `hbmBytes` and the others are filled in. The clock profile is
  /// HPU_SIM_CLOCK.
  static StatusOr<arch::ClockProfile> clockProfile(Target target);
  TimedDevice(DeviceInfo info, MemoryRange memory, const arch::ClockProfile& clock, int threads);
  /// What DeviceOptions::wait means: never kDefault. Errors: kInvalidArgument (a bad HPU_WAIT_POLICY).
  static StatusOr<WaitPolicy> waitPolicy(WaitPolicy wanted);
  /// Threads that wait for its work do so from now on.
  void waitBy(WaitPolicy policy) { executor_->waitBy(policy); }

  /// Prepares the program's functional side; null when there is none. `like`: of a program with the same kernel images
  /// and constants, or null.
  virtual StatusOr<std::shared_ptr<LoadedProgram>> prepare(const std::shared_ptr<const recipe::Program>& program,
                                                           const std::shared_ptr<LoadedProgram>& like) = 0;
  /// Whether execute() says how often parts of programs have run (Launch::outcome). Else they are taken to run as often
  /// as they can.
  virtual bool saysIterations() const { return false; }
  /// Does one piece of checked work that is neither a wait nor a marker, on a worker thread.
  /// `program` is what prepare() returned for a launch, else null; a launch calls `signal` with i
  /// when output signals[i] is written.
  virtual Status execute(const Work& work, LoadedProgram* program, QueueExecutor::Signal signal) = 0;
  /// What work fails with, before it does anything, because the device has failed.
  virtual Status deviceFailure(const Work& work) { return okStatus(); }
  /// True for a launch that does not end because the device has failed; asked once, before it
  /// begins, under the executor's lock.
  virtual bool neverEnds(const Work& work) { return false; }
  /// What setHealthSink gave; may be empty.
  const HealthSink& healthSink() const { return healthSink_; }
  virtual void workFailed(const Work& work, const std::string& label, const Status& status) {}
  /// A reset begins: what runs and may not end by itself must end soon, with an error.
  virtual void interrupt() {}
  /// A reset is over, in time or not: what stood for a failed device is forgotten.
  virtual void resume() {}
  /// Waits for the work that is enqueued and stops the workers.
  void shutDown() { executor_.reset(); }
  int threads() const { return threads_; }
  /// Only before shutDown().
  QueueExecutor::Load load() const { return executor_->load(); }
  /// As counters(), of what has its device time by now: who watches changes no time.
  DeviceCounters resolvedCounters() const { return countersOf(clock_->resolvedTotals()); }
  const arch::ClockProfile& profile() const { return clockProfile_; }

 private:
  struct Loaded {
    std::shared_ptr<const recipe::Program> program;
    std::shared_ptr<const LaunchTimeline> timeline;
    std::shared_ptr<LoadedProgram> functional;
    std::shared_ptr<perfmodel::CostMemo> costs;  ///< Of it and of its instances.
    bool isInstance = false;                     ///< Of loadInstance.
    std::shared_ptr<const std::string> sizes;    ///< As loadInstance's; null: none.
  };

  StatusOr<ProgramId> load(std::shared_ptr<const recipe::Program> program, const Loaded* like, std::string sizes);
  static DeviceCounters countersOf(const DeviceClock::Totals& totals);
  Status runWork(const Work& work, const std::string& label, QueueExecutor::Signal signal);
  Status atPlace(const Work& work, const Status& status) const;
  Status runSound(const Work& work, const std::string& label, QueueExecutor::Signal signal);
  Status beginExternal(const External& work, Ticket ticket, QueueExecutor::Complete complete);
  void skipExternal(const External& work, Ticket ticket, const Status& why);
  Status checkEarliest(int64_t earliestStartNs) const;
  Status check(const Work& work, const Loaded* loaded) const;
  Status checkRange(DeviceAddress address, int64_t bytes) const;
  Status checkRangeOrHost(DeviceAddress address, int64_t bytes) const;
  Status checkHost(const void* pointer, int64_t bytes) const;
  Status checkCopy(CopyDirection direction, const CopyRange& range) const;
  Status checkMany(const CopyMany& copies) const;
  Status checkFill(const Fill& fill) const;
  Status checkLaunch(const Launch& launch, const Loaded* loaded) const;
  Resource copyEngine() const;
  TimedTransfer timedCopy(CopyDirection direction, int64_t bytes, std::string_view what) const;
  TimedTransfer timedOnDevice(const std::vector<CopyRange>& ranges, std::string_view what) const;
  std::shared_ptr<const LinkUse> linkUse(int64_t readBytes, int64_t writtenBytes, std::vector<uint32_t> outputs) const;
  std::shared_ptr<const LinkUse> linkUse(const Launch& launch, const recipe::Program& program) const;
  StatusOr<TimedWork> timedWait(const WaitFor& wait) const;
  StatusOr<TimedWork> timedWork(const Work& work, const std::shared_ptr<Loaded>& loaded) const;
  std::shared_ptr<LaunchOutcome> awaitOutcome(Work& work, TimedWork& timed) const;
  std::shared_ptr<Loaded> findLoaded(ProgramId id) const;

  const DeviceInfo info_;
  const MemoryRange memory_;
  const arch::TargetDesc& target_;
  const arch::ClockProfile clockProfile_;
  const int threads_;
  const std::shared_ptr<DeviceClock> clock_ = std::make_shared<DeviceClock>();

  mutable std::mutex programsMutex_;  // Guards the next three.
  std::map<ProgramId, std::shared_ptr<Loaded>> programs_;
  /// Also of unloaded programs whose launches are still enqueued (the launches own them).
  std::unordered_map<ProgramId, std::weak_ptr<Loaded>> everLoaded_;
  ProgramId nextProgram_ = 1;

  HealthSink healthSink_;
  std::unique_ptr<QueueExecutor> executor_;
};

}  // namespace hpu::driver
