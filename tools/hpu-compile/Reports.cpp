// SPDX-License-Identifier: Apache-2.0
#include "tools/hpu-compile/Reports.h"

#include <algorithm>
#include <map>
#include <vector>

#include "base/Format.h"

namespace hpu::tools {
namespace {

std::string kindOf(const std::string& line) {
  size_t begin = line.find_first_not_of(' ');
  if (begin == std::string::npos) return "";
  std::string word = line.substr(begin, line.find_first_of(" :", begin) - begin);
  // Lines that begin with a number are one kind.
  if (word.find_first_not_of("0123456789.") == std::string::npos) return "#";
  return word;
}

}  // namespace

std::string condensed(const std::string& report, size_t mostLines) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < report.size();) {
    size_t end = std::min(report.find('\n', at), report.size());
    lines.push_back(report.substr(at, end - at));
    at = end + 1;
  }
  if (lines.size() <= mostLines) return report;
  std::vector<std::string> kinds;  // In order of their first line.
  std::map<std::string, size_t> count;
  for (const std::string& line : lines)
    if (count[kindOf(line)]++ == 0) kinds.push_back(kindOf(line));
  // Kinds with few lines are whole; the rest share what is left.
  std::map<std::string, size_t> quota;
  size_t left = mostLines, open = kinds.size();
  std::vector<std::string> byCount = kinds;
  std::stable_sort(byCount.begin(), byCount.end(),
                   [&](const std::string& a, const std::string& b) { return count[a] < count[b]; });
  for (const std::string& kind : byCount) {
    size_t share = std::max<size_t>(left / open, 1);
    quota[kind] = count[kind] <= share ? count[kind] : std::max<size_t>(share - 1, 1);
    left -= std::min(left, quota[kind] + (count[kind] > share));
    --open;
  }
  std::string text;
  std::map<std::string, size_t> shown;
  for (const std::string& line : lines) {
    const std::string kind = kindOf(line);
    size_t place = shown[kind]++;
    if (place < quota[kind])
      text += line + "\n";
    else if (place == quota[kind])
      text += base::strCat("  ... ", count[kind] - quota[kind], " more like the line above (--verbose shows them)\n");
  }
  return text;
}

}  // namespace hpu::tools
