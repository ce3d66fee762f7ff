// SPDX-License-Identifier: Apache-2.0
// Writes traces for other programs: Chrome JSON, Perfetto protobuf, CSV.
// The one thing to know: host and device are separate processes with separate clocks in every
// format; device time 0 is only drawn at the recording's start, never converted.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "hpu/status.h"
#include "runtime/trace/TraceData.h"

namespace hpu::trace {

/// Takes the bytes of an export piece by piece.
using Output = std::function<Status(std::string_view)>;

/// The Trace Event Format of chrome://tracing: complete events with microseconds, valid UTF-8 and
/// JSON whatever the names hold.
Status writeChrome(const TraceData& trace, const Output& out);
/// Perfetto's TracePacket protobuf: interned names, one clock for the host and one for each device.
Status writePerfetto(const TraceData& trace, const Output& out);
/// One line a device event: times in picoseconds, terms, bytes, node names.
Status writeCsv(const TraceData& trace, const Output& out);

/// Replaces the file at `path` with what `write` gives.
Status writeExport(const TraceData& trace, Status (*write)(const TraceData&, const Output&), const std::string& path);
/// The bytes of an .hputrace file to `path` in the format of its ending: ".json", ".pftrace",
/// ".csv", else unchanged.
Status exportBytes(std::vector<uint8_t> bytes, const std::string& path);

/// What shows a file that exportBytes() wrote at `path`: "hpu-trace summary run.hputrace", "open it in
/// https://ui.perfetto.dev ...".
std::string readerOf(const std::string& path);

/// `text` as UTF-8: what is not is replaced by U+FFFD.
std::string toUtf8(std::string_view text);
/// A JSON string literal with its quotes.
void appendJsonString(std::string& out, std::string_view text);

}  // namespace hpu::trace
