// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory/MemoryPoolState.h"

#include <algorithm>
#include <bit>
#include <new>

#include "base/Format.h"
#include "base/Log.h"
#include "base/ProcessOwned.h"
#include "base/StatusMacros.h"
#include "runtime/capture/CaptureState.h"
#include "runtime/device/DeviceState.h"
#include "runtime/memory/BufferState.h"
#include "runtime/memory/HbmAllocator.h"
#include "runtime/stream/StreamState.h"

namespace hpu {
namespace {

constexpr int64_t kLarge = 1 << 20;

int64_t roundUp(int64_t bytes, int64_t step) {
  return (bytes + step - 1) / step * step;
}

}  // namespace

bool MemoryPoolState::Order::operator<(const Order& other) const {
  if (stream.owner_before(other.stream)) return true;
  if (other.stream.owner_before(stream)) return false;
  return capture.owner_before(other.capture);
}

bool MemoryPoolState::Order::sameCapture(const Order& other) const {
  return !capture.owner_before(other.capture) && !other.capture.owner_before(capture);
}

int64_t MemoryPoolState::rounded(int64_t bytes) {
  const int64_t aligned = roundUp(bytes, HbmAllocator::kAlignment);
  const auto power = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(aligned)));
  return roundUp(aligned, std::max(HbmAllocator::kAlignment, power / 8));
}

int64_t MemoryPoolState::largestFor(int64_t bytes) {
  return bytes < kLarge ? 2 * bytes : bytes + bytes / 4;
}

StatusOr<std::shared_ptr<MemoryPoolState>> MemoryPoolState::create(DeviceState& device, MemoryPoolOptions options) {
  HPU_RETURN_IF_ERROR(device.checkProcess());
  if (options.maxBytes < 0)
    return invalidArgument(base::strCat("MemoryPoolOptions::maxBytes is ", options.maxBytes,
                                        "; give the bytes that the pool may hold, or 0 for all of the device's"));
  auto pool = base::makeProcessOwned<MemoryPoolState>(device, std::move(options));
  device.memory().addPool(pool);
  return pool;
}

MemoryPoolState::MemoryPoolState(DeviceState& device, MemoryPoolOptions options)
    : device_(device), options_(std::move(options)) {}

MemoryPoolState::~MemoryPoolState() {
  for (const auto& [address, block] : blocks_) device_.memory().free(address, block.bytes, block.bytes);
}

std::shared_ptr<MemoryPoolState> MemoryPoolState::handleOf(std::shared_ptr<DeviceState> device,
                                                           std::shared_ptr<MemoryPoolState> pool) {
  struct Kept {
    Kept(std::shared_ptr<DeviceState> d, std::shared_ptr<MemoryPoolState> p)
        : device(std::move(d)), pool(std::move(p)) {}
    std::shared_ptr<DeviceState> device;  // Goes after the pool.
    std::shared_ptr<MemoryPoolState> pool;
  };
  auto kept = base::makeProcessOwned<Kept>(std::move(device), std::move(pool));
  MemoryPoolState* state = kept->pool.get();
  return {std::move(kept), state};
}

/// Under the lock: an idle block becomes one that may be taken.
void MemoryPoolState::enlist(Blocks::iterator block) {
  const std::pair<int64_t, uint64_t> entry(block->second.bytes, block->first);
  if (block->second.orderly) ordered_[block->second.order].insert(entry);
  if (block->second.uses == 0) done_.insert(entry);
}

/// Under the lock.
void MemoryPoolState::unlist(Blocks::iterator block) {
  const std::pair<int64_t, uint64_t> entry(block->second.bytes, block->first);
  done_.erase(entry);
  if (!block->second.orderly) return;
  auto ordered = ordered_.find(block->second.order);
  if (ordered == ordered_.end()) return;
  ordered->second.erase(entry);
  if (ordered->second.empty()) ordered_.erase(ordered);
}

/// Under the lock, before orders are looked at: a reset of the device has dropped the waits that they rest on, and what
/// they waited for may still run. So memory from before it is free when nothing holds it any more. Graphs have their
/// waits as before.
void MemoryPoolState::noticeReset() noexcept {
  if (const uint64_t resets = device_.memory().resets(); std::exchange(epoch_, resets) == resets) return;
  // Those that nothing holds are in `done_`, too; others come there with the end of what holds them.
  std::erase_if(ordered_, [](const auto& entry) { return !entry.first.inCapture(); });
  for (auto& [address, block] : blocks_)
    if (!block.order.inCapture()) block.orderly = false;
}

/// Under the lock: a block that is in no list is the memory of a new buffer, whose Allocation is about to be made.
void MemoryPoolState::occupy(Blocks::iterator block, const Order& order) {
  Block& taken = block->second;
  ++taken.uses;
  taken.live = true;
  taken.freed = taken.orderly = false;
  taken.epoch = epoch_;
  taken.allocated = order;
  taken.order = Order();
  ++info_.allocations;
  info_.usedBytes += taken.bytes;
  info_.peakUsedBytes = std::max(info_.peakUsedBytes, info_.usedBytes);
}

/// Under the lock: the smallest idle block for `order` that has enough and at most `largest` bytes; what the same order
/// has freed comes first, so that which memory a stream gets depends as little as can be on how fast others are.
MemoryPoolState::Blocks::iterator MemoryPoolState::take(int64_t bytes, int64_t largest, const Order& order) {
  auto fitting = [&](const BySize& blocks) {
    auto it = blocks.lower_bound({bytes, 0});
    return it != blocks.end() && it->first <= largest ? blocks_.find(it->second) : blocks_.end();
  };
  noticeReset();
  auto found = blocks_.end();
  if (auto own = ordered_.find(order); own != ordered_.end()) found = fitting(own->second);
  const bool inOrder = found != blocks_.end();
  if (!inOrder) found = fitting(done_);
  if (found == blocks_.end()) return found;
  unlist(found);
  idleBytes_ -= found->second.bytes;
  occupy(found, order);
  ++(inOrder ? info_.reusedInOrder : info_.reusedDone);
  return found;
}

/// Under the lock: so that so many more bytes may be held, perhaps without `unused`, which goes back to the device.
/// Errors: kResourceExhausted (maxBytes); nothing goes then.
Status MemoryPoolState::makeRoom(int64_t bytes, std::vector<Piece>& unused) {
  const int64_t most = options_.maxBytes;
  if (most <= 0 || info_.reservedBytes + bytes <= most) return okStatus();
  // What nobody uses makes room; it goes only when that is enough.
  int64_t idle = 0;
  for (const auto& [size, address] : done_) idle += size;
  if (info_.reservedBytes - idle + bytes > most)
    return resourceExhausted(base::strCat(
        "pool '", options_.label, "' may hold ", base::formatBytes(most), " of device ", device_.info().index,
        " and has ", base::formatBytes(info_.reservedBytes), ", of which ", base::formatBytes(info_.usedBytes),
        " are in use and ", base::formatBytes(idleBytes_ - idle), " were freed behind work that is not done; ",
        base::formatBytes(bytes), " more do not fit. Free buffers, or create it with a larger maxBytes"));
  unused = surplus(idleBytes_ - (info_.reservedBytes + bytes - most));
  return okStatus();
}

/// New memory of the device. Errors: as DeviceMemory::allocate; kResourceExhausted at maxBytes.
StatusOr<uint64_t> MemoryPoolState::reserve(int64_t bytes, bool wait, const Order& order) {
  std::vector<Piece> unused;
  {
    std::lock_guard lock(mutex_);
    HPU_RETURN_IF_ERROR(makeRoom(bytes, unused));
  }
  giveBack(unused);
  // It counts when it is there: what only waits for memory takes no room from other threads.
  HPU_ASSIGN(const uint64_t address, device_.memory().allocate(bytes, {options_.label, 0, wait}, /*askHook=*/wait));
  Status full;
  unused.clear();
  try {
    std::lock_guard lock(mutex_);
    noticeReset();
    full = makeRoom(bytes, unused);  // Others may have been faster.
    if (full.ok()) {
      auto block = blocks_.emplace(address, Block()).first;
      block->second.bytes = bytes;
      occupy(block, order);
      info_.reservedBytes += bytes;
      info_.peakReservedBytes = std::max(info_.peakReservedBytes, info_.reservedBytes);
    }
  } catch (const std::bad_alloc&) {
    giveBack(unused);
    giveBack({{address, bytes}});
    throw;
  }
  giveBack(unused);
  if (full.ok()) return address;
  giveBack({{address, bytes}});
  return full;
}

StatusOr<uint64_t> MemoryPoolState::find(int64_t bytes, const Order& order) {
  // The device's errors say what is wrong with these sizes.
  if (bytes <= 0 || bytes > device_.driver()->memory().bytes) return device_.memory().allocate(bytes, {label()});
  const int64_t wanted = rounded(bytes);
  {
    std::lock_guard lock(mutex_);
    if (auto block = take(wanted, largestFor(wanted), order); block != blocks_.end()) return block->first;
  }
  auto address = reserve(wanted, /*wait=*/false, order);
  if (address.ok() || address.status().code() != StatusCode::kResourceExhausted) return address;
  {
    // Memory is short: better too large a block than none.
    std::lock_guard lock(mutex_);
    if (auto block = take(roundUp(bytes, HbmAllocator::kAlignment), INT64_MAX, order); block != blocks_.end())
      return block->first;
  }
  return reserve(roundUp(bytes, HbmAllocator::kAlignment), /*wait=*/true, order);
}

StatusOr<std::shared_ptr<BufferState>> MemoryPoolState::allocate(int64_t bytes,
                                                                 const std::shared_ptr<StreamState>& stream) try {
  HPU_RETURN_IF_ERROR(device_.checkProcess());
  StatusOr<uint64_t> found = find(bytes, {stream, stream->capture()});
  if (!found.ok()) {
    if (found.status().code() == StatusCode::kResourceExhausted)
      device_.health().tell(HealthEvent::Kind::kOutOfMemory, options_.label, found.status());
    return found.status();
  }
  const uint64_t address = *found;
  std::shared_ptr<Allocation> allocation;
  try {
    allocation = base::makeProcessOwned<Allocation>(stream->device(), address, bytes, shared_from_this());
  } catch (const std::bad_alloc&) {
    handlesGone(address);
    useEnded(address);
    throw;
  }
  std::shared_ptr<BufferState> buffer;
  try {
    buffer = base::makeProcessOwned<BufferState>(allocation, Visibility::kProgram);
  } catch (const std::bad_alloc&) {
    handlesGone(address);
    throw;
  }
  device_.memory().show(buffer, options_.label);
  return buffer;
} catch (const std::bad_alloc&) {
  return resourceExhausted("out of host memory: the pool allocated nothing");
}

Status MemoryPoolState::free(Buffer buffer, const std::shared_ptr<StreamState>& stream) {
  HPU_RETURN_IF_ERROR(device_.checkProcess());
  const std::shared_ptr<BufferState>& state = buffer.state();
  const Order order{stream, stream->capture()};
  {
    std::lock_guard lock(mutex_);
    noticeReset();
    Block& block = blocks_.at(state->address());
    if (block.freed)
      return failedPrecondition(base::strCat("the buffer of ", state->bytes(), " bytes at ",
                                             base::formatHex(state->address()), " of pool '", options_.label,
                                             "' was freed already; free it once, with its last handle"));
    block.freed = true;
    // A graph that was captured with it may be replayed on any stream: then everything that holds it must be done.
    block.orderly = block.allocated.sameCapture(order) &&
                    (order.inCapture() || (block.epoch == epoch_ && !device_.memory().isResetting()));
    if (block.orderly) block.order = order;
  }
  return okStatus();
}

void MemoryPoolState::handlesGone(uint64_t address) {
  std::lock_guard lock(mutex_);
  auto block = blocks_.find(address);
  block->second.live = false;
  info_.usedBytes -= block->second.bytes;
  idleBytes_ += block->second.bytes;
  enlist(block);
}

void MemoryPoolState::useEnded(uint64_t address) {
  std::vector<Piece> unused;
  {
    std::lock_guard lock(mutex_);
    auto block = blocks_.find(address);
    if (--block->second.uses > 0 || block->second.live) return;
    if (device_.memory().checks()) {
      // Under the lock, so that nobody is given the block meanwhile.
      Status status = device_.driver()->poison(address, block->second.bytes);
      if (!status.ok()) HPU_LOG(kWarning, status.message());
    }
    enlist(block);
    if (options_.keepBytes >= 0) unused = surplus(options_.keepBytes);
  }
  giveBack(unused);
}

/// Under the lock: takes idle blocks that nothing holds out of the pool, the largest first, until at most `keepBytes`
/// are idle.
std::vector<MemoryPoolState::Piece> MemoryPoolState::surplus(int64_t keepBytes) {
  std::vector<Piece> pieces;
  while (idleBytes_ > keepBytes && !done_.empty()) {
    const auto [bytes, address] = *done_.rbegin();
    auto block = blocks_.find(address);
    unlist(block);
    blocks_.erase(block);
    idleBytes_ -= bytes;
    info_.reservedBytes -= bytes;
    pieces.push_back({address, bytes});
  }
  return pieces;
}

/// Without the lock: the program is told.
int64_t MemoryPoolState::giveBack(const std::vector<Piece>& pieces) {
  int64_t sum = 0;
  for (const Piece& piece : pieces) {
    device_.memory().free(piece.address, piece.bytes, piece.bytes);
    sum += piece.bytes;
  }
  return sum;
}

int64_t MemoryPoolState::trim(int64_t keepBytes) {
  if (keepBytes < 0) return 0;
  std::vector<Piece> unused;
  {
    std::lock_guard lock(mutex_);
    unused = surplus(keepBytes);
  }
  return giveBack(unused);
}

MemoryPoolInfo MemoryPoolState::info() const {
  std::lock_guard lock(mutex_);
  return info_;
}

void MemoryPoolState::resetPeaks() {
  std::lock_guard lock(mutex_);
  info_.peakUsedBytes = info_.usedBytes;
  info_.peakReservedBytes = info_.reservedBytes;
}

}  // namespace hpu
