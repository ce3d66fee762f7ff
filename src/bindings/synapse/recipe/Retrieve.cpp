// SPDX-License-Identifier: Apache-2.0
// Entry points: what a recipe says of its tensors.
// The one thing to know: the questions (ids, names) stand in the caller's structures; TENSOR_INVALID_ID answers for
// a name that the recipe does not have, since compilation leaves out tensors that no node uses.
#include <algorithm>
#include <cstring>

#include "base/Format.h"
#include "bindings/synapse/api/EntryPoint.h"
#include "bindings/synapse/graph/Describe.h"
#include "bindings/synapse/recipe/RecipeObject.h"

namespace hpu::synapse {
namespace {

using base::strCat;

Result checkAmount(const RecipeObject& recipe, uint32_t amount, size_t have, const char* what) {
  if (amount <= have) return {};
  return badArgument(strCat("recipe '", recipe.name(), "' has ", have, " ", what, ", and ", amount, " are asked for"));
}

Result badId(const RecipeObject& recipe, uint64_t id) {
  return badArgument(strCat("recipe '", recipe.name(), "' has no tensor ", id, "; its ids are 0 to ",
                            static_cast<int64_t>(recipe.tensors().size()) - 1));
}

void fillInfo(const RecipeObject& recipe, uint64_t id, synRetrievedLaunchTensorInfoExt& out) {
  const LaunchTensor& launch = recipe.tensors()[id];
  const TensorDescription& tensor = recipe.description(launch);
  out = {};
  std::memcpy(out.tensorName, tensor.name.c_str(), std::min<size_t>(tensor.name.size(), sizeof(out.tensorName) - 1));
  out.tensorId = id;
  out.tensorType = static_cast<synTensorType>(tensor.type);
  out.tensorDataType = static_cast<synDataType>(tensor.dataType);
  out.tensorDims = static_cast<uint32_t>(tensor.maxSizes.size());
  std::copy(tensor.maxSizes.begin(), tensor.maxSizes.end(), out.tensorMaxSize);
  std::copy(tensor.minSizes.begin(), tensor.minSizes.end(), out.tensorMinSize);
  for (uint8_t i = 0; i < HABANA_DIM_MAX; ++i)
    out.tensorPermutation[i] = i < tensor.permutation.size() ? tensor.permutation[i] : i;
  out.tensorSectionId = launch.section == kNoSection ? INVALID_SECTION_ID : recipe.graph().sections[launch.section].id;
  out.tensorOffsetInSection = launch.offset;
  out.isInput = launch.isInput;
}

void fillMetadata(const RecipeObject& recipe, const LaunchTensor& launch, TensorMetadataInfoExt& out) {
  const TensorDescription& tensor = recipe.description(launch);
  const char* question = out.tensorName;
  out = {};
  out.tensorName = question;
  out.elementType = tensor.dataType;
  out.zp = tensor.zeroPoints.empty() ? 0 : tensor.zeroPoints[0];
  out.scale = tensor.scales.empty() ? 1 : tensor.scales[0];
  out.dimensions = static_cast<uint32_t>(tensor.maxSizes.size());
  std::copy(tensor.maxSizes.begin(), tensor.maxSizes.end(), out.dimensionsSize);
  out.roiSizeInBytes = maxBytes(tensor);
  out.batchSize =
      static_cast<uint16_t>(tensor.maxSizes.empty() ? 0 : std::min<uint64_t>(tensor.maxSizes.back(), UINT16_MAX));
  out.isInput = launch.isInput;
  out.sectionId = launch.section == kNoSection ? INVALID_SECTION_ID : recipe.graph().sections[launch.section].id;
  out.offsetInSection = launch.offset;
}

Result infosById(synRecipeHandle handle, uint32_t count, synRetrievedLaunchTensorInfoExt* infos) {
  SYN_FIND(recipe, recipes(), handle);
  if (!infos) return badArgument("the array of infos is null");
  for (uint32_t i = 0; i < count; ++i) {
    uint64_t id = infos[i].tensorId;
    if (id >= recipe->tensors().size()) return badId(*recipe, id);
    fillInfo(*recipe, id, infos[i]);
  }
  return {};
}

Result infosByName(synRecipeHandle handle, uint32_t count, TensorMetadataInfoExt* infos) {
  SYN_FIND(recipe, recipes(), handle);
  if (!infos) return badArgument("the array of infos is null");
  for (uint32_t i = 0; i < count; ++i) {
    if (!infos[i].tensorName) return badArgument(strCat("entry ", i, ": tensorName is null"));
    int place = recipe->find(infos[i].tensorName);
    if (place < 0)
      return badArgument(
          strCat("entry ", i, ": recipe '", recipe->name(), "' has no tensor '", infos[i].tensorName, "'"));
    fillMetadata(*recipe, recipe->tensors()[static_cast<size_t>(place)], infos[i]);
  }
  return {};
}

static_assert(sizeof(synRetrievedLaunchTensorInfo) == sizeof(synRetrievedLaunchTensorInfoExt));
static_assert(sizeof(TensorMetadataInfo) == sizeof(TensorMetadataInfoExt));

}  // namespace
}  // namespace hpu::synapse

using namespace hpu::synapse;
using hpu::base::strCat;

synStatus SYN_API_CALL synTensorRetrieveLaunchAmount(const synRecipeHandle pRecipeHandle, uint32_t* numOfTensors) {
  return guarded("synTensorRetrieveLaunchAmount", [&]() -> Result {
    SYN_FIND(recipe, recipes(), pRecipeHandle);
    SYN_REQUIRE(numOfTensors);
    *numOfTensors = static_cast<uint32_t>(recipe->tensors().size());
    return {};
  });
}

synStatus SYN_API_CALL synTensorRetrieveLaunchIds(const synRecipeHandle pRecipeHandle, uint64_t* tensorsIds,
                                                  const uint32_t numOfTensors) {
  return guarded("synTensorRetrieveLaunchIds", [&]() -> Result {
    SYN_FIND(recipe, recipes(), pRecipeHandle);
    SYN_REQUIRE(tensorsIds);
    SYN_RETURN_IF_ERROR(checkAmount(*recipe, numOfTensors, recipe->tensors().size(), "launch tensors"));
    for (uint32_t i = 0; i < numOfTensors; ++i) tensorsIds[i] = i;
    return {};
  });
}

synStatus SYN_API_CALL synTensorRetrieveLaunchInfoByIdExt(const synRecipeHandle pRecipeHandle,
                                                          const uint32_t numOfTensors,
                                                          synRetrievedLaunchTensorInfoExt* tensorsLaunchInfoExt) {
  return guarded("synTensorRetrieveLaunchInfoByIdExt",
                 [&]() -> Result { return infosById(pRecipeHandle, numOfTensors, tensorsLaunchInfoExt); });
}

synStatus SYN_API_CALL synTensorRetrieveLaunchInfoById(const synRecipeHandle pRecipeHandle, const uint32_t numOfTensors,
                                                       synRetrievedLaunchTensorInfo* tensorsLaunchInfo) {
  return guarded("synTensorRetrieveLaunchInfoById", [&]() -> Result {
    return infosById(pRecipeHandle, numOfTensors,
                     reinterpret_cast<synRetrievedLaunchTensorInfoExt*>(tensorsLaunchInfo));
  });
}

synStatus SYN_API_CALL synTensorRetrieveMultiLaunchInfosById(const synRecipeHandle pRecipeHandle,
                                                             const uint64_t tensorId,
                                                             synRetrievedLaunchTensorInfo* tensorLaunchInfo,
                                                             uint32_t* numLaunchInfos) {
  return guarded("synTensorRetrieveMultiLaunchInfosById", [&]() -> Result {
    SYN_FIND(recipe, recipes(), pRecipeHandle);
    SYN_REQUIRE(numLaunchInfos);
    if (tensorId >= recipe->tensors().size()) return badId(*recipe, tensorId);
    // An id is one tensor of one place here; SynapseAI may have several.
    if (tensorLaunchInfo && *numLaunchInfos < 1) return badArgument("there is no room for the info");
    if (tensorLaunchInfo)
      fillInfo(*recipe, tensorId, reinterpret_cast<synRetrievedLaunchTensorInfoExt&>(*tensorLaunchInfo));
    *numLaunchInfos = 1;
    return {};
  });
}

synStatus SYN_API_CALL synTensorRetrieveInfosByNameExt(const synRecipeHandle pRecipeHandle, const uint32_t numOfTensors,
                                                       TensorMetadataInfoExt* tensorsMetadataInfoExt) {
  return guarded("synTensorRetrieveInfosByNameExt",
                 [&]() -> Result { return infosByName(pRecipeHandle, numOfTensors, tensorsMetadataInfoExt); });
}

synStatus SYN_API_CALL synTensorRetrieveInfosByName(const synRecipeHandle pRecipeHandle, const uint32_t numOfTensors,
                                                    TensorMetadataInfo* tensorsMetadataInfo) {
  return guarded("synTensorRetrieveInfosByName", [&]() -> Result {
    return infosByName(pRecipeHandle, numOfTensors, reinterpret_cast<TensorMetadataInfoExt*>(tensorsMetadataInfo));
  });
}

synStatus SYN_API_CALL synTensorRetrievePersistentAmount(const synRecipeHandle pRecipeHandle, uint32_t* numOfTensors) {
  return guarded("synTensorRetrievePersistentAmount", [&]() -> Result {
    SYN_FIND(recipe, recipes(), pRecipeHandle);
    SYN_REQUIRE(numOfTensors);
    *numOfTensors = recipe->numPersistent();
    return {};
  });
}

synStatus SYN_API_CALL synTensorRetrieveNames(const synRecipeHandle pRecipeHandle,
                                              char (*tensorsName)[ENQUEUE_TENSOR_NAME_MAX_SIZE],
                                              const uint32_t numOfTensors) {
  return guarded("synTensorRetrieveNames", [&]() -> Result {
    SYN_FIND(recipe, recipes(), pRecipeHandle);
    SYN_REQUIRE(tensorsName);
    SYN_RETURN_IF_ERROR(checkAmount(*recipe, numOfTensors, recipe->numPersistent(), "persistent tensors"));
    for (uint32_t i = 0; i < numOfTensors; ++i) {
      const std::string& name = recipe->description(recipe->tensors()[i]).name;
      size_t length = std::min<size_t>(name.size(), ENQUEUE_TENSOR_NAME_MAX_SIZE - 1);
      std::memcpy(tensorsName[i], name.data(), length);
      tensorsName[i][length] = '\0';
    }
    return {};
  });
}

synStatus SYN_API_CALL synTensorRetrieveIds(const synRecipeHandle pRecipeHandle, const char** tensorNames,
                                            uint64_t* tensorIds, const uint32_t numOfTensors) {
  return guarded("synTensorRetrieveIds", [&]() -> Result {
    SYN_FIND(recipe, recipes(), pRecipeHandle);
    SYN_REQUIRE(tensorNames);
    SYN_REQUIRE(tensorIds);
    for (uint32_t i = 0; i < numOfTensors; ++i) {
      if (!tensorNames[i]) return badArgument(strCat("entry ", i, " of the names is null"));
      int place = recipe->find(tensorNames[i]);
      tensorIds[i] = place < 0 ? TENSOR_INVALID_ID : static_cast<uint64_t>(place);
    }
    return {};
  });
}
