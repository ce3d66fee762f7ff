// SPDX-License-Identifier: Apache-2.0
#include "bindings/synapse/device/AddressOrder.h"

#include <algorithm>

#include "base/StatusMacros.h"

namespace hpu::synapse {

Status AddressOrder::wait(const Stream& stream, std::span<const MemoryUse> uses) {
  // The later work of a stream waits for the earlier: one wait a stream would do, but what reads waits for the failure
  // of what wrote, and so for each.
  std::vector<const Work*> waited;
  Stream waiting = stream;
  for (size_t i = uses_.size(); i-- > 0;) {
    const Use& earlier = uses_[i];
    if (isOn(*earlier.work, stream)) continue;
    bool reads = false, isAfter = false;
    for (const MemoryUse& use : uses) {
      if (!use.overlaps(earlier.memory) || !(use.writes || earlier.memory.writes)) continue;
      isAfter = true;
      reads |= !use.writes && earlier.memory.writes;
    }
    if (!isAfter || std::find(waited.begin(), waited.end(), earlier.work.get()) != waited.end()) continue;
    HPU_RETURN_IF_ERROR(reads ? waiting.wait(earlier.work->end) : waiting.waitInOrder(earlier.work->end));
    waited.push_back(earlier.work.get());
  }
  return okStatus();
}

Status AddressOrder::add(const Stream& stream, std::span<const MemoryUse> uses) {
  if (uses.empty()) return okStatus();
  if (uses_.size() >= crowd_) {
    std::erase_if(uses_, [](const Use& use) { return use.work->end.isDone(); });
    crowd_ = std::max(kCrowd, 2 * uses_.size());
  }
  EventOptions options;
  options.timed = false;
  HPU_ASSIGN(Event end, Event::create(options));
  Stream recording = stream;
  HPU_RETURN_IF_ERROR(recording.record(end));
  auto work = std::make_shared<const Work>(Work{stream.state(), std::move(end)});
  for (const MemoryUse& use : uses) {
    if (use.begin >= use.end) continue;
    // Who waits for this waits for what it replaces as well: what it has overwritten, which it has waited for, and what
    // its stream did before with the same memory.
    std::erase_if(uses_, [&](const Use& earlier) {
      bool isWithin = earlier.memory.ofHost == use.ofHost && use.begin <= earlier.memory.begin &&
                      earlier.memory.end <= use.end && earlier.work != work;
      return isWithin && (use.writes || (!earlier.memory.writes && isOn(*earlier.work, stream)));
    });
    uses_.push_back({use, work});
  }
  return okStatus();
}

}  // namespace hpu::synapse
