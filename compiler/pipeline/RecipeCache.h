// SPDX-License-Identifier: Apache-2.0
// Recipes on disk, keyed by the content of the model and everything that decides what it compiles to.
// The one thing to know: a cache can only make things faster. What cannot be read, or does not verify, counts as not
// there; what cannot be written is a warning.
#pragma once

#include <string>

#include "hpu/compiler.h"

namespace hpu::pipeline {

/// A folder of recipes; several processes and threads may share it (files appear whole or not at all).
class RecipeCache {
 public:
  /// `directory` empty: a cache that holds nothing. `limitBytes` 0: no limit.
  explicit RecipeCache(std::string directory, int64_t limitBytes = 0)
      : directory_(std::move(directory)), limitBytes_(limitBytes) {}

  /// The key of a model file compiled with `options`: the model's bytes, its external data files (by name, size and
  /// time of change), every option that shapes the recipe, and this very build of the compiler. Errors: as reading the
  /// file.
  StatusOr<std::string> key(const std::string& modelPath, const CompileOptions& options) const;
  /// The recipe of a key, and marks it as used now. kNotFound when there is none; kDataLoss when there is one that is
  /// damaged (it stays until store replaces it); kPermissionDenied when another user could have written it.
  StatusOr<Recipe> find(const std::string& key) const;
  /// Stores; creates the folder; then evicts what was not used for longest until the folder is within the limit. A
  /// recipe larger than the limit is kResourceExhausted and not stored.
  Status store(const std::string& key, const Recipe& recipe) const;

  std::string path(const std::string& key) const { return directory_ + "/" + key + ".recipe"; }

 private:
  void evict(const std::string& keep) const;

  std::string directory_;
  int64_t limitBytes_;
};

/// Everything in the options that decides what a model compiles to, as one text. An option that is added to
/// CompileOptions and does so has to be added here.
std::string optionsText(const CompileOptions& options);

}  // namespace hpu::pipeline
