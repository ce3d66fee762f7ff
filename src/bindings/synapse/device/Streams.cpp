// SPDX-License-Identifier: Apache-2.0
// Entry points of streams.
// The one thing to know about affinities: on Gaudi a mask says which of the hardware's queues a stream may use.
// Here every stream has its own queue and may use all engines; a mask is checked, kept and given back.
#include <bit>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "bindings/synapse/api/EntryPoint.h"
#include "bindings/synapse/api/Library.h"
#include "habanalabs/hpu_synapse_ext.h"

using hpu::synapse::badArgument;
using hpu::synapse::guarded;
using hpu::synapse::guardedCreate;
using hpu::synapse::Library;
using hpu::synapse::Result;
using hpu::synapse::StreamObject;

namespace {

/// Four queues, as the affinity interface of Gaudi 2 shows them.
constexpr uint64_t kAffinityRange = 0xF;

Result createStream(synStreamHandle* handle, synDeviceId deviceId, int32_t priority) {
  SYN_FIND_DEVICE(device, deviceId);
  hpu::StreamOptions options;
  options.priority = priority;
  HPU_ASSIGN(hpu::Stream stream, hpu::Stream::create(device->device(), options));
  auto object = std::make_shared<StreamObject>();
  object->device = device;
  object->stream = std::move(stream);
  object->affinity = kAffinityRange;
  synStreamHandle created = hpu::synapse::streams().insert(std::move(object));
  if (!created) return hpu::synapse::streams().full();
  if (!Library::get().owns(device)) {
    (void)hpu::synapse::streams().remove(created);
    return Library::get().missingDevice(deviceId);
  }
  *handle = created;
  return {};
}

Result checkDevice(const StreamObject& stream, synDeviceId deviceId) {
  SYN_FIND_DEVICE(device, deviceId);
  if (stream.device == device) return {};
  return badArgument(
      hpu::base::strCat("the stream is one of device ", stream.device->id(), ", not of device ", deviceId));
}

}  // namespace

synStatus synStreamCreateGeneric(synStreamHandle* pStreamHandle, const synDeviceId deviceId, const uint32_t flags) {
  return guardedCreate("synStreamCreateGeneric", pStreamHandle, [&]() -> Result {
    SYN_REQUIRE(pStreamHandle);
    if (flags != 0) return badArgument(hpu::base::strCat("flags is ", flags, "; give 0"));
    return createStream(pStreamHandle, deviceId, 0);
  });
}

synStatus hpuSynStreamCreateWithPriority(synStreamHandle* pStreamHandle, synDeviceId deviceId, int32_t priority) {
  return guardedCreate("hpuSynStreamCreateWithPriority", pStreamHandle, [&]() -> Result {
    SYN_REQUIRE(pStreamHandle);
    return createStream(pStreamHandle, deviceId, priority);
  });
}

synStatus synStreamDestroy(const synStreamHandle streamHandle) {
  return guarded("synStreamDestroy", [&]() -> Result {
    if (!hpu::synapse::streams().remove(streamHandle)) return hpu::synapse::streams().missing(streamHandle);
    return {};
  });
}

synStatus synStreamWaitEvent(const synStreamHandle streamHandle, synEventHandle eventHandle, const uint32_t flags) {
  return guarded("synStreamWaitEvent", [&]() -> Result {
    SYN_FIND(stream, hpu::synapse::streams(), streamHandle);
    SYN_FIND(event, hpu::synapse::events(), eventHandle);
    if (flags != 0) return badArgument(hpu::base::strCat("flags is ", flags, "; give 0"));
    return hpu::synapse::ofEnqueue(stream->stream.wait(event->event));
  });
}

synStatus synStreamSynchronize(const synStreamHandle streamHandle) {
  return guarded("synStreamSynchronize", [&]() -> Result {
    SYN_FIND(stream, hpu::synapse::streams(), streamHandle);
    return hpu::synapse::ofWork(stream->stream.synchronize());
  });
}

synStatus synStreamQuery(const synStreamHandle streamHandle) {
  return guarded("synStreamQuery", [&]() -> Result {
    SYN_FIND(stream, hpu::synapse::streams(), streamHandle);
    return hpu::synapse::ofQuery(stream->stream.query());
  });
}

synStatus synStreamSetAffinity(const synDeviceId deviceId, const synStreamHandle pStreamHandle,
                               uint64_t streamAffinityMask) {
  return guarded("synStreamSetAffinity", [&]() -> Result {
    SYN_FIND(stream, hpu::synapse::streams(), pStreamHandle);
    SYN_RETURN_IF_ERROR(checkDevice(*stream, deviceId));
    if (streamAffinityMask == 0 || (streamAffinityMask & ~kAffinityRange) != 0)
      return badArgument("the mask " + hpu::base::formatHex(streamAffinityMask) + " must have bits, all within " +
                         hpu::base::formatHex(kAffinityRange));
    stream->affinity = streamAffinityMask;
    return {};
  });
}

synStatus synStreamGetAffinity(const synDeviceId deviceId, const synStreamHandle pStreamHandle,
                               uint64_t* streamAffinityMask) {
  return guarded("synStreamGetAffinity", [&]() -> Result {
    SYN_REQUIRE(streamAffinityMask);
    SYN_FIND(stream, hpu::synapse::streams(), pStreamHandle);
    SYN_RETURN_IF_ERROR(checkDevice(*stream, deviceId));
    *streamAffinityMask = stream->affinity;
    return {};
  });
}

synStatus synDeviceGetAffinityMaskRange(const synDeviceId deviceId, uint64_t* deviceAffinityMaskRange) {
  return guarded("synDeviceGetAffinityMaskRange", [&]() -> Result {
    SYN_REQUIRE(deviceAffinityMaskRange);
    SYN_FIND_DEVICE(device, deviceId);
    *deviceAffinityMaskRange = kAffinityRange;
    return {};
  });
}

synStatus synDeviceGetNextStreamAffinity(const synDeviceId deviceId, uint64_t* nextDeviceAffinity) {
  return guarded("synDeviceGetNextStreamAffinity", [&]() -> Result {
    SYN_REQUIRE(nextDeviceAffinity);
    SYN_FIND_DEVICE(device, deviceId);
    *nextDeviceAffinity =
        uint64_t{1} << (device->nextAffinity() % static_cast<uint64_t>(std::popcount(kAffinityRange)));
    return {};
  });
}
