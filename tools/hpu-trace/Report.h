// SPDX-License-Identifier: Apache-2.0
// Numbers as hpu-trace prints them, and the rows that several verbs share.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tools/common/Json.h"
#include "tools/common/Table.h"
#include "tools/hpu-trace/Analysis.h"

namespace hpu::tools {

/// Columns that tell operations apart, whose names begin and end alike: what else a row says gives way for them.
inline constexpr size_t kLeastName = 24;

inline double microseconds(Picoseconds time) {
  return static_cast<double>(time) / 1e6;
}
/// "1.234 ms": four significant digits.
std::string formatTime(Picoseconds time);
/// The same for host times, of which files may hold any.
std::string formatHostTime(int64_t nanoseconds);
/// "12.3 %" of whole; "-" when there is none.
std::string formatShare(Picoseconds part, Picoseconds whole);

/// Names come from files: what a terminal could take for a command is replaced.
std::string printable(std::string_view text);

/// Whether the work of an engine that is present is in the trace.
bool recorded(const Analysis& a, int track);

Json termsJson(const Terms& terms);
Json topJson(const std::vector<TopRow>& rows, size_t most, Picoseconds whole);
/// The keys of `hpu-trace summary`; `most` rows of `top`.
void summaryJson(Json& json, const TraceData& trace, const Analysis& a, const std::vector<TopRow>& top, size_t most,
                 const std::vector<std::string>& advice);
/// The table of `hpu-trace top` and of the summary.
Table topTable(const std::vector<TopRow>& rows, size_t most, Picoseconds whole);

}  // namespace hpu::tools
