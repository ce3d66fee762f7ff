// SPDX-License-Identifier: Apache-2.0
// Entry points: launches, and events of external tensors.
#include <algorithm>

#include "base/Format.h"
#include "bindings/synapse/api/EntryPoint.h"
#include "bindings/synapse/recipe/Launch.h"

namespace hpu::synapse {
namespace {

using base::strCat;

Result launchByHandles(synStreamHandle streamHandle, synRecipeHandle recipeHandle, const LaunchRequest& request) {
  SYN_FIND(stream, streams(), streamHandle);
  SYN_FIND(recipe, recipes(), recipeHandle);
  // Executables hold their device; they are let go when it is released.
  static const bool hooked = [] {
    Library::get().addReleaseHook([](const DeviceObject& device) { Program::forget(device.device()); });
    return true;
  }();
  (void)hooked;
  Result result = launch(*stream, *recipe, request);
  // Another thread has released the device meanwhile.
  if (!Library::get().owns(stream->device)) Program::forget(stream->device->device());
  return result;
}

Result mapEvents(synEventHandle* handles, uint64_t count, const synLaunchTensorInfoExt* infos,
                 synRecipeHandle recipeHandle) {
  SYN_FIND(recipe, recipes(), recipeHandle);
  if (!handles) return badArgument("the list of events is null");
  if (!infos) return badArgument("the list of tensors is null");
  if (!count) return badArgument("there is nothing to map: the number of events is 0");
  // All or none: what the lists say is checked first.
  for (int pass = 0; pass < 2; ++pass)
    for (uint64_t i = 0; i < count; ++i) {
      SYN_FIND(event, events(), handles[i]);
      int place = placeOf(*recipe, infos[i]);
      if (place < 0)
        return badArgument(
            strCat("entry ", i, ": recipe '", recipe->name(), "' has no such tensor (id ", infos[i].tensorId, ")"));
      const auto& externals = recipe->externals();
      if (std::find(externals.begin(), externals.end(), static_cast<uint32_t>(place)) == externals.end())
        return badArgument(strCat("entry ", i, ": tensor '",
                                  recipe->description(recipe->tensors()[static_cast<size_t>(place)]).name,
                                  "' is not external; call synTensorSetExternal before compilation"));
      if (pass == 0) continue;
      std::lock_guard lock(event->mutex);
      event->mappedRecipe = recipe->id();
      event->mappedTensor = static_cast<uint64_t>(place);
    }
  return {};
}

static_assert(sizeof(synLaunchTensorInfo) == sizeof(synLaunchTensorInfoExt));

const synLaunchTensorInfoExt* asExt(const synLaunchTensorInfo* infos) {
  return reinterpret_cast<const synLaunchTensorInfoExt*>(infos);
}

}  // namespace
}  // namespace hpu::synapse

using namespace hpu::synapse;

synStatus SYN_API_CALL synLaunch(const synStreamHandle streamHandle, const synLaunchTensorInfo* launchTensorsInfo,
                                 const uint32_t numberOfTensors, uint64_t pWorkspace,
                                 const synRecipeHandle pRecipeHandle, uint32_t flags) {
  return guarded("synLaunch", [&]() -> Result {
    return launchByHandles(streamHandle, pRecipeHandle,
                           {asExt(launchTensorsInfo), numberOfTensors, pWorkspace, nullptr, 0, flags});
  });
}

synStatus SYN_API_CALL synLaunchExt(const synStreamHandle streamHandle,
                                    const synLaunchTensorInfoExt* launchTensorsInfoExt, const uint32_t numberOfTensors,
                                    uint64_t pWorkspace, const synRecipeHandle pRecipeHandle, uint32_t flags) {
  return guarded("synLaunchExt", [&]() -> Result {
    return launchByHandles(streamHandle, pRecipeHandle,
                           {launchTensorsInfoExt, numberOfTensors, pWorkspace, nullptr, 0, flags});
  });
}

synStatus SYN_API_CALL synLaunchWithExternalEvents(const synStreamHandle streamHandle,
                                                   const synLaunchTensorInfo* launchTensorsInfoExt,
                                                   const uint32_t numberOfTensors, uint64_t pWorkspace,
                                                   const synRecipeHandle pRecipeHandle, synEventHandle* eventHandleList,
                                                   const uint32_t numberOfEvents, uint32_t flags) {
  return guarded("synLaunchWithExternalEvents", [&]() -> Result {
    return launchByHandles(
        streamHandle, pRecipeHandle,
        {asExt(launchTensorsInfoExt), numberOfTensors, pWorkspace, eventHandleList, numberOfEvents, flags});
  });
}

synStatus SYN_API_CALL synLaunchWithExternalEventsExt(const synStreamHandle streamHandle,
                                                      const synLaunchTensorInfoExt* launchTensorsInfoExt,
                                                      const uint32_t numberOfTensors, uint64_t pWorkspace,
                                                      const synRecipeHandle pRecipeHandle,
                                                      synEventHandle* eventHandleList, const uint32_t numberOfEvents,
                                                      uint32_t flags) {
  return guarded("synLaunchWithExternalEventsExt", [&]() -> Result {
    return launchByHandles(streamHandle, pRecipeHandle,
                           {launchTensorsInfoExt, numberOfTensors, pWorkspace, eventHandleList, numberOfEvents, flags});
  });
}

synStatus SYN_API_CALL synEventMapTensor(synEventHandle* eventHandles, uint64_t numOfEvents,
                                         const synLaunchTensorInfo* launchTensorsInfo,
                                         const synRecipeHandle recipeHandle) {
  return guarded("synEventMapTensor", [&]() -> Result {
    return mapEvents(eventHandles, numOfEvents, asExt(launchTensorsInfo), recipeHandle);
  });
}

synStatus SYN_API_CALL synEventMapTensorExt(synEventHandle* eventHandles, uint64_t numOfEvents,
                                            const synLaunchTensorInfoExt* launchTensorsInfoExt,
                                            const synRecipeHandle recipeHandle) {
  return guarded("synEventMapTensorExt",
                 [&]() -> Result { return mapEvents(eventHandles, numOfEvents, launchTensorsInfoExt, recipeHandle); });
}

synStatus SYN_API_CALL synTensorExtExtractExecutionOrder(const synRecipeHandle recipeHandle,
                                                         uint32_t numOfExternalTensors, uint64_t* tensorIds) {
  return guarded("synTensorExtExtractExecutionOrder", [&]() -> Result {
    SYN_FIND(recipe, recipes(), recipeHandle);
    if (numOfExternalTensors) SYN_REQUIRE(tensorIds);
    const auto& externals = recipe->externals();
    if (numOfExternalTensors > externals.size())
      return badArgument(strCat("recipe '", recipe->name(), "' has ", externals.size(), " external tensors, and ",
                                numOfExternalTensors, " are asked for"));
    std::copy_n(externals.begin(), numOfExternalTensors, tensorIds);
    return {};
  });
}
