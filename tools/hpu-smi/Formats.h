// SPDX-License-Identifier: Apache-2.0
// Formats: what hpu-smi prints, as pure functions of a NodeView; no text ends with a newline.
// The one thing to know: layouts are those of hl-smi 1.18 to 1.21, because scripts parse them; what hl-smi lacks
// is below or behind what it has.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "hpu/status.h"
#include "tools/common/Json.h"
#include "tools/hpu-smi/NodeView.h"

namespace hpu::smi {

// ---- TableFormat.cpp
/// The summary: a box of devices and a box of processes; what they say without boxes where `width` columns (0: any
/// number) have no room for them.
std::string formatSummary(const NodeView& view, int width = 0);

// ---- LogFormat.cpp
/// The sections that -d takes, in the order of printing.
std::vector<std::string> logSections();
/// "PRODUCT,POWER" in any case; empty is all. Errors: kInvalidArgument, listing the sections.
StatusOr<std::vector<std::string>> parseSections(std::string_view text);
/// One block of "name : value" lines a device.
std::string formatLog(const NodeView& view, const std::vector<std::string>& sections);
/// --fw-versions.
std::string formatFirmware(const NodeView& view);

// ---- CsvFormat.cpp
struct CsvRequest {
  std::vector<size_t> fields;  ///< Positions in the table of fields.
  bool header = true, units = true;
  /// Some field needs two samples.
  bool needsWindow = false;
};
/// All fields, in the order of --help.
std::vector<std::string> csvFieldNames();
/// "index,name" and "csv,noheader,nounits". Errors: kInvalidArgument, listing what is valid.
StatusOr<CsvRequest> parseCsvRequest(std::string_view fields, std::string_view format);
std::string formatCsvHeader(const CsvRequest& request);
/// One line a device; empty when there is none.
std::string formatCsvRows(const NodeView& view, const CsvRequest& request);

// ---- NetworkFormat.cpp
/// -n: "link", "ports" or "stats". `ports` ("0,8", empty: hl-smi's choice, those inside the box for link). Errors:
/// kInvalidArgument (another kind, a port that the device has not got).
StatusOr<std::string> formatNic(const NodeView& view, std::string_view kind, std::string_view ports);
/// The matrix of links between the devices, in `width` columns (0: any number).
std::string formatTopology(const NodeView& view, int width = 0);

// ---- JsonFormat.cpp, PrometheusFormat.cpp
/// Adds "node", "timestamp", "devices" ... to the document.
void addJson(const NodeView& view, tools::Json& document);
/// Text exposition format 0.0.4, with the names of Habana's metric exporter.
std::string formatPrometheus(const NodeView& view);

}  // namespace hpu::smi
