// SPDX-License-Identifier: Apache-2.0
// Entry points of the profiler.
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/Format.h"
#include "base/Log.h"
#include "base/Settings.h"
#include "base/StatusMacros.h"
#include "bindings/synapse/api/EntryPoint.h"
#include "bindings/synapse/api/Library.h"
#include "bindings/synapse/profiler/Profiler.h"
#include "bindings/synapse/profiler/TraceBuffer.h"
#include "hpu/trace.h"

using hpu::synapse::badArgument;
using hpu::synapse::guarded;
using hpu::synapse::Profiler;
using hpu::synapse::Result;

namespace {

/// The index of the device that a type and an id name: -1 for the host, whose device does not matter.
Result deviceOf(synTraceType type, synDeviceId deviceId, int32_t* index) {
  if (type < synTraceAll || type >= synTraceTypeSize)
    return badArgument(hpu::base::strCat("there is no trace type ", static_cast<int>(type)));
  *index = -1;
  if (type == synTraceHost) return {};
  SYN_FIND_DEVICE(device, deviceId);
  *index = device->device().info().index;
  return {};
}

/// Files of one process are numbered, so that one does not replace another.
Result writeFile(const hpu::trace::Recording& recording) {
  static std::atomic<int> number{0};
  HPU_ASSIGN(std::string folder, hpu::settings::getString(hpu::Setting::HPU_PROFILE_DIR));
  std::string path = hpu::base::strCat(folder, "/synapse_profile_", getpid(), "_", number.fetch_add(1), ".json");
  HPU_RETURN_IF_ERROR(hpu::trace::save(recording, path));
  HPU_LOG(kInfo, hpu::base::strCat("wrote the trace ", path));
  return {};
}

Result addSpan(const char* description, uint64_t start, std::optional<uint64_t> end, const char** args,
               uint64_t argsSize, const char* threadName) {
  SYN_REQUIRE(description);
  uint64_t now = static_cast<uint64_t>(hpu::trace::nowNs());
  uint64_t until = end.value_or(now);
  if (start > until)
    return badArgument(hpu::base::strCat("the start, ", start, " ns, is after the end, ", until,
                                         " ns; times are those of synProfilerGetCurrentTimeNS"));
  if (until > INT64_MAX) return badArgument(hpu::base::strCat(until, " ns is no time"));
  if (argsSize % 2 != 0)
    return badArgument(hpu::base::strCat("args are keys and values in turn, and there are ", argsSize));
  if (argsSize > 0) SYN_REQUIRE(args);
  if (argsSize > 2 * UINT8_MAX) return badArgument(hpu::base::strCat(argsSize, " args are more than 510"));
  std::vector<hpu::trace::Argument> arguments;
  for (uint64_t i = 0; i < argsSize; i += 2) {
    if (!args[i] || !args[i + 1]) return badArgument(hpu::base::strCat("args[", args[i] ? i + 1 : i, "] is null"));
    arguments.push_back({args[i], args[i + 1]});
  }
  hpu::trace::addSpan(description, static_cast<int64_t>(start), static_cast<int64_t>(until), arguments,
                      threadName ? threadName : "");
  return {};
}

}  // namespace

synStatus synProfilerQueryRequiredMemory(const synDeviceId deviceId, uint32_t* bytesRequired) {
  return guarded("synProfilerQueryRequiredMemory", [&]() -> Result {
    SYN_REQUIRE(bytesRequired);
    SYN_FIND_DEVICE(device, deviceId);
    *bytesRequired = 0;  // Traces are kept in host memory.
    return {};
  });
}

synStatus synProfilerSetUserBuffer(const synDeviceId deviceId, void* userBuffer) {
  return guarded("synProfilerSetUserBuffer", [&]() -> Result {
    SYN_FIND_DEVICE(device, deviceId);
    if (userBuffer) return badArgument("no buffer is needed (synProfilerQueryRequiredMemory gives 0); give null");
    return {};
  });
}

synStatus synProfilerStart(const synTraceType type, const synDeviceId deviceId) {
  return guarded("synProfilerStart", [&]() -> Result {
    int32_t device = -1;
    SYN_RETURN_IF_ERROR(deviceOf(type, deviceId, &device));
    return Profiler::get().start(type, device);
  });
}

synStatus synProfilerStop(const synTraceType type, const synDeviceId deviceId) {
  return guarded("synProfilerStop", [&]() -> Result {
    int32_t device = -1;
    SYN_RETURN_IF_ERROR(deviceOf(type, deviceId, &device));
    return Profiler::get().stop(type, device);
  });
}

synStatus synProfilerGetTrace(const synTraceType type, const synDeviceId deviceId, const synTraceFormat format,
                              void* buffer, uint64_t* size, uint64_t* numEntries) {
  return guarded("synProfilerGetTrace", [&]() -> Result {
    if (format != synTraceFormatTEF)
      return badArgument(hpu::base::strCat("there is no trace format ", static_cast<int>(format)));
    if (buffer && !size) return badArgument("size is null: it says how large the buffer is");
    int32_t device = -1;
    SYN_RETURN_IF_ERROR(deviceOf(type, deviceId, &device));
    std::shared_ptr<const hpu::trace::Recording> recording;
    SYN_RETURN_IF_ERROR(Profiler::get().recording(&recording));
    if (!size) return writeFile(*recording);
    HPU_ASSIGN(hpu::synapse::TraceBuffer trace, hpu::synapse::TraceBuffer::make(*recording, type, device));
    if (buffer) {
      if (*size < trace.bytes())
        return badArgument(hpu::base::strCat("the trace has ", trace.bytes(), " bytes and the buffer ", *size));
      trace.writeTo(buffer);
    }
    *size = trace.bytes();
    if (numEntries) *numEntries = trace.entries();
    return {};
  });
}

synStatus synProfilerGetCurrentTimeNS(uint64_t* nanoTime) {
  return guarded("synProfilerGetCurrentTimeNS", [&]() -> Result {
    SYN_REQUIRE(nanoTime);
    *nanoTime = static_cast<uint64_t>(hpu::trace::nowNs());
    return {};
  });
}

synStatus synProfilerAddCustomMeasurement(const char* description, uint64_t nanoTime) {
  return guarded("synProfilerAddCustomMeasurement",
                 [&]() -> Result { return addSpan(description, nanoTime, std::nullopt, nullptr, 0, nullptr); });
}

synStatus synProfilerAddCustomMeasurementArgs(const char* description, uint64_t nanoTime, const char** args,
                                              uint64_t argsSize) {
  return guarded("synProfilerAddCustomMeasurementArgs",
                 [&]() -> Result { return addSpan(description, nanoTime, std::nullopt, args, argsSize, nullptr); });
}

synStatus synProfilerAddCustomMeasurementArgsAndThread(const char* description, uint64_t nanoTime, const char** args,
                                                       uint64_t argsSize, const char* threadName) {
  return guarded("synProfilerAddCustomMeasurementArgsAndThread", [&]() -> Result {
    SYN_REQUIRE(threadName);
    return addSpan(description, nanoTime, std::nullopt, args, argsSize, threadName);
  });
}

synStatus synProfilerAddCustomEvent(const char* description, uint64_t startTime, uint64_t endTime, const char** args,
                                    uint64_t argsSize) {
  return guarded("synProfilerAddCustomEvent",
                 [&]() -> Result { return addSpan(description, startTime, endTime, args, argsSize, nullptr); });
}
