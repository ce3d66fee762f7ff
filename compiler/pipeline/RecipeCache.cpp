// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline/RecipeCache.h"

#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <filesystem>

#include "base/File.h"
#include "base/Format.h"
#include "base/Hash.h"
#include "base/MappedFile.h"
#include "base/OptionNames.h"
#include "base/Parallel.h"
#include "base/StatusMacros.h"
#include "base/TrustedFile.h"
#include "compiler/import/ObjectFiles.h"
#include "compiler/import/OnnxOutline.h"
#include "compiler/pipeline/BuildId.h"
#include "recipe/Recipe.h"
#include "recipe/RecipeReader.h"
#include "recipe/Signature.h"

namespace hpu::pipeline {
namespace fs = std::filesystem;

namespace {

constexpr int64_t kChunkBytes = int64_t{4} << 20;

/// Of chunks' hashes, so that all cores read a large model.
base::Hash128 contentHash(const uint8_t* data, size_t bytes) {
  auto chunks = static_cast<int64_t>((bytes + kChunkBytes - 1) / kChunkBytes);
  std::vector<base::Hash128> hashes(chunks);
  base::parallelFor(chunks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      size_t from = static_cast<size_t>(i) * kChunkBytes;
      hashes[i] = base::hash128(data + from, std::min<size_t>(kChunkBytes, bytes - from));
    }
  });
  return base::hash128(hashes.data(), hashes.size() * sizeof(base::Hash128));
}

/// External data by name, size and time of change: a warm start does not read gigabytes.
void hashExternal(const std::string& modelPath, const base::MappedFile& model, base::Hasher& hasher) {
  fs::path folder = fs::path(modelPath).parent_path();
  for (const std::string& name : importer::outlineOnnx(model.data(), model.size()).externalFiles) {
    struct stat info = {};
    hasher.updateSized(name);
    if (::stat((folder / name).c_str(), &info) != 0) continue;
    int64_t facts[] = {static_cast<int64_t>(info.st_size), static_cast<int64_t>(info.st_mtim.tv_sec),
                       static_cast<int64_t>(info.st_mtim.tv_nsec), static_cast<int64_t>(info.st_ino)};
    hasher.update(facts, sizeof facts);
  }
}

}  // namespace

std::string optionsText(const CompileOptions& options) {
  std::string text = base::strCat(targetName(options.target), "|", static_cast<int>(options.precision), "|",
                                  options.optLevel, "|", cpuText(options.cpu));
  // Lists and names say how long they are: no name reads as another list.
  auto list = [&](const char* kind, size_t size) { text += base::strCat("|", kind, " ", size); };
  auto named = [&](const std::string& name) { text += base::strCat("|", name.size(), ":", name); };
  list("f32", options.keepF32.size());
  for (const std::string& name : options.keepF32) named(name);
  list("ranges", options.ranges.size());
  for (const auto& [name, range] : options.ranges) {
    named(name);
    text += base::strCat("=", std::bit_cast<uint64_t>(range));
  }
  list("shapes", options.shapes.size());
  for (const auto& [name, shape] : options.shapes) {
    named(name);
    text += "=" + shapeToString(shape);
  }
  list("dims", options.dims.size());
  for (const auto& [name, size] : options.dims) {
    named(name);
    text += base::strCat("=", size);
  }
  if (!options.dimBounds.empty()) list("bounds", options.dimBounds.size());
  for (const auto& [name, bounds] : options.dimBounds) {
    named(name);
    text += base::strCat("=", bounds.min, ":", bounds.max);
  }
  if (!options.states.empty()) list("states", options.states.size());
  for (const auto& [output, input] : options.states) {
    named(output);
    named(input);
  }
  if (!options.specialize.empty()) list("variants", options.specialize.size());
  for (const auto& sizes : options.specialize) {
    list("sizes", sizes.size());
    for (const auto& [name, size] : sizes) {
      named(name);
      text += base::strCat("=", size);
    }
  }
  if (options.searchEffort != CompileOptions().searchEffort) text += base::strCat("|effort ", options.searchEffort);
  if (options.unrollLimit != CompileOptions().unrollLimit) text += base::strCat("|unroll ", options.unrollLimit);
  return text;
}

StatusOr<std::string> RecipeCache::key(const std::string& modelPath, const CompileOptions& options) const {
  HPU_ASSIGN(auto file, base::MappedFile::open(modelPath));
  base::Hasher hasher;
  base::Hash128 content = contentHash(file->data(), file->size());
  hasher.update(&content, sizeof content);
  hashExternal(modelPath, *file, hasher);
  hasher.updateSized(buildId());
  hasher.updateSized(optionsText(options));
  for (const std::string& plugin : options.plugins) {
    HPU_ASSIGN(auto ops, base::MappedFile::open(plugin));
    base::Hash128 own = contentHash(ops->data(), ops->size());
    hasher.update(&own, sizeof own);
    const std::string_view bytes(reinterpret_cast<const char*>(ops->data()), ops->size());
    for (const std::string& name : importer::objectNames(bytes)) {
      auto object = base::MappedFile::open((fs::path(plugin).parent_path() / name).string());
      if (!object.ok()) continue;  // If it is needed, the compilation says so.
      own = contentHash((*object)->data(), (*object)->size());
      hasher.update(&own, sizeof own);
    }
  }
  // The program is named after the file.
  hasher.updateSized(fs::path(modelPath).filename().string());
  return hasher.digest128().hex();
}

StatusOr<Recipe> RecipeCache::find(const std::string& key) const {
  const Status none = notFound("no recipe of this key is in the cache");
  if (directory_.empty()) return none;
  // A recipe is code that will run here: it must be one that this user has stored, and the file that is judged is the
  // one that is read.
  StatusOr<base::TrustedFile> file = base::TrustedFile::open(path(key));
  if (file.status().code() == StatusCode::kNotFound) return none;
  if (!file.ok()) return file.status();
  HPU_ASSIGN(auto bytes, file->read());
  HPU_ASSIGN(auto program, recipe::readRecipe(bytes->data(), bytes->size(), bytes, path(key)));
  HPU_RETURN_IF_ERROR(recipe::checkSigner(*program, path(key)));
  file->markUsed();
  return Recipe(std::move(program));
}

Status RecipeCache::store(const std::string& key, const Recipe& recipe) const {
  if (directory_.empty()) return okStatus();
  if (limitBytes_ > 0 && recipe.constantBytes() > limitBytes_)
    return resourceExhausted(base::strCat("the recipe's ", base::formatBytes(recipe.constantBytes()),
                                          " of weights are more than the recipe cache may hold (",
                                          base::formatBytes(limitBytes_), "); raise HPU_CACHE_BYTES"));
  std::error_code error;
  const bool made = fs::create_directories(directory_, error);
  // Whatever the umask is, what is kept here will be run.
  if (made) fs::permissions(directory_, fs::perms::owner_all, error);
  if (error)
    return {StatusCode::kPermissionDenied, "cannot create the recipe cache '" + directory_ + "': " + error.message() +
                                               "; choose another " + base::optionName("cacheDir")};
  if (Status saved = recipe.save(path(key)); !saved.ok())
    return Status(saved.code(), base::strCat("the recipe is not kept in the cache: ", saved.message(),
                                             "; choose another ", base::optionName("cacheDir")));
  fs::permissions(path(key), fs::perms::owner_read | fs::perms::owner_write, error);
  // Another process may have evicted it by now.
  if (Status trusted = base::checkTrusted(path(key)); !trusted.ok() && trusted.code() != StatusCode::kNotFound)
    return trusted.withContext("the recipe cache cannot be used");
  if (limitBytes_ > 0) evict(path(key));
  return okStatus();
}

/// Another process may evict at the same time: a file that is gone already is not counted. A process that has mapped a
/// recipe keeps it.
void RecipeCache::evict(const std::string& keep) const {
  struct Entry {
    fs::file_time_type used;
    int64_t bytes = 0;
    fs::path path;
  };
  std::vector<Entry> entries;
  int64_t total = 0;
  std::error_code error;
  for (fs::directory_iterator it(directory_, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() != ".recipe") continue;
    std::error_code gone;
    Entry entry{it->last_write_time(gone), static_cast<int64_t>(it->file_size(gone)), it->path()};
    if (gone) continue;
    total += entry.bytes;
    entries.push_back(std::move(entry));
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.used < b.used; });
  for (const Entry& entry : entries) {
    if (total <= limitBytes_) return;
    if (entry.path == fs::path(keep)) continue;
    std::error_code ignored;
    fs::remove(entry.path, ignored);
    total -= entry.bytes;
  }
}

}  // namespace hpu::pipeline
