// SPDX-License-Identifier: Apache-2.0
// Recipes on disk, keyed by the content of the model and everything that decides what it compiles to.
#pragma once

#include <optional>
#include <string>

#include "hpu/compiler.h"

namespace hpu::pipeline {

/// A folder of recipes; several processes may share it (files appear whole or not at all).
class RecipeCache {
 public:
  /// `directory` empty: a cache that holds nothing.
  explicit RecipeCache(std::string directory) : directory_(std::move(directory)) {}

  /// The key of a model file compiled with `options`: model bytes, external data files (by size and time of change),
  /// target, precision, level, shapes, dims, CPU variants, OpenHPU's version. Errors: as reading the file.
  StatusOr<std::string> key(const std::string& modelPath, const CompileOptions& options) const;
  /// The recipe of a key. One that is missing or does not load is simply not there.
  std::optional<Recipe> find(const std::string& key) const;
  /// Stores; creates the folder.
  Status store(const std::string& key, const Recipe& recipe) const;

 private:
  std::string path(const std::string& key) const { return directory_ + "/" + key + ".recipe"; }
  std::string directory_;
};

}  // namespace hpu::pipeline
