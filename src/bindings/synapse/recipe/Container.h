// SPDX-License-Identifier: Apache-2.0
// A recipe's file: a header, the description and tables as metadata, and blobs (the program, const sections,
// values of tensors).
// The one thing to know: nothing in a file is trusted but the code inside its program; every checksum, count, index
// and size is checked before use.
//
// Layout, little-endian: header of 64 bytes (magic, version, sizes, checksums), metadata, blobs at multiples of 64.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bindings/synapse/recipe/RecipeObject.h"
#include "hpu/status.h"

namespace hpu::synapse {

inline constexpr uint8_t kSynapseRecipeMagic[8] = {0x89, 'S', 'Y', 'N', '\r', '\n', 0x1a, '\n'};
inline constexpr uint16_t kSynapseRecipeMajor = 1;
inline constexpr uint16_t kSynapseRecipeMinor = 2;  ///< 1: const sections without what lies between their tensors.
                                                    ///< 2: free dimensions, where the program has some.
inline constexpr uint64_t kSynapseHeaderBytes = 64;

/// Errors: kFailedPrecondition when the data of a const section was cleared.
StatusOr<std::vector<uint8_t>> encodeRecipe(const RecipeObject& recipe);
/// Errors: kDataLoss, kFailedPrecondition (another version); `where` names the source.
StatusOr<std::shared_ptr<RecipeObject>> decodeRecipe(const uint8_t* data, uint64_t size, const std::string& where);

/// Whether counts, indices, ranks and names fit together, as everything that uses a description relies on.
Status checkDescription(const GraphDescription& graph);
/// Recomputes the checksums of a file whose header is in bounds; for tests that change bytes behind their back.
void resealSynapseRecipe(std::vector<uint8_t>& file);

}  // namespace hpu::synapse
