// SPDX-License-Identifier: Apache-2.0
#include "hpu/memory_pool.h"

#include <string_view>
#include <utility>

#include "base/Format.h"
#include "base/Grown.h"
#include "base/StatusMacros.h"
#include "runtime/device/DeviceState.h"
#include "runtime/memory/BufferState.h"
#include "runtime/memory/MemoryPoolState.h"
#include "runtime/stream/StreamState.h"
#include "runtime/trace/Recorder.h"

namespace hpu {
namespace {

/// A pool and a stream that may be used together.
Status check(const std::shared_ptr<MemoryPoolState>& pool, const Stream& stream, std::string_view call) {
  if (!pool) return failedPrecondition(base::strCat(call, ": the MemoryPool handle is empty; MemoryPool::create"));
  HPU_RETURN_IF_ERROR(pool->device().checkProcess());
  if (!stream.state()) return failedPrecondition(base::strCat(call, ": the Stream handle is empty; Stream::create"));
  if (stream.state()->device().get() == &pool->device()) return okStatus();
  return invalidArgument(base::strCat(call, ": the stream belongs to device ", stream.state()->device()->info().index,
                                      ", and the pool to device ", pool->device().info().index));
}

}  // namespace

Status freeToPool(Buffer buffer, const std::shared_ptr<StreamState>& stream, const MemoryPoolState* pool,
                  std::string_view call) {
  if (!buffer.valid()) return invalidArgument(base::strCat(call, ": the buffer is empty"));
  const BufferState& state = *buffer.state();
  if (state.device() != stream->device())
    return invalidArgument(base::strCat(call, ": the buffer belongs to device ", state.device()->info().index,
                                        ", and the stream to device ", stream->device()->info().index));
  if (state.whole())
    return invalidArgument(base::strCat(call, ": the buffer is a view (Buffer::slice) of another at ",
                                        base::formatHex(state.whole()->address()), "; free that one"));
  std::shared_ptr<MemoryPoolState> owner = state.allocation()->pool();
  if (!owner)
    return invalidArgument(base::strCat(call, ": the buffer at ", base::formatHex(state.address()),
                                        " is of no pool (Stream::allocate, MemoryPool::allocate); let go of its last "
                                        "handle instead"));
  if (pool && owner.get() != pool)
    return invalidArgument(base::strCat(call, ": the buffer at ", base::formatHex(state.address()),
                                        " belongs to another pool, '", owner->label(), "'; free it there"));
  return owner->free(std::move(buffer), stream);
}

MemoryPool::MemoryPool() = default;
MemoryPool::~MemoryPool() = default;

StatusOr<MemoryPool> MemoryPool::create(const Device& device, const MemoryPoolOptions& options, size_t optionsBytes) {
  trace::HostScope scope("MemoryPool.create");
  if (!device.valid()) return failedPrecondition("MemoryPool::create: the Device handle is empty; Device::open");
  using O = MemoryPoolOptions;
  HPU_ASSIGN(base::Grown<O> given,
             base::grown("MemoryPoolOptions", options, optionsBytes, &O::label, &O::maxBytes, &O::keepBytes));
  HPU_ASSIGN(std::shared_ptr<MemoryPoolState> state, MemoryPoolState::create(*device.state(), *given));
  MemoryPool pool;
  pool.state_ = MemoryPoolState::handleOf(device.state(), std::move(state));
  return pool;
}

StatusOr<MemoryPool> MemoryPool::defaultOf(const Device& device) {
  if (!device.valid()) return failedPrecondition("MemoryPool::defaultOf: the Device handle is empty; Device::open");
  HPU_ASSIGN(std::shared_ptr<MemoryPoolState> state, device.state()->defaultPool());
  MemoryPool pool;
  pool.state_ = MemoryPoolState::handleOf(device.state(), std::move(state));
  return pool;
}

StatusOr<Buffer> MemoryPool::allocate(int64_t bytes, const Stream& stream) {
  trace::HostScope scope("MemoryPool.allocate");
  scope.arg("bytes", bytes);
  HPU_RETURN_IF_ERROR(check(state_, stream, "MemoryPool::allocate"));
  HPU_ASSIGN(std::shared_ptr<BufferState> buffer, state_->allocate(bytes, stream.state()));
  return Buffer(std::move(buffer));
}

Status MemoryPool::free(Buffer buffer, const Stream& stream) {
  trace::HostScope scope("MemoryPool.free");
  HPU_RETURN_IF_ERROR(check(state_, stream, "MemoryPool::free"));
  return freeToPool(std::move(buffer), stream.state(), state_.get(), "MemoryPool::free");
}

int64_t MemoryPool::trim(int64_t keepBytes) {
  return state_ && state_->device().checkProcess().ok() ? state_->trim(keepBytes) : 0;
}

MemoryPoolInfo MemoryPool::info() const {
  return state_ && state_->device().checkProcess().ok() ? state_->info() : MemoryPoolInfo();
}

void MemoryPool::resetPeaks() {
  if (state_ && state_->device().checkProcess().ok()) state_->resetPeaks();
}

}  // namespace hpu
