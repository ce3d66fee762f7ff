// SPDX-License-Identifier: Apache-2.0
// Fuzz target: any bytes are an error or a trace that exports. The bytes are tried as they are and
// with right checksums, because no mutation would ever find those.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "runtime/trace/Export.h"
#include "runtime/trace/Format.h"
#include "runtime/trace/Merge.h"
#include "runtime/trace/Reader.h"
#include "tools/hpu-trace/Analysis.h"
#include "tools/hpu-trace/Timeline.h"

namespace {

using namespace hpu::trace;

void tryTrace(const std::vector<uint8_t>& bytes) {
  auto owner = std::make_shared<std::vector<uint8_t>>(bytes);
  hpu::StatusOr<TraceData> trace = readTrace(owner->data(), owner->size(), owner, "fuzz.hputrace");
  if (!trace.ok()) {
    if (trace.status().message().empty()) std::abort();
    return;
  }
  Output nowhere = [](std::string_view) { return hpu::okStatus(); };
  if (!writeChrome(*trace, nowhere).ok() || !writePerfetto(*trace, nowhere).ok() || !writeCsv(*trace, nowhere).ok())
    std::abort();
  hpu::tools::Analysis analysis = hpu::tools::analyse(*trace);
  Picoseconds terms = 0, together = 0;
  for (Picoseconds time : analysis.all.terms) terms += time;
  for (Picoseconds time : analysis.together) together += time;
  if (terms != analysis.all.busy + analysis.all.sync || together != analysis.deviceTimeSum) std::abort();
  (void)hpu::tools::topRows(*trace, hpu::tools::GroupBy::kNode);
  (void)hpu::tools::advise(*trace, analysis);
  for (const TracedDevice& device : trace->devices) {
    hpu::tools::TimelineWindow window = hpu::tools::wholeDevice(device);
    if (window.from >= window.to) continue;
    window.columns = 10;
    hpu::tools::Timeline timeline = hpu::tools::timelineOf(device, window);
    for (const hpu::tools::TimelineLane& lane : timeline.lanes) {
      Picoseconds busy = 0;
      for (const hpu::tools::TimelineCell& cell : lane.cells) busy += cell.busy;
      if (busy != lane.busy) std::abort();
      if (drawLane(timeline, lane, 26).size() > 10) std::abort();
    }
  }
  // Merged with nothing it is refused for a reason, or says the same.
  hpu::StatusOr<Merged> merged = mergeTraces({{"fuzz.hputrace", &*trace}}, Align::kClock);
  if (!merged.ok()) return;
  hpu::StatusOr<TraceData> again = readTrace(merged->bytes.data(), merged->bytes.size(), nullptr, "merged.hputrace");
  if (!again.ok() || again->devices.size() != trace->devices.size() || again->threads.size() != trace->threads.size())
    std::abort();
}

/// Gives every chunk whose size is plausible the checksum that it should have.
void seal(std::vector<uint8_t>& bytes) {
  for (size_t at = format::kHeaderBytes; at + format::kChunkHeaderBytes <= bytes.size();) {
    uint64_t size = format::getFixed<uint64_t>(&bytes[at + 16]);
    if (size > bytes.size() - at - format::kChunkHeaderBytes) return;
    uint64_t sum = format::chunkChecksum(&bytes[at], bytes.data() + at + format::kChunkHeaderBytes, size);
    std::memcpy(&bytes[at + format::kCheckedHeaderBytes], &sum, sizeof sum);
    at += format::kChunkHeaderBytes + size;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<uint8_t> bytes(data, data + size);
  tryTrace(bytes);
  seal(bytes);
  tryTrace(bytes);
  return 0;
}
