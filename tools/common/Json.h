// SPDX-License-Identifier: Apache-2.0
// Json: a value that is built by code and printed; keys keep the order in which they were set.
// The one thing to know: numbers that JSON cannot hold (NaN, infinities) print as null.
//
//   Json report;
//   report.set("passed", true);
//   report["outputs"].append(Json().set("name", "y").set("max_abs", 1e-6));
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hpu::tools {

class Json {
 public:
  enum class Kind : uint8_t { kNull, kBool, kInteger, kNumber, kString, kArray, kObject };

  Json() = default;  ///< null; becomes an object or array with the first set or append.
  Json(bool value) : kind_(Kind::kBool), integer_(value) {}                   // NOLINT: implicit by design
  Json(int value) : kind_(Kind::kInteger), integer_(value) {}                 // NOLINT
  Json(int64_t value) : kind_(Kind::kInteger), integer_(value) {}             // NOLINT
  Json(double value) : kind_(Kind::kNumber), number_(value) {}                // NOLINT
  Json(std::string value) : kind_(Kind::kString), text_(std::move(value)) {}  // NOLINT
  Json(std::string_view value) : kind_(Kind::kString), text_(value) {}        // NOLINT
  Json(const char* value) : kind_(Kind::kString), text_(value) {}             // NOLINT
  static Json object();
  static Json array();

  Kind kind() const { return kind_; }
  size_t size() const { return items_.size(); }
  /// The member `key`, added as null when it is not there.
  Json& operator[](std::string_view key);
  Json& set(std::string_view key, Json value);
  Json& append(Json value);

  /// Text of the value; indent < 0 is one line.
  std::string dump(int indent = 2) const;

 private:
  void write(std::string& out, int indent, int depth) const;
  Kind kind_ = Kind::kNull;
  int64_t integer_ = 0;
  double number_ = 0;
  std::string text_;
  std::vector<std::pair<std::string, Json>> items_;  ///< Keys are empty in an array.
};

/// A JSON string literal with quotes; invalid UTF-8 is replaced.
std::string quoteJson(std::string_view text);

}  // namespace hpu::tools
