// SPDX-License-Identifier: Apache-2.0
// The timer of DistributedDataParallel's statistics, by events of the device: modelled time. (The Logger of
// PyTorch 1.13 asks for it and then shows what it measured for CPU and CUDA only; hpu_torch/distributed/_ddp.py.)
#include <torch/csrc/distributed/c10d/reducer_timer.hpp>

#include <exception>

#include "pytorch/device/Streams.h"

namespace hpu_torch {
namespace {

class HpuTimer final : public c10d::Timer {
 public:
  explicit HpuTimer(c10::Device device) : device_(device) {}

  void record(Event event) override {
    Timer::record(event);  // The host's time.
    // Nothing is flushed: in lazy mode the event stands for what is launched by now, and a sampled step has the graphs
    // of any other.
    TorchEvent& one = eventOf(event);
    OpenDevice& device = open(device_.index());
    if (one.device < 0) one.event = take(hpu::Event::create(hpu::EventOptions{}), "making an event");
    check(currentStream(device).record(one.event), "recording an event");
    one.device = device.index;
  }
  c10::optional<int64_t> measureDifference(Event start, Event end) override {
    TorchEvent& from = eventOf(start);
    TorchEvent& to = eventOf(end);
    if (from.device < 0 || to.device < 0) return c10::nullopt;
    synchronize(from);
    synchronize(to);
    const double ms = elapsedMs(from, to);
    // As for CUDA: an event of the last iteration, because this one has not come to it yet.
    if (ms < 0) return c10::nullopt;
    return static_cast<int64_t>(ms * 1e6);
  }

 private:
  TorchEvent& eventOf(Event event) {
    const auto index = static_cast<size_t>(event);
    TORCH_CHECK(index < 5, "no event of a timer");
    return events_[index];
  }
  c10::Device device_;
  TorchEvent events_[5];
};

}  // namespace
}  // namespace hpu_torch

// The registry's macro wants to be in the registry's namespace.
namespace c10d {
C10_REGISTER_TYPED_CLASS(TimerRegistry, c10::kHPU, hpu_torch::HpuTimer);
}  // namespace c10d
