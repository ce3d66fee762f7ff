// SPDX-License-Identifier: Apache-2.0
#include "tools/common/Table.h"

#include <algorithm>

#include "base/Format.h"
#include "tools/common/Terminal.h"

namespace hpu::tools {

using Widths = std::vector<size_t>;

/// Columns beside one another: which, and how wide each of them is. `widths` are by column, of all columns.
struct TableLayout {
  const std::vector<Column>& columns;
  std::vector<size_t> shown;
  Widths widths;
  size_t indent = 0;
  bool cuts = true;  ///< Else what is longer than its column shifts its row.

  size_t total(const Widths& of) const {
    size_t sum = indent;
    for (size_t i = 0; i < shown.size(); ++i) sum += of[shown[i]] + (i ? columns[shown[i]].gap_ : 0);
    return sum;
  }
  void shrink(const Widths& least, size_t width);
  bool leaveOut(const Widths& least, size_t width);
  std::string line(const std::vector<std::string>& cells) const;
  std::string head() const;
};

namespace {

constexpr size_t kLeastName = 14, kLeastText = 20, kMostWord = 40;
/// Names beyond this are not padded for, where nothing is cut: one that is very long does not make all rows so.
constexpr size_t kMostPadding = 240;

std::string trimmed(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

/// "count, engine": the titles, each once.
std::string titlesOf(const std::vector<std::string>& titles) {
  std::string text;
  for (size_t i = 0; i < titles.size(); ++i)
    if (std::find(titles.begin(), titles.begin() + static_cast<std::ptrdiff_t>(i), titles[i]) ==
        titles.begin() + static_cast<std::ptrdiff_t>(i))
      text += (text.empty() ? "" : ", ") + titles[i];
  return text;
}

std::string leftOutText(const std::vector<std::string>& titles, size_t needed, int width, size_t indent) {
  const std::string text = base::strCat(std::string(indent, ' '), "(no room for ", titlesOf(titles), ": a terminal of ",
                                        needed, " columns, COLUMNS=", needed, " or --json)");
  return wrapped(text, width);
}

}  // namespace

Column Column::least(size_t columns) const {
  Column copy = *this;
  copy.least_ = columns;
  return copy;
}
Column Column::leaveOut(int order) const {
  Column copy = *this;
  copy.order_ = order;
  return copy;
}
Column Column::key() const {
  Column copy = *this;
  copy.key_ = true;
  return copy;
}
Column Column::group(int number) const {
  Column copy = *this;
  copy.group_ = number;
  return copy;
}
Column Column::unit(std::string text) const {
  Column copy = *this;
  copy.unit_ = std::move(text);
  return copy;
}
Column Column::width(size_t columns, bool rightAligned) const {
  Column copy = *this;
  copy.width_ = columns;
  copy.right_ = rightAligned;
  return copy;
}
Column Column::gap(size_t spaces) const {
  Column copy = *this;
  copy.gap_ = spaces;
  return copy;
}

/// The widest names and texts give way, until it fits or all are at their least.
void TableLayout::shrink(const Widths& least, size_t width) {
  for (size_t c : shown)
    if (widths[c] > least[c]) widths[c] = std::max(least[c], std::min(widths[c], width));
  while (total(widths) > width) {
    size_t widest = columns.size();
    for (size_t c : shown)
      if (widths[c] > least[c] && (widest == columns.size() || widths[c] > widths[widest])) widest = c;
    if (widest == columns.size()) return;
    --widths[widest];
  }
}

/// Takes columns out until the rest fits; false when it does not without all that may be left out.
bool TableLayout::leaveOut(const Widths& least, size_t width) {
  while (total(least) > width) {
    auto first = shown.end();
    for (auto at = shown.begin(); at != shown.end(); ++at)
      if (columns[*at].order_ > 0 && (first == shown.end() || columns[*at].order_ > columns[*first].order_)) first = at;
    if (first == shown.end()) return false;
    shown.erase(first);
  }
  return true;
}

std::string TableLayout::line(const std::vector<std::string>& cells) const {
  std::vector<std::vector<std::string>> parts;
  size_t lines = 1;
  for (size_t c : shown) {
    std::vector<std::string>& part = parts.emplace_back();
    const std::string cell = c < cells.size() ? cells[c] : std::string();
    if (columns[c].kind_ == Column::Kind::kWhole || displayWidth(cell) <= widths[c] || !cuts)
      part = {cell};
    else if (columns[c].kind_ == Column::Kind::kName)
      part = {shortenedName(cell, widths[c])};
    else
      part = filled(cell, widths[c]);
    lines = std::max(lines, part.size());
  }
  std::string out;
  for (size_t l = 0; l < lines; ++l) {
    std::string line(indent, ' ');
    for (size_t i = 0; i < shown.size(); ++i) {
      const Column& column = columns[shown[i]];
      const std::string cell = l < parts[i].size() ? parts[i][l] : std::string();
      const size_t used = displayWidth(cell), room = widths[shown[i]];
      const std::string padding(room > used ? room - used : 0, ' ');
      if (i) line.append(column.gap_, ' ');
      line += column.right_ ? padding + cell : cell + padding;
    }
    out += (l ? "\n" : "") + trimmed(std::move(line));
  }
  return out;
}

std::string TableLayout::head() const {
  std::vector<std::string> titles, units;
  bool anyTitle = false, anyUnit = false;
  for (const Column& column : columns) {
    titles.push_back(column.title_);
    units.push_back(column.unit_);
    anyTitle |= !column.title_.empty();
    anyUnit |= !column.unit_.empty();
  }
  std::string out = anyTitle ? line(titles) : "";
  if (anyUnit) out += (out.empty() ? "" : "\n") + line(units);
  return out;
}

Table::Table(std::vector<Column> columns, size_t indent) : columns_(std::move(columns)), indent_(indent) {}

Table Table::ofWords(const std::vector<std::string>& titles) {
  std::vector<Column> columns;
  for (const std::string& title : titles) columns.push_back(Column::word(title));
  return Table(std::move(columns));
}

void Table::row(std::vector<std::string> cells) {
  rows_.push_back(std::move(cells));
}

std::string Table::text(int width) const {
  const size_t count = columns_.size();
  Widths natural(count), least(count), wished(count);
  for (size_t c = 0; c < count; ++c) {
    const Column& column = columns_[c];
    const size_t head = std::max(displayWidth(column.title_), displayWidth(column.unit_));
    size_t word = std::max(longestWord(column.title_), longestWord(column.unit_));
    natural[c] = std::max(head, column.width_);
    for (const auto& row : rows_)
      if (c < row.size()) {
        natural[c] = std::max(natural[c], displayWidth(row[c]));
        if (column.kind_ == Column::Kind::kText) word = std::max(word, longestWord(row[c]));
      }
    if (column.kind_ == Column::Kind::kName) least[c] = std::min(natural[c], std::max(kLeastName, head));
    if (column.kind_ == Column::Kind::kText)
      least[c] = std::min(natural[c], std::max(kLeastText, std::min(word, kMostWord)));
    if (column.kind_ == Column::Kind::kWhole)
      least[c] = natural[c];
    else if (width <= 0)
      natural[c] = std::min(natural[c], kMostPadding);
    wished[c] = std::max(least[c], std::min(natural[c], column.least_));
  }
  TableLayout all{columns_, {}, natural, indent_, width > 0};
  for (size_t c = 0; c < count; ++c) all.shown.push_back(c);
  auto render = [&](const TableLayout& layout) {
    std::string out = layout.head();
    for (const auto& row : rows_) out += (out.empty() ? "" : "\n") + layout.line(row);
    return out;
  };
  const auto room = static_cast<size_t>(std::max(width, 0));
  if (width <= 0 || all.total(natural) <= room) return render(all);
  const size_t needed = all.total(wished);

  for (const Widths& narrowest : {wished, least}) {
    TableLayout fewer = all;
    if (!fewer.leaveOut(narrowest, room)) continue;
    fewer.shrink(narrowest, room);
    std::string out = render(fewer);
    std::vector<std::string> missing;
    for (size_t c : all.shown)
      if (std::find(fewer.shown.begin(), fewer.shown.end(), c) == fewer.shown.end())
        missing.push_back(columns_[c].title_);
    return missing.empty() ? out : out + "\n" + leftOutText(missing, needed, width, indent_);
  }

  // The columns in parts, one below the other.
  std::vector<size_t> keys, rest;
  for (size_t c : all.shown) (columns_[c].key_ ? keys : rest).push_back(c);
  if (keys.empty()) {
    keys.push_back(0);
    rest.erase(rest.begin());
  }
  std::string out;
  for (size_t at = 0; at < rest.size();) {
    TableLayout part{columns_, keys, natural, indent_};
    while (at < rest.size()) {
      TableLayout more = part;
      size_t end = at;
      do {
        more.shown.push_back(rest[end++]);
      } while (end < rest.size() && columns_[rest[end]].group_ > 0 &&
               columns_[rest[end]].group_ == columns_[rest[at]].group_);
      if (part.shown.size() > keys.size() && more.total(least) > room) break;
      part.shown = more.shown;
      at = end;
    }
    part.shrink(least, room);
    out += (out.empty() ? "" : "\n\n") + render(part);
  }
  return out + "\n" +
         wrapped(base::strCat(std::string(indent_, ' '), "(in parts for want of room: a terminal of ", needed,
                              " columns, COLUMNS=", needed, " or --json has a row in one)"),
                 width);
}

TableLines::TableLines(std::vector<Column> columns, int width) : columns_(std::move(columns)), width_(width) {
  TableLayout layout{columns_, {}, {}, 0};
  for (size_t c = 0; c < columns_.size(); ++c) {
    layout.shown.push_back(c);
    layout.widths.push_back(std::max(columns_[c].width_, displayWidth(columns_[c].title_)));
  }
  widths_ = layout.widths;
  needed_ = layout.total(widths_);
  if (width > 0) layout.leaveOut(widths_, static_cast<size_t>(width));
  shown_ = layout.shown;
}

std::string TableLines::line(const std::vector<std::string>& cells) const {
  return TableLayout{columns_, shown_, widths_, 0}.line(cells);
}

std::string TableLines::head() const {
  return TableLayout{columns_, shown_, widths_, 0}.head();
}

std::string TableLines::note() const {
  std::vector<std::string> missing;
  for (size_t c = 0; c < columns_.size(); ++c)
    if (std::find(shown_.begin(), shown_.end(), c) == shown_.end()) missing.push_back(trimmed(columns_[c].title_));
  return missing.empty() ? "" : leftOutText(missing, needed_, width_, 0);
}

}  // namespace hpu::tools
