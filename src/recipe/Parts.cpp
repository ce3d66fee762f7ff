// SPDX-License-Identifier: Apache-2.0
#include "recipe/Parts.h"

#include <algorithm>

namespace hpu::recipe {

PartAddress addressOf(const PartPlace& place, uint32_t part, uint64_t iteration, std::span<const uint64_t> ran) {
  const bool isOdd = place.turns != kNone && ((place.turns == part ? iteration : ran[place.turns]) & 1) != 0;
  // Unsigned, so that steps backwards wrap around to what they mean.
  const uint64_t moved = static_cast<uint64_t>(place.step) * iteration;
  if (isOdd) return {place.oddSection, place.oddOffset + moved};
  return {place.section, place.offset + moved};
}

bool isDecided(const Part& part) {
  return part.count.section != kNone || part.condition.section != kNone;
}

bool isUnbounded(const Part& part) {
  return isDecided(part) && part.trips == kMaxPartTrips;
}

bool hasDecided(const Program& program) {
  return std::any_of(program.parts.begin(), program.parts.end(),
                     [](const Part& part) { return isDecided(part) || hasDecided(*part.program); });
}

uint64_t sureIterations(const Program& program) {
  uint64_t total = 0;
  for (const Part& part : program.parts) {
    uint64_t own = 1, all = 0;
    if (__builtin_add_overflow(own, sureIterations(*part.program), &own) ||
        __builtin_mul_overflow(own, isDecided(part) ? 1 : part.trips, &all) ||
        __builtin_add_overflow(total, all, &total))
      return UINT64_MAX;
  }
  return total;
}

std::vector<ConstantBlob> partConstants(const Program& holder, const Part& part) {
  std::vector<ConstantBlob> constants;
  const std::vector<Section>& own = part.program->sections;
  for (uint32_t s = 0; s < own.size() && s < part.sections.size(); ++s) {
    const PartPlace& place = part.sections[s];
    if (own[s].kind != SectionKind::kConst || place.section >= holder.sections.size()) continue;
    for (const ConstantBlob& blob : holder.constants) {
      if (blob.section != place.section) continue;
      uint64_t blobEnd = 0, placeEnd = 0;
      if (__builtin_add_overflow(blob.offset, blob.bytes, &blobEnd) ||
          __builtin_add_overflow(place.offset, own[s].bytes, &placeEnd))
        continue;
      const uint64_t begin = std::max(blob.offset, place.offset), end = std::min(blobEnd, placeEnd);
      if (begin >= end) continue;
      constants.push_back({s, begin - place.offset, blob.data + (begin - blob.offset), end - begin, blob.owner});
    }
  }
  return constants;
}

std::vector<uint32_t> lastWritingParts(const Program& holder) {
  std::vector<uint32_t> last(holder.outputs.size(), kNone);
  for (uint32_t p = 0; p < holder.parts.size(); ++p) {
    const Part& part = holder.parts[p];
    for (uint32_t s = 0; s < part.sections.size(); ++s) {
      if (part.program->sections[s].kind != SectionKind::kOutput) continue;
      for (uint32_t section : {part.sections[s].section, part.sections[s].oddSection})
        if (section != kNone && holder.sections[section].kind == SectionKind::kOutput)
          last[holder.sections[section].binding] = p;
    }
  }
  return last;
}

}  // namespace hpu::recipe
