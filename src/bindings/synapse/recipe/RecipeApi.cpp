// SPDX-License-Identifier: Apache-2.0
// Entry points: recipes, their files, attributes and sections.
#include <algorithm>

#include "base/File.h"
#include "base/FileBytes.h"
#include "base/Format.h"
#include "base/StatusMacros.h"
#include "bindings/synapse/api/EntryPoint.h"
#include "bindings/synapse/graph/Describe.h"
#include "bindings/synapse/recipe/Container.h"
#include "bindings/synapse/recipe/RecipeObject.h"

namespace hpu::synapse {
namespace {

using base::strCat;

uint64_t persistentBytes(const RecipeObject& recipe) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < recipe.numPersistent(); ++i) bytes += maxBytes(recipe.description(recipe.tensors()[i]));
  return bytes;
}

uint64_t constBytes(const RecipeObject& recipe) {
  uint64_t bytes = 0;
  recipe.withConstSections([&](const std::vector<ConstSection>& entries) {
    for (const ConstSection& entry : entries) bytes += entry.bytes;
  });
  return bytes;
}

Result attributeOf(const RecipeObject& recipe, synRecipeAttribute attribute, uint64_t& value) {
  const Recipe& program = recipe.program()->recipe();
  switch (attribute) {
    case RECIPE_ATTRIBUTE_WORKSPACE_SIZE:
      value = recipe.workspaceBytes();
      return {};
    case RECIPE_ATTRIBUTE_NUM_PERSISTENT_TENSORS:
      value = recipe.numPersistent();
      return {};
    case RECIPE_ATTRIBUTE_HOST_MEM_SIZE:
      value = recipe.program()->recipeBytes() + constBytes(recipe);
      return {};
    case RECIPE_ATTRIBUTE_NUM_EXTERNAL_TENSORS:
      value = recipe.externals().size();
      return {};
    case RECIPE_ATTRIBUTE_PERSISTENT_TENSORS_SIZE:
      value = persistentBytes(recipe);
      return {};
    case RECIPE_ATTRIBUTE_CONST_SECTIONS_SIZE:
      value = 0;
      for (uint32_t section = 0; section < recipe.graph().sections.size(); ++section)
        if (recipe.graph().sections[section].isConst) value += recipe.sectionBytes(section);
      return {};
    case RECIPE_ATTRIBUTE_DEVICE_MEMORY_SIZE:
      value = static_cast<uint64_t>(program.constantBytes());
      return {};
    case RECIPE_ATTRIBUTE_MAX:
      break;
  }
  return badArgument(strCat(static_cast<int>(attribute), " is no synRecipeAttribute"));
}

Result sectionProperty(const RecipeObject& recipe, synSectionId id, synSectionProp property, uint64_t& value) {
  int index = recipe.findSection(id);
  if (index < 0) return badArgument(strCat("recipe '", recipe.name(), "' has no section ", id));
  auto section = static_cast<uint32_t>(index);
  switch (property) {
    case SECTION_SIZE:
      value = recipe.sectionBytes(section);
      return {};
    case IS_CONST:
      value = recipe.graph().sections[section].isConst;
      return {};
    case SECTION_DATA: {
      value = INVALID_CONST_SECTION_DATA;
      bool found = recipe.withConstSection(section, [&](ConstSection& entry) {
        if (!entry.cleared) value = reinterpret_cast<uintptr_t>(entry.data.data());
      });
      if (!found)
        return badArgument(
            strCat("section ", id, " has no host data: it is not constant, or no tensor of it was given a value"));
      return {};
    }
  }
  return badArgument(strCat(static_cast<int>(property), " is no synSectionProp"));
}

}  // namespace
}  // namespace hpu::synapse

using namespace hpu::synapse;
using hpu::base::strCat;

synStatus SYN_API_CALL synRecipeDestroy(synRecipeHandle recipeHandle) {
  return guarded("synRecipeDestroy", [&]() -> Result {
    return recipes().remove(recipeHandle) ? Result() : recipes().missing(recipeHandle);
  });
}

synStatus SYN_API_CALL synRecipeSerialize(const synRecipeHandle recipeHandle, const char* recipeFileName) {
  return guarded("synRecipeSerialize", [&]() -> Result {
    SYN_FIND(recipe, recipes(), recipeHandle);
    SYN_REQUIRE(recipeFileName);
    HPU_ASSIGN(std::vector<uint8_t> file, encodeRecipe(*recipe));
    hpu::Status written = hpu::base::writeFileAtomic(recipeFileName, file.data(), file.size());
    // A full disk is no matter of the device's memory.
    if (written.code() == hpu::StatusCode::kResourceExhausted) return {synOutOfResources, written.message()};
    return written;
  });
}

synStatus SYN_API_CALL synRecipeDeSerialize(synRecipeHandle* pRecipeHandle, const char* recipeFileName) {
  return guardedCreate("synRecipeDeSerialize", pRecipeHandle, [&]() -> Result {
    SYN_REQUIRE(pRecipeHandle);
    SYN_REQUIRE(recipeFileName);
    // It refuses what has no size: a device or a pipe would be read for ever.
    HPU_ASSIGN(std::shared_ptr<const hpu::base::FileBytes> file, hpu::base::FileBytes::read(recipeFileName));
    HPU_ASSIGN(std::shared_ptr<RecipeObject> recipe, decodeRecipe(file->data(), file->size(), recipeFileName));
    *pRecipeHandle = recipes().insert(std::move(recipe));
    return {};
  });
}

synStatus SYN_API_CALL synRecipeGetAttribute(uint64_t* retVal, const synRecipeAttribute* recipeAttr,
                                             const unsigned querySize, const synRecipeHandle recipeHandle) {
  return guarded("synRecipeGetAttribute", [&]() -> Result {
    SYN_FIND(recipe, recipes(), recipeHandle);
    SYN_REQUIRE(retVal);
    SYN_REQUIRE(recipeAttr);
    for (unsigned i = 0; i < querySize; ++i) SYN_RETURN_IF_ERROR(attributeOf(*recipe, recipeAttr[i], retVal[i]));
    return {};
  });
}

synStatus SYN_API_CALL synWorkspaceGetSize(uint64_t* pWorkspaceSize, const synRecipeHandle recipeHandle) {
  return guarded("synWorkspaceGetSize", [&]() -> Result {
    SYN_REQUIRE(pWorkspaceSize);
    SYN_FIND(recipe, recipes(), recipeHandle);
    *pWorkspaceSize = recipe->workspaceBytes();
    return {};
  });
}

synStatus SYN_API_CALL synRecipeSectionGetProp(const synRecipeHandle pRecipeHandle, const synSectionId sectionId,
                                               const synSectionProp prop, uint64_t* propertyPtr) {
  return guarded("synRecipeSectionGetProp", [&]() -> Result {
    SYN_FIND(recipe, recipes(), pRecipeHandle);
    SYN_REQUIRE(propertyPtr);
    return sectionProperty(*recipe, sectionId, prop, *propertyPtr);
  });
}

synStatus SYN_API_CALL synRecipeSectionHostBuffersClear(synRecipeHandle recipeHandle, const synSectionId* sectionIds,
                                                        uint64_t numOfSections) {
  return guarded("synRecipeSectionHostBuffersClear", [&]() -> Result {
    SYN_FIND(recipe, recipes(), recipeHandle);
    if (numOfSections) SYN_REQUIRE(sectionIds);
    // All or none: the ids are checked first.
    for (int pass = 0; pass < 2; ++pass)
      for (uint64_t i = 0; i < numOfSections; ++i) {
        int index = recipe->findSection(sectionIds[i]);
        bool found = index >= 0 && recipe->withConstSection(static_cast<uint32_t>(index), [&](ConstSection& entry) {
          if (pass == 0) return;
          entry.cleared = true;
          entry.data = HostBytes();
        });
        if (!found) return badArgument(strCat("entry ", i, ": the recipe has no const section ", sectionIds[i]));
      }
    return {};
  });
}
