// SPDX-License-Identifier: Apache-2.0
// hpu::Recipe, the public handle of a Program.
#include <cstring>
#include <new>

#include "base/StatusMacros.h"
#include "hpu/recipe.h"
#include "recipe/Recipe.h"
#include "recipe/RecipeReader.h"
#include "recipe/RecipeWriter.h"
#include "recipe/Signature.h"

namespace hpu {

namespace {

/// What an empty handle answers with.
const recipe::Program& emptyProgram() {
  static const recipe::Program program;
  return program;
}
const recipe::Program& programOf(const Recipe& recipe) {
  return recipe.valid() ? *recipe.program() : emptyProgram();
}

int64_t bytesOf(const Recipe& recipe, recipe::SectionKind kind) {
  uint64_t bytes = 0;
  for (const recipe::Section& section : programOf(recipe).sections) {
    if (section.kind == kind) bytes += section.bytes;
  }
  return static_cast<int64_t>(bytes);
}

Status emptyHandle() {
  return failedPrecondition("the recipe is empty; load or compile one first");
}

}  // namespace

Recipe::Recipe() = default;
Recipe::Recipe(std::shared_ptr<const recipe::Program> program) : program_(std::move(program)) {}
Recipe::~Recipe() = default;

StatusOr<Recipe> Recipe::load(const std::string& path) {
  HPU_ASSIGN(auto program, recipe::readRecipeFile(path));
  HPU_RETURN_IF_ERROR(recipe::checkSigner(*program, path));
  return Recipe(std::move(program));
}

StatusOr<Recipe> Recipe::deserialize(const void* bytes, size_t size) {
  HPU_ASSIGN(Recipe recipe, deserializeOwn(bytes, size));
  HPU_RETURN_IF_ERROR(recipe::checkSigner(*recipe.program(), "in memory"));
  return recipe;
}

StatusOr<Recipe> Recipe::signedWith(const std::string& secretKeyPath) const {
  if (!valid()) return emptyHandle();
  auto copy = std::make_shared<recipe::Program>(*program_);
  HPU_RETURN_IF_ERROR(recipe::signProgram(*copy, secretKeyPath));
  return Recipe(std::move(copy));
}

std::string Recipe::signer() const {
  return recipe::signerOf(programOf(*this));
}

Status Recipe::makeSigningKey(const std::string& path) {
  return recipe::makeSigningKey(path);
}

StatusOr<Recipe> Recipe::deserializeOwn(const void* bytes, size_t size) {
  if (!bytes && size) return invalidArgument("Recipe::deserialize: the bytes are null");
  std::shared_ptr<uint8_t[]> copy(new (std::align_val_t{4096}, std::nothrow) uint8_t[size + 1],
                                  [](uint8_t* p) { operator delete[](p, std::align_val_t{4096}); });
  if (!copy) {
    return resourceExhausted("out of host memory for a recipe of " + std::to_string(size) + " bytes");
  }
  if (size) std::memcpy(copy.get(), bytes, size);
  HPU_ASSIGN(auto program, recipe::readRecipe(copy.get(), size, copy, "in memory"));
  return Recipe(std::move(program));
}

Status Recipe::save(const std::string& path) const {
  return valid() ? recipe::writeRecipeFile(*program_, path) : emptyHandle();
}

StatusOr<std::vector<uint8_t>> Recipe::serialize() const {
  if (!valid()) return emptyHandle();
  return recipe::writeRecipe(*program_);
}

Target Recipe::target() const {
  return programOf(*this).target;
}
const std::string& Recipe::name() const {
  return programOf(*this).name;
}
const std::vector<TensorInfo>& Recipe::inputs() const {
  return programOf(*this).inputs;
}
const std::vector<TensorInfo>& Recipe::outputs() const {
  return programOf(*this).outputs;
}
int64_t Recipe::workspaceBytes() const {
  return bytesOf(*this, recipe::SectionKind::kWorkspace);
}
int64_t Recipe::constantBytes() const {
  return bytesOf(*this, recipe::SectionKind::kConst);
}
double Recipe::estimatedDeviceTimeUs() const {
  return programOf(*this).estimates.deviceTimeUs;
}

}  // namespace hpu
