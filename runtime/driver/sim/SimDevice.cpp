// SPDX-License-Identifier: Apache-2.0
#include "runtime/driver/sim/SimDevice.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/Format.h"
#include "base/FunctionRef.h"
#include "base/HostMemory.h"
#include "base/ProcessOwned.h"
#include "base/Settings.h"
#include "base/StatusMacros.h"
#include "recipe/OpText.h"
#include "recipe/Parts.h"
#include "runtime/driver/HostWindow.h"
#include "runtime/driver/WorkVisitor.h"
#include "runtime/driver/common/DeviceSize.h"
#include "runtime/driver/common/TimedDevice.h"
#include "runtime/driver/sim/Faults.h"
#include "runtime/driver/sim/Hbm.h"
#include "runtime/driver/sim/functional/ProgramExecutor.h"
#include "runtime/node/Ownership.h"
#include "runtime/ports/Ports.h"

namespace hpu::driver {
namespace {

class SimProgram final : public LoadedProgram {
 public:
  SimProgram(std::shared_ptr<const recipe::Program> program, std::unique_ptr<sim::ProgramExecutor> executor)
      : program_(std::move(program)), executor_(std::move(executor)) {}
  /// Its executor is made by the first launch that runs: whoever enqueues it does not wait for that.
  SimProgram(std::shared_ptr<const recipe::Program> program, std::shared_ptr<const SimProgram> like)
      : program_(std::move(program)), like_(std::move(like)) {}

  /// Of parts: they run in the place of the program's own executor.
  SimProgram(std::shared_ptr<const recipe::Program> program, std::vector<std::unique_ptr<SimProgram>> parts)
      : program_(std::move(program)), parts_(std::move(parts)), writingParts_(recipe::lastWritingParts(*program_)) {}

  /// With executors of the program, or of all its parts.
  static StatusOr<std::unique_ptr<SimProgram>> create(
      const std::shared_ptr<const recipe::Program>& program,
      const std::shared_ptr<sim::ScratchPool>& scratch = std::make_shared<sim::ScratchPool>()) {
    if (program->parts.empty()) {
      sim::ProgramExecutor::Options options;
      options.scratch = scratch;
      HPU_ASSIGN(auto executor, sim::ProgramExecutor::create(program, options));
      return std::make_unique<SimProgram>(program, std::move(executor));
    }
    std::vector<std::unique_ptr<SimProgram>> parts;
    for (const recipe::Part& part : program->parts) {
      auto own = create(part.program, scratch);
      if (!own.ok()) return own.status().withContext(partText(*program, static_cast<uint32_t>(parts.size())));
      parts.push_back(std::move(*own));
    }
    return std::make_unique<SimProgram>(program, std::move(parts));
  }

  using CheckBudget = base::FunctionRef<Status(DeviceAddress, int64_t)>;
  using MayGoOn = base::FunctionRef<Status()>;
  /// `mayGoOn` is asked before each iteration of a part.
  Status run(const Hbm& hbm, const Launch& launch, CheckBudget checkBudget, MayGoOn mayGoOn,
             QueueExecutor::Signal signal) {
    const Addresses& sections = launch.sections;
    std::vector<std::byte*> bases(sections.size(), nullptr);
    for (size_t i = 0; i < sections.size(); ++i)
      if (program_->sections[i].kind != recipe::SectionKind::kSram)
        bases[i] = isInHost(sections[i]) ? static_cast<std::byte*>(windowPointer(sections[i])) : hbm.at(sections[i]);
    for (uint32_t i = 0; i < sections.size(); ++i) {
      // Inputs too: a kernel that reads what was never written makes pages of it.
      if (!bases[i] || isInHost(sections[i])) continue;
      Status status = checkBudget(sections[i], static_cast<int64_t>(program_->sections[i].bytes));
      if (status.ok()) continue;
      if (!parts_.empty()) return atFirstPart(status, i);
      const recipe::Op* op = recipe::firstUser(*program_, i);
      return op ? recipe::failedAt(status, *program_, *op) : status;
    }
    if (!parts_.empty())
      return runParts(bases, mayGoOn, launch.outcome, [&](uint32_t part) {
        // The time of a launch that data decides is known when it has run, and that of its signals, too.
        for (uint32_t i = 0; i < launch.signals.size() && !launch.outcome; ++i)
          if (writingParts_[launch.signals[i]] == part) signal(i);
      });
    HPU_ASSIGN(sim::ProgramExecutor * executor, this->executor());
    if (launch.signals.empty()) return executor->run(bases);
    return executor->run(bases, [&](uint32_t output) {
      for (uint32_t i = 0; i < launch.signals.size(); ++i)
        if (launch.signals[i] == output) signal(i);
    });
  }

  /// Runs the parts one after another. `outcome`: null, or who is told how often. `done` is called with each part
  /// that is over.
  Status runParts(const std::vector<std::byte*>& bases, MayGoOn mayGoOn, LaunchOutcome* outcome,
                  base::FunctionRef<void(uint32_t)> done) {
    std::vector<uint64_t> ran;
    for (uint32_t p = 0; p < parts_.size(); ++p) {
      HPU_RETURN_IF_ERROR(runPart(p, bases, mayGoOn, outcome, ran));
      done(p);
    }
    return okStatus();
  }

  /// Whose kernels and weights it shares; null: it has its own.
  const std::shared_ptr<const SimProgram>& like() const { return like_; }
  /// Errors: ProgramExecutor::create's; the next launch tries again.
  StatusOr<sim::ProgramExecutor*> executor() {
    std::lock_guard lock(mutex_);
    if (!executor_) {
      HPU_ASSIGN(executor_, sim::ProgramExecutor::create(program_, {}, *like_->executor_));
    }
    return executor_.get();
  }

 private:
  /// "part 2 'body'".
  static std::string partText(const recipe::Program& program, uint32_t part) {
    const std::string& name = program.parts[part].program->name;
    return base::strCat("part ", part, name.empty() ? "" : " '", name, name.empty() ? "" : "'");
  }

  Status atFirstPart(const Status& status, uint32_t section) const {
    for (uint32_t p = 0; p < program_->parts.size(); ++p)
      for (const recipe::PartPlace& place : program_->parts[p].sections)
        if (place.section == section || place.oddSection == section) return status.withContext(partText(*program_, p));
    return status;
  }

  /// `ran` holds how often the parts before it have run, and receives how often it has.
  Status runPart(uint32_t p, const std::vector<std::byte*>& bases, MayGoOn mayGoOn, LaunchOutcome* outcome,
                 std::vector<uint64_t>& ran) {
    const recipe::Part& part = program_->parts[p];
    const std::vector<recipe::Section>& sections = part.program->sections;
    uint64_t iteration = 0;
    auto at = [&](const recipe::PartPlace& place) -> std::byte* {
      const recipe::PartAddress address = recipe::addressOf(place, p, iteration, ran);
      std::byte* base = address.section == recipe::kNone ? nullptr : bases[address.section];
      return base ? base + address.offset : nullptr;
    };
    uint64_t most = part.trips;
    if (part.count.section != recipe::kNone) {
      int64_t count = 0;
      std::memcpy(&count, at(part.count), sizeof(count));
      most = count <= 0 ? 0 : std::min(most, static_cast<uint64_t>(count));
    }
    const bool isTold = outcome && recipe::isDecided(part);
    const size_t slot = isTold ? outcome->iterations.size() : 0;
    if (isTold) outcome->iterations.push_back(0);
    std::vector<std::byte*> own(sections.size(), nullptr);
    for (; iteration < most; ++iteration) {
      if (part.condition.section != recipe::kNone) {
        const bool holds = *at(part.condition) != std::byte{0};
        if (holds == part.conditionInverted) break;
      }
      if (isTold) outcome->iterations[slot] = iteration + 1;
      Status status = mayGoOn();
      if (status.ok()) {
        for (size_t s = 0; s < own.size(); ++s) own[s] = at(part.sections[s]);
        status = parts_[p]->runOnce(own, mayGoOn, outcome);
      }
      if (!status.ok()) return status.withContext(base::strCat(partText(*program_, p), ", iteration ", iteration));
    }
    ran.push_back(iteration);
    return okStatus();
  }

  Status runOnce(const std::vector<std::byte*>& bases, MayGoOn mayGoOn, LaunchOutcome* outcome) {
    if (parts_.empty()) return executor_->run(bases);
    return runParts(bases, mayGoOn, outcome, [](uint32_t) {});
  }

  const std::shared_ptr<const recipe::Program> program_;
  const std::vector<std::unique_ptr<SimProgram>> parts_;
  const std::vector<uint32_t> writingParts_;      ///< Of a program with parts.
  const std::shared_ptr<const SimProgram> like_;  ///< Has its executor from the start. Null: so has this.
  std::mutex mutex_;                              ///< Guards that the next is made once; it stays.
  std::unique_ptr<sim::ProgramExecutor> executor_;
};

class SimDevice final : public TimedDevice, private node::DeviceReporter {
 public:
  SimDevice(std::unique_ptr<node::OwnedDevice> owned, DeviceInfo info, std::unique_ptr<Hbm> hbm,
            const arch::ClockProfile& clock, int threads)
      : TimedDevice(std::move(info), {Hbm::kBase, hbm->bytes()}, clock, threads),
        owned_(std::move(owned)),
        hbm_(std::move(hbm)) {}
  ~SimDevice() override {
    owned_->stopServing();
    shutDown();
  }

  Status discard(DeviceAddress address, int64_t bytes) override { return hbm_->discard(address, bytes); }
  Status clear(DeviceAddress address, int64_t bytes) override { return hbm_->clear(address, bytes); }
  Status poison(DeviceAddress address, int64_t bytes) override { return hbm_->poison(address, bytes); }

  static StatusOr<std::shared_ptr<DriverDevice>> open(const DeviceOptions& options) {
    HPU_ASSIGN(arch::ClockProfile clock, clockProfile(options.target));
    HPU_ASSIGN(WaitPolicy wait, waitPolicy(options.wait));
    HPU_ASSIGN(std::unique_ptr<node::OwnedDevice> owned, node::acquire(options));
    HPU_ASSIGN(DeviceInfo info, deviceInfo("sim", options, owned->index()));
    HPU_ASSIGN(int64_t budget, hostMemoryBudget());
    // A budget that was set is the user's word; else other devices and processes count as well.
    std::function<int64_t()> available;
    HPU_ASSIGN(int64_t fixed, settings::getInt(Setting::HPU_SIM_HOST_BYTES));
    if (fixed == 0) available = availableHostMemory;
    HPU_ASSIGN(std::unique_ptr<Hbm> hbm, Hbm::create(info.hbmBytes, budget, std::move(available)));
    info.hbmBytes = hbm->bytes();
    auto device =
        base::makeProcessOwned<SimDevice>(std::move(owned), std::move(info), std::move(hbm), clock, options.threads);
    device->waitBy(wait);
    ports::clear(device->info().index);
    device->owned_->serve(device.get(), {device->hbm_->file(), Hbm::kBase, device->hbm_->bytes()});
    return std::shared_ptr<DriverDevice>(std::move(device));
  }

  int memoryFile() const override { return hbm_->file(); }
  Status checkWrite(DeviceAddress address, int64_t bytes) const override {
    if (!hbm_->contains(address, bytes))
      return outOfRange(base::strCat(bytes, " bytes at ", base::formatHex(address), " are not in the device's memory"));
    return checkBudget(address, bytes);
  }

  StatusOr<void*> hostView(DeviceAddress address, int64_t bytes) override {
    HPU_RETURN_IF_ERROR(checkWrite(address, bytes));
    HPU_RETURN_IF_ERROR(hbm_->populate(address, bytes));
    return static_cast<void*>(hbm_->at(address));
  }

  void setMemorySource(std::function<MemoryInfo()> source) override {
    std::lock_guard lock(statusMutex_);
    memorySource_ = std::move(source);
  }

 protected:
  StatusOr<std::shared_ptr<LoadedProgram>> prepare(const std::shared_ptr<const recipe::Program>& program,
                                                   const std::shared_ptr<LoadedProgram>& like) override {
    if (like) {
      auto own = std::static_pointer_cast<SimProgram>(like);
      if (const auto& first = own->like()) own = std::const_pointer_cast<SimProgram>(first);
      return std::shared_ptr<LoadedProgram>(std::make_shared<SimProgram>(program, std::move(own)));
    }
    HPU_ASSIGN(std::unique_ptr<SimProgram> own, SimProgram::create(program));
    return std::shared_ptr<LoadedProgram>(std::move(own));
  }

  Status copyOne(CopyDirection direction, const CopyRange& range) {
    if (direction == CopyDirection::kToHost) return hbm_->copyOut(base::hostPointer(range.dst), range.src, range.bytes);
    if (direction == CopyDirection::kToDevice) return copyIn(range.dst, base::hostPointer(range.src), range.bytes);
    return move(range.dst, range.src, range.bytes);
  }
  Status copyIn(DeviceAddress dst, const void* src, int64_t bytes) {
    HPU_RETURN_IF_ERROR(checkBudget(dst, bytes));
    return hbm_->copyIn(dst, src, bytes);
  }
  Status move(DeviceAddress dst, DeviceAddress src, int64_t bytes) {
    if (isInHost(dst) && isInHost(src)) {
      std::memmove(windowPointer(dst), windowPointer(src), static_cast<size_t>(bytes));
      return okStatus();
    }
    if (isInHost(dst)) return hbm_->copyOut(windowPointer(dst), src, bytes);
    if (isInHost(src)) return copyIn(dst, windowPointer(src), bytes);
    HPU_RETURN_IF_ERROR(checkBudget(dst, bytes));
    const bool overlap = (dst > src ? dst - src : src - dst) < static_cast<uint64_t>(bytes);
    if (overlap) HPU_RETURN_IF_ERROR(checkBudget(src, bytes));
    hbm_->move(dst, src, bytes);
    return okStatus();
  }

  Status deviceFailure(const Work& work) override { return faults_.check(work); }
  bool neverEnds(const Work& work) override { return faults_.takeEndless(); }
  void workFailed(const Work& work, const std::string& label, const Status& status) override {
    std::lock_guard lock(statusMutex_);
    lastError_ = base::strCat(workName(work), label.empty() ? "" : " '", label, label.empty() ? "" : "'", ": ",
                              status.message());
  }
  /// Hbm::checkBudget, and the health hook hears of it.
  Status checkBudget(DeviceAddress address, int64_t bytes) const {
    Status status = hbm_->checkBudget(address, bytes);
    if (!status.ok() && healthSink()) healthSink()(HealthEvent::Kind::kHostMemoryFull, {}, status);
    return status;
  }
  void interrupt() override { interrupted_ = true; }
  void resume() override {
    faults_.reset();
    interrupted_ = false;
  }
  bool saysIterations() const override { return true; }
  Status mayGoOn() const {
    if (interrupted_.load(std::memory_order_relaxed)) return cancelled("a reset of the device ends it");
    return faults_.checkRunning();
  }

  Status execute(const Work& work, LoadedProgram* program, QueueExecutor::Signal signal) override {
    return visitWork(
        work, [&](const CopyToDevice& copy) { return copyIn(copy.dst, copy.src, copy.bytes); },
        [&](const CopyToHost& copy) { return hbm_->copyOut(copy.dst, copy.src, copy.bytes); },
        [&](const CopyOnDevice& copy) { return move(copy.dst, copy.src, copy.bytes); },
        [&](const Fill& fill) {
          if (isInHost(fill.dst)) {
            fillMemory(static_cast<std::byte*>(windowPointer(fill.dst)), fill.value, fill.bytes, fill.elementBytes);
            return okStatus();
          }
          // Zeros take no memory.
          if (fill.value != 0) HPU_RETURN_IF_ERROR(checkBudget(fill.dst, fill.bytes));
          hbm_->fill(fill.dst, fill.value, fill.bytes, fill.elementBytes);
          return okStatus();
        },
        [&](const CopyMany& copies) {
          for (const CopyRange& range : copies.ranges) HPU_RETURN_IF_ERROR(copyOne(copies.direction, range));
          return okStatus();
        },
        [&](const Launch& launch) {
          return static_cast<SimProgram*>(program)->run(
              *hbm_, launch, [&](DeviceAddress address, int64_t bytes) { return checkBudget(address, bytes); },
              [&] { return mayGoOn(); }, signal);
        },
        // Waits, markers, faults and external work end before they come here.
        [](const auto&) { return okStatus(); });
  }

 private:
  // On the node's service thread.
  void report(node::DeviceStatus& status) override {
    QueueExecutor::Load work = load();
    status.clockProfile = profile().name;
    status.counters = resolvedCounters();
    ports::report(info().index, status);
    status.queuedWork = static_cast<int32_t>(std::min<int64_t>(work.work, INT32_MAX));
    status.owner.streams = static_cast<int32_t>(work.queues);
    faults_.report(status);
    std::lock_guard lock(statusMutex_);
    MemoryInfo memory = memorySource_ ? memorySource_() : MemoryInfo();
    status.totalBytes = hbm_->bytes();
    status.usedBytes = status.owner.usedBytes = memory.usedBytes;
    status.peakBytes = memory.peakBytes;
    status.lastError = lastError_;
  }
  Status inject(node::Fault fault, int count) override {
    faults_.inject(fault, count);
    return okStatus();
  }

  const std::unique_ptr<node::OwnedDevice> owned_;  // Last to go: the device is free then.
  const std::unique_ptr<Hbm> hbm_;
  Faults faults_;
  std::atomic<bool> interrupted_{false};  ///< A reset goes on.
  std::mutex statusMutex_;                // Guards what follows.
  std::function<MemoryInfo()> memorySource_;
  std::string lastError_;
};

}  // namespace

StatusOr<std::shared_ptr<DriverDevice>> openSimDevice(const DeviceOptions& options) {
  return SimDevice::open(options);
}

}  // namespace hpu::driver
