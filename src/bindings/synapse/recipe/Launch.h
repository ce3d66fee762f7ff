// SPDX-License-Identifier: Apache-2.0
// A launch: the caller's list of tensors becomes the addresses of a program's inputs and outputs.
// The one thing to know: the list is read before the call returns, and a launch that repeats the one before finds
// each tensor where it was then; nothing is searched twice.
#pragma once

#include <cstdint>

#include "bindings/synapse/api/Library.h"
#include "bindings/synapse/recipe/RecipeObject.h"

namespace hpu::synapse {

struct LaunchRequest {
  const synLaunchTensorInfoExt* infos = nullptr;
  uint32_t count = 0;
  uint64_t workspace = 0;
  const synEventHandle* events = nullptr;
  uint32_t numEvents = 0;
  uint32_t flags = 0;
};

/// Errors: synFailedSectionValidation (missing tensors, tensors of one section at addresses that do not fit),
/// synFailedDynamicPatching (actual sizes), synMappingNotFound, synInvalidEventHandle, each naming the tensor.
Result launch(StreamObject& stream, RecipeObject& recipe, const LaunchRequest& request);

/// The place of the tensor that an info names in recipe.tensors(), by name where it has one that is known; -1: none.
int placeOf(const RecipeObject& recipe, const synLaunchTensorInfoExt& info);

}  // namespace hpu::synapse
