// SPDX-License-Identifier: Apache-2.0
#include "runtime/driver/sim/SimDevice.h"

#include <algorithm>
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

  using CheckBudget = base::FunctionRef<Status(DeviceAddress, int64_t)>;
  Status run(const Hbm& hbm, const Launch& launch, CheckBudget checkBudget, QueueExecutor::Signal signal) {
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
      const recipe::Op* op = recipe::firstUser(*program_, i);
      return op ? recipe::failedAt(status, *program_, *op) : status;
    }
    HPU_ASSIGN(sim::ProgramExecutor * executor, this->executor());
    if (launch.signals.empty()) return executor->run(bases);
    return executor->run(bases, [&](uint32_t output) {
      for (uint32_t i = 0; i < launch.signals.size(); ++i)
        if (launch.signals[i] == output) signal(i);
    });
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
  const std::shared_ptr<const recipe::Program> program_;
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
    sim::ProgramExecutor::Options options;
    HPU_ASSIGN(auto executor, sim::ProgramExecutor::create(program, options));
    return std::shared_ptr<LoadedProgram>(std::make_shared<SimProgram>(program, std::move(executor)));
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
  void resume() override { faults_.reset(); }

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
              *hbm_, launch, [&](DeviceAddress address, int64_t bytes) { return checkBudget(address, bytes); }, signal);
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
  std::mutex statusMutex_;  // Guards what follows.
  std::function<MemoryInfo()> memorySource_;
  std::string lastError_;
};

}  // namespace

StatusOr<std::shared_ptr<DriverDevice>> openSimDevice(const DeviceOptions& options) {
  return SimDevice::open(options);
}

}  // namespace hpu::driver
