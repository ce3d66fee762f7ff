// SPDX-License-Identifier: Apache-2.0
#include "tools/common/Terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "base/Format.h"

namespace hpu::tools {
namespace {

constexpr std::string_view kEllipsis = "…";  // One column.

bool isDigit(char c) {
  return c >= '0' && c <= '9';
}

struct Character {
  size_t bytes = 1;
  size_t columns = 1;
};

/// The character that begins at `at`.
Character characterAt(std::string_view text, size_t at) {
  const auto lead = static_cast<uint8_t>(text[at]);
  const size_t bytes = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
  if (bytes == 0 || at + bytes > text.size()) return {};
  if (bytes == 1) return {};
  uint32_t code = lead & (0xffu >> (bytes + 1));
  for (size_t i = 1; i < bytes; ++i) {
    const auto next = static_cast<uint8_t>(text[at + i]);
    if ((next & 0xc0) != 0x80) return {};
    code = code << 6 | (next & 0x3fu);
  }
  // Combining marks, joiners and variation selectors; the wide blocks of Unicode's EastAsianWidth.txt.
  if ((code >= 0x300 && code <= 0x36f) || (code >= 0x200b && code <= 0x200f) || (code >= 0xfe00 && code <= 0xfe0f))
    return {bytes, 0};
  const bool wide = (code >= 0x1100 && code <= 0x115f) || (code >= 0x2e80 && code <= 0xa4cf) ||
                    (code >= 0xac00 && code <= 0xd7a3) || (code >= 0xf900 && code <= 0xfaff) ||
                    (code >= 0xfe30 && code <= 0xfe6f) || (code >= 0xff00 && code <= 0xff60) ||
                    (code >= 0xffe0 && code <= 0xffe6) || (code >= 0x1f300 && code <= 0x1faff) ||
                    (code >= 0x20000 && code <= 0x3fffd);
  return {bytes, wide ? size_t{2} : size_t{1}};
}

/// The bytes of the longest beginning of at most `width` columns.
size_t beginningOf(std::string_view text, size_t width) {
  size_t at = 0;
  for (size_t columns = 0; at < text.size();) {
    const Character c = characterAt(text, at);
    if (columns + c.columns > width) break;
    columns += c.columns;
    at += c.bytes;
  }
  return at;
}

/// A part of a text that stays on one line, and the spaces before it.
struct Piece {
  std::string text;
  size_t spaces = 0;
};

/// What may follow a number in the same line: "98.2 %", "12 GB/s," and so on.
bool isUnit(std::string_view word) {
  while (!word.empty() && std::string_view(",;.:)").find(word.back()) != std::string_view::npos) word.remove_suffix(1);
  constexpr std::string_view kUnits[] = {"%",   "ps", "ns",  "us",  "ms",     "s",      "B",    "KiB", "MiB",   "GiB",
                                         "TiB", "KB", "MB",  "GB",  "TB",     "GB/s",   "MB/s", "W",   "C",     "MHz",
                                         "GHz", "PB", "PiB", "EiB", "Gbit/s", "TFLOPS", "GMAC", "MAC", "runs/s"};
  return std::find(std::begin(kUnits), std::end(kUnits), word) != std::end(kUnits);
}

/// The exponent's sign of "1e+05", the point of "1.5" and the comma of "1,024" are within a number.
bool isWithinNumber(std::string_view text, size_t at) {
  if (at == 0 || at + 1 >= text.size() || !isDigit(text[at + 1])) return false;
  if (isDigit(text[at - 1])) return text[at] != '/' && text[at] != '|' && text[at] != '=' && text[at] != '_';
  return (text[at] == '+' || text[at] == '-') && (text[at - 1] == 'e' || text[at - 1] == 'E') && at > 1 &&
         (isDigit(text[at - 2]) || text[at - 2] == '.');
}

/// Lines end at spaces, and behind a '|' or '+' of a list.
std::vector<Piece> piecesOf(std::string_view text) {
  std::vector<Piece> words, pieces;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = std::min(text.find_first_not_of(' ', at), text.size());
    const size_t end = std::min(text.find(' ', begin), text.size());
    if (begin == end) break;
    const std::string_view word = text.substr(begin, end - begin);
    if (begin - at == 1 && !words.empty() && isDigit(words.back().text.back()) && isUnit(word))
      words.back().text += " " + std::string(word);
    else
      words.push_back({std::string(word), begin - at});
    at = end;
  }
  for (const Piece& word : words) {
    size_t from = 0;
    const std::string_view whole = word.text;
    for (size_t at = 1; at + 1 < whole.size(); ++at)
      if ((whole[at] == '|' || whole[at] == '+') && whole[at + 1] != whole[at] && !isWithinNumber(whole, at)) {
        pieces.push_back({word.text.substr(from, at + 1 - from), from ? 0 : word.spaces});
        from = at + 1;
      }
    pieces.push_back({word.text.substr(from), from ? 0 : word.spaces});
  }
  return pieces;
}

/// Where a word that is longer than `width` is divided.
size_t divisionOf(std::string_view word, size_t width) {
  const size_t most = std::max(beginningOf(word, width), characterAt(word, 0).bytes);
  for (size_t at = most; at > most / 3 + 1; --at)
    if (std::string_view(" /|+,;:=_-.").find(word[at - 1]) != std::string_view::npos && !isWithinNumber(word, at - 1))
      return at;
  return most;
}

}  // namespace

int outputWidth(int stream) {
  constexpr int kLeast = 20;
  if (const char* columns = getenv("COLUMNS"))
    if (StatusOr<int64_t> width = base::parseInt(columns); width.ok() && *width > 0 && *width < 100000)
      return std::max(static_cast<int>(*width), kLeast);
  struct winsize size = {};
  if (!isatty(stream) || ioctl(stream, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 0;
  return std::max<int>(size.ws_col, kLeast);
}

size_t displayWidth(std::string_view text) {
  size_t columns = 0;
  for (size_t at = 0; at < text.size();) {
    const Character c = characterAt(text, at);
    columns += c.columns;
    at += c.bytes;
  }
  return columns;
}

std::string shortenedName(std::string_view text, size_t width) {
  if (displayWidth(text) <= width) return std::string(text);
  const size_t tail = (width - 1) / 2, head = width - 1 - tail;
  // The longest end that fits: the columns before it are those that do not.
  size_t at = 0;
  for (size_t left = displayWidth(text); at < text.size() && left > tail;) {
    const Character c = characterAt(text, at);
    left -= c.columns;
    at += c.bytes;
  }
  return std::string(text.substr(0, beginningOf(text, head))) + std::string(kEllipsis) + std::string(text.substr(at));
}

std::string shortenedLine(std::string_view text, size_t width) {
  if (displayWidth(text) <= width) return std::string(text);
  if (width < 3) return std::string(text.substr(0, beginningOf(text, width)));
  const std::vector<std::string> lines = filled(text, width - 2);
  return lines.front() + " " + std::string(kEllipsis);
}

std::vector<std::string> filled(std::string_view text, size_t width) {
  width = std::max<size_t>(width, 1);
  std::vector<std::string> lines(1);
  size_t columns = 0;  // Of the last line.
  for (Piece& piece : piecesOf(text)) {
    size_t length = displayWidth(piece.text);
    if (columns > 0 && columns + piece.spaces + length > width) {
      lines.emplace_back();
      columns = 0;
    }
    while (length > width) {
      const size_t at = divisionOf(piece.text, width);
      lines.back() += piece.text.substr(0, at);
      while (lines.back().ends_with(' ')) lines.back().pop_back();
      lines.emplace_back();
      piece.text.erase(0, at);
      length = displayWidth(piece.text);
    }
    if (columns > 0) {
      lines.back().append(piece.spaces, ' ');
      columns += piece.spaces;
    }
    lines.back() += piece.text;
    columns += length;
  }
  if (lines.size() > 1 && lines.back().empty()) lines.pop_back();
  return lines;
}

size_t longestWord(std::string_view text) {
  size_t longest = 0;
  for (const Piece& piece : piecesOf(text)) longest = std::max(longest, displayWidth(piece.text));
  return longest;
}

std::string hanging(std::string_view text, int width, int indent) {
  std::string out;
  for (const std::string& line : filled(text, static_cast<size_t>(std::max(width - indent, 1))))
    out += (out.empty() ? "" : "\n" + std::string(static_cast<size_t>(indent), ' ')) + line;
  return out;
}

std::string wrapped(std::string_view text, int width) {
  if (width <= 0) return std::string(text);
  constexpr int kLeastText = 24, kMostLabel = 24;  // Columns beside an indentation, and of one.
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    at = end + 1;
    const size_t margin = std::min(line.find_first_not_of(' '), line.size());
    if (displayWidth(line) <= static_cast<size_t>(width) || static_cast<int>(margin) + kLeastText > width) {
      out += line;
    } else {
      size_t begin = margin;
      int further = margin > 0 ? static_cast<int>(margin) + 4 : 0;
      if (const size_t gap = line.find("  ", margin); gap != std::string_view::npos) {
        const size_t under = line.find_first_not_of(' ', gap);
        if (under != std::string_view::npos && under <= kMostLabel && static_cast<int>(under) + kLeastText <= width) {
          begin = under;
          further = static_cast<int>(displayWidth(line.substr(0, under)));
        }
      }
      out += line.substr(0, begin);
      if (begin == margin) {
        // The first line is not as far in as those that continue it.
        std::vector<std::string> lines = filled(line.substr(begin), static_cast<size_t>(width) - margin);
        const size_t first = lines[0].size();
        out += lines[0];
        if (lines.size() > 1) {
          const size_t rest = std::min(line.find_first_not_of(' ', begin + first), line.size());
          const std::string indent(static_cast<size_t>(further), ' ');
          out += "\n" + indent + hanging(line.substr(rest), width, further);
        }
      } else {
        out += hanging(line.substr(begin), width, further);
      }
    }
    if (end < text.size()) out += '\n';
  }
  return out;
}

}  // namespace hpu::tools
