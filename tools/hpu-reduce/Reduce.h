// SPDX-License-Identifier: Apache-2.0
// Reductions of a file that fails; each keeps only what still fails.
// The one thing to know: they know nothing of the fault: every candidate is asked about (Predicate).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tools/hpu-reduce/Predicate.h"

namespace hpu::tools {

using Progress = std::function<void(const std::string&)>;

struct Reduced {
  std::string bytes;
  int64_t before = 0, after = 0;  ///< Nodes of a model; lines of a text.
};

/// A model whose bytes fail. Errors: kDataLoss (no ONNX model; external data is not taken along), and those of asking.
StatusOr<Reduced> reduceModel(const std::string& bytes, Predicate& predicate, const Progress& progress);
StatusOr<Reduced> reduceText(const std::string& text, Predicate& predicate, const Progress& progress);

/// Delta debugging: the smallest part of `items` (by index, in order) that it finds for which `fails` holds; it holds
/// for all of them.
StatusOr<std::vector<size_t>> smallestPart(size_t items,
                                           const std::function<StatusOr<bool>(const std::vector<size_t>&)>& fails);

}  // namespace hpu::tools
