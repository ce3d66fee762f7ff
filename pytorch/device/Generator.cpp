// SPDX-License-Identifier: Apache-2.0
#include "pytorch/device/Generator.h"

#include <ATen/CPUGeneratorImpl.h>

namespace hpu_torch {
namespace {

/// Its own lock (mutex_) guards nothing: the engine has one, which who draws numbers takes.
class HpuGenerator final : public c10::GeneratorImpl {
 public:
  HpuGenerator(c10::DeviceIndex index, at::Generator engine)
      : c10::GeneratorImpl({kHpu, index}, c10::DispatchKeySet(c10::DispatchKey::HPU)), engine_(std::move(engine)) {}

  void set_current_seed(uint64_t seed) override {
    std::lock_guard<std::mutex> lock(engine_.mutex());
    engine_.set_current_seed(seed);
  }
  uint64_t current_seed() const override { return engine_.current_seed(); }
  uint64_t seed() override {
    std::lock_guard<std::mutex> lock(engine_.mutex());
    return engine_.unsafeGetGeneratorImpl()->seed();
  }
  void set_state(const c10::TensorImpl& state) override {
    std::lock_guard<std::mutex> lock(engine_.mutex());
    engine_.unsafeGetGeneratorImpl()->set_state(state);
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    std::lock_guard<std::mutex> lock(engine_.mutex());
    return engine_.unsafeGetGeneratorImpl()->get_state();
  }

  at::Generator engine() const { return engine_; }

 private:
  HpuGenerator* clone_impl() const override {
    std::lock_guard<std::mutex> lock(engine_.mutex());
    return new HpuGenerator(device().index(), engine_.clone());
  }

  mutable at::Generator engine_;
};

}  // namespace

at::Generator makeGenerator(c10::DeviceIndex index) {
  return at::make_generator<HpuGenerator>(checkedIndex(index), at::detail::createCPUGenerator());
}

at::Generator defaultGenerator(c10::DeviceIndex index) {
  static at::Generator* generators = [] {
    auto* made = new at::Generator[kMaxDevices];
    for (c10::DeviceIndex i = 0; i < kMaxDevices; ++i)
      made[i] = at::make_generator<HpuGenerator>(i, at::detail::createCPUGenerator());
    return made;
  }();
  return generators[checkedIndex(index)];
}

at::Generator engineOf(const at::Generator& generator, const std::string& op) {
  auto* impl = dynamic_cast<HpuGenerator*>(generator.unsafeGetGeneratorImpl());
  TORCH_CHECK(impl, op, ": expected a generator of an hpu device, but it is of ", generator.device());
  return impl->engine();
}

void manualSeedAll(uint64_t seed) {
  for (c10::DeviceIndex i = 0; i < deviceCount(); ++i) defaultGenerator(i).set_current_seed(seed);
}

}  // namespace hpu_torch
