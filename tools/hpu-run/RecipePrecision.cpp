// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "recipe/Recipe.h"
#include "tools/hpu-run/LoadProgram.h"

namespace hpu::tools {

namespace {

Precision precisionOf(const recipe::Program& program) {
  Precision narrowest = Precision::kF32;
  for (const recipe::Part& part : program.parts) narrowest = std::max(narrowest, precisionOf(*part.program));
  for (const recipe::Op& op : program.ops) {
    if (op.engine != Engine::kMme) continue;
    ElementType type = op.mme.a.type;
    Precision precision = type == ElementType::kBF16     ? Precision::kBF16
                          : type == ElementType::kF16    ? Precision::kF16
                          : type == ElementType::kF8E5M2 ? Precision::kFp8E5M2
                          : elementSize(type) == 1       ? Precision::kFp8
                                                         : Precision::kF32;
    narrowest = std::max(narrowest, precision);
  }
  return narrowest;
}

}  // namespace

Precision precisionOf(const Recipe& recipe) {
  return precisionOf(*recipe.program());
}

Status checkSizeOptions(const Tool& tool, const std::string& path, const Recipe& recipe) {
  if (!recipe.dims().empty()) return okStatus();
  for (const char* option : {"--shape", "--dim"})
    if (tool.given(option))
      return invalidArgument(std::string(option) + ": '" + path + "' is compiled already, and has no free dimensions");
  return okStatus();
}

}  // namespace hpu::tools
