// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline/RecipeCache.h"

#include <algorithm>
#include <filesystem>

#include "base/Hash.h"
#include "base/MappedFile.h"
#include "base/StatusMacros.h"
#include "hpu/version.h"

namespace hpu::pipeline {
namespace fs = std::filesystem;

namespace {

/// External data lies beside the model. Its names are inside the protobuf; any file there whose name occurs in the
/// model counts, by size and time of change, so that a warm start does not read gigabytes.
void hashSiblings(const std::string& modelPath, std::string_view model, base::Hasher& hasher) {
  std::error_code error;
  if (model.find("location") == std::string_view::npos) return;
  std::vector<std::string> lines;
  fs::path parent = fs::path(modelPath).parent_path();
  for (fs::recursive_directory_iterator it(parent.empty() ? "." : parent, error), end; !error && it != end;
       it.increment(error)) {
    if (!it->is_regular_file(error)) continue;
    std::string name = it->path().filename().string();
    if (model.find(name) == std::string_view::npos) continue;
    auto time = it->last_write_time(error).time_since_epoch().count();
    lines.push_back(it->path().string() + " " + std::to_string(it->file_size(error)) + " " + std::to_string(time));
    if (lines.size() > 10000) break;
  }
  std::sort(lines.begin(), lines.end());
  for (const std::string& line : lines) hasher.updateSized(line);
}

}  // namespace

StatusOr<std::string> RecipeCache::key(const std::string& modelPath, const CompileOptions& options) const {
  HPU_ASSIGN(auto file, base::MappedFile::open(modelPath));
  std::string_view model(reinterpret_cast<const char*>(file->data()), file->size());
  base::Hasher hasher;
  hasher.updateSized(model);
  hashSiblings(modelPath, model, hasher);
  std::string text = std::string(HPU_VERSION_STRING) + "|" + std::string(targetName(options.target)) + "|" +
                     std::to_string(static_cast<int>(options.precision)) + "|" + std::to_string(options.optLevel) + "|" +
                     options.cpu;
  for (const auto& [name, shape] : options.shapes) text += "|" + name + "=" + shapeToString(shape);
  for (const auto& [name, size] : options.dims) text += "|" + name + ":" + std::to_string(size);
  hasher.updateSized(text);
  return hasher.digest128().hex();
}

std::optional<Recipe> RecipeCache::find(const std::string& key) const {
  std::error_code error;
  if (directory_.empty() || !fs::exists(path(key), error)) return std::nullopt;
  StatusOr<Recipe> recipe = Recipe::load(path(key));
  if (!recipe.ok()) return std::nullopt;
  return *recipe;
}

Status RecipeCache::store(const std::string& key, const Recipe& recipe) const {
  if (directory_.empty()) return okStatus();
  std::error_code error;
  fs::create_directories(directory_, error);
  if (error)
    return {StatusCode::kPermissionDenied,
            "cannot create the recipe cache '" + directory_ + "': " + error.message() + "; choose another --cache"};
  return recipe.save(path(key));
}

}  // namespace hpu::pipeline
