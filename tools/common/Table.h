// SPDX-License-Identifier: Apache-2.0
// Table: aligned columns that fit the terminal. The one thing to know: columns say what they hold, and what does not
// fit is made smaller in this order: names are cut in the middle with "…" and texts go on in the next line; columns
// that may be left out are, and a line below says which and how to see them; else the columns are continued below, each
// part with the key columns before it. Numbers and words are always whole. A width of 0 (a pipe, a file) changes
// nothing.
//
//   Table table({Column::number("time"), Column::number("count").leaveOut(1), Column::name("operation")});
//   table.row({"1.5 us", "3", "/encoder/layer.11/MatMul"});
//   tool.print(table);
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace hpu::tools {

/// What a column is; a plain value, whose functions give a changed copy.
class Column {
 public:
  /// A number with its unit, or one of a few short words: never cut.
  static Column number(std::string title) { return Column(Kind::kWhole, std::move(title)); }
  static Column word(std::string title) { return Column(Kind::kWhole, std::move(title)); }
  /// A name or path, which may be cut in the middle.
  static Column name(std::string title) { return Column(Kind::kName, std::move(title)); }
  /// Words that may go on in the next line.
  static Column text(std::string title) { return Column(Kind::kText, std::move(title)); }

  /// A name of which at least so many columns are to be seen, if others can be left out for that.
  Column least(size_t columns) const;
  /// May be left out where there is no room; the highest `order` (at least 1) goes first.
  Column leaveOut(int order) const;
  /// Repeated where the columns are continued below; without any the first column is.
  Column key() const;
  /// Columns of one group (consecutive, a number above 0) are not torn apart when columns are continued below.
  Column group(int number) const;
  /// A second line of the head.
  Column unit(std::string text) const;
  /// At least so many columns wide, for TableLines; `rightAligned` numbers end in one column.
  Column width(size_t columns, bool rightAligned = false) const;
  /// Spaces before it (2).
  Column gap(size_t spaces) const;

 private:
  enum class Kind { kWhole, kName, kText };
  Column(Kind kind, std::string title) : kind_(kind), title_(std::move(title)) {}

  Kind kind_;
  std::string title_, unit_;
  int order_ = 0, group_ = 0;
  bool key_ = false, right_ = false;
  size_t width_ = 0, gap_ = 2, least_ = 0;
  friend class Table;
  friend class TableLines;
  friend struct TableLayout;
};

/// Owned by one thread.
class Table {
 public:
  explicit Table(std::vector<Column> columns, size_t indent = 0);
  /// Columns that are always whole.
  static Table ofWords(const std::vector<std::string>& titles);

  /// One cell a column; those that are missing are empty.
  void row(std::vector<std::string> cells);
  size_t rows() const { return rows_.size(); }
  bool empty() const { return rows_.empty(); }
  /// Lines of at most `width` columns without a newline behind the last one; without titles there is no head.
  std::string text(int width) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
  size_t indent_;
};

/// A table whose rows are printed as they come: columns are as wide as they say (Column::width), what is longer
/// shifts its row. What may be left out is when the width asks for it.
class TableLines {
 public:
  TableLines(std::vector<Column> columns, int width);
  std::string head() const;
  std::string line(const std::vector<std::string>& cells) const;
  /// What is left out and how to see it; empty when nothing is.
  std::string note() const;

 private:
  std::vector<Column> columns_;
  std::vector<size_t> shown_, widths_;  ///< Numbers of columns; widths of all of them.
  size_t needed_ = 0;                   ///< For all columns.
  int width_;
};

}  // namespace hpu::tools
