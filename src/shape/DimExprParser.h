// SPDX-License-Identifier: Apache-2.0
// Reads the text of a DimExpr: inside this folder only.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "shape/DimExpr.h"

namespace hpu::shape {

/// Whether a name is read back where it stands without quotes.
bool isPlainName(std::string_view name);
/// Between quotes; a quote in it is written twice.
std::string quotedName(std::string_view name);

/// Recursive descent over
///   sum     = product (("+" | "-") product)*
///   product = factor ("*" factor)*
///   factor  = number | name | "'" name "'" | "(" sum ")" | "floor(" factor "/" factor ")"
///           | ("max" | "min") "(" sum ("," sum)+ ")" | "select(" sum ("==" | "<") sum "," sum "," sum ")"
/// and nothing else.
class DimExprParser {
 public:
  explicit DimExprParser(std::string_view text) : text_(text) {}

  /// nullopt where the text is not all of an expression, or one that DimExpr refuses.
  std::optional<DimExpr> whole();

 private:
  std::optional<DimExpr> sum();
  std::optional<DimExpr> product();
  std::optional<DimExpr> factor();
  std::optional<DimExpr> number();
  std::optional<DimExpr> quoted();
  std::optional<DimExpr> function(std::string_view name);
  std::optional<DimExpr> select();
  void skipSpace();
  bool take(std::string_view token);

  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace hpu::shape
