// SPDX-License-Identifier: Apache-2.0
#include "pytorch/device/Streams.h"

#include "pytorch/record/Flush.h"

namespace hpu_torch {

namespace {
thread_local c10::StreamId t_streams[kMaxDevices] = {};
}  // namespace

StreamTable::Slot& StreamTable::slot(c10::StreamId id) {
  TORCH_CHECK(id >= 0 && id < kStreams, "stream ", id, " of hpu:", static_cast<int>(index_),
              " does not exist: streams come from torch.hpu.Stream()");
  return slots_[id];
}

hpu::Stream& StreamTable::get(c10::StreamId id) {
  Slot& one = slot(id);
  if (C10_LIKELY(one.made.load(std::memory_order_acquire))) return one.stream;
  std::lock_guard<std::mutex> lock(one.mutex);
  if (!one.made.load(std::memory_order_acquire)) {
    hpu::StreamOptions options;
    options.name = id == 0 ? "torch" : "torch " + std::to_string(id);
    options.priority = id > kPoolStreams ? 1 : 0;
    one.stream = take(hpu::Stream::create(device_, options), "making a stream");
    one.made.store(true, std::memory_order_release);
  }
  return one.stream;
}

hpu::Stream* StreamTable::getOrNull(c10::StreamId id) noexcept {
  if (id < 0 || id >= kStreams || !slots_[id].made.load(std::memory_order_acquire)) return nullptr;
  return &slots_[id].stream;
}

c10::StreamId StreamTable::fromPool(bool highPriority) noexcept {
  std::atomic<uint32_t>& next = highPriority ? nextHigh_ : nextUsual_;
  return 1 + (highPriority ? kPoolStreams : 0) + next++ % kPoolStreams;
}

std::deque<StreamTable::Kept> StreamTable::takeDone(Slot& slot) {
  std::deque<Kept> done;
  while (!slot.kept.empty()) {
    // Of work that has failed nothing uses the memory any more either.
    hpu::StatusOr<bool> isDone = slot.kept.front().done.query();
    if (isDone.ok() && !*isDone) break;
    slot.keptBytes -= slot.kept.front().bytes;
    done.push_back(std::move(slot.kept.front()));
    slot.kept.pop_front();
  }
  return done;
}

void StreamTable::keepUntilDone(c10::StreamId id, std::shared_ptr<void> what, int64_t bytes) {
  hpu::Stream& stream = get(id);
  Slot& one = slot(id);
  hpu::EventOptions untimed;
  untimed.timed = false;
  std::deque<Kept> letGo;
  bool isMuch;
  {
    std::lock_guard<std::mutex> lock(one.mutex);
    hpu::Event done = take(hpu::Event::create(untimed), "making an event");
    check(stream.record(done), "recording an event");
    letGo = takeDone(one);
    one.kept.push_back({std::move(done), std::move(what), bytes});
    one.keptBytes += bytes;
    isMuch = one.keptBytes > kMaxKeptBytes;
  }
  if (isMuch) synchronize(id);
}

void StreamTable::synchronize(c10::StreamId id) {
  hpu::Stream* stream = getOrNull(id);
  if (!stream) return;
  hpu::Status status = stream->synchronize();
  std::deque<Kept> letGo;
  {
    Slot& one = slot(id);
    std::lock_guard<std::mutex> lock(one.mutex);
    letGo = takeDone(one);
  }
  check(status, "waiting for a stream");
}

void StreamTable::synchronizeAll() {
  flush(index_, "synchronize");
  for (c10::StreamId id = 0; id < kStreams; ++id) synchronize(id);
  check(device_.synchronize(), "waiting for a device");
}

bool StreamTable::query(c10::StreamId id) {
  flush(index_, "query");
  hpu::Stream* stream = getOrNull(id);
  return !stream || take(stream->query(), "asking a stream");
}

c10::StreamId currentStreamId(c10::DeviceIndex index) noexcept {
  return index >= 0 && index < kMaxDevices ? t_streams[index] : 0;
}
void setCurrentStreamId(c10::DeviceIndex index, c10::StreamId id) noexcept {
  if (index >= 0 && index < kMaxDevices) t_streams[index] = id;
}

void record(TorchEvent& event, c10::DeviceIndex device, c10::StreamId stream) {
  TORCH_CHECK(event.device < 0 || event.device == device, "an event of hpu:", static_cast<int>(event.device),
              " cannot be recorded on a stream of hpu:", static_cast<int>(device));
  flush(device, "event");
  if (event.device < 0) {
    hpu::EventOptions options;
    options.timed = event.timed;
    event.event = take(hpu::Event::create(options), "making an event");
  }
  check(open(device).streams->get(stream).record(event.event), "recording an event");
  event.device = device;
}

void block(const TorchEvent& event, c10::DeviceIndex device, c10::StreamId stream) {
  if (event.device < 0) return;
  flush(device, "event");
  check(open(device).streams->get(stream).wait(event.event), "waiting for an event");
}

bool query(const TorchEvent& event) {
  return event.device < 0 || take(event.event.query(), "asking an event");
}

void synchronize(const TorchEvent& event) {
  if (event.device >= 0) check(event.event.synchronize(), "waiting for an event");
}

double elapsedMs(const TorchEvent& start, const TorchEvent& end) {
  TORCH_CHECK(start.device >= 0 && end.device >= 0,
              "both events must be recorded before the time between them is asked for");
  TORCH_CHECK(start.device == end.device, "the time between events of two devices: each has a clock of its own");
  TORCH_CHECK(start.timed && end.timed, "both events must be made with enable_timing=True");
  TORCH_CHECK(query(start) && query(end),
              "both events must be done before the time between them is asked for: synchronize first");
  return static_cast<double>(take(end.event.elapsedNsSince(start.event), "the time between two events")) / 1e6;
}

}  // namespace hpu_torch
