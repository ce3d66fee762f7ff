// SPDX-License-Identifier: Apache-2.0
#include "runtime/driver/null/NullDevice.h"

#include <algorithm>

#include "base/Format.h"
#include "base/ProcessOwned.h"
#include "base/StatusMacros.h"
#include "runtime/driver/common/DeviceSize.h"
#include "runtime/driver/common/TimedDevice.h"
#include "runtime/node/Inventory.h"

namespace hpu::driver {
namespace {

// Any range that does not begin at 0 will do: nothing is ever mapped there.
constexpr DeviceAddress kNullBase = 0x1000000000;

class NullDevice final : public TimedDevice {
 public:
  NullDevice(DeviceInfo info, const arch::ClockProfile& clock, int threads)
      : TimedDevice(info, {kNullBase, info.hbmBytes}, clock, threads) {}
  ~NullDevice() override { shutDown(); }

  Status discard(DeviceAddress address, int64_t bytes) override { return okStatus(); }
  Status clear(DeviceAddress address, int64_t bytes) override { return okStatus(); }

  static StatusOr<std::shared_ptr<DriverDevice>> open(const DeviceOptions& options) {
    HPU_ASSIGN(arch::ClockProfile clock, clockProfile(options.target));
    HPU_ASSIGN(WaitPolicy wait, waitPolicy(options.wait));
    HPU_ASSIGN(int index, node::requestedIndex(options));
    // A null device is nobody's: any number of processes and handles may have the same one.
    HPU_ASSIGN(DeviceInfo info, deviceInfo("null", options, std::max(index, 0)));
    auto device = base::makeProcessOwned<NullDevice>(std::move(info), clock, options.threads);
    device->waitBy(wait);
    return std::shared_ptr<DriverDevice>(std::move(device));
  }

 protected:
  StatusOr<std::shared_ptr<LoadedProgram>> prepare(const std::shared_ptr<const recipe::Program>&,
                                                   const std::shared_ptr<LoadedProgram>&) override {
    return std::shared_ptr<LoadedProgram>();
  }
  Status execute(const Work&, LoadedProgram*, QueueExecutor::Signal) override { return okStatus(); }
};

}  // namespace

StatusOr<std::shared_ptr<DriverDevice>> openNullDevice(const DeviceOptions& options) {
  return NullDevice::open(options);
}

}  // namespace hpu::driver
