// SPDX-License-Identifier: Apache-2.0
// Terminal: text that fits the width of a terminal: lines that go on in the next one, names that are shortened.
// The one thing to know: a line ends between words, never within a number or between a number and its unit; a width of
// 0 is that of a pipe or file, where nothing is changed. Widths are columns of the terminal, text is UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace hpu::tools {

/// Columns that lines on a stream (1: stdout, 2: stderr) may have: COLUMNS, else the terminal's; 0 (any number) when it
/// is no terminal. At least 20 otherwise.
int outputWidth(int stream = 1);

/// Columns that a line takes. East Asian wide characters take two; bytes that are no UTF-8 one each.
size_t displayWidth(std::string_view text);

/// A name in at most `width` (at least 3) columns, cut in the middle with "…": both ends of a path tell something.
std::string shortenedName(std::string_view text, size_t width);

/// A line in at most `width` columns, cut behind a word with "…" when it is longer.
std::string shortenedLine(std::string_view text, size_t width);

/// A text of one line as lines of at most `width` columns. A word that is longer than that is divided behind a sign
/// such as '/' or '_' if it has one.
std::vector<std::string> filled(std::string_view text, size_t width);
/// The columns of the longest part of the text that filled() does not divide unless it must.
size_t longestWord(std::string_view text);
/// filled() as one text; the lines behind the first one begin with `indent` spaces, which count.
std::string hanging(std::string_view text, int width, int indent);

/// Lines that are longer than the width go on in the next line: under the text when they begin with a short label and
/// two spaces or more ("device  12.3 us ..."), four columns further in when they are set in, else at the margin.
std::string wrapped(std::string_view text, int width);

}  // namespace hpu::tools
