// SPDX-License-Identifier: Apache-2.0
// One line a device slice, for spreadsheets and scripts.
#include "base/StatusMacros.h"
#include "runtime/trace/Export.h"
#include "runtime/trace/ExportTracks.h"

namespace hpu::trace {
namespace {

/// A CSV cell: quoted when it has to be.
void cell(std::string& out, std::string_view text) {
  std::string utf8 = toUtf8(text);
  bool quote = utf8.find_first_of(",\"\r\n") != std::string::npos;
  if (quote) out += '"';
  for (char c : utf8) {
    if (c == '"') out += '"';
    out += c;
  }
  if (quote) out += '"';
  out += ',';
}

}  // namespace

Status writeCsv(const TraceData& trace, const Output& out) {
  std::string text =
      "device,track,name,category,program,bundle,slice,launch,queue,nodes,ready_ps,start_ps,end_ps,"
      "hbm_bytes,sram_bytes";
  for (int t = 0; t < perfmodel::kNumTerms; ++t)
    text += "," + std::string(perfmodel::termName(static_cast<perfmodel::Term>(t))) + "_ps";
  text += '\n';
  for (const TracedDevice& device : trace.devices) {
    Status status;
    forEachSlice(
        device,
        [&](const EngineSlice& s) {
          if (!status.ok()) return;
          text += std::to_string(device.index) + ',';
          text += trackName(s.track);
          text += ',';
          for (StringId id : {s.name, s.category, s.program, s.bundle}) cell(text, trace.text(id));
          text += std::to_string(s.slice) + ',' + std::to_string(s.launch) + ',' + std::to_string(s.queue) + ',';
          cell(text, nodeNames(trace, s.nodes));
          text += std::to_string(s.ready) + ',' + std::to_string(s.start) + ',' + std::to_string(s.end) + ',' +
                  std::to_string(s.bytes.hbm) + ',' + std::to_string(s.bytes.sram);
          for (Picoseconds term : s.terms) text += ',' + std::to_string(term);
          text += '\n';
          if (text.size() < (1 << 16)) return;
          status = out(text);
          text.clear();
        },
        true);
    HPU_RETURN_IF_ERROR(status);
  }
  return out(text);
}

}  // namespace hpu::trace
