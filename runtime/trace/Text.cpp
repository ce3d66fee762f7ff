// SPDX-License-Identifier: Apache-2.0
// Text of the exports: UTF-8 and JSON strings out of arbitrary names, and the way to a file.
#include <cstdio>

#include "base/File.h"
#include "base/StatusMacros.h"
#include "runtime/trace/Export.h"
#include "runtime/trace/Reader.h"

namespace hpu::trace {
namespace {

/// Bytes of the well-formed UTF-8 sequence at the start of `text`, or 0.
size_t sequenceLength(std::string_view text) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  unsigned first = byte(0);
  if (first < 0x80) return 1;
  size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  // Overlong forms, surrogates and what lies beyond U+10FFFF.
  if (first == 0xe0 && byte(1) < 0xa0) return 0;
  if (first == 0xed && byte(1) > 0x9f) return 0;
  if (first == 0xf0 && byte(1) < 0x90) return 0;
  if (first == 0xf4 && byte(1) > 0x8f) return 0;
  return length;
}

bool endsWith(const std::string& path, std::string_view ending) {
  return path.size() >= ending.size() && std::string_view(path).substr(path.size() - ending.size()) == ending;
}

}  // namespace

std::string toUtf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    size_t length = sequenceLength(text);
    if (length)
      out.append(text.substr(0, length));
    else
      out += "\xef\xbf\xbd";
    text.remove_prefix(length ? length : 1);
  }
  return out;
}

void appendJsonString(std::string& out, std::string_view text) {
  out += '"';
  for (char c : toUtf8(text)) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(c));
      out += escape;
    } else {
      out += c;
    }
  }
  out += '"';
}

Status writeExport(const TraceData& trace, Status (*write)(const TraceData&, const Output&), const std::string& path) {
  HPU_ASSIGN(base::AtomicFile file, base::AtomicFile::create(path));
  HPU_RETURN_IF_ERROR(write(trace, [&](std::string_view bytes) { return file.append(bytes.data(), bytes.size()); }));
  return file.commit();
}

std::string readerOf(const std::string& path) {
  if (endsWith(path, ".json")) return "open it in https://ui.perfetto.dev or chrome://tracing";
  if (endsWith(path, ".pftrace")) return "open it in https://ui.perfetto.dev";
  if (endsWith(path, ".csv")) return "a line a slice, for spreadsheets";
  return "hpu-trace summary " + path;
}

Status exportBytes(std::vector<uint8_t> bytes, const std::string& path) {
  Status (*write)(const TraceData&, const Output&) = endsWith(path, ".json")      ? writeChrome
                                                     : endsWith(path, ".pftrace") ? writePerfetto
                                                     : endsWith(path, ".csv")     ? writeCsv
                                                                                  : nullptr;
  if (!write) return base::writeFileAtomic(path, bytes.data(), bytes.size());
  auto owner = std::make_shared<std::vector<uint8_t>>(std::move(bytes));
  HPU_ASSIGN(TraceData trace, readTrace(owner->data(), owner->size(), owner, "the recorded trace"));
  return writeExport(trace, write, path);
}

}  // namespace hpu::trace
