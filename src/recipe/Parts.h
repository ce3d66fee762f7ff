// SPDX-License-Identifier: Apache-2.0
// Programs of parts (Recipe.h): where the memory of a part is in an iteration, and what of a part is the holder's.
// The one thing to know: the program of a part is an ordinary one with sections of its own, which lie in the holder's
// at places that follow from the iteration; what runs it adds the places to the addresses of the holder's sections.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "recipe/Recipe.h"

namespace hpu::recipe {

/// A place in one iteration.
struct PartAddress {
  uint32_t section = kNone;  ///< Of the holder; kNone: nowhere.
  uint64_t offset = 0;
};

/// Where `place`, of part `part`, is in an iteration. `ran[p]`: how many iterations part p, which is before it, has
/// run. The holder must be verified.
PartAddress addressOf(const PartPlace& place, uint32_t part, uint64_t iteration, std::span<const uint64_t> ran);

/// Data decides how many iterations it runs.
bool isDecided(const Part& part);
/// ... and no bound of them is known.
bool isUnbounded(const Part& part);
/// ... or of some part of the program, or of its parts.
bool hasDecided(const Program& program);

/// The iterations of one launch when every part that data decides runs once, those of parts of parts included; at most
/// UINT64_MAX.
uint64_t sureIterations(const Program& program);

/// Program::constants of the part's program: what the holder's constants have at the places of its sections. Places
/// that are not in the holder have none.
std::vector<ConstantBlob> partConstants(const Program& holder, const Part& part);

/// By output of the holder: the last of its parts that may write it; kNone: none does.
std::vector<uint32_t> lastWritingParts(const Program& holder);

}  // namespace hpu::recipe
