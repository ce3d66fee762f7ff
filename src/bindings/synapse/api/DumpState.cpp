// SPDX-License-Identifier: Apache-2.0
// synDumpStateAndTerminate: what SynapseAI does before it kills the process, without killing it.
#include <cstdio>
#include <string>

#include "base/Format.h"
#include "bindings/synapse/api/EntryPoint.h"
#include "bindings/synapse/api/Library.h"
#include "hpu/version.h"

namespace hpu::synapse {
namespace {

std::string stateOf(const DeviceObject& object) {
  const Device& device = object.device();
  const DeviceInfo& info = device.info();
  MemoryInfo memory = device.memoryInfo();
  DeviceCounters counters = device.counters();
  std::string text = base::strCat(
      "device ", object.id(), ": ", info.name, " at ", info.pciAddress, ", module ", info.moduleId,
      "\n  memory: ", base::formatBytes(memory.usedBytes), " of ", base::formatBytes(memory.totalBytes), " in ",
      memory.allocations, " allocations, peak ", base::formatBytes(memory.peakBytes), "\n  work: ", counters.launches,
      " launches, ", counters.commands, " commands, ", base::formatBytes(counters.h2dBytes), " to the device, ",
      base::formatBytes(counters.d2hBytes), " from it, device time ", base::formatNs(counters.deviceNs), "\n");
  int number = 0;
  for (const std::shared_ptr<StreamObject>& stream : streams().all()) {
    if (stream->device.get() != &object) continue;
    StatusOr<bool> done = stream->stream.query();
    text += base::strCat("  stream ", number++, ": ",
                         !done.ok() ? done.status().toString()
                         : *done    ? std::string("idle")
                                    : std::string("busy"),
                         "\n");
  }
  return text;
}

}  // namespace
}  // namespace hpu::synapse

using hpu::synapse::guarded;
using hpu::synapse::Library;
using hpu::synapse::Result;

synStatus synDumpStateAndTerminate(const char* msg, uint64_t flags) {
  return guarded("synDumpStateAndTerminate", [&]() -> Result {
    SYN_REQUIRE(msg);
    std::string text = hpu::base::strCat("[hpu] synDumpStateAndTerminate: ", msg, " (flags ",
                                         hpu::base::formatHex(flags), "), OpenHPU ", HPU_VERSION_STRING, "\n");
    for (const auto& device : Library::get().devices()) text += hpu::synapse::stateOf(*device);
    std::fputs(text.c_str(), stderr);
    Library::get().terminate();
    return {};
  });
}
