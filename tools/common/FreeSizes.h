// SPDX-License-Identifier: Apache-2.0
// FreeSizes: what a user says about the sizes of a recipe's free dimensions, and the shapes that follow from it.
// The one thing to know: sizes come by name (--dim), by the shape of an input (--shape) or with an input's file; all of
// them must agree.
//
//   HPU_ASSIGN(FreeSizes sizes, parseFreeSizes(dims, shapes));
//   sizes.shapes["x"] = tensorOfFile.type.shape;
//   HPU_ASSIGN(std::vector<Shape> shapes, inputShapesFor(recipe, sizes));
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "hpu/recipe.h"
#include "hpu/status.h"
#include "hpu/types.h"

namespace hpu::tools {

struct FreeSizes {
  std::map<std::string, int64_t> dims;  ///< By the dimension's name.
  std::map<std::string, Shape> shapes;  ///< By the input's name.
  /// Elements of inputs that say sizes (Recipe::valueInputs), by the input's name.
  std::map<std::string, std::vector<int64_t>> values;
};
/// `dims`: "NAME=SIZE" each; bounds ("NAME=1:512") are the compiler's, and no size. `shapes`: "NAME=1x3x224". Errors:
/// kInvalidArgument naming the option and its value.
StatusOr<FreeSizes> parseFreeSizes(const std::vector<std::string>& dims, const std::vector<std::string>& shapes);

/// What a launch says of its inputs.
struct LaunchSizes {
  std::vector<Shape> shapes;
  InputValues values;
};
/// Errors: as inputShapesFor.
StatusOr<LaunchSizes> launchSizesFor(const Recipe& recipe, const FreeSizes& sizes);

/// The shapes of all inputs. Errors: kInvalidArgument naming the dimension or input (unknown, out of bounds, without a
/// size, or with several).
StatusOr<std::vector<Shape>> inputShapesFor(const Recipe& recipe, const FreeSizes& sizes);

/// "seq=1:512" or "seq=1:512:8": sizes of one dimension.
struct ShapeSweep {
  std::string dim;
  int64_t first = 1, last = 1, step = 1;
};
/// Errors: kInvalidArgument (no such dimension, sizes out of its bounds, not written so).
StatusOr<ShapeSweep> parseShapeSweep(const std::string& text, const Recipe& recipe);

}  // namespace hpu::tools
